"""Comparisons: NaN equals NaN and is above everything, -0.0 equals 0.0, strings compare bytewise."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.state.keys.layout import is_nested
from tidemill.state.keys.ordering import compare_rows
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, null_where, pc
from tidemill.task.functions.columns.registry import Value, as_array, function


def _comparable(value: Value) -> Value:
    return pc.cast(value, pa.int8()) if pa.types.is_boolean(value.type) else value


def equal(left: Value, right: Value) -> Value:
    """``left = right``, NULL when either is NULL."""
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return pa.scalar(None, pa.bool_())
    if is_nested(left.type):
        return _ordered(left, right, np.array([False, True, False]))
    result = pc.equal(_comparable(left), _comparable(right))
    if pa.types.is_floating(left.type):
        result = pc.or_(result, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return result


def less(left: Value, right: Value) -> Value:
    """``left < right``, NULL when either is NULL."""
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return pa.scalar(None, pa.bool_())
    if is_nested(left.type):
        return _ordered(left, right, np.array([True, False, False]))
    result = pc.less(_comparable(left), _comparable(right))
    if pa.types.is_floating(left.type):
        result = pc.or_(result, pc.and_not(pc.is_nan(right), pc.is_nan(left)))
    return result


def _ordered(left: Value, right: Value, holds: npt.NDArray[np.bool_]) -> Value:
    """Compare nested values: ``holds`` has the answers for before, equal and after; NULL inside a value comes first."""
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return _ordered(as_array(left, 1), as_array(right, 1), holds)[0]
    rows = len(right) if isinstance(left, pa.Scalar) else len(left)
    left, right = as_array(left, rows), as_array(right, rows)
    missing = ~(left.is_valid().to_numpy(zero_copy_only=False) & right.is_valid().to_numpy(zero_copy_only=False))
    return column(holds[compare_rows(left, right) + 1], missing)


def member(values: Array, constants: list[Any]) -> Array:
    """``values IN (constants)``: true, or NULL where unknown, or false."""
    present = [constant for constant in constants if constant is not None]
    if not present:
        return pa.nulls(len(values), pa.bool_())
    if pa.types.is_floating(values.type):
        # is_in compares bits: fold -0.0 into 0.0 and let NaN match NaN.
        values = pc.add(values, pa.scalar(0.0, values.type))
        present = [constant + 0.0 for constant in present]
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), pa.bool_())
    wanted = pa.array(present, values.type)
    found = pc.is_in(values, value_set=wanted)
    if pa.types.is_floating(values.type) and any(constant != constant for constant in present):
        found = pc.or_(found, pc.fill_null(pc.is_nan(values), False))
    unknown = values.is_null() if len(present) == len(constants) else pc.invert(found)
    return null_where(unknown, found)


@function("eq", sql=("=", "=="))
def _eq(call: Call, args: list[Value], rows: int) -> Value:
    return equal(args[0], args[1])


@function("lt", sql=("<",))
def _lt(call: Call, args: list[Value], rows: int) -> Value:
    return less(args[0], args[1])


@function("le", sql=("<=",))
def _le(call: Call, args: list[Value], rows: int) -> Value:
    return pc.invert(less(args[1], args[0]))


@function("gt", sql=(">",))
def _gt(call: Call, args: list[Value], rows: int) -> Value:
    return less(args[1], args[0])


@function("ge", sql=(">=",))
def _ge(call: Call, args: list[Value], rows: int) -> Value:
    return pc.invert(less(args[0], args[1]))


@function("eq_null_safe", sql=("<=>", "IS [NOT] DISTINCT FROM", "equal_null"), strict=False)
def _eq_null_safe(call: Call, args: list[Value], rows: int) -> Value:
    left, right = (as_array(arg, rows) for arg in args)
    same = pc.fill_null(as_array(equal(left, right), rows), False)
    return pc.or_(same, pc.and_(left.is_null(), right.is_null()))


@function("not", sql=("NOT", "!"))
def _not(call: Call, args: list[Value], rows: int) -> Value:
    return pc.invert(args[0])


@function("is_null", sql=("IS NULL", "isnull"), strict=False)
def _is_null(call: Call, args: list[Value], rows: int) -> Value:
    return as_array(args[0], rows).is_null()


@function("is_not_null", sql=("IS NOT NULL", "isnotnull"), strict=False)
def _is_not_null(call: Call, args: list[Value], rows: int) -> Value:
    return as_array(args[0], rows).is_valid()


@function("is_nan", sql=("isnan",), strict=False)
def _is_nan(call: Call, args: list[Value], rows: int) -> Value:
    return pc.fill_null(pc.is_nan(args[0]), False)


@function("nanvl", strict=False)
def _nanvl(call: Call, args: list[Value], rows: int) -> Value:
    nan = pc.fill_null(pc.is_nan(as_array(args[0], rows)), False)
    return pc.if_else(nan, args[1], args[0])


def _extreme(call: Call, args: list[Value], rows: int) -> Value:
    best = as_array(args[0], rows)
    for arg in args[1:]:
        candidate = as_array(arg, rows)
        better = as_array(less(best, candidate) if call.function == "greatest" else less(candidate, best), rows)
        replace = pc.and_(candidate.is_valid(), pc.or_(best.is_null(), pc.fill_null(better, False)))
        best = pc.if_else(replace, candidate, best)
    return best


function("greatest", strict=False)(_extreme)
function("least", strict=False)(_extreme)


@function("normalize_float", sql=("(float keys of GROUP BY and joins)",))
def _normalize_float(call: Call, args: list[Value], rows: int) -> Value:
    zero = pa.scalar(0.0, call.type)
    value = pc.add(args[0], zero)
    return pc.if_else(pc.is_nan(value), pa.scalar(float("nan"), call.type), value)
