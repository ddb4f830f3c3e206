"""Reads one split: finds its first row, carries open rows between buffers, stops behind its last row."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tidemill.formats.base import Rows
from tidemill.formats.csv.index import NEWLINE, NO_BYTE, Bytes, find_row_end, scan_row_ends
from tidemill.formats.csv.options import CsvOptions
from tidemill.formats.csv.quote_guess import WINDOW, guess_in_quotes

_NOTHING = np.empty(0, np.uint8)
_NOTHING.flags.writeable = False


class LineBuilder(Protocol):
    """Makes rows of a buffer of complete lines; of its options only separator and quote count here."""

    @property
    def options(self) -> CsvOptions: ...

    def build(self, data: Bytes, position: int, row_ends: int, quotes: bool, unterminated: bool) -> Rows:
        """As :meth:`tidemill.formats.csv.rows.RowBuilder.build`."""
        ...


class CsvSplitReader:
    """See :class:`tidemill.formats.base.SplitReader`.

    Each byte is looked at once to find row ends, and once more when its row is complete, so a row that spans
    many buffers costs no more than its length.
    """

    def __init__(self, builder: LineBuilder, *, start: int, end: int, file_size: int, in_quotes: bool | None) -> None:
        self._builder = builder
        self._quote = builder.options.quote
        self._start = start
        self._end = min(end, file_size)
        self.read_from = max(start - 1, 0)
        self.done = start >= self._end
        self.quote_parity = 0
        self.assumed_in_quotes = bool(in_quotes) and start > 0
        self._guessing = in_quotes is None and start > 0 and self._quote != NO_BYTE
        # Absolute offset of the next byte to be fed, and whether it lies inside quotes (0 or 1).
        self._offset = self.read_from
        self._inside = int(self.assumed_in_quotes)
        # Absolute offset where the open row starts; None while no row of the split has started.
        self._row_start: int | None = 0 if start == 0 else None
        self._before_start = start > 0
        self._pending: list[Bytes] = []
        self._pending_size = 0
        # Whether the pending bytes, or others that came with them, hold a quote.
        self._seen_quotes = False
        self._empty: Rows | None = None

    def feed(self, buffer: bytes | memoryview, last: bool) -> Rows:
        """See :meth:`tidemill.formats.base.SplitReader.feed`."""
        view = _read_only(np.frombuffer(buffer, np.uint8)) if len(buffer) else _NOTHING
        if self.done:
            return self._no_rows()
        if self._guessing:
            self._keep(view)
            window = min(WINDOW, self._end - self.read_from + 1)
            if self._pending_size < window and not last:
                return self._no_rows()
            view = self._take(_NOTHING)
            self._guess(view[:window])
        if self._before_start and view.size:
            self._before_start = False
            self._offset += 1
            if view[0] == NEWLINE and not self._inside:
                self._row_start = self._start
            view = view[1:]
        return self._advance(view, last)

    def _guess(self, window: Bytes) -> None:
        self._guessing = False
        self.assumed_in_quotes = guess_in_quotes(window.tobytes(), self._builder.options.separator, self._quote)
        self._inside = int(self.assumed_in_quotes)

    def _advance(self, view: Bytes, last: bool) -> Rows:
        """Find how far the view completes rows of the split, build these and keep the rest."""
        base = self._offset
        self._offset += view.size
        cut = min(max(self._end - base, 0), view.size)
        row_ends, first, last_end, quotes = scan_row_ends(view[:cut], self._quote, self._inside)
        self.quote_parity ^= quotes & 1
        self._inside ^= quotes & 1
        self._seen_quotes |= quotes > 0 or (cut < view.size and self._quote != NO_BYTE)
        begin = 0
        if self._row_start is None:
            if first < 0:
                self.done = last or self._offset >= self._end
                return self._no_rows()
            begin = first + 1
            row_ends -= 1
            self._row_start = base + begin
        ready = last_end + 1 if row_ends else begin
        open_row = base + ready if row_ends else self._row_start
        if open_row >= self._end:
            self.done = True
        elif base + cut >= self._end:
            # The last row of the split reaches beyond it.
            stop, self._inside = find_row_end(view, cut, self._quote, self._inside)
            if stop >= 0:
                ready = stop + 1
                row_ends += 1
                self.done = True
        unterminated = False
        if last and not self.done:
            ready = view.size
            row_ends += 1
            unterminated = bool(self._inside)
            self.done = True
        if not row_ends:
            self._keep(view[begin:])
            return self._no_rows()
        position = self._row_start
        data = self._take(view[begin:ready])
        has_quotes, self._seen_quotes = self._seen_quotes, quotes > 0
        self._row_start = base + ready
        if not self.done:
            self._keep(view[ready:])
        return self._builder.build(data, position, row_ends, has_quotes, unterminated)

    def _keep(self, rest: Bytes) -> None:
        self._pending.append(rest.copy())
        self._pending_size += rest.size

    def _take(self, rest: Bytes) -> Bytes:
        pieces = [*self._pending, rest]
        self._pending = []
        self._pending_size = 0
        return _join(pieces)

    def _no_rows(self) -> Rows:
        if self._empty is None:
            self._empty = self._builder.build(_NOTHING, 0, 0, False, False)
        return self._empty


def _read_only(view: Bytes) -> Bytes:
    """Kernels are compiled for read-only bytes alone, wherever a buffer comes from."""
    if view.flags.writeable:
        view.flags.writeable = False
    return view


def _join(pieces: list[Bytes]) -> Bytes:
    present = [piece for piece in pieces if piece.size]
    if not present:
        return _NOTHING
    return _read_only(present[0] if len(present) == 1 else np.concatenate(present))
