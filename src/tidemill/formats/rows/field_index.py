"""The field index: what phase 1, which knows the format, hands to phase 2, which knows the types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

# mypy: allow-untyped-defs
import numpy as np
import numpy.typing as npt

from tidemill.kernels.byte_masks import byte_at, item_at, kernel

Offsets = npt.NDArray[np.int32]
_CARRIAGE_RETURN = 13


class Marks(NamedTuple):
    """Where fields and rows end in a buffer of complete rows.

    Attributes
    ----------
    marks, line_ends : ndarray of int32
        Separators and line ends outside quotes, and line ends alone; the size of the buffer stands for the end of a row
        without a newline. Hazard: both are valid until the rows of the buffer are made.
    crlf : bool
        Whether a carriage return may stand before any of the line ends.
    """

    marks: Offsets
    line_ends: Offsets
    crlf: bool


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

    def bounds(self, slot: int) -> tuple[Offsets, Offsets]:
        """Where the fields of a slot start and end."""
        return self.starts[slot], self.ends[slot]

    def place(self, slot: int, row: int) -> tuple[int, int]:
        """Where one field starts and ends."""
        return int(self.starts[slot, row]), int(self.ends[slot, row])

    def offsets(self) -> FieldOffsets:
        """This object itself."""
        return self


@dataclass(frozen=True, eq=False)
class MarkedFields:
    """Rows and fields of a buffer all of whose rows have ``width`` fields, one right behind the other.

    It can be asked as :class:`FieldOffsets` can, and :meth:`offsets` converts it to one.

    Attributes
    ----------
    data : ndarray of uint8
        The buffer.
    marks : ndarray of int32, shape (>= (first + rows) * width,)
        Where each field ends; the next one starts a byte behind, the first one at ``begin``.
    width : int
        Fields of a row.
    begin : int
    first : int
        Rows left out at the beginning.
    fields : ndarray of int64, shape (slots,)
        The number of each needed field in its row.
    crlf : bool
        Whether a carriage return at the end of a line belongs to it.
    row_starts, has_quotes
        As in :class:`FieldOffsets`.
    """

    data: npt.NDArray[np.uint8]
    marks: Offsets
    width: int
    begin: int
    first: int
    fields: npt.NDArray[np.int64]
    crlf: bool
    row_starts: Offsets
    has_quotes: bool

    def bounds(self, slot: int) -> tuple[Offsets, Offsets]:
        """Where the fields of a slot start and end."""
        return self._bounds(slot, 0, self.row_starts.size)

    def place(self, slot: int, row: int) -> tuple[int, int]:
        """Where one field starts and ends."""
        starts, ends = self._bounds(slot, row, 1)
        return int(starts[0]), int(ends[0])

    def _bounds(self, slot: int, row: int, count: int) -> tuple[Offsets, Offsets]:
        starts, ends = np.empty(count, np.int32), np.empty(count, np.int32)
        number = int(self.fields[slot])
        field_bounds(self.data, self.marks, self.width, self.begin, self.first + row, number, self.crlf, starts, ends)
        return starts, ends

    @property
    def field_counts(self) -> Offsets:
        """Number of fields of each row."""
        return np.full(self.row_starts.size, self.width, np.int32)

    @property
    def broken_comments(self) -> Offsets:
        """There are none."""
        return np.empty(0, np.int32)

    def offsets(self) -> FieldOffsets:
        """The same in the general form."""
        shape = (self.fields.size, self.row_starts.size)
        starts, ends = np.empty(shape, np.int32), np.empty(shape, np.int32)
        for slot in range(self.fields.size):
            starts[slot], ends[slot] = self.bounds(slot)
        return FieldOffsets(self.row_starts, self.field_counts, starts, ends, self.has_quotes, self.broken_comments)


@kernel
def field_bounds(buf, marks, width, begin, row, field, crlf, starts, ends):
    """Where one field of consecutive rows lies.

    Parameters
    ----------
    buf : ndarray of uint8
        Rows all of ``width`` fields.
    marks : ndarray of int32
        Where each field ends, see :func:`tidemill.formats.csv.index.find_marks`.
    begin : int
        Where the first field of all starts.
    row, field : int
        The first row asked for, and the field.
    crlf : bool
        Whether some rows end in a carriage return and a newline.
    starts, ends : ndarray of int32, shape (rows,)
        Outputs.
    """
    count = starts.size
    at = row * width + field
    for i in range(1, count):
        starts[i] = item_at(marks, at + i * width - 1) + 1
    for i in range(count):
        ends[i] = item_at(marks, at + i * width)
    if count > 0:
        starts[0] = item_at(marks, at - 1) + 1 if at > 0 else begin
    if crlf and field == width - 1:
        for i in range(count):
            end = np.int64(ends[i])
            if end > 0 and byte_at(buf, end - 1) == _CARRIAGE_RETURN:
                ends[i] = end - 1


@kernel
def text_sizes(marks, width, begin, row, rows, fields, sizes):
    """Add up the lengths of some fields of consecutive rows; a carriage return at the end of a row counts."""
    for slot in range(fields.size):
        at = row * width + fields[slot]
        total = item_at(marks, at) - (item_at(marks, at - 1) + 1 if at > 0 else begin) if rows > 0 else 0
        for i in range(1, rows):
            total += item_at(marks, at + i * width) - item_at(marks, at + i * width - 1) - 1
        sizes[slot] = total
