"""Phase 1 of CSV for a buffer: which kernels find its fields, by the dialect and by what the buffer holds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidemill.formats.csv.general_index import index_delimited
from tidemill.formats.csv.index import MARK_SLACK, find_marks, regular_rows, walk_fields
from tidemill.formats.csv.one_line import without_open_quotes
from tidemill.formats.csv.options import CsvOptions
from tidemill.formats.rows.field_index import FieldOffsets, MarkedFields, Marks, Offsets
from tidemill.formats.text.line_ends import CARRIAGE_RETURN, NEWLINE, NO_BYTE, OPEN, QUOTED, Bytes
from tidemill.formats.values.field_text import TRIM_LEADING


def index_buffer(
    data: Bytes,
    begin: int,
    skip_before: int,
    options: CsvOptions,
    row_ends: int,
    quotes: bool,
    slot_of: Offsets,
    found: Marks | None = None,
) -> FieldOffsets | MarkedFields:
    """Find the rows of a buffer, and of each the fields that are needed.

    Parameters
    ----------
    data : ndarray of uint8
        Complete rows.
    begin : int
        First byte to read: 0, or 3 behind a byte order mark. The first row starts at 0 all the same.
    skip_before : int
        Rows that start before this offset are skipped (the header).
    row_ends : int
        Upper limit of the number of rows.
    quotes : bool
        Whether a quote character occurs in the buffer.
    slot_of : ndarray of int32
        For each field of the file its row in ``starts`` and ``ends``, or -1 when it is not needed.
    found : Marks or None
        The marks of the buffer, where they are known. Only for rows that may span lines.
    """
    comment = options.comment
    text = data
    if quotes and not options.multi_line:
        data = without_open_quotes(data, begin, options)
    if options.delimiters is None:
        width = slot_of.size
        marks, line_ends, crlf = found or _marks(data, begin, options, row_ends, width, quotes)
        lines = row_ends = line_ends.size
        row_starts = np.empty(row_ends, np.int32)
        if regular_rows(data, begin, marks, line_ends, comment, width, row_starts):
            skipped = int(np.searchsorted(row_starts[:lines], skip_before)) if skip_before else 0
            return MarkedFields(
                data=text,
                marks=marks,
                width=width,
                begin=begin,
                first=skipped,
                fields=_fields(slot_of),
                crlf=crlf,
                row_starts=row_starts[skipped:lines],
                has_quotes=quotes,
            )
    slots = int(np.count_nonzero(slot_of >= 0))
    row_starts = np.empty(row_ends, np.int32)
    starts = np.empty((slots, row_ends), np.int32)
    ends = np.empty((slots, row_ends), np.int32)
    counts = np.empty(row_ends, np.int32)
    broken = np.empty(row_ends if comment != NO_BYTE else 0, np.int32)
    outputs = (slot_of, starts, ends, row_starts, counts, broken)
    if options.delimiters is None:
        rows, broken_count = walk_fields(data, begin, marks, comment, skip_before, *outputs)
    else:
        rows, broken_count = index_delimited(data, begin, options.delimiters, comment, skip_before, outputs)
    return FieldOffsets(
        row_starts=row_starts[:rows],
        field_counts=counts[:rows],
        starts=starts[:, :rows],
        ends=ends[:, :rows],
        has_quotes=quotes,
        broken_comments=broken[:broken_count],
    )


def _fields(slot_of: Offsets) -> npt.NDArray[np.int64]:
    """The field of each slot."""
    wanted = np.flatnonzero(slot_of >= 0)
    fields = np.empty(wanted.size, np.int64)
    fields[slot_of[wanted]] = wanted
    return fields


def _marks(data: Bytes, begin: int, options: CsvOptions, rows: int, width: int, quotes: bool) -> Marks:
    quote = options.quote if quotes else NO_BYTE
    for room, line_room in ((rows * width, rows), (data.size + 1, data.size + 1)):
        marks, line_ends = np.empty(room + MARK_SLACK, np.int32), np.empty(line_room + MARK_SLACK, np.int32)
        count, lines, returns, _, state = find_marks(
            data, begin, options.separator, quote, options.trim & TRIM_LEADING, OPEN, 0, marks, 0, line_ends, 0
        )
        if count >= 0:
            break
    crlf = returns > 0
    if data.size > begin and (state == QUOTED or data[-1] != NEWLINE):
        marks[count] = line_ends[lines] = data.size
        count, lines = count + 1, lines + 1
        crlf |= state != QUOTED and data[-1] == CARRIAGE_RETURN
    return Marks(marks[:count], line_ends[:lines], bool(crlf))
