"""Arithmetic on integers and floats; decimals are handed to :mod:`tidemill.task.functions.numbers.decimals`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions.columns import failures
from tidemill.task.functions.columns.compute import Array, null_where, pc
from tidemill.task.functions.columns.numpy_values import from_numpy, to_numpy
from tidemill.task.functions.columns.registry import Value, as_array, fails_unless_try, function
from tidemill.task.functions.numbers import decimals

_CHECKED = {"add": pc.add_checked, "subtract": pc.subtract_checked, "multiply": pc.multiply_checked}
_PLAIN = {"add": pc.add, "subtract": pc.subtract, "multiply": pc.multiply}


def _may_overflow(call: Call) -> bool:
    return fails_unless_try(call) and not pa.types.is_floating(call.type)


def integer_overflow(name: str, left: Value, right: Value, rows: int) -> Array:
    """Where ``left`` op ``right`` does not fit their common integer type (false where NULL)."""
    a, b = to_numpy(left, rows), to_numpy(right, rows)
    with np.errstate(all="ignore"):
        if name == "add":
            wrapped = a + b
            bad = ((a ^ wrapped) & (b ^ wrapped)) < 0
        elif name == "subtract":
            wrapped = a - b
            bad = ((a ^ b) & (a ^ wrapped)) < 0
        else:
            wrapped = a * b
            low = np.iinfo(a.dtype).min
            safe = np.where((b == 0) | (b == -1), 1, b)
            bad = ((b != 0) & (b != -1) & (wrapped // safe != a)) | ((b == -1) & (a == low))
            bad |= (b != 0) & (b != -1) & (wrapped % safe != 0)
    return column(bad)


def _binary(call: Call, args: list[Value], rows: int) -> Value:
    name = call.function
    if pa.types.is_decimal(call.type):
        return decimals.combine(call, args, rows)
    if pa.types.is_floating(call.type):
        return _PLAIN[name](args[0], args[1])
    ansi = fails_unless_try(call)
    try:
        return _CHECKED[name](args[0], args[1])
    except pa.ArrowInvalid:
        both = pc.and_(as_array(args[0], rows).is_valid(), as_array(args[1], rows).is_valid())
        bad = pc.and_(integer_overflow(name, args[0], args[1], rows), both)
        if ansi:
            raise failures.overflow(name, call.type, bad, args[0], args[1]) from None
    plain = as_array(_PLAIN[name](args[0], args[1]), rows)
    return null_where(bad, plain)


function("add", sql=("+", "try_add"), fails=_may_overflow)(_binary)
function("subtract", sql=("-", "try_subtract"), fails=_may_overflow)(_binary)
function("multiply", sql=("*", "try_multiply"), fails=_may_overflow)(_binary)


def nonzero_divisor(call: Call, args: list[Value], rows: int) -> Value:
    """The divisor with NULL for zero, after an error when the mode is ANSI and a zero divides a value."""
    left, right = as_array(args[0], rows), as_array(args[1], rows)
    zero = pc.equal(right, pa.scalar(0, right.type))
    if not failures.any_true(zero):
        return right
    if fails_unless_try(call):
        bad = pc.and_(left.is_valid(), pc.fill_null(zero, False))
        if failures.any_true(bad):
            raise failures.division_by_zero(bad, left)
    return null_where(zero, right)


@function("divide", sql=("/", "try_divide"), fails=fails_unless_try, order="right")
def _divide(call: Call, args: list[Value], rows: int) -> Value:
    divisor = nonzero_divisor(call, args, rows)
    if pa.types.is_decimal(call.type):
        return decimals.divide(call, [args[0], divisor], rows)
    return pc.divide(args[0], divisor)


@function("integral_divide", sql=("div",), fails=fails_unless_try, order="right")
def _integral_divide(call: Call, args: list[Value], rows: int) -> Value:
    divisor = nonzero_divisor(call, args, rows)
    left = as_array(args[0], rows)
    if pa.types.is_decimal(left.type):
        return decimals.integral_divide(call, [left, divisor], rows)
    lowest = pa.scalar(-(2**63), pa.int64())
    bad = pc.fill_null(pc.and_(pc.equal(left, lowest), pc.equal(divisor, pa.scalar(-1, pa.int64()))), False)
    if failures.any_true(bad):
        if fails_unless_try(call):
            raise failures.overflow("div", call.type, bad, left, divisor)
        divisor = null_where(bad, divisor)
    return pc.divide(left, divisor)


def _remainder_numpy(call: Call, left: Array, divisor: Array, *, positive: bool) -> Array:
    a = to_numpy(left, len(left))
    b = to_numpy(divisor, len(left))
    b = np.where(to_numpy(divisor.is_valid(), len(left)), b, np.ones_like(b))
    with np.errstate(all="ignore"):
        if np.issubdtype(a.dtype, np.integer):
            b = np.where(b == -1, np.ones_like(b), b)  # MIN % -1 traps in C, and is 0 like MIN % 1
        result = np.fmod(a, b)
        if positive:
            # Spark: r = a % n; r < 0 ? (r + n) % n : r, where the sum of bytes and shorts wraps.
            result = np.where(result < 0, np.fmod(result + b, b), result)
    return from_numpy(result, call.type, left, divisor)


def _remainder(call: Call, args: list[Value], rows: int) -> Value:
    divisor, positive = nonzero_divisor(call, args, rows), call.function == "pmod"
    left = as_array(args[0], rows)
    if pa.types.is_decimal(call.type):
        return decimals.remainder(call, [left, divisor], rows, positive=positive)
    return _remainder_numpy(call, left, divisor, positive=positive)


function("remainder", sql=("%", "mod", "try_mod"), fails=fails_unless_try, order="right")(_remainder)
function("pmod", fails=fails_unless_try, order="right")(_remainder)


def _lowest(call: Call, value: Value, rows: int) -> None:
    bits = call.type.bit_width
    bad = pc.equal(as_array(value, rows), pa.scalar(-(2 ** (bits - 1)), call.type))
    if failures.any_true(bad):
        raise failures.overflow(call.function, call.type, bad, value)


def _integer(call: Call) -> bool:
    return bool(pa.types.is_integer(call.type))


@function("negate", sql=("-x", "negative"), fails=_integer)
def _negate(call: Call, args: list[Value], rows: int) -> Value:
    if pa.types.is_decimal(call.type):
        return decimals.negate(call, args[0], rows)
    if pa.types.is_integer(call.type):
        _lowest(call, args[0], rows)
    return pc.negate(args[0])


@function("abs", fails=_integer)
def _abs(call: Call, args: list[Value], rows: int) -> Value:
    if pa.types.is_integer(call.type):
        _lowest(call, args[0], rows)
    result = pc.abs(args[0])
    return result.cast(call.type) if result.type != call.type else result
