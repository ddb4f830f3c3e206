"""Tuples that span buffers, when the buffers of one stream are looked at in any order by any number of threads.

Each buffer has a sequence number, from 1 on without gaps. Whoever looked at one offers it here and is told what is his
to parse: his own complete tuples, together with the tuple that reaches into his buffer and the one that reaches out of
it if his buffer was the last that was missing of them. So each tuple is parsed once, by one thread, and nobody waits.

What the shredder keeps are fragments: the bytes behind the last delimiter of a buffer, those up to the first one, and
buffers without any, joined with their neighbours as these come. A fragment is *closed* on a side where it meets a
delimiter, and open where the next byte is not there yet. Two dictionaries find the open ones by the number that they
wait for. One lock guards all of it; why, and what else there is:
``docs/decisions/0007-one-lock-around-fragments.md``.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from tidemill.errors import FormatError
from tidemill.formats.text.sequence_numbers import LARGEST

_MOST = 1 << 20


class Claim(NamedTuple):
    """Consecutive bytes of the stream that are the caller's alone to parse: whole tuples.

    The bytes are ``before``, then those of the buffer offered from ``own_begin`` to ``own_end``, then ``after``. All
    claims of a stream, in order, tile it: each begins where the one before ends.

    Attributes
    ----------
    first_sequence, last_sequence : int
        Buffers that the first and the last byte come from; a claim without bytes of a buffer does not name it.
    begin, end : int
        Offset of the first byte in buffer ``first_sequence``, and behind the last one in buffer ``last_sequence``.
    before, after : tuple of bytes
        From other buffers.
    own_begin, own_end : int
        Part of the buffer offered.
    leading, trailing : bool
        Whether the tuple that ends at the buffer's first delimiter is among them, and the one behind its last; for a
        buffer without delimiter both are the one tuple that it is part of.
    ends_stream : bool
        The last tuple is ended by the end of the stream.
    """

    first_sequence: int
    begin: int
    last_sequence: int
    end: int
    before: tuple[bytes, ...]
    own_begin: int
    own_end: int
    after: tuple[bytes, ...]
    leading: bool
    trailing: bool
    ends_stream: bool


@dataclass(slots=True)
class _Fragment:
    """Bytes from offset ``begin`` of buffer ``first`` to offset ``end`` of buffer ``last``; numbers do not wrap."""

    first: int
    begin: int
    last: int
    end: int
    pieces: deque[bytes] = field(default_factory=deque)
    closed_left: bool = False
    closed_right: bool = False
    ends_stream: bool = False

    @property
    def is_end(self) -> bool:
        """Nothing but the end of the stream."""
        return self.first > self.last and self.ends_stream


class SequenceShredder:
    """Says who parses what of one stream. Every method may be called by any thread at any time.

    Parameters
    ----------
    first : int
        Number of the first buffer.
    largest : int
        The number that 1 follows.
    most : int
        How far a number may be ahead of the first one missing. What is kept grows with how far they really are: one
        bit a number, and the fragments.

    Attributes
    ----------
    held_bytes : int
        Bytes of fragments that are kept now.
    """

    def __init__(self, *, first: int = 1, largest: int = LARGEST, most: int = _MOST) -> None:
        assert 1 <= first <= largest
        self._largest = largest
        self._most = max(min(most, largest // 2), 1)
        self.held_bytes = 0
        self._lock = threading.Lock()
        # Numbers inside do not wrap. All below `_low` are here; bit k of `_seen` says so of `_low + k`.
        self._low = first
        self._seen = 0
        self._last: int | None = None
        # Fragments by the number that they wait for: open on the right, and open on the left.
        self._waiting_right = {first: _Fragment(first, 0, first - 1, 0, closed_left=True)}
        self._waiting_left: dict[int, _Fragment] = {}

    def in_reach(self, sequence: int) -> bool:
        """Whether the buffer may be offered now; once it may, it always may. If not, offer it later."""
        return (sequence - self._low) % self._largest < self._most or self._behind(sequence)

    def offer(self, sequence: int, buffer: memoryview, first_end: int, last_end: int) -> Claim | None:
        """Take a buffer in and say what of it, and of others, the caller must parse.

        Parameters
        ----------
        sequence : int
            Its number; each is offered once.
        buffer : memoryview
            Its bytes; heads and tails that must wait are copied, the buffer is not kept.
        first_end, last_end : int
            Offsets of the last byte of its first and its last delimiter, -1 when it has none.

        Returns
        -------
        Claim or None
            None when there is nothing to parse.

        Raises
        ------
        FormatError
            TM4061 for a number that was offered before, that is behind the end of the stream, or further ahead
            than ``most``.
        """
        size = len(buffer)
        with self._lock:
            number = self._enter(sequence)
            left = self._waiting_right.pop(number, None)
            right = self._waiting_left.pop(number, None)
            if first_end < 0:
                return self._middle(number, buffer, left, right)
            start = left if left is not None and left.closed_left else None
            stop = right if right is not None and right.closed_right else None
            if start is None:
                self._keep_head(number, bytes(buffer[: first_end + 1]), left)
            if stop is None:
                self._keep_tail(number, bytes(buffer[last_end + 1 :]), size, right)
            elif stop.ends_stream and last_end + 1 == size and not any(stop.pieces):
                # A delimiter ends the stream: no tuple is behind it.
                stop = None
            return self._claim(number, start, 0 if start else first_end + 1, size if stop else last_end + 1, stop)

    def end(self, last_sequence: int) -> Claim | None:
        """Say which buffer is the last one; may be called before all have been offered.

        Parameters
        ----------
        last_sequence : int
            Its number; the one before the first for a stream without buffers.

        Returns
        -------
        Claim or None
            The last tuple, if no delimiter ends it and all its buffers are here. If one is missing, whoever offers it
            gets the tuple.

        Raises
        ------
        FormatError
            TM4061 when a buffer behind it has been offered.
        """
        with self._lock:
            assert self._last is None, "a stream ends once"
            ahead = (last_sequence - self._low + 1) % self._largest
            last = self._low - 1 + ahead
            if ahead > self._largest // 2 or last + 1 < self._low + self._seen.bit_length():
                raise self._misplaced(last_sequence, "the stream has buffers behind the one that was called its last")
            self._last = last
            closing = _Fragment(last + 1, 0, last, 0, closed_right=True, ends_stream=True)
            left = self._waiting_right.pop(last + 1, None)
            if left is None:
                self._waiting_left[last] = closing
                return None
            if left.closed_left:
                return self._claim(last, left, left.end, left.end, closing)
            left.closed_right = left.ends_stream = True
            return None

    def validate(self) -> None:
        """Check that the stream has ended, and that all of it has been claimed.

        Raises
        ------
        FormatError
            TM4062 with the numbers of the buffers that are missing.
        """
        with self._lock:
            missing = self._missing()
            if missing or self._last is None:
                raise FormatError(
                    "TM4062",
                    "buffers of a stream are missing",
                    got=", ".join(missing) if missing else "its end was not given",
                    hint="each buffer is offered once, and the end is given with the last number",
                )
            assert not self._waiting_left and not self._waiting_right, "every fragment has been claimed"
            assert self.held_bytes == 0

    def _behind(self, sequence: int) -> bool:
        return (sequence - self._low) % self._largest >= self._largest - self._largest // 2

    def _enter(self, sequence: int) -> int:
        """Note that a number is here; returns it as one that does not wrap."""
        number = self._low
        if sequence == number <= self._largest and not self._seen and self._last is None:
            # In order, as most come.
            self._low = number + 1
            return number
        ahead = (sequence - self._low) % self._largest
        if not 1 <= sequence <= self._largest or self._behind(sequence) or self._seen >> ahead & 1:
            raise self._misplaced(sequence, "it is no number of this stream, or was offered before")
        if ahead >= self._most:
            raise self._misplaced(sequence, f"number {self._shown(self._low)} is missing; offer it later")
        number = self._low + ahead
        if self._last is not None and number > self._last:
            raise self._misplaced(sequence, f"the stream ended with {self._shown(self._last)}")
        self._seen |= 1 << ahead
        if ahead == 0:
            here = ~self._seen & (self._seen + 1)
            steps = here.bit_length() - 1
            self._low += steps
            self._seen >>= steps
        return number

    def _middle(self, number: int, buffer: memoryview, left: _Fragment | None, right: _Fragment | None) -> Claim | None:
        """A buffer without delimiter joins what it touches; the tuple is claimed if both sides are closed."""
        if left is not None and left.closed_left and right is not None and right.closed_right:
            return self._claim(number, left, 0, len(buffer), right)
        size = len(buffer)
        self.held_bytes += size
        joined = _Fragment(number, 0, number, size, deque((bytes(buffer),)))
        if left is not None:
            joined = _join(left, joined)
        if right is not None:
            joined = _join(joined, right)
        if not joined.closed_right:
            self._waiting_right[joined.last + 1] = joined
        if not joined.closed_left:
            self._waiting_left[joined.first - 1] = joined
        return None

    def _keep_head(self, number: int, head: bytes, left: _Fragment | None) -> None:
        self.held_bytes += len(head)
        kept = _Fragment(number, 0, number, len(head), deque((head,)), closed_right=True)
        if left is not None:
            kept = _join(left, kept)
        self._waiting_left[kept.first - 1] = kept

    def _keep_tail(self, number: int, tail: bytes, size: int, right: _Fragment | None) -> None:
        self.held_bytes += len(tail)
        kept = _Fragment(number, size - len(tail), number, size, deque((tail,)), closed_left=True)
        if right is not None:
            kept = _join(kept, right)
        self._waiting_right[kept.last + 1] = kept

    def _claim(
        self, number: int, left: _Fragment | None, own_begin: int, own_end: int, right: _Fragment | None
    ) -> Claim | None:
        """Give out a part of a buffer with what touches it; None for a side that is not claimed."""
        before: tuple[bytes, ...] = ()
        after: tuple[bytes, ...] = ()
        first = last = number
        begin, end = own_begin, own_end
        ends_stream = False
        if left is not None:
            before, first, begin = tuple(left.pieces), left.first, left.begin
        if right is not None:
            after, last, ends_stream = tuple(right.pieces), right.last, right.ends_stream
            if right.first <= right.last:
                end = right.end
        bytes_of_others = sum(map(len, before)) + sum(map(len, after))
        self.held_bytes -= bytes_of_others
        if bytes_of_others + own_end - own_begin == 0:
            return None
        return Claim(
            self._shown(first),
            begin,
            self._shown(last),
            end,
            before,
            own_begin,
            own_end,
            after,
            left is not None,
            right is not None,
            ends_stream,
        )

    def _shown(self, number: int) -> int:
        """The sequence number that a number without wrap-around stands for."""
        return (number - 1) % self._largest + 1

    def _missing(self) -> list[str]:
        """Ranges of numbers that are not here, the first ten."""
        end = self._low + self._seen.bit_length() if self._last is None else self._last + 1
        ranges: list[str] = []
        number, seen = self._low, self._seen
        while number < end and len(ranges) < 10:
            gap = (seen & -seen).bit_length() - 1 if seen else end - number
            if gap:
                first, last = self._shown(number), self._shown(number + gap - 1)
                ranges.append(str(first) if gap == 1 else f"{first} to {last}")
            here = (~(seen >> gap) & ((seen >> gap) + 1)).bit_length() - 1
            number, seen = number + gap + here, seen >> (gap + here)
        return ranges

    def _misplaced(self, sequence: int, why: str) -> FormatError:
        return FormatError(
            "TM4061", "a buffer has the wrong sequence number", got=f"{sequence}: {why}", hint="number them from 1"
        )


def _join(left: _Fragment, right: _Fragment) -> _Fragment:
    """One fragment of two that touch; the longer one's pieces stay where they are."""
    if len(left.pieces) >= len(right.pieces):
        pieces = left.pieces
        pieces.extend(right.pieces)
    else:
        pieces = right.pieces
        pieces.extendleft(reversed(left.pieces))
    return _Fragment(
        left.first,
        left.begin,
        right.last,
        left.end if right.is_end else right.end,
        pieces,
        left.closed_left,
        right.closed_right,
        left.ends_stream or right.ends_stream,
    )
