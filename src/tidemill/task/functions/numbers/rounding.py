"""round, bround, ceil and floor: doubles are rounded as the decimal that their text shows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns import failures
from tidemill.task.functions.columns.compute import Array, digits_of, pc
from tidemill.task.functions.columns.numpy_values import from_numpy, to_numpy
from tidemill.task.functions.columns.registry import Value, as_array, fails_unless_try, function
from tidemill.task.functions.numbers.decimals import WIDEST, fit, relabel, widen

_MODES = {"round": "half_towards_infinity", "bround": "half_to_even"}


def _negative_scale(call: Call) -> bool:
    return pa.types.is_integer(call.type) and int(call.option("scale", 0)) < 0


def _float(call: Call) -> bool:
    return bool(pa.types.is_floating(call.args[0].type))


def _round_decimal(call: Call, array: Array, scale: int, mode: str) -> Array:
    wide = relabel(widen(array, len(array)), WIDEST, array.type.scale)
    rounded = wide if wide.type.scale <= scale else pc.round(wide, scale, mode)
    try:
        return rounded.cast(pa.decimal256(WIDEST, digits_of(call.type)[1])).cast(call.type)
    except pa.ArrowInvalid:
        limit = pa.repeat(pa.scalar(True), len(array))
        raise failures.overflow(call.function, call.type, limit, array) from None


def _round_float(array: Array, scale: int, mode: str) -> Array:
    """Floats through their text. Outside 1e17 (or where no digit is left) nothing is to be rounded."""
    size = pc.abs(array)
    finite = pc.fill_null(pc.is_finite(array), False)
    small = pc.less(size, 10.0 ** (-scale - 1))
    large = pc.greater_equal(size, 1e17) if scale >= 0 else pc.greater_equal(size, 1e37)
    work = pc.fill_null(pc.and_not(pc.and_not(finite, small), large), False)
    result = pc.if_else(pc.and_(finite, small), pa.scalar(0.0, array.type), array)
    if failures.any_true(work):
        fraction = min(max(scale, 0) + 20, 38) if scale >= 0 else 20
        exact = array.filter(work).cast(pa.string()).cast(pa.decimal256(WIDEST, fraction))
        rounded = exact if fraction <= scale else pc.round(exact, scale, mode)
        result = pc.replace_with_mask(result, work, rounded.cast(pa.string()).cast(array.type))
    # BigDecimal has no negative zero.
    return pc.if_else(pc.equal(result, 0), pa.scalar(0.0, array.type), result)


def _round(call: Call, args: list[Value], rows: int) -> Value:
    scale = int(call.option("scale", 0))
    mode = _MODES[call.function]
    array = as_array(args[0], rows)
    if pa.types.is_decimal(array.type):
        return _round_decimal(call, array, scale, mode)
    if pa.types.is_floating(array.type):
        return _round_float(array, scale, mode)
    if scale >= 0:
        return array
    wide = array.cast(pa.decimal128(19, 0)).cast(pa.decimal256(WIDEST, 0))
    rounded = pc.round(wide, scale, mode)
    try:
        return rounded.cast(call.type)
    except pa.ArrowInvalid:
        bound = 2 ** (call.type.bit_width - 1)
        text = pa.scalar(str(bound)).cast(rounded.type)
        bad = pc.or_(pc.greater_equal(rounded, text), pc.less(rounded, pc.negate(text)))
        raise failures.overflow(call.function, call.type, bad, array) from None


function("round", fails=_negative_scale)(_round)
function("bround", fails=_negative_scale)(_round)


def _ceil_floor(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    down = call.function == "floor"
    if pa.types.is_integer(array.type):
        return array.cast(call.type)
    if pa.types.is_decimal(array.type):
        return _round_decimal(call, array, int(call.option("scale", 0)), "down" if down else "up")
    values = to_numpy(array, rows)
    whole = np.floor(values) if down else np.ceil(values)
    outside = ~((whole >= -(2.0**63)) & (whole < 2.0**63))
    bad = pc.and_(pa.array(outside), array.is_valid())
    if failures.any_true(bad):
        raise failures.overflow(call.function, call.type, bad, array)
    return from_numpy(np.where(outside, 0.0, whole).astype(np.int64), call.type, array)


function("ceil", sql=("ceil", "ceiling"), fails=_float)(_ceil_floor)
function("floor", fails=_float)(_ceil_floor)


@function("unscaled_value", sql=("(sums of decimals)",))
def _unscaled_value(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    return relabel(widen(array, rows), WIDEST, 0).cast(call.type)


@function("make_decimal", sql=("(sums of decimals)",), fails=fails_unless_try)
def _make_decimal(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    wide = relabel(array.cast(pa.decimal256(WIDEST // 2, 0)), WIDEST, digits_of(call.type)[1])
    result, bad = fit(wide, call.type)
    if bad is not None and fails_unless_try(call):
        raise failures.overflow(call.function, call.type, bad, array)
    return result
