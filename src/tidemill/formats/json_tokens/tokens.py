"""Texts of JSON as flat tokens, as Jackson reads them: for the functions of SQL that look into a text.

One pass over the bytes of a column gives every value and key a token. Tokens are in the order of the text; a value is
followed by what is in it, and knows the token behind that. A text counts up to the end of its first value: what follows
is not looked at, as Spark does not. A text that is not JSON up to there has no tokens.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidemill.kernels.byte_masks import kernel

OBJECT, ARRAY, TEXT, INTEGER, FRACTION, TRUE, FALSE, NULL, SPECIAL = range(9)
"""Kinds of tokens. A key is a TEXT before its value; SPECIAL is NaN or an infinity."""

SINGLE_QUOTES, CONTROL_CHARACTERS, SPECIAL_NUMBERS = 1, 2, 4
"""What a text may have beside JSON: texts in single quotes, control characters in texts, NaN and infinities."""

ESCAPED, UNUSUAL = 1, 2
"""Of a TEXT: it has a backslash; it has a control character, a quote, or a character beyond U+FFFF."""

_DEEPEST = 1000
_LONGEST_NUMBER = 1000

Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.uint8]


class Tokens(NamedTuple):
    """The tokens of the texts of a column.

    Attributes
    ----------
    data : uint8
        The bytes that positions count in.
    kinds, flags : uint8
    starts, ends : int64
        Where a token lies in ``data``; a text without its quotes, an object or array with its brackets.
    after : int64
        The first token behind a value and what is in it.
    roots : int64
        The first token of each row, -1 where there is none.
    """

    data: Small
    kinds: Small
    flags: Small
    starts: Ints
    ends: Ints
    after: Ints
    roots: Ints


_BEFORE_VALUES = np.zeros(256, np.uint8)
_BEFORE_VALUES[[0x7B, 0x5B, 0x2C, 0x3A]] = 1


def tokenise(data: Small, offsets: Ints, extras: int) -> Tokens:
    """The tokens of texts.

    Parameters
    ----------
    data : uint8 array
        The bytes of all texts.
    offsets : int64 array
        Where each text begins, and the end of the last; equal ones for texts that are not there.
    extras : int
        Sum of ``SINGLE_QUOTES``, ``CONTROL_CHARACTERS`` and ``SPECIAL_NUMBERS``.
    """
    rows = len(offsets) - 1
    # Each token but the first of a row is behind a bracket, a comma or a colon of its own.
    most = rows + int(np.count_nonzero(_BEFORE_VALUES[data[offsets[0] : offsets[-1]]]))
    kinds, flags = np.empty(most, np.uint8), np.empty(most, np.uint8)
    starts, ends, after = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    roots = np.empty(rows, np.int64)
    used = _tokenise(data, offsets, extras, kinds, flags, starts, ends, after, roots)
    return Tokens(data, kinds[:used], flags[:used], starts[:used], ends[:used], after[:used], roots)


@kernel
def _is_hex(c):
    return 48 <= c <= 57 or 97 <= (c | 32) <= 102


@kernel
def _text_end(data, at, end, quote, extras):
    """Where a text that begins behind a quote ends, and what it has; -1 when it does not end or is malformed."""
    flags = 0
    while at < end:
        c = data[at]
        if c == quote:
            return at, flags
        if c == 0x5C:
            flags |= ESCAPED
            at += 1
            if at >= end:
                return -1, 0
            c = data[at]
            if c == 0x75:
                if at + 4 >= end:
                    return -1, 0
                for k in range(1, 5):
                    if not _is_hex(data[at + k]):
                        return -1, 0
                at += 4
            elif c == 0x27:
                if not extras & SINGLE_QUOTES:
                    return -1, 0
            elif not (
                c == 0x22 or c == 0x5C or c == 0x2F or c == 0x62 or c == 0x66 or c == 0x6E or c == 0x72 or c == 0x74
            ):
                return -1, 0
        elif c < 0x20:
            if not extras & CONTROL_CHARACTERS:
                return -1, 0
            flags |= UNUSUAL
        elif c == 0x22 or c >= 0xF0:
            flags |= UNUSUAL
        at += 1
    return -1, 0


@kernel
def _digits_end(data, at, end):
    while at < end and 48 <= data[at] <= 57:
        at += 1
    return at


@kernel
def _number_end(data, at, end):
    """Where a number ends, and its kind; -1 when it is malformed."""
    start = at
    kind = INTEGER
    if data[at] == 0x2D:
        at += 1
    first = at
    at = _digits_end(data, at, end)
    if at == first or (data[first] == 48 and at > first + 1):
        return -1, 0
    if at < end and data[at] == 0x2E:
        kind = FRACTION
        first = at + 1
        at = _digits_end(data, first, end)
        if at == first:
            return -1, 0
    if at < end and (data[at] | 32) == 0x65:
        kind = FRACTION
        at += 1
        if at < end and (data[at] == 0x2B or data[at] == 0x2D):
            at += 1
        first = at
        at = _digits_end(data, first, end)
        if at == first:
            return -1, 0
    if at - start > _LONGEST_NUMBER:
        return -1, 0
    return at, kind


_WORDS = tuple(np.frombuffer(w, np.uint8) for w in (b"true", b"false", b"null", b"NaN", b"Infinity", b"INF"))
_TRUE, _FALSE, _NULL, _NAN, _INFINITY, _INF = _WORDS


@kernel
def _continues(c):
    """Whether a word goes on with this byte."""
    return c >= 0x80 or c == 0x5F or c == 0x24 or 48 <= c <= 57 or 97 <= (c | 32) <= 122


@kernel
def _word(data, at, end, word):
    """Where the word ends that must be here; -1 when it is not."""
    if at + word.size > end:
        return -1
    for k in range(word.size):
        if data[at + k] != word[k]:
            return -1
    at += word.size
    if at < end and _continues(data[at]):
        return -1
    return at


@kernel
def _scalar(data, at, end, extras):
    """End and kind of a number, boolean or null; end -1 when it is malformed."""
    c = data[at]
    if c == 0x74:
        return _word(data, at, end, _TRUE), TRUE
    if c == 0x66:
        return _word(data, at, end, _FALSE), FALSE
    if c == 0x6E:
        return _word(data, at, end, _NULL), NULL
    if 48 <= c <= 57:
        return _number_end(data, at, end)
    if extras & SPECIAL_NUMBERS:
        sign = at
        if c == 0x2B or c == 0x2D:
            sign += 1
        elif c == 0x4E:
            return _word(data, at, end, _NAN), SPECIAL
        if sign < end and data[sign] == 0x49:
            stop = _word(data, sign, end, _INFINITY)
            if stop < 0:
                stop = _word(data, sign, end, _INF)
            return stop, SPECIAL
    if c == 0x2D:
        return _number_end(data, at, end)
    return -1, 0


@kernel
def _blank(c):
    return c == 0x20 or c == 0x09 or c == 0x0A or c == 0x0D


_VALUE, _FIRST_VALUE, _KEY, _FIRST_KEY, _AFTER, _DONE = range(6)


@kernel
def _tokenise(data, offsets, extras, kinds, flags, starts, ends, after, roots):
    used = 0
    stack = np.empty(_DEEPEST + 1, np.int64)
    for row in range(roots.size):
        at, end = offsets[row], offsets[row + 1]
        first, depth, state = used, 0, _VALUE
        while state != _DONE:
            while at < end and _blank(data[at]):
                at += 1
            if at >= end:
                break
            c = data[at]
            if state == _AFTER:
                top = stack[depth - 1]
                if c == 0x2C:
                    state = _KEY if kinds[top] == OBJECT else _VALUE
                elif c == (0x7D if kinds[top] == OBJECT else 0x5D):
                    ends[top], after[top] = at + 1, used
                    depth -= 1
                    state = _AFTER if depth else _DONE
                else:
                    break
                at += 1
                continue
            if (state == _FIRST_VALUE and c == 0x5D) or (state == _FIRST_KEY and c == 0x7D):
                state = _AFTER
                continue
            kinds[used], starts[used], flags[used] = TEXT, at, 0
            is_text = c == 0x22 or (c == 0x27 and (extras & SINGLE_QUOTES) != 0)
            if is_text:
                stop, found = _text_end(data, at + 1, end, c, extras)
                if stop < 0:
                    break
                starts[used], ends[used], flags[used] = at + 1, stop, found
                at = stop + 1
                used += 1
                after[used - 1] = used
                if state == _KEY or state == _FIRST_KEY:  # noqa: SIM109
                    while at < end and _blank(data[at]):
                        at += 1
                    if at >= end or data[at] != 0x3A:
                        break
                    at += 1
                    state = _VALUE
                    continue
            elif state == _KEY or state == _FIRST_KEY:  # noqa: SIM109
                break
            elif c == 0x7B or c == 0x5B:
                if depth == _DEEPEST:
                    break
                kinds[used] = OBJECT if c == 0x7B else ARRAY
                stack[depth] = used
                depth += 1
                used += 1
                at += 1
                state = _FIRST_KEY if c == 0x7B else _FIRST_VALUE
                continue
            else:
                stop, kind = _scalar(data, at, end, extras)
                if stop < 0:
                    break
                # Behind a number that is all there is a blank must follow.
                is_number = kind != TRUE and kind != FALSE and kind != NULL
                if depth == 0 and is_number and stop < end and not _blank(data[stop]):
                    break
                kinds[used], ends[used] = kind, stop
                at = stop
                used += 1
                after[used - 1] = used
            state = _AFTER if depth else _DONE
        if state == _DONE:
            roots[row] = first
        else:
            roots[row] = -1
            used = first
    return used


@kernel
def count_members(after, containers, counts):
    """How many members each container has; in an object a key and its value are two. -1 has none."""
    for row in range(containers.size):
        token, count = containers[row], 0
        if token >= 0:
            stop = after[token]
            token += 1
            while token < stop:
                token = after[token]
                count += 1
        counts[row] = count


@kernel
def list_members(after, containers, offsets, places):
    """The members of containers, one behind the other."""
    for row in range(containers.size):
        token = containers[row]
        if token >= 0:
            token += 1
            for at in range(offsets[row], offsets[row + 1]):
                places[at] = token
                token = after[token]


@kernel
def nth_members(kinds, after, arrays, index, found):
    """The element at an index, from 0, of each array; -1 where there is none."""
    for row in range(arrays.size):
        token = arrays[row]
        found[row] = -1
        if token >= 0 and kinds[token] == ARRAY:
            stop, count = after[token], index
            token += 1
            while token < stop and count > 0:
                token = after[token]
                count -= 1
            if token < stop:
                found[row] = token
