"""What a JSON value is that is neither text, object nor array."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.byte_masks import byte_at, inlined, kernel, load_word

MISSING = 0
NULL = 1
TEXT = 2
INTEGER = 3
FRACTION = 4
NOT_FINITE = 5
BOOLEAN = 6
OBJECT = 7
ARRAY = 8
"""Kinds of values. ``MISSING`` is a key that is not there, ``NULL`` one with ``null``; an empty text is a ``TEXT``."""

INVALID = -1

_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)

_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)
_NULL = np.frombuffer(b"null", np.uint8)
_NAN = np.frombuffer(b"NaN", np.uint8)
_INFINITY = np.frombuffer(b"Infinity", np.uint8)
_MINUS_INFINITY = np.frombuffer(b"-Infinity", np.uint8)


@inlined
def _is_digit(buf, i, end):
    return i < end and 48 <= byte_at(buf, i) <= 57


@inlined
def _behind_digits(buf, i, end):
    """Offset of the first byte that is no digit."""
    while i + 8 <= end:
        word = load_word(buf, i) ^ _ZEROS
        if ((word + _ABOVE_NINE) | word) & _HIGH_BITS != 0:
            break
        i += 8
    while _is_digit(buf, i, end):
        i += 1
    return i


@kernel
def _number_kind(buf, i, end):
    """Kind of the number without sign in ``buf[i:end]``, by the grammar of JSON."""
    if not _is_digit(buf, i, end):
        return INVALID
    i = i + 1 if byte_at(buf, i) == 48 else _behind_digits(buf, i, end)
    kind = INTEGER
    if i < end and byte_at(buf, i) == 46:
        kind = FRACTION
        if not _is_digit(buf, i + 1, end):
            return INVALID
        i = _behind_digits(buf, i + 1, end)
    if i < end and byte_at(buf, i) | 32 == 101:
        kind = FRACTION
        i += 1
        if i < end and (byte_at(buf, i) == 43 or byte_at(buf, i) == 45):
            i += 1
        if not _is_digit(buf, i, end):
            return INVALID
        i = _behind_digits(buf, i, end)
    return kind if i == end else INVALID


@kernel
def _spelt(buf, start, end, word):
    if end - start != word.size:
        return False
    for k in range(word.size):  # noqa: SIM110 - all() over a generator does not compile to a loop
        if byte_at(buf, start + k) != byte_at(word, k):
            return False
    return True


@kernel
def _word_kind(buf, start, end):
    if _spelt(buf, start, end, _NULL):
        return NULL
    if _spelt(buf, start, end, _TRUE) or _spelt(buf, start, end, _FALSE):
        return BOOLEAN
    if _spelt(buf, start, end, _NAN) or _spelt(buf, start, end, _INFINITY) or _spelt(buf, start, end, _MINUS_INFINITY):
        return NOT_FINITE
    return INVALID


@inlined
def scalar_kind(buf, start, end, size):
    """Kind of the bytes ``buf[start:end]``, at least one: a number, a word such as ``true``, or ``INVALID``."""
    first = byte_at(buf, start)
    i = start
    if first == 45:
        i += 1
        first = byte_at(buf, i) if i < end else 0
    if 48 <= first <= 57:
        length = end - i
        if length <= 8 and i + 8 <= size and (first != 48 or length == 1):
            word = (load_word(buf, i) ^ _ZEROS) << np.uint64(64 - 8 * length)
            if ((word + _ABOVE_NINE) | word) & _HIGH_BITS == 0:
                return INTEGER
        return _number_kind(buf, i, end)
    return _word_kind(buf, start, end)
