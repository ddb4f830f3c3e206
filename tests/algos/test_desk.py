"""Orders, limits and accounts of a strategy, against sums over its executions."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tidemill.algos.account import Account, Limits
from tidemill.algos.desk import Desk
from tidemill.exchange.exchange import Exchange, Instrument
from tidemill.exchange.market import Market, MarketRules
from tidemill.exchange.wire import REQUEST, Records

BROKER = 101


class Trading:
    """A desk at an exchange of its own; what it sends is carried out when the test says so."""

    def __init__(self, limits: Limits | None = None, fee: int = 0) -> None:
        self.sent: list[Records] = []
        self.exchange = Exchange([Instrument("ACME")])
        self.desk = Desk(BROKER, 0, self.sent.append, Account(10_000, fee), limits or Limits())

    def exchange_them(self, more: Records | None = None) -> None:
        """Carry out what was sent, and requests of others; tell the desk."""
        own = [*self.sent, *([] if more is None else [more])]
        requests = np.concatenate(own) if own else np.zeros(0, REQUEST)
        self.sent.clear()
        answered = self.exchange.execute(requests)
        tags = requests["time"][answered.request].tolist()
        for message, tag in zip(answered.messages, tags, strict=True):
            if message["broker"] == BROKER:
                values = (int(message[name]) for name in ("letter", "id", "volume", "price", "left"))
                letter, *rest = values
                self.desk.take(letter, 7, tag, *rest)


def others(letter: str, volume: int, price: int) -> Records:
    found = np.zeros(1, REQUEST)
    found["letter"], found["broker"], found["volume"], found["price"] = ord(letter), 7, volume, price
    return found


def test_an_order_from_its_beginning_to_its_end() -> None:
    trading = Trading(fee=1000)
    desk, account = trading.desk, trading.desk.account
    number = desk.buy(10, 50)
    assert number == 1 and [(o.side, o.left, o.id) for o in desk.orders] == [("B", 10, 0)]
    trading.exchange_them()
    assert [o.id for o in desk.orders] == [1]
    trading.exchange_them(others("S", 4, 49))
    assert (desk.position, account.cash, desk.orders[0].left) == (4, 10_000 - 4 * 50 - 1, 6), "a fee is rounded up"
    desk.cancel(number)
    desk.cancel(number)
    trading.exchange_them()
    assert desk.orders == [] and desk.position == 4 and desk.rejected == 0
    account.price = 60
    assert (account.equity, account.profit, account.fees) == (10_000 + 40 - 1, 39, 1)
    assert [(f.side, f.volume, f.price, f.left) for f in account.fills] == [("B", 4, 50, 6)]


def test_an_order_that_is_taken_back_before_it_is_known() -> None:
    trading = Trading()
    number = trading.desk.sell(10, 50)
    assert number is not None
    trading.desk.cancel(number)
    trading.exchange_them()
    trading.exchange_them()
    assert trading.desk.orders == [] and list(trading.exchange.orders(0)) == []


def test_what_is_beyond_a_limit_is_not_sent() -> None:
    trading = Trading(Limits(position=100, order=60, orders=3))
    desk = trading.desk
    assert desk.buy(61, 5) is None and desk.buy(0, 5) is None and desk.sell(-5, 5) is None
    assert desk.buy(60, 5) and desk.buy(41, 5) is None and desk.buy(40, 5) and desk.buy(1, 5) is None
    assert desk.sell(60, 9) and desk.sell(1, 9) is None, "three orders are the most"
    assert (desk.refused, desk.sent) == (6, 3)
    trading.exchange_them()
    assert len(list(trading.exchange.orders(0))) == 3
    for kind, price in (("stop", 5), ("fok", None), ("market", 5)):
        with pytest.raises(ValueError, match="limit, market, ioc, fok"):
            desk.buy(1, price, kind)
    for volume, price in ((1.5, 5), (1, float("nan")), (1, 5.0)):
        with pytest.raises(TypeError):
            desk.buy(volume, price)  # type: ignore[arg-type]
    desk.cancel_all()
    trading.exchange_them()
    refused = desk.refused
    assert desk.buy(1, 0) is None and desk.sell(1, -5) is None and desk.refused == refused + 2


def test_market_orders_and_those_that_the_exchange_rejects() -> None:
    trading = Trading()
    trading.exchange_them(others("S", 4, 49))
    trading.desk.buy(10)
    trading.exchange_them()
    assert trading.desk.position == 4 and trading.desk.orders == [], "what is left of a market order is deleted"
    trading.desk.buy(10, 48, "fok")
    trading.exchange_them()
    assert (trading.desk.rejected, trading.desk.orders) == (1, [])


def test_a_desk_knows_what_the_exchange_knows(seed: int) -> None:
    """Random orders in a market: its open orders are those that rest, its position and cash what was executed."""
    chance = random.Random(seed)
    trading, market = Trading(Limits(position=5000)), Market(seed, MarketRules(resting=200, tick=1, price=5000))
    seen: list[tuple[str, int, int]] = []
    for _ in range(200):
        for _ in range(chance.randrange(4)):
            price = chance.choice((None, market._price + chance.randrange(-5, 6)))
            act = chance.choice((trading.desk.buy, trading.desk.sell))
            act(chance.randrange(1, 300), price, "" if price is None else chance.choice(("limit", "ioc", "fok")))
        for order in trading.desk.orders:
            if chance.random() < 0.2:
                trading.desk.cancel(order.number)
        before = trading.exchange.sequence(0)
        trading.exchange_them(market.requests())
        messages = trading.exchange.since(0, before)
        market.learn(messages)
        for m in messages[(messages["broker"] == BROKER) & np.isin(messages["letter"], [ord("E"), ord("F")])]:
            mine = next(f for f in trading.desk.account.fills[len(seen) :])
            seen.append((mine.side, int(m["volume"]), int(m["price"])))
        resting = {o.id: o.volume for o in trading.exchange.orders(0) if o.owner == BROKER}
        assert {o.id: o.left for o in trading.desk.orders} == resting, f"seed {seed}"
    account = trading.desk.account
    assert account.position == sum(v if side == "B" else -v for side, v, _ in seen)
    assert account.cash == 10_000 - sum(v * p if side == "B" else -v * p for side, v, p in seen)
    assert len(seen) > 50
