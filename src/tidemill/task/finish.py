"""From accumulators to the results of aggregate functions."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column, numbers
from tidemill.kernels.words import HUGE_UNIT
from tidemill.task.accumulators import COMOMENTS, LISTS, ONLY, POWERS, AggregateLayout, Result
from tidemill.task.comoments import finish_comoments
from tidemill.task.functions.columns.failures import several_rows
from tidemill.task.functions.columns.sizes import list_too_large
from tidemill.task.moments import finish_moments

_TWO64 = 2.0**64
_HIGH, _LOW = np.int64(10**38 >> 64), np.uint64(10**38 % 2**64)
_MINUS_HIGH, _MINUS_LOW = np.int64(-(10**38) >> 64), np.uint64(-(10**38) % 2**64)
"""The words of the least number with more than 38 digits, and of its negative."""


def finish(layout: AggregateLayout, input_types: tuple[pa.DataType, ...], values: Sequence[pa.Array]) -> list[pa.Array]:
    """One column per aggregate call.

    Parameters
    ----------
    values : arrays
        The value columns of the state table, as ``layout.value_types(input_types)``.

    Raises
    ------
    EvaluationError
        TM3002 when a sum does not fit its type, as Spark's ANSI mode does; TM3015 for a second row of a subquery;
        TM3020 for the list of a group that was too large.
    """
    offsets = layout.offsets(input_types)
    columns = []
    for result in layout.results:
        at = offsets[result.value]
        accumulator = layout.accumulators[result.value]
        width = len(accumulator.columns(input_types))
        counts = numbers(values[offsets[result.count]])
        column = _finish_one(result, accumulator.kind, values[at : at + width], counts)
        assert column.type == result.type, f"{result.function}: {column.type} is not {result.type}"
        columns.append(column)
    return columns


def _finish_one(result: Result, kind: str, values: Sequence[pa.Array], counts: npt.NDArray[np.int64]) -> pa.Array:
    if result.function == ONLY and (counts > 1).any():
        raise several_rows(int(counts.max()))
    if (
        kind in LISTS
        and values[0].null_count
        and (values[0].is_null().to_numpy(zero_copy_only=False) & (counts > 0)).any()
    ):
        raise list_too_large()
    if kind in ("collect_list", "collect_set"):
        return _empty_for_null(values[0])
    if kind == "ordered_list":
        return _null_for_empty(values[0])
    if result.function == "count" or (len(values) == 1 and not kind.startswith("sum")):
        return values[0]
    if kind in POWERS:
        return finish_moments(result.function, kind, values, counts)
    if kind == COMOMENTS:
        return finish_comoments(result.function, values, counts)
    empty = counts == 0
    if result.function == "avg":
        if pa.types.is_decimal(result.argument):
            return _decimal_average(result, values[:2], counts, _beyond(values))
        total = _as_float(kind, values)
        with np.errstate(invalid="ignore", divide="ignore"):
            return column(total / counts, empty)
    if kind in ("sum_f64", "sum_exact"):
        return column(_as_float(kind, values), empty)
    if kind == "sum_i64":
        return column(numbers(values[0]), empty)
    low, high = (numbers(v) for v in values[:2])
    if pa.types.is_int64(result.type):
        beyond = high != (low >> 63)
        return column(low, _fitting(result, empty, beyond))
    return _decimal(result, low, high, empty, _beyond(values))


def _as_float(kind: str, values: Sequence[pa.Array]) -> npt.NDArray[np.float64]:
    first: npt.NDArray[np.float64] = numbers(values[0])
    if kind == "sum_f64":
        return first
    if kind == "sum_i64":
        return first.astype(np.float64)
    if kind == "sum_i128":
        low = first.view(np.uint64).astype(np.float64)
        wide: npt.NDArray[np.float64] = numbers(values[1]).astype(np.float64) * _TWO64 + low
        small = numbers(values[1]) == (first.astype(np.int64) >> 63)
        return np.where(small, first.astype(np.float64), wide)
    with np.errstate(invalid="ignore", over="ignore"):
        total = first + numbers(values[1])
        high = numbers(values[2])
        huge = np.flatnonzero(high)
        if len(huge):
            units, rest = _two_sum(high[huge], first[huge] / HUGE_UNIT)
            low = numbers(values[1])[huge] / HUGE_UNIT
            total[huge] = (units + (rest + (numbers(values[3])[huge] + low))) * HUGE_UNIT
    nans, positive, negative = (numbers(v) > 0 for v in values[4:7])
    total = np.where(positive, np.inf, np.where(negative, -np.inf, total))
    return np.where(nans | (positive & negative), np.nan, total)


def _two_sum(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], ...]:
    """The sum and its rounding error (Knuth, The Art of Computer Programming, volume 2, 4.2.2, theorem B)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _decimal128(low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], type_: pa.DataType) -> pa.Array:
    words = np.empty((len(low), 2), np.int64)
    words[:, 0], words[:, 1] = low, high
    return pa.Array.from_buffers(type_, len(low), [None, pa.py_buffer(words)])


def _beyond(values: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """Which sums of unscaled values have more than 38 digits. Three columns are those of ``sum_wide``."""
    low, high = numbers(values[0]).view(np.uint64), numbers(values[1])
    above: npt.NDArray[np.bool_] = (high > _HIGH) | ((high == _HIGH) & (low >= _LOW))
    above |= (high < _MINUS_HIGH) | ((high == _MINUS_HIGH) & (low <= _MINUS_LOW))
    if len(values) == 3:  # the words are the sum only where its uppermost bits are near those that were added up
        above |= np.abs((high >> 32) - numbers(values[2])) >= 1 << 31
    return above


def _decimal(
    result: Result,
    low: npt.NDArray[np.int64],
    high: npt.NDArray[np.int64],
    empty: npt.NDArray[np.bool_],
    beyond: npt.NDArray[np.bool_],
) -> pa.Array:
    precision, scale = result.type.precision, result.type.scale
    sums = _decimal128(low, high, pa.decimal128(38, scale))
    if precision < 38:
        bound = pa.scalar(Decimal(10) ** (precision - scale), pa.decimal128(38, scale))
        empty = _fitting(result, empty, pc.greater_equal(pc.abs(sums), bound).to_numpy(zero_copy_only=False))
        sums = _decimal128(low, high, result.type)
    else:
        empty = _fitting(result, empty, beyond)
    return pc.if_else(column(empty), pa.scalar(None, result.type), sums)


def _decimal_average(
    result: Result, values: Sequence[pa.Array], counts: npt.NDArray[np.int64], wide: npt.NDArray[np.bool_]
) -> pa.Array:
    """Exact quotient rounded half up to the result's scale, as Spark divides decimals."""
    low, high = (numbers(v) for v in values)
    scale, precision = result.type.scale, result.type.precision
    empty = _fitting(result, counts == 0, wide & (counts != 0))
    low, high = np.where(wide, 0, low), np.where(wide, 0, high)
    sums = _decimal128(low, high, pa.decimal128(38, result.argument.scale)).cast(
        pa.decimal256(38, result.argument.scale)
    )
    safe = column(np.where(empty, 1, counts)).cast(pa.decimal256(20, 0))
    rounded = pc.round(pc.divide(sums, safe), ndigits=scale, round_mode="half_towards_infinity")
    quotient = rounded.cast(pa.decimal256(76, scale), safe=False)
    bound = pa.scalar(Decimal(10) ** (precision - scale), pa.decimal256(76, scale))
    beyond = pc.greater_equal(pc.abs(quotient), bound).to_numpy(zero_copy_only=False)
    empty = _fitting(result, empty, beyond)
    kept = pc.if_else(column(empty), pa.scalar(None, quotient.type), quotient)
    return kept.cast(result.type)


def _empty_for_null(lists: pa.Array) -> pa.Array:
    """A group that no run has written (the one of an aggregate without GROUP BY) has an empty list."""
    if not lists.null_count:
        return lists
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return pa.ListArray.from_arrays(column(offsets).cast(pa.int32()), lists.flatten())


def _null_for_empty(lists: pa.Array) -> pa.Array:
    """The ordered list of a group without values is NULL."""
    empty = pc.fill_null(pc.equal(pc.list_value_length(lists), 0), True).to_numpy(zero_copy_only=False)
    return lists.take(column(np.arange(len(lists)), empty)) if empty.any() else lists


def _fitting(result: Result, empty: npt.NDArray[np.bool_], beyond: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which sums are NULL, given which are too large: an error, but for ``try_sum``."""
    if not result.lenient and beyond.any():
        raise _overflow(result)
    return empty | beyond


def _overflow(result: Result) -> EvaluationError:
    return EvaluationError(
        "TM3002",
        "a sum does not fit its type",
        got=f"{result.function} of type {result.type}",
        hint="cast the argument to a wider type, e.g. DECIMAL(38, s)",
    )
