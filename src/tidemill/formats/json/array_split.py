"""Reads a file of arrays of objects, or of objects that span lines.

Such a file can only be read from its first byte on. With ``multiLine 'true'`` it is one split. Without the option its
first bytes decide (:class:`tidemill.formats.base.WholeByBeginning`): the split that begins there then has all of it.
"""

from __future__ import annotations

import numpy as np

from tidemill.formats.base import BEGINNING_BYTES, RowError, Rows
from tidemill.formats.json.indexing.elements import OUTSIDE, scan_elements
from tidemill.formats.json.indexing.index import Bytes
from tidemill.formats.json.rows import RecordBuilder
from tidemill.formats.rows.malformed import check_size
from tidemill.formats.text.line_ends import BYTE_ORDER_MARK

_NOTHING = np.empty(0, np.uint8)
_NOTHING.flags.writeable = False
_BLANKS = b" \t\r\n"


def begins_array(beginning: bytes) -> bool:
    """Whether a file is an array of objects, by its first ``BEGINNING_BYTES``: not if it may be lines as well.

    A ``[`` at the beginning does not tell: the first line may be malformed. Commas at the ends of lines, or at their
    beginnings, and lines that begin with ``]`` speak for an array; lines that are an object from brace to brace speak
    against one. Where neither are more, it is one if the bracket is followed by an object or another bracket, or all
    is one line. Of a line that goes on behind these bytes only its beginning tells: an array of objects begins with one
    (and where more lines follow behind it, :class:`tidemill.formats.json.long_line.LongLineReader` reads these).
    """
    text = beginning[:BEGINNING_BYTES].removeprefix(BYTE_ORDER_MARK).strip(_BLANKS)
    if not text.startswith(b"["):
        return False
    lines = [line for line in (line.strip(_BLANKS) for line in text.split(b"\n")) if line]
    if len(lines) > 1 and len(beginning) >= BEGINNING_BYTES:
        lines.pop()  # it may go on
    for_array = sum(line.endswith(b",") or line.startswith((b",", b"]")) for line in lines)
    for_lines = sum(line.startswith(b"{") and line.endswith(b"}") for line in lines)
    if for_array != for_lines:
        return for_array > for_lines
    following = text[1:].lstrip(_BLANKS)[:1]
    if first_line_goes_on(beginning):
        return following in (b"{", b"]", b"")
    return len(lines) == 1 or following in (b"{", b"[", b"]", b"")


def first_line_goes_on(beginning: bytes) -> bool:
    """Whether the first ``BEGINNING_BYTES`` of a file do not hold all of its first line that is not blank."""
    text = beginning[:BEGINNING_BYTES].removeprefix(BYTE_ORDER_MARK).lstrip(_BLANKS)
    return len(beginning) >= BEGINNING_BYTES and b"\n" not in text


class ArraySplitReader:
    """See :class:`tidemill.formats.base.SplitReader`. Each byte is looked at once to find where records end."""

    def __init__(self, builder: RecordBuilder, *, start: int, end: int, file_size: int) -> None:
        self._builder = builder
        self.read_from = start
        self.done = start > 0 or min(end, file_size) <= 0
        self.quote_parity = 0
        self.assumed_in_quotes = False
        # Absolute offset of the first pending byte, and what is known behind the last one.
        self._position = 0
        self._pending: list[Bytes] = []
        self._size = 0
        self._scanned = (0, 0, 0, 0)
        self._state = OUTSIDE

    @property
    def outside(self) -> bool:
        """Whether what was fed ends outside of arrays, objects and texts."""
        return not any(self._scanned[:3])

    def feed(self, buffer: bytes | memoryview, last: bool) -> Rows:
        """See :meth:`tidemill.formats.base.SplitReader.feed`."""
        view: Bytes = np.frombuffer(buffer, np.uint8) if len(buffer) else _NOTHING
        if self.done:
            return self._builder.build_records(_NOTHING, 0, 0, OUTSIDE)[0]
        if view.flags.writeable:
            view.flags.writeable = False
        begin = 0
        offset = self._position + self._size
        while begin < view.size and offset + begin < 3 and view[begin] == BYTE_ORDER_MARK[offset + begin]:
            begin += 1
        stop, *scanned = scan_elements(view, begin, *self._scanned)
        self._scanned = (scanned[0], scanned[1], scanned[2], scanned[3])
        ready = view.size if last else max(int(stop), 0)
        if not ready and not last:
            if view.size:
                check_size(self._size + view.size, self._position)
                self._pending.append(view.copy())
                self._size += view.size
            return self._builder.build_records(_NOTHING, 0, 0, OUTSIDE)[0]
        pieces = [*self._pending, view[:ready]]
        data = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        data.flags.writeable = False
        position = self._position
        self._position += data.size
        rest = view[ready:]
        self._pending = [rest.copy()] if rest.size else []
        self._size = rest.size
        further: list[RowError] = []
        if last:
            self.done = True
            if self._scanned[1]:
                further.append(RowError(self._position, None, "unterminated_array", b"", True))
        rows, self._state = self._builder.build_records(data, position, 0, self._state, further)
        return rows
