"""The one way to read a state table: sealed runs and what the epoch has written, seen as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.kernels.words import Bools, Ints
from tidemill.state.keys.keys import Keys
from tidemill.state.lookup import lookup
from tidemill.state.lookup.beginnings import Enough, scan_beginnings
from tidemill.state.lookup.memtable import Memtable
from tidemill.state.lookup.merge_iterator import after, iterate
from tidemill.state.merge.merge import MergeOp, Rows, merge
from tidemill.state.merge.unordered import Unordered

_WEIGHTS = (MergeOp.SUM, MergeOp.SUM)
_WEIGHT_TYPES = (pa.int64(), pa.int64())

Opened = Callable[[], Sequence[Rows]]


class TableReader:
    """A table as of the epoch before, or with what this epoch has written to a memtable until now.

    Parameters
    ----------
    runs : sequence of Rows, or a callable that gives them
        Sealed runs, oldest first; asked for once, at the first read.
    ops : sequence of MergeOp
        How values of equal keys combine.
    value_types : sequence of pa.DataType
        Types of the value columns.
    memtable : Memtable, optional
        Newer than the runs. What is written to it between two reads is in the second.
    """

    def __init__(
        self,
        runs: Sequence[Rows] | Opened,
        ops: Sequence[MergeOp],
        value_types: Sequence[pa.DataType],
        memtable: Memtable | None = None,
    ) -> None:
        self._sealed = runs
        self._ops = ops
        self._types = value_types
        self._memtable = memtable

    def parts(self) -> list[Rows]:
        """The sorted runs that the table is the sum of, oldest first, for what adds up per run; none is empty."""
        if callable(self._sealed):
            self._sealed = self._sealed()
        sealed = [run for run in self._sealed if len(run)]
        return sealed if self._memtable is None else [*sealed, *self._memtable.runs()]

    def __bool__(self) -> bool:
        """Whether there is any row, also of weight 0."""
        return bool(self.parts())

    def rows(self, drop_zero: bool) -> Rows:
        """The whole table."""
        parts = self.parts()
        if not parts:
            return Rows(Keys.empty(), tuple(pa.array([], type_) for type_ in self._types))
        return merge(parts, self._ops, drop_zero)

    def get(self, probes: Keys, drop_zero: bool = True) -> tuple[Bools, tuple[pa.Array[Any], ...]]:
        """Look keys up; as :func:`tidemill.state.lookup.lookup.get`."""
        return lookup.get(self.parts(), probes, self._ops, self._types, drop_zero)

    def scan(self, prefixes: Keys, drop_zero: bool = True) -> tuple[Ints, Rows]:
        """All rows with one of some prefixes; as :func:`tidemill.state.lookup.lookup.scan_prefix`."""
        return lookup.scan_prefix(self.parts(), prefixes, self._ops, drop_zero, self._types)

    def first(
        self, prefixes: Keys, reverse: bool, skip_null: bool = False
    ) -> tuple[Bools, Keys, tuple[pa.Array[Any], ...]]:
        """The first or last row with each prefix; as :func:`tidemill.state.lookup.lookup.first_with_prefix`."""
        return lookup.first_with_prefix(self.parts(), prefixes, reverse, self._ops, skip_null, self._types)

    def iterate(
        self,
        low: bytes = b"",
        high: bytes | None = None,
        prefix: bytes | None = None,
        reverse: bool = False,
        drop_zero: bool = True,
        block: int = 64,
    ) -> Iterator[Rows]:
        """The rows with ``low <= key < high`` and, if given, a prefix, in lazily merged blocks.

        It sees the rows written before the call. Stopping early costs little more than the rows consumed: ``block``
        rows of each run at first. Parameters otherwise as
        :func:`tidemill.state.lookup.merge_iterator.iterate`.
        """
        if prefix is not None:
            low = max(low, prefix)
            ends = [end for end in (high, after(prefix)) if end is not None]
            high = min(ends) if ends else None
        return iterate(self.parts(), self._ops, drop_zero, low, high, reverse, block)


class TableState:
    """A table as an operator sees it: the epochs before, and what this epoch writes.

    Parameters
    ----------
    runs : sequence of Rows, or a callable that gives them
        The table as of the epoch before; opened at the first read.
    ops, value_types
        As of :class:`TableReader`.
    memtable : Memtable
        Takes what is written.

    Attributes
    ----------
    before, now : TableReader
        Without and with what has been written.
    """

    def __init__(
        self,
        runs: Sequence[Rows] | Opened,
        ops: Sequence[MergeOp],
        value_types: Sequence[pa.DataType],
        memtable: Memtable,
    ) -> None:
        self.memtable = memtable
        self._ops, self._types = ops, value_types
        self.before = TableReader(runs, ops, value_types)
        self.now = TableReader(self.before.parts, ops, value_types, memtable)

    @property
    def written(self) -> TableReader:
        """What this epoch has written until now, alone."""
        return TableReader(self.memtable.runs(), self._ops, self._types)

    def write(self, rows: Rows) -> None:
        """Write rows: sorted, keys unique."""
        self.memtable.append(rows)

    def write_unsorted(self, keys: Keys, values: Sequence[pa.Array[Any]]) -> None:
        """Write rows in any order; of equal keys a later row is newer."""
        self.memtable.append_unsorted(keys, values)

    def changes(self) -> Rows:
        """What the epoch has written until now, one row a key."""
        return self.memtable.rows()

    def blocks(self) -> Iterator[Rows]:
        """As :meth:`changes`, in parts of disjoint and ascending keys, none empty: one, unless there is much."""
        return self.memtable.blocks()

    def write_unordered(self, rows: Unordered) -> None:
        """Write rows in any order, whose keys are not encoded yet; of equal keys a later row is newer."""
        self.memtable.append_unordered(rows)

    def unordered(self) -> list[Unordered] | None:
        """What the epoch has written, as :meth:`tidemill.state.lookup.memtable.Memtable.unordered`."""
        return self.memtable.unordered()

    def close(self) -> None:
        """Free what was written; it must not be read afterwards."""
        self.memtable.close()

    def compare(self, prefixes: Keys) -> Rows:
        """All rows of a multiset with one of some prefixes, each with its weight before and what the epoch adds.

        Returns
        -------
        Rows
            By key, with two int64 columns; of rows that have none or cancel out, both may be 0.
        """
        _, old = self.before.scan(prefixes)
        _, new = self.written.scan(prefixes)
        return merge([_widened(old, 0), _widened(new, 1)], _WEIGHTS, drop_zero=False)

    def compare_blocks(self, prefix: bytes, block: int) -> Iterator[Rows]:
        """As :meth:`compare` with one prefix, in blocks as :meth:`TableReader.iterate` gives them."""
        old, new = self.before.parts(), self.memtable.runs()

        def widened(number: int, rows: Rows) -> Rows:
            return _widened(rows, int(number >= len(old)))

        return iterate([*old, *new], _WEIGHTS, False, prefix, after(prefix), block=block, shape=widened)

    def compare_beginnings(self, prefixes: Keys, reach: int, enough: Enough) -> Rows:
        """As :meth:`compare`, only as many rows as are enough:
        :func:`tidemill.state.lookup.beginnings.scan_beginnings`."""
        old, new = self.before.parts(), self.memtable.runs()
        if not old and not new:
            return Rows(Keys.empty(), tuple(pa.array([], type_) for type_ in _WEIGHT_TYPES))
        position = [0] * len(old) + [1] * len(new)

        def widened(number: int, rows: Rows) -> Rows:
            return _widened(rows, position[number])

        return scan_beginnings([*old, *new], prefixes, _WEIGHTS, reach, enough, widened)


def _widened(rows: Rows, position: int) -> Rows:
    """The weight as one of two columns, the other being 0."""
    weights = [column(np.zeros(len(rows), np.int64))] * 2
    weights[position] = rows.values[0]
    return Rows(rows.keys, tuple(weights))
