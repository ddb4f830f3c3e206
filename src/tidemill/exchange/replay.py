"""Traces of an exchange, replayed at this one: historic messages become requests, beside the orders of clients.

A trace is a file of lines ``t,id,action,volume,price``, as tables ``USING orderbook`` read; it may be compressed. B and
S are new orders, E and F executions of them with somebody who is not in the trace, C and D cancel them in part and in
full; X and T concern no order, and a C of 0 changes none. Orders keep their numbers, moved up by :data:`FIRST_ID`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.exchange.book import Book
from tidemill.exchange.chance import Ints
from tidemill.exchange.exchange import Exchange
from tidemill.exchange.matching import BOOKED, BUY, EXECUTED, FILLED, LIMIT, MARKET, REJECTED, SELL, Requests
from tidemill.exchange.policy import Policy
from tidemill.exchange.wire import OWN_BROKERS, REQUEST, Records
from tidemill.formats import open as open_format
from tidemill.formats.base import RowError
from tidemill.formats.rows.malformed import MODE, fail_fast

FIRST_ID = 1 << 40
"""Number of the order 0 of a trace; clients' orders have smaller ones."""
FIRST_BROKER = OWN_BROKERS
BROKERS = 8
"""The orders of a trace are those of brokers ``FIRST_BROKER + id mod BROKERS``."""

_SCHEMA = "t DOUBLE, id BIGINT, action STRING, volume DOUBLE, price DOUBLE"
_REQUESTS = {"B": "B", "S": "S", "E": "E", "F": "F", "C": "X", "D": "D"}
_LETTERS = np.array([ord(letter) for letter in _REQUESTS.values()], np.int64)
_CANCEL, _EXECUTED = list(_REQUESTS).index("C"), list(_REQUESTS).index("E")
_OTHERS = "XT"
_ACTIONS = pa.array([*_REQUESTS, *_OTHERS])
_MOST_ID = 1 << 62


@dataclass(frozen=True)
class TraceRows:
    """Rows of a trace; ``letter`` is that of the request that each becomes."""

    t: Ints
    letter: Ints
    id: Ints
    volume: Ints
    price: Ints

    def __len__(self) -> int:
        return len(self.t)

    def part(self, begin: int, end: int) -> TraceRows:
        """Some of them."""
        columns = (self.t, self.letter, self.id, self.volume, self.price)
        return TraceRows(*(column[begin:end] for column in columns))


class TraceReader:
    """Reads a trace, buffer by buffer.

    Parameters
    ----------
    path : Path
    mode : str
        What becomes of malformed rows, also of those with numbers that are negative or not whole, as for tables:
        ``PERMISSIVE`` and ``DROPMALFORMED`` leave them out and count them, ``FAILFAST`` ends with an error.

    Attributes
    ----------
    malformed : int
        Rows that were left out so far.

    Raises
    ------
    TidemillError
        TM4003 for another mode, TM4020 for a malformed row, and OSError for the file, when rows are taken.
    """

    def __init__(self, path: Path, mode: str = "PERMISSIVE") -> None:
        self._format = open_format("csv", _SCHEMA, mode=mode, quote="")
        self._path, self._mode = path, MODE.of({MODE.key: mode})
        self.malformed = 0

    def __iter__(self) -> Iterator[TraceRows]:
        for rows in self._format.rows(self._path):
            found = self._rows(rows.batch, rows.positions)
            self.malformed += sum(error.dropped for error in rows.errors)
            if len(found):
                yield found

    def _rows(self, batch: pa.RecordBatch, positions: Ints) -> TraceRows:
        """The rows that are requests; those with a missing or bad value are counted."""
        t, id_, action, volume, price = batch.columns
        place = pc.index_in(action, value_set=_ACTIONS).fill_null(-1).to_numpy(zero_copy_only=False)
        ids = id_.fill_null(-1).to_numpy(zero_copy_only=False)
        good = (place >= 0) & (ids >= 0) & (ids < _MOST_ID)
        numbers = []
        for column in (t, volume, price):
            values = column.fill_null(-1.0).to_numpy(zero_copy_only=False)
            whole = (values >= 0) & (values < _MOST_ID) & (values == np.floor(values))  # not of NaN either
            good &= whole
            numbers.append(np.where(whole, values, 0).astype(np.int64))
        good &= (place != _EXECUTED) | (numbers[1] > 0)
        if not good.all():
            row = int(np.argmin(good))
            raw = ",".join(str(value) for value in batch.slice(row, 1).to_pylist()[0].values()).encode()
            fail_fast(self._mode, [RowError(int(positions[row]), None, "bad_row", raw, True)], "mend the trace")
        self.malformed += int((~good).sum())
        nothing = (place == _CANCEL) & (numbers[1] == 0)
        kept = np.flatnonzero(good & (place < len(_REQUESTS)) & ~nothing)
        times, volumes, prices = (values[kept] for values in numbers)
        return TraceRows(times, _LETTERS[place[kept]], ids[kept], volumes, prices)


class Replay:
    """Replays a trace at one symbol of an exchange.

    With the policy ``all`` an order of the trace that comes in may trade at once, as it did when the trace was made, or
    with a client, or not at all; what the trace says of it later brings it down to what was left of it then. So a trace
    that no client takes part in gives the book that it describes, whether it tells of both orders of a trade or only of
    the one that rested.

    Attributes
    ----------
    requests, rejected : int
        How many so far; of a trace that is whole none is rejected. With ``all``, what is said of orders that are not
        there is passed over.
    """

    def __init__(self, exchange: Exchange, symbol: int = 0, policy: Policy = Policy.ALL) -> None:
        self._symbol = symbol
        self._described = Book() if policy is Policy.ALL else None
        self.apart = policy is Policy.LIVE
        self.requests = self.rejected = 0
        if policy is Policy.REPLAY:
            exchange.halt(symbol)

    def made(self, rows: TraceRows) -> Records:
        """The requests of rows, for :meth:`Exchange.replay`."""
        found = np.zeros(len(rows), REQUEST)
        found["letter"], found["symbol"], found["type"] = rows.letter, self._symbol, BOOKED
        found["id"], found["volume"], found["price"] = rows.id + FIRST_ID, rows.volume, rows.price
        found["broker"] = FIRST_BROKER + rows.id % BROKERS
        if self._described is None:
            booked = (found["letter"] == BUY) | (found["letter"] == SELL)
            found["type"][~booked] = LIMIT
            return found
        left = self._left(self._described, found)
        new = (found["letter"] == BUY) | (found["letter"] == SELL)
        found["type"][new] = np.where(found["price"][new] == 0, MARKET, LIMIT)
        found["letter"][found["letter"] == FILLED] = EXECUTED
        found["price"][~new] = left[~new]
        return found

    def _left(self, book: Book, requests: Records) -> Ints:
        """What the trace leaves of each order, after each of its messages; 0 of one that it does not know."""
        columns = [np.ascontiguousarray(requests[name]) for name in ("letter", "type", "id", "volume", "price")]
        columns[1] = np.where((columns[0] == BUY) | (columns[0] == SELL), BOOKED, LIMIT).astype(np.int8)
        columns.insert(3, requests["broker"].astype(np.int64))
        left = np.zeros(len(requests), np.int64)
        for part in book.execute_batch(Requests(*columns)):
            left[part.request] = np.where(part.letter == REJECTED, 0, part.left)
        return left

    def learn(self, messages: Records, count: int) -> None:
        """Count what became of so many requests."""
        self.requests += count
        self.rejected += int((messages["letter"] == REJECTED).sum())
