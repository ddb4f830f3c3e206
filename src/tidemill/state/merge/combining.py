"""Combining the values of rows with equal keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.columns import column
from tidemill.kernels.words import (
    BOOL,
    F64,
    F64_OUT,
    I64,
    I64_OUT,
    Bools,
    Floats,
    Ints,
    add_double_double,
    kernel,
)
from tidemill.state.folds.expansions import sum_quads
from tidemill.state.folds.extremes import take_or_null, winners
from tidemill.state.keys.layout import fixed
from tidemill.state.merge.operations import MergeOp, columns_by_op


def _sum(order: Ints, starts: Ints, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    result = np.empty(starts.size - 1, values.dtype)
    for s in range(result.size):
        total = values[order[starts[s]]]
        for j in range(starts[s] + 1, starts[s + 1]):
            total += values[order[j]]
        result[s] = total
    return result


_sum_ints = kernel(I64_OUT, I64, I64, I64)(_sum)
_sum_floats = kernel(F64_OUT, I64, I64, F64)(_sum)


@kernel(types.tuple_of((F64_OUT, F64_OUT)), I64, I64, F64, F64)
def _sum_double_doubles(order: Ints, starts: Ints, high: Floats, low: Floats) -> tuple[Floats, Floats]:
    highs = np.empty(starts.size - 1, np.float64)
    lows = np.empty(starts.size - 1, np.float64)
    for s in range(highs.size):
        row = order[starts[s]]
        hi = high[row]
        lo = low[row] if np.isfinite(hi) else 0.0
        for j in range(starts[s] + 1, starts[s + 1]):
            hi, lo = add_double_double(hi, lo, high[order[j]], low[order[j]])
        highs[s] = hi
        lows[s] = lo
    return highs, lows


@kernel(types.tuple_of((I64_OUT, I64_OUT)), I64, I64, I64, I64)
def _sum_wide(order: Ints, starts: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    lows = np.empty(starts.size - 1, np.int64)
    highs = np.empty(starts.size - 1, np.int64)
    for s in range(lows.size):
        lo = np.uint64(low[order[starts[s]]])
        hi = high[order[starts[s]]]
        for j in range(starts[s] + 1, starts[s + 1]):
            addend = np.uint64(low[order[j]])
            lo += addend
            hi += high[order[j]]
            if lo < addend:
                hi += 1
        lows[s] = np.int64(lo)
        highs[s] = hi
    return lows, highs


@kernel(types.tuple_of((I64_OUT, I64_OUT)), I64, I64, BOOL)
def select(order: Ints, starts: Ints, keep: Bools) -> tuple[Ints, Ints]:
    """Order and starts of the segments to keep."""
    rows = np.empty(order.size, np.int64)
    bounds = np.empty(starts.size, np.int64)
    segments = 0
    at = 0
    for s in range(keep.size):
        if keep[s]:
            bounds[segments] = at
            segments += 1
            for j in range(starts[s], starts[s + 1]):
                rows[at] = order[j]
                at += 1
    bounds[segments] = at
    return rows[:at].copy(), bounds[: segments + 1].copy()


_SUMMED = {np.int64: pa.int64().id, np.float64: pa.float64().id}


def summable(array: pa.Array[Any], dtype: type[np.int64] | type[np.float64]) -> np.ndarray:
    """A column without NULLs of just that type as NumPy, zero copy."""
    if array.null_count:
        raise ValueError(f"{array.null_count} NULLs in a column that is summed")
    if array.type.id != _SUMMED[dtype]:
        raise TypeError(f"a column of {array.type} is summed as {dtype.__name__}")
    return fixed(array, dtype)  # type: ignore[no-any-return]


def check_weighted(ops: Sequence[MergeOp]) -> None:
    """ValueError unless the first column is a weight, by which rows can be dropped."""
    if ops[0] is not MergeOp.SUM:
        raise ValueError("rows can only be dropped by a weight, an int64 sum that comes first")


def is_word(type_: pa.DataType) -> bool:
    """Whether values are 8 bytes each and can be copied as words."""
    return bool(
        pa.types.is_int64(type_)
        or pa.types.is_float64(type_)
        or pa.types.is_timestamp(type_)
        or pa.types.is_duration(type_)
    )


def combine_one(order: Ints, starts: Ints, values: Sequence[pa.Array[Any]], op: MergeOp) -> tuple[pa.Array[Any], ...]:
    """One logical value of :func:`combine`."""
    first = values[0]
    if op is MergeOp.SUM and pa.types.is_floating(first.type):
        return (column(_sum_floats(order, starts, summable(first, np.float64))),)
    if op is MergeOp.SUM:
        return (column(_sum_ints(order, starts, summable(first, np.int64))),)
    if op is MergeOp.SUM_DD:
        pair = (summable(first, np.float64), summable(values[1], np.float64))
        return tuple(map(column, _sum_double_doubles(order, starts, *pair)))
    if op is MergeOp.SUM_I128:
        words = (summable(first, np.int64), summable(values[1], np.int64))
        return tuple(map(column, _sum_wide(order, starts, *words)))
    if op is MergeOp.SUM_QD:
        return tuple(map(column, sum_quads(order, starts, tuple(summable(v, np.float64) for v in values))))
    segments = len(starts) - 1
    if op is MergeOp.LAST or segments == len(order):
        return (take_or_null(first, order[starts[1:] - 1]),)
    ids = np.repeat(np.arange(segments), np.diff(starts))
    return (take_or_null(first, winners(first, order, ids, segments, op is MergeOp.MAX)),)


def combine(
    order: Ints, starts: Ints, values: Sequence[pa.Array[Any]], ops: Sequence[MergeOp], drop_zero: bool
) -> tuple[Ints, tuple[pa.Array[Any], ...]]:
    """Combine the rows of each segment into one.

    Parameters
    ----------
    order : np.ndarray
        int64[m], rows by segment and, within a segment, from oldest to newest.
    starts : np.ndarray
        int64[segments + 1], where each segment starts in ``order``; no segment is empty.
    values : sequence of pa.Array
        Columns by row, two each for ``SUM_DD`` and ``SUM_I128``.
    drop_zero : bool
        Whether to drop segments whose first column, an int64 ``SUM``, is 0 after combining.

    Returns
    -------
    kept : np.ndarray
        int64, the segments that remain, ascending.
    columns : tuple of pa.Array
        Combined values of these segments.
    """
    if sum(op.columns for op in ops) != len(values):
        raise ValueError(f"{len(values)} columns for {[op.value for op in ops]}")
    kept = np.arange(len(starts) - 1)
    if drop_zero and len(order):
        check_weighted(ops)
        keep = _sum_ints(order, starts, summable(values[0], np.int64)) != 0
        if not keep.all():
            kept = np.flatnonzero(keep)
            order, starts = select(order, starts, keep)
    combined: list[pa.Array[Any]] = []
    for op, at in columns_by_op(ops):
        combined.extend(combine_one(order, starts, values[at : at + op.columns], op))
    return kept, tuple(combined)
