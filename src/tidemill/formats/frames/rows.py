"""From frames to rows: the frames of a buffer are read together, and one by one where that could differ.

Together they are one buffer of the payload's format, with a line end behind each frame if that is a format of lines.
What one frame leaves open (a quote, half a native row) would run on into the next one. Then the next one does not begin
a row, and that shows.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tidemill.formats.base import RowReader, Rows
from tidemill.formats.csv.row_ends import find_bare_returns
from tidemill.formats.reading.several_feeds import concatenated
from tidemill.formats.records.sized_records import Bytes, Places
from tidemill.formats.rows.malformed import Mode, fail_fast
from tidemill.formats.text.line_ends import BYTE_ORDER_MARK, CARRIAGE_RETURN
from tidemill.kernels.byte_masks import kernel

_NO_PLACES = np.empty(0, np.int64)


@kernel
def join_frames(buf, starts, sizes, separator, out, places):
    """Copy frames behind each other, each with ``separator`` behind it if that is not negative.

    ``out`` receives the bytes, ``places`` where each frame begins there; both have the room needed.
    """
    cursor = np.int64(0)
    for i in range(starts.size):
        places[i] = cursor
        for k in range(sizes[i]):
            out[cursor + k] = buf[starts[i] + k]
        cursor += sizes[i]
        if separator >= 0:
            out[cursor] = separator
            cursor += 1


@dataclass(frozen=True)
class FrameBuilder:
    """Makes rows of frames; see :class:`tidemill.formats.records.sized_records.RecordBuilder`.

    Attributes
    ----------
    inner : RowReader
        Of the payload's format; not in mode FAILFAST.
    separator : bytes
        A line end, or nothing.
    """

    inner: RowReader
    separator: bytes
    mode: Mode

    def build(self, data: Bytes, position: int, starts: Places, sizes: Places) -> Rows:
        """See :meth:`tidemill.formats.records.sized_records.RecordBuilder.build`."""
        # What ends a frame can be a part of a line end of several bytes.
        rows = self._together(data, position, starts, sizes) if len(self.separator) < 2 else None
        if rows is None:
            rows = self._one_by_one(data, position, starts, sizes)
        fail_fast(self.mode, rows.errors)
        return rows

    def _together(self, data: Bytes, position: int, starts: Places, sizes: Places) -> Rows | None:
        """Rows of all frames, or None when they cannot be read together."""
        joined = np.empty(int(sizes.sum()) + len(self.separator) * starts.size, np.uint8)
        places = np.empty(starts.size, np.int64)
        join_frames(data, starts, sizes, self.separator[0] if self.separator else -1, joined, places)
        if self.separator and starts.size and _marked(data, starts, sizes):
            return None
        if self.separator == b"\n" and find_bare_returns(joined, _NO_PLACES):
            return None  # in the first row of a file it is reported
        rows = self._read(joined)
        begun = np.zeros(joined.size + 1, np.bool_)
        begun[rows.positions] = True
        begun[[e.position for e in rows.errors]] = True
        if not begun[places[(sizes > 0) & ~self._empty_lines(data, starts, sizes)]].all():
            return None
        if self.separator and any(e.raw.endswith(self.separator) for e in rows.errors):
            return None
        moves = starts + position - places

        def moved(at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
            return at + moves[np.searchsorted(places, at, "right") - 1] if at.size else at

        errors = rows.errors
        if errors:
            at = moved(np.array([e.position for e in errors], np.int64))
            errors = tuple(e.moved(int(p) - e.position) for e, p in zip(errors, at, strict=True))
        return replace(rows, positions=moved(rows.positions), errors=errors)

    def _empty_lines(self, data: Bytes, starts: Places, sizes: Places) -> npt.NDArray[np.bool_]:
        """Which frames are nothing but the end of a line, as those that keep a connection alive are."""
        if not self.separator or not starts.size:
            return np.zeros(starts.size, np.bool_)
        ends = data == self.separator[0]
        if self.separator == b"\n":
            ends |= data == CARRIAGE_RETURN
        last = np.minimum(starts + np.maximum(sizes - 1, 0), data.size - 1)
        found: npt.NDArray[np.bool_] = ends[np.minimum(starts, data.size - 1)] & ends[last]
        return found & (sizes > 0) & (sizes <= 2)

    def _one_by_one(self, data: Bytes, position: int, starts: Places, sizes: Places) -> Rows:
        """Rows of all frames, each read as a file of its own."""
        parts: list[Rows] = []
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            if size and self.separator == b"\n" and data[start + size - 1] == CARRIAGE_RETURN:
                size -= 1  # as before the line end that is put behind it elsewhere
            if size:
                rows = self._read(data[start : start + size])
                at = position + start
                errors = tuple(e.moved(at) for e in rows.errors)
                parts.append(replace(rows, positions=rows.positions + at, errors=errors))
        return concatenated(parts) if parts else self._read(data[:0])

    def _read(self, data: Bytes) -> Rows:
        size = data.size
        split = self.inner.split(start=0, end=size, file_size=size, in_quotes=False, header=None)
        return split.feed(data.data, True)


def _marked(data: Bytes, starts: Places, sizes: Places) -> bool:
    """Whether a frame begins with a byte order mark, which only the first byte of a file may, or as UTF-16 does."""
    first = data[starts[sizes >= 2]]
    return bool(np.any((first == BYTE_ORDER_MARK[0]) | (first >= 0xFE)))
