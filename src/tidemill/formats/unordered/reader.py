"""Reads one object with several reads under way at once, and makes rows of its buffers in whatever order they come.

What happens to a buffer:

1. Its summary is made (:mod:`tidemill.formats.text.summaries`): where rows end, whatever the state at its beginning is.
2. The frontier takes the summary in. Once all buffers before have been looked at, and not before, the state at the
   beginning is known. The buffer waits for that as a whole; formats without quotes do not wait.
3. The shredder says which bytes are the caller's to parse (:mod:`tidemill.formats.unordered.shredder`): the rows of the
   buffer, with those that it shares with others if it is the last one to come of them. They are consecutive, so that
   one call of the format's ``LineBuilder`` does, as in sequential reading.

Nothing waits for a buffer to be parsed, and no two threads parse the same row. At most ``threads`` times ``AHEAD``
buffers are between their fetch and their rows; what is kept beyond that are open rows.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tidemill.errors import FormatError
from tidemill.formats.base import RowReader, Rows, head_of
from tidemill.formats.text.delimiter_split import DelimiterSplitReader
from tidemill.formats.text.delimiters import automaton_of
from tidemill.formats.text.line_ends import OPEN, Bytes
from tidemill.formats.text.line_split import LineBuilder, LineSplitReader, OpenRow
from tidemill.formats.text.summaries import Automaton, Frontier, Settled, Summary, summarise
from tidemill.formats.unordered.shredder import Claim, SequenceShredder

AHEAD = 4
"""Buffers under way for each thread."""

BUFFER_BYTES = 1 << 20
_NOTHING = np.empty(0, np.uint8)
_NOTHING.flags.writeable = False

Fetch = Callable[[int, int], bytes]
"""Start and length to the bytes there; called by several threads at once."""


@dataclass(frozen=True)
class Part:
    """Rows of consecutive bytes. The parts of an object tile it: in order, each begins where the one before ends.

    Attributes
    ----------
    first_sequence, last_sequence : int
        Buffers, numbered from 1 on, that the bytes are of.
    begin, end : int
        Absolute offsets of the first byte and behind the last one.
    made : Rows or FormatError
        Of the bytes.
    """

    first_sequence: int
    last_sequence: int
    begin: int
    end: int
    made: Rows | FormatError

    @property
    def rows(self) -> Rows:
        """Rows of the bytes. Raises what went wrong with them."""
        if isinstance(self.made, FormatError):
            raise self.made
        return self.made


@dataclass(frozen=True)
class _Buffer:
    """Bytes with what is known of them in any state."""

    position: int
    data: Bytes
    summary: Summary


class UnorderedReader:
    """Makes rows of the buffers of one object, in any order. Every method may be called by any thread at any time.

    Hazard: as long as a buffer before it has not been looked at, a buffer may be kept as a whole, not as a copy; the
    caller leaves it as it is, and says how far ahead he goes.

    Parameters
    ----------
    builder : LineBuilder
        Makes the rows.
    automaton : Automaton, optional
        Where rows end; by the builder's rules unless given.
    behind : OpenRow, optional
        Buffers do not begin at the first byte of the file, but there. The open row is buffer 1, so that numbers given
        begin with 2.
    """

    def __init__(self, builder: LineBuilder, automaton: Automaton | None = None, behind: OpenRow | None = None) -> None:
        self._builder = builder
        self._automaton = automaton or automaton_of(builder.lines)
        self._shredder = SequenceShredder()
        if behind is None:
            self._frontier: Frontier[_Buffer] = Frontier(self._automaton.start)
        else:
            self._frontier = Frontier(behind.state, first=2)
            self._shredder.offer(1, behind.data.data, -1, -1)
        # Whether the row that is open at the beginning is a row of these bytes.
        self._owned = behind is None or behind.owned
        # Only ever set: whether open rows may hold a quote.
        self._seen_quotes = behind is not None and behind.quotes

    @property
    def held_bytes(self) -> int:
        """Bytes of open rows that are kept."""
        return self._shredder.held_bytes

    def look(self, sequence: int, position: int, buffer: bytes | memoryview) -> list[Settled[_Buffer]]:
        """Look at a buffer; returns those whose rows can be made now, for :meth:`build`, by this thread or others.

        Parameters
        ----------
        sequence : int
            Its number, from 1 on.
        position : int
            Absolute offset of its first byte.
        buffer : bytes or memoryview
        """
        data = np.frombuffer(buffer, np.uint8) if len(buffer) else _NOTHING
        data.flags.writeable = False
        summary = summarise(self._automaton, data, position)
        if summary.quotes:
            self._seen_quotes = True
        looked = _Buffer(position, data, summary)
        if self._automaton.stateless:
            return [Settled(sequence, OPEN, looked)]
        return self._frontier.settle(sequence, summary, looked)

    def build(self, settled: Settled[_Buffer]) -> Part | None:
        """Make the rows that a buffer completes; None when others make them.

        What :meth:`LineBuilder.build` raises is in the part.

        Raises
        ------
        FormatError
            TM4061 for a sequence number that was there before.
        """
        buffer = settled.what
        _, count, first, last = buffer.summary.from_state(settled.state)
        claim = self._shredder.offer(settled.sequence, buffer.data.data, first, last)
        if claim is None:
            return None
        row_ends = count - (0 if claim.leading else 1) + (1 if claim.trailing else 0) if count else 1
        own = buffer.data[claim.own_begin : claim.own_end]
        before = sum(map(len, claim.before))
        # The first row of all may be of another split.
        skipped = 0
        if not self._owned and claim.leading and claim.first_sequence == 1:
            skipped = before + first + 1 if count else before + own.size + sum(map(len, claim.after))
            row_ends -= 1
        position = buffer.position + claim.own_begin - before
        return self._part(claim, own, position, row_ends, buffer.summary.quotes, skipped)

    def end(self, last_sequence: int, size: int) -> Part | None:
        """Tell the number of the last buffer and how many bytes there are in all.

        Returns the last row if no line end ends it and nothing is missing; else whoever builds what is missing gets it.
        """
        claim = self._shredder.end(last_sequence)
        if claim is None:
            return None
        return self._part(claim, _NOTHING, size - sum(map(len, claim.before)), 1, False)

    def leave(self, last_sequence: int, offset: int) -> OpenRow:
        """The row that is open behind the last buffer, at a byte; for who reads on there. All buffers have been built.

        Raises
        ------
        FormatError
            TM4062 when buffers are missing.
        """
        claim = self._shredder.end(last_sequence)
        self._shredder.validate()
        owned = self._owned or claim is None or claim.first_sequence > 1
        data = _NOTHING if claim is None or not owned else np.frombuffer(b"".join(claim.before), np.uint8)
        return OpenRow(offset, self._frontier.state, offset - data.size, owned, data, self._seen_quotes)

    def validate(self) -> None:
        """Check that all bytes have been given out; TM4062 when buffers are missing."""
        self._shredder.validate()

    def _part(self, claim: Claim, own: Bytes, position: int, row_ends: int, quotes: bool, skipped: int = 0) -> Part:
        data = own
        if claim.before or claim.after:
            quotes = quotes or self._seen_quotes
            data = np.frombuffer(b"".join((*claim.before, own.data, *claim.after)), np.uint8)
        unterminated = claim.ends_stream and self._frontier.state in self._automaton.open_at_end
        rows = data[skipped:]
        made: Rows | FormatError
        try:
            made = self._builder.build(rows, position + skipped, row_ends if rows.size else 0, quotes, unterminated)
        except FormatError as error:
            made = error
        return Part(claim.first_sequence, claim.last_sequence, position, position + data.size, made)


def read_unordered(
    reader: RowReader,
    fetch: Fetch,
    size: int,
    *,
    threads: int = 2,
    buffer_bytes: int = BUFFER_BYTES,
) -> Iterator[Part]:
    """Read a whole object.

    With one thread there is none but the caller's, and parts come in order. With more, parts come as they are made;
    :func:`in_order` puts them in order. Reading stops when the iterator is closed.

    Parameters
    ----------
    reader : RowReader
        Of any format with lines.
    fetch : callable
        ``fetch(start, length)`` gives the bytes there, all of them.
    size : int
        Bytes of the object.
    threads : int
        How many threads fetch and parse, each in turn.
    buffer_bytes : int
        Bytes of one fetch.

    Raises
    ------
    FormatError
        TM4063 when a fetch gives too few or too many bytes, TM4064 for a format that has no lines, and what the
        format's own reader raises. Whatever else ``fetch`` raises. Of several errors it is the one that is first in
        the object; before it come all rows before it, and perhaps others.
    """
    assert size >= 0 and threads >= 1 and buffer_bytes >= 1
    unordered = UnorderedReader(_builder_of(reader, fetch, size))
    count = -(-size // buffer_bytes)

    def look(sequence: int) -> list[Settled[_Buffer]]:
        begin = (sequence - 1) * buffer_bytes
        return unordered.look(sequence, begin, _fetched(fetch, begin, min(buffer_bytes, size - begin)))

    if threads == 1:
        for sequence in range(1, count + 1):
            for settled in look(sequence):
                if (part := unordered.build(settled)) is not None:
                    yield _sound(part)
    else:
        yield from _Crew(look, unordered.build, count, threads, buffer_bytes).parts()
    if (part := unordered.end(count, size)) is not None:
        yield _sound(part)
    unordered.validate()


def _sound(part: Part) -> Part:
    """A part; raises what went wrong with its bytes."""
    _ = part.rows
    return part


def in_order(parts: Iterable[Part], begin: int = 0) -> Iterator[Part]:
    """The parts of an object, from a byte on, in the order of its bytes; keeps those that come early."""
    early: dict[int, Part] = {}
    at = begin
    for part in parts:
        early[part.begin] = part
        while (following := early.pop(at, None)) is not None:
            yield following
            at = following.end
    assert not early, "parts tile the object"


class _Crew:
    """Threads that look at buffers and build them, no further ahead of the first one not built than a window.

    When something goes wrong all buffers up to there are still built, because an earlier one may have an error too.
    """

    def __init__(
        self,
        look: Callable[[int], list[Settled[_Buffer]]],
        build: Callable[[Settled[_Buffer]], Part | None],
        count: int,
        threads: int,
        buffer_bytes: int,
    ) -> None:
        self._look = look
        self._build = build
        # Buffers that are still wanted.
        self._count = count
        self._buffer_bytes = buffer_bytes
        self._window = threads * AHEAD
        self._changed = threading.Condition()
        self._next = 1
        self._ready: deque[Settled[_Buffer]] = deque()
        # All below `_low` are built, and those in `_built`.
        self._low = 1
        self._built: set[int] = set()
        self._parts: deque[Part] = deque()
        # The first thing in the object that went wrong, and where.
        self._failed_at = -1
        self._failure: BaseException | None = None
        self._stopped = False
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(min(threads, count))]

    def parts(self) -> Iterator[Part]:
        """Start, and give parts as they come; when the caller has enough, stop."""
        for thread in self._threads:
            thread.start()
        try:
            while (part := self._take()) is not None:
                yield part
        finally:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            for thread in self._threads:
                thread.join()

    def _take(self) -> Part | None:
        with self._changed:
            while not self._parts and self._low <= self._count and not self._stopped:
                self._changed.wait()
            if self._parts and not self._stopped:
                self._changed.notify_all()
                return self._parts.popleft()
            if self._failure is not None:
                raise self._failure
            return None

    def _work(self) -> None:
        try:
            while (task := self._task()) is not None:
                if isinstance(task, int):
                    try:
                        settled = self._look(task)
                    except Exception as error:
                        self._fail((task - 1) * self._buffer_bytes, error, task - 1)
                        continue
                    if not settled:
                        continue
                    task, *others = settled
                    if others:
                        with self._changed:
                            self._ready.extend(others)
                            self._changed.notify_all()
                self._put(task.sequence, self._build(task))
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._stopped = True
                self._changed.notify_all()

    def _task(self) -> Settled[_Buffer] | int | None:
        """A buffer to build, or the number of one to look at, or None when there will be none."""
        with self._changed:
            while not self._stopped and self._low <= self._count:
                if self._ready:
                    return self._ready.popleft()
                room = self._next < self._low + self._window and len(self._parts) < self._window
                if room and self._next <= self._count:
                    self._next += 1
                    return self._next - 1
                self._changed.wait()
            return None

    def _put(self, sequence: int, part: Part | None) -> None:
        if part is not None and isinstance(part.made, FormatError):
            self._fail(part.begin, part.made, sequence)
            part = None
        with self._changed:
            if part is not None:
                self._parts.append(part)
            self._built.add(sequence)
            while self._low in self._built:
                self._built.remove(self._low)
                self._low += 1
            self._changed.notify_all()

    def _fail(self, position: int, error: Exception, wanted: int) -> None:
        """Something went wrong at a byte: buffers up to ``wanted`` may still have what comes before it."""
        with self._changed:
            self._count = min(self._count, wanted)
            if self._failure is None or position < self._failed_at:
                self._failed_at, self._failure = position, error
            self._changed.notify_all()


def _builder_of(reader: RowReader, fetch: Fetch, size: int) -> LineBuilder:
    """What makes rows of an object's lines."""
    header = None
    if reader.header_bytes_needed():
        header = head_of(reader, lambda count: _fetched(fetch, 0, min(size, count)))
    split = reader.split(start=0, end=size, file_size=size, in_quotes=False, header=header)
    if not isinstance(split, LineSplitReader | DelimiterSplitReader):
        raise FormatError(
            "TM4064",
            "this format cannot be read out of order",
            got=type(split).__name__,
            hint="its rows are not lines: read it in order",
        )
    return split.builder


def _fetched(fetch: Fetch, begin: int, length: int) -> bytes:
    data = fetch(begin, length)
    if len(data) != length:
        raise FormatError(
            "TM4063",
            "a read gave another number of bytes than was asked for",
            got=f"{len(data)} of {length} from byte {begin} on",
            hint="the object is shorter than was said, or changed",
        )
    return data
