"""Where the records of a file of arrays lie, whose lines mean nothing."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.kernels.byte_masks import byte_at, inlined, kernel

OUTSIDE, AFTER_BRACKET, AFTER_COMMA = 0, 1, 2
"""Where in a file of arrays a byte is: outside of them; inside one, behind its bracket or behind a comma."""

_QUOTE, _COMMA, _COLON, _BACKSLASH = 0x22, 0x2C, 0x3A, 0x5C
_OPEN_BRACKET, _CLOSE_BRACKET, _OPEN_BRACE, _CLOSE_BRACE = 0x5B, 0x5D, 0x7B, 0x7D


@inlined
def _note(starts, ends, count, first, end):
    if count < starts.size:
        starts[count] = first
        ends[count] = end
    return count + 1


@kernel
def part_elements(buf, begin, state, starts, ends):
    """Find the records of a file of arrays, objects, or both.

    A record is what lies between two commas of an outer array, or between its brackets; outside of arrays it is an
    object, or all that is none up to the next one. Where one is missing the record is empty, or a byte that cannot
    stand there.

    Parameters
    ----------
    buf : ndarray of uint8
    begin : int
        First byte to read, outside of texts.
    state : int
        ``OUTSIDE``, ``AFTER_BRACKET`` or ``AFTER_COMMA`` at that byte.
    starts, ends : ndarray of int32
        Receive where the records lie, as many of them as there is room for.

    Returns
    -------
    tuple of int
        Number of records, and the state behind the last byte.
    """
    count = np.int64(0)
    depth = np.int64(0)
    first = np.int64(-1)
    quoted = False
    escaped = False
    for i in range(begin, buf.size):
        c = byte_at(buf, i)
        if c == 32 or c == 10 or c == 13 or c == 9:
            escaped = False
            continue
        if c == _BACKSLASH:
            escaped = not escaped
        else:
            if c == _QUOTE and not escaped:
                quoted = not quoted
            escaped = False
            if not quoted:
                if depth == 0 and state == OUTSIDE:
                    if c in (_OPEN_BRACE, _OPEN_BRACKET):
                        if first >= 0:
                            count = _note(starts, ends, count, first, i)
                        first = np.int64(-1)
                        if c == _OPEN_BRACKET:
                            state = AFTER_BRACKET
                            continue
                        depth = np.int64(1)
                    elif c in (_CLOSE_BRACE, _CLOSE_BRACKET, _COMMA, _COLON):
                        count = _note(starts, ends, count, i if first < 0 else first, i + 1)
                        first = np.int64(-1)
                        continue
                elif depth == 0 and c in (_COMMA, _CLOSE_BRACKET):
                    if first >= 0:
                        count = _note(starts, ends, count, first, i)
                    elif state == AFTER_COMMA or c == _COMMA:
                        count = _note(starts, ends, count, i, i)
                    first = np.int64(-1)
                    state = AFTER_COMMA if c == _COMMA else OUTSIDE
                    continue
                elif c in (_OPEN_BRACE, _OPEN_BRACKET):
                    depth += 1
                elif c in (_CLOSE_BRACE, _CLOSE_BRACKET) and depth > 0:
                    depth -= 1
                    if depth == 0 and state == OUTSIDE:
                        count = _note(starts, ends, count, first, i + 1)
                        first = np.int64(-1)
                        continue
        if first < 0:
            first = np.int64(i)
    if first >= 0:
        count = _note(starts, ends, count, first, np.int64(buf.size))
    return count, np.int64(state)


@kernel
def scan_elements(buf, begin, depth, inside, quoted, escaped):
    """Find how far a buffer completes records of a file of arrays; agrees with :func:`part_elements`.

    Parameters
    ----------
    buf : ndarray of uint8
    begin : int
        First byte to look at.
    depth, inside, quoted, escaped : int
        State at that byte: objects and arrays that are open below the outer array, whether that is open, whether
        the byte lies in a string, whether a backslash escapes it.

    Returns
    -------
    tuple of int
        Offset behind the last record, or -1, and the state behind the buffer.
    """
    last = np.int64(-1)
    for i in range(begin, buf.size):
        c = byte_at(buf, i)
        if c == 0x5C:
            escaped = 1 - escaped
            continue
        if c == _QUOTE and escaped == 0:
            quoted = 1 - quoted
        escaped = 0
        if quoted != 0:
            continue
        if c in (_OPEN_BRACE, _OPEN_BRACKET):
            if depth == 0 and inside == 0 and c == _OPEN_BRACKET:
                inside = 1
                last = np.int64(i) + 1
            else:
                depth += 1
        elif c in (_CLOSE_BRACE, _CLOSE_BRACKET):
            if depth > 0:
                depth -= 1
                if depth == 0 and inside == 0:
                    last = np.int64(i) + 1
            elif inside == 0:
                last = np.int64(i) + 1
            elif c == _CLOSE_BRACKET:
                inside = 0
                last = np.int64(i) + 1
        elif depth == 0 and (c == _COMMA or (c == _COLON and inside == 0)):
            last = np.int64(i) + 1
    return last, np.int64(depth), np.int64(inside), np.int64(quoted), np.int64(escaped)
