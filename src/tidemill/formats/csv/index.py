"""Phase 1 of CSV: where rows and fields lie in a buffer of bytes.

The rule that everything rests on: a byte lies inside quotes when an odd number of quote characters stands
before it in the file. A newline outside quotes ends a row, a separator outside quotes ends a field. A doubled
quote toggles twice and needs no case of its own, so the state at any byte follows from the parity of what
precedes it and splits of a file can be indexed independently.

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
    kernel,
    leading_zeros,
    prefix_xor,
    trailing_zeros,
)

NEWLINE = 10
CARRIAGE_RETURN = 13
NO_BYTE = -1
"""Stands for a quote or comment character that is switched off."""

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


@kernel
def scan_row_ends(buf, quote, inside):
    """Count the newlines outside quotes.

    Parameters
    ----------
    buf : ndarray of uint8
    quote : int
        The quote character or ``NO_BYTE``.
    inside : int
        1 when the first byte lies inside quotes, else 0.

    Returns
    -------
    tuple of int
        Number of row ends, offset of the first one and of the last one (-1 when there is none), number of
        quotes.
    """
    size = np.int64(buf.size)
    row_ends = np.int64(0)
    first = np.int64(-1)
    last = np.int64(-1)
    quotes = np.int64(0)
    carry = _ALL if inside else np.uint64(0)
    for base in range(0, size, 64):
        newlines = block_mask(buf, base, size, NEWLINE)
        if quote >= 0:
            marks = block_mask(buf, base, size, quote)
            if marks != 0:
                quoted = prefix_xor(marks) ^ carry
                quotes += count_bits(marks)
                newlines &= ~quoted
                carry = np.uint64(np.int64(quoted) >> 63)
            else:
                newlines &= ~carry
        if newlines != 0:
            row_ends += count_bits(newlines)
            if first < 0:
                first = base + trailing_zeros(newlines)
            last = base + 63 - leading_zeros(newlines)
    return row_ends, first, last, quotes


@kernel
def find_row_end(buf, begin, quote, inside):
    """Offset of the first newline outside quotes at or after ``begin``, or -1, and the state behind it.

    Returns
    -------
    tuple of int
        Offset or -1; 1 when the byte after the last one looked at lies inside quotes.
    """
    size = np.int64(buf.size)
    for i in range(begin, size):
        c = byte_at(buf, i)
        if c == quote:
            inside ^= 1
        elif c == NEWLINE and inside == 0:
            return i, inside
    return np.int64(-1), inside


@kernel
def index_fields(buf, begin, separator, quote, comment, skip_before, slot_of, starts, ends, row_starts, counts, broken):
    """Index the rows of a buffer that starts at a row and holds complete rows only.

    The end of the buffer ends the last row even without a newline.

    Parameters
    ----------
    buf : ndarray of uint8
    begin : int
        First byte to read: 0, or 3 behind a byte order mark. The first row starts at 0 all the same.
    separator, quote, comment : int
        Bytes; ``NO_BYTE`` when switched off.
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
    for base in range(0, size + 1, 64):
        newlines = block_mask(buf, base, size, NEWLINE)
        marks = newlines | block_mask(buf, base, size, separator)
        if quote >= 0:
            quotes = block_mask(buf, base, size, quote)
            if quotes != 0:
                quoted = prefix_xor(quotes) ^ carry
                carry = np.uint64(np.int64(quoted) >> 63)
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
