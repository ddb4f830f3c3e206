"""Reads one split of a text file: finds its first row, carries open rows between buffers, stops behind its last row.

A split is told no more than whether it begins inside quotes; if it does not, the byte before it shows whether a quote
opens a field. Only a quote does not show it, which may have closed a field or be text (nor does a blank, if blanks are
taken off fields). This matters only if another quote follows, so a boundary in the middle of such bytes is moved
behind them, by both of its readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tidemill.formats.base import Rows
from tidemill.formats.rows.malformed import check_size
from tidemill.formats.text.delimiters import Delimiters
from tidemill.formats.text.line_ends import (
    BYTE_ORDER_MARK,
    NEWLINE,
    NO_BYTE,
    OPEN,
    QUOTED,
    TEXT,
    Bytes,
    LineRules,
    find_row_end,
    scan_row_ends,
)
from tidemill.formats.text.quote_guess import WINDOW, guess_in_quotes

NOTHING = np.empty(0, np.uint8)
"""No bytes."""
NOTHING.flags.writeable = False


class LineBuilder(Protocol):
    """Makes rows of a buffer of complete lines."""

    @property
    def lines(self) -> LineRules | Delimiters:
        """What decides where lines end."""
        ...

    def build(self, data: Bytes, position: int, row_ends: int, quotes: bool, unterminated: bool) -> Rows:
        """Parse a buffer.

        Parameters
        ----------
        data : ndarray of uint8
            Starts at a row and ends behind one.
        position : int
            Absolute offset of its first byte.
        row_ends : int
            Upper limit of the number of rows.
        quotes : bool
            Whether a quote character occurs in it.
        unterminated : bool
            The file ends inside quotes: the last row is malformed as a whole.

        Raises
        ------
        FormatError
            TM4020 for a malformed row in mode FAILFAST, TM4021 for a buffer that 32-bit offsets cannot address.
        """
        ...


@runtime_checkable
class ColumnBuilder(LineBuilder, Protocol):
    """One that parses columns, which takes some time for each column of a buffer, however few rows that has."""

    @property
    def columns(self) -> Sequence[Any]:
        """The columns that are parsed."""
        ...


@dataclass(frozen=True)
class OpenRow:
    """Where a reader is within a split, between two buffers.

    Attributes
    ----------
    offset : int
        Absolute offset of the next byte.
    state : int
        The state there.
    begin : int
        Where the row begins that is open there; ``offset`` when it is of another split.
    owned : bool
        Whether it is a row of the split.
    data : ndarray of uint8
        The bytes of it so far, none when it is of another split.
    quotes : bool
        Whether they may hold a quote.
    """

    offset: int
    state: int
    begin: int
    owned: bool
    data: Bytes
    quotes: bool


class LineSplitReader:
    """See :class:`tidemill.formats.base.SplitReader`.

    Each byte is looked at once to find row ends, and once more when its row is complete, so a row that spans
    many buffers costs no more than its length.

    Attributes
    ----------
    builder : LineBuilder
        What makes the rows.
    """

    def __init__(self, builder: LineBuilder, *, start: int, end: int, file_size: int, in_quotes: bool | None) -> None:
        assert isinstance(builder.lines, LineRules)
        self.builder = builder
        lines = builder.lines
        self._separator, self._quote, self._leading = lines.separator, lines.quote, lines.leading
        self._start = start
        self._end = min(end, file_size)
        # One byte early; where that may belong to a byte order mark, from the first byte of the file.
        self.read_from = 0 if start <= len(BYTE_ORDER_MARK) else start - 1
        # How many bytes of a byte order mark were found at the beginning of the file.
        self._marked = 0
        self.done = start >= self._end
        self.quote_parity = 0
        self.assumed_in_quotes = bool(in_quotes) and start > 0 and self._quote != NO_BYTE
        self._guessing = in_quotes is None and start > 0 and self._quote != NO_BYTE
        # Absolute offset of the next byte to be fed, and the state there.
        self._offset = max(start - 1, 0)
        self._early = self._offset - self.read_from
        self._state = QUOTED if self.assumed_in_quotes else OPEN
        # Bytes that a boundary is moved over, and whether the byte before the next one is of them.
        self._moves = np.zeros(256, np.bool_)
        if self._quote != NO_BYTE:
            self._moves[[self._quote, *(b" \t" if self._leading else b"")]] = True
        self._moving = False
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
        view = read_only(np.frombuffer(buffer, np.uint8)) if len(buffer) else NOTHING
        if self.done:
            return self._no_rows()
        if self._early:
            view = self._pass_early(view)
        if self._guessing:
            self._keep(view)
            window = min(WINDOW, self._end - self._start + 2)
            if self._pending_size < window and not last:
                return self._no_rows()
            view = self._take(NOTHING)
            self._guess(view[:window])
        if self._before_start and view.size:
            view = self._begin(view)
        return self._advance(view, last)

    @property
    def in_middle(self) -> bool:
        """Whether the beginning of the split, and what may belong to a byte order mark, is behind the next byte."""
        behind = not (self._guessing or self._before_start or self._early)
        return behind and not self.done and self._offset >= len(BYTE_ORDER_MARK)

    @property
    def boundary(self) -> int:
        """Absolute offset of the end of the split."""
        return self._end

    def pause(self) -> OpenRow:
        """Let another reader go on, from the middle of the split to some byte before the last one of it."""
        begin = self._offset if self._row_start is None else self._row_start
        owned = self._row_start is not None
        return OpenRow(self._offset, self._state, begin, owned, self._take(NOTHING), self._seen_quotes)

    def resume(self, row: OpenRow) -> None:
        """Go on where another reader stopped."""
        self._offset, self._state = row.offset, row.state
        self._row_start = row.begin if row.owned else None
        self._moving = False
        self._seen_quotes |= row.quotes
        self._keep(row.data)

    def _guess(self, window: Bytes) -> None:
        self._guessing = False
        window = window[max(self._moved_over(window) - 1, 0) :]
        self.assumed_in_quotes = guess_in_quotes(window.tobytes(), self._separator, self._quote)
        self._state = QUOTED if self.assumed_in_quotes else OPEN

    def _begin(self, view: Bytes) -> Bytes:
        """Pass the byte before the split, and those behind it that are still of the split before."""
        before = int(view[0])
        at_first = self._offset == self._start - 1
        if at_first:
            if before == NEWLINE and self._state != QUOTED:
                self._row_start = self._start
            if self._state != QUOTED and before not in (self._separator, NEWLINE):
                self._state = TEXT
            self._behind_mark(view[:1], self._start - 1)
        passed = self._moved_over(view) if not at_first or self._moves[before] else 1
        self._before_start = passed == view.size and bool(self._moves[view[-1]])
        self._offset += passed
        self._end = max(self._end, self._offset)
        return view[passed:]

    def _pass_early(self, view: Bytes) -> Bytes:
        """Pass the bytes before the one before the split."""
        early, view = view[: self._early], view[self._early :]
        self._behind_mark(early, self._offset - self._early)
        self._early -= early.size
        return view

    def _behind_mark(self, view: Bytes, base: int) -> int:
        """How many bytes the view begins with that complete a byte order mark at the beginning of the file."""
        if base != self._marked or base >= len(BYTE_ORDER_MARK):
            return 0
        wanted = BYTE_ORDER_MARK[base : base + view.size]
        if view[: len(wanted)].tobytes() != wanted:
            return 0
        self._marked += len(wanted)
        if self._marked < len(BYTE_ORDER_MARK) or not wanted:
            return 0
        if self._state != QUOTED:
            self._state = OPEN
        return len(wanted)

    def _moved_over(self, view: Bytes) -> int:
        """How many of the bytes that a boundary is moved over the view begins with."""
        count = 0
        while count < view.size and self._moves[view[count]]:
            count += 1
        return count

    def _advance(self, view: Bytes, last: bool) -> Rows:
        """Find how far the view completes rows of the split, build these and keep the rest."""
        base = self._offset
        self._offset += view.size
        cut = self._cut(view, base)
        mark = self._behind_mark(view[:cut], base)
        row_ends, first, last_end, quotes = self._scan(view[:cut], mark)
        if cut:
            self.quote_parity = int(self.assumed_in_quotes != (self._state == QUOTED))
        self._seen_quotes |= quotes > 0 or (cut < view.size and self._quote != NO_BYTE)
        begin = 0
        if self._row_start is None:
            if first < 0:
                self.done = last or (self._offset >= self._end and not self._moving)
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
            cut += self._behind_mark(view[cut:], base + cut)
            stop = self._find_end(view, cut)
            if stop >= 0:
                ready = stop + 1
                row_ends += 1
                self.done = True
        unterminated = False
        if last and not self.done:
            ready = view.size
            row_ends += 1
            unterminated = self._state == QUOTED
            self.done = True
        if not row_ends:
            self._keep(view[begin:])
            return self._no_rows()
        position = self._row_start
        data = self._take(view[begin:ready])
        has_quotes = self._seen_quotes
        self._seen_quotes = quotes > 0 or (cut < view.size and self._quote != NO_BYTE)
        self._row_start = base + ready
        if not self.done:
            self._keep(view[ready:])
        return self._build(data, position, row_ends, has_quotes, unterminated)

    def _scan(self, view: Bytes, begin: int) -> tuple[int, int, int, int]:
        """Look at bytes from ``begin`` on: number of row ends, the first one and the last one, number of quotes."""
        row_ends, first, last, quotes, self._state = scan_row_ends(
            view, begin, self._separator, self._quote, self._leading, self._state
        )
        return row_ends, first, last, quotes

    def _find_end(self, view: Bytes, begin: int) -> int:
        """The first row end from ``begin`` on, -1 if there is none."""
        stop, self._state = find_row_end(view, begin, self._separator, self._quote, self._leading, self._state)
        return int(stop)

    def _build(self, data: Bytes, position: int, row_ends: int, quotes: bool, unterminated: bool) -> Rows:
        """Rows of complete lines; what is behind them in the buffer is kept already."""
        return self.builder.build(data, position, row_ends, quotes, unterminated)

    def _cut(self, view: Bytes, base: int) -> int:
        """Where the split ends in the view."""
        cut = min(max(self._end - base, 0), view.size)
        if base + cut == self._end and cut < view.size and (self._moves[view[cut - 1]] if cut else self._moving):
            cut += self._moved_over(view[cut:])
            self._end = base + cut
        if view.size:
            self._moving = base + cut == self._offset and bool(self._moves[view[-1]])
        return cut

    def _keep(self, rest: Bytes) -> None:
        check_size(self._pending_size + rest.size, self._start if self._row_start is None else self._row_start)
        self._pending.append(rest.copy() if _owner(rest) is None else rest)
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


def read_only(view: Bytes) -> Bytes:
    """Make bytes read-only: kernels are compiled for such bytes alone."""
    if view.flags.writeable:
        view.flags.writeable = False
    return view


def joined(pieces: list[Bytes]) -> Bytes:
    """The pieces as one array, not copied where there is one alone or they lie behind one another in memory."""
    present = [piece for piece in pieces if piece.size]
    if not present:
        return NOTHING
    if len(present) > 1 and (owner := _owner(present[0])) is not None:
        whole = np.frombuffer(owner, np.uint8)
        places = [_address(piece) - _address(whole) for piece in present]
        after = [place + piece.size for place, piece in zip(places, present, strict=True)]
        if all(_owner(piece) is owner for piece in present[1:]) and places[1:] == after[:-1]:
            return read_only(whole[places[0] : after[-1]])
    return read_only(present[0] if len(present) == 1 else np.concatenate(present))


def _owner(view: Bytes) -> bytes | None:
    """The ``bytes`` object, which never changes, that a view is a part of; None if it is part of anything else."""
    base: Any = view
    while isinstance(base, np.ndarray):
        base = base.base
    shown = base.obj if isinstance(base, memoryview) else base
    return shown if isinstance(shown, bytes) else None


def _address(view: Bytes) -> int:
    return int(view.__array_interface__["data"][0])
