"""Merging runs without kernels: sorted together, and combined by the age of values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.kernels.columns import column, numbers, truths
from tidemill.state.keys.layout import Ints, Words, body_width, fixed, ordered_decimals, ordered_words
from tidemill.state.merge.operations import MergeOp, columns_by_op


@dataclass(frozen=True, eq=False)
class Sorted:
    """Keys of several runs in order.

    Attributes
    ----------
    keys : pa.Array
        large_binary, ascending, unique.
    order : np.ndarray
        int64[m]: the rows of the runs, one after the other, by key and, of equal keys, from oldest to newest.
    starts : np.ndarray
        int64[n]: where the rows of each key begin in ``order``.
    """

    keys: pa.Array[Any]
    order: Ints
    starts: Ints

    def later(self) -> Iterator[tuple[Ints, Ints]]:
        """The second row of each key that has one, then the third, and so on: keys, and rows of the runs."""
        counts = np.diff(self.starts, append=len(self.order))
        for age in range(1, int(counts.max())):
            keys = np.flatnonzero(counts > age)
            yield keys, self.order[self.starts[keys] + age]


def merged_keys(runs: Sequence[pa.Array[Any]]) -> Sorted:
    """The keys of runs, oldest first, each with at least one key."""
    if len(runs) == 1:
        rows = np.arange(len(runs[0]))
        return Sorted(runs[0], rows, rows)
    together = pa.concat_arrays(runs)
    order = pc.array_sort_indices(together)  # stable, so that of equal keys the older one comes first
    ordered = together.take(order)
    new = truths(pc.not_equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1)))
    starts = np.flatnonzero(np.concatenate([[True], new]))
    return Sorted(ordered.take(column(starts)), fixed(order, np.int64), starts)


def combined(rows: Sorted, values: Sequence[pa.Array[Any]], ops: Sequence[MergeOp]) -> list[pa.Array[Any]]:
    """The values of each key as one.

    Parameters
    ----------
    values : sequence of pa.Array
        Columns of the rows of all runs, without nested types.
    ops : sequence of MergeOp
        How they combine; any but ``SUM_QD``.
    """
    found: list[pa.Array[Any]] = []
    for op, at in columns_by_op(ops):
        found += _combined(rows, values[at : at + op.columns], op)
    return found


def _combined(rows: Sorted, values: Sequence[pa.Array[Any]], op: MergeOp) -> list[pa.Array[Any]]:
    first = rows.order[rows.starts]
    match op:
        case MergeOp.SUM:
            addends = numbers(values[0])
            totals = addends[first]
            for keys, more in rows.later():
                totals[keys] += addends[more]
            return [column(totals)]
        case MergeOp.SUM_DD:
            return _sum_double_doubles(rows, first, *map(numbers, values))
        case MergeOp.SUM_I128:
            return _sum_wide(rows, first, *map(numbers, values))
        case MergeOp.LAST:
            last = np.append(rows.starts[1:], len(rows.order)) - 1
            return [values[0].take(column(rows.order[last]))]
        case _:
            return [_extreme(rows, first, values[0], op is MergeOp.MAX)]


def _sum_double_doubles(rows: Sorted, first: Ints, high: Any, low: Any) -> list[pa.Array[Any]]:
    highs = high[first]
    lows = np.where(np.isfinite(highs), low[first], 0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        for keys, more in rows.later():
            highs[keys], lows[keys] = _add_double_double(highs[keys], lows[keys], high[more], low[more])
    return [column(highs), column(lows)]


def _add_double_double(hi: Any, lo: Any, hi2: Any, lo2: Any) -> tuple[Any, Any]:
    """As :func:`tidemill.kernels.words.add_double_double`, of whole columns."""
    s, e = _two_sum(hi, hi2)
    t, f = _two_sum(lo, lo2)
    e = e + t
    high = s + e
    e = e - (high - s) + f
    result = high + e
    finite = np.isfinite(s)
    return np.where(finite, result, s), np.where(finite, e - (result - high), 0.0)


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def _sum_wide(rows: Sorted, first: Ints, low: Any, high: Any) -> list[pa.Array[Any]]:
    low = low.view(np.uint64)
    lows, highs = low[first], high[first]
    for keys, more in rows.later():
        totals = lows[keys] + low[more]
        highs[keys] += high[more] + (totals < low[more])
        lows[keys] = totals
    return [column(lows.view(np.int64)), column(highs)]


def _extreme(rows: Sorted, first: Ints, values: pa.Array[Any], greatest: bool) -> pa.Array[Any]:
    """The first of the smallest or greatest values of each key; NULL where there is none."""
    high, low = _ordered(values)
    valid = truths(values.is_valid())
    best = first.copy()
    for keys, more in rows.later():
        old = best[keys]
        beyond = (high[more] > high[old]) if greatest else (high[more] < high[old])
        beyond |= (high[more] == high[old]) & ((low[more] > low[old]) if greatest else (low[more] < low[old]))
        better = valid[more] & (beyond | ~valid[old])
        best[keys[better]] = more[better]
    return values.take(column(best))


def _ordered(values: pa.Array[Any]) -> tuple[Words, Words]:
    """Pairs of words that order like the values, undefined where NULL."""
    width = body_width(values.type)
    if width == 16:
        return ordered_decimals(values)
    if width > 0:
        words = ordered_words(values)
    elif width == 0:
        words = np.zeros(len(values), np.uint64)
    else:
        words = fixed(pc.rank(values.cast(pa.large_binary()), tiebreaker="dense"), np.uint64)
    return words, np.zeros(len(words), np.uint64)
