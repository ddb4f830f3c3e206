"""Reads one split of a CSV file in one pass: what finds where rows end finds where fields end, too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidemill.formats.base import Rows
from tidemill.formats.csv.index import MARK_SLACK, find_marks
from tidemill.formats.csv.rows import RowBuilder
from tidemill.formats.rows.field_index import Marks, Offsets
from tidemill.formats.rows.malformed import check_size
from tidemill.formats.text.line_ends import CARRIAGE_RETURN, NEWLINE, OPEN, Bytes, find_row_end
from tidemill.formats.text.line_split import LineSplitReader, OpenRow

_LIKELY = 4
"""Most files have at least so many bytes a field, its separator among them."""
_MOST_FIELDS, _FURTHER = 2, 1024
"""Of an open row the marks of so many times the fields of the table, and some more, are kept."""
_LIKELY_ROW = 64 << 10
"""The end of a row is looked for in so many bytes, one by one, before a faster search."""
_MOST_BYTES = np.iinfo(np.int32).max


class _Noted(NamedTuple):
    """Marks of bytes that the reader has looked at, from where its open row starts.

    Attributes
    ----------
    covered : int
        How many bytes; -1 when there is no telling.
    marks, lines : int
        How many marks, and line ends among them.
    crlf : bool
        Whether a line end may stand behind a carriage return.
    """

    covered: int
    marks: int
    lines: int
    crlf: bool


_UNKNOWN = _Noted(-1, 0, 0, False)


class MarkingSplitReader(LineSplitReader):
    """A :class:`LineSplitReader` that hands its builder the marks of a buffer along with it.

    While a row is open, its marks are kept as its bytes are. Where marks are not known (behind a row that another
    reader began, or a very long one) the builder looks for them itself.
    """

    def __init__(self, builder: RowBuilder, *, start: int, end: int, file_size: int, in_quotes: bool | None) -> None:
        super().__init__(builder, start=start, end=end, file_size=file_size, in_quotes=in_quotes)
        self._builder = builder
        self._width = max(builder.layout.width, 1)
        self._marks = np.empty(0, np.int32)
        self._line_ends = np.empty(0, np.int32)
        self._noted = _Noted(0, 0, 0, False)
        # Bytes of the view that were looked at, and the last one of them.
        self._seen = 0
        self._byte = -1

    def pause(self) -> OpenRow:
        """See :meth:`LineSplitReader.pause`."""
        self._noted = _UNKNOWN
        return super().pause()

    def _scan(self, view: Bytes, begin: int) -> tuple[int, int, int, int]:
        self._seen = view.size
        if self._row_start is None:
            return self._scan_first(view, begin)
        if self._noted.covered != self._pending_size or not self._may_note(view):
            self._noted = _UNKNOWN
            return super()._scan(view, begin)
        shift = self._noted.covered
        quotes, self._state = self._note(view, begin, self._state)
        found = self._noted.lines
        if found:
            return found, int(self._line_ends[0]) - shift, int(self._line_ends[found - 1]) - shift, quotes
        self._forget_long_row()
        return 0, -1, -1, quotes

    def _scan_first(self, view: Bytes, begin: int) -> tuple[int, int, int, int]:
        """As :meth:`_scan`, for bytes that begin with the end of a row of another split, which are not noted."""
        rules = self._separator, self._quote, self._leading
        first, state = find_row_end(view[: begin + _LIKELY_ROW], begin, *rules, self._state)
        if first < 0 or view.size > _MOST_BYTES:
            return super()._scan(view, begin)
        self._noted, self._byte, start = _Noted(0, 0, 0, False), -1, int(first) + 1
        quotes, self._state = self._note(view[start:], 0, int(state))
        found = self._noted.lines
        return found + 1, start - 1, start + int(self._line_ends[found - 1]) if found else start - 1, quotes

    def _find_end(self, view: Bytes, begin: int) -> int:
        """See :meth:`LineSplitReader._find_end`. The rest of the row has marks, too."""
        state = self._state
        stop = super()._find_end(view, begin)
        rest = view[begin : stop + 1 if stop >= 0 else view.size]
        if begin != self._seen or self._noted.covered < 0 or not self._may_note(rest):
            self._noted = _UNKNOWN
            return stop
        self._note(rest, 0, state)
        if stop < 0:
            self._forget_long_row()
        return stop

    def _may_note(self, view: Bytes) -> bool:
        return self._noted.covered + view.size <= _MOST_BYTES

    def _forget_long_row(self) -> None:
        if self._noted.marks > _MOST_FIELDS * self._width + _FURTHER:
            self._noted = _UNKNOWN  # no row of the table, and there is no telling how long it is

    def _note(self, view: Bytes, begin: int, state: int) -> tuple[int, int]:
        """Note the marks of bytes behind those noted; returns the number of quotes, and the state behind them."""
        covered, count, lines, crlf = self._noted
        for size in (_LIKELY, 1):
            fields = view.size // size
            self._marks = _with_room(self._marks, count, fields)
            self._line_ends = _with_room(self._line_ends, lines, fields // self._width if size > 1 else fields)
            found, line_count, returns, quotes, behind = find_marks(
                view, begin, self._separator, self._quote, self._leading, state, covered,
                self._marks, count, self._line_ends, lines,
            )  # fmt: skip
            if found >= 0:
                break
        if view.size:
            crlf |= returns > 0 or (self._byte == CARRIAGE_RETURN and view[0] == NEWLINE)
            self._byte = int(view[-1])
        self._noted = _Noted(covered + view.size, int(found), int(line_count), bool(crlf))
        return int(quotes), int(behind)

    def _build(self, data: Bytes, position: int, row_ends: int, quotes: bool, unterminated: bool) -> Rows:
        check_size(data.size, position)
        covered, count, lines, crlf = self._noted
        if data.size > covered or unterminated or not lines:
            rows = super()._build(data, position, row_ends, quotes, unterminated)
            self._noted, self._byte = _Noted(0, 0, 0, False), -1
            for rest in self._pending:  # one piece at most, which begins with a row
                self._note(rest, 0, OPEN)
            return rows
        behind = np.int32(data.size)
        marked = int(np.searchsorted(self._marks[:count], behind))
        marks, line_ends = self._marks[:marked], self._line_ends[:lines]
        if data[-1] != NEWLINE:  # the file ends in a row without a newline
            marks, line_ends = np.append(marks, behind), np.append(line_ends, behind)
            crlf |= data[-1] == CARRIAGE_RETURN
        self._noted = _UNKNOWN
        rows = self._builder.build_marked(data, position, quotes, Marks(marks, line_ends, crlf))
        self._marks[: count - marked] = self._marks[marked:count] - data.size
        self._noted = _Noted(covered - data.size, count - marked, 0, False)  # an open row has no line end
        return rows


def _with_room(kept: Offsets, count: int, further: int) -> Offsets:
    """What is kept, with room for further marks."""
    wanted = count + further + MARK_SLACK
    if wanted <= kept.size:
        return kept
    larger = np.empty(wanted, np.int32)
    larger[:count] = kept[:count]
    return larger
