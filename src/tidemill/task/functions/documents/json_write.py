"""``to_json``: structs, arrays and maps as texts, column by column."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, columns_of, null_unless, pc
from tidemill.task.functions.columns.lists import Lists, put_together, take_apart
from tidemill.task.functions.columns.registry import Value, as_array, function
from tidemill.task.functions.numbers.number_text import float_text
from tidemill.task.functions.times.time_formats import TimeFormats, formats_of, written_times
from tidemill.zones import UTC

_SHORT = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}


@function("to_json")
def _to_json(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    texts = _texts(array, bool(call.option("ignore_nulls", True)), formats_of(call))
    return null_unless(array.is_valid(), texts)


def _joined(*parts: object) -> Array:
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def _texts(array: Array, ignore: bool, formats: TimeFormats) -> Array:
    """The text of each value, ``null`` for NULL."""
    type_ = array.type
    if pa.types.is_struct(type_):
        texts = _struct_texts(array, ignore, formats)
    elif pa.types.is_list(type_) or pa.types.is_map(type_):
        texts = _member_texts(array, ignore, formats)
    else:
        texts = _leaf_texts(array, formats)
    return pc.fill_null(null_unless(array.is_valid(), texts), "null")


def _struct_texts(array: Array, ignore: bool, formats: TimeFormats) -> Array:
    pieces = []
    for field, values in zip(array.type, columns_of(array), strict=True):
        name = "," + quoted(pa.array([field.name]))[0].as_py() + ":"
        piece = _joined(pa.repeat(name, len(array)), _texts(values, ignore, formats))
        if ignore:
            piece = pc.if_else(values.is_valid(), piece, "")
        pieces.append(piece)
    inside = _joined(*pieces) if pieces else pa.repeat("", len(array))
    inside = pc.utf8_slice_codeunits(inside, 1)
    return _joined(pa.repeat("{", len(array)), inside, "}")


def _member_texts(array: Array, ignore: bool, formats: TimeFormats) -> Array:
    lists = take_apart(array, len(array))
    if pa.types.is_map(array.type):
        keys, values = lists.entries
        names = keys if pa.types.is_string(keys.type) else keys.cast(pa.string())
        members = _joined(quoted(names), ":", _texts(values, ignore, formats))
        left, right = "{", "}"
    else:
        members, left, right = _texts(lists.values, ignore, formats), "[", "]"
    every = np.ones(len(array), np.bool_)
    inside = pc.binary_join(put_together(pa.list_(pa.string()), Lists(every, lists.offsets, members)), ",")
    return _joined(pa.repeat(left, len(array)), inside, right)


def _leaf_texts(array: Array, formats: TimeFormats) -> Array:
    type_ = array.type
    if pa.types.is_string(type_):
        return quoted(array)
    if pa.types.is_floating(type_):
        texts = float_text(array)
        return pc.if_else(pc.is_finite(array), texts, _joined('"', texts, '"'))
    if pa.types.is_boolean(type_):
        return pc.if_else(array, "true", "false")
    if pa.types.is_decimal(type_):
        return decimal_texts(array)
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return _joined('"', written_times(array, formats), '"')
    if pa.types.is_binary(type_):
        codes = [None if v is None else b64encode(v).decode() for v in array.to_pylist()]
        return _joined('"', pa.array(codes, pa.string()), '"')
    return array.cast(pa.string())


def decimal_texts(array: Array) -> Array:
    """As ``BigDecimal.toString`` writes them: with an exponent below a millionth."""
    texts = array.cast(pa.string())
    scale = array.type.scale
    if scale <= 6:
        return texts
    value = array.cast(pa.decimal256(76, scale))
    small = pc.less(pc.abs(value), pa.scalar(1, pa.int64()).cast(pa.decimal256(19, 0)).cast(pa.decimal256(76, scale)))
    # Only a few values are that small: each is written by itself.
    places = np.flatnonzero(pc.fill_null(small, False).to_numpy(zero_copy_only=False))
    if not len(places):
        return texts
    rewritten = [_java_decimal(text.as_py()) for text in texts.take(column(places))]
    mask = np.zeros(len(array), np.bool_)
    mask[places] = True
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(rewritten, pa.string()))


def _java_decimal(text: str) -> str:
    from decimal import Decimal

    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    adjusted = exponent + len(digits) - 1
    number = "".join(map(str, digits))
    if adjusted >= -6:
        whole = number.rjust(-exponent + 1, "0")
        return f"{'-' * sign}{whole[:exponent]}.{whole[exponent:]}" if exponent else f"{'-' * sign}{whole}"
    rest = f".{number[1:]}" if len(number) > 1 else ""
    return f"{'-' * sign}{number[0]}{rest}E{adjusted}"


def quoted(array: Array) -> Array:
    """Texts in quotes, with what JSON must escape escaped."""
    texts = array
    if pc.any(pc.match_substring_regex(texts, '[\\x00-\\x1f"\\\\]')).as_py():
        texts = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
        if pc.any(pc.match_substring_regex(texts, "[\\x00-\\x1f]")).as_py():
            for code in range(32):
                texts = pc.replace_substring(texts, chr(code), _SHORT.get(code, f"\\u{code:04X}"))
    return _joined('"', texts, '"')


def value_texts(array: pa.Array[Any], time_zone: str | None = None) -> pa.Array[Any]:
    """The JSON text of each value as ``to_json`` writes it with all NULLs, but for timestamps; binary as Base64.

    Timestamps have six digits behind the seconds, so that no two of them have the same text.

    Parameters
    ----------
    array : pyarrow.Array
        Of any type of Spark's.
    time_zone : str, optional
        Whose clocks timestamps show; UTC by default.
    """
    return _texts(array, False, TimeFormats(None if time_zone == UTC else time_zone, microseconds=True))
