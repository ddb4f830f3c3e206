"""Many fields at a time: loops without branches, which the compiler turns into vector instructions.

A column is parsed in blocks of rows. First the bytes of the fields are gathered into arrays, a word or two of eight
bytes each; then plain arithmetic over these arrays reads the common shapes of a type (digits with a sign and a point)
and marks every other field ``UNDECIDED``, which the parser of the type then reads on its own. A shape that is read
here means the same under all options, so these have no part in it; only where a quote or a NULL marker could be read as
part of a number must lanes not be used (:func:`lanes_apply`).

The arithmetic on eight digits is that of :mod:`tidemill.formats.values.numbers.digits`.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.values.field_text import UNDECIDED, VALID
from tidemill.kernels.byte_masks import byte_at, inlined, item_at, kernel, load_word, trailing_zeros

BLOCK = 128
"""Rows of a block: what is gathered of it, and where its fields lie, stays in the first-level cache."""

_U0 = np.uint64(0)
_U1 = np.uint64(1)
_U7 = np.uint64(7)
_U8 = np.uint64(8)
_U15 = np.uint64(15)
_U32 = np.uint64(32)
_U64 = np.uint64(64)
_LOW_SIX = np.uint64(63)
_BYTE = np.uint64(255)
_HYPHEN = np.uint64(45)
_TEN = np.uint64(10)
_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)
_PAIRS = np.uint64(0x000000FF000000FF)
_MILLION_HUNDRED = np.uint64(0x000F424000000064)
_TEN_THOUSAND_ONE = np.uint64(0x0000271000000001)
_SEVENTH = np.uint64(10_000_000)
_EIGHTH = np.uint64(100_000_000)
_LEAST_SIZE = 8


@inlined
def lanes_apply(buf, quote, null_text):
    """Whether a column may be read in lanes: the buffer holds a word, and neither the quote nor what a marker of NULL
    begins with occurs in numbers and times."""
    if buf.size < _LEAST_SIZE or _in_numbers(quote):
        return False
    return null_text.size == 0 or not _in_numbers(byte_at(null_text, 0))


@inlined
def _in_numbers(c):
    """Whether a byte is a digit, a sign, a point, a colon or the ``T`` of a time."""
    return 45 <= c <= 58 or c == 43 or c == 84


@kernel
def gather(buf, starts, ends, words, tails, lengths):
    """Bring the bytes of fields together.

    Parameters
    ----------
    buf : ndarray of uint8
        At least 8 bytes.
    starts, ends : ndarray of int32, shape (rows,)
        Those of fields; missing ones have ``end < start``.
    words, tails, lengths : ndarray of uint64, shape (>= rows,)
        Receive the first eight bytes, the last eight of fields of eight and more, and the number of bytes. Behind the
        end of a shorter field ``words`` holds what follows it in the buffer, or zeros.

    Returns
    -------
    tuple of int
        The greatest length, and how many fields are longer than lanes read.
    """
    last = np.int64(buf.size) - 8
    longest = np.int64(0)
    long = np.int64(0)
    count = starts.size
    for i in range(count):
        start = np.int64(starts[i])
        length = np.int64(ends[i]) - start
        lengths[i] = np.uint64(length)
        longest = max(longest, length)
        long += np.int64(length > 16)
        if start <= last:
            words[i] = load_word(buf, start)
        else:
            words[i] = load_word(buf, last) >> np.uint64(8 * (start - last) & 63)
    if longest > 8:
        for i in range(count):
            tails[i] = load_word(buf, max(np.int64(ends[i]) - 8, 0))
    return longest, long


@kernel
def gather_marked(buf, marks, at, width, count, words, tails, lengths):
    """:func:`gather` for fields between marks, without writing down where each lies.

    Parameters
    ----------
    buf : ndarray of uint8
        At least 8 bytes.
    marks : ndarray of int32
        See :class:`~tidemill.formats.rows.field_index.MarkedFields`.
    at : int
        The mark at the end of the first field; not the first mark.
    width : int
        From the mark of a field to that of the next one in the column.
    count : int
        Number of fields.
    """
    last = np.int64(buf.size) - 8
    longest = np.int64(0)
    long = np.int64(0)
    inside = item_at(marks, at + (count - 1) * width) <= last
    for i in range(count):
        start = item_at(marks, at + i * width - 1) + 1
        length = item_at(marks, at + i * width) - start
        lengths[i] = np.uint64(length)
        longest = max(longest, length)
        long += np.int64(length > 16)
        if inside or start <= last:
            words[i] = load_word(buf, start)
        else:
            words[i] = load_word(buf, last) >> np.uint64(8 * (start - last) & 63)
    if longest > 8:
        for i in range(count):
            tails[i] = load_word(buf, max(item_at(marks, at + i * width) - 8, 0))
    return longest, long


@inlined
def _lane_value(word, digits):
    """:func:`tidemill.formats.values.numbers.digits.word_value` in unsigned numbers only; nothing of use for 0
    digits."""
    nibbles = (word ^ _ZEROS) << ((_U64 - _U8 * digits) & _LOW_SIX)
    good = ((nibbles + _ABOVE_NINE) | nibbles) & _HIGH_BITS
    nibbles = nibbles * _TEN + (nibbles >> _U8)
    high = (nibbles & _PAIRS) * _MILLION_HUNDRED
    low = ((nibbles >> np.uint64(16)) & _PAIRS) * _TEN_THOUSAND_ONE
    return (high + low) >> _U32, good


@kernel
def integer_lanes(words, tails, lengths, longest, highest, out, status):
    """Read ``[-]digits`` of at most 16 bytes.

    Parameters
    ----------
    words, tails, lengths, longest
        As :func:`gather` leaves them.
    highest : uint64
        Greatest value of the type; its least value is ``-highest - 1``.
    out : ndarray of int64, shape (rows,)
    status : ndarray of uint8, shape (rows,)
        Receive value and ``VALID``, or ``UNDECIDED``.

    Returns
    -------
    int
        Number of fields that are ``UNDECIDED``.
    """
    undecided = np.int64(0)
    count = out.size
    if longest <= 8:
        for i in range(count):
            negative = np.uint64(words[i] & _BYTE == _HYPHEN)
            digits = lengths[i] - negative
            value, wrong = _lane_value(words[i] >> (_U8 * negative), digits)
            refused = (wrong != _U0) | (digits - _U1 > _U7) | (value > highest + negative)
            sign = -np.int64(negative)
            out[i] = (np.int64(value) ^ sign) - sign
            status[i] = UNDECIDED if refused else VALID
            undecided += np.int64(refused)
        return undecided
    for i in range(count):
        negative = np.uint64(words[i] & _BYTE == _HYPHEN)
        digits = lengths[i] - negative
        head = words[i] >> (_U8 * negative)
        many = digits > _U8
        value, wrong = _lane_value(tails[i] if lengths[i] > _U8 else head, min(digits, _U8))
        above, wrong_above = _lane_value(head, digits - _U8)
        value += above * _EIGHTH if many else _U0
        wrong |= wrong_above if many else _U0
        refused = (wrong != _U0) | (digits - _U1 > _U15) | (lengths[i] > _U8 + _U8) | (value > highest + negative)
        sign = -np.int64(negative)
        out[i] = (np.int64(value) ^ sign) - sign
        status[i] = UNDECIDED if refused else VALID
        undecided += np.int64(refused)
    return undecided


@kernel
def decimal_lanes(words, tails, lengths, longest, count, mantissas, behind, negatives):
    """Read ``[-]digits[.digits]`` of at most 16 bytes.

    Parameters
    ----------
    words, tails, lengths, longest, count
        As :func:`gather` leaves them.
    mantissas : ndarray of uint64
        Receives the number that all digits spell together, at most 10**16 - 1.
    behind : ndarray of uint64
        Receives the number of digits behind the point, at most 15; more for a field that is not read.
    negatives : ndarray of uint64
        Receives 1 for a minus, else 0.
    """
    if longest <= 8:
        for i in range(count):
            negative = np.uint64(words[i] & _BYTE == _HYPHEN)
            size = lengths[i] - negative
            word = words[i] >> (_U8 * negative)
            point = min(point_of(word), size)
            pointed = np.uint64(point < size)
            value, wrong = _lane_value(pick(pointed, cut_out(word, point), word), size - pointed)
            refused = (wrong != _U0) | (size - _U1 > _U7) | (size == pointed)
            mantissas[i] = value
            behind[i] = _U64 if refused else (size - point - _U1) * pointed
            negatives[i] = negative
        return
    for i in range(count):
        negative = np.uint64(words[i] & _BYTE == _HYPHEN)
        size = lengths[i] - negative
        head = words[i] >> (_U8 * negative)
        many = np.uint64(size > _U8)
        word = tails[i] if lengths[i] > _U8 else head
        width = min(size, _U8)
        above = size - _U8 if many != _U0 else _U0
        high_point = min(point_of(head), above)
        high_pointed = np.uint64(high_point < above)
        point = min(point_of(word), width)
        pointed = np.uint64(point < width) & (high_pointed ^ _U1)
        value, wrong = _lane_value(pick(pointed, cut_out(word, point), word), width - pointed)
        high_digits = above - high_pointed
        high, high_wrong = _lane_value(pick(high_pointed, cut_out(head, high_point), head), high_digits)
        no_high = high_digits == _U0
        wrong |= _U0 if no_high else high_wrong
        value += _U0 if no_high else high * (_SEVENTH if pointed != _U0 else _EIGHTH)
        refused = (wrong != _U0) | (size - _U1 > _U15) | (lengths[i] > _U8 + _U8) | (width == pointed)
        mantissas[i] = value
        places = (width - point - _U1) * pointed + (above - high_point + _U7) * high_pointed
        behind[i] = _U64 if refused else places
        negatives[i] = negative


@inlined
def point_of(word):
    """Where the first point stands in a word; 8 for nowhere."""
    other = word ^ np.uint64(0x2E2E2E2E2E2E2E2E)
    found = (other - np.uint64(0x0101010101010101)) & ~other & _HIGH_BITS
    return np.uint64(trailing_zeros(found)) >> np.uint64(3)


@inlined
def cut_out(word, place):
    """The word with the byte at ``place`` (0..7) taken out and those above it moved down."""
    below = (_U1 << ((_U8 * place) & _LOW_SIX)) - _U1
    return (word & below) | ((word >> _U8) & ~below)


@inlined
def pick(condition, one, other):
    """``one`` where the condition is 1, ``other`` where it is 0, without a branch."""
    return other ^ ((one ^ other) & (_U0 - condition))
