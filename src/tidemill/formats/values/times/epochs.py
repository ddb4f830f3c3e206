"""Parse fields as time since 1970-01-01 00:00:00 UTC: ``[+-]digits[.digits]`` of some unit."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.values.field_text import BAD_VALUE, NULL, VALID, is_null, text_bounds
from tidemill.formats.values.times.times import FIRST_MICROS, LAST_MICROS
from tidemill.kernels.byte_masks import byte_at, kernel

_ENOUGH = 9 * 10**17


@kernel
def parse_epochs(buf, starts, ends, quote, trim, null_text, places, out, status):
    """Parse one column of times.

    Parameters
    ----------
    buf, starts, ends, quote, trim, null_text
        As for :func:`~tidemill.formats.values.numbers.integers.parse_integers`.
    places : int
        How many digits behind the point are microseconds: 6 where the unit is a second, 0 where it is a microsecond.
        Further digits are cut off.
    out : ndarray of int64, shape (rows,)
        Receives microseconds, those of the years 1 to 9999.
    status : ndarray of uint8, shape (rows,)

    Returns
    -------
    int
        Number of rows whose outcome is not ``VALID``.
    """
    unit = np.int64(1)
    for _ in range(places):
        unit *= 10
    failures = 0
    for row in range(starts.size):
        start, end, quoted = text_bounds(buf, np.int64(starts[row]), np.int64(ends[row]), quote, trim)
        outcome = VALID
        micros = np.int64(0)
        if is_null(buf, start, end, quoted, null_text):
            outcome = NULL
        else:
            negative = False
            if start < end and (byte_at(buf, start) == 45 or byte_at(buf, start) == 43):
                negative = byte_at(buf, start) == 45
                start += 1
            first = start
            whole = np.int64(0)
            while start < end and 48 <= byte_at(buf, start) <= 57:
                # What is greater than any time in any unit stays so.
                if whole < _ENOUGH:
                    whole = whole * 10 + byte_at(buf, start) - 48
                start += 1
            good = start > first and whole <= (LAST_MICROS - FIRST_MICROS) // unit
            part = np.int64(0)
            if good and start < end and byte_at(buf, start) == 46:
                start += 1
                good = start < end
                digits = 0
                while start < end and 48 <= byte_at(buf, start) <= 57:
                    if digits < places:
                        part = part * 10 + byte_at(buf, start) - 48
                        digits += 1
                    start += 1
                while digits < places:
                    part *= 10
                    digits += 1
            micros = whole * unit + part if good else micros
            if negative:
                micros = -micros
            if not good or start != end or micros < FIRST_MICROS or micros > LAST_MICROS:
                outcome = BAD_VALUE
        out[row] = micros if outcome == VALID else 0
        status[row] = outcome
        if outcome != VALID:
            failures += 1
    return failures
