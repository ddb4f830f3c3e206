"""Functions of numbers that are not arithmetic: factorials, buckets, bits of bitmaps, errors on purpose."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.task.expressions import Call
from tidemill.task.functions.columns import failures, growth
from tidemill.task.functions.columns.compute import null_unless, null_where, nulls, pc
from tidemill.task.functions.columns.numpy_values import from_numpy, to_numpy
from tidemill.task.functions.columns.registry import Value, as_array, function
from tidemill.task.functions.columns.text_buffers import nullable, of_columns, texts

_BITMAP = 32768


@cache
def _factorials() -> pa.Int64Array:
    """Not at the import: to make an array of numbers imports pandas."""
    return pa.array([math.factorial(n) for n in range(21)], pa.int64())


@function("factorial")
def _factorial(call: Call, args: list[Value], rows: int) -> Value:
    """NULL outside 0 to 20."""
    number = as_array(args[0], rows)
    known = pc.and_(pc.greater_equal(number, 0), pc.less_equal(number, 20))
    return _factorials().take(null_unless(known, number))


@function("width_bucket")
def _width_bucket(call: Call, args: list[Value], rows: int) -> Value:
    arrays = [as_array(arg, rows) for arg in args]
    value, low, high = (to_numpy(array, rows).astype(np.float64) for array in arrays[:3])
    count = to_numpy(arrays[3], rows).astype(np.int64)
    up = low < high
    with np.errstate(all="ignore"):
        lower, upper = np.minimum(low, high), np.maximum(low, high)
        part = np.where(up, value - lower, upper - value)
        inner = count * part / (upper - lower)
        # As Java casts: NaN is 0, and what is too large the greatest number, to which 1 is added.
        large = inner >= 2.0**63
        inner = np.where(np.isnan(inner) | large, 0.0, inner).astype(np.int64)
        inner = np.where(large, np.int64(2**63 - 1), inner) + 1
    before = np.where(up, value < lower, value > upper)
    after = np.where(up, value >= upper, value <= lower)
    result = np.where(before, 0, np.where(after, count + 1, inner))
    undefined = (
        (count <= 0) | (count == 2**63 - 1) | np.isnan(value) | (low == high) | ~np.isfinite(low) | ~np.isfinite(high)
    )
    answer = from_numpy(result, pa.int64(), *arrays)
    return null_where(pa.array(undefined), answer)


@function("bit_get", sql=("bit_get", "getbit"), fails=True)
def _bit_get(call: Call, args: list[Value], rows: int) -> Value:
    number, place = as_array(args[0], rows), as_array(args[1], rows)
    places = to_numpy(place, rows).astype(np.int64)
    outside = (places < 0) | (places >= number.type.bit_width)
    bad = pc.and_(pa.array(outside), pc.and_(number.is_valid(), place.is_valid()))
    if failures.any_true(bad):
        raise failures.failure("the bit position is outside the number", bad, number, place)
    bits = to_numpy(number, rows).astype(np.int64) >> np.where(outside, 0, places)
    return from_numpy((bits & 1).astype(np.int8), pa.int8(), number, place)


@function("bitmap_bucket_number")
def _bucket(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    value = to_numpy(array, rows)
    with np.errstate(all="ignore"):
        towards_zero = (value + (_BITMAP - 1)) // _BITMAP
    return from_numpy(np.where(value > 0, 1 + (value - 1) // _BITMAP, towards_zero), pa.int64(), array)


@function("bitmap_bit_position")
def _bit_position(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    value = to_numpy(array, rows)
    with np.errstate(all="ignore"):
        result = np.where(value > 0, (value - 1) % _BITMAP, np.fmod(-value, _BITMAP))
    return from_numpy(result, pa.int64(), array)


_ONES = np.array([byte.bit_count() for byte in range(256)])


@of_columns("bitmap_count")
def _bitmap_count(call: Call, args: list[Value], rows: int) -> Value:
    content = texts(args[0], rows)
    before = np.concatenate([[0], np.cumsum(_ONES[content.raw])])
    return nullable(before[content.last] - before[content.first], call.type, content.valid)


@function("space", size=growth.spaces)
def _space(call: Call, args: list[Value], rows: int) -> Value:
    times = pc.max_element_wise(as_array(args[0], rows), 0, skip_nulls=False)
    return pc.binary_repeat(pa.repeat(pa.scalar(" "), rows), times)


@function("elt", fails=True, strict=False)
def _elt(call: Call, args: list[Value], rows: int) -> Value:
    """The argument with the given number; other numbers are an error."""
    number, *values = (as_array(arg, rows) for arg in args)
    bad = pc.or_(pc.less(number, 1), pc.greater(number, len(values)))
    if failures.any_true(bad):
        got = f"argument {number[failures.first_row(bad)]} of {len(values)}"
        raise EvaluationError("TM3010", "an index is outside its array", got=got, hint="1 is the first")
    return pc.choose(pc.subtract(number, 1), *values)


@function("raise_error", sql=("raise_error", "assert_true"), fails=True)
def _raise_error(call: Call, args: list[Value], rows: int) -> Value:
    message = as_array(args[0], rows)
    if rows:
        shown = next((str(text) for text in message.to_pylist() if text is not None), "null")
        raise EvaluationError("TM3011", "the query raised an error", got=shown, hint="")
    return nulls(0, call.type)


@function("negate_wrapping", sql=("right",))
def _negate_wrapping(call: Call, args: list[Value], rows: int) -> Value:
    return pc.negate(args[0])
