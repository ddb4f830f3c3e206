"""Phase 1 of CSV: where fields lie in a buffer of complete rows; where these end is told by
:mod:`tidemill.formats.line_ends`.

Plain twin: :mod:`tidemill.formats.csv.reference`.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.byte_masks import block_mask, byte_at, count_bits, kernel, prefix_xor, trailing_zeros
from tidemill.formats.line_ends import CARRIAGE_RETURN, NEWLINE, OPEN, QUOTED, careful_block

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)


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
