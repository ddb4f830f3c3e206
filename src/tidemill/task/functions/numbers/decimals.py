"""Decimal arithmetic with Spark's rounding: exact in 256 bits, then HALF_UP to the result type.

Arrow's decimal kernels are used on relabelled arrays: the unscaled integers are what counts, and a
precision label only as wide as the values of this batch keeps Arrow's result inside 76 digits.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.kernels.kernel import loaded
from tidemill.task.expressions import Call
from tidemill.task.functions.columns import failures
from tidemill.task.functions.columns.compute import Array, digits_of, null_where, pc
from tidemill.task.functions.columns.numpy_values import words_of
from tidemill.task.functions.columns.registry import Value, as_array, fails_unless_try
from tidemill.task.functions.numbers.decimal_words import combine_words

WIDEST = 76
"""Digits of a 256-bit decimal."""
_FEW = 10_000
"""So many rows take less time in 256 bits than it takes to load the first kernel of a process."""


def relabel(array: Array, precision: int, scale: int) -> Array:
    """The same unscaled integers of a 256-bit decimal array under another precision and scale."""
    buffers = array.buffers()
    return pa.Array.from_buffers(
        pa.decimal256(precision, scale), len(array), buffers, null_count=array.null_count, offset=array.offset
    )


def widen(value: Value, rows: int) -> Array:
    """``value`` in 256 bits, same precision and scale."""
    array = as_array(value, rows)
    return array.cast(pa.decimal256(array.type.precision, array.type.scale))


def digits(array: Array) -> int:
    """How many digits the longest unscaled integer of the array has (at least 1)."""
    bounds: dict[str, Decimal | None] = cast("Any", pc.min_max(relabel(array, WIDEST, 0)).as_py())
    # int() first: abs() of a Decimal would round to the 28 digits of Python's decimal context.
    return max((len(str(abs(int(bound)))) for bound in bounds.values() if bound is not None), default=1)


def _too_wide(call: Call, left: Value, right: Value) -> Exception:
    return failures.failure(f"{call.function} needs more than {WIDEST} digits", pa.array([True]), left, right)


def beyond(array: Array, precision: int, scale: int) -> Array:
    """Where the rounded value has more than ``precision - scale`` integer digits."""
    limit = 10 ** (precision - scale)
    if precision - scale + array.type.scale > WIDEST - 1:
        return pa.repeat(pa.scalar(False), len(array))
    bound = pa.scalar(Decimal(limit), pa.decimal256(WIDEST, array.type.scale))
    return pc.greater_equal(pc.abs(array), bound)


def half_up(array: Array, scale: int) -> Array:
    """The 256-bit array rounded HALF_UP (ties away from zero) to at most ``scale`` fraction digits."""
    if array.type.scale <= scale:
        return array
    return pc.round(relabel(array, WIDEST, array.type.scale), scale, "half_towards_infinity")


def fit(array: Array, target: pa.DataType) -> tuple[Array, Array | None]:
    """The 256-bit array rounded into ``target``, NULL where it does not fit, and where that was.

    The second value is ``None`` when everything fits.
    """
    precision, scale = digits_of(target)
    rounded = half_up(array, scale)
    bad = beyond(rounded, precision, scale)
    none_bad = not failures.any_true(bad)
    if not none_bad:
        rounded = null_where(bad, rounded)
    if rounded.type.scale != scale:  # rounding left only zeros beyond the target's scale
        rounded = rounded.cast(pa.decimal256(WIDEST, scale))
    return rounded.cast(target), None if none_bad else bad


def _finish(call: Call, exact: Array, args: list[Value]) -> Array:
    result, bad = fit(exact, call.type)
    if bad is not None and fails_unless_try(call):
        raise failures.overflow(call.function, call.type, bad, *args)
    return result


def combine(call: Call, args: list[Value], rows: int) -> Array:
    """Add, subtract or multiply two decimals of any precision and scale."""
    few = rows <= _FEW and not loaded()
    found = None if few else combine_words(call, args, rows)
    return _combine_wide(call, args, rows) if found is None else found


def _combine_wide(call: Call, args: list[Value], rows: int) -> Array:
    left, right = widen(args[0], rows), widen(args[1], rows)
    if call.function == "multiply":
        scale = left.type.scale + right.type.scale
        first, second = left.type.precision, right.type.precision
        if first + second + 1 > WIDEST:
            first, second = digits(left), digits(right)
        if first + second + 1 > WIDEST:
            product = _widest_product(call, left, right, args)
        else:
            product = pc.multiply(relabel(left, first, 0), relabel(right, second, 0))
        return _finish(call, relabel(product, WIDEST, scale), args)
    left, right = same_scale(call, left, right)
    scale = left.type.scale
    operation = pc.add if call.function == "add" else pc.subtract
    total = operation(relabel(left, WIDEST - 1, scale), relabel(right, WIDEST - 1, scale))
    return _finish(call, total, args)


def _widest_product(call: Call, left: Array, right: Array, args: list[Value]) -> Array:
    """Products of 38 by 38 digits: a row where both operands are that long surely overflows."""
    half = pa.scalar(Decimal("1e37"), pa.decimal256(WIDEST, 0))
    a, b = relabel(left, WIDEST, 0), relabel(right, WIDEST, 0)
    long_a = pc.fill_null(pc.greater_equal(pc.abs(a), half), False)
    bad = pc.and_(long_a, pc.fill_null(pc.greater_equal(pc.abs(b), half), False))
    if failures.any_true(bad):
        precision, scale = digits_of(call.type)
        if 75 - left.type.scale - right.type.scale <= precision - scale:
            raise _too_wide(call, *args)
        if fails_unless_try(call):
            raise failures.overflow(call.function, call.type, bad, *args)
    nothing = pa.scalar(None, a.type)
    a, b = pc.if_else(bad, nothing, a), pc.if_else(bad, nothing, b)
    short = pc.multiply(relabel(pc.if_else(long_a, nothing, a), 37, 0), relabel(b, 38, 0))
    b_short = pc.if_else(long_a, b, nothing)
    other = pc.multiply(relabel(pc.if_else(long_a, a, nothing), 38, 0), relabel(b_short, 37, 0))
    return pc.coalesce(short, other)


def same_scale(call: Call, left: Array, right: Array) -> tuple[Array, Array]:
    """Both 256-bit arrays at the larger of their scales."""
    scale = max(left.type.scale, right.type.scale)
    try:
        wide = pa.decimal256(WIDEST - 1, scale)
        return left.cast(wide), right.cast(wide)
    except pa.ArrowInvalid:
        raise _too_wide(call, left, right) from None


def quotient(call: Call, left: Array, right: Array, fraction: int) -> Array:
    """``left / right`` of unscaled integers, truncated to at least ``fraction`` digits after the point."""
    first = digits(left)
    second = max(digits(right), fraction - 1)
    if first + second + 1 > WIDEST:
        second = digits(right)
        if second + 1 < fraction or first + second + 1 > WIDEST:
            raise _too_wide(call, left, right)
    return pc.divide(relabel(left, first, 0), relabel(right, second, 0))


def divide(call: Call, args: list[Value], rows: int) -> Array:
    """``left / right`` HALF_UP to ``call.type``; the divisor holds no zero.

    Truncating after one digit more than the result keeps is enough: HALF_UP looks at that digit only.
    """
    left, right = widen(args[0], rows), widen(args[1], rows)
    shift = left.type.scale - right.type.scale
    result = quotient(call, left, right, max(1, digits_of(call.type)[1] + 1 - shift))
    scale = result.type.scale + shift
    if scale < 0:
        result = relabel(result, WIDEST - 1, 0)
        factor = pa.scalar(Decimal(10) ** -scale, pa.decimal256(-scale + 1, 0))
        result = pc.multiply(relabel(result, WIDEST + scale - 2, 0), factor)
        scale = 0
    return _finish(call, relabel(result, WIDEST, scale), args)


def _whole_quotient(call: Call, left: Array, right: Array) -> Array:
    result = pc.trunc(quotient(call, left, right, 1))
    return relabel(result, WIDEST, result.type.scale).cast(pa.decimal256(WIDEST, 0))


def integral_divide(call: Call, args: list[Value], rows: int) -> Array:
    """``left div right`` truncated towards zero: the lowest 64 bits, as in Spark, of a quotient that has 38 digits."""
    types = (args[0].type, args[1].type)
    left, right = same_scale(call, widen(args[0], rows), widen(args[1], rows))
    whole = _whole_quotient(call, left, right)
    most = min(38, max(1, types[0].precision - types[0].scale + types[1].scale))
    bad = pc.greater_equal(pc.abs(whole), pa.scalar(Decimal(10) ** most, whole.type))
    if failures.any_true(bad):
        if fails_unless_try(call):
            raise failures.overflow("div", pa.decimal128(most, 0), bad, *args)
        whole = null_where(bad, whole)
    if not len(whole):
        return pa.array([], call.type)
    words = words_of(whole.buffers()[1], np.int64)[4 * whole.offset :: 4][: len(whole)]
    return column(words, whole.is_null().to_numpy(zero_copy_only=False))


def remainder(call: Call, args: list[Value], rows: int, *, positive: bool) -> Array:
    """``left % right`` with the sign of ``left``, or the positive modulus."""
    left, right = same_scale(call, widen(args[0], rows), widen(args[1], rows))
    scale = left.type.scale
    rest = _rest(call, left, right)
    if positive:
        negative = pc.less(rest, pa.scalar(Decimal(0), rest.type))
        total = pc.add(relabel(rest, WIDEST - 1, 0), relabel(right, WIDEST - 1, 0))
        rest = pc.if_else(negative, relabel(_rest(call, total, right), WIDEST, 0), relabel(rest, WIDEST, 0))
    return _finish(call, relabel(rest, WIDEST, scale), args)


def _rest(call: Call, left: Array, right: Array) -> Array:
    whole = _whole_quotient(call, left, right)
    product = pc.multiply(relabel(whole, digits(whole), 0), relabel(right, digits(right), 0))
    rest = pc.subtract(relabel(left, WIDEST - 1, 0), relabel(product, WIDEST - 1, 0))
    return relabel(rest, WIDEST - 1, 0)


def negate(call: Call, value: Value, rows: int) -> Array:
    """``-value``."""
    return pc.negate(as_array(value, rows)).cast(call.type)


def to_integer(whole: Array, target: pa.DataType) -> tuple[Array, Array | None]:
    """Whole decimals as integers, NULL where out of range, and where that was (``None`` if nowhere)."""
    bound = 2 ** (target.bit_width - 1)
    wide = pa.decimal256(WIDEST, 0)
    high = pc.greater(whole, pa.scalar(Decimal(bound - 1), wide))
    bad = pc.or_(high, pc.less(whole, pa.scalar(Decimal(-bound), wide)))
    if failures.any_true(bad):
        return null_where(bad, whole).cast(target), bad
    return whole.cast(target), None
