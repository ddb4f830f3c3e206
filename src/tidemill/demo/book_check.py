"""Compares a view of an exchange's book with the book, epoch by epoch, from what the exchange tells a listener.

It keeps a book of its own, in dictionaries, from the messages of the feed. An epoch has read the first so many of them:
behind these, the view has to be that book. Now and then the exchange is asked for all of its orders, and the copy is
compared with them, too.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.exchange.matching import REJECTED
from tidemill.exchange.wire import MESSAGE, Records
from tidemill.runtime.epoch.report import EpochReport

Levels = dict[tuple[str, int], tuple[int, int]]
"""(side, price) to volume and number of orders."""

_WAIT_SECONDS = 10.0
"""For the listener to have heard what the mill has read."""
_BINS, _BINS_PER_SECOND = 600_000, 10_000
_NEW = b"BS"
_PARTS = b"EC"


class BookCopy:
    """The book that messages lead to.

    Attributes
    ----------
    orders : dict
        Number to side, price and volume.
    levels : dict
    unknown : str
        The first message about an order that is not there; empty while there is none.
    """

    def __init__(self) -> None:
        self.orders: dict[int, tuple[str, int, int]] = {}
        self.levels: Levels = {}
        self.unknown = ""

    def apply(self, messages: Records) -> None:
        """Follow messages."""
        columns = (messages[name].tolist() for name in ("letter", "id", "volume", "price"))
        for letter, id_, volume, price in zip(*columns, strict=True):
            if letter in _NEW:
                side = chr(letter)
                self.orders[id_] = side, price, volume
                self._change(side, price, volume, 1)
                continue
            if id_ not in self.orders:
                self.unknown = self.unknown or f"{chr(letter)} of order {id_}, which is not there"
                continue
            side, price, left = self.orders.pop(id_)
            taken = volume if letter in _PARTS else left
            if taken < left:
                self.orders[id_] = side, price, left - taken
            self._change(side, price, -taken, 0 if taken < left else -1)

    def _change(self, side: str, price: int, volume: int, orders: int) -> None:
        before = self.levels.pop((side, price), (0, 0))
        after = before[0] + volume, before[1] + orders
        if after[1]:
            self.levels[side, price] = after


class Freshness:
    """How long messages took from the exchange into a view, in bins of a tenth of a millisecond."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BINS, np.int64)

    def add(self, seconds: npt.NDArray[np.float64]) -> None:
        """Count some."""
        bins = np.clip(seconds * _BINS_PER_SECOND, 0, _BINS - 1).astype(np.int64)
        np.add.at(self._counts, bins, 1)

    def quantile(self, share: float) -> float:
        """Milliseconds within which this share of them came; 0 when there are none."""
        sums = np.cumsum(self._counts)
        return float(np.searchsorted(sums, share * sums[-1])) * 1000 / _BINS_PER_SECOND if sums[-1] else 0.0


@dataclass
class _Told:
    """All orders of the exchange behind a message, as far as they have come."""

    number: int
    orders: list[Records] = field(default_factory=list)
    complete: bool = False


class BookCheck:
    """Follows a feed, the epochs of a mill and the changes of its view; each may come from a thread of its own.

    Attributes
    ----------
    messages : int
        How many the exchange has told.
    read : int
        How many of them are in the view.
    epochs : int
        How many changed the view, and were compared.
    orders_compared : int
        How often the exchange has told all of its orders, and the copy was compared with them.
    difference : str
        The first one; empty while there is none.
    levels : dict
        The view.
    freshness : Freshness
    """

    def __init__(self, table: str) -> None:
        self._table = table
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Records, float]] = deque()
        self._told: deque[_Told] = deque()
        self._rows: dict[int, int] = {}
        self._rows_read = 0
        self._copy = BookCopy()
        self._closed = False
        self.messages = self.read = self.epochs = self.orders_compared = 0
        self.difference = ""
        self.levels: Levels = {}
        self.freshness = Freshness()

    # -- what happens ---------------------------------------------------------------------------------

    def heard(self, messages: Records | None) -> None:
        """Take what the exchange says to a listener; None at its end.

        Messages have numbers without gaps. Orders that it tells when it is asked for them have the number of the newest
        message before them; a rejection of what was asked behind that marks their end.
        """
        with self._changed:
            if messages is None:
                self._closed = True
            else:
                begin = 0
                for end in [*np.flatnonzero(messages["letter"] == REJECTED).tolist(), len(messages)]:
                    self._take(messages[begin:end])
                    if end < len(messages):
                        self._complete()
                    begin = end + 1
            self._changed.notify_all()

    def _take(self, messages: Records) -> None:
        numbers = messages["sequence"]
        new = numbers > np.maximum.accumulate(np.r_[self.messages, numbers])[:-1]
        for number in np.unique(numbers[~new]).tolist():
            if not self._told or self._told[-1].number != number or self._told[-1].complete:
                self._told.append(_Told(number))
            self._told[-1].orders.append(messages[~new & (numbers == number)])
        if new.any():
            self._waiting.append((messages[new], time.monotonic()))
            self.messages = int(numbers[new][-1])

    def _complete(self) -> None:
        if not self._told or self._told[-1].complete:
            self._told.append(_Told(self.messages))  # there is no order
        self._told[-1].complete = True
        self._compare_orders()

    def sealed(self, report: EpochReport) -> None:
        """Note how many messages the epochs have read so far."""
        with self._changed:
            self._rows_read += report.tables.get(self._table, 0)
            self._rows[report.epoch] = self._rows_read
            self._changed.notify_all()

    def changed(self, epoch: int, changes: pa.Table) -> None:
        """An epoch has changed the view: compare it.

        Parameters
        ----------
        changes : pyarrow.Table
            Columns side, price, volume, orders and __weight.
        """
        now = time.monotonic()
        gone: list[tuple[tuple[str, int], tuple[int, int]]] = []
        come: list[tuple[tuple[str, int], tuple[int, int]]] = []
        columns = (changes[name].to_pylist() for name in ("side", "price", "volume", "orders", "__weight"))
        for side, price, volume, orders, weight in zip(*columns, strict=True):
            (come if weight > 0 else gone).append(((side, int(price)), (int(volume), orders)))
        with self._changed:
            self._changed.wait_for(lambda: epoch in self._rows or self._closed, _WAIT_SECONDS)
            count = self._rows.get(epoch, -1)
            self._changed.wait_for(lambda: self.messages >= count or self._closed, _WAIT_SECONDS)
            for level, values in gone:
                if self.levels.get(level) == values:
                    del self.levels[level]
            self.levels.update(come)
            self._rows = {number: rows for number, rows in self._rows.items() if number > epoch}
            self._forward(count, now)
            self.epochs += 1
            other = _first_difference(self.levels, self._copy.levels)
            where = f"epoch {epoch}, message {self.read:,}"
            if other is not None:
                both = f"view {self.levels.get(other)}, book {self._copy.levels.get(other)}"
                self._differ(f"{where}: {other[0]} at {other[1]}: {both}")
            elif self.read != count:
                self._differ(f"{where}: the epoch has read {count:,} messages")
            self._changed.notify_all()

    def reset(self) -> None:
        """All rows of the view follow."""
        with self._changed:
            self.levels = {}

    # -- the copy -------------------------------------------------------------------------------------

    def _forward(self, count: int, now: float) -> None:
        """Apply messages up to a number; compare the copy with what the exchange has told on the way."""
        self._compare_orders()
        while self._waiting and self.read < count:
            messages, at = self._waiting.popleft()
            next_told = min((told.number for told in self._told if told.number > self.read), default=count)
            end = min(count, next_told)
            part = messages[messages["sequence"] <= end]
            if len(part):
                self._copy.apply(part)
                self._differ(self._copy.unknown)
                self.read = int(part["sequence"][-1])
                self.freshness.add(np.full(len(part), now - at))
            if len(part) < len(messages):
                self._waiting.appendleft((messages[len(part) :], at))
            self._compare_orders()

    def _compare_orders(self) -> None:
        while self._told and self._told[0].number <= self.read:
            if self._told[0].number == self.read and not self._told[0].complete:
                return
            asked = self._told.popleft()
            if asked.number < self.read:
                continue  # the copy is beyond it
            told = np.concatenate(asked.orders) if asked.orders else np.zeros(0, MESSAGE)
            columns = (told[name].tolist() for name in ("id", "letter", "price", "volume"))
            orders = {id_: (chr(letter), price, volume) for id_, letter, price, volume in zip(*columns, strict=True)}
            self.orders_compared += 1
            order = _first_difference(self._copy.orders, orders)
            if order is not None:
                values = f"copy {self._copy.orders.get(order)}, exchange {orders.get(order)}"
                self._differ(f"message {asked.number:,}: order {order}: {values}")

    def _differ(self, what: str) -> None:
        self.difference = self.difference or what

    def wait(self, compared: int, seconds: float) -> bool:
        """Wait until the view has all that the exchange has told, and orders were compared so often; whether it has."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self.read == self.messages and self.orders_compared >= compared, seconds
            )


def _first_difference(left: Mapping[Any, object], right: Mapping[Any, object]) -> Any:
    """The first key whose values differ; None when there is none."""
    return next((key for key in sorted(left.keys() | right.keys()) if left.get(key) != right.get(key)), None)
