"""Where a strategy sends its orders: they are checked against its limits, numbered, and followed to their end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import index

import numpy as np

from tidemill.algos.account import Account, Fill, Limits
from tidemill.exchange.matching import BUY, CANCEL, DELETE, EXECUTED, FILLED, REDUCED, REJECTED, SELL
from tidemill.exchange.wire import REQUEST, TYPES, Records


@dataclass
class Open:
    """An order that is not at its end. ``id`` is the exchange's number of it, 0 until that is known."""

    number: int
    side: str
    price: int
    left: int
    id: int = 0
    cancelled: bool = False


class Desk:
    """The orders and the account of one strategy.

    Parameters
    ----------
    broker : int
        Whose orders they are, at the exchange.
    symbol : int
        Its place in the exchange's list.
    send : callable
        Takes requests, of ``REQUEST``.

    Attributes
    ----------
    account : Account
    refused, rejected : int
        Orders that were beyond a limit, and those that the exchange did not take.
    """

    def __init__(
        self, broker: int, symbol: int, send: Callable[[Records], None], account: Account, limits: Limits
    ) -> None:
        self.account, self.limits = account, limits
        self._broker, self._symbol, self._send = broker, symbol, send
        self._next = 1
        self._open: dict[int, Open] = {}
        self._numbers: dict[int, int] = {}
        self.refused = self.rejected = 0
        self.closed = False
        """Whether it takes no orders any more."""

    # -- for strategies -----------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The volume held; negative after more sales than purchases."""
        return self.account.position

    @property
    def sent(self) -> int:
        """How many orders were sent."""
        return self._next - 1

    @property
    def orders(self) -> list[Open]:
        """Those that are not at their end, oldest first."""
        return list(self._open.values())

    def buy(self, volume: int, price: int | None = None, kind: str = "") -> int | None:
        """Send an order; its number, or None when it is beyond a limit.

        Parameters
        ----------
        volume, price : int
            Whole numbers. An order without a price is a market order.
        kind : str
            ``limit`` for an order with a price, unless it is ``ioc`` or ``fok``.
        """
        return self._order("B", volume, price, kind)

    def sell(self, volume: int, price: int | None = None, kind: str = "") -> int | None:
        """As :meth:`buy`."""
        return self._order("S", volume, price, kind)

    def cancel(self, number: int) -> None:
        """Take back what is left of an order; nothing, when it is at its end."""
        order = self._open.get(number)
        if order is None or order.cancelled:
            return
        order.cancelled = True
        if order.id:
            self._request(DELETE, order.id, 0, 0, 0, number)

    def cancel_all(self) -> None:
        """Take back all orders."""
        for number in list(self._open):
            self.cancel(number)

    def _order(self, side: str, volume: int, price: int | None, kind: str) -> int | None:
        kind = kind or ("market" if price is None else "limit")
        if kind not in TYPES or (kind == "market") != (price is None):
            raise ValueError(f"an order is {', '.join(TYPES)}, all but market with a price; not {kind!r} at {price}")
        volume, price = index(volume), 0 if price is None else index(price)
        if self.closed or (kind != "market" and price <= 0) or not self._allowed(side, volume):
            self.refused += 1
            return None
        number, self._next = self._next, self._next + 1
        self._open[number] = Open(number, side, price, volume)
        self._request(BUY if side == "B" else SELL, 0, volume, price, TYPES.index(kind), number)
        return number

    def _allowed(self, side: str, volume: int) -> bool:
        limits, sign = self.limits, 1 if side == "B" else -1
        waiting = sum(order.left for order in self._open.values() if order.side == side)
        reached = sign * self.position + waiting + volume
        return 0 < volume <= limits.order and len(self._open) < limits.orders and reached <= limits.position

    def _request(self, letter: int, id_: int, volume: int, price: int, type_: int, number: int) -> None:
        found = np.zeros(1, REQUEST)
        found["letter"], found["type"], found["symbol"], found["broker"] = letter, type_, self._symbol, self._broker
        found["time"], found["id"], found["volume"], found["price"] = number, id_, volume, price
        self._send(found)

    # -- for who runs it ----------------------------------------------------------------------------------

    def take(self, letter: int, time: int, tag: int, id_: int, volume: int, price: int, left: int) -> Fill | None:
        """Follow a message about this broker's orders; the execution that it is, if it is one.

        Parameters
        ----------
        time : int
            When it came, in ms since midnight.
        tag : int
            The number of the request that it answers, if it does.
        """
        if letter in (BUY, SELL) and tag in self._open:
            order = self._open[tag]
            order.id, self._numbers[id_] = id_, tag
            if order.cancelled:
                self._request(DELETE, id_, 0, 0, 0, tag)
            return None
        if letter == REJECTED:
            if tag in self._open and not id_:
                del self._open[tag]
                self.rejected += 1
            return None
        found = self._open.get(self._numbers.get(id_, 0))
        if found is None:
            return None
        found.left = left if letter in (EXECUTED, FILLED, REDUCED, CANCEL) else 0
        fill = None
        if letter in (EXECUTED, FILLED):
            fill = Fill(time, found.number, found.side, volume, price, left)
            self.account.book(fill)
        if not found.left:
            del self._open[found.number], self._numbers[id_]
        return fill
