"""Compiled products of accumulators: double-doubles, and 128-bit integers modulo 2**128."""

from __future__ import annotations

import math

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import (
    F64_GRID,
    F64_GRID_OUT,
    F64_OUT,
    HUGE,
    HUGE_UNIT,
    I64,
    I64_OUT,
    Floats,
    Ints,
    add_double_double,
    fused_multiply_add,
    inlined,
    kernel,
    multiply_high,
    two_sum,
)

_TWO32 = 4294967296.0


@inlined
def _int_as_dd(value: int) -> tuple[float, float]:
    """Exact: the two halves of 64 bits are doubles, and their rounding error is one too."""
    return two_sum(np.float64(value >> 32) * _TWO32, np.float64(value & 0xFFFFFFFF))


@kernel(types.tuple_of((F64_OUT, F64_OUT)), I64)
def ints_as_dd(values: Ints) -> tuple[Floats, Floats]:
    """64-bit integers as double-doubles, exact."""
    high = np.empty(values.size, np.float64)
    low = np.empty(values.size, np.float64)
    for i in range(values.size):
        high[i], low[i] = _int_as_dd(values[i])
    return high, low


@kernel(types.tuple_of((F64_OUT, F64_OUT)), I64, I64)
def wide_as_dd(low: Ints, high: Ints) -> tuple[Floats, Floats]:
    """128-bit integers (low word as its bit pattern, high word) as double-doubles, to about 106 bits."""
    highs = np.empty(low.size, np.float64)
    lows = np.empty(low.size, np.float64)
    for i in range(low.size):
        hi, lo = _int_as_dd(high[i])
        upper = np.float64((low[i] >> 32) & 0xFFFFFFFF) * _TWO32
        below, rest = two_sum(upper, np.float64(low[i] & 0xFFFFFFFF))
        highs[i], lows[i] = add_double_double(hi * (_TWO32 * _TWO32), lo * (_TWO32 * _TWO32), below, rest)
    return highs, lows


@inlined
def multiply_double_double(hi: float, lo: float, hi2: float, lo2: float) -> tuple[float, float]:
    """Product of two double-doubles; 0 when either is, and low is 0 once high is not finite."""
    if (hi == 0.0 and lo == 0.0) or (hi2 == 0.0 and lo2 == 0.0):
        return 0.0, 0.0
    product = hi * hi2
    if not np.isfinite(product):
        return product, 0.0
    error = fused_multiply_add(hi, hi2, -product) + (hi * lo2 + lo * hi2)
    result = product + error
    return result, error - (result - product)


@inlined
def _times(hi: float, lo: float, hi2: float, lo2: float, coefficient: float) -> tuple[float, float]:
    hi, lo = multiply_double_double(hi, lo, hi2, lo2)
    return multiply_double_double(hi, lo, coefficient, 0.0) if coefficient != 1.0 else (hi, lo)


@kernel(types.void, F64_GRID, F64_GRID, types.float64, F64_GRID_OUT)
def add_product_dd(left: Floats, right: Floats, coefficient: float, total: Floats) -> None:
    """Add ``coefficient * left * right`` to each total.

    Each is float64[4, n]: high and low of a double-double, and of one in units of ``HUGE_UNIT`` (see
    :func:`tidemill.state.folds.accumulate.sum_dd`). A product from ``HUGE`` on is added in units, and is infinite from
    about 2**1124 on.
    """
    root = math.sqrt(HUGE_UNIT)
    for i in range(left.shape[1]):
        hi, lo = _times(left[0, i], left[1, i], right[0, i], right[1, i], coefficient)
        if abs(hi) < HUGE:
            total[0, i], total[1, i] = add_double_double(total[0, i], total[1, i], hi, lo)
        else:
            hi, lo = _times(left[0, i] / root, left[1, i] / root, right[0, i] / root, right[1, i] / root, coefficient)
            total[2, i], total[3, i] = add_double_double(total[2, i], total[3, i], hi, lo)
        for a, b in ((left, right), (right, left)):
            if a[2, i] != 0.0:
                hi, lo = _times(a[2, i], a[3, i], b[0, i], b[1, i], coefficient)
                if abs(hi) < HUGE / HUGE_UNIT:
                    hi, lo = hi * HUGE_UNIT, lo * HUGE_UNIT
                    total[0, i], total[1, i] = add_double_double(total[0, i], total[1, i], hi, lo)
                else:
                    total[2, i], total[3, i] = add_double_double(total[2, i], total[3, i], hi, lo)
        if left[2, i] != 0.0 and right[2, i] != 0.0:
            hi, lo = _times(left[2, i] * root, left[3, i] * root, right[2, i] * root, right[3, i] * root, coefficient)
            total[2, i], total[3, i] = add_double_double(total[2, i], total[3, i], hi, lo)


@kernel(types.void, I64, I64, I64, I64, types.int64, types.int64, I64_OUT, I64_OUT)
def add_product_wide(
    low: Ints, high: Ints, low2: Ints, high2: Ints, factor_low: int, factor_high: int, total: Ints, total_high: Ints
) -> None:
    """Add ``factor * left * right`` to each total, modulo 2**128; words as for ``SUM_I128``."""
    for i in range(low.size):
        a = np.uint64(low[i])
        b = np.uint64(low2[i])
        lo = a * b
        hi = multiply_high(a, b) + a * np.uint64(high2[i]) + np.uint64(high[i]) * b
        f = np.uint64(factor_low)
        upper = multiply_high(lo, f) + lo * np.uint64(factor_high) + hi * f
        lo *= f
        old = np.uint64(total[i])
        new = old + lo
        if new < lo:
            upper += np.uint64(1)
        total[i] = np.int64(new)
        total_high[i] += np.int64(upper)
