"""An exchange: the books of its symbols, and all that happened in them, numbered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidemill.exchange import rejections
from tidemill.exchange.book import SIDES, Book, Resting
from tidemill.exchange.matching import BOOKED, BUY, EXECUTED, FILLED, REJECTED, SELL, Messages, Requests
from tidemill.exchange.wire import MESSAGE, REQUEST, Records


@dataclass(frozen=True)
class Instrument:
    """What is traded: its symbol, and the units of its prices and volumes."""

    symbol: str
    tick: int = 1
    lot: int = 1


class GapError(Exception):
    """Messages are asked for that are not kept any more.

    Attributes
    ----------
    first : int
        The oldest number that is kept.
    """

    def __init__(self, first: int) -> None:
        super().__init__(first)
        self.first = first


@dataclass(frozen=True)
class Answered:
    """What became of a batch of requests.

    Attributes
    ----------
    messages : Records
        In order, of ``MESSAGE``.
    request : ndarray of int64
        For each message the place of the request in its batch.
    """

    messages: Records
    request: npt.NDArray[np.int64]


class Exchange:
    """Books, and a journal for each. Not for several threads at a time.

    Parameters
    ----------
    instruments : sequence of Instrument
    clock : callable
        Gives the time of messages, ms since midnight by default.
    keep : int
        How many messages of a symbol are kept for listeners that have missed some; twice as many at most.
    """

    def __init__(
        self, instruments: Sequence[Instrument], clock: Callable[[], int] | None = None, keep: int = 1 << 20
    ) -> None:
        self.instruments = tuple(instruments)
        self.symbols = {one.symbol: at for at, one in enumerate(self.instruments)}
        if len(self.symbols) < len(self.instruments) or not self.instruments:
            raise ValueError("an exchange has one or more symbols, each once")
        self.books = [Book(one.tick, one.lot) for one in self.instruments]
        self._replayed: dict[int, Book] = {}
        self._clock = clock or since_midnight
        self._journals = [Journal(keep) for _ in self.instruments]

    def execute(self, requests: Records) -> Answered:
        """Carry out a batch of ``REQUEST``, in order."""
        allowed = requests.copy()
        letter, type_ = allowed["letter"], allowed["type"]
        allowed["id"][(letter == BUY) | (letter == SELL)] = 0
        letter[(letter == EXECUTED) | (letter == FILLED)] = 0
        type_[type_ == BOOKED] = -1
        return self._execute(allowed, {})

    def replay(self, requests: Records, apart: bool = False) -> Answered:
        """Carry out requests out of a trace: also E and F, and new orders that have numbers or are only booked.

        Parameters
        ----------
        apart : bool
            Whether they change a book of their own, where they meet no orders of clients.
        """
        if apart:
            for symbol in np.unique(requests["symbol"]).tolist():
                one = self.instruments[symbol]
                self._replayed.setdefault(symbol, Book(one.tick, one.lot))
        return self._execute(requests, self._replayed if apart else {})

    def _execute(self, requests: Records, books: Mapping[int, Book]) -> Answered:
        symbol = requests["symbol"]
        ends = [*(np.flatnonzero(symbol[1:] != symbol[:-1]) + 1).tolist(), len(requests)]
        found, places, begin = [np.zeros(0, MESSAGE)], [np.zeros(0, np.int64)], 0
        for end in ends if len(requests) else []:
            part = requests[begin:end]
            for messages, request in self._executed(part, int(symbol[begin]), books):
                found.append(messages)
                places.append(request + begin)
            begin = end
        return Answered(np.concatenate(found), np.concatenate(places))

    def _executed(
        self, requests: Records, symbol: int, books: Mapping[int, Book]
    ) -> list[tuple[Records, npt.NDArray[np.int64]]]:
        now = self._clock()
        if symbol >= len(self.books):
            return [(_unknown(requests, symbol, now), np.arange(len(requests)))]
        columns = [np.ascontiguousarray(requests[name]) for name in ("letter", "type", "id", "volume", "price")]
        columns.insert(3, requests["broker"].astype(np.int64))
        found = []
        for part in books.get(symbol, self.books[symbol]).execute_batch(Requests(*columns)):
            messages = _records(part, symbol, now)
            self._journals[symbol].append(messages)
            found.append((messages, part.request.copy()))
        return found

    def halt(self, symbol: int, halted: bool = True) -> None:
        """Halt trading of a symbol, or go on with it."""
        self.books[symbol].halted = halted

    def leave(self, broker: int) -> Answered:
        """Delete all orders of a broker."""
        requests = [
            (ord("D"), 0, at, broker, 0, order.id, 0, 0)
            for at, book in enumerate(self.books)
            for side in SIDES
            for order in book.orders(side)
            if order.owner == broker
        ]
        return self.execute(np.array(requests, REQUEST))

    def sequence(self, symbol: int) -> int:
        """The number of the newest message of a symbol; 0 before the first."""
        return self._journals[symbol].last

    def since(self, symbol: int, sequence: int, most: int | None = None) -> Records:
        """The messages of a symbol with larger numbers, or the first of them.

        GapError when the next one is not kept any more.
        """
        return self._journals[symbol].since(sequence, most)

    def orders(self, symbol: int) -> Iterator[Resting]:
        """The orders that rest, of each side in the order in which they trade; those that trade apart come last."""
        books = [self.books[symbol], *([self._replayed[symbol]] if symbol in self._replayed else [])]
        for book in books:
            for side in SIDES:
                yield from book.orders(side)

    def snapshot(self, symbol: int) -> Records:
        """The orders that rest, as if each had been accepted now, those of a price in their order.

        All have the number of the newest message: a listener goes on with the messages since then.
        """
        now = self._clock()
        rows = [(ord(o.side), o.owner, o.id, o.volume, o.price) for o in self.orders(symbol)]
        found = np.zeros(len(rows), MESSAGE)
        if rows:
            letters, brokers, ids, volumes, prices = zip(*rows, strict=True)
            found["letter"], found["broker"], found["id"], found["price"] = letters, brokers, ids, prices
            found["volume"] = found["left"] = volumes
        found["symbol"], found["sequence"], found["time"] = symbol, self.sequence(symbol), now
        return found


class Journal:
    """The newest messages of a symbol.

    Parameters
    ----------
    keep : int
        At least so many are kept.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._kept = np.zeros(min(2 * keep, 1 << 12), MESSAGE)
        self._count = 0
        self.last = 0
        """The number of the newest one."""

    def append(self, messages: Records) -> None:
        """Number messages, and keep them; rejections get no number and are not kept."""
        numbered = np.flatnonzero(messages["letter"] != REJECTED)
        count = len(numbered)
        messages["sequence"][numbered] = np.arange(self.last + 1, self.last + count + 1)
        self.last += count
        new = messages[numbered[-self._keep :]] if count > self._keep else messages[numbered]
        if self._count + len(new) > len(self._kept):
            self._make_room(len(new))
        self._kept[self._count : self._count + len(new)] = new
        self._count += len(new)

    def _make_room(self, count: int) -> None:
        old = self._kept[max(0, self._count - self._keep) : self._count]
        room = max(len(self._kept), min(2 * len(self._kept), 2 * self._keep), len(old) + count)
        self._kept, self._count = np.zeros(room, MESSAGE), len(old)
        self._kept[: len(old)] = old

    def since(self, sequence: int, most: int | None = None) -> Records:
        """As :meth:`Exchange.since`."""
        missing = self.last - max(0, sequence)
        if missing > self._count:
            raise GapError(self.last - self._count + 1)
        begin = self._count - max(0, missing)
        return self._kept[begin : self._count if most is None else min(self._count, begin + most)].copy()


def _records(part: Messages, symbol: int, now: int) -> Records:
    found = np.zeros(len(part.letter), MESSAGE)
    rejected = part.letter == REJECTED
    found["letter"], found["symbol"], found["broker"], found["time"] = part.letter, symbol, part.owner, now
    found["id"], found["other"], found["volume"], found["price"] = part.id, part.other, part.volume, part.price
    found["left"] = np.where(rejected, 0, part.left)
    found["rejected"] = np.where(rejected, part.left, 0)
    return found


def _unknown(requests: Records, symbol: int, now: int) -> Records:
    found = np.zeros(len(requests), MESSAGE)
    found["letter"], found["rejected"] = REJECTED, rejections.UNKNOWN_SYMBOL
    found["symbol"], found["time"] = symbol, now
    for name in ("broker", "id", "volume", "price"):
        found[name] = requests[name]
    return found


def since_midnight() -> int:
    """The time of this machine, in ms since midnight."""
    now = time.localtime()
    seconds = (now.tm_hour * 60 + now.tm_min) * 60 + now.tm_sec
    return seconds * 1000 + time.time_ns() // 1_000_000 % 1000
