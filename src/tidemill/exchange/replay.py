"""Traces of an exchange, replayed at this one: historic messages become requests, beside the orders of clients.

A trace is a file of lines ``t,id,action,volume,price``, as tables ``USING orderbook`` read; it may be compressed. B and
S are new orders, E and F executions of them with somebody who is not in the trace, C and D cancel them in part and in
full; X and T concern no order, and a C of 0 changes none. Orders keep their numbers, moved up by :data:`FIRST_ID`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.exchange.chance import Ints
from tidemill.exchange.exchange import Exchange
from tidemill.exchange.matching import BOOKED, LIMIT, REJECTED
from tidemill.exchange.wire import REQUEST, Records
from tidemill.formats import open as open_format
from tidemill.formats.base import RowError
from tidemill.formats.rows.malformed import MODE, fail_fast

FIRST_ID = 1 << 40
"""Number of the order 0 of a trace; clients' orders have smaller ones."""
FIRST_BROKER = 1 << 31
BROKERS = 8
"""The orders of a trace are those of brokers ``FIRST_BROKER + id mod BROKERS``."""

_SCHEMA = "t DOUBLE, id BIGINT, action STRING, volume DOUBLE, price DOUBLE"
_REQUESTS = {"B": "B", "S": "S", "E": "E", "F": "F", "C": "X", "D": "D"}
_LETTERS = np.array([ord(letter) for letter in _REQUESTS.values()], np.int64)
_CANCEL = list(_REQUESTS).index("C")
_OTHERS = "XT"
_ACTIONS = pa.array([*_REQUESTS, *_OTHERS])
_MOST_ID = 1 << 62


class Policy(StrEnum):
    """With whom orders of clients trade while a trace is replayed."""

    REPLAY = "replay"
    """With nobody: new ones are rejected, and the trace is told as it was."""
    ALL = "all"
    """With all; the orders of the trace are matched like those of clients."""
    LIVE = "live"
    """Only with each other; the trace is told as it was."""


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
        What malformed rows are, as for tables: ``PERMISSIVE`` and ``DROPMALFORMED`` leave them out and count them,
        ``FAILFAST`` ends with an error.

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
        good = place >= 0
        for column in (t, id_, volume, price):
            good &= column.is_valid().to_numpy(zero_copy_only=False)
        ids = id_.fill_null(-1).to_numpy(zero_copy_only=False)
        good &= (ids >= 0) & (ids < _MOST_ID)
        if not good.all():
            row = int(np.argmin(good))
            raw = ",".join(str(value) for value in batch.slice(row, 1).to_pylist()[0].values()).encode()
            fail_fast(self._mode, [RowError(int(positions[row]), None, "bad_row", raw, True)], "mend the trace")
        self.malformed += int((~good).sum())
        nothing = (place == _CANCEL) & (volume.fill_null(0.0).to_numpy(zero_copy_only=False) == 0)
        kept = np.flatnonzero(good & (place < len(_REQUESTS)) & ~nothing)
        numbers = [np.rint(column.fill_null(0.0).to_numpy(zero_copy_only=False)[kept]) for column in (t, volume, price)]
        times, volumes, prices = (values.astype(np.int64) for values in numbers)
        return TraceRows(times, _LETTERS[place[kept]], ids[kept], volumes, prices)


class Replay:
    """Replays a trace at one symbol of an exchange.

    Attributes
    ----------
    requests, rejected : int
        How many so far; of a trace that is whole the policies ``replay`` and ``live`` reject none, while with ``all``
        an order may have been executed before its trace says so.
    """

    def __init__(self, exchange: Exchange, symbol: int = 0, policy: Policy = Policy.ALL) -> None:
        self._symbol, self._type = symbol, LIMIT if policy is Policy.ALL else BOOKED
        self.apart = policy is Policy.LIVE
        self.requests = self.rejected = 0
        if policy is Policy.REPLAY:
            exchange.halt(symbol)

    def made(self, rows: TraceRows) -> Records:
        """The requests of rows, for :meth:`Exchange.replay`."""
        found = np.zeros(len(rows), REQUEST)
        found["letter"], found["symbol"], found["type"] = rows.letter, self._symbol, self._type
        found["id"], found["volume"], found["price"] = rows.id + FIRST_ID, rows.volume, rows.price
        found["broker"] = FIRST_BROKER + rows.id % BROKERS
        return found

    def learn(self, messages: Records, count: int) -> None:
        """Count what became of so many requests."""
        self.requests += count
        self.rejected += int((messages["letter"] == REJECTED).sum())
