"""Phase 1 of CSV: where fields lie in a buffer of complete rows, which
:mod:`tidemill.formats.text.line_ends` finds.

First every separator and line end outside quotes is found, 64 bytes at a time, and noted as a flat list of marks. Where
all rows have as many fields as the file has columns, the ends of a field are every ``width``-th mark, and phase 2 reads
them off the list (:class:`~tidemill.formats.rows.field_index.MarkedFields`); else the marks are walked row by row.

Plain twin: :mod:`tests.formats.csv_reference`.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.text.line_ends import CARRIAGE_RETURN, NEWLINE, QUOTED, careful_block, state_behind
from tidemill.kernels.byte_masks import (
    COMPRESSES,
    block_mask,
    byte_at,
    count_bits,
    equal_mask,
    item_at,
    kernel,
    prefix_xor,
    put_16_places,
    put_64_places,
    trailing_zeros,
)

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
MARK_SLACK = 66
"""Marks that the output of :func:`find_marks` must have room for beyond those expected."""


@kernel
def find_marks(buf, begin, separator, quote, leading, state, shift, marks, count, line_ends, lines):
    """Find the separators and line ends outside quotes.

    Parameters
    ----------
    buf : ndarray of uint8
    begin : int
        First byte to read.
    separator, quote : int
        Bytes; the quote may be ``NO_BYTE``.
    leading, state : int
        As in :func:`~tidemill.formats.text.line_ends.scan_row_ends`.
    shift : int
        What to add to offsets.
    marks, line_ends : ndarray of int32
        Receive offsets, ascending: of all, and of line ends. Each has ``MARK_SLACK`` more room than it needs.
    count, lines : int
        How many each holds already.

    Returns
    -------
    tuple of int
        Number of marks and of line ends that they hold then, number of line ends found behind a carriage return, of
        quotes, and the state behind the last byte; -1 for the first when the room does not do.
    """
    size = np.int64(buf.size)
    room = np.int64(marks.size) - MARK_SLACK
    line_room = np.int64(line_ends.size) - MARK_SLACK
    returns = np.int64(0)
    last_return = np.uint64(0)
    all_quotes = np.int64(0)
    carry = _ALL if state == QUOTED else np.uint64(0)
    known_at = np.int64(begin)
    for base in range(begin, size, 64):
        if count > room or lines > line_room:
            return np.int64(-1), lines, returns, all_quotes, state
        if base + 64 <= size:
            newlines = equal_mask(buf, base, NEWLINE)
            found = newlines | equal_mask(buf, base, separator)
        else:
            newlines = block_mask(buf, base, size, NEWLINE)
            found = newlines | block_mask(buf, base, size, separator)
        if quote >= 0:
            quotes = block_mask(buf, base, size, quote)
            if quotes != 0 or leading != 0:
                all_quotes += count_bits(quotes)
                quoted = prefix_xor(quotes) ^ carry
                misplaced = quotes & quoted & ~((found | quotes) << _ONE)
                carry_in = carry
                carry = np.uint64(np.int64(quoted) >> 63)
                if misplaced != 0 or leading != 0:
                    before = QUOTED if carry_in != 0 else state if known_at == base else -1
                    quoted, state = careful_block(
                        buf, base, begin, size, separator, quote, leading, misplaced, quoted, before
                    )
                    if state >= 0:
                        known_at = np.int64(base + 64)
                        carry = _ALL if state == QUOTED else np.uint64(0)
                found &= ~quoted
                newlines &= ~quoted
            else:
                found &= ~carry
                newlines &= ~carry
        returned = block_mask(buf, base, size, CARRIAGE_RETURN)
        if newlines != 0:
            returns += count_bits(newlines & (returned << _ONE | last_return))
            if COMPRESSES:
                if count_bits(newlines) <= 16:
                    put_16_places(line_ends, lines, base + shift, newlines)
                else:
                    put_64_places(line_ends, lines, base + shift, newlines)
                lines += count_bits(newlines)
            else:
                while newlines != 0:
                    line_ends[lines] = base + shift + trailing_zeros(newlines)
                    newlines &= newlines - _ONE
                    lines += 1
        last_return = returned >> np.uint64(63)
        ahead = count
        count += count_bits(found)
        if COMPRESSES:
            if count - ahead <= 16:
                put_16_places(marks, ahead, base + shift, found)
            else:
                put_64_places(marks, ahead, base + shift, found)
            continue
        # Eight at once and no branch between them; what is noted beyond the last is overwritten.
        while True:
            for k in range(8):
                marks[ahead + k] = base + shift + trailing_zeros(found)
                found &= found - _ONE
            ahead += 8
            if ahead >= count:
                break
    state = state_behind(buf, begin, separator, quote, carry, known_at, state)
    return count, lines, returns, all_quotes, np.int64(state)


@kernel
def regular_rows(buf, begin, marks, line_ends, comment, width, row_starts):
    """Whether all rows of a buffer have ``width`` fields, and none is empty or a comment.

    Parameters
    ----------
    buf, begin, marks, line_ends
        As :func:`find_marks` had and left them, the latter cut to what they hold.
    comment : int
        Byte, or ``NO_BYTE``.
    row_starts : ndarray of int32
        Receives where rows start; large enough for all.
    """
    lines = np.int64(line_ends.size)
    if marks.size != lines * width:
        return False
    wrong = np.int64(0)
    for row in range(lines):
        wrong |= item_at(marks, row * width + width - 1) ^ item_at(line_ends, row)
    if wrong != 0:
        return False
    if lines > 0:
        row_starts[0] = 0  # also behind a byte order mark
    for row in range(1, lines):
        row_starts[row] = line_ends[row - 1] + 1
    if width == 1 or comment >= 0:
        start = np.int64(begin)
        for row in range(lines):
            end = item_at(line_ends, row)
            if start == end or byte_at(buf, start) == comment:
                return False
            if start == end - 1 and byte_at(buf, start) == CARRIAGE_RETURN:
                return False
            start = end + 1
    return True


@kernel
def walk_fields(buf, begin, marks, comment, skip_before, slot_of, starts, ends, row_starts, counts, broken):
    """The fields of a buffer whose rows may have any number of them; empty rows and comments are left out.

    Parameters
    ----------
    buf, begin, marks, comment, slot_of, starts, ends, row_starts
        As for :func:`find_marks`, which left the marks; the others as in
        :class:`~tidemill.formats.rows.field_index.FieldOffsets`, large enough for every line end.
    skip_before : int
        Rows that start before this offset are skipped (the header).
    counts, broken : ndarray of int32
        Outputs, see :class:`~tidemill.formats.rows.field_index.FieldOffsets`; large enough for every line end.

    Returns
    -------
    tuple of int
        Number of rows and of broken comments written.
    """
    size = np.int64(buf.size)
    width = np.int64(slot_of.size)
    row = np.int64(0)
    broken_count = np.int64(0)
    field = np.int64(0)
    field_start = np.int64(begin)
    line_start = np.int64(0)
    text_start = np.int64(begin)
    for i in range(marks.size):
        at = np.int64(marks[i])
        if at < size and byte_at(buf, at) != NEWLINE:
            if field < width:
                slot = slot_of[field]
                if slot >= 0:
                    starts[slot, row] = field_start
                    ends[slot, row] = at
            field += 1
            field_start = at + 1
            continue
        text_end = at
        if at > text_start and byte_at(buf, at - 1) == CARRIAGE_RETURN:
            text_end -= 1
        if text_end > text_start and line_start >= skip_before:
            if byte_at(buf, text_start) == comment:
                for k in range(text_start, text_end):
                    if byte_at(buf, k) == NEWLINE:
                        broken[broken_count] = line_start
                        broken_count += 1
                        break
            else:
                row_starts[row] = line_start
                counts[row] = field + 1
                if field < width:
                    slot = slot_of[field]
                    if slot >= 0:
                        starts[slot, row] = field_start
                        ends[slot, row] = text_end
                for missing in range(field + 1, width):
                    slot = slot_of[missing]
                    if slot >= 0:
                        starts[slot, row] = 0
                        ends[slot, row] = -1
                row += 1
        field = np.int64(0)
        line_start = at + 1
        text_start = line_start
        field_start = line_start
    return row, broken_count
