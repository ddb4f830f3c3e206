"""Parse fields as string, binary or boolean."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.values.field_text import (
    BAD_QUOTE,
    BAD_UTF8,
    BAD_VALUE,
    NULL,
    VALID,
    is_null,
    text_bounds,
)
from tidemill.kernels.byte_masks import (
    COMPRESSES,
    byte_at,
    count_bits,
    inlined,
    kernel,
    load_word,
    move_32,
    move_64,
    move_chosen,
    prefix_xor,
    store_word,
    trailing_zeros,
)

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONES = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)
SLACK = 64
"""Bytes that the output of :func:`copy_texts` must have beyond the sum of the field lengths."""


@kernel
def is_utf8(data, start, end):
    """Whether ``data[start:end]`` is well-formed UTF-8: no overlong form, no surrogate, at most U+10FFFF."""
    i = start
    while i < end:
        lead = byte_at(data, i)
        i += 1
        if lead < 0x80:
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        following = 1 if lead < 0xE0 else (2 if lead < 0xF0 else 3)
        if i + following > end:
            return False
        second = byte_at(data, i)
        least = 0xA0 if lead == 0xE0 else (0x90 if lead == 0xF0 else 0x80)
        greatest = 0x9F if lead == 0xED else (0x8F if lead == 0xF4 else 0xBF)
        if second < least or second > greatest:
            return False
        for k in range(1, following):
            if byte_at(data, i + k) & 0xC0 != 0x80:
                return False
        i += following
    return True


@inlined
def _lowest(count):
    """A mask of the lowest bits: ``count`` of them (0 to 63)."""
    return (np.uint64(1) << np.uint64(count)) - np.uint64(1)


@inlined
def _copy_unquoted(buf, start, end, out, cursor):
    """Copy bytes, 32 at a time; returns whether one is not ASCII (0 for none)."""
    seen = np.uint64(0)
    size = np.int64(buf.size)
    while start + 32 <= size:
        _, high = move_32(buf, start, out, cursor, 0)
        if end - start <= 32:
            return seen | (high & _lowest(end - start))
        seen |= high
        start += 32
        cursor += 32
    while start < end:
        c = byte_at(buf, start)
        out[cursor] = c
        seen |= np.uint64(c >> 7)
        start += 1
        cursor += 1
    return seen


@inlined
def _copy_quoted(buf, start, end, quote, out, cursor):
    """Copy the inside of a quoted field, ``""`` as one quote; returns the new cursor, -1 for a lone quote, and whether
    a byte is not ASCII (0 for none)."""
    seen = np.uint64(0)
    size = np.int64(buf.size)
    while start < end:
        if start + 32 <= size:
            width = min(end - start, 32)
            quotes, high = move_32(buf, start, out, cursor, quote)
            found = quotes & _lowest(width)
            if found == 0:
                seen |= high & _lowest(width)
                start += width
                cursor += width
                continue
            before = trailing_zeros(found)
            seen |= high & _lowest(before)
            start += before + 1
            cursor += before + 1
        else:
            c = byte_at(buf, start)
            out[cursor] = c
            seen |= np.uint64(c >> 7)
            start += 1
            cursor += 1
            if c != quote:
                continue
        # A quote was copied; another one must follow.
        if start == end or byte_at(buf, start) != quote:
            return np.int64(-1), seen
        start += 1
    return cursor, seen


@kernel
def _copy_any(buf, start, end, quote, trim, null_text, utf8, out, cursor):
    """Copy the text of a field, whatever it is; returns the new cursor and the outcome."""
    start, end, quoted = text_bounds(buf, start, end, quote, trim)
    if is_null(buf, start, end, quoted, null_text):
        return cursor, NULL
    if quoted == 2:
        return cursor, BAD_QUOTE
    if quoted == 1:
        stop, seen = _copy_quoted(buf, start, end, quote, out, cursor)
    else:
        seen = _copy_unquoted(buf, start, end, out, cursor)
        stop = cursor + end - start
    if stop < 0:
        return cursor, BAD_QUOTE
    if utf8 and seen != 0 and not is_utf8(out, cursor, stop):
        return cursor, BAD_UTF8
    return stop, VALID


@inlined
def _first_quotes(quotes, inside):
    """For the quotes within a quoted text of at most 63 bytes: what is left of it when ``""`` becomes one quote, and
    whether all quotes are in such pairs."""
    odd = prefix_xor(quotes)
    second = quotes & ~odd
    return inside & ~second, (quotes & odd) << np.uint64(1) == second


@inlined
def _inside(buf, start, end, quote):
    """Where the text of a field of at least a byte starts, its length, and whether it is a case of its own: it opens
    with a quote and does not end in one, or there is nothing inside."""
    quoted = np.int64(byte_at(buf, start) == quote)
    length = end - start - 2 * quoted
    strange = (quoted != 0) & (byte_at(buf, end - 1) != quote) | (length < 1)
    return start + quoted, max(length, 0), strange


@inlined
def _word_masks(word, length, quote):
    """For the first 1 to 8 bytes of a word: not 0 where one is the quote, and where one is not ASCII."""
    inside = _ALL >> np.uint64(64 - 8 * length)
    other = word ^ (_ONES * np.uint64(quote & 255))
    return (other - _ONES) & ~other & _HIGH_BITS & inside, word & _HIGH_BITS & inside


@kernel
def _copy_bare(buf, starts, ends, longest, out, cursor, offsets):
    """Copy fields of 1 to 63 bytes without quotes, no branch between them; returns the new cursor and whether a byte is
    not ASCII (0 for none)."""
    wrong = np.uint64(0)
    count = starts.size
    if longest <= 8:
        for i in range(count):
            start = np.int64(starts[i])
            length = np.int64(ends[i]) - start
            word = load_word(buf, start)
            store_word(out, cursor, word)
            wrong |= word & _HIGH_BITS & (_ALL >> np.uint64(64 - 8 * length))
            cursor += length
            offsets[i + 1] = cursor
    elif longest <= 32:
        for i in range(count):
            start = np.int64(starts[i])
            length = np.int64(ends[i]) - start
            _, high = move_32(buf, start, out, cursor, 0)
            wrong |= high & _lowest(length)
            cursor += length
            offsets[i + 1] = cursor
    else:
        for i in range(count):
            start = np.int64(starts[i])
            length = np.int64(ends[i]) - start
            _, high = move_64(buf, start, out, cursor, 0)
            wrong |= high & _lowest(length)
            cursor += length
            offsets[i + 1] = cursor
    return cursor, wrong


@kernel
def _copy_enclosed(buf, starts, ends, quote, longest, out, cursor, offsets):
    """:func:`_copy_bare` for fields of which some stand in quotes; what it returns is not 0 either where one holds a
    quote, is not closed, or has nothing inside."""
    wrong = np.uint64(0)
    count = starts.size
    if longest <= 8:
        for i in range(count):
            start, length, strange = _inside(buf, np.int64(starts[i]), np.int64(ends[i]), quote)
            word = load_word(buf, start)
            store_word(out, cursor, word)
            quotes, high = _word_masks(word, max(length, 1), quote)
            wrong |= np.uint64(strange) | quotes | high
            cursor += length
            offsets[i + 1] = cursor
    elif longest <= 32:
        for i in range(count):
            start, length, strange = _inside(buf, np.int64(starts[i]), np.int64(ends[i]), quote)
            quotes, high = move_32(buf, start, out, cursor, quote)
            wrong |= np.uint64(strange) | ((quotes | high) & _lowest(length))
            cursor += length
            offsets[i + 1] = cursor
    else:
        for i in range(count):
            start, length, strange = _inside(buf, np.int64(starts[i]), np.int64(ends[i]), quote)
            quotes, high = move_64(buf, start, out, cursor, quote)
            wrong |= np.uint64(strange) | ((quotes | high) & _lowest(length))
            cursor += length
            offsets[i + 1] = cursor
    return cursor, wrong


# Kept whole: with a step of it as a function of its own it was 2.3 % slower for long texts.
@kernel
def copy_texts(buf, starts, ends, quote, trim, null_text, utf8, plain, out, cursor, offsets, status):
    """Copy fields of a column of strings or binaries into Arrow's layout.

    A field of at most 63 bytes that begins no later than 66 bytes before the end is moved at once, whatever its length,
    and looked at on the way. Where all fields are so, ASCII and without quotes within them, no branch stands between
    them.

    Parameters
    ----------
    buf, starts, ends, quote, trim, null_text
        As for :func:`~tidemill.formats.values.numbers.integers.parse_integers`.
    utf8 : bool
        Whether the bytes must be UTF-8.
    plain : bool
        Whether it is worth trying to copy all of them without looking at each.
    out : ndarray of uint8
        Receives the bytes; room for the sum of the field lengths of the column, and ``SLACK``.
    cursor : int
        Where the bytes of the first field go.
    offsets : ndarray of int32, shape (rows + 1,)
        Receives where each value starts and ends; a value that is not ``VALID`` is empty.
    status : ndarray of uint8, shape (rows,)

    Returns
    -------
    tuple of (int, bool)
        Number of rows whose outcome is not ``VALID``; whether copying all at once was tried in vain.
    """
    failures = 0
    odd = False
    offsets[0] = cursor
    longest, shortest, furthest = np.int64(0), np.int64(1), np.int64(0)
    for row in range(starts.size):
        start = np.int64(starts[row])
        length = np.int64(ends[row]) - start
        longest, shortest, furthest = max(longest, length), min(shortest, length), max(furthest, start)
        status[row] = VALID
    last = np.int64(buf.size) - 66
    if trim != 0 or null_text.size != 0:
        last = np.int64(-1)
    if plain and shortest > 0 and longest < 64 and furthest <= last:
        if quote < 0:
            stop, wrong = _copy_bare(buf, starts, ends, longest, out, cursor, offsets)
        else:
            stop, wrong = _copy_enclosed(buf, starts, ends, quote, longest, out, cursor, offsets)
        if wrong == 0:
            return failures, False
        odd = True
    short = longest < 32
    for row in range(starts.size):
        start, end = np.int64(starts[row]), np.int64(ends[row])
        outcome = VALID
        if 0 < end - start < 64 and start <= last:
            text, length, strange = _inside(buf, start, end, quote)
            inside = _lowest(length)
            if short:
                quotes, high = move_32(buf, text, out, cursor, quote)
            else:
                quotes, high = move_64(buf, text, out, cursor, quote)
            if COMPRESSES and not strange and text > start and quotes & inside != 0:
                if short:
                    quotes, high = move_64(buf, text, out, cursor, quote)
                kept, paired = _first_quotes(quotes & inside, inside)
                move_chosen(buf, text, out, cursor, kept)
                stop = cursor + count_bits(kept)
                if not paired:
                    outcome = BAD_QUOTE
                elif utf8 and high & inside != 0 and not is_utf8(out, cursor, stop):
                    outcome = BAD_UTF8
                else:
                    cursor = stop
            elif strange or quotes & inside != 0:
                cursor, outcome = _copy_any(buf, start, end, quote, trim, null_text, utf8, out, cursor)
            elif utf8 and high & inside != 0 and not is_utf8(out, cursor, cursor + length):
                outcome = BAD_UTF8
            else:
                cursor += length
        else:
            cursor, outcome = _copy_any(buf, start, end, quote, trim, null_text, utf8, out, cursor)
        offsets[row + 1] = cursor
        status[row] = outcome
        failures += outcome != VALID
    return failures, odd


@inlined
def _spells_ignoring_case(buf, start, end, lower):
    if end - start != lower.size:
        return False
    for k in range(lower.size):  # noqa: SIM110 - all() over a generator does not compile to a loop
        if byte_at(buf, start + k) | 32 != byte_at(lower, k):
            return False
    return True


_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)


@kernel
def parse_booleans(buf, starts, ends, quote, trim, null_text, out, status):
    """Parse one column of booleans: ``true`` and ``false`` in any case.

    Parameters
    ----------
    buf, starts, ends, quote, trim, null_text
        As for :func:`~tidemill.formats.values.numbers.integers.parse_integers`.
    out : ndarray of uint8, shape (rows,)
        Receives 0 or 1.
    status : ndarray of uint8, shape (rows,)

    Returns
    -------
    int
        Number of rows whose outcome is not ``VALID``.
    """
    failures = 0
    for row in range(starts.size):
        start, end, quoted = text_bounds(buf, np.int64(starts[row]), np.int64(ends[row]), quote, trim)
        value = 0
        outcome = VALID
        if is_null(buf, start, end, quoted, null_text):
            outcome = NULL
        elif _spells_ignoring_case(buf, start, end, _TRUE):
            value = 1
        elif not _spells_ignoring_case(buf, start, end, _FALSE):
            outcome = BAD_VALUE
        out[row] = value
        status[row] = outcome
        if outcome != VALID:
            failures += 1
    return failures
