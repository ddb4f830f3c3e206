"""Splitting texts, each one record of CSV, into fields as Spark's parser does.

This is the parser of univocity 2.9 with its ``UnescapedQuoteHandling.STOP_AT_DELIMITER``, and the escape character
escaping itself. A field that begins with a quote is *quoted*: up to a quote with a separator, or blanks and a
separator, behind it. When anything else comes behind the quote, the field is taken *as it is* up to the next separator.
When an escape character comes behind it, what follows up to the next separator is read as if it were not quoted, that
separator is lost, and the field goes on, as in univocity. Newlines are data.

States are numbered as follows: 1 is quoted, 2 is behind a quote and an escape character, 3 is as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidemill.kernels.words import I64, I64_OUT, U8, U8_OUT, inlined, kernel

_BLANK = 32
_CONTINUES, _CONTINUATION = 0xC0, 0x80
_FOUR_BYTES = 0xF0
_NOTHING = -1


# In one piece: split by state it takes 25 % longer for records of quoted fields (55 ms in place of 44 ms for 200,000).
@inlined
def _quoted_field(
    data: Any, i: Any, end: Any, delimiter: Any, quote: Any, escape: Any, out: Any, begin: Any
) -> tuple[Any, Any, Any]:
    """Writes a field that begins with a quote at ``i - 1``.

    Returns
    -------
    tuple
        What comes next, where the field ends in ``out``, and whether the text has ended without a separator.
    """
    at = begin
    ch = quote
    before = 0
    unescaped = False
    ended = i == end
    state = 1
    depth = 0
    if not ended:
        ch = data[i]
        i += 1
    while not ended:
        if state == 1:
            if before == quote and (ch <= _BLANK or ch == delimiter):
                first = i - 1
                while ch <= _BLANK and ch != delimiter and i < end:
                    ch = data[i]
                    i += 1
                if ch == delimiter:
                    return i, at, False
                if ch <= _BLANK:
                    return i, at, True
                out[at] = quote
                at += 1
                for j in range(first, i):
                    out[at] = data[j]
                    at += 1
                before = ch
                state = 3
                continue
            if ch != quote and ch != escape:
                if before == quote:
                    unescaped = True
                    out[at] = quote
                    out[at + 1] = ch
                    at += 2
                    before = ch
                    state = 3
                    continue
                if before == escape:
                    out[at] = escape
                    at += 1
                while ch != quote and ch != escape:
                    out[at] = ch
                    at += 1
                    if i == end:
                        return i, at, True
                    ch = data[i]
                    i += 1
                before = ch
                ended = i == end
                if not ended:
                    ch = data[i]
                    i += 1
                continue
        elif state == 2:
            if ch == delimiter or (ch != quote and ch != escape):
                if ch == delimiter:
                    if depth == 0:
                        state = 1
                    depth -= 1
                elif before == quote:
                    out[at] = quote
                    at += 1
                    before = ch
                    continue
                else:
                    out[at] = ch
                    at += 1
                before = ch
                ended = i == end
                if not ended:
                    ch = data[i]
                    i += 1
                continue
        else:
            for j in range(at, begin, -1):
                out[j] = out[j - 1]
            out[begin] = quote
            at += 1
            while i < end and ch < _FOUR_BYTES and data[i] & _CONTINUES == _CONTINUATION:
                out[at] = data[i]
                at += 1
                i += 1
            ended = i == end
            if not ended:
                ch = data[i]  # it decides what the end of the text means
                while i < end and data[i] != delimiter:
                    out[at] = data[i]
                    at += 1
                    i += 1
                if i < end:
                    return i + 1, at, False
                ended = True
            break
        if ch == escape and before == escape:
            out[at] = escape
            at += 1
            ch = 0
        elif before == escape and ch == quote:
            out[at] = quote
            at += 1
            ch = 0
        elif before == escape:
            out[at] = escape
            at += 1
        elif before == quote:
            out[at] = quote
            at += 1
            if ch == escape:
                depth = depth + 1 if state == 2 else 0
                state = 2
                before = ch
                continue
        before = ch
        ended = i == end
        if not ended:
            ch = data[i]
            i += 1
    if ch == quote and before != quote and not unescaped:
        out[at] = quote
        at += 1
    return i, at, True


@kernel(I64_OUT, I64, U8, I64, U8_OUT, I64_OUT, I64_OUT)
def split_records(offsets: Any, data: Any, marks: Any, out: Any, starts: Any, ends: Any) -> Any:
    """Writes the fields of each text.

    Parameters
    ----------
    offsets, data : ndarray
        Text i is the bytes ``offsets[i]`` to ``offsets[i + 1]``.
    marks : ndarray of int64
        The separator, the quote and the escape character, all ASCII.
    out : ndarray of uint8
        Receives the bytes of fields: twice as many as there are, and two for each text, are enough.
    starts, ends : ndarray of int64
        Receive where in ``out`` the fields lie: as many for each text as are wanted, those of a text side by side.
        The end of one that is empty without quotes is -1. Fields that a text lacks are left as they are.

    Returns
    -------
    ndarray of int64
        How many fields each text has; an empty text has none.
    """
    texts = offsets.size - 1
    counts = np.zeros(texts, np.int64)
    wanted = starts.size // max(texts, 1)
    delimiter = marks[0]
    quote = marks[1]
    at = 0
    for text in range(texts):
        i = offsets[text]
        end = offsets[text + 1]
        count = 0
        more = i < end
        while more:
            begin = at
            quoted = 1
            if data[i] == quote:
                i, at, ended = _quoted_field(data, i + 1, end, delimiter, quote, marks[2], out, begin)
            else:
                while i < end and data[i] != delimiter:
                    out[at] = data[i]
                    at += 1
                    i += 1
                ended = i == end
                i += 1
                quoted = 0
            if count < wanted:
                starts[text * wanted + count] = begin
                ends[text * wanted + count] = at if at > begin or quoted else _NOTHING
            count += 1
            more = not ended
            if more and i == end:  # behind the last separator is an empty field
                if count < wanted:
                    ends[text * wanted + count] = _NOTHING
                count += 1
                more = False
        counts[text] = count
    return counts
