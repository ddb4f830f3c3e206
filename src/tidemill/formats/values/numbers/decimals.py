"""Parse fields as decimal128(precision, scale), rounding HALF_UP to the scale as Spark does."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.values.field_text import BAD_VALUE, NULL, UNDECIDED, VALID, is_null, text_bounds
from tidemill.formats.values.numbers.digits import TENS, digits_value
from tidemill.kernels.byte_masks import byte_at, inlined, kernel

_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_HUGE_EXPONENT = 1_000_000


@inlined
def _times_ten_plus(high, low, digit):
    """``(high, low) * 10 + digit`` in 128 bits."""
    ten = np.uint64(10)
    bottom = (low & _LOW_HALF) * ten + np.uint64(digit)
    top = (low >> _HALF) * ten + (bottom >> _HALF)
    return high * ten + (top >> _HALF), (top << _HALF) | (bottom & _LOW_HALF)


@kernel
def decimal_syntax(buf, start, end):
    """Check ``digits[.digits][e[+-]digits]`` without a sign.

    Returns
    -------
    tuple of (int, int, int, int, bool)
        Range of the digits from the first one that is not zero (with the point, if it lies there); the power
        of ten of the first digit; number of digits in the range; whether the syntax is right.
    """
    digits = 0
    before_point = 0
    first = -1
    first_index = 0
    seen_point = False
    i = start
    while i < end:
        c = byte_at(buf, i)
        if 48 <= c <= 57:
            if first < 0 and c != 48:
                first = i
                first_index = digits
            digits += 1
            if not seen_point:
                before_point += 1
        elif c == 46 and not seen_point:
            seen_point = True
        else:
            break
        i += 1
    digits_end = i
    exponent = 0
    good = digits > 0
    if good and i < end:
        good = byte_at(buf, i) | 32 == 101
        i += 1
        negative = False
        if good and i < end and (byte_at(buf, i) == 43 or byte_at(buf, i) == 45):
            negative = byte_at(buf, i) == 45
            i += 1
        good = good and i < end
        while good and i < end:
            digit = byte_at(buf, i) - 48
            good = 0 <= digit <= 9
            exponent = min(exponent * 10 + digit, _HUGE_EXPONENT)
            i += 1
        if negative:
            exponent = -exponent
    if first < 0:
        return digits_end, digits_end, 0, 0, good
    return first, digits_end, before_point - 1 - first_index + exponent, digits - first_index, good


@kernel
def _unscaled(buf, start, end, power, precision, scale):
    """The unscaled value of the digits in ``buf[start:end]``, HALF_UP; the first is worth ``10**power``.

    Returns
    -------
    tuple of (uint64, uint64, bool)
        High and low word, and whether the number fits the precision.
    """
    high = np.uint64(0)
    low = np.uint64(0)
    if start == end or power < -scale - 1:
        return high, low, True
    if power + scale >= precision:
        return high, low, False
    i = start
    round_up = False
    while i < end and power >= -scale - 1:
        c = byte_at(buf, i)
        i += 1
        if c == 46:
            continue
        if power == -scale - 1:
            round_up = c >= 53
        else:
            high, low = _times_ten_plus(high, low, c - 48)
        power -= 1
    while power >= -scale:
        high, low = _times_ten_plus(high, low, 0)
        power -= 1
    if round_up:
        low += np.uint64(1)
        if low == 0:
            high += np.uint64(1)
        limit_high = np.uint64(0)
        limit_low = np.uint64(1)
        for _ in range(precision):
            limit_high, limit_low = _times_ten_plus(limit_high, limit_low, 0)
        if high == limit_high and low == limit_low:
            return high, low, False
    return high, low, True


@kernel
def scale_lanes(mantissas, behind, negatives, precision, scale, out, status):
    """From what :func:`~tidemill.formats.values.numbers.lanes.decimal_lanes` read to unscaled values that fit 63 bits
    without rounding; returns how many are left ``UNDECIDED``."""
    undecided = np.int64(0)
    most = min(precision, 18)
    for i in range(status.size):
        shift = scale - np.int64(behind[i])
        good = 0 <= shift <= most
        shift = shift if good else 0
        good &= mantissas[i] < TENS[most - shift]
        sign = -np.int64(negatives[i])
        value = (np.int64(mantissas[i] * TENS[shift]) ^ sign) - sign
        out[2 * i] = np.uint64(value)
        out[2 * i + 1] = np.uint64(value >> 63)
        status[i] = VALID if good else UNDECIDED
        undecided += np.int64(not good)
    return undecided


@kernel
def parse_decimals(buf, starts, ends, quote, trim, null_text, precision, scale, in_lanes, out, status):
    """Parse one column of decimals.

    The syntax is that of a float without ``Infinity`` and ``NaN``. More digits behind the point than the
    scale are rounded; a number that then has more digits than the precision is ``BAD_VALUE``.

    Parameters
    ----------
    buf, starts, ends, quote, trim, null_text
        As for :func:`~tidemill.formats.values.numbers.integers.parse_integers`.
    precision, scale : int
    in_lanes : bool
        Whether rows whose status is ``VALID`` were read in lanes and are to be left alone.
    out : ndarray of uint64, shape (2 * rows,)
        Receives the low and the high word of each two's complement value; 0 where not ``VALID``.
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
        high = np.uint64(0)
        low = np.uint64(0)
        outcome = VALID
        if is_null(buf, start, end, quoted, null_text):
            outcome = NULL
        else:
            negative = False
            if start < end:
                sign = byte_at(buf, start)
                if sign == 45 or sign == 43:
                    negative = sign == 45
                    start += 1
            done = False
            # The common shape, digits.digits with all of the scale written and room to spare.
            point = end - scale - 1
            fits = scale > 0 and start < point and end - start <= 18 and point - start + scale <= precision
            if fits and byte_at(buf, point) == 46:
                whole, good = digits_value(buf, start, point)
                fraction, also_good = digits_value(buf, point + 1, end)
                if good and also_good:
                    low = whole * TENS[scale] + fraction
                    done = True
            if not done:
                first, digits_end, power, _, good = decimal_syntax(buf, start, end)
                if good:
                    high, low, good = _unscaled(buf, first, digits_end, power, precision, scale)
                if not good:
                    outcome = BAD_VALUE
                    high = np.uint64(0)
                    low = np.uint64(0)
            if negative:
                high = ~high
                low = ~low + np.uint64(1)
                if low == 0:
                    high += np.uint64(1)
        if outcome != VALID:
            high = np.uint64(0)
            low = np.uint64(0)
            failures += 1
        out[2 * row] = low
        out[2 * row + 1] = high
        status[row] = outcome
    return failures
