"""Dates and timestamps as ``from_json`` and ``to_json`` read and write them; the zone and patterns are options."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.schema import TIMESTAMP_NTZ
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, null_where, pc
from tidemill.task.functions.columns.numpy_values import from_numpy, to_numpy
from tidemill.task.functions.columns.registry import apply, try_cast
from tidemill.task.functions.times.time_text import MICROS_PER_DAY, date_text, iso_dates, usual_years
from tidemill.zones import Ints, clock_of


class TimeFormats(NamedTuple):
    """The zone and patterns of dates and timestamps.

    Attributes
    ----------
    zone : str or None
        The time zone of texts without one; None for UTC.
    date, timestamp, timestamp_ntz : str or None
        Patterns; None for the usual forms. Where timestamps are written their pattern may end in ``XXX``.
    microseconds : bool
        Whether the usual form of a timestamp has six digits behind the seconds; Spark's has three.
    """

    zone: str | None = None
    date: str | None = None
    timestamp: str | None = None
    timestamp_ntz: str | None = None
    microseconds: bool = False

    def pattern(self, type_: pa.DataType) -> str | None:
        """The pattern of a date or timestamp type."""
        if pa.types.is_date(type_):
            return self.date
        return self.timestamp_ntz if type_ == TIMESTAMP_NTZ else self.timestamp


OPTIONS = ("date", "timestamp", "timestamp_ntz")
"""The options of a call that have patterns."""


def formats_of(call: Call) -> TimeFormats:
    """The formats in the options of a call."""
    return TimeFormats(call.option("zone"), *(call.option(name) for name in OPTIONS))


_ZONED = r":[0-9.]+ *[A-Z+-]"
"""In a text of a timestamp: a zone behind the seconds."""


def read_times(texts: Array, type_: pa.DataType, formats: TimeFormats) -> Array:
    """Texts in the pattern of their type, or as ``try_cast`` reads them; NULL for others.

    Unlike in a cast, a text with a zone is not a TIMESTAMP_NTZ.
    """
    pattern = formats.pattern(type_) if pa.types.is_date(type_) or pa.types.is_timestamp(type_) else None
    if pattern is not None:
        return _parsed(texts, type_, pattern, formats.zone)
    if type_ == TIMESTAMP_NTZ:
        texts = null_where(pc.match_substring_regex(texts, _ZONED), texts)
    return try_cast(texts, type_, formats.zone)


def written_times(array: Array, formats: TimeFormats) -> Array:
    """``yyyy-MM-dd``, or ``yyyy-MM-dd'T'HH:mm:ss.SSS`` with the offset behind it where the type has a zone.

    With ``formats.microseconds`` there are six digits in place of ``SSS``.
    """
    type_, pattern = array.type, formats.pattern(array.type)
    if pa.types.is_date(type_):
        return date_text(array) if pattern is None else _printed(array.cast(pa.timestamp("us")), pattern)
    offsets = np.zeros(len(array), np.int64)
    plain = array.cast(pa.timestamp("us"))
    if type_.tz and formats.zone is not None:
        micros = to_numpy(array.cast(pa.int64()), len(array))
        offsets = clock_of(formats.zone).offset(micros)
        plain = from_numpy(micros + offsets, pa.int64(), array).cast(pa.timestamp("us"))
    if pattern is not None:
        ends = pattern.endswith(OFFSET) and bool(type_.tz)
        text = _printed(plain, pattern.removesuffix(OFFSET) if ends else pattern)
        return pc.binary_join_element_wise(text, offset_texts(_minutes(offsets)), "") if ends else text
    if usual_years(array.cast(pa.int64())):
        text = _iso(plain, "%Y-%m-%dT%H:%M:%S", formats.microseconds)
    else:
        days, rest = np.divmod(to_numpy(array.cast(pa.int64()), len(array)), MICROS_PER_DAY)
        more, rest = np.divmod(rest + offsets, MICROS_PER_DAY)
        clock = _iso(from_numpy(rest, pa.int64(), array).cast(TIMESTAMP_NTZ), "%H:%M:%S", formats.microseconds)
        text = pc.binary_join_element_wise(iso_dates(days + more), clock, "T")
    return pc.binary_join_element_wise(text, offset_texts(offsets), "") if type_.tz else text


def _iso(plain: Array, pattern: str, microseconds: bool) -> Array:
    whole = plain if microseconds else pc.floor_temporal(plain, unit="millisecond").cast(pa.timestamp("ms"))
    return pc.strftime(whole, pattern)  # with the digits of the unit


OFFSET = "XXX"
"""The letters of a pattern that print an offset, without its seconds."""


def _minutes(offsets: Ints) -> Ints:
    size = 60_000_000
    whole: Ints = np.sign(offsets) * (np.abs(offsets) // size * size)
    return whole


def _printed(plain: Array, pattern: str) -> Array:
    return apply("date_format", plain, pa.string(), pattern=pattern)


def _parsed(texts: Array, type_: pa.DataType, pattern: str, zone: str | None) -> Array:
    found = apply("parse_timestamp", texts, TIMESTAMP_NTZ, mode="try", pattern=pattern)
    if pa.types.is_date(type_):
        return pc.floor_temporal(found, unit="day").cast(pa.date32())
    micros = found.cast(pa.int64())
    if type_ != TIMESTAMP_NTZ and zone is not None:
        micros = from_numpy(clock_of(zone).instant(to_numpy(micros, len(micros))), pa.int64(), micros)
    return micros.cast(type_)


def offset_texts(offsets: Ints) -> Array:
    """Offsets in microseconds as ``Z``, ``+hh:mm`` or, with the seconds of local mean times, ``+hh:mm:ss``."""
    distinct, places = np.unique(offsets // 1_000_000, return_inverse=True)
    texts = [_offset_text(int(seconds)) for seconds in distinct]
    return pa.array(texts, pa.string()).take(column(places))


def _offset_text(seconds: int) -> str:
    if not seconds:
        return "Z"
    minutes, rest = divmod(abs(seconds), 60)
    text = f"{'-' if seconds < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{rest:02}" if rest else text
