"""Where a row ends; and what a file should not have: carriage returns alone as line ends, UTF-16."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidemill.formats.csv.general_index import delimited_row_end
from tidemill.formats.csv.options import CsvOptions
from tidemill.formats.rows.field_index import FieldOffsets, MarkedFields
from tidemill.formats.text.delimiters import Delimiters, delimiter_table
from tidemill.formats.text.line_ends import (
    BYTE_ORDER_MARK,
    CARRIAGE_RETURN,
    NEWLINE,
    NO_BYTE,
    OPEN,
    QUOTED,
    Bytes,
    LineRules,
    find_row_end,
)
from tidemill.kernels.byte_masks import block_mask, byte_at, kernel, trailing_zeros


def row_end(data: Bytes, begin: int, lines: LineRules | Delimiters) -> tuple[int, bool]:
    """Offset of the line end behind the row at ``begin``, or -1; and whether the buffer then ends inside quotes."""
    if isinstance(lines, Delimiters):
        return delimited_row_end(data, begin, lines)
    stop, state = find_row_end(data, begin, lines.separator, lines.quote, lines.leading, OPEN)
    return int(stop), state == QUOTED


def bare_return(row: bytes, options: CsvOptions) -> int:
    """Offset in a row, without its line end, of the first carriage return; -1 if there is none.

    Where rows may span lines, one inside quotes is data and does not count; and none does where the table names
    another line end.
    """
    at = row.find(b"\r")
    if at < 0 or not options.general.strips_return:
        return -1
    quote = options.general.quote
    if not options.multi_line or quote == NO_BYTE or quote not in row[:at]:
        return at
    table = delimiter_table(options.general)
    state = table.open
    for i, byte in enumerate(row.removeprefix(BYTE_ORDER_MARK)):
        if byte == CARRIAGE_RETURN and state not in table.open_at_end:
            return i + len(row) - len(row.removeprefix(BYTE_ORDER_MARK))
        state = int(table.following[state, byte])
    return -1


@kernel
def find_bare_returns(buf, places):  # type: ignore[no-untyped-def]
    """Note the carriage returns neither before a newline nor at the end, as far as there is room; counts all."""
    size = np.int64(buf.size)
    count = np.int64(0)
    for base in range(0, size, 64):
        mask = block_mask(buf, base, size, CARRIAGE_RETURN)
        while mask != 0:
            at = base + trailing_zeros(mask)
            mask &= mask - np.uint64(1)
            if at + 1 < size and byte_at(buf, at + 1) != NEWLINE:
                if count < places.size:
                    places[count] = at
                count += 1
    return count


@kernel
def holds(buf, byte):  # type: ignore[no-untyped-def]
    """Whether a byte occurs in a buffer."""
    size = np.int64(buf.size)
    for base in range(0, size, 64):  # noqa: SIM110 - all() over a generator does not compile to a loop
        if block_mask(buf, base, size, byte) != 0:
            return True
    return False


def rows_with_returns(data: Bytes, fields: FieldOffsets | MarkedFields, options: CsvOptions) -> npt.NDArray[np.int64]:
    """The rows, of one line each, with a carriage return that is not at their end."""
    none = np.empty(0, np.int64)
    if not options.general.strips_return or not fields.row_starts.size:
        return none
    count = int(find_bare_returns(data, none))
    if not count:
        return none
    places = np.empty(count, np.int64)
    find_bare_returns(data, places)
    owners = np.searchsorted(fields.row_starts, places, "right") - 1
    places, owners = places[owners >= 0], owners[owners >= 0]
    # Behind the line of a row there may be comments, and before all of them a header
    line_ends = np.flatnonzero(data == NEWLINE)
    same = np.searchsorted(line_ends, places) == np.searchsorted(line_ends, fields.row_starts[owners])
    return np.unique(owners[same])
