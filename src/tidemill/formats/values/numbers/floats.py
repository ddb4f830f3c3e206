"""Parse fields as floating point numbers, correctly rounded.

Three steps, each taken by fewer values: a mantissa below 2**53 with a power of ten up to 22 is one exact
division or multiplication (Clinger 1990), the rest goes to Eisel-Lemire, and what that cannot decide is
marked ``INEXACT`` and goes to Python's float().
"""

from __future__ import annotations

# mypy: allow-untyped-defs
import math
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from tidemill.formats.values.field_text import (
    BAD_VALUE,
    INEXACT,
    NULL,
    UNDECIDED,
    VALID,
    find_text,
    is_null,
    spells,
    text_bounds,
)
from tidemill.formats.values.numbers.digits import TENS, digits_value, point_in_word, without_byte, word_value
from tidemill.formats.values.numbers.eisel_lemire import nearest_double_of
from tidemill.kernels.byte_masks import bits_of_float, byte_at, inlined, kernel, load_word

_POWERS = 10.0 ** np.arange(23)
_EXACT_MANTISSA = np.uint64(1 << 53)
_INFINITY = np.frombuffer(b"Infinity", np.uint8)
_NAN = np.frombuffer(b"NaN", np.uint8)
_FLOAT32_MIDPOINT = np.uint64(0x10000000)
_FLOAT32_TAIL = np.uint64(0x1FFFFFFF)
_FLOAT32_LEAST_NORMAL = 2.0**-126
_FLOAT32_GREATEST = 3.4028234663852886e38
_HUGE_EXPONENT = 1_000_000


@kernel
def float_parts(buf, start, end):
    """Read ``digits[.digits][e[+-]digits]`` without a sign.

    Returns
    -------
    tuple of (uint64, int, bool, bool)
        Mantissa of up to 19 significant digits, power of ten, whether digits beyond these were left out, and
        whether the syntax is right.
    """
    mantissa = np.uint64(0)
    kept = 0
    power = 0
    left_out = False
    seen_digit = False
    seen_point = False
    i = start
    while i < end:
        c = byte_at(buf, i)
        if 48 <= c <= 57:
            seen_digit = True
            if kept < 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(c - 48)
                if mantissa != 0:
                    kept += 1
                if seen_point:
                    power -= 1
            else:
                left_out = left_out or c != 48
                if not seen_point:
                    power += 1
        elif c == 46 and not seen_point:
            seen_point = True
        else:
            break
        i += 1
    if not seen_digit:
        return mantissa, power, left_out, False
    if i < end:
        if byte_at(buf, i) | 32 != 101:
            return mantissa, power, left_out, False
        i += 1
        negative = False
        if i < end and (byte_at(buf, i) == 43 or byte_at(buf, i) == 45):
            negative = byte_at(buf, i) == 45
            i += 1
        if i == end:
            return mantissa, power, left_out, False
        exponent = 0
        while i < end:
            digit = byte_at(buf, i) - 48
            if digit < 0 or digit > 9:
                return mantissa, power, left_out, False
            exponent = min(exponent * 10 + digit, _HUGE_EXPONENT)
            i += 1
        power += -exponent if negative else exponent
    return mantissa, power, left_out, True


@inlined
def _short_decimal(buf, start, end):
    """Read ``digits[.digits]`` of 1 to 19 bytes; returns mantissa, digits behind the point, right syntax."""
    length = end - start
    size = np.int64(buf.size)
    if length <= 8 and start + 8 <= size:
        word = load_word(buf, start)
        point = point_in_word(word, length)
        if point == length:
            mantissa, good = word_value(word, length)
            return mantissa, 0, good
        if length == 1:
            return np.uint64(0), 0, False
        mantissa, good = word_value(without_byte(word, point), length - 1)
        return mantissa, length - point - 1, good
    point = start
    while point < end:
        if point + 8 > size:
            if byte_at(buf, point) == 46:
                break
            point += 1
        else:
            step = min(end - point, 8)
            found = point_in_word(load_word(buf, point), step)
            point += found
            if found < step:
                break
    mantissa, good = digits_value(buf, start, point)
    if point == end or not good:
        return mantissa, 0, good
    behind = end - point - 1
    fraction, good = digits_value(buf, point + 1, end)
    return mantissa * TENS[behind] + fraction, behind, good and length > 1


@kernel
def round_lanes(mantissas, behind, negatives, single, out, status):
    """From what :func:`~tidemill.formats.values.numbers.lanes.decimal_lanes` read to doubles, where one division is
    exact; returns how many are left ``UNDECIDED``."""
    undecided = np.int64(0)
    for i in range(out.size):
        places = behind[i]
        divisor = 10.0 if places & np.uint64(1) != 0 else 1.0
        divisor *= 100.0 if places & np.uint64(2) != 0 else 1.0
        divisor *= 1e4 if places & np.uint64(4) != 0 else 1.0
        divisor *= 1e8 if places & np.uint64(8) != 0 else 1.0
        value = float(np.int64(mantissas[i])) / divisor
        refused = (places > np.uint64(15)) | (mantissas[i] > _EXACT_MANTISSA)
        if single:
            midpoint = bits_of_float(value) & _FLOAT32_TAIL == _FLOAT32_MIDPOINT
            # At most 15 digits behind the point and 16 in all: never denormal, never too great.
            refused |= midpoint
        out[i] = value * (1.0 - 2.0 * float(np.int64(negatives[i])))
        status[i] = UNDECIDED if refused else VALID
        undecided += np.int64(refused)
    return undecided


# Kept whole: with a step of it as a function of its own it was 2.3 % slower for numbers with exponents.
@kernel
def parse_floats(buf, starts, ends, quote, trim, null_text, single, in_lanes, out, status):
    """Parse one column of floats.

    ``[+-]`` and one of ``digits``, ``digits.``, ``.digits``, ``digits.digits``, each with an optional
    exponent; ``Infinity``, ``Inf``, ``NaN``. Too great is infinity, too small is zero, as in Java and Python.

    Parameters
    ----------
    buf, starts, ends, quote, trim, null_text
        As for :func:`~tidemill.formats.values.numbers.integers.parse_integers`.
    single : bool
        The values are going to be rounded to float32: mark ``INEXACT`` what two roundings could get wrong.
    in_lanes : bool
        Whether rows whose status is ``VALID`` were read in lanes and are to be left alone.
    out : ndarray of float64, shape (rows,)
    status : ndarray of uint8, shape (rows,)

    Returns
    -------
    tuple of int
        Number of rows whose outcome is not ``VALID``, and number of those that are ``INEXACT``.
    """
    failures = 0
    inexact = 0
    for row in range(starts.size):
        if in_lanes and status[row] == VALID:
            continue
        start, end, quoted = text_bounds(buf, np.int64(starts[row]), np.int64(ends[row]), quote, trim)
        if is_null(buf, start, end, quoted, null_text):
            out[row] = 0.0
            status[row] = NULL
            failures += 1
            continue
        negative = False
        if start < end:
            first = byte_at(buf, start)
            if first == 45 or first == 43:
                negative = first == 45
                start += 1
        mantissa = np.uint64(0)
        power = 0
        left_out = False
        good = False
        if start < end <= start + 19:
            mantissa, places, good = _short_decimal(buf, start, end)
            power = -places
        if not good:
            mantissa, power, left_out, good = float_parts(buf, start, end)
        value = 0.0
        outcome = VALID
        if good:
            if mantissa == 0 and not left_out:
                value = 0.0
            elif mantissa <= _EXACT_MANTISSA and -22 <= power <= 22 and not left_out:
                value = float(mantissa)
                if power < 0:
                    value /= _POWERS[-power]
                else:
                    value *= _POWERS[power]
            else:
                value, known = nearest_double_of(mantissa, power)
                if known and left_out:
                    above, known = nearest_double_of(mantissa + np.uint64(1), power)
                    known = known and above == value
                if not known:
                    outcome = INEXACT
            if single and outcome == VALID and value != 0.0:
                midpoint = bits_of_float(value) & _FLOAT32_TAIL == _FLOAT32_MIDPOINT
                if midpoint or value < _FLOAT32_LEAST_NORMAL or value > _FLOAT32_GREATEST:
                    outcome = INEXACT
        elif spells(buf, start, end, _INFINITY) or spells(buf, start, end, _INFINITY[:3]):
            value = np.inf
        elif spells(buf, start, end, _NAN):
            value = np.nan
        else:
            outcome = BAD_VALUE
        out[row] = -value if negative else value
        status[row] = outcome
        if outcome != VALID:
            failures += 1
            if outcome == INEXACT:
                inexact += 1
    return failures, inexact


def nearest_double(text: bytes, single: bool) -> float:
    """The double nearest to a decimal number or, for ``single``, one that rounds to the nearest float32.

    A double halfway between two float32 values may stand for a decimal on either side of it; nudging it
    towards the exact value makes the second rounding come out right.
    """
    value = float(text)
    if single and value != 0.0 and math.isfinite(value):
        exact = Decimal(text.decode("ascii"))
        if exact != Decimal(value):
            value = math.nextafter(value, math.inf if exact > Decimal(value) else -math.inf)
    return value


def resolve_inexact(
    buf: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int32],
    ends: npt.NDArray[np.int32],
    quote: int,
    trim: int,
    single: bool,
    out: npt.NDArray[np.float64],
    status: npt.NDArray[np.uint8],
) -> None:
    """Give the rows that :func:`parse_floats` left ``INEXACT`` their values, in place."""
    for row in np.flatnonzero(status == INEXACT):
        start, end = find_text(buf, int(starts[row]), int(ends[row]), quote, trim)
        out[row] = nearest_double(buf[start:end].tobytes(), single)
        status[row] = VALID
