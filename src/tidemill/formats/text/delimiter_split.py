"""Reads one split of a text file whose separators, line ends or quotes need an automaton; see ``delimiters``.

A split is told no more than whether it begins inside quotes. What else the state depends on (a separator
that has been matched in part, an escape before the boundary, a quote that may have closed a field) is avoided: both
readers of a boundary move it behind the first byte, at the one before it or later, that leaves nothing else open. So a
quote, an escape and a byte of a long separator move it; every other byte does not.
"""

from __future__ import annotations

import numpy as np

from tidemill.formats.base import Rows
from tidemill.formats.rows.malformed import check_size
from tidemill.formats.text.delimiters import Delimiters, delimiter_table, walk_row_end, walk_rows
from tidemill.formats.text.line_ends import BYTE_ORDER_MARK, NO_BYTE, Bytes
from tidemill.formats.text.line_split import NOTHING, LineBuilder, LineSplitReader, joined, read_only
from tidemill.formats.text.quote_guess import WINDOW, guess_in_quotes


class DelimiterSplitReader:
    """See :class:`tidemill.formats.base.SplitReader`.

    Each byte is looked at once to find row ends, and once more when its row is complete.

    Attributes
    ----------
    builder : LineBuilder
        What makes the rows.
    delimiters : Delimiters
        Its rules.
    """

    def __init__(self, builder: LineBuilder, *, start: int, end: int, file_size: int, in_quotes: bool | None) -> None:
        assert isinstance(builder.lines, Delimiters)
        self.builder = builder
        self.delimiters = builder.lines
        self._table = delimiter_table(builder.lines)
        self._start = start
        self._end = min(end, file_size)
        # So near to the beginning of the file everything before the split is read: it may be a byte order mark.
        self._from_top = start <= len(BYTE_ORDER_MARK)
        self.read_from = 0 if self._from_top else start - 1
        self.done = start >= self._end
        self.quote_parity = 0
        self.assumed_in_quotes = bool(in_quotes) and start > 0
        self._guessing = in_quotes is None and not self._from_top and self.delimiters.quote != NO_BYTE
        # So many bytes are needed before there is any point in looking for the beginning.
        self._wanted = start - self.read_from + (self._window if self._guessing else 0)
        # Absolute offset of the next byte to be fed, and the state there.
        self._offset = self.read_from
        self._state = self._table.start
        # Whether the beginning and the end of the split have been found, and whether the byte before the next one to be
        # fed moves them.
        self._begun = start == 0
        self._ended = False
        self._moving = False
        # Absolute offset where the open row starts; None while no row of the split has started.
        self._row_start: int | None = 0 if start == 0 else None
        self._pending: list[Bytes] = []
        self._pending_size = 0
        self._empty: Rows | None = None

    @property
    def boundary(self) -> int:
        """Absolute offset of the end of the split."""
        return self._end

    def feed(self, buffer: bytes | memoryview, last: bool) -> Rows:
        """See :meth:`tidemill.formats.base.SplitReader.feed`."""
        view = read_only(np.frombuffer(buffer, np.uint8)) if len(buffer) else NOTHING
        if self.done:
            return self._no_rows()
        if not self._begun:
            begun = self._begin(view, last)
            if begun is None:
                return self._no_rows()
            view = begun
        return self._advance(view, last)

    def _begin(self, view: Bytes, last: bool) -> Bytes | None:
        """Find the beginning of the split and the state there; returns what is behind it, None to be fed more."""
        self._keep(view)
        base = self.read_from
        if self._pending_size < self._wanted and not last:
            return None
        view = self._take(NOTHING)
        moved = self._moved(view, max(self._start - 1 - base, 0))
        known = moved < view.size or (view.size > 0 and not self._table.moves[view[-1]])
        if not last and not (known and (not self._guessing or view.size - moved >= self._window)):
            self._wanted = 2 * view.size if not known else moved + self._window
            self._keep(view)
            return None
        self._begun = True
        self._offset = base + moved
        self._end = max(self._end, self._offset)
        if self._from_top:
            _, _, last_end, self._state = self._walk(view[:moved], self._table.start)
            self.assumed_in_quotes = self._state in self._table.open_at_end
            starts_row = last_end == moved - 1
        else:
            if self._guessing and moved:
                window = view[moved - 1 : moved + self._window].tobytes()
                rules = self.delimiters
                self.assumed_in_quotes = guess_in_quotes(
                    window, rules.separator, rules.quote, rules.row_end, rules.escape
                )
            before = int(view[moved - 1]) if moved else 0
            self._state, starts_row = self._table.state_behind(before, self.assumed_in_quotes)
        if starts_row:
            self._row_start = self._offset
        return view[moved:]

    @property
    def _window(self) -> int:
        return min(WINDOW, self._end - self._start + 2)

    def _moved(self, view: Bytes, before: int) -> int:
        """Offset behind the first byte from ``before`` on that moves no boundary; the size of the view if all do."""
        rest = view[before:]
        step = 256
        for at in range(0, rest.size, step):
            stays = np.flatnonzero(~self._table.moves[rest[at : at + step]])
            if stays.size:
                return before + at + int(stays[0]) + 1
        return int(view.size)

    def _walk(self, view: Bytes, state: int) -> tuple[int, int, int, int]:
        table = self._table
        count, first, last, state = walk_rows(view, table.following, table.actions, table.guide, state)
        return int(count), int(first), int(last), int(state)

    def _advance(self, view: Bytes, last: bool) -> Rows:
        """Find how far the view completes rows of the split, build these and keep the rest."""
        base = self._offset
        self._offset += view.size
        cut = 0 if self._ended else self._cut(view, base, last)
        row_ends, first, last_end, self._state = self._walk(view[:cut], self._state)
        inside = self._state in self._table.open_at_end
        if cut:
            self.quote_parity = int(self.assumed_in_quotes != inside)
        begin = 0
        if self._row_start is None:
            if first < 0:
                self.done = last or self._ended
                return self._no_rows()
            begin = first + 1
            row_ends -= 1
            self._row_start = base + begin
        ready = last_end + 1 if row_ends else begin
        if self._ended:
            if (base + ready if row_ends else self._row_start) >= self._end:
                self.done = True
            else:
                # The last row of the split reaches beyond it.
                table = self._table
                stop, state = walk_row_end(view, cut, table.following, table.actions, table.guide, self._state)
                self._state = int(state)
                if stop >= 0:
                    ready = int(stop) + 1
                    row_ends += 1
                    self.done = True
        unterminated = False
        if last and not self.done:
            open_row = base + ready if row_ends else self._row_start
            if open_row < base + view.size:
                ready = view.size
                row_ends += 1
                unterminated = self._state in self._table.open_at_end
            self.done = True
        if not row_ends:
            self._keep(view[begin:])
            return self._no_rows()
        position = self._row_start
        data = self._take(view[begin:ready])
        self._row_start = base + ready
        if not self.done:
            self._keep(view[ready:])
        quotes = self.delimiters.quote != NO_BYTE and bool((data == self.delimiters.quote).any())
        return self.builder.build(data, position, row_ends, quotes, unterminated)

    def _cut(self, view: Bytes, base: int, last: bool) -> int:
        """Where the split ends in the view; its size while that is not known."""
        cut = min(max(self._end - base, 0), view.size)
        if base + cut >= self._end:
            moving = bool(self._table.moves[view[cut - 1]]) if cut else self._moving
            if moving:
                cut = self._moved(view, cut)
                moving = bool(self._table.moves[view[cut - 1]]) if cut else True
            self._end = base + cut
            self._ended = not moving or last
        if view.size:
            self._moving = bool(self._table.moves[view[-1]])
        return cut

    def _keep(self, rest: Bytes) -> None:
        check_size(self._pending_size + rest.size, self._start if self._row_start is None else self._row_start)
        if rest.size:
            self._pending.append(rest.copy())
            self._pending_size += rest.size

    def _take(self, rest: Bytes) -> Bytes:
        pieces = [*self._pending, rest]
        self._pending = []
        self._pending_size = 0
        return joined(pieces)

    def _no_rows(self) -> Rows:
        if self._empty is None:
            self._empty = self.builder.build(NOTHING, 0, 0, False, False)
        return self._empty


def line_reader(
    builder: LineBuilder, *, start: int, end: int, file_size: int, in_quotes: bool | None
) -> LineSplitReader | DelimiterSplitReader:
    """The reader of a split that the builder's rules need."""
    kind = DelimiterSplitReader if isinstance(builder.lines, Delimiters) else LineSplitReader
    return kind(builder, start=start, end=end, file_size=file_size, in_quotes=in_quotes)
