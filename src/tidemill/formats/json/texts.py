"""JSON texts into Arrow's layout: escapes become what they stand for, in one pass."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.byte_masks import byte_at, inlined, kernel, load_word, store_word
from tidemill.formats.json.scalars import NULL as NULL_VALUE
from tidemill.formats.json.scalars import TEXT
from tidemill.formats.values.field_text import BAD_UTF8, NULL, VALID
from tidemill.formats.values.texts import is_utf8

_HIGH_BITS = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_BACKSLASH = 0x5C


@inlined
def _hex_value(c):
    return c - 48 if c <= 57 else (c | 32) - 87


@inlined
def _code_unit(buf, at):
    """The number that four hexadecimal digits spell."""
    value = 0
    for k in range(4):
        value = value * 16 + _hex_value(byte_at(buf, at + k))
    return value


@kernel
def unescape(buf, start, end, out, cursor):
    """Copy the inside of a text whose escapes are known to be right.

    Returns
    -------
    int
        The new cursor; -1 for half of a surrogate pair, which is no character.
    """
    while start < end:
        c = byte_at(buf, start)
        start += 1
        if c != _BACKSLASH:
            out[cursor] = c
            cursor += 1
            continue
        c = byte_at(buf, start)
        start += 1
        if c != 117:
            if c == 98:
                c = 8
            elif c == 102:
                c = 12
            elif c == 110:
                c = 10
            elif c == 114:
                c = 13
            elif c == 116:
                c = 9
            out[cursor] = c
            cursor += 1
            continue
        point = _code_unit(buf, start)
        start += 4
        if 0xD800 <= point < 0xE000:
            alone = point >= 0xDC00 or start + 6 > end
            if alone or byte_at(buf, start) != _BACKSLASH or byte_at(buf, start + 1) != 117:
                return np.int64(-1)
            low = _code_unit(buf, start + 2)
            if low < 0xDC00 or low >= 0xE000:
                return np.int64(-1)
            start += 6
            point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)
        if point < 0x80:
            out[cursor] = point
            cursor += 1
            continue
        if point < 0x800:
            out[cursor] = 0xC0 | point >> 6
            cursor += 1
        else:
            if point < 0x10000:
                out[cursor] = 0xE0 | point >> 12
                cursor += 1
            else:
                out[cursor] = 0xF0 | point >> 18
                out[cursor + 1] = 0x80 | (point >> 12 & 0x3F)
                cursor += 2
            out[cursor] = 0x80 | (point >> 6 & 0x3F)
            cursor += 1
        out[cursor] = 0x80 | (point & 0x3F)
        cursor += 1
    return np.int64(cursor)


@kernel
def copy_values(buf, starts, ends, kinds, escapes, out, offsets, status):
    """Copy one column of texts without quotes and escapes, and of other values as they are written.

    Parameters
    ----------
    buf : ndarray of uint8
    starts, ends : ndarray of int32, shape (rows,)
        Each value with its quotes.
    kinds : ndarray of uint8, shape (rows,)
    escapes : bool
        Whether any backslash occurs in the buffer.
    out : ndarray of uint8
        At least the sum of the lengths and 8 bytes more.
    offsets : ndarray of int32, shape (rows + 1,)
    status : ndarray of uint8, shape (rows,)
        As in :mod:`tidemill.formats.values.field_text`; a value that is not ``VALID`` is empty.

    Returns
    -------
    int
        Number of rows whose outcome is not ``VALID``.
    """
    failures = 0
    size = np.int64(buf.size)
    cursor = np.int64(0)
    offsets[0] = 0
    for row in range(starts.size):
        outcome = VALID
        if kinds[row] <= NULL_VALUE:
            outcome = NULL
        else:
            start = np.int64(starts[row])
            end = np.int64(ends[row])
            if kinds[row] == TEXT:
                start += 1
                end -= 1
            seen = np.uint64(0)
            stop = cursor
            escaped = False
            while start < end and start + 8 <= size:
                word = load_word(buf, start)
                if escapes and kinds[row] == TEXT:
                    other = word ^ _BACKSLASHES
                    # A byte behind the end that looks like a backslash costs only the slow way.
                    escaped = (other - _ONES) & ~other & _HIGH_BITS != 0
                    if escaped:
                        break
                store_word(out, stop, word)
                seen |= word
                start += 8
                stop += 8
            if escaped:
                seen = _HIGH_BITS
                stop = unescape(buf, start, end, out, stop)
            elif start < end:
                if escapes and kinds[row] == TEXT:
                    seen = _HIGH_BITS
                    stop = unescape(buf, start, end, out, stop)
                else:
                    while start < end:
                        c = byte_at(buf, start)
                        out[stop] = c
                        seen |= np.uint64(c)
                        start += 1
                        stop += 1
            else:
                stop -= start - end
            if stop < 0 or (seen & _HIGH_BITS != 0 and not is_utf8(out, cursor, stop)):
                outcome = BAD_UTF8
            else:
                cursor = stop
        offsets[row + 1] = cursor
        status[row] = outcome
        if outcome != VALID:
            failures += 1
    return failures
