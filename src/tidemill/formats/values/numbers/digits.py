"""Eight decimal digits at a time: the inner step of the integer, float and decimal parsers.

After Lemire, "Quickly parsing eight digits" (2018), as used by simdjson and fast_float.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.kernels.byte_masks import byte_at, inlined, load_word, trailing_zeros

_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)
_PAIRS = np.uint64(0x000000FF000000FF)
_MILLION_HUNDRED = np.uint64(0x000F424000000064)
_TEN_THOUSAND_ONE = np.uint64(0x0000271000000001)
_HUNDRED_MILLION = np.uint64(100_000_000)
_ONES = np.uint64(0x0101010101010101)
_POINTS = np.uint64(0x2E2E2E2E2E2E2E2E)
MAX_DIGITS = 19
"""The most digits that a uint64 always holds."""
TENS = np.array([10**power for power in range(MAX_DIGITS + 1)], np.uint64)
"""Powers of ten from 0 to ``MAX_DIGITS``."""


@inlined
def word_value(word, digits):
    """The number that the first ``digits`` (1..8) bytes of a word spell.

    Returns
    -------
    tuple of (uint64, bool)
        The value, and whether all these bytes are digits.
    """
    nibbles = (word ^ _ZEROS) << np.uint64(64 - 8 * digits)
    good = ((nibbles + _ABOVE_NINE) | nibbles) & _HIGH_BITS == 0
    nibbles = nibbles * np.uint64(10) + (nibbles >> np.uint64(8))
    high = (nibbles & _PAIRS) * _MILLION_HUNDRED
    low = ((nibbles >> np.uint64(16)) & _PAIRS) * _TEN_THOUSAND_ONE
    return (high + low) >> np.uint64(32), good


@inlined
def point_in_word(word, length):
    """Where the first point stands among the first ``length`` (1..8) bytes of a word; ``length`` for nowhere."""
    other = word ^ _POINTS
    # The lowest marked byte is zero in ``other``; borrows can mark only bytes above it.
    found = (other - _ONES) & ~other & _HIGH_BITS
    return min(trailing_zeros(found) >> 3, length)


@inlined
def without_byte(word, place):
    """The word with the byte at ``place`` (0..7) taken out and those above it moved down."""
    below = (np.uint64(1) << np.uint64(8 * place)) - np.uint64(1)
    return (word & below) | ((word >> np.uint64(8)) & ~below)


@inlined
def digits_value(buf, start, end):
    """The number that ``buf[start:end]`` spells, for 0 to ``MAX_DIGITS`` bytes.

    Returns
    -------
    tuple of (uint64, bool)
        The value, and whether all bytes are digits (True for none).
    """
    value = np.uint64(0)
    good = True
    size = np.int64(buf.size)
    while end - start >= 8 and good:
        part, good = word_value(load_word(buf, start), 8)
        value = value * _HUNDRED_MILLION + part
        start += 8
    rest = end - start
    if rest > 0 and good:
        if start + 8 <= size:
            part, good = word_value(load_word(buf, start), rest)
            value = value * TENS[rest] + part
        else:
            while start < end:
                digit = byte_at(buf, start) - 48
                if digit < 0 or digit > 9:
                    good = False
                    break
                value = value * np.uint64(10) + np.uint64(digit)
                start += 1
    return value, good
