"""Arrow arrays of fewer types: what the encoders of this folder take."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import values_of
from tidemill.schema import DAY_TIME, TIMESTAMP, TIMESTAMP_NTZ, YEAR_MONTH
from tidemill.task.functions.columns.compute import buffer, pc

_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])


def plain(array: pa.Array[Any]) -> pa.Array[Any]:
    """The array with strings, binary, timestamps and numbers each of one type, at every depth; intervals as three
    numbers."""
    if isinstance(array.type, pa.DictionaryType):
        array = pc.dictionary_decode(array)
    if array.type in (DAY_TIME, YEAR_MONTH):
        return _as_interval(array)
    wanted = _plain_type(array.type)
    return array if wanted == array.type else array.cast(wanted)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(type_) or type_ == pa.string_view():
        return pa.string()
    if pa.types.is_large_binary(type_):
        return pa.binary()
    if pa.types.is_timestamp(type_):
        return TIMESTAMP_NTZ if type_.tz is None else TIMESTAMP
    if pa.types.is_time(type_):
        return pa.time64("us")
    if pa.types.is_uint64(type_):
        return pa.decimal128(20, 0)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return pa.list_(_plain_type(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(_plain_type(type_.key_type), _plain_type(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _plain_type(f.type)) for f in type_])
    return type_


def _as_interval(array: pa.Array[Any]) -> pa.Array[Any]:
    """Spark's intervals, which are numbers of months or of microseconds, as Arrow's type with months and days."""
    numbers = array.cast(pa.int64()).fill_null(0).to_numpy()
    parts = np.zeros(len(array), _INTERVAL)
    if array.type == YEAR_MONTH:
        parts["months"] = numbers
    else:
        days = np.trunc(numbers / 86_400_000_000).astype(np.int64)
        parts["days"], parts["nanos"] = days, (numbers - days * 86_400_000_000) * 1000
    valid = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(pa.month_day_nano_interval(), len(array), [valid, buffer(parts)])


def interval_parts(array: pa.Array[Any]) -> npt.NDArray[np.void]:
    """Months, days and nanoseconds of each interval; what they are for NULL is undefined."""
    return values_of(array.buffers()[1], _INTERVAL, len(array), array.offset * _INTERVAL.itemsize)


def decimal_digits(array: pa.Array[Any], whole: int, behind: int = 0) -> pa.Array[Any]:
    """The digits of decimals without sign and point, ``0`` for NULL.

    Parameters
    ----------
    whole : int
        Digits before the point, at least; zeros are put in front.
    behind : int
        Zeros to append.
    """
    scale = array.type.scale
    validity, data = array.buffers()
    unscaled = pa.Array.from_buffers(pa.decimal128(38, 0), len(array), [validity, data], offset=array.offset)
    texts = pc.utf8_ltrim(unscaled.cast(pa.string()).fill_null("0"), "-")
    texts = pc.utf8_lpad(texts, whole + scale, "0")
    return pc.binary_join_element_wise(texts, "0" * behind, "") if behind else texts


def is_negative(array: pa.Array[Any]) -> npt.NDArray[np.bool_]:
    """Which decimals are below zero; not NULL."""
    high = values_of(array.buffers()[1], "<i8", 2 * len(array), array.offset * 16)[1::2]
    found: npt.NDArray[np.bool_] = (high < 0) & array.is_valid().to_numpy(zero_copy_only=False)
    return found
