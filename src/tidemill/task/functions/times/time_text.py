"""Dates and timestamps to text and back, with the lenient formats of Spark's CAST."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ
from tidemill.task.functions.columns import failures
from tidemill.task.functions.columns.compute import Array, null_unless, pc
from tidemill.task.functions.numbers.number_text import BLANKS
from tidemill.zones import Clock

_DATE = r"(?P<sign>[+-]?)(?P<year>[0-9]{4,7})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
_ONLY_DATE = rf"^(?s:{_DATE}(?:[ T].*)?)?)?)$"
_ZONE = (
    r" *(?P<zone>Z|UTC|GMT|UT|(?:UTC|GMT|UT)?(?P<east>[+-])(?P<zh>[0-9]{1,2})"
    r"(?::?(?P<zm>[0-9]{1,2})(?::?(?P<zs>[0-9]{2}))?)?)?"
)
_TIME = (
    r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})"
    rf"(?:\.(?P<fraction>[0-9]{{0,9}}))?{_ZONE})?)?"
)
"""A zone stands behind seconds only."""
_TIMESTAMP = rf"^{_DATE}(?:[ T]{_TIME})?)?)?$"
_REGION = r":[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]*)? *(?:[A-Za-z]+/[A-Za-z_/+-]+[0-9]*|[A-Z]{3,4}|[A-Z]{3}[0-9][A-Z]{3})$"
_TIME_ONLY = r"^T?[0-9]{1,2}:[0-9]{1,2}"

MICROS_PER_DAY = 86_400_000_000


def days_from_civil(
    year: npt.NDArray[np.int64], month: npt.NDArray[np.int64], day: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Days since 1970-01-01 in the proleptic Gregorian calendar, and which of the dates exist."""
    months = (year - 1970) * 12 + month - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    following = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= following - first)
    return first + day - 1, valid


def _numbers(part: Array, default: int) -> npt.NDArray[np.int64]:
    text = pc.if_else(pc.fill_null(pc.equal(part, ""), True), str(default), part)
    numbers: npt.NDArray[np.int64] = text.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def _date_parts(parts: dict[str, Array]) -> tuple[Any, Any]:
    year = _numbers(parts["year"], 1970)
    negative = pc.fill_null(pc.equal(parts["sign"], "-"), False).to_numpy(zero_copy_only=False)
    year = np.where(negative, -year, year)
    return days_from_civil(year, _numbers(parts["month"], 1), _numbers(parts["day"], 1))


def _match(text: Array, pattern: str) -> dict[str, Array]:
    parts = pc.extract_regex(text, pattern)
    valid = parts.is_valid()
    named = {parts.type.field(i).name: null_unless(valid, parts.field(i)) for i in range(parts.type.num_fields)}
    named["valid"] = valid
    return named


def parse_date(text: Array) -> Array:
    """Dates from text such as ``2020``, ``2020-1``, ``2020-1-31`` or ``2020-01-31T...``, else NULL."""
    parts = _match(pc.utf8_trim(text, BLANKS), _ONLY_DATE)
    days, exists = _date_parts(parts)
    good = parts["valid"].to_numpy(zero_copy_only=False) & exists & (np.abs(days) < 2**31)
    return pa.array(np.where(good, days, 0).astype(np.int32), pa.int32(), mask=~good).cast(pa.date32())


def parse_timestamp(text: Array, target: pa.DataType, clock: Clock | None = None) -> Array:
    """Timestamps from text, else NULL; without a zone the text is what a clock shows, one in UTC if none is given.

    Raises
    ------
    EvaluationError
        TM3004 for a time without a date (it would mean today) and for zones that are not offsets.
    """
    trimmed = pc.utf8_trim(text, BLANKS)
    parts = _match(trimmed, _TIMESTAMP)
    matched = parts["valid"].to_numpy(zero_copy_only=False)
    if not matched.all():
        for pattern, what in (
            (_TIME_ONLY, "text has a time and no date, which would mean today"),
            (_REGION, "text has a time zone that is not an offset, which is not supported yet"),
        ):
            odd = pc.and_(pa.array(~matched), pc.fill_null(pc.match_substring_regex(trimmed, pattern), False))
            if failures.any_true(odd):
                raise failures.failure(what, odd, text)
    days, exists = _date_parts(parts)
    hour, minute, second = (_numbers(parts[name], 0) for name in ("hour", "minute", "second"))
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(parts["fraction"], 6, "0"), 0, 6)
    micros = _numbers(fraction, 0)
    good = matched & exists & (hour < 24) & (minute < 60) & (second < 60)
    offset = np.zeros(len(text), dtype=np.int64)
    if target == TIMESTAMP:
        zh, zm, zs = (_numbers(parts[name], 0) for name in ("zh", "zm", "zs"))
        west = pc.fill_null(pc.equal(parts["east"], "-"), False).to_numpy(zero_copy_only=False)
        good &= (zh <= 18) & (zm < 60) & (zs < 60) & (zh * 3600 + zm * 60 + zs <= 18 * 3600)
        offset = np.where(west, -1, 1) * (zh * 3600 + zm * 60 + zs)
    seconds = hour * 3600 + minute * 60 + second - offset
    good &= np.abs(days) < 106_751_991
    total = np.where(good, days, 0) * MICROS_PER_DAY + seconds * 1_000_000 + micros
    if clock is not None and target == TIMESTAMP:
        without = pc.fill_null(pc.equal(parts["zone"], ""), True).to_numpy(zero_copy_only=False)
        total = np.where(without, clock.instant(np.where(good, total, 0)), total)
    return pa.array(np.where(good, total, 0), pa.int64(), mask=~good).cast(target)


def date_text(array: Array) -> Array:
    """``yyyy-MM-dd``, with a sign for years of more than four digits."""
    if usual_days(array):
        return array.cast(pa.string())
    days = array.cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64)
    return null_unless(array.is_valid(), iso_dates(days))


def iso_dates(days: npt.NDArray[np.int64]) -> Array:
    """Days since 1970 as ``yyyy-MM-dd``, with a sign for years of more than four digits: Arrow has no years beyond
    32767, and no sign."""
    texts: Array = pa.array(np.datetime_as_string(days.astype("datetime64[D]")).tolist(), pa.string())
    texts = pc.replace_substring_regex(texts, "^-([0-9]{3}-)", r"-0\1")  # NumPy counts the sign as a digit
    return pc.replace_substring_regex(texts, r"^([0-9]{5,}-)", r"+\1")


def timestamp_text(array: Array) -> Array:
    """``yyyy-MM-dd HH:mm:ss`` in UTC, with as many digits of the fraction as needed."""
    micros = array.cast(pa.int64())
    if usual_years(micros):
        plain = micros.cast(TIMESTAMP_NTZ).cast(pa.string())
    else:
        days, rest = np.divmod(micros.fill_null(0).to_numpy(), MICROS_PER_DAY)
        clock = pc.strftime(pa.array(rest).cast(TIMESTAMP_NTZ), "%H:%M:%S")
        plain = null_unless(array.is_valid(), pc.binary_join_element_wise(iso_dates(days), clock, " "))
    trimmed = pc.replace_substring_regex(plain, r"\.?0{1,6}$", "")
    fraction = pc.match_substring_regex(plain, r"\.000000$")
    # Only zeros after the point may go: 10:20:30.000000 keeps its 30.
    short = pc.utf8_slice_codeunits(plain, 0, -7)
    text = pc.if_else(fraction, short, trimmed)
    return pc.if_else(pc.match_substring(plain, "."), text, plain)


def usual_days(dates: Array) -> bool:
    """Whether all dates are in the years 1 to 9999, whose texts Arrow writes as Java does."""
    return _all_within(dates.cast(pa.int32()), *_DAYS)


def usual_years(micros: Array) -> bool:
    """Whether all times (int64, microseconds) are in the years 1 to 9998, by any clock in 0 to 9999, whose texts Arrow
    writes as Java does."""
    return _all_within(micros, _DAYS[0] * MICROS_PER_DAY, (_DAYS[1] - 366) * MICROS_PER_DAY)


_DAYS = (-719_162, 2_932_896)
"""0001-01-01 and 9999-12-31."""


def _all_within(numbers: Array, least: int, most: int) -> bool:
    found: Any = pc.min_max(numbers)
    smallest, largest = found["min"].as_py(), found["max"].as_py()
    return smallest is None or bool(smallest >= least and largest <= most)
