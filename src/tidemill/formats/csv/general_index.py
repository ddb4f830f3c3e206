"""Phase 1 of CSV with separators or line ends of several bytes, or an escape character: where fields lie in a buffer of
complete rows, and their texts without escapes.

Plain twin: :mod:`tests.formats.csv_reference`.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from typing import Any

import numpy as np
import numpy.typing as npt

from tidemill.formats.text.delimiters import FIELD_END, Delimiters, delimiter_table, next_of, walk_row_end
from tidemill.formats.text.line_ends import CARRIAGE_RETURN, Bytes
from tidemill.formats.values.field_text import TRIM_LEADING, TRIM_TRAILING
from tidemill.kernels.byte_masks import byte_at, kernel


def index_delimited(
    data: Bytes, begin: int, rules: Delimiters, comment: int, skip_before: int, outputs: tuple[npt.NDArray[Any], ...]
) -> tuple[int, int]:
    """:func:`index_delimited_fields` by some rules; ``outputs`` are its arrays from ``slot_of`` on."""
    table = delimiter_table(rules)
    rows, broken = index_delimited_fields(
        data,
        begin,
        table.following,
        table.actions,
        table.guide,
        len(rules.separator),
        np.frombuffer(rules.row_end, np.uint8),
        comment,
        skip_before,
        *outputs,
    )
    return int(rows), int(broken)


def delimited_row_end(data: Bytes, begin: int, rules: Delimiters) -> tuple[int, bool]:
    """Offset of the line end behind the row at ``begin``, or -1; and whether the buffer then ends inside quotes."""
    table = delimiter_table(rules)
    stop, state = walk_row_end(data, begin, table.following, table.actions, table.guide, table.open)
    return int(stop) + 1 - len(rules.row_end) if stop >= 0 else -1, int(state) in table.open_at_end


@kernel
def index_delimited_fields(
    buf,
    begin,
    following,
    actions,
    guide,
    separator_size,
    row_end,
    comment,
    skip_before,
    slot_of,
    starts,
    ends,
    row_starts,
    counts,
    broken,
):
    """Index the rows of a buffer that starts at a row and holds complete rows only.

    The end of the buffer ends the last row even without a line end. This is one function, like
    :func:`~tidemill.formats.csv.index.walk_fields`: with the noting of fields in an inlined one both took 1.08 times as
    long.

    Parameters
    ----------
    buf : ndarray of uint8
    begin, comment, skip_before, slot_of, starts, ends, row_starts, counts, broken
        As in :func:`tidemill.formats.csv.index.walk_fields`.
    following, actions, guide
        Of a :class:`tidemill.formats.text.delimiters.DelimiterTable`; its state 0 is that at the beginning of a field.
    separator_size : int
        Bytes of a separator.
    row_end : ndarray of uint8
        The line end. A carriage return before a newline belongs to it.

    Returns
    -------
    tuple of int
        Number of rows and of broken comments written.
    """
    size = np.int64(buf.size)
    end_size = np.int64(row_end.size)
    strips = end_size == 1 and row_end[0] == 10
    text, quoted = guide[0], guide[1]
    last_needed = np.int64(slot_of.size) - 1
    while last_needed >= 0 and slot_of[last_needed] < 0:
        last_needed -= 1
    row = np.int64(0)
    broken_count = np.int64(0)
    field = np.int64(0)
    line_start = np.int64(0)
    text_start = np.int64(begin)
    field_start = np.int64(begin)
    state = np.int64(0)
    i = np.int64(begin)
    while line_start < size:
        if state == text:
            i = next_of(buf, i, size, guide[2], guide[3])
        elif state == quoted:
            i = next_of(buf, i, size, guide[4], guide[5])
        if i < size:
            c = byte_at(buf, i)
            action = np.int64(actions[state, c])
            state = np.int64(following[state, c])
            i += 1
            if action == 0:
                continue
            if action == FIELD_END:
                if field <= last_needed:
                    slot = slot_of[field]
                    if slot >= 0:
                        starts[slot, row] = field_start
                        ends[slot, row] = i - separator_size
                field += 1
                field_start = i
                continue
            text_end = i - end_size
        else:
            text_end = size
        if strips and text_end > text_start and byte_at(buf, text_end - 1) == CARRIAGE_RETURN:
            text_end -= 1
        if text_end > text_start and line_start >= skip_before:
            if byte_at(buf, text_start) == comment:
                if _holds(buf, text_start, text_end, row_end):
                    broken[broken_count] = line_start
                    broken_count += 1
            else:
                row_starts[row] = line_start
                counts[row] = field + 1
                if field <= last_needed:
                    slot = slot_of[field]
                    if slot >= 0:
                        starts[slot, row] = field_start
                        ends[slot, row] = text_end
                    for missing in range(field + 1, last_needed + 1):
                        slot = slot_of[missing]
                        if slot >= 0:
                            starts[slot, row] = 0
                            ends[slot, row] = -1
                row += 1
        field = np.int64(0)
        line_start = i
        text_start = i
        field_start = i
    return row, broken_count


@kernel
def _holds(buf, start, end, text):
    """Whether ``text`` lies anywhere in ``buf[start:end]``."""
    for i in range(start, end - text.size + 1):
        same = True
        for k in range(text.size):
            if byte_at(buf, i + k) != byte_at(text, k):
                same = False
                break
        if same:
            return True
    return False


@kernel
def double_quotes(buf, starts, ends, quote, escape, trim):
    """Write quoted texts with escapes as those with doubled quotes, which is all that parsers of values know.

    A quote behind an escape takes as many bytes as a doubled one, and an escape behind an escape one less, so that this
    is done in place. A field that is no quoted text in whole becomes a lone quote, which is malformed as well.

    Parameters
    ----------
    buf : ndarray of uint8
        Changed.
    starts, ends : ndarray of int32, shape (slots, rows)
        Changed where a text becomes shorter.
    quote, escape : int
    trim : int
        See :class:`tidemill.formats.values.field_text.TextRules`.
    """
    for slot in range(starts.shape[0]):
        for row in range(starts.shape[1]):
            start = np.int64(starts[slot, row])
            end = np.int64(ends[slot, row])
            if trim & TRIM_LEADING:
                while start < end and (byte_at(buf, start) == 32 or byte_at(buf, start) == 9):
                    start += 1
            if start >= end or byte_at(buf, start) != quote:
                continue
            if trim & TRIM_TRAILING:
                while start < end and (byte_at(buf, end - 1) == 32 or byte_at(buf, end - 1) == 9):
                    end -= 1
            i = next_of(buf, start + 1, end, quote, escape)
            if i + 1 == end and byte_at(buf, i) == quote:
                continue
            to = i
            closed = False
            while i < end:
                c = byte_at(buf, i)
                i += 1
                if c == quote:
                    closed = True
                    break
                if c == escape and i < end:
                    following = byte_at(buf, i)
                    if following == quote:
                        buf[to] = quote
                        to += 1
                    if following == quote or following == escape:  # noqa: SIM109 - not a tuple to search
                        c = following
                        i += 1
                buf[to] = c
                to += 1
            if closed and i == end:
                buf[to] = quote
                ends[slot, row] = to + 1
            else:
                ends[slot, row] = start + 1
            starts[slot, row] = start
