"""Columns in the text format: each value as PostgreSQL's output functions write it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import values_of
from tidemill.serve.postgres.values.interval_texts import interval_texts
from tidemill.serve.postgres.values.plain_arrays import decimal_digits, is_negative, plain
from tidemill.task.functions.columns.compute import buffer, pc
from tidemill.task.functions.documents.json_write import value_texts
from tidemill.zones import clock_of

_HEX = np.frombuffer("".join(f"{i:02x}" for i in range(256)).encode(), np.uint8).reshape(256, 2)
_DAYS = (-719_162, 2_932_896)
"""0001-01-01 and 9999-12-31: Arrow writes dates between these as PostgreSQL does."""
_DAY = 86_400_000_000
_QUOTED = r'(?i)^$|^null$|[{}",\\\s]'
"""Elements of an array that are written in quotes."""


def text_cells(array: pa.Array[Any], zone: str) -> pa.Array[Any]:
    """The texts of values, NULL for NULL.

    Parameters
    ----------
    array : pyarrow.Array
        Of any type that a view or a query has.
    zone : str
        Whose clock timestamps with time zone show.

    Returns
    -------
    pyarrow.Array
        Of strings.
    """
    array = plain(array)
    type_ = array.type
    if pa.types.is_string(type_):
        return array
    if pa.types.is_null(type_):
        return array.cast(pa.string())
    if pa.types.is_boolean(type_):
        return pc.if_else(array, "t", "f")
    if pa.types.is_floating(type_):
        return _float_texts(array)
    if pa.types.is_decimal(type_):
        return _decimal_texts(array)
    if pa.types.is_binary(type_):
        return _hex_texts(array)
    if pa.types.is_date(type_):
        return _with_far_years(array.cast(pa.string()), array.cast(pa.int32()), 1, "D")
    if pa.types.is_timestamp(type_):
        return _timestamp_texts(array, zone)
    if pa.types.is_time(type_):
        return _without_zeros(array.cast(pa.string()))
    if pa.types.is_interval(type_):
        return interval_texts(array)
    if pa.types.is_list(type_) and not pa.types.is_nested(type_.value_type):
        return _array_texts(array, zone)
    if pa.types.is_nested(type_):
        return _or_null(array, value_texts(array, zone))
    return array.cast(pa.string())


def _or_null(array: pa.Array[Any], texts: pa.Array[Any]) -> pa.Array[Any]:
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, texts.type))


def _join(*parts: Any) -> pa.Array[Any]:
    return pc.binary_join_element_wise(*parts, "")


def _float_texts(array: pa.Array[Any]) -> pa.Array[Any]:
    """The shortest digits that give the number back, with an exponent from 1e15 and below 1e-4 on."""
    texts = array.cast(pa.string())
    values = array.fill_null(0).to_numpy()
    with np.errstate(invalid="ignore"):
        size = np.abs(values)
        odd = ~np.isfinite(values) | ((size < 1e-4) & (size > 0)) | (size >= 1e14)
        if array.type == pa.float32():
            odd |= size >= 1e6
    places = np.flatnonzero(odd)
    if not len(places):
        return texts
    found = pa.array([_odd_float(v) for v in values[places]], pa.string())
    return pc.replace_with_mask(texts, pa.array(odd), found)


def _odd_float(value: np.floating[Any]) -> str:
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if 1 <= abs(value) < (1e15 if isinstance(value, np.float64) else 1e6):
        return np.format_float_positional(value, unique=True, trim="-")
    return np.format_float_scientific(value, unique=True, trim="-", exp_digits=2)


def _decimal_texts(array: pa.Array[Any]) -> pa.Array[Any]:
    """Digits with as many places as the type has, never an exponent."""
    scale = array.type.scale
    texts = decimal_digits(array, 1)
    if scale:
        texts = _join(pc.utf8_slice_codeunits(texts, 0, -scale), ".", pc.utf8_slice_codeunits(texts, -scale, None))
    negative = is_negative(array)
    if negative.any():
        texts = pc.if_else(pa.array(negative), _join("-", texts), texts)
    return _or_null(array, texts)


def _hex_texts(array: pa.Array[Any]) -> pa.Array[Any]:
    _, offsets, data = array.buffers()
    ends = values_of(offsets, "<i4", len(array) + 1, array.offset * 4)
    raw = values_of(data, np.uint8)[ends[0] : ends[-1]] if data is not None else np.zeros(0, np.uint8)
    digits = buffer(np.ascontiguousarray(_HEX[raw]))
    places = buffer(((ends - ends[0]) * 2).astype("<i4"))
    texts = pa.Array.from_buffers(pa.string(), len(array), [None, places, digits])
    return _or_null(array, _join("\\x", texts))


def _timestamp_texts(array: pa.Array[Any], zone: str) -> pa.Array[Any]:
    """``2024-01-31 12:00:00.5``, and for an instant what the clock of a zone shows, with its offset."""
    micros = array.cast(pa.int64()).fill_null(0).to_numpy()
    if array.type.tz is None:
        return _or_null(array, _clock_texts(micros))
    offsets = clock_of(zone).offset(micros) // 1_000_000
    known, places = np.unique(offsets, return_inverse=True)
    names = pc.take(pa.array([_offset_text(int(o)) for o in known], pa.string()), pa.array(places))
    return _or_null(array, _clock_texts(micros + offsets * 1_000_000, names))


def _clock_texts(micros: npt.NDArray[np.int64], suffix: pa.Array[Any] | None = None) -> pa.Array[Any]:
    seconds, rest = np.divmod(micros, 1_000_000)
    if rest.any():
        texts = _without_zeros(pa.array(micros, pa.timestamp("us")).cast(pa.string()))
    else:
        texts = pa.array(seconds, pa.timestamp("s")).cast(pa.string())
    return _with_far_years(texts, pa.array(micros), _DAY, "us", suffix)


def _offset_text(seconds: int) -> str:
    minutes, second = divmod(abs(seconds), 60)
    hour, minute = divmod(minutes, 60)
    text = f"{'-' if seconds < 0 else '+'}{hour:02}"
    if minute or second:
        text += f":{minute:02}"
    return f"{text}:{second:02}" if second else text


def _without_zeros(texts: pa.Array[Any]) -> pa.Array[Any]:
    """Times without the zeros at the end of the fraction of a second."""
    return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")


def _with_far_years(
    texts: pa.Array[Any], numbers: pa.Array[Any], day: int, unit: str, suffix: pa.Array[Any] | None = None
) -> pa.Array[Any]:
    """Texts, those of years before 1 and after 9999 written by NumPy: with ``BC``, and all digits."""
    values = numbers.fill_null(0).to_numpy()
    far = (values < _DAYS[0] * day) | (values >= (_DAYS[1] + 1) * day)
    places = np.flatnonzero(far)
    era: object = ""
    if len(places):
        written = [_far_text(str(np.array(v, f"<M8[{unit}]"))) for v in values[places]]
        texts = pc.replace_with_mask(texts, pa.array(far), pa.array([w[0] for w in written], pa.string()))
        eras = np.full(len(values), "", "<U3")
        eras[places] = [w[1] for w in written]
        era = pa.array(eras.tolist(), pa.string())
    if suffix is None and not len(places):
        return texts
    return _join(texts, "" if suffix is None else suffix, era)


def _far_text(value: str) -> tuple[str, str]:
    text = value.replace("T", " ")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    year, rest = text[1:].split("-", 1) if text.startswith("-") else text.split("-", 1)
    number = -int(year) if text.startswith("-") else int(year)
    return (f"{1 - number:04}-{rest}", " BC") if number < 1 else (f"{number}-{rest}", "")


def _array_texts(array: pa.Array[Any], zone: str) -> pa.Array[Any]:
    """``{1,2,NULL}``; elements in quotes where they could be read as something else."""
    values = pc.list_flatten(array)
    texts = text_cells(values, zone)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_decimal(values.type)):
        special = pc.match_substring_regex(texts, _QUOTED).fill_null(False)
        if pc.any(special).as_py():
            escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
            texts = pc.if_else(special, _join('"', escaped, '"'), texts)
    lists = lists_of(list_offsets(array), texts.fill_null("NULL"))
    return _or_null(array, _join("{", pc.binary_join(lists, ","), "}"))


def list_offsets(array: pa.Array[Any]) -> pa.Array[Any]:
    """The offsets of lists in their flattened values; NULL is an empty list."""
    lengths = pc.list_value_length(array).fill_null(0).to_numpy()
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def lists_of(offsets: pa.Array[Any], values: pa.Array[Any]) -> pa.Array[Any]:
    """Lists of their offsets and values; the type stubs take single types only."""
    lists: pa.Array[Any] = pa.ListArray.from_arrays(offsets, values)  # type: ignore[call-overload]
    return lists
