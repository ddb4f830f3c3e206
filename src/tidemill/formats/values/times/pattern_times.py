"""Parse fields as dates and timestamps by any pattern that :mod:`tidemill.formats.values.times.time_pattern` compiles.

Plain twin: :mod:`tests.formats.pattern_reference`.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.values.field_text import BAD_VALUE, NULL, VALID, is_null, text_bounds
from tidemill.formats.values.times.civil_dates import checked_days, days_in_month
from tidemill.formats.values.times.time_pattern import (
    CLOCK_HOUR,
    CLOSE,
    DAY,
    DAY_OF_YEAR,
    DIGITS,
    ERA,
    FIELDS,
    FRACTION,
    GMT_SHIFT,
    HALF_DAY,
    HALF_DAY_CLOCK_HOUR,
    HALF_DAY_HOUR,
    HOUR,
    LITERAL,
    MINUTE,
    MONTH,
    NUMBER,
    OF_CENTURY,
    OFFSET,
    OPEN,
    PLUS_WHEN_LONGER,
    SECOND,
    SHIFT,
    SIGNED,
    WORD,
    YEAR,
    YEAR_OF_ERA,
    ZONE,
    ZONE_OFFSET,
)
from tidemill.formats.values.times.time_zones import ZONE_OF_NODE
from tidemill.formats.values.times.times import (
    FIRST_MICROS,
    LAST_MICROS,
    MICROS_PER_DAY,
    MICROS_PER_SECOND,
    NO_ZONE,
    two_digits,
)
from tidemill.kernels.byte_masks import byte_at, inlined, kernel

UNSET = -(1 << 62)
_MISMATCH = -1
"""The text does not fit here; an optional section may be missing."""
_FAILED = -2
"""The text does not fit, whatever sections are missing."""
_ENOUGH = 10**12
_MOST_SHIFT = 18 * 3600
_LONG_YEAR = 999_999_999
FIXED_ZONE = -1
NO_ZONE_NAME = -2
"""In ``zones``: a row whose offset from UTC is written, or that has no zone."""

FOR_DATES = 2
"""In place of ``NO_ZONE`` and ``OPTIONAL_ZONE``: the zone does not count."""


@inlined
def _digit(buf, i, end):
    """The digit there, or -1."""
    if i >= end:
        return -1
    digit = byte_at(buf, i) - 48
    return digit if digit <= 9 else -1


@inlined
def _merge(fields, field, value):
    """Set a field; returns False if it had another value."""
    good = fields[field] == UNSET or fields[field] == value
    fields[field] = value
    return good


@inlined
def _put(fields, field, value, i):
    """Set a field and go on at ``i``, unless that is negative, or the field has another value."""
    if i < 0:
        return i
    return i if _merge(fields, field, value) else _MISMATCH


@kernel
def _word(buf, i, end, words, first, count):
    """Read one of some words, in any case of ASCII letters: its value, and the place behind it or ``_MISMATCH``."""
    for row in range(first, first + count):
        length = np.int64(words[row, 0])
        if i + length > end:
            continue
        k = 0
        while k < length:
            one, other = byte_at(buf, i + k), np.int64(words[row, 2 + k])
            if one != other and (one ^ other != 32 or not 97 <= (one | 32) <= 122):
                break
            k += 1
        if k == length:
            return np.int64(words[row, 1]), i + length
    return np.int64(0), _MISMATCH


@kernel
def _number(buf, i, end, least, most, subsequent, style):
    """Read a number as Java does: its value, and the place behind it or ``_MISMATCH``."""
    sign = byte_at(buf, i) if i < end else 0
    negative = sign == 45
    positive = sign == 43
    if positive or negative:
        if style != PLUS_WHEN_LONGER and (style != SIGNED or positive):
            return 0, _MISMATCH
        i += 1
    if i + least > end:
        return 0, _MISMATCH
    stop = i
    while stop < end and stop - i < most + subsequent and _digit(buf, stop, end) >= 0:
        stop += 1
    if stop - i < least:
        return 0, _MISMATCH
    if subsequent > 0:
        stop = i + max(least, stop - i - subsequent)
    value = 0
    for k in range(i, stop):
        if value < _ENOUGH:
            value = value * 10 + byte_at(buf, k) - 48
    if negative:
        return -value, (stop if value != 0 else _MISMATCH)
    if style == PLUS_WHEN_LONGER and positive != (stop - i > least):
        return 0, _MISMATCH
    if style == OF_CENTURY:
        value += 2000
    return value, stop


@kernel
def _nanos(buf, i, end, most):
    """Read 1 to ``most`` digits behind a point: nanoseconds, and the place behind or ``_MISMATCH``."""
    nanos = 0
    unit = 100_000_000
    stop = i
    while stop - i < most and _digit(buf, stop, end) >= 0:
        nanos += _digit(buf, stop, end) * unit
        unit //= 10
        stop += 1
    return nanos, (stop if stop > i else _MISMATCH)


@inlined
def _sixtieth(buf, i, end, colon):
    """Read minutes or seconds of an offset, perhaps behind a colon: the number or -1, and the place behind."""
    if colon:
        if i >= end or byte_at(buf, i) != 58:
            return -1, i
        i += 1
    value = two_digits(buf, i, end)
    if value < 0 or value > 59:
        return -1, i
    return value, i + 2


@kernel
def _shift(buf, i, end, colon, with_minutes, with_seconds):
    """Read ``+hh``, perhaps with minutes and seconds: seconds, and the place behind, ``_MISMATCH`` or ``_FAILED``."""
    if i >= end or (byte_at(buf, i) != 43 and byte_at(buf, i) != 45):
        return 0, _MISMATCH
    negative = byte_at(buf, i) == 45
    hours, i = _sixtieth(buf, i + 1, end, False)
    if hours < 0:
        return 0, _MISMATCH
    seconds = 0
    minutes, behind = _sixtieth(buf, i, end, colon)
    if minutes >= 0:
        i = behind
        if with_seconds:
            seconds, behind = _sixtieth(buf, i, end, colon)
            if seconds >= 0:
                i = behind
    elif with_minutes:
        return 0, _MISMATCH
    if hours > 23:
        return 0, _FAILED
    total = hours * 3600 + max(minutes, 0) * 60 + max(seconds, 0)
    return (-total if negative else total), i


@kernel
def _gmt_shift(buf, i, end, full):
    """Read ``GMT``, ``GMT+h[h][:mm[:ss]]`` or, if full, ``GMT+hh:mm[:ss]``; results as of :func:`_shift`."""
    if i + 3 > end or byte_at(buf, i) | 32 != 103 or byte_at(buf, i + 1) | 32 != 109 or byte_at(buf, i + 2) | 32 != 116:
        return 0, _MISMATCH
    i += 3
    if i == end or (byte_at(buf, i) != 43 and byte_at(buf, i) != 45):
        return 0, i
    negative = byte_at(buf, i) == 45
    i += 1
    if full:
        hours = two_digits(buf, i, end)
        if hours < 0 or i + 5 > end:
            # Java looks beyond the end of the text, and gives up.
            return 0, _FAILED if i + 5 > end else _MISMATCH
        minutes = two_digits(buf, i + 3, end)
        if byte_at(buf, i + 2) != 58 or minutes < 0:
            return 0, _MISMATCH
        i += 5
    else:
        hours = _digit(buf, i, end)
        if hours < 0:
            return 0, _FAILED if i >= end else _MISMATCH
        i += 1
        if _digit(buf, i, end) >= 0:
            hours = hours * 10 + _digit(buf, i, end)
            i += 1
        minutes = two_digits(buf, i + 1, end) if i + 2 < end and byte_at(buf, i) == 58 else -1
        i += 3 if minutes >= 0 else 0
    seconds = -1
    if (full or minutes >= 0) and i + 2 < end and byte_at(buf, i) == 58:
        seconds = two_digits(buf, i + 1, end)
        i += 3 if seconds >= 0 else 0
    total = hours * 3600 + max(minutes, 0) * 60 + max(seconds, 0)
    return (-total if negative else total), i


@inlined
def _letter(buf, i, end):
    return byte_at(buf, i) | 32 if i < end else 0


@kernel
def _zone_name(buf, i, end, tree, fields):
    """Read the name of a zone, or an offset in place of one; returns the place behind, ``_MISMATCH`` or ``_FAILED``."""
    if i >= end:
        return _MISMATCH
    prefix = 0
    if _letter(buf, i, end) == 117 and _letter(buf, i + 1, end) == 116:
        prefix = 3 if _letter(buf, i + 2, end) == 99 else 2
    elif _letter(buf, i, end) == 103 and _letter(buf, i + 1, end) == 109 and _letter(buf, i + 2, end) == 116:
        prefix = 3
        if i + 3 < end and byte_at(buf, i + 3) == 48:
            fields[ZONE] = FIXED_ZONE
            fields[ZONE_OFFSET] = 0
            return i + 4
    if prefix > 0 or byte_at(buf, i) == 43 or byte_at(buf, i) == 45:
        seconds, behind = _shift(buf, i + prefix, end, True, True, True)
        if behind == _FAILED or (behind == _MISMATCH and prefix == 0):
            return behind
        if behind == _MISMATCH:
            seconds, behind = 0, i + prefix
        if abs(seconds) > _MOST_SHIFT:
            return _MISMATCH
        fields[ZONE] = FIXED_ZONE
        fields[ZONE_OFFSET] = seconds
        return behind
    node = np.int64(0)
    found = np.int64(NO_ZONE_NAME)
    behind = i
    for k in range(i, end):
        c = byte_at(buf, k)
        node = np.int64(tree[node, c]) if ZONE_OF_NODE < c < 128 else np.int64(0)
        if node == 0:
            break
        if tree[node, ZONE_OF_NODE] >= 0:
            found = np.int64(tree[node, ZONE_OF_NODE])
            behind = k + 1
    if found >= 0:
        fields[ZONE] = found
        return behind
    if byte_at(buf, i) | 32 == 122:
        fields[ZONE] = FIXED_ZONE
        fields[ZONE_OFFSET] = 0
        return i + 1
    return _MISMATCH


@kernel
def read_fields(buf, start, end, steps, words, tree, fields, saved):
    """Read a text by the steps of a pattern; returns whether it fits. ``fields`` receives its fields.

    ``saved`` has a row for each section that may be open at once: the fields, the place and the step behind it.
    """
    fields[:] = UNSET
    depth = 0
    step = 0
    i = start
    while step < steps.shape[0]:
        kind, field = steps[step, 0], steps[step, 1]
        if kind == LITERAL:
            i = i + 1 if i < end and byte_at(buf, i) | steps[step, 2] == field else _MISMATCH
        elif kind == NUMBER:
            value, i = _number(buf, i, end, steps[step, 2], steps[step, 3], steps[step, 4], steps[step, 5])
            i = _put(fields, field, value, i)
        elif kind == DIGITS:
            value, i = _nanos(buf, i, end, steps[step, 3])
            i = _put(fields, field, value, i)
        elif kind == WORD:
            value, i = _word(buf, i, end, words, steps[step, 2], steps[step, 3])
            i = _put(fields, field, value, i)
        elif kind == SHIFT:
            value, behind = _word(buf, i, end, words, steps[step, 2], 1)
            if behind < 0:
                value, behind = _shift(buf, i, end, steps[step, 3] != 0, steps[step, 4] != 0, steps[step, 5] != 0)
            i = _put(fields, field, value, behind)
        elif kind == GMT_SHIFT:
            value, i = _gmt_shift(buf, i, end, steps[step, 2] != 0)
            i = _put(fields, field, value, i)
        elif kind == OPEN:
            saved[depth, :FIELDS] = fields
            saved[depth, FIELDS] = i
            saved[depth, FIELDS + 1] = steps[step, 2]
            depth += 1
        elif kind == CLOSE:
            depth -= 1
        else:
            i = _zone_name(buf, i, end, tree, fields)
        step += 1
        if i == _FAILED or (i == _MISMATCH and depth == 0):
            return False
        if i == _MISMATCH:
            depth -= 1
            fields[:] = saved[depth, :FIELDS]
            i = saved[depth, FIELDS]
            step = saved[depth, FIELDS + 1]
    return i == end


@inlined
def _outside(value, low, high):
    return value != UNSET and (value < low or value > high)


@inlined
def _or(value, default):
    return default if value == UNSET else value


@kernel
def time_of(fields):
    """Microseconds of the day, whether a text says them in full, whether there are such, and whether a date may have
    them: Java does not look at minutes and seconds that leave a gap behind an hour."""
    good = True
    if fields[CLOCK_HOUR] != UNSET:
        hour = fields[CLOCK_HOUR]
        good = 1 <= hour <= 24 and _merge(fields, HOUR, 0 if hour == 24 else hour)
    if fields[HALF_DAY_CLOCK_HOUR] != UNSET:
        hour = fields[HALF_DAY_CLOCK_HOUR]
        good = good and 1 <= hour <= 12 and _merge(fields, HALF_DAY_HOUR, 0 if hour == 12 else hour)
    if good and fields[HALF_DAY] != UNSET and fields[HALF_DAY_HOUR] != UNSET:
        good = not _outside(fields[HALF_DAY_HOUR], 0, 11)
        good = good and _merge(fields, HOUR, fields[HALF_DAY] * 12 + fields[HALF_DAY_HOUR])
        fields[HALF_DAY] = UNSET
        fields[HALF_DAY_HOUR] = UNSET
    if not good:
        return 0, False, False, False
    hour, minute, second = fields[HOUR], fields[MINUTE], fields[SECOND]
    half_hour, half = fields[HALF_DAY_HOUR], fields[HALF_DAY]
    nanos = fields[FRACTION]
    gap = (minute == UNSET and (second != UNSET or nanos != UNSET)) or (second == UNSET and nanos != UNSET)
    unseen = gap and hour != UNSET
    if _outside(hour, 0, 23) or _outside(minute, 0, 59) or _outside(second, 0, 59):
        return 0, False, False, unseen
    if not unseen and _outside(half_hour, 0, 11):
        return 0, False, False, False
    full = hour != UNSET and not gap
    if full and ((half_hour != UNSET and half_hour != hour % 12) or (half != UNSET and half != hour // 12)):
        return 0, False, False, False
    if hour == UNSET:
        hour = _or(half_hour, 12 if half == 1 else 0)
    of_day = (hour * 60 + _or(minute, 0)) * 60 + _or(second, 0)
    return of_day * MICROS_PER_SECOND + _or(nanos, 0) // 1000, full, True, True


@inlined
def _year_of(fields):
    """Make a year of a year of an era; returns whether that is possible."""
    year = fields[YEAR_OF_ERA]
    if year == UNSET:
        return True
    if year < 1 or year > _LONG_YEAR + 1:
        return False
    if fields[ERA] != UNSET:
        return _merge(fields, YEAR, year if fields[ERA] == 1 else 1 - year)
    known = fields[YEAR]
    return known == UNSET or known == (year if known > 0 else 1 - year)


@inlined
def _day_of_year(year, month, day):
    ordinal = day
    for before in range(1, month):
        ordinal += days_in_month(year, before)
    return ordinal


@kernel
def date_of(fields):
    """Days since 1970, whether a text says them in full, and whether there are such."""
    if not _year_of(fields):
        return 0, False, False
    given = fields[YEAR] != UNSET
    year = _or(fields[YEAR], 1970)
    if year > 9999:
        return 0, False, False
    month, day, ordinal = fields[MONTH], fields[DAY], fields[DAY_OF_YEAR]
    if given and month != UNSET and day != UNSET:
        days, good = checked_days(year, month, day)
        good = good and (ordinal == UNSET or ordinal == _day_of_year(year, month, day))
        return days, True, good
    if ordinal == UNSET:
        days, good = checked_days(year, _or(month, 1), _or(day, 1))
        return days, False, good
    first, good = checked_days(year, 1, 1)
    if not good or ordinal < 1 or ordinal > 337 + days_in_month(year, 2):
        return 0, False, False
    of_month, rest = 1, ordinal
    while rest > days_in_month(year, of_month):
        rest -= days_in_month(year, of_month)
        of_month += 1
    if (month != UNSET and month != of_month) or (day != UNSET and day != rest):
        return 0, False, False
    return first + ordinal - 1, given, True


@inlined
def _resolved(fields, zone):
    """Make the value of a row of its fields.

    Returns
    -------
    tuple of (int, int, bool)
        Microseconds or days as :func:`parse_pattern_times` gives them, the zone whose clock shows them or a negative
        number, and whether the fields are a time.
    """
    of_day, whole_time, time_good, date_may = time_of(fields)
    days, whole_date, good = date_of(fields)
    if zone == FOR_DATES:
        good = good and date_may and not (whole_time and whole_date and _outside(fields[OFFSET], -64800, 64800))
        return np.int64(days), np.int64(NO_ZONE_NAME), good
    good = good and time_good
    value = days * MICROS_PER_DAY + of_day
    number = np.int64(NO_ZONE_NAME)
    if fields[ZONE] != UNSET:
        good = good and zone != NO_ZONE
        number = fields[ZONE]
        if number == FIXED_ZONE:
            value -= fields[ZONE_OFFSET] * MICROS_PER_SECOND
    elif fields[OFFSET] != UNSET:
        good = good and zone != NO_ZONE and not _outside(fields[OFFSET], -_MOST_SHIFT, _MOST_SHIFT)
        value -= fields[OFFSET] * MICROS_PER_SECOND
    # The clock of a zone may be a day off; the caller checks the range again when it knows the instant.
    slack = MICROS_PER_DAY if number >= 0 else 0
    return value, number, good and FIRST_MICROS - slack <= value <= LAST_MICROS + slack


@kernel
def parse_pattern_times(buf, starts, ends, quote, trim, null_text, steps, words, tree, zone, out, status, zones):
    """Parse one column of timestamps, or of dates.

    Parameters
    ----------
    buf, starts, ends, quote, trim, null_text
        As for :func:`~tidemill.formats.values.numbers.integers.parse_integers`.
    steps, words
        Those of a :class:`~tidemill.formats.values.times.time_pattern.TimePattern`.
    tree
        That of a :class:`~tidemill.formats.values.times.time_zones.ZoneNames`.
    zone : int
        ``NO_ZONE``, ``OPTIONAL_ZONE`` or ``FOR_DATES``.
    out : ndarray of int64, shape (rows,)
        Receives microseconds since 1970-01-01 00:00:00 UTC, or days; the local time where a zone is named.
    status : ndarray of uint8, shape (rows,)
    zones : ndarray of int16, shape (rows,)
        Receives the number of the zone that is named, else a negative number.

    Returns
    -------
    int
        Number of rows whose outcome is not ``VALID``.
    """
    failures = 0
    fields = np.empty(FIELDS, np.int64)
    saved = np.empty((steps.shape[0], FIELDS + 2), np.int64)
    for row in range(starts.size):
        start, end, quoted = text_bounds(buf, np.int64(starts[row]), np.int64(ends[row]), quote, trim)
        outcome = VALID
        value, number = np.int64(0), np.int64(NO_ZONE_NAME)
        if is_null(buf, start, end, quoted, null_text):
            outcome = NULL
        else:
            good = read_fields(buf, start, end, steps, words, tree, fields, saved)
            if good:
                value, number, good = _resolved(fields, zone)
            if not good:
                outcome = BAD_VALUE
        out[row] = value if outcome == VALID else 0
        zones[row] = number if outcome == VALID else NO_ZONE_NAME
        status[row] = outcome
        failures += outcome != VALID
    return failures
