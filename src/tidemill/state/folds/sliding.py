"""Folds over sliding frames of rows, as window functions need them.

Everywhere: the frame of row i is the rows ``starts[i]`` to ``ends[i] - 1`` (int64[n]); neither start nor end
ever goes back from one row to the next, and no start is greater than its end. Partitions need no mention: the
frames of the next one begin where the rows of the last one end.

Integers are differences of running totals, which is exact: the totals wrap around together. Doubles are never
subtracted, so that nothing is left of a large value that has gone: see :func:`slide_double_doubles`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.words import (
    F64,
    F64_OUT,
    I64,
    I64_OUT,
    U8,
    U64,
    Bytes,
    Floats,
    Ints,
    Words,
    add_double_double,
    equal,
    inlined,
    is_valid,
    kernel,
)
from tidemill.state.keys.keys import KeyColumn, encode, group, sort
from tidemill.state.keys.layout import body_width, ordered_decimals, ordered_words, validity


@kernel(I64_OUT, I64, U8)
def _runs_of_equal(offsets: Ints, data: Bytes) -> Ints:
    result = np.zeros(offsets.size - 1, np.int64)
    for i in range(1, result.size):
        same = equal(data, offsets[i - 1], offsets[i], data, offsets[i], offsets[i + 1])
        result[i] = result[i - 1] + (0 if same else 1)
    return result


def runs_of_equal(columns: Sequence[pa.Array[Any]], rows: int) -> Ints:
    """Number of the run of equal rows that each row is in (int64[rows], from 0); NULL equals NULL, NaN equals NaN."""
    if not columns:
        return np.zeros(rows, np.int64)
    keys = encode(columns, [KeyColumn(c.type) for c in columns], 0)
    return _runs_of_equal(keys.offsets, keys.data)


def slide_ints(values: Ints, starts: Ints, ends: Ints) -> Ints:
    """Sum of each frame (int64); wraps on overflow. A frame without rows has 0."""
    totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(values, dtype=np.int64)])
    sums: Ints = totals[ends] - totals[starts]
    return sums


@kernel(types.tuple_of((I64_OUT, I64_OUT)), I64, I64, I64, I64)
def slide_wide(low: Ints, high: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """128-bit sums of each frame, as words (int64 each, the low one as its bit pattern)."""
    n = low.size
    lows = np.zeros(n + 1, np.uint64)
    highs = np.zeros(n + 1, np.int64)
    for i in range(n):
        addend = np.uint64(low[i])
        lows[i + 1] = lows[i] + addend
        highs[i + 1] = highs[i] + high[i] + (1 if lows[i + 1] < addend else 0)
    result_low = np.empty(starts.size, np.int64)
    result_high = np.empty(starts.size, np.int64)
    for i in range(starts.size):
        minuend = lows[ends[i]]
        subtrahend = lows[starts[i]]
        result_low[i] = np.int64(minuend - subtrahend)
        result_high[i] = highs[ends[i]] - highs[starts[i]] - (1 if minuend < subtrahend else 0)
    return result_low, result_high


@kernel(types.tuple_of((F64_OUT, F64_OUT)), F64, F64, I64, I64)
def slide_double_doubles(high: Floats, low: Floats, starts: Ints, ends: Ints) -> tuple[Floats, Floats]:
    """Double-double sums of each frame, without a subtraction.

    A queue of two stacks: sums from each row to a middle row, and one sum from there to the end of the frame.
    Once the frame begins at the middle, the middle moves to its end. Each row is added at most twice.
    """
    n = high.size
    until_high = np.zeros(n + 1, np.float64)
    until_low = np.zeros(n + 1, np.float64)
    highs = np.zeros(starts.size, np.float64)
    lows = np.zeros(starts.size, np.float64)
    middle = 0
    reached = 0
    back_high = 0.0
    back_low = 0.0
    for i in range(starts.size):
        start = starts[i]
        end = ends[i]
        if start >= end:
            continue
        if start >= middle:
            middle = end
            reached = end
            back_high = 0.0
            back_low = 0.0
            sum_high = 0.0
            sum_low = 0.0
            for j in range(end - 1, start - 1, -1):
                sum_high, sum_low = add_double_double(sum_high, sum_low, high[j], low[j])
                until_high[j] = sum_high
                until_low[j] = sum_low
        while reached < end:
            back_high, back_low = add_double_double(back_high, back_low, high[reached], low[reached])
            reached += 1
        highs[i], lows[i] = add_double_double(until_high[start], until_low[start], back_high, back_low)
    return highs, lows


@kernel(I64_OUT, U64, U64, U8, types.int64, I64, I64, types.boolean, types.boolean)
def _slide_extremes(
    high: Words, low: Words, bitmap: Bytes, offset: int, starts: Ints, ends: Ints, largest: bool, latest: bool
) -> Ints:
    """A queue of the rows that may still become the extreme one, the best of them first."""
    result = np.full(starts.size, -1, np.int64)
    queue = np.empty(high.size, np.int64)
    front = 0
    back = 0
    reached = 0
    for i in range(starts.size):
        while reached < ends[i]:
            if is_valid(bitmap, offset, reached):
                while back > front:
                    other = queue[back - 1]
                    if high[other] != high[reached]:
                        beaten = (high[other] < high[reached]) == largest
                    elif low[other] != low[reached]:
                        beaten = (low[other] < low[reached]) == largest
                    else:
                        beaten = latest
                    if not beaten:
                        break
                    back -= 1
                queue[back] = reached
                back += 1
            reached += 1
        while front < back and queue[front] < starts[i]:
            front += 1
        if front < back and queue[front] < ends[i]:
            result[i] = queue[front]
    return result


def slide_extremes(values: pa.Array[Any], starts: Ints, ends: Ints, largest: bool, latest: bool = False) -> Ints:
    """Row of the smallest or greatest value of each frame; -1 for a frame without any.

    Of equal ones it is the first, with ``latest`` the last.

    NULLs never win; NaN is the greatest float.

    Raises
    ------
    TidemillError
        TM1101 for a type without an order.
    """
    if pa.types.is_null(values.type):
        return np.full(len(starts), -1, np.int64)
    return _slide_extremes(*order_words(values), *validity(values), starts, ends, largest, latest)


def order_words(values: pa.Array[Any]) -> tuple[Words, Words]:
    """Values of any type a key can have as (high, low) unsigned words that order like them; undefined where NULL."""
    width = body_width(values.type)
    if width == 16:
        high, low = ordered_decimals(values)
        return np.ascontiguousarray(high), low
    if width == 0:
        return np.zeros(len(values), np.uint64), np.zeros(len(values), np.uint64)
    if width < 0:
        return _ranks(values), np.zeros(len(values), np.uint64)
    return np.ascontiguousarray(ordered_words(values)), np.zeros(len(values), np.uint64)


def _ranks(values: pa.Array[Any]) -> Words:
    """The place of each value among the different ones."""
    keys = encode([values], [KeyColumn(values.type)], 0)
    ids, first = group(keys)
    places = np.empty(len(first), np.uint64)
    places[sort(keys.take(first))] = np.arange(len(first), dtype=np.uint64)
    ranks: Words = places[ids]
    return ranks


@inlined
def _before(classes: Ints, high: Words, low: Words, row: int, b_class: int, b_high: int, b_low: int) -> int:
    """-1, 0 or 1 as a row comes before a bound, is equal to it, or comes after it."""
    if classes[row] != b_class:
        return -1 if classes[row] < b_class else 1
    if high[row] != b_high:
        return -1 if high[row] < b_high else 1
    if low[row] != b_low:
        return -1 if low[row] < b_low else 1
    return 0


@kernel(I64_OUT, I64, I64, I64, U64, U64, I64, U64, U64)
def range_ends(
    firsts: Ints, lasts: Ints, classes: Ints, high: Words, low: Words, b_classes: Ints, b_high: Words, b_low: Words
) -> Ints:
    """Where the frame of each row ends: behind the rows whose ORDER BY value is not beyond the row's bound.

    Parameters
    ----------
    firsts, lasts : np.ndarray
        int64[n], the partition of each row: rows ``firsts[i]`` to ``lasts[i] - 1``.
    classes, high, low : np.ndarray
        The ORDER BY value of each row, ascending within a partition. A NULL is told by its class.
    b_classes, b_high, b_low : np.ndarray
        The bound of each row, likewise.

    Notes
    -----
    As in Spark an end never goes back, although a bound may: one month after 30 January 23:00 is later than one
    month after 31 January 01:00.
    """
    result = np.empty(firsts.size, np.int64)
    at = 0
    for i in range(firsts.size):
        at = max(at, firsts[i])
        while at < lasts[i] and _before(classes, high, low, at, b_classes[i], b_high[i], b_low[i]) <= 0:
            at += 1
        result[i] = at
    return result


@kernel(I64_OUT, I64, I64, I64, U64, U64, I64, U64, U64)
def range_starts(
    firsts: Ints, ends: Ints, classes: Ints, high: Words, low: Words, b_classes: Ints, b_high: Words, b_low: Words
) -> Ints:
    """Where the frame of each row starts: at the first row whose ORDER BY value is not before the row's bound.

    ``ends`` are those of the frames; for the rest see :func:`range_ends`.
    """
    result = np.empty(firsts.size, np.int64)
    at = 0
    for i in range(firsts.size):
        at = max(at, firsts[i])
        while at < ends[i] and _before(classes, high, low, at, b_classes[i], b_high[i], b_low[i]) < 0:
            at += 1
        result[i] = at
    return result
