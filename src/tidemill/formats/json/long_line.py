"""Reads a file that begins with a long line, which may be an array that lines follow."""

from __future__ import annotations

from tidemill.formats.base import Rows
from tidemill.formats.json.array_split import ArraySplitReader
from tidemill.formats.json.rows import RecordBuilder
from tidemill.formats.reading.several_feeds import concatenated
from tidemill.formats.text.line_ends import BYTE_ORDER_MARK
from tidemill.formats.text.line_split import LineSplitReader

_BLANK = b" \t\r\n" + BYTE_ORDER_MARK


class LongLineReader:
    """See :class:`tidemill.formats.base.SplitReader`. The split that begins the file has all of it.

    The first bytes of the file are an array, and do not show whether that is all. Where it is closed at the end of its
    line the rest of the file is lines, so a malformed one costs no other; else the array goes on.
    """

    def __init__(self, builder: RecordBuilder, *, start: int, end: int, file_size: int) -> None:
        self._builder = builder
        self._file_size = file_size
        self._array = ArraySplitReader(builder, start=start, end=end, file_size=file_size)
        self._lines: LineSplitReader | None = None
        self._offset = start
        # Whether the first line that is not blank has begun, and whether it has ended.
        self._begun = self._passed = False
        self.read_from = start
        self.quote_parity = 0
        self.assumed_in_quotes = False

    @property
    def done(self) -> bool:
        """See :class:`tidemill.formats.base.SplitReader`."""
        return self._array.done if self._lines is None else self._lines.done

    def feed(self, buffer: bytes | memoryview, last: bool) -> Rows:
        """See :meth:`tidemill.formats.base.SplitReader.feed`."""
        if self._lines is not None:
            return self._lines.feed(buffer, last)
        if self._passed or self._array.done:
            return self._array.feed(buffer, last)
        data = bytes(buffer)
        stop = self._line_end(data)
        if stop < 0:
            self._offset += len(data)
            return self._array.feed(data, last)
        self._passed = True
        rows = self._array.feed(data[:stop], False)
        if not self._array.outside:
            return concatenated([rows, self._array.feed(data[stop:], last)])
        parts = [rows, self._array.feed(b"", True)]
        begin = self._offset + stop + 1
        self._lines = LineSplitReader(
            self._builder, start=begin, end=self._file_size, file_size=self._file_size, in_quotes=False
        )
        if not self._lines.done:
            parts.append(self._lines.feed(data[stop + self._lines.read_from - begin + 1 :], last))
        return concatenated(parts)

    def _line_end(self, data: bytes) -> int:
        """Where the first line that is not blank ends in the next bytes of the file; -1 if it does not."""
        begin = 0
        if not self._begun:
            begin = len(data) - len(data.lstrip(_BLANK))
            self._begun = begin < len(data)
        return data.find(b"\n", begin) if self._begun else -1
