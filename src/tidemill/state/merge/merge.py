"""Sorted runs: making one from unsorted rows, and merging several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import byte_size, column, room
from tidemill.kernels.words import I64, I64_OUT, U8, Bytes, Ints, equal, kernel
from tidemill.state.keys.keys import Keys, sort
from tidemill.state.keys.layout import fixed
from tidemill.state.keys.run_table import addresses, run_table
from tidemill.state.merge.combining import check_weighted, combine, combine_one, is_word, select, summable
from tidemill.state.merge.interleaving import MOST_RUNS, Sources, interleave
from tidemill.state.merge.merging import copy_keys, last_words, order_of, sum_floats, sum_ints
from tidemill.state.merge.operations import MergeOp, columns_by_op

__all__ = ["MergeOp", "Rows", "consolidate", "joined", "merge", "negated"]

_KEEP_ALL = np.empty(0, np.bool_)

Origin: TypeAlias = tuple[str, int, int, int]


@dataclass(frozen=True, eq=False)
class Rows:
    """Keys with their values.

    Attributes
    ----------
    keys : Keys
        n keys in ascending byte order, unique unless stated otherwise.
    values : tuple of pa.Array
        Columns of n values.
    origin : Origin or None
        File, section, first row and row after the last, where the rows lie in a run file. Files never change
        and names are not reused, so what is computed from the rows may be kept under it. None in memory.
    """

    keys: Keys
    values: tuple[pa.Array[Any], ...]
    origin: Origin | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.keys.offsets) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values."""
        keys = self.keys
        size = 8 * len(keys) + int(keys.offsets[-1] - keys.offsets[0])
        return size + sum(map(byte_size, self.values))

    def slice(self, start: int, stop: int) -> Rows:
        """Rows ``start`` to ``stop - 1``, zero copy."""
        return Rows(self.keys.slice(start, stop), tuple(v.slice(start, stop - start) for v in self.values))

    def at(self, origin: Origin) -> Rows:
        """The same rows, known under an origin."""
        return Rows(self.keys, self.values, origin)

    def take(self, rows: Ints) -> Rows:
        """The given rows (int64), copied."""
        return Rows(self.take_keys(rows), self.take_values(rows))

    def take_keys(self, rows: Ints) -> Keys:
        """The keys of the given rows (int64), copied."""
        return self.keys.take(rows)

    def take_values(self, rows: Ints) -> tuple[pa.Array[Any], ...]:
        """The values of the given rows (int64), copied."""
        index = column(rows)
        return tuple(v.take(index) for v in self.values)

    def value_types(self) -> list[pa.DataType]:
        """Types of the value columns."""
        return [v.type for v in self.values]


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows one after the other, copied unless there is only one part; keys are in any order."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part.values for part in parts), strict=True)
    return Rows(Keys.concat([part.keys for part in parts]), tuple(pa.concat_arrays(column) for column in columns))


def negated(rows: Rows) -> Rows:
    """Rows of a multiset with their weights negated: what takes them out."""
    return Rows(rows.keys, (column(-summable(rows.values[0], np.int64)),))


@kernel(I64_OUT, I64, U8)
def segment_starts(offsets: Ints, data: Bytes) -> Ints:
    """Where each run of equal keys starts among sorted ones (int64, segments + 1)."""
    rows = offsets.size - 1
    starts = np.empty(rows + 1, np.int64)
    segments = 0
    for i in range(rows):
        if i > 0 and equal(data, offsets[i], offsets[i + 1], data, offsets[i - 1], offsets[i]):
            continue
        starts[segments] = i
        segments += 1
    starts[segments] = rows
    return starts[: segments + 1].copy()


def consolidate(keys: Keys, values: Sequence[pa.Array[Any]], ops: Sequence[MergeOp], drop_zero: bool) -> Rows:
    """Make a sorted run of rows in any order.

    Parameters
    ----------
    keys : Keys
        n keys, duplicates allowed; of equal keys a later row is newer.
    values : sequence of pa.Array
        Columns of n values, two each for ``SUM_DD`` and ``SUM_I128``, four for ``SUM_QD``.
    ops : sequence of MergeOp
        How to combine the values of equal keys.
    drop_zero : bool
        Whether to drop keys whose first column, an int64 ``SUM``, is 0 after combining.

    Returns
    -------
    Rows
        Sorted, keys unique.
    """
    order = sort(keys)
    keys = keys.take(order)
    starts = segment_starts(keys.offsets, keys.data)
    kept, columns = combine(order, starts, values, ops, drop_zero)
    return Rows(keys if len(kept) == len(order) else keys.take(starts[kept]), columns)


def _weighty(rows: Rows) -> bool:
    """Whether no weight is 0."""
    return bool(summable(rows.values[0], np.int64).all())


def merge(runs: Sequence[Rows], ops: Sequence[MergeOp], drop_zero: bool) -> Rows:
    """Merge sorted runs into one; linear in their rows. A single run is given back as it is.

    Parameters
    ----------
    runs : sequence of Rows
        At least one, oldest first, all of the same columns; each sorted, its keys unique.
    ops : sequence of MergeOp
        How to combine the values of equal keys.
    drop_zero : bool
        Whether to drop keys whose first column, an int64 ``SUM``, is 0 after combining.

    Returns
    -------
    Rows
        Sorted, keys unique.
    """
    if not runs:
        raise ValueError("no runs to merge")
    filled = [run for run in runs if len(run)] or [runs[0]]
    if len(filled) == 1 and (not drop_zero or _weighty(filled[0])):
        return filled[0]
    while len(filled) > MOST_RUNS:
        filled = [_merged(filled[:MOST_RUNS], ops, False), *filled[MOST_RUNS:]]
    return _merged(filled, ops, drop_zero)


def _merged(runs: Sequence[Rows], ops: Sequence[MergeOp], drop_zero: bool) -> Rows:
    if drop_zero:
        check_weighted(ops)
    keys = [run.keys for run in runs]
    table = run_table(keys)
    sources, segments = interleave(table)
    columns = list(zip(*(run.values for run in runs)))
    values: dict[int, tuple[pa.Array[Any], ...]] = {}
    for op, at in columns_by_op(ops):
        walked = _walked(op, columns[at], sources, segments)
        if walked is not None:
            values[at] = (walked,)
    keep = _KEEP_ALL
    if drop_zero:
        weights = summable(values[0][0], np.int64)
        if not weights.all():
            keep = weights != 0
            taken = column(np.flatnonzero(keep))
            values = {at: (walked.take(taken),) for at, (walked,) in values.items()}
    if others := [(op, at) for op, at in columns_by_op(ops) if at not in values]:
        sizes = np.array([len(run) for run in runs])
        order, starts = order_of(sources, np.cumsum(sizes) - sizes, segments)
        if len(keep):
            order, starts = select(order, starts, keep)
        for op, at in others:
            joined = [pa.concat_arrays(parts) for parts in columns[at : at + op.columns]]
            values[at] = combine_one(order, starts, joined, op)
    rows = int(keep.sum()) if len(keep) else segments
    size = sum(int(part.offsets[-1] - part.offsets[0]) for part in keys)
    offsets = room(rows + 1, np.int64)
    data = room(size, np.uint8)
    written = copy_keys(table, sources, keep, offsets, data)
    data = data[:written] if 2 * written > size else data[:written].copy()
    return Rows(Keys(offsets, data), tuple(v for _, at in columns_by_op(ops) for v in values[at]))


def _walked(op: MergeOp, columns: Sequence[pa.Array[Any]], sources: Sources, segments: int) -> pa.Array[Any] | None:
    """The combined column of a merge, where a walk over the runs makes it; else None."""
    type_ = columns[0].type
    if op is MergeOp.SUM:
        floating = pa.types.is_floating(type_)
        dtype: type[np.float64] | type[np.int64] = np.float64 if floating else np.int64
        totals = room(segments, dtype)
        (sum_floats if floating else sum_ints)(addresses([summable(part, dtype) for part in columns]), sources, totals)
        return column(totals)
    if op is MergeOp.LAST and is_word(type_) and not any(part.null_count for part in columns):
        words = [fixed(part, np.uint64) for part in columns]
        newest = room(segments, np.uint64)
        last_words(addresses(words), sources, newest)
        return pa.Array.from_buffers(type_, segments, [None, pa.py_buffer(newest.data)])
    return None
