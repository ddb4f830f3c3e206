"""CAST and try_cast between the atomic types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.kernels.columns import numbers
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, type_to_ddl
from tidemill.task.expressions import Call, Ref
from tidemill.task.functions.columns import failures
from tidemill.task.functions.columns.compute import (
    Array,
    buffer,
    columns_of,
    digits_of,
    element_type,
    fields_of,
    null_unless,
    null_where,
    nulls,
    pc,
)
from tidemill.task.functions.columns.lists import entries_of, put_together, take_apart
from tidemill.task.functions.columns.numpy_values import bitmap, from_numpy, to_numpy, validity
from tidemill.task.functions.columns.registry import Value, as_array, fails_unless_try, function
from tidemill.task.functions.numbers import number_text as text
from tidemill.task.functions.numbers.decimals import WIDEST, fit, relabel, to_integer, widen
from tidemill.task.functions.times import time_text
from tidemill.zones import Clock, clock_of

Cast: TypeAlias = Callable[[Array, pa.DataType], Array]
"""A cast of an array: NULL for every value that cannot be cast."""

_SECOND = 1_000_000
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""Of the longest integer, by bits."""
_WORD_DIGITS = 19
"""An integer of a type above with zeros behind it, so many digits in all, is one of 64 bits."""


def _plain(array: Array, target: pa.DataType) -> Array:
    return pc.cast(array, target, safe=False)


def _integer_to_integer(array: Array, target: pa.DataType) -> Array:
    if target.bit_width >= array.type.bit_width:
        return array.cast(target)
    bound = 2 ** (target.bit_width - 1)
    wide = array.cast(pa.int64())
    inside = pc.and_(pc.greater_equal(wide, -bound), pc.less(wide, bound))
    return null_unless(inside, wide).cast(target)


def _integer_to_decimal(array: Array, target: pa.DataType) -> Array:
    precision, scale = digits_of(target)
    digits = _DIGITS[array.type.bit_width]
    if pa.types.is_decimal128(target) and precision - scale >= digits and digits + scale <= _WORD_DIGITS:
        words = np.empty((len(array), 2), np.int64)  # a number of 128 bits, the low word first
        words[:, 0] = numbers(array.cast(pa.int64())) * 10**scale
        words[:, 1] = words[:, 0] >> 63
        return pa.Array.from_buffers(target, len(array), [bitmap(validity(array)), buffer(words)])
    return fit(array.cast(pa.decimal256(WIDEST // 2, 0)), target)[0]


def _float_to_integer(array: Array, target: pa.DataType) -> Array:
    values = to_numpy(array, len(array)).astype(np.float64)
    bound = 2.0 ** (target.bit_width - 1)
    whole = np.trunc(values)
    # Java compares floor(x) with the largest value, so -128.5 does not fit a byte: ceil must reach -128.
    inside = (np.floor(values) < bound) & (np.ceil(values) >= -bound)
    numbers = np.where(inside, whole, 0.0).astype(np.int64)
    result = from_numpy(numbers, pa.int64(), array)
    return null_unless(pa.array(inside), result).cast(target)


def _float_to_decimal(array: Array, target: pa.DataType) -> Array:
    wide = array.cast(pa.float64())
    finite = null_unless(pc.is_finite(wide), wide)
    result, bad = text.parse_decimal(finite.cast(pa.string()), target)
    return null_where(bad, result)


def _text_to_decimal(array: Array, target: pa.DataType) -> Array:
    result, bad = text.parse_decimal(array, target)
    return null_where(bad, result)


def _decimal_to_integer(array: Array, target: pa.DataType) -> Array:
    wide = pc.trunc(relabel(widen(array, len(array)), WIDEST, array.type.scale))
    return to_integer(wide.cast(pa.decimal256(WIDEST, 0)), target)[0]


def _decimal_to_float(array: Array, target: pa.DataType) -> Array:
    # Through text: Arrow multiplies by a power of ten, which is off by one bit for some values.
    return array.cast(pa.string()).cast(target)


def _decimal_to_decimal(array: Array, target: pa.DataType) -> Array:
    (source, places), (precision, scale) = digits_of(array.type), digits_of(target)
    if scale >= places and precision - scale >= source - places:
        return array.cast(target)
    return fit(widen(array, len(array)), target)[0]


def _nonzero(array: Array, target: pa.DataType) -> Array:
    return pc.not_equal(array, pa.scalar(0, array.type))


def _boolean_to_number(array: Array, target: pa.DataType) -> Array:
    if pa.types.is_decimal(target):
        return _integer_to_decimal(array.cast(pa.int64()), target)
    return array.cast(pa.int8()).cast(target)


def _float_to_text(array: Array, target: pa.DataType) -> Array:
    return text.float_text(array)


def _decimal_to_text(array: Array, target: pa.DataType) -> Array:
    return text.decimal_text(array)


def _binary_to_text(array: Array, target: pa.DataType) -> Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        raise failures.failure(
            "bytes are not valid UTF-8, and Tidemill stores only valid text", pa.array([True]), array
        ) from None


def _days(array: Array, target: pa.DataType) -> Array:
    return pc.multiply(array.cast(pa.int32()).cast(pa.int64()), 86_400 * _SECOND).cast(target)


def _timestamp_to_date(array: Array, target: pa.DataType) -> Array:
    micros = to_numpy(array.cast(pa.int64()), len(array))
    days = np.floor_divide(micros, 86_400 * _SECOND).astype(np.int32)
    return from_numpy(days, pa.int32(), array).cast(target)


def _timestamp_to_timestamp(array: Array, target: pa.DataType) -> Array:
    return array.cast(pa.int64()).cast(target)


def _timestamp_to_number(array: Array, target: pa.DataType) -> Array:
    micros = array.cast(pa.int64())
    if pa.types.is_floating(target):
        return pc.divide(micros.cast(pa.float64(), safe=False), float(_SECOND)).cast(target)
    if pa.types.is_decimal(target):
        return fit(relabel(micros.cast(pa.decimal256(WIDEST // 2, 0)), WIDEST, 6), target)[0]
    seconds = np.floor_divide(to_numpy(micros, len(array)), _SECOND)
    return _integer_to_integer(from_numpy(seconds, pa.int64(), array), target)


def _integer_to_timestamp(array: Array, target: pa.DataType) -> Array:
    seconds = array.cast(pa.int64())
    low, high = -((2**63 - 1) // _SECOND), (2**63 - 1) // _SECOND
    # Java's SECONDS.toMicros saturates.
    micros = pc.multiply(pc.min_element_wise(pc.max_element_wise(seconds, low), high), _SECOND)
    micros = pc.if_else(pc.greater(seconds, high), 2**63 - 1, micros)
    micros = pc.if_else(pc.less(seconds, low), -(2**63), micros)
    return null_unless(seconds.is_valid(), micros).cast(target)


def _kind(type_: pa.DataType) -> str:
    if type_ == TIMESTAMP:
        return "timestamp"
    if type_ == TIMESTAMP_NTZ:
        return "timestamp_ntz"
    for kind, test in (
        ("void", pa.types.is_null),
        ("boolean", pa.types.is_boolean),
        ("integer", pa.types.is_integer),
        ("float", pa.types.is_floating),
        ("decimal", pa.types.is_decimal),
        ("string", pa.types.is_string),
        ("binary", pa.types.is_binary),
        ("date", pa.types.is_date),
    ):
        if test(type_):
            return kind
    return "nested"


_CASTS: dict[tuple[str, str], tuple[Cast, bool]] = {
    ("boolean", "integer"): (_boolean_to_number, False),
    ("boolean", "float"): (_boolean_to_number, False),
    ("boolean", "decimal"): (_boolean_to_number, True),
    ("boolean", "string"): (_plain, False),
    ("integer", "boolean"): (_nonzero, False),
    ("integer", "integer"): (_integer_to_integer, True),
    ("integer", "float"): (_plain, False),
    ("integer", "decimal"): (_integer_to_decimal, True),
    ("integer", "string"): (_plain, False),
    ("integer", "timestamp"): (_integer_to_timestamp, False),
    ("float", "boolean"): (_nonzero, False),
    ("float", "integer"): (_float_to_integer, True),
    ("float", "float"): (_plain, False),
    ("float", "decimal"): (_float_to_decimal, True),
    ("float", "string"): (_float_to_text, False),
    ("decimal", "boolean"): (_nonzero, False),
    ("decimal", "integer"): (_decimal_to_integer, True),
    ("decimal", "float"): (_decimal_to_float, False),
    ("decimal", "decimal"): (_decimal_to_decimal, True),
    ("decimal", "string"): (_decimal_to_text, False),
    ("string", "boolean"): (lambda array, _: text.parse_boolean(array), True),
    ("string", "integer"): (text.parse_integer, True),
    ("string", "float"): (text.parse_float, True),
    ("string", "decimal"): (_text_to_decimal, True),
    ("string", "date"): (lambda array, _: time_text.parse_date(array), True),
    ("string", "timestamp"): (time_text.parse_timestamp, True),
    ("string", "timestamp_ntz"): (time_text.parse_timestamp, True),
    ("string", "binary"): (_plain, False),
    ("binary", "string"): (_binary_to_text, True),
    ("date", "string"): (lambda array, _: time_text.date_text(array), False),
    ("date", "timestamp"): (_days, False),
    ("date", "timestamp_ntz"): (_days, False),
    ("timestamp", "string"): (lambda array, _: time_text.timestamp_text(array), False),
    ("timestamp_ntz", "string"): (lambda array, _: time_text.timestamp_text(array), False),
    ("timestamp", "date"): (_timestamp_to_date, False),
    ("timestamp_ntz", "date"): (_timestamp_to_date, False),
    ("timestamp", "timestamp_ntz"): (_timestamp_to_timestamp, False),
    ("timestamp_ntz", "timestamp"): (_timestamp_to_timestamp, False),
    ("timestamp", "integer"): (_timestamp_to_number, True),
    ("timestamp", "float"): (_timestamp_to_number, False),
    ("timestamp", "decimal"): (_timestamp_to_number, True),
}


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast between the two types is implemented."""
    if source == target and _kind(source) != "nested":
        return True
    if _kind(source) == _kind(target) == "nested":
        return bool(parts := nested_parts(source, target)) and all(castable(*pair) for pair in parts)
    return _kind(source) == "void" or (_kind(source), _kind(target)) in _CASTS


def cast_can_fail(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether some value of ``source`` cannot be cast to ``target``."""
    if source == target or _kind(source) == "void":
        return False
    if _kind(source) == "nested":
        return any(cast_can_fail(*pair) for pair in nested_parts(source, target))
    if _kind(source) == _kind(target) == "integer":
        return bool(target.bit_width < source.bit_width)
    if _kind(target) == "decimal":
        precision, scale = digits_of(target)
        room = precision - scale
        if _kind(source) == "decimal":
            precision, places = digits_of(source)
            return room < precision - places or scale < places
        if _kind(source) == "integer":
            return bool(room < {8: 3, 16: 5, 32: 10, 64: 19}[source.bit_width])
    return _CASTS[_kind(source), _kind(target)][1]


_OF_CLOCKS = ("string", "date", "timestamp_ntz")


def counts_in_zone(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast depends on the session's time zone."""
    kinds = _kind(source), _kind(target)
    if kinds == ("nested", "nested"):
        return any(counts_in_zone(*pair) for pair in nested_parts(source, target))
    return "timestamp" in kinds and (kinds[0] in _OF_CLOCKS or kinds[1] in _OF_CLOCKS)


def _in_zone(array: Array, target: pa.DataType, clock: Clock) -> Array:
    """A cast that depends on a time zone; NULL for every value that cannot be cast."""
    kinds = _kind(array.type), _kind(target)
    if kinds == ("string", "timestamp"):
        return time_text.parse_timestamp(array, target, clock)
    rows = len(array)
    if kinds[0] == "timestamp":
        shown = clock.local(to_numpy(array.cast(pa.int64()), rows))
        local = from_numpy(shown, pa.int64(), array).cast(TIMESTAMP_NTZ)
        return local if kinds[1] == "timestamp_ntz" else _CASTS["timestamp_ntz", kinds[1]][0](local, target)
    if kinds[0] == "date":
        days = to_numpy(array.cast(pa.int32()), rows).astype(np.int64)
        return from_numpy(clock.start_of_day(days), pa.int64(), array).cast(target)
    return from_numpy(clock.instant(to_numpy(array.cast(pa.int64()), rows)), pa.int64(), array).cast(target)


def nested_parts(source: pa.DataType, target: pa.DataType) -> list[tuple[pa.DataType, pa.DataType]]:
    """The casts that a cast of arrays, structs or maps consists of; none where their shapes differ."""
    if pa.types.is_list(source) and pa.types.is_list(target):
        return [(source.value_type, target.value_type)]
    if pa.types.is_struct(source) and pa.types.is_struct(target) and source.num_fields == target.num_fields:
        return [(s.type, t.type) for s, t in zip(source, target, strict=True)]
    if pa.types.is_map(source) and pa.types.is_map(target) and source.key_type == target.key_type:
        return [(source.item_type, target.item_type)]
    return []


def _cast_nested(call: Call, array: Array) -> Array:
    """Cast each part by itself; a part fails where a cast of its type would."""

    def part(values: Array, target: pa.DataType) -> Array:
        if values.type == target:
            return values
        inner = Call("cast", (Ref(0, values.type),), target, True, call.options)
        return as_array(_cast(inner, [values], len(values)), len(values))

    if pa.types.is_struct(array.type):
        present = array.is_valid()
        fields = [part(f, t.type) for f, t in zip(columns_of(array), fields_of(call.type), strict=True)]
        return pa.StructArray.from_arrays(fields, fields=fields_of(call.type), mask=pc.invert(present))
    lists = take_apart(array, len(array))
    values = lists.values
    if pa.types.is_map(array.type):
        keys, items = lists.entries
        values = entries_of(keys, part(items, cast("pa.MapType[Any, Any, Any]", call.type).item_type))
    else:
        values = part(values, element_type(call.type))
    return put_together(call.type, lists.with_values(values))


def _fails(call: Call) -> bool:
    return fails_unless_try(call) and cast_can_fail(call.args[0].type, call.type)


@function("cast", sql=("CAST", "try_cast", "::", "int(x), string(x), date(x), ..."), fails=_fails)
def _cast(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    if array.type == call.type:
        return array
    if pa.types.is_null(array.type):
        return nulls(rows, call.type)
    if nested_parts(array.type, call.type):
        return _cast_nested(call, array)
    entry = _CASTS.get((_kind(array.type), _kind(call.type)))
    if entry is None:
        raise TidemillError(
            "TM2101",
            "function is not supported yet",
            got=f"CAST({type_to_ddl(array.type)} AS {type_to_ddl(call.type)})",
        )
    zone = call.option("zone")
    if zone is not None and counts_in_zone(array.type, call.type):
        result = _in_zone(array, call.type, clock_of(str(zone)))
    else:
        result = entry[0](array, call.type)
    if _fails(call) and result.null_count > array.null_count:
        bad = pc.and_(result.is_null(), array.is_valid())
        if pa.types.is_floating(array.type) and pa.types.is_decimal(call.type):
            bad = pc.and_(bad, pc.fill_null(pc.is_finite(array), False))  # NaN and infinity are NULL
            if not failures.any_true(bad):
                return result
        if pa.types.is_string(array.type):
            raise failures.invalid_cast(array, call.type, bad)
        raise failures.overflow("cast", call.type, bad, array)
    return result
