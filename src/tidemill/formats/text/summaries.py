"""What a buffer does to the state at its beginning, so that buffers may be looked at before those in front of them.

Whether a newline ends a row depends on the state there (see :mod:`tidemill.formats.text.line_ends`), and that on all
bytes before. The summary of some bytes is therefore a function: from each state at their beginning to the state at
their end, and to where the first and the last row end lie. Summaries of neighbours compose to that of both, in any
grouping, as in a parallel prefix sum (ParPaRaw, arXiv 1905.13415); a :class:`Frontier` composes them in the order of
the stream, one small step a buffer, and so learns the state that each buffer really begins in.

States are those of an :class:`Automaton`. So a delimiter of several bytes, or an escape character, that lies across a
boundary is nothing special: what was matched of it is a state (:mod:`tidemill.formats.text.delimiters`). The rule of
``line_ends`` has a kernel that takes 64 bytes at a time; any other automaton one that goes through its tables byte by
byte.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
import threading
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tidemill.formats.text.line_ends import (
    BYTE_ORDER_MARK,
    NEWLINE,
    NO_BYTE,
    OPEN,
    QUOTED,
    TEXT,
    Bytes,
    LineRules,
    scan_row_ends,
)
from tidemill.formats.text.sequence_numbers import LARGEST, number_after
from tidemill.kernels.byte_masks import byte_at, kernel

T = TypeVar("T")

Ints = npt.NDArray[np.int64]

_BEGIN = 3
"""At the beginning of the file, where a byte order mark may stand; the two states behind are within one."""
_LINE_STATES = 6
_STEP = 512
"""So many bytes are looked at from each state before it is asked whether states have become the same."""

_END, _COUNT, _FIRST, _LAST = range(4)


@dataclass(frozen=True, eq=False)
class Automaton:
    """Where rows end, as a table.

    Attributes
    ----------
    following : ndarray of unsigned integers, shape (states, 256)
        The state behind a byte.
    ends_row : ndarray of bool, shape (states, 256)
        Whether a byte is the last one of a row.
    start : int
        State at the beginning of the stream.
    open_at_end : frozenset of int
        States that a stream must not end in, such as that inside quotes.
    quote : int
        The quote character, or ``NO_BYTE``.
    rules : LineRules or None
        The rules that the table says, for the kernel that knows them; None for any other table.
    """

    following: npt.NDArray[np.unsignedinteger[Any]]
    ends_row: npt.NDArray[np.bool_]
    start: int
    open_at_end: frozenset[int]
    quote: int
    rules: LineRules | None = None

    @property
    def stateless(self) -> bool:
        """Whether row ends do not depend on what was before, so that the state need not be known."""
        return self.rules is not None and self.rules.quote == NO_BYTE


@dataclass(frozen=True, eq=False)
class Summary:
    """What some bytes do, from each state.

    Attributes
    ----------
    size : int
        How many bytes.
    quotes : bool
        Whether there is a quote among them.
    table : ndarray of int64, shape (states, 4)
        For each state at the beginning: the state at the end, the number of row ends, offsets of the last bytes of the
        first and of the last row (-1 when no row ends).
    """

    size: int
    quotes: bool
    table: Ints

    def from_state(self, state: int) -> tuple[int, int, int, int]:
        """State at the end, number of row ends, first and last one."""
        end, count, first, last = self.table[state].tolist()
        return end, count, first, last


def compose(left: Summary, right: Summary) -> Summary:
    """The summary of the bytes of both, one behind the other. Associative; empty bytes are its unit."""
    then = right.table[left.table[:, _END]]
    table = np.empty_like(left.table)
    table[:, _END] = then[:, _END]
    table[:, _COUNT] = left.table[:, _COUNT] + then[:, _COUNT]
    behind = np.where(then[:, _COUNT, None] > 0, then[:, _FIRST:] + left.size, -1)
    table[:, _FIRST] = np.where(left.table[:, _COUNT] > 0, left.table[:, _FIRST], behind[:, 0])
    table[:, _LAST] = np.where(then[:, _COUNT] > 0, behind[:, 1], left.table[:, _LAST])
    return Summary(left.size + right.size, left.quotes or right.quotes, table)


def summarise(automaton: Automaton, data: Bytes, position: int) -> Summary:
    """The summary of a buffer.

    Parameters
    ----------
    data : ndarray of uint8
        Read-only.
    position : int
        Offset of its first byte in the file; only whether it may belong to a byte order mark matters.
    """
    states = len(automaton.following)
    if not data.size:
        return Summary(0, False, np.array([(state, 0, -1, -1) for state in range(states)], np.int64))
    table = np.empty((states, 4), np.int64)
    rules = automaton.rules
    if rules is None:
        walk_table(data, automaton.following, automaton.ends_row, table)
        return Summary(data.size, automaton.quote == NO_BYTE or bytes([automaton.quote]) in data.tobytes(), table)
    mark = min(max(len(BYTE_ORDER_MARK) - position, 0), data.size)
    if mark:
        walk_table(data[:mark], automaton.following, automaton.ends_row, table)
        head = Summary(mark, bool(np.any(data[:mark] == rules.quote)), table)
        return head if mark == data.size else compose(head, summarise(automaton, data[mark:], len(BYTE_ORDER_MARK)))
    quotes = summarise_lines(data, rules.separator, rules.quote, rules.leading, table)
    return Summary(data.size, quotes > 0, table)


@cache
def line_automaton(rules: LineRules) -> Automaton:
    """The table of the rule of ``line_ends``: its three states, and those of a byte order mark."""
    following = np.full((_LINE_STATES, 256), TEXT, np.uint8)
    ends_row = np.zeros((_LINE_STATES, 256), np.bool_)
    for state in (OPEN, TEXT):
        following[state, NEWLINE] = OPEN
        ends_row[state, NEWLINE] = True
        if rules.separator != NO_BYTE:
            following[state, rules.separator] = OPEN
    if rules.leading:
        following[OPEN, [ord(" "), ord("\t")]] = OPEN
    following[QUOTED] = QUOTED
    if rules.quote != NO_BYTE:
        following[OPEN, rules.quote] = QUOTED
        following[QUOTED, rules.quote] = OPEN
    else:
        # This state is never reached, which the kernel does not check.
        ends_row[QUOTED, NEWLINE] = True
    for passed, byte in enumerate(BYTE_ORDER_MARK):
        state = _BEGIN + passed
        following[state] = following[TEXT if passed else OPEN]
        ends_row[state] = ends_row[OPEN]
        following[state, byte] = state + 1 if passed + 1 < len(BYTE_ORDER_MARK) else OPEN
    return Automaton(following, ends_row, _BEGIN, frozenset({QUOTED}), rules.quote, rules)


@kernel
def walk_table(buf, following, ends_row, table):
    """Fill a summary's table byte by byte, from every state until it has become the same as another one."""
    size = np.int64(buf.size)
    count = following.shape[0]
    states = np.arange(count)
    stands_for = np.arange(count)
    for s in range(count):
        table[s, 1] = 0
        table[s, 2] = -1
        table[s, 3] = -1
    at = np.int64(0)
    while at < size:
        stop = min(at + _STEP, size)
        for s in range(count):
            if stands_for[s] != s:
                continue
            state = states[s]
            found = np.int64(0)
            first = np.int64(-1)
            last = np.int64(-1)
            for i in range(at, stop):
                c = byte_at(buf, i)
                if ends_row[state, c]:
                    found += 1
                    last = np.int64(i)
                    if first < 0:
                        first = last
                state = np.int64(following[state, c])
            for same in range(s, count):
                if stands_for[same] == s:
                    states[same] = state
                    if found > 0:
                        table[same, 1] += found
                        table[same, 3] = last
                        if table[same, 2] < 0:
                            table[same, 2] = first
        for s in range(1, count):
            for other in range(s):
                if states[other] == states[s]:
                    stands_for[s] = stands_for[other]
                    break
        at = stop
    for s in range(count):
        table[s, 0] = states[s]


@kernel
def summarise_lines(buf, separator, quote, leading, table):
    """Fill a summary's table by the rule of ``line_ends``; returns the number of quotes.

    States become the same soon, at the next separator or at a quote that is text from one of them; from there on one
    of them does for all. States within a byte order mark count as what they are to other bytes.
    """
    size = np.int64(buf.size)
    states = np.array([0, 1, 2], np.int64)
    stands_for = np.array([0, 1, 2], np.int64)
    for s in range(3):
        table[s, 1] = 0
        table[s, 2] = -1
        table[s, 3] = -1
    quotes = np.int64(0)
    at = np.int64(0)
    while at < size:
        for s in range(1, 3):
            for other in range(s):
                if stands_for[s] == s and states[other] == states[s]:
                    for same in range(3):
                        if stands_for[same] == s:
                            stands_for[same] = stands_for[other]
        # Rows that end from here on are counted for one of those that have become the same; the others follow below.
        alone = stands_for[1] == 0 and stands_for[2] == 0
        stop = size if alone or quote < 0 else min(at + _STEP, size)
        piece = buf[at:stop]
        found = np.int64(0)
        for s in range(3):
            if stands_for[s] != s:
                continue
            count, first, last, found, state = scan_row_ends(piece, 0, separator, quote, leading, states[s])
            states[s] = state
            for same in range(3):
                if stands_for[same] == s and count > 0:
                    table[same, 1] += count
                    if table[same, 2] < 0:
                        table[same, 2] = at + first
                    table[same, 3] = at + last
        quotes += found
        for s in range(3):
            states[s] = states[stands_for[s]]
        at = stop
    for s in range(3):
        table[s, 0] = states[s]
    for s in range(3, table.shape[0]):
        for k in range(4):
            table[s, k] = table[0 if s == 3 else 1, k]
    return quotes


class Settled(NamedTuple, Generic[T]):
    """A buffer whose state at the beginning is known, and what was given with it."""

    sequence: int
    state: int
    what: T


class Frontier(Generic[T]):
    """Composes summaries in the order of the stream. Every method may be called by any thread at any time.

    Parameters
    ----------
    start : int
        State at the beginning of the stream.
    first, largest : int
        Number of the first buffer, and the one that 1 follows.

    Attributes
    ----------
    state : int
        The state behind all buffers that are settled.
    """

    def __init__(self, start: int, *, first: int = 1, largest: int = LARGEST) -> None:
        self.state = start
        self._next = first
        self._largest = largest
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[Summary, T]] = {}

    @property
    def waiting(self) -> int:
        """How many buffers wait for one before them."""
        return len(self._waiting)

    def settle(self, sequence: int, summary: Summary, what: T) -> list[Settled[T]]:
        """Take a summary in; returns all buffers that are settled by it, in order."""
        with self._lock:
            if sequence == self._next and not self._waiting:
                # In order, as most come.
                alone = Settled(sequence, self.state, what)
                self.state = int(summary.table[self.state, _END])
                self._next = number_after(sequence, self._largest)
                return [alone]
            self._waiting[sequence] = (summary, what)
            settled: list[Settled[T]] = []
            while (found := self._waiting.pop(self._next, None)) is not None:
                settled.append(Settled(self._next, self.state, found[1]))
                self.state = int(found[0].table[self.state, _END])
                self._next = number_after(self._next, self._largest)
            return settled
