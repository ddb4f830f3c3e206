"""Numbers of JSON: where they end, whether they are numbers, and what they are worth, in one pass."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.json_tokens.scalars import FRACTION, INTEGER
from tidemill.formats.values.numbers.digits import MAX_DIGITS, TENS
from tidemill.kernels.byte_masks import byte_at, inlined, kernel, load_word, trailing_zeros

_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)
_PAIRS = np.uint64(0x000000FF000000FF)
_MILLION_HUNDRED = np.uint64(0x000F424000000064)
_TEN_THOUSAND_ONE = np.uint64(0x0000271000000001)


@inlined
def digit_count(word):
    """How many digits a word of 8 bytes begins with."""
    word ^= _ZEROS
    # A carry out of a byte that is no digit changes only bytes behind it.
    return trailing_zeros(((word + _ABOVE_NINE) | word) & _HIGH_BITS) >> 3


@inlined
def digits_of(word, count):
    """The number that the first ``count`` (1..8) bytes of a word spell, all of them digits."""
    nibbles = (word ^ _ZEROS) << np.uint64(64 - 8 * count)
    nibbles = nibbles * np.uint64(10) + (nibbles >> np.uint64(8))
    high = (nibbles & _PAIRS) * _MILLION_HUNDRED
    low = ((nibbles >> np.uint64(16)) & _PAIRS) * _TEN_THOUSAND_ONE
    return (high + low) >> np.uint64(32)


@inlined
def _up_to_eight(buf, i, size):
    """How many of the 8 bytes at ``i`` are digits up to the first that is none, and the number they spell."""
    if i + 8 > size:
        count = np.int64(0)
        value = np.uint64(0)
        while i + count < size and count < 8 and 48 <= byte_at(buf, i + count) <= 57:
            value = value * np.uint64(10) + np.uint64(byte_at(buf, i + count) - 48)
            count += 1
        return count, value
    word = load_word(buf, i)
    count = digit_count(word)
    return count, digits_of(word, count) if count > 0 else np.uint64(0)


@inlined
def _digits(buf, i, size, value):
    """All digits from ``i`` on: offset behind them, and ``value`` with them at its end (wrong beyond 19)."""
    while True:
        count, part = _up_to_eight(buf, i, size)
        value = value * TENS[count] + part
        i += count
        if count < 8:
            return i, value


@kernel
def read_number(buf, start, size):
    """Read a number without its sign; whatever stands behind it is left to the caller.

    Returns
    -------
    tuple of (int, int, uint64, int, bool)
        Offset behind it, or -1 for no number by the grammar of JSON; ``INTEGER`` or ``FRACTION``; its digits as one
        number; how many of them stand behind the point, less the exponent; and whether these two are all of its value:
        there are up to 19 digits, and the exponent has up to three.
    """
    i, value = _digits(buf, start, size, np.uint64(0))
    count = i - start
    if count == 0:
        return np.int64(-1), INTEGER, value, np.int64(0), False
    if byte_at(buf, start) == 48:
        if count > 1:
            return np.int64(-1), INTEGER, value, np.int64(0), False
        count = np.int64(0)
    kind = INTEGER
    behind = np.int64(0)
    plain = True
    if i < size and byte_at(buf, i) == 46:
        kind = FRACTION
        point = i + 1
        i, value = _digits(buf, point, size, value)
        behind = i - point
        if behind == 0:
            return np.int64(-1), kind, value, behind, False
        count += behind
        if count == behind and behind > MAX_DIGITS:
            while byte_at(buf, point) == 48:  # does not count
                point += 1
                count -= 1
                if point == i:
                    break
    if i < size and byte_at(buf, i) | 32 == 101:
        kind = FRACTION
        i += 1
        negative = i < size and byte_at(buf, i) == 45
        if i < size and (byte_at(buf, i) == 43 or byte_at(buf, i) == 45):
            i += 1
        first = i
        exponent = np.int64(0)
        while i < size and 48 <= byte_at(buf, i) <= 57:
            exponent = exponent * 10 + byte_at(buf, i) - 48
            i += 1
        if i == first:
            return np.int64(-1), kind, value, behind, False
        plain = i - first <= 3
        behind += exponent if negative else -exponent
    return i, kind, value, behind, plain and count <= MAX_DIGITS
