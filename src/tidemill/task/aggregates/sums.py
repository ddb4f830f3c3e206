"""SUM and AVG, over integers, decimals and doubles, exact under deletion."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import EvaluationError, TidemillError
from tidemill.kernels.columns import column, numbers
from tidemill.kernels.words import HUGE_UNIT
from tidemill.state.folds import accumulate
from tidemill.state.merge.merge import MergeOp
from tidemill.task.aggregates.accumulators import Accumulator, Array, Ints, Kind, Result, Weights, declare_kinds
from tidemill.task.aggregates.functions import AggregateFunction, Keep, Need, count_of, declare_functions

_TWO64 = 2.0**64

_HIGH, _LOW = np.int64(10**38 >> 64), np.uint64(10**38 % 2**64)

_MINUS_HIGH, _MINUS_LOW = np.int64(-(10**38) >> 64), np.uint64(-(10**38) % 2**64)
"""The words of the least number with more than 38 digits, and of its negative."""


def is_wide(type_: pa.DataType) -> bool:
    """Whether sums of a type may be beyond 128 bits: those of decimals with more digits than Spark adds ten to."""
    return isinstance(type_, pa.Decimal128Type) and type_.precision > 28


def _kind(need: Need) -> str:
    type_ = need.argument_type
    if pa.types.is_floating(type_):
        return "sum_f64" if need.append_only else "sum_exact"
    if is_wide(type_):
        return "sum_wide"
    if pa.types.is_decimal(type_) or pa.types.is_int64(type_):
        return "sum_i128"
    if pa.types.is_integer(type_):
        return "sum_i64"
    raise TidemillError(
        "TM2102",
        "this aggregate is not supported yet for this type",
        got=f"{need.function}({type_})",
        hint="cast the argument to a number",
    )


def _keep(need: Need, keep: Keep) -> Result:
    count = count_of(need, keep)
    return need.result(keep(Accumulator(_kind(need), need.argument, need.distinct)), count)


def _fold_i64(ids: Ints, values: Array, other: Array, weights: Weights, groups: int) -> list[Array]:
    return [column(accumulate.sum_int64(ids, values, weights, groups))]


def _fold_i128(ids: Ints, values: Array, other: Array, weights: Weights, groups: int) -> list[Array]:
    return [column(part) for part in accumulate.sum_i128(ids, values, weights, groups)]


def _fold_wide(ids: Ints, values: Array, other: Array, weights: Weights, groups: int) -> list[Array]:
    words = accumulate.sum_i128(ids, values, weights, groups)
    return [column(part) for part in (*words, accumulate.sum_tops(ids, values, weights, groups))]


def _fold_f64(ids: Ints, values: Array, other: Array, weights: Weights, groups: int) -> list[Array]:
    return [column(accumulate.sum_float(ids, values, weights, groups))]


def _fold_exact(ids: Ints, values: Array, other: Array, weights: Weights, groups: int) -> list[Array]:
    sums = accumulate.sum_dd(ids, values, weights, groups)
    return [column(part) for part in (*sums, *accumulate.count_special(ids, values, weights, groups))]


def _sum(result: Result, kind: str, values: Sequence[Array], counts: Ints) -> Array:
    empty = counts == 0
    if kind in ("sum_f64", "sum_exact"):
        return column(_as_float(kind, values), empty)
    if kind == "sum_i64":
        return column(numbers(values[0]), empty)
    low, high = (numbers(v) for v in values[:2])
    if pa.types.is_int64(result.type):
        beyond = high != (low >> 63)
        return column(low, _fitting(result, empty, beyond))
    return _decimal(result, low, high, empty, _beyond(values))


def _average(result: Result, kind: str, values: Sequence[Array], counts: Ints) -> Array:
    if pa.types.is_decimal(result.argument):
        return _decimal_average(result, values[:2], counts, _beyond(values))
    total = _as_float(kind, values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return column(total / counts, counts == 0)


def _as_float(kind: str, values: Sequence[Array]) -> npt.NDArray[np.float64]:
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


def _decimal128(low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], type_: pa.DataType) -> Array:
    words = np.empty((len(low), 2), np.int64)
    words[:, 0], words[:, 1] = low, high
    return pa.Array.from_buffers(type_, len(low), [None, pa.py_buffer(words.data)])


def _beyond(values: Sequence[Array]) -> npt.NDArray[np.bool_]:
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
) -> Array:
    type_: Any = result.type
    precision, scale = type_.precision, type_.scale
    sums = _decimal128(low, high, pa.decimal128(38, scale))
    if precision < 38:
        bound = pa.scalar(Decimal(10) ** (precision - scale), pa.decimal128(38, scale))
        empty = _fitting(result, empty, pc.greater_equal(pc.abs(sums), bound).to_numpy(zero_copy_only=False))
        sums = _decimal128(low, high, result.type)
    else:
        empty = _fitting(result, empty, beyond)
    found: Array = pc.if_else(column(empty), pa.scalar(None, type_), sums)
    return found


def _decimal_average(
    result: Result, values: Sequence[Array], counts: npt.NDArray[np.int64], wide: npt.NDArray[np.bool_]
) -> Array:
    """Exact quotient rounded half up to the result's scale, as Spark divides decimals."""
    low, high = (numbers(v) for v in values)
    type_: Any = result.type
    argument: Any = result.argument
    precision, scale = type_.precision, type_.scale
    empty = _fitting(result, counts == 0, wide & (counts != 0))
    low, high = np.where(wide, 0, low), np.where(wide, 0, high)
    sums = _decimal128(low, high, pa.decimal128(38, argument.scale)).cast(pa.decimal256(38, argument.scale))
    safe = column(np.where(empty, 1, counts)).cast(pa.decimal256(20, 0))
    rounded = pc.round(pc.divide(sums, safe), ndigits=scale, round_mode="half_towards_infinity")
    quotient = rounded.cast(pa.decimal256(76, scale), safe=False)
    bound = pa.scalar(Decimal(10) ** (precision - scale), pa.decimal256(76, scale))
    beyond = pc.greater_equal(pc.abs(quotient), bound).to_numpy(zero_copy_only=False)
    empty = _fitting(result, empty, beyond)
    found: Array = pc.if_else(column(empty), pa.scalar(None, quotient.type), quotient)
    return found.cast(type_)


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


_INT64, _FLOAT64 = pa.int64(), pa.float64()

declare_kinds(
    Kind("sum_i64", lambda _, types: (_INT64,), lambda _: (MergeOp.SUM,), _fold_i64, carried=True),
    Kind("sum_i128", lambda _, types: (_INT64,) * 2, lambda _: (MergeOp.SUM_I128,), _fold_i128, carried=True),
    Kind(
        "sum_wide", lambda _, types: (_INT64,) * 3, lambda _: (MergeOp.SUM_I128, MergeOp.SUM), _fold_wide, carried=True
    ),
    Kind("sum_f64", lambda _, types: (_FLOAT64,), lambda _: (MergeOp.SUM,), _fold_f64),
    Kind(
        "sum_exact",
        lambda _, types: (_FLOAT64,) * 4 + (_INT64,) * 3,
        lambda _: (MergeOp.SUM_DD,) * 2 + (MergeOp.SUM,) * 3,
        _fold_exact,
    ),
)
declare_functions(AggregateFunction("sum", _keep, _sum), AggregateFunction("avg", _keep, _average))
