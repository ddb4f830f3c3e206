"""Parse fields as dates and timestamps, in the default layouts or by a compiled pattern."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.values.field_text import BAD_VALUE, NULL, VALID, is_null, text_bounds
from tidemill.formats.values.times.civil_dates import checked_days
from tidemill.formats.values.times.time_pattern import DAY, FRACTION, HOUR, LITERAL, MINUTE, MONTH, SECOND, YEAR
from tidemill.kernels.byte_masks import byte_at, inlined, kernel, load_word

MICROS_PER_SECOND = 1_000_000
MICROS_PER_DAY = 86_400 * MICROS_PER_SECOND
_DATE_ZEROS = np.uint64(int.from_bytes(b"0000-00-", "little"))
_HYPHENS = np.uint64(0xFF0000FF00000000)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)

FIRST_MICROS = -719_162 * MICROS_PER_DAY
"""0001-01-01 00:00:00."""
LAST_MICROS = 2_932_897 * MICROS_PER_DAY - 1
"""9999-12-31 23:59:59.999999."""

NO_ZONE = 0
"""The layout has no zone: one in the text is malformed."""
OPTIONAL_ZONE = 1
"""The text may end in ``Z`` or ``+hh:mm``; without it the time is UTC."""


@inlined
def two_digits(buf, i, end):
    """The number that two digits at ``i`` spell, or -1."""
    if i + 2 > end:
        return -1
    tens = byte_at(buf, i) - 48
    ones = byte_at(buf, i + 1) - 48
    if tens < 0 or tens > 9 or ones < 0 or ones > 9:
        return -1
    return tens * 10 + ones


@inlined
def four_digits(buf, i, end):
    """The number that four digits at ``i`` spell, or -1."""
    high = two_digits(buf, i, end)
    low = two_digits(buf, i + 2, end)
    if high < 0 or low < 0:
        return -1
    return high * 100 + low


@inlined
def _one_or_two_digits(buf, i, end):
    """Number and its length; a length of 0 when there is no digit."""
    if i >= end:
        return 0, 0
    value = byte_at(buf, i) - 48
    if value < 0 or value > 9:
        return 0, 0
    if i + 1 < end:
        ones = byte_at(buf, i + 1) - 48
        if 0 <= ones <= 9:
            return value * 10 + ones, 2
    return value, 1


@inlined
def _iso_date(buf, i, end):
    """Read ``yyyy-[m]m-[d]d``; returns days, the offset behind, and whether it is a date."""
    if i + 10 <= end:
        # All of yyyy-MM- at once: digits become 0 to 9, the two hyphens zero.
        word = load_word(buf, i) ^ _DATE_ZEROS
        tens = byte_at(buf, i + 8) - 48
        ones = byte_at(buf, i + 9) - 48
        shaped = ((word + _ABOVE_NINE) | word) & _HIGH_BITS == 0 and word & _HYPHENS == 0
        if shaped and 0 <= tens <= 9 and 0 <= ones <= 9:
            parts = np.int64(word)
            year = (parts & 15) * 1000 + (parts >> 8 & 15) * 100 + (parts >> 16 & 15) * 10 + (parts >> 24 & 15)
            days, good = checked_days(year, (parts >> 40 & 15) * 10 + (parts >> 48 & 15), tens * 10 + ones)
            return days, i + 10, good
    year = four_digits(buf, i, end)
    i += 4
    if year < 0 or i >= end or byte_at(buf, i) != 45:
        return 0, i, False
    month, length = _one_or_two_digits(buf, i + 1, end)
    i += 1 + length
    if length == 0 or i >= end or byte_at(buf, i) != 45:
        return 0, i, False
    day, length = _one_or_two_digits(buf, i + 1, end)
    i += 1 + length
    if length == 0:
        return 0, i, False
    days, good = checked_days(year, month, day)
    return days, i, good


@inlined
def _fraction(buf, i, end, most):
    """Read 1 to ``most`` digits of a second; returns microseconds, cut off, and the number of digits."""
    length = 0
    micros = 0
    unit = 100_000
    while length < most and i + length < end:
        digit = byte_at(buf, i + length) - 48
        if digit < 0 or digit > 9:
            break
        micros += digit * unit
        unit //= 10
        length += 1
    return micros, length


@kernel
def _zone_micros(buf, i, end):
    """Read ``Z``, ``[+-]hh:mm`` or ``[+-]hhmm`` up to the end; returns the offset from UTC and whether it is a zone."""
    if i + 1 == end and byte_at(buf, i) == 90:
        return 0, True
    sign = byte_at(buf, i)
    colon = 1 if i + 6 == end and byte_at(buf, i + 3) == 58 else 0
    if i + 5 + colon != end or (sign != 43 and sign != 45):
        return 0, False
    hours = two_digits(buf, i + 1, end)
    minutes = two_digits(buf, i + 3 + colon, end)
    if hours < 0 or minutes < 0 or minutes > 59 or hours * 60 + minutes > 18 * 60:
        return 0, False
    micros = (hours * 60 + minutes) * 60 * MICROS_PER_SECOND
    return (micros if sign == 43 else -micros), True


@kernel
def iso_timestamp(buf, start, end, zone):
    """Read ``yyyy-MM-dd[[ T]HH:mm[:ss[.f{1,9}]][zone]]``; returns microseconds since 1970, right syntax."""
    days, i, good = _iso_date(buf, start, end)
    if not good:
        return 0, False
    if i == end:
        return days * MICROS_PER_DAY, True
    if end - i < 6 or (byte_at(buf, i) != 32 and byte_at(buf, i) != 84) or byte_at(buf, i + 3) != 58:
        return 0, False
    hour = two_digits(buf, i + 1, end)
    minute = two_digits(buf, i + 4, end)
    second = 0
    i += 6
    if i < end and byte_at(buf, i) == 58:
        second = two_digits(buf, i + 1, end)
        i += 3
    elif i < end and byte_at(buf, i) == 46:
        return 0, False
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return 0, False
    micros = days * MICROS_PER_DAY + ((hour * 60 + minute) * 60 + second) * MICROS_PER_SECOND
    if i < end and byte_at(buf, i) == 46:
        fraction, length = _fraction(buf, i + 1, end, 9)
        if length == 0:
            return 0, False
        micros += fraction
        i += 1 + length
    if i < end:
        if zone == NO_ZONE:
            return 0, False
        offset, good = _zone_micros(buf, i, end)
        if not good:
            return 0, False
        micros -= offset
        # A zone may move the time out of the years 1 to 9999, which is all that a timestamp holds.
        return micros, FIRST_MICROS <= micros <= LAST_MICROS
    return micros, True


@kernel
def pattern_timestamp(buf, start, end, pattern):
    """Read a text laid out by a plain compiled pattern; returns microseconds since 1970 and whether it fits.

    Fields that the pattern lacks are those of 1970-01-01 00:00:00.
    """
    year = 1970
    month = 1
    day = 1
    seconds = 0
    micros = 0
    i = start
    for step in range(pattern.shape[0]):
        kind = pattern[step, 0]
        argument = pattern[step, 1]
        if kind == LITERAL:
            if i >= end or byte_at(buf, i) | pattern[step, 2] != argument:
                return 0, False
            i += 1
        elif kind == YEAR:
            year = four_digits(buf, i, end)
            if year < 0:
                return 0, False
            i += 4
        elif kind == FRACTION:
            micros, length = _fraction(buf, i, end, argument)
            if length == 0:
                return 0, False
            i += length
        else:
            value = two_digits(buf, i, end)
            if value < 0:
                return 0, False
            i += 2
            if kind == MONTH:
                month = value
            elif kind == DAY:
                day = value
            elif kind == HOUR:
                if value > 23:
                    return 0, False
                seconds += value * 3600
            elif kind in (MINUTE, SECOND):
                if value > 59:
                    return 0, False
                seconds += value * (60 if kind == MINUTE else 1)
    if i != end:
        return 0, False
    days, good = checked_days(year, month, day)
    return days * MICROS_PER_DAY + seconds * MICROS_PER_SECOND + micros, good


@kernel
def parse_dates(buf, starts, ends, quote, trim, null_text, pattern, in_lanes, out, status):
    """Parse one column of dates.

    Parameters
    ----------
    buf, starts, ends, quote, trim, null_text
        As for :func:`~tidemill.formats.values.numbers.integers.parse_integers`.
    pattern : ndarray of int64, shape (steps, 6)
        Steps of a plain :class:`~tidemill.formats.values.times.time_pattern.TimePattern`; none mean the default
        ``yyyy-[m]m-[d]d``.
    in_lanes : bool
        Whether rows whose status is ``VALID`` were read in lanes and are to be left alone.
    out : ndarray of int32, shape (rows,)
        Receives days since 1970-01-01.
    status : ndarray of uint8, shape (rows,)

    Returns
    -------
    int
        Number of rows whose outcome is not ``VALID``.
    """
    failures = 0
    for row in range(starts.size):
        if in_lanes and status[row] == VALID:
            continue
        start, end, quoted = text_bounds(buf, np.int64(starts[row]), np.int64(ends[row]), quote, trim)
        days = 0
        outcome = VALID
        if is_null(buf, start, end, quoted, null_text):
            outcome = NULL
        elif pattern.shape[0] == 0:
            days, stop, good = _iso_date(buf, start, end)
            if not good or stop != end:
                outcome = BAD_VALUE
        else:
            micros, good = pattern_timestamp(buf, start, end, pattern)
            days = micros // MICROS_PER_DAY
            if not good:
                outcome = BAD_VALUE
        out[row] = days if outcome == VALID else 0
        status[row] = outcome
        if outcome != VALID:
            failures += 1
    return failures


@kernel
def parse_timestamps(buf, starts, ends, quote, trim, null_text, pattern, zone, in_lanes, out, status):
    """Parse one column of timestamps.

    Parameters
    ----------
    buf, starts, ends, quote, trim, null_text
        As for :func:`~tidemill.formats.values.numbers.integers.parse_integers`.
    pattern : ndarray of int64, shape (steps, 6)
        Steps of a plain :class:`~tidemill.formats.values.times.time_pattern.TimePattern`; none mean the default
        ``yyyy-MM-dd[ T]HH:mm[:ss[.ffffff]][zone]``.
    zone : int
        ``NO_ZONE`` or ``OPTIONAL_ZONE``.
    in_lanes : bool
        Whether rows whose status is ``VALID`` were read in lanes and are to be left alone.
    out : ndarray of int64, shape (rows,)
        Receives microseconds since 1970-01-01 00:00:00 UTC.
    status : ndarray of uint8, shape (rows,)

    Returns
    -------
    int
        Number of rows whose outcome is not ``VALID``.
    """
    failures = 0
    for row in range(starts.size):
        if in_lanes and status[row] == VALID:
            continue
        start, end, quoted = text_bounds(buf, np.int64(starts[row]), np.int64(ends[row]), quote, trim)
        micros = 0
        outcome = VALID
        if is_null(buf, start, end, quoted, null_text):
            outcome = NULL
        else:
            if pattern.shape[0] == 0:
                micros, good = iso_timestamp(buf, start, end, zone)
            else:
                micros, good = pattern_timestamp(buf, start, end, pattern)
            if not good:
                outcome = BAD_VALUE
        out[row] = micros if outcome == VALID else 0
        status[row] = outcome
        if outcome != VALID:
            failures += 1
    return failures
