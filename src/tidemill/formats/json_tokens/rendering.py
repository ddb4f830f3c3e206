"""Tokens of JSON written as text, as Jackson's generators write them.

White space is left out, escapes are written in one way. Numbers with a fraction are read as doubles and written as Java
does; their texts are made beforehand, as a column. Characters beyond U+FFFF are written as two escapes, or as they
are: which of the two depends on Spark's generator.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidemill.formats.json_tokens.tokens import (
    ARRAY,
    ESCAPED,
    FALSE,
    FRACTION,
    INTEGER,
    OBJECT,
    SPECIAL,
    TEXT,
    TRUE,
    UNUSUAL,
)
from tidemill.kernels.byte_masks import kernel

ROOM = 9
"""A token is at most so many times as long as its text when it is written."""


class Numbers(NamedTuple):
    """Texts of numbers with a fraction.

    Attributes
    ----------
    slots : int64
        For each token which text is its number; set for tokens with a fraction alone.
    data, offsets : uint8, int64
        The texts.
    """

    slots: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]


_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


@kernel
def _hex_value(c):
    return c - 48 if c <= 57 else (c | 32) - 87


@kernel
def _unit(data, at):
    """The UTF-16 unit of ``uXXXX`` at ``at``."""
    unit = 0
    for k in range(1, 5):
        unit = unit * 16 + _hex_value(np.int64(data[at + k]))
    return unit


@kernel
def put_utf8(out, at, code):
    """Write a character; returns the end."""
    if code < 0x80:
        out[at] = code
        return at + 1
    if code < 0x800:
        out[at], out[at + 1] = 0xC0 | code >> 6, 0x80 | code & 63
        return at + 2
    if code < 0x10000:
        out[at], out[at + 1], out[at + 2] = 0xE0 | code >> 12, 0x80 | code >> 6 & 63, 0x80 | code & 63
        return at + 3
    out[at], out[at + 1] = 0xF0 | code >> 18, 0x80 | code >> 12 & 63
    out[at + 2], out[at + 3] = 0x80 | code >> 6 & 63, 0x80 | code & 63
    return at + 4


@kernel
def next_code(data, at, end):
    """The character at ``at`` of a text, negative for half of a surrogate pair, and where the next one begins."""
    c = np.int64(data[at])
    if c == 0x5C:
        c = np.int64(data[at + 1])
        if c != 0x75:
            if c == 0x6E:
                return 10, at + 2
            if c == 0x74:
                return 9, at + 2
            if c == 0x72:
                return 13, at + 2
            if c == 0x62:
                return 8, at + 2
            if c == 0x66:
                return 12, at + 2
            return c, at + 2
        unit = _unit(data, at + 1)
        at += 6
        if unit < 0xD800 or unit > 0xDFFF:
            return unit, at
        if unit < 0xDC00 and at + 5 < end and data[at] == 0x5C and data[at + 1] == 0x75:
            low = _unit(data, at + 1)
            if 0xDC00 <= low <= 0xDFFF:
                return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00), at + 6
        return -unit, at
    if c < 0x80:
        return c, at + 1
    if c < 0xE0:
        return (c & 31) << 6 | data[at + 1] & 63, at + 2
    if c < 0xF0:
        return (c & 15) << 12 | (data[at + 1] & 63) << 6 | data[at + 2] & 63, at + 3
    code = (c & 7) << 18 | (data[at + 1] & 63) << 12 | (data[at + 2] & 63) << 6 | data[at + 3] & 63
    return code, at + 4


@kernel
def put_raw(data, start, end, flags, lenient, out, at):
    """Write a text as it is, without quotes; returns the end.

    Half of a surrogate pair becomes ``?`` if ``lenient``, else -1 is returned.
    """
    if not flags & ESCAPED:
        size = end - start
        out[at : at + size] = data[start:end]
        return at + size
    while start < end:
        code, start = next_code(data, start, end)
        if code < 0 and not lenient:
            return -1
        at = put_utf8(out, at, code if code >= 0 else 63)
    return at


@kernel
def _put_escape(out, at, unit):
    out[at], out[at + 1] = 0x5C, 0x75
    for k in range(4):
        out[at + 2 + k] = _HEX[unit >> (12 - 4 * k) & 15]
    return at + 6


@kernel
def put_quoted(data, start, end, flags, wide, out, at):
    """Write a text in quotes. ``wide`` leaves characters beyond U+FFFF as they are.

    Half of a surrogate pair is an escape, too; with ``wide`` it cannot be written, and -1 is returned.
    """
    out[at] = 0x22
    at += 1
    if not flags & (ESCAPED | UNUSUAL):
        size = end - start
        out[at : at + size] = data[start:end]
        at += size
    else:
        while start < end:
            code, start = next_code(data, start, end)
            if code < 0:
                if wide:
                    return -1
                at = _put_escape(out, at, -code)
            elif code == 0x22 or code == 0x5C:
                out[at], out[at + 1] = 0x5C, code
                at += 2
            elif code >= 0x20:
                if code > 0xFFFF and not wide:
                    at = _put_escape(out, at, 0xD800 + ((code - 0x10000) >> 10))
                    at = _put_escape(out, at, 0xDC00 + ((code - 0x10000) & 0x3FF))
                else:
                    at = put_utf8(out, at, code)
            else:
                short = 0
                if code == 8:
                    short = 0x62
                elif code == 9:
                    short = 0x74
                elif code == 10:
                    short = 0x6E
                elif code == 12:
                    short = 0x66
                elif code == 13:
                    short = 0x72
                if short:
                    out[at], out[at + 1] = 0x5C, short
                    at += 2
                else:
                    at = _put_escape(out, at, code)
    out[at] = 0x22
    return at + 1


@kernel
def _put_word(out, at, kind):
    if kind == TRUE:
        out[at], out[at + 1], out[at + 2], out[at + 3] = 0x74, 0x72, 0x75, 0x65
        return at + 4
    if kind == FALSE:
        out[at], out[at + 1], out[at + 2], out[at + 3], out[at + 4] = 0x66, 0x61, 0x6C, 0x73, 0x65
        return at + 5
    out[at], out[at + 1], out[at + 2], out[at + 3] = 0x6E, 0x75, 0x6C, 0x6C
    return at + 4


@kernel
def put_value(tokens, numbers, token, wide, out, at):
    """Write a value and what is in it. Returns the end, -1 when it cannot be written."""
    data, kinds, flags, starts, ends, after, _ = tokens
    slots, number_data, number_offsets = numbers
    stack = np.empty(1002, np.int64)
    depth = 0
    last = after[token]
    is_key = False
    fresh = True
    while True:
        while depth and token == after[stack[depth - 1]]:
            depth -= 1
            out[at] = 0x7D if kinds[stack[depth]] == OBJECT else 0x5D
            at += 1
            fresh = False
        if token == last:
            return at
        in_object = depth > 0 and kinds[stack[depth - 1]] == OBJECT
        if is_key:
            is_key = False
        elif depth:
            if not fresh:
                out[at] = 0x2C
                at += 1
            is_key = in_object
        kind = kinds[token]
        fresh = False
        if kind == TEXT:
            at = put_quoted(data, starts[token], ends[token], flags[token], wide, out, at)
            if at < 0:
                return -1
            if is_key:
                out[at] = 0x3A
                at += 1
        elif kind == OBJECT or kind == ARRAY:  # noqa: SIM109
            out[at] = 0x7B if kind == OBJECT else 0x5B
            at += 1
            stack[depth] = token
            depth += 1
            fresh = True
            token += 1
            continue
        elif kind == FRACTION or kind == SPECIAL:  # noqa: SIM109
            low, high = number_offsets[slots[token]], number_offsets[slots[token] + 1]
            out[at : at + high - low] = number_data[low:high]
            at += high - low
        elif kind == INTEGER:
            low, high = starts[token], ends[token]
            if high - low == 2 and data[low] == 0x2D and data[low + 1] == 48:
                low += 1
            out[at : at + high - low] = data[low:high]
            at += high - low
        else:
            at = _put_word(out, at, kind)
        token += 1


@kernel
def put_values(tokens, numbers, chosen, lenient, out, offsets):
    """Write a value for each row, from ``offsets[0]`` on; texts without quotes.

    Returns the first row that there is no more room for. Offsets of rows without a value (-1) stay as they are; a value
    that cannot be written becomes -2 in ``chosen``.
    """
    data, kinds, flags, starts, ends, _, _ = tokens
    at = offsets[0]
    for row in range(chosen.size):
        token = chosen[row]
        if token >= 0:
            if out.size - at < (ends[token] - starts[token]) * ROOM + 64:
                return row
            if kinds[token] == TEXT:
                stop = put_raw(data, starts[token], ends[token], flags[token], lenient, out, at)
            else:
                stop = put_value(tokens, numbers, token, False, out, at)
            if stop < 0:
                chosen[row] = -2
            else:
                at = stop
        offsets[row + 1] = at
    return chosen.size
