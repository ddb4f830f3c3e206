"""Phase 1 of CSV: where rows and fields lie in a buffer of bytes.

The rule that everything rests on, which is also Spark's: a quote opens a field at its beginning, and again right
behind the quote that closed it, so that a doubled quote needs no case of its own; anywhere else outside quotes it is
text. A newline outside quotes ends a row, a separator outside quotes ends a field.

While no quote is text, a byte lies inside quotes when an odd number of quotes stands before it, so 64 bytes at a
time are a prefix XOR. A block with a quote that opens, but has no separator, line end or quote before it, is gone
through byte by byte (:func:`plain_block`). The state at a byte is one of ``OPEN``, ``TEXT``, ``QUOTED``.

Plain twin: :mod:`tidemill.formats.csv.reference`.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidemill.formats.byte_masks import (
    block_mask,
    byte_at,
    count_bits,
    inlined,
    kernel,
    leading_zeros,
    prefix_xor,
    trailing_zeros,
)

NEWLINE = 10
CARRIAGE_RETURN = 13
NO_BYTE = -1
"""Stands for a quote or comment character that is switched off."""

OPEN = 0
"""Outside quotes, where a quote opens a field: at its beginning, or right behind a closing quote."""
TEXT = 1
"""Outside quotes, where a quote is text."""
QUOTED = 2
"""Inside quotes."""

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]


@dataclass(frozen=True)
class FieldOffsets:
    """Rows and fields of one buffer; all offsets are relative to the buffer.

    Attributes
    ----------
    row_starts : ndarray of int32, shape (rows,)
        First byte of each row, ascending.
    field_counts : ndarray of int32, shape (rows,)
        Number of fields that the row has, whatever is needed of them.
    starts, ends : ndarray of int32, shape (slots, rows)
        Half-open byte range of each needed field with its quotes; a field that the row lacks has ``end <
        start``.
    has_quotes : bool
        False when no quote character occurs in the buffer, so that phase 2 need not look for one.
    broken_comments : ndarray of int32
        First byte of each comment that holds a quote which makes it span lines.
    """

    row_starts: Offsets
    field_counts: Offsets
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]
    has_quotes: bool
    broken_comments: Offsets


@inlined
def next_state(c, separator, quote, leading, state):
    """The state behind a byte."""
    if state == QUOTED:
        return OPEN if c == quote else QUOTED
    if c == separator or c == NEWLINE:  # noqa: SIM109 - not a tuple to search
        return OPEN
    if state == OPEN:
        if c == quote:
            return QUOTED
        if leading != 0 and (c == 32 or c == 9):
            return OPEN
    return TEXT


@kernel
def plain_block(buf, base, begin, size, separator, quote, leading, state):
    """Which of 64 bytes from ``base`` on lie outside quotes (uint64, quotes themselves of no account), and the state
    behind them; bytes before ``begin`` change nothing."""
    outside = np.uint64(0)
    for i in range(max(base, begin), min(base + 64, size)):
        if state != QUOTED:
            outside |= _ONE << np.uint64(i - base)
        state = next_state(byte_at(buf, i), separator, quote, leading, state)
    return outside, state


@kernel
def careful_block(buf, base, begin, size, separator, quote, leading, misplaced, quoted, state):
    """A block in which a quote opens that has no separator, line end or quote before it in the block.

    Parameters
    ----------
    misplaced, quoted : uint64
        Such quotes, and the bytes inside quotes if no quote is text.
    state : int
        The state before the block, or -1 if it is outside quotes, and no quote was text so far: then the byte
        before tells.

    Returns
    -------
    tuple
        The bytes inside quotes (uint64), and the state behind the block, or -1 if no quote of it is text.
    """
    first = state
    if state < 0:
        c = byte_at(buf, base - 1)
        first = OPEN if c == separator or c == NEWLINE or c == quote else TEXT  # noqa: SIM109 - not a tuple to search
    if misplaced == _ONE and first == OPEN and leading == 0:
        return quoted, np.int64(-1)
    outside, behind = plain_block(buf, base, begin, size, separator, quote, leading, first)
    return ~outside, np.int64(behind)


@kernel
def scan_row_ends(buf, begin, separator, quote, leading, state):
    """Count the newlines outside quotes.

    Parameters
    ----------
    buf : ndarray of uint8
    begin : int
        First byte to look at: behind a byte order mark.
    separator, quote : int
        The quote character may be ``NO_BYTE``.
    leading : int
        Not 0 when blanks before a quote at the beginning of a field do not count.
    state : int
        The state at the first byte.

    Returns
    -------
    tuple of int
        Number of row ends, offset of the first one and of the last one (-1 when there is none), number of
        quotes, state behind the last byte.
    """
    size = np.int64(buf.size)
    row_ends = np.int64(0)
    first = np.int64(-1)
    last = np.int64(-1)
    quotes = np.int64(0)
    carry = _ALL if state == QUOTED else np.uint64(0)
    known_at = np.int64(0)
    for base in range(0, size, 64):
        newlines = block_mask(buf, base, size, NEWLINE)
        if quote >= 0:
            marks = block_mask(buf, base, size, quote)
            if marks != 0 or leading != 0:
                quotes += count_bits(marks)
                quoted = prefix_xor(marks) ^ carry
                edges = newlines | marks | block_mask(buf, base, size, separator)
                misplaced = marks & quoted & ~(edges << _ONE)
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
                newlines &= ~quoted
            else:
                newlines &= ~carry
        if newlines != 0:
            row_ends += count_bits(newlines)
            if first < 0:
                first = base + trailing_zeros(newlines)
            last = base + 63 - leading_zeros(newlines)
    if carry != 0:
        state = np.int64(QUOTED)
    elif size > begin and known_at < size:
        c = byte_at(buf, size - 1)
        state = np.int64(OPEN if c in (separator, NEWLINE, quote) else TEXT)
    return row_ends, first, last, quotes, np.int64(state)


@kernel
def find_row_end(buf, begin, separator, quote, leading, state):
    """Offset of the first newline outside quotes at or after ``begin``, or -1, and the state behind it.

    Returns
    -------
    tuple of int
        Offset or -1; the state behind the last byte looked at.
    """
    size = np.int64(buf.size)
    for i in range(begin, size):
        c = byte_at(buf, i)
        if c == NEWLINE and state != QUOTED:
            return i, np.int64(OPEN)
        state = next_state(c, separator, quote, leading, state)
    return np.int64(-1), np.int64(state)


@kernel
def index_fields(
    buf, begin, separator, quote, leading, comment, skip_before, slot_of, starts, ends, row_starts, counts, broken
):
    """Index the rows of a buffer that starts at a row and holds complete rows only.

    The end of the buffer ends the last row even without a newline.

    Parameters
    ----------
    buf : ndarray of uint8
    begin : int
        First byte to read: 0, or 3 behind a byte order mark. The first row starts at 0 all the same.
    separator, quote, comment : int
        Bytes; ``NO_BYTE`` when switched off.
    leading : int
        As in :func:`scan_row_ends`.
    skip_before : int
        Rows that start before this offset are skipped (the header).
    slot_of : ndarray of int32, shape (width,)
        For each field of the file its row in ``starts`` and ``ends``, or -1 when it is not needed.
    starts, ends, row_starts, counts, broken : ndarray of int32
        Outputs, see :class:`FieldOffsets`; large enough for every row end plus one.

    Returns
    -------
    tuple of int
        Number of rows and of broken comments written.
    """
    size = np.int64(buf.size)
    width = np.int64(slot_of.size)
    last_needed = width - 1
    while last_needed >= 0 and slot_of[last_needed] < 0:
        last_needed -= 1
    row = np.int64(0)
    broken_count = np.int64(0)
    field = np.int64(0)
    field_start = np.int64(begin)
    line_start = np.int64(0)
    text_start = np.int64(begin)
    carry = np.uint64(0)
    state = np.int64(OPEN)
    known_at = np.int64(0)
    for base in range(0, size + 1, 64):
        newlines = block_mask(buf, base, size, NEWLINE)
        marks = newlines | block_mask(buf, base, size, separator)
        if quote >= 0:
            quotes = block_mask(buf, base, size, quote)
            if quotes != 0 or leading != 0:
                quoted = prefix_xor(quotes) ^ carry
                misplaced = quotes & quoted & ~((marks | quotes) << _ONE)
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
                marks &= ~quoted
                newlines &= ~quoted
            else:
                marks &= ~carry
                newlines &= ~carry
        if base + 64 > size and line_start < size:
            # A virtual newline behind the last byte, even inside an open quote.
            at_end = _ONE << np.uint64(size - base)
            tail = size - 1
            if line_start < size and (byte_at(buf, tail) != NEWLINE or carry != 0):
                marks |= at_end
                newlines |= at_end
        while marks != 0:
            if field > last_needed:
                # Nothing of this row is needed any more: count its fields and go to its end.
                if newlines == 0:
                    field += count_bits(marks)
                    break
                before = (newlines & (~newlines + _ONE)) - _ONE
                field += count_bits(marks & before)
                marks &= ~before
            bit = marks & (~marks + _ONE)
            at = base + trailing_zeros(marks)
            marks ^= bit
            if newlines & bit == 0:
                slot = slot_of[field]
                if slot >= 0:
                    starts[slot, row] = field_start
                    ends[slot, row] = at
                field += 1
                field_start = at + 1
                continue
            newlines ^= bit
            text_end = at
            if at < size and at > text_start and byte_at(buf, at - 1) == CARRIAGE_RETURN:
                text_end -= 1
            if text_end > text_start and line_start >= skip_before:
                if byte_at(buf, text_start) == comment:
                    for i in range(text_start, text_end):
                        if byte_at(buf, i) == NEWLINE:
                            broken[broken_count] = line_start
                            broken_count += 1
                            break
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
            line_start = at + 1
            text_start = line_start
            field_start = line_start
    return row, broken_count
