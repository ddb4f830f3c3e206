"""Group-wise folds over one batch, as a hash aggregation needs them.

Everywhere: ``ids`` is int64[n], dense in 0..groups-1 (see :func:`tidemill.state.keys.keys.group`); ``values`` has
n rows, NULLs are ignored; ``weights`` is int64[n] or None for all ones; results have one entry per group, 0
for a group without values.

Hazard: an id outside 0..groups-1 is not noticed and writes outside the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.kernels import types
from tidemill.kernels.words import (
    F64,
    F64_OUT,
    HUGE,
    HUGE_UNIT,
    I64,
    I64_OUT,
    U8,
    U64,
    Bytes,
    Floats,
    Ints,
    Words,
    add_double_double,
    fused_multiply_add,
    inlined,
    is_valid,
    kernel,
    multiply_high,
)
from tidemill.state.folds.extremes import take_or_null, winners
from tidemill.state.keys.layout import fixed, validity

_EXACT = 1 << 53
_NO_WEIGHTS = np.empty(0, np.int64)


@kernel(I64_OUT, I64, I64, I64, U8, types.int64, types.int64)
def _sum_int64(ids: Ints, values: Ints, weights: Ints, bitmap: Bytes, offset: int, groups: int) -> Ints:
    totals = np.zeros(groups, np.int64)
    for i in range(ids.size):
        if is_valid(bitmap, offset, i):
            totals[ids[i]] += values[i] * (weights[i] if weights.size else 1)
    return totals


@kernel(I64_OUT, I64, I64, U8, types.int64, types.int64)
def _count(ids: Ints, weights: Ints, bitmap: Bytes, offset: int, groups: int) -> Ints:
    totals = np.zeros(groups, np.int64)
    for i in range(ids.size):
        if is_valid(bitmap, offset, i):
            totals[ids[i]] += weights[i] if weights.size else 1
    return totals


@kernel(types.tuple_of((I64_OUT, I64_OUT)), I64, U64, I64, I64, U8, types.int64, types.int64)
def _sum_i128(
    ids: Ints, low: Words, high: Ints, weights: Ints, bitmap: Bytes, offset: int, groups: int
) -> tuple[Ints, Ints]:
    """Products modulo 2**128: the weight as an unsigned word, less 2**64 where it is negative."""
    lows = np.zeros(groups, np.uint64)
    highs = np.zeros(groups, np.int64)
    for i in range(ids.size):
        if not is_valid(bitmap, offset, i):
            continue
        weight = weights[i] if weights.size else 1
        word = np.uint64(weight)
        product = low[i] * word
        carry = np.int64(multiply_high(low[i], word)) + high[i] * weight
        if weight < 0:
            carry -= np.int64(low[i])
        group = ids[i]
        total = lows[group] + product
        if total < product:
            carry += 1
        lows[group] = total
        highs[group] += carry
    return lows.view(np.int64), highs


@kernel(F64_OUT, I64, F64, I64, U8, types.int64, types.int64)
def _sum_float(ids: Ints, values: Floats, weights: Ints, bitmap: Bytes, offset: int, groups: int) -> Floats:
    totals = np.zeros(groups, np.float64)
    for i in range(ids.size):
        if is_valid(bitmap, offset, i):
            weight = weights[i] if weights.size else 1
            if weight != 0:
                totals[ids[i]] += values[i] * np.float64(weight)
    return totals


@inlined
def _add_weighted(hi: float, lo: float, value: float, weight: int) -> tuple[float, float]:
    """A double-double and ``value * weight``."""
    if weight == 1 or weight == -1:
        return add_double_double(hi, lo, value * weight, 0.0)
    if weight != 0:
        # A weight of more than 53 bits is two floats. Splitting a small one would add to the rounding:
        # the halves of -2 are -2**32 and 2**32 - 2.
        upper = 0.0
        lower = np.float64(weight)
        if weight > _EXACT or weight < -_EXACT:
            upper = np.float64(weight >> 32) * 4294967296.0
            lower = np.float64(weight & 0xFFFFFFFF)
        for part in (upper, lower):
            product = value * part
            hi, lo = add_double_double(hi, lo, product, fused_multiply_add(value, part, -product))
    return hi, lo


@kernel(types.tuple_of((F64_OUT, F64_OUT, F64_OUT, F64_OUT)), I64, F64, I64, U8, types.int64, types.int64)
def _sum_dd(
    ids: Ints, values: Floats, weights: Ints, bitmap: Bytes, offset: int, groups: int
) -> tuple[Floats, Floats, Floats, Floats]:
    highs = np.zeros(groups, np.float64)
    lows = np.zeros(groups, np.float64)
    huge_highs = np.zeros(groups, np.float64)
    huge_lows = np.zeros(groups, np.float64)
    for i in range(ids.size):
        if not is_valid(bitmap, offset, i):
            continue
        value = values[i]
        group = ids[i]
        weight = weights[i] if weights.size else 1
        if abs(value) < HUGE:
            highs[group], lows[group] = _add_weighted(highs[group], lows[group], value, weight)
        elif np.isfinite(value):
            scaled = value / HUGE_UNIT
            huge_highs[group], huge_lows[group] = _add_weighted(huge_highs[group], huge_lows[group], scaled, weight)
    return highs, lows, huge_highs, huge_lows


@kernel(types.tuple_of((I64_OUT, I64_OUT, I64_OUT)), I64, F64, I64, U8, types.int64, types.int64)
def _count_special(
    ids: Ints, values: Floats, weights: Ints, bitmap: Bytes, offset: int, groups: int
) -> tuple[Ints, Ints, Ints]:
    nans = np.zeros(groups, np.int64)
    positive = np.zeros(groups, np.int64)
    negative = np.zeros(groups, np.int64)
    for i in range(ids.size):
        value = values[i]
        if np.isfinite(value) or not is_valid(bitmap, offset, i):
            continue
        weight = weights[i] if weights.size else 1
        if np.isnan(value):
            nans[ids[i]] += weight
        elif value > 0:
            positive[ids[i]] += weight
        else:
            negative[ids[i]] += weight
    return nans, positive, negative


def _weights(weights: Ints | None, ids: Ints, values: pa.Array[Any] | None) -> Ints:
    """Weights for a kernel, empty for all ones; checks that all columns have as many rows."""
    lengths = {len(column) for column in (ids, values, weights) if column is not None}
    if len(lengths) > 1:
        raise ValueError(f"ids, values and weights of {sorted(lengths)} rows")
    return _NO_WEIGHTS if weights is None else np.ascontiguousarray(weights, np.int64)


def _unsummable(type_: pa.DataType) -> TidemillError:
    return TidemillError("TM1103", "this type cannot be summed", got=str(type_), hint="cast it to a number")


def _ints(values: pa.Array[Any]) -> Ints:
    if not pa.types.is_signed_integer(values.type):
        raise _unsummable(values.type)
    return fixed(values, np.dtype(f"i{values.type.bit_width // 8}")).astype(np.int64)  # type: ignore[no-any-return]


def _floats(values: pa.Array[Any]) -> Floats:
    type_: Any = values.type
    if pa.types.is_signed_integer(type_):
        return _ints(values).astype(np.float64)
    if type_ not in (pa.float32(), pa.float64()):
        raise _unsummable(type_)
    return fixed(values, np.dtype(f"f{type_.bit_width // 8}")).astype(np.float64, copy=False)  # type: ignore[no-any-return]


def sum_int64(ids: Ints, values: pa.Array[Any], weights: Ints | None, groups: int) -> Ints:
    """Sum of value times weight of a signed integer column as int64[groups]; wraps on overflow.

    Raises
    ------
    TidemillError
        TM1103 for any other type.
    """
    if pa.types.is_null(values.type):
        return np.zeros(groups, np.int64)
    return _sum_int64(ids, _ints(values), _weights(weights, ids, values), *validity(values), groups)


def sum_i128(ids: Ints, values: pa.Array[Any], weights: Ints | None, groups: int) -> tuple[Ints, Ints]:
    """Sum of value times weight of an integer or decimal128 column modulo 2**128.

    Returns
    -------
    low, high : np.ndarray
        int64[groups] each; the low word as its bit pattern. Decimals are sums of unscaled values.

    Raises
    ------
    TidemillError
        TM1103 for any other type.
    """
    if pa.types.is_null(values.type):
        return np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    if pa.types.is_decimal128(values.type):
        low, high = _words(values)
    else:
        low = _ints(values)
        high = low >> 63
    return _sum_i128(ids, low.view(np.uint64), high, _weights(weights, ids, values), *validity(values), groups)


def sum_tops(ids: Ints, values: pa.Array[Any], weights: Ints | None, groups: int) -> Ints:
    """Sum of ``(unscaled value >> 96) * weight`` of a decimal128 column as int64[groups].

    Beside a sum modulo 2**128 it tells whether that is the sum: a sum of fewer than 2**31 values, shifted right as far,
    differs from this by less than their number, and one that is 2**128 more by more than 2**31.
    """
    if pa.types.is_null(values.type):
        return np.zeros(groups, np.int64)
    _, high = _words(values)
    return _sum_int64(ids, high >> 32, _weights(weights, ids, values), *validity(values), groups)


def _words(values: pa.Array[Any]) -> tuple[Ints, Ints]:
    """The low and high words of a decimal128 column."""
    buffer = values.buffers()[1]
    if buffer is None or not len(values):
        return _NO_WEIGHTS, _NO_WEIGHTS
    pairs = np.frombuffer(memoryview(buffer), np.int64, 2 * len(values), values.offset * 16)
    return np.ascontiguousarray(pairs[::2]), np.ascontiguousarray(pairs[1::2])


def sum_float(ids: Ints, values: pa.Array[Any], weights: Ints | None, groups: int) -> Floats:
    """Sum of value times weight as float64[groups], added in row order with one rounding each.

    Raises
    ------
    TidemillError
        TM1103 unless the column is of floats or integers.
    """
    if pa.types.is_null(values.type):
        return np.zeros(groups, np.float64)
    return _sum_float(ids, _floats(values), _weights(weights, ids, values), *validity(values), groups)


def sum_dd(
    ids: Ints, values: pa.Array[Any], weights: Ints | None, groups: int
) -> tuple[Floats, Floats, Floats, Floats]:
    """Sum of value times weight over finite values as double-doubles (about 106 bits).

    Infinities and NaN are left out: :func:`count_special` counts them.

    Returns
    -------
    high, low : np.ndarray
        float64[groups] each, the sum of values less than :data:`~tidemill.kernels.words.HUGE` in magnitude. Rounded to
        float64 it is ``high``.
    huge_high, huge_low : np.ndarray
        Likewise the sum of the others, in units of :data:`~tidemill.kernels.words.HUGE_UNIT`. All four are finite.

    Raises
    ------
    TidemillError
        TM1103 unless the column is of floats or integers.
    """
    if pa.types.is_null(values.type):
        return tuple(np.zeros(groups, np.float64) for _ in range(4))  # type: ignore[return-value]
    return _sum_dd(ids, _floats(values), _weights(weights, ids, values), *validity(values), groups)


def count_nonnull(ids: Ints, values: pa.Array[Any] | None, weights: Ints | None, groups: int) -> Ints:
    """Weights of rows whose value is not NULL, summed (int64[groups]); of all rows for ``values=None``."""
    if values is None:
        return _count(ids, _weights(weights, ids, None), np.empty(0, np.uint8), 0, groups)
    if pa.types.is_null(values.type):
        return np.zeros(groups, np.int64)
    return _count(ids, _weights(weights, ids, values), *validity(values), groups)


def count_special(ids: Ints, values: pa.Array[Any], weights: Ints | None, groups: int) -> tuple[Ints, Ints, Ints]:
    """Sums of the weights of NaN, +inf and -inf as int64[groups] each.

    Raises
    ------
    TidemillError
        TM1103 unless the column is of floats or integers.
    """
    if pa.types.is_null(values.type):
        return np.zeros(groups, np.int64), np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    return _count_special(ids, _floats(values), _weights(weights, ids, values), *validity(values), groups)


def extreme(ids: Ints, values: pa.Array[Any], groups: int, largest: bool) -> pa.Array[Any]:
    """Smallest or greatest value of each group, of the type of ``values``; NULL for a group without one.

    NaN is the greatest float; of equal values (0.0 and -0.0) the first is taken.

    Raises
    ------
    TidemillError
        TM1101 for a type without an order.
    """
    _weights(None, ids, values)
    rows = np.arange(len(values))
    return take_or_null(values, winners(values, rows, ids, groups, largest))
