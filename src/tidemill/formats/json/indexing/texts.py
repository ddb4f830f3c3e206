"""JSON texts into Arrow's layout: escapes become what they stand for, in one pass."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.json_tokens.scalars import NULL as NULL_VALUE
from tidemill.formats.json_tokens.scalars import TEXT
from tidemill.formats.values.field_text import BAD_UTF8, NULL, VALID
from tidemill.formats.values.texts.texts import is_utf8
from tidemill.kernels.byte_masks import byte_at, inlined, item_at, kernel, load_word, put_item, store_word

SLACK = 16
"""Bytes that the output of :func:`copy_values` must have beyond the sum of the lengths."""

_HIGH_BITS = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_BACKSLASH = 0x5C


@inlined
def _is_hex(c):
    return 48 <= c <= 57 or 97 <= (c | 32) <= 102


@kernel
def is_escape(buf, at, size):
    """Whether a backslash at ``at`` begins an escape of JSON."""
    if at + 1 >= size:
        return False
    c = byte_at(buf, at + 1)
    if c == 117:
        if at + 5 >= size:
            return False
        for k in range(2, 6):  # noqa: SIM110 - all() over a generator does not compile to a loop
            if not _is_hex(byte_at(buf, at + k)):
                return False
        return True
    return c in (34, _BACKSLASH, 47, 98, 102, 110, 114, 116)


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


@inlined
def _copy_unescaped(buf, start, end, out, to):
    """Copy 8 bytes at a time up to those with a backslash; returns where in both the rest begins."""
    while start + 8 <= end:
        word = load_word(buf, start)
        other = word ^ _BACKSLASHES
        if (other - _ONES) & ~other & _HIGH_BITS != 0:
            break
        store_word(out, to, word)
        start += 8
        to += 8
    return start, to


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
        Whether any of the texts may have some.
    out : ndarray of uint8
        At least the sum of the lengths and ``SLACK``.
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
        kind = item_at(kinds, row)
        if kind <= NULL_VALUE:
            outcome = NULL
        else:
            start = item_at(starts, row)
            end = item_at(ends, row)
            if kind == TEXT:
                start += 1
                end -= 1
            stop = cursor + end - start
            if escapes and kind == TEXT:
                start, to = _copy_unescaped(buf, start, end, out, cursor)
                if start < end:
                    stop = unescape(buf, start, end, out, to)
                good = stop >= 0 and is_utf8(out, cursor, stop)
            else:
                seen = np.uint64(0)
                to = cursor
                # 16 bytes at once, some of them behind the end, which are written over by the next text.
                while start < end and start + 16 <= size:
                    word = load_word(buf, start)
                    other = load_word(buf, start + 8)
                    store_word(out, to, word)
                    store_word(out, to + 8, other)
                    seen |= word | other
                    start += 16
                    to += 16
                while start < end:
                    c = byte_at(buf, start)
                    put_item(out, to, c)
                    seen |= np.uint64(c)
                    start += 1
                    to += 1
                good = seen & _HIGH_BITS == 0 or is_utf8(out, cursor, stop)
            if good:
                cursor = stop
            else:
                outcome = BAD_UTF8
        put_item(offsets, row + 1, cursor)
        put_item(status, row, outcome)
        if outcome != VALID:
            failures += 1
    return failures
