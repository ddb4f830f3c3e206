"""The mutable write buffer of one state table, one partition and one epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tidemill.kernels.columns import numbers
from tidemill.state.keys.keys import Keys
from tidemill.state.lookup.merge_chunks import merge_chunks
from tidemill.state.memory import MemoryBudget
from tidemill.state.merge import unordered
from tidemill.state.merge.merge import MergeOp, Rows, consolidate, joined, merge
from tidemill.state.merge.unordered import Unordered

BLOCK_BYTES = 32 << 20
"""About how much of a memtable is read at once."""

_GROWTH = 2
_SHARE = 8
"""Fraction of a limited budget that is sorted, merged or written at once: each takes as much again."""
_LEAST_BYTES, _MOST_BYTES = 1 << 20, 32 << 20
_UNORDERED_ROWS = 1 << 13
"""Fewer rows are sorted in a millisecond or two."""
UNORDERED_BYTES = 16 << 20
"""Size of an unordered part, about. A process that reads it sorts all of it."""

Spill = Callable[[Rows], tuple[Rows, int]]
"""Writes a run to a file: returns the mapped run and the bytes written."""


class Memtable:
    """Rows written in an epoch, read at any time as sorted runs, what was written last being newest.

    Batches are sorted when the table is read: one merge for all that have come since, then with older runs that are
    not much larger. So n rows cost O(n log n) however writes and reads alternate.

    Above its budget a memtable is spilled to files of disjoint keys and continues empty; rows in files are older than
    those in memory. With a limited budget rows are sorted in parts, since each part is in memory twice for a moment,
    and runs are merged only while they are small or as the result is read. Keys whose weight is 0 are dropped from
    multisets only; elsewhere they are updates and tombstones, which hide older rows in files or earlier epochs.

    Parameters
    ----------
    ops : sequence of MergeOp
        How values of equal keys combine.
    value_types : sequence of pa.DataType
        Types of the value columns.
    drop_zero : bool
        Whether keys whose weight is 0 can be dropped.
    budget : MemoryBudget, optional
        The budget of its bytes.
    spill : callable, optional
        Writes a run to a file; needed with a limited budget.
    """

    def __init__(
        self,
        ops: Sequence[MergeOp],
        value_types: Sequence[pa.DataType],
        drop_zero: bool,
        budget: MemoryBudget | None = None,
        spill: Spill | None = None,
    ) -> None:
        self.bytes = 0
        self._ops = ops
        self._types = value_types
        self._drop_zero = drop_zero
        self._budget = budget
        self._to_file = spill
        self._spilled: list[Rows] = []
        self._runs: list[Rows] = []
        self._sorted: list[Rows] = []
        self._unsorted: list[Rows | Unordered] = []
        self._waiting = 0
        limit = budget.limit if budget is not None else 0
        self._part = max(_LEAST_BYTES, limit // _SHARE) if limit else 0
        if budget is not None:
            budget.join(self)

    def append(self, rows: Rows) -> None:
        """Write rows: sorted, keys unique."""
        if not len(rows):
            return
        if self._unsorted:
            self._settle()
        self._sorted.append(rows)
        self._wait(rows.nbytes)

    def append_unsorted(self, keys: Keys, values: Sequence[pa.Array[Any]]) -> None:
        """Write rows in any order; of equal keys a later row is newer."""
        if not len(keys):
            return
        self._append(Rows(keys, tuple(values)))

    def append_unordered(self, rows: Unordered) -> None:
        """As :meth:`append_unsorted`, with keys that are encoded when they are sorted."""
        if len(rows):
            self._append(rows)

    def _append(self, rows: Rows | Unordered) -> None:
        if self._sorted:
            self._settle()
        self._unsorted.append(rows)
        self._wait(rows.nbytes)

    def runs(self) -> list[Rows]:
        """All that has been written, as sorted runs with unique keys, oldest first."""
        self._settle()
        return [*self._spilled, *self._runs]

    def rows(self) -> Rows:
        """All that has been written as one sorted run, in memory."""
        self._settle()
        if self._spilled:
            return merge([*self._spilled, *self._runs], self._ops, self._drop_zero)
        self._join()
        return self._runs[0] if self._runs else self._none()

    def blocks(self) -> Iterator[Rows]:
        """As :meth:`rows`, in parts of disjoint and ascending keys, none empty, of about ``BLOCK_BYTES`` at most."""
        self._settle()
        if not self._spilled and not 0 < self._part < self.bytes:
            self._join()
        runs = [*self._spilled, *self._runs]
        yield from merge_chunks(runs, self._ops, self._drop_zero, min(BLOCK_BYTES, self._part or BLOCK_BYTES))

    def unordered(self) -> list[Unordered] | None:
        """All that has been written, in any order, in parts if it is much.

        None where :meth:`blocks` is better: the rows are few, some have been sorted already, most rows of a multiset
        are equal to others or may cancel out, or it matters which value of a key is newer.
        """
        written = [rows for rows in self._unsorted if isinstance(rows, Unordered)]
        if self._runs or self._spilled or self._sorted or len(written) < len(self._unsorted):
            return None
        if sum(map(len, written)) < _UNORDERED_ROWS or MergeOp.LAST in self._ops:
            return None
        if self._drop_zero and not all((numbers(w) > 0).all() for rows in written for w in rows.values(0)):
            return None
        if self._drop_zero and unordered.repeated(written):
            return None
        parts: list[list[Unordered]] = []
        size = UNORDERED_BYTES
        for rows in written:
            if size + rows.nbytes > UNORDERED_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(rows)
            size += rows.nbytes
        return [unordered.concatenated(part) for part in parts]

    def spill(self) -> int:
        """Write what is in memory to files; returns the bytes written."""
        assert self._to_file is not None, "a limited budget needs a place to spill to"
        self._settle()
        written = 0
        for part in merge_chunks(self._runs, self._ops, self._drop_zero, min(_MOST_BYTES, self._part or _MOST_BYTES)):
            mapped, size = self._to_file(part)
            self._spilled.append(mapped)
            written += size
        self._runs = []
        self._resize(0)
        return written

    def close(self) -> None:
        """Free all rows; spilled files are freed with their last reader."""
        if self._budget is not None:
            self._budget.leave(self)
        self.bytes = 0
        self._budget = None
        self._spilled, self._runs, self._sorted, self._unsorted = [], [], [], []

    def _settle(self) -> None:
        """Sort the rows written since the last read."""
        as_written: Rows | None = None
        self._waiting = 0
        if self._unsorted:
            rows = joined([r.encoded() if isinstance(r, Unordered) else r for r in self._unsorted])
            self._unsorted = []
            new = [consolidate(rows.keys, rows.values, self._ops, self._drop_zero)]
        elif self._sorted:
            new, self._sorted = self._sorted, []
            as_written = new[0]
        else:
            return
        size, held = sum(map(len, new)), sum(run.nbytes for run in new)
        while self._runs and len(self._runs[-1]) <= _GROWTH * size:
            held += self._runs[-1].nbytes
            if 0 < self._part < held:
                break
            new.insert(0, self._runs.pop())
            size += len(new[0])
        run = merge(new, self._ops, self._drop_zero)
        if len(run):
            self._runs.append(run)
        if run is not as_written:
            self._shrink()

    def _join(self) -> None:
        """Merge the runs in memory into one."""
        if len(self._runs) > 1:
            run = merge(self._runs, self._ops, self._drop_zero)
            self._runs = [run] if len(run) else []
            self._shrink()

    def _wait(self, size: int) -> None:
        """Count written bytes; sort them when they are many."""
        self._waiting += size
        self._resize(self.bytes + size)
        if 0 < self._part < self._waiting:
            self._settle()

    def _none(self) -> Rows:
        return Rows(Keys.empty(), tuple(pa.array([], type_) for type_ in self._types))

    def _shrink(self) -> None:
        """Count the bytes in memory now, never more than before: a read must not cause a spill."""
        if self._budget is not None:
            held = sum(run.nbytes for run in self._runs)
            change, self.bytes = min(0, held - self.bytes), min(held, self.bytes)
            self._budget.resized(change)

    def _resize(self, size: int) -> None:
        if self._budget is not None:
            change, self.bytes = size - self.bytes, size
            self._budget.resized(change)
