"""Rows in any order become a sorted run: several parts at once, as a merge takes what tasks have left unordered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import I64, I64_OUT, U8, Bytes, Ints, compare, kernel
from tidemill.state.keys.keys import group, sort
from tidemill.state.merge.combining import combine
from tidemill.state.merge.merge import MergeOp, Rows, consolidate, joined

_REPEATED = 0.75
"""With at most so many distinct keys a row, of two parts, rows are grouped and only their groups are sorted."""


@kernel(I64_OUT, I64, U8, U8, U8)
def _rows_between(offsets: Ints, data: Bytes, low: Bytes, high: Bytes) -> Ints:
    rows = np.empty(offsets.size - 1, np.int64)
    found = 0
    for i in range(rows.size):
        start = offsets[i]
        end = offsets[i + 1]
        if compare(data, start, end, low, 0, low.size) >= 0 and compare(data, start, end, high, 0, high.size) < 0:
            rows[found] = i
            found += 1
    return rows[:found].copy()


@kernel(types.tuple_of((I64_OUT, I64_OUT)), I64, I64)
def _by_rank(ids: Ints, ranks: Ints) -> tuple[Ints, Ints]:
    """Rows by the rank of their group, each group's in their order, and where each rank begins: a counting sort."""
    starts = np.zeros(ranks.size + 1, np.int64)
    for i in range(ids.size):
        starts[ranks[ids[i]] + 1] += 1
    for rank in range(ranks.size):
        starts[rank + 1] += starts[rank]
    ends = starts[:-1].copy()
    order = np.empty(ids.size, np.int64)
    for i in range(ids.size):
        rank = ranks[ids[i]]
        order[ends[rank]] = i
        ends[rank] += 1
    return order, starts


def rows_between(rows: Rows, low: bytes, high: bytes) -> Rows:
    """The rows with ``low <= key < high``, in their order, which may be any."""
    bounds = (np.frombuffer(low, np.uint8), np.frombuffer(high, np.uint8))
    inside = _rows_between(rows.keys.offsets, rows.keys.data, *bounds)
    return rows if len(inside) == len(rows) else rows.take(inside)


def gather(parts: Sequence[Rows], ops: Sequence[MergeOp], drop_zero: bool) -> Rows:
    """Make one sorted run of parts in any order, as :func:`tidemill.state.merge.merge.consolidate` does of one.

    Where the parts have most keys in common, their rows are grouped by a hash table, and each key is sorted once.

    Parameters
    ----------
    parts : sequence of Rows
        At least one, oldest first; of equal keys a later row is newer.
    ops : sequence of MergeOp
        How to combine the values of equal keys.
    drop_zero : bool
        Whether to drop keys whose first column, an int64 ``SUM``, is 0 after combining.

    Returns
    -------
    Rows
        Sorted, keys unique.
    """
    rows = joined(parts)
    if not _repeated(parts):
        return consolidate(rows.keys, rows.values, ops, drop_zero)
    ids, first = group(rows.keys)
    distinct = rows.keys.take(first)
    by_key = sort(distinct)
    ranks = np.empty(len(by_key), np.int64)
    ranks[by_key] = np.arange(len(by_key))
    kept, columns = combine(*_by_rank(ids, ranks), rows.values, ops, drop_zero)
    return Rows(distinct.take(by_key[kept]), columns)


def _repeated(parts: Sequence[Rows]) -> bool:
    """Whether most keys of the smallest part are in the one after it too."""
    if len(parts) < 2:
        return False
    few = joined(sorted(parts, key=len)[:2])
    return len(group(few.keys)[1]) <= _REPEATED * len(few)
