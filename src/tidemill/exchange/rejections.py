"""Why the exchange rejects a request: the numbers of reasons, declared once."""

from __future__ import annotations

from tidemill.errors import TidemillError
from tidemill.exchange import matching

BAD_LINE, UNKNOWN_SYMBOL, TOO_LONG, LISTENERS_LISTEN = range(11, 15)
OWN_BROKER = 16
"""Reasons beside those of matching."""

_NUMBERED = {
    matching.DUPLICATE: ("TM9515", "there is such an order already", "a trace gives each order another number"),
    matching.UNKNOWN_REQUEST: ("TM9501", "there is no such request", "B, S, D, X and R are requests"),
    matching.UNKNOWN_ORDER: ("TM9502", "there is no such order", "it was executed or deleted, or never accepted"),
    matching.NOT_OWNER: ("TM9503", "the order is another broker's", "only who has sent an order changes it"),
    matching.BAD_VOLUME: ("TM9504", "the volume is not positive, or too large", f"at most {matching.MOST_VOLUME:,}"),
    matching.BAD_LOT: ("TM9505", "the volume is no multiple of the lot", "send whole lots"),
    matching.BAD_PRICE: ("TM9506", "the price is not positive, or too large", f"at most {matching.MOST_PRICE:,}"),
    matching.BAD_TICK: ("TM9507", "the price is no multiple of the tick", "send whole ticks"),
    matching.BAD_TYPE: ("TM9508", "there is no such type of order", "limit, market, ioc or fok"),
    matching.HALTED: ("TM9509", "trading is halted", "orders can be deleted meanwhile"),
    matching.NOT_FILLED: ("TM9510", "not all of it can be executed at once", "fok orders are executed whole or not"),
    BAD_LINE: ("TM9511", "a line is no request", "time order broker action volume price [symbol [type]]"),
    UNKNOWN_SYMBOL: ("TM9512", "there is no such symbol", "the exchange lists its symbols when it starts"),
    TOO_LONG: ("TM9513", "a line is too long", "end requests with a newline"),
    OWN_BROKER: ("TM9516", "the broker is one of the exchange itself", "brokers of clients are below 2147483648"),
    LISTENERS_LISTEN: ("TM9514", "a listener sends no requests", "connect as an interactive client"),
}


def rejection(reason: int, got: str = "") -> TidemillError:
    """The numbered error of a reason."""
    number, what, hint = _NUMBERED[reason]
    return TidemillError(number, what, got=got, hint=hint)
