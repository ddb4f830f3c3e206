"""Where rows and fields end beyond the one-byte rule of :mod:`tidemill.formats.text.line_ends`: separators and line
ends of several bytes, and an escape character that is not the quote.

All of that is one automaton, stepped from byte to byte. Its states say how much of a separator or line end has been
matched and whether a quote would open a field, or that a byte lies inside quotes, or there behind an escape; so nothing
is special about a buffer that ends within any of these. In the two states in which nearly every byte lies, plain text
outside and inside quotes, only two bytes each lead anywhere, and the next one of them is searched 64 bytes at a time.

The rule: of the separator and the line end the one that comes first counts, left to right, so that ``|||`` holds the
separator ``||`` and a bar. Neither contains the other, so the first to begin is also the first to end. An escape counts
inside quotes only, as in Spark; with one, the quote behind it does not close, and a quote is never doubled.

Plain twin: :mod:`tests.formats.csv_reference`.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from tidemill.formats.text.line_ends import BYTE_ORDER_MARK, NO_BYTE, LineRules
from tidemill.formats.text.summaries import Automaton, line_automaton
from tidemill.kernels.byte_masks import block_mask, byte_at, inlined, kernel, trailing_zeros

FIELD_END = 1
ROW_END = 2
"""What the last byte of a separator and of a line end does; 0 stands for every other byte."""

_BLANKS = b" \t"
_OPENS_QUOTES = -1


@dataclass(frozen=True)
class Delimiters:
    """What decides where rows and fields end.

    Attributes
    ----------
    separator, row_end : bytes
        Neither contains the other, the quote or the escape; no separator is no byte.
    quote, escape : int
        ASCII codes that differ, or ``NO_BYTE``. Without an escape a doubled quote stands for one.
    leading : int
        Not 0 when blanks before a quote at the beginning of a field do not count.
    """

    separator: bytes
    row_end: bytes
    quote: int
    escape: int
    leading: int

    @property
    def strips_return(self) -> bool:
        r"""Whether a ``\r`` before a line end belongs to it."""
        return self.row_end == b"\n"


@dataclass(frozen=True, eq=False, kw_only=True)
class DelimiterTable(Automaton):
    """The automaton of some delimiters.

    Attributes
    ----------
    actions : ndarray of uint8, shape (states, 256)
        ``FIELD_END``, ``ROW_END`` or 0.
    open, text, quoted : int
        States at the beginning of a field, in a text outside quotes, and inside quotes.
    guide : ndarray of int64, shape (6,)
        For the kernels: ``text`` and ``quoted``, and two bytes each that lead out of them.
    moves : ndarray of bool, shape (256,)
        Bytes behind which the state is not known from what stands there and whether it is inside quotes; a boundary of
        splits is moved behind the first other one.
    delimiters : Delimiters
    """

    actions: npt.NDArray[np.uint8]
    open: int
    text: int
    quoted: int
    guide: npt.NDArray[np.int64]
    moves: npt.NDArray[np.bool_]
    delimiters: Delimiters

    def state_behind(self, byte: int, inside: bool) -> tuple[int, bool]:
        """The state behind a byte that moves no boundary, and whether it ends a row."""
        if inside:
            return self.quoted, False
        action = int(self.actions[self.text, byte])
        return self.open if action else self.text, action == ROW_END


_Outside = tuple[bool, bytes]
"""A state outside quotes: whether a quote would open a field, and what was matched of a separator or line end."""


@cache
def delimiter_table(rules: Delimiters) -> DelimiterTable:
    """The automaton of some delimiters; a byte order mark at the beginning of the stream is passed over."""
    places: dict[_Outside, int] = {(True, b""): 0, (False, b""): 1}
    outside = list(places)
    steps: list[tuple[int, int, int, int]] = []
    at = 0
    while at < len(outside):
        for byte in range(256):
            if byte == rules.quote and outside[at][0]:
                steps.append((at, byte, _OPENS_QUOTES, 0))
                continue
            following, action = _step(rules, outside[at], byte)
            if following not in places:
                places[following] = len(outside)
                outside.append(following)
            steps.append((at, byte, places[following], action))
        at += 1
    count = len(outside)
    # Behind those outside come the two inside quotes, and the three of a byte order mark.
    quoted, escaped, begin = count, count + 1, count + 2
    table = np.zeros((count + 5, 256), np.uint16)
    actions = np.zeros((count + 5, 256), np.uint8)
    for state, byte, following_state, action in steps:
        table[state, byte] = quoted if following_state == _OPENS_QUOTES else following_state
        actions[state, byte] = action
    table[quoted] = table[escaped] = quoted
    if rules.quote != NO_BYTE:
        table[quoted, rules.quote] = 0 if rules.escape == NO_BYTE else 1
    if rules.escape != NO_BYTE:
        table[quoted, rules.escape] = escaped
    _add_mark(table, actions, begin)
    first = [*rules.separator[:1], rules.row_end[0]]
    inside = [b for b in (rules.quote, rules.escape) if b != NO_BYTE] or [rules.row_end[0]]
    moves = np.zeros(256, np.bool_)
    for delimiter in (rules.separator, rules.row_end):
        if len(delimiter) > 1:
            moves[list(delimiter)] = True
    if rules.quote != NO_BYTE:
        moves[inside] = True
        moves[list(_BLANKS if rules.leading else b"")] = True
    return DelimiterTable(
        following=table,
        ends_row=actions == ROW_END,
        start=begin,
        open_at_end=frozenset({quoted, escaped}),
        quote=rules.quote,
        actions=actions,
        open=0,
        text=1,
        quoted=quoted,
        guide=np.array([1, quoted, first[0], first[-1], inside[0], inside[-1]], np.int64),
        moves=moves,
        delimiters=rules,
    )


def _step(rules: Delimiters, state: _Outside, byte: int) -> tuple[_Outside, int]:
    """The state behind a byte that opens no quotes, and what it does."""
    opens, matched = state
    read = matched + bytes([byte])
    if rules.separator and read.endswith(rules.separator):
        return (True, b""), FIELD_END
    if read.endswith(rules.row_end):
        return (True, b""), ROW_END
    longest = next(
        read[k:]
        for k in range(len(read) + 1)
        if rules.separator.startswith(read[k:]) or rules.row_end.startswith(read[k:])
    )
    return (opens and bool(rules.leading) and byte in _BLANKS, longest), 0


def _add_mark(table: npt.NDArray[np.uint16], actions: npt.NDArray[np.uint8], begin: int) -> None:
    """Fill the states within a byte order mark: what they are to its bytes, and to others what was read so far is."""
    state = 0
    for passed, byte in enumerate(BYTE_ORDER_MARK):
        table[begin + passed] = table[state]
        actions[begin + passed] = actions[state]
        state = int(table[state, byte])
        table[begin + passed, byte] = begin + passed + 1 if passed + 1 < len(BYTE_ORDER_MARK) else 0
        actions[begin + passed, byte] = 0


def automaton_of(rules: LineRules | Delimiters) -> Automaton:
    """The automaton of either kind of rules."""
    return delimiter_table(rules) if isinstance(rules, Delimiters) else line_automaton(rules)


@inlined
def next_of(buf, at, size, first, second):
    """Offset of the next byte, from ``at`` on, that is one of two; ``size`` if there is none."""
    while at < size:
        mask = block_mask(buf, at, size, first) | block_mask(buf, at, size, second)
        if mask != 0:
            return at + trailing_zeros(mask)
        at += 64
    return size


@kernel
def walk_rows(buf, following, actions, guide, state):
    """Find where rows end.

    Parameters
    ----------
    buf : ndarray of uint8
    following, actions, guide
        Of a :class:`DelimiterTable`.
    state : int
        The state at the first byte.

    Returns
    -------
    tuple of int
        Number of row ends, offset of the last byte of the first one and of the last one (-1 when there is none), state
        behind the last byte.
    """
    text, quoted = guide[0], guide[1]
    size = np.int64(buf.size)
    count = np.int64(0)
    first = np.int64(-1)
    last = np.int64(-1)
    i = np.int64(0)
    while i < size:
        if state == text:
            i = next_of(buf, i, size, guide[2], guide[3])
        elif state == quoted:
            i = next_of(buf, i, size, guide[4], guide[5])
        if i >= size:
            break
        c = byte_at(buf, i)
        if actions[state, c] == ROW_END:
            count += 1
            last = i
            if first < 0:
                first = i
        state = np.int64(following[state, c])
        i += 1
    return count, first, last, np.int64(state)


@kernel
def walk_row_end(buf, begin, following, actions, guide, state):
    """Offset of the last byte of the first line end at or behind ``begin``, or -1, and the state behind it."""
    text, quoted = guide[0], guide[1]
    size = np.int64(buf.size)
    i = np.int64(begin)
    while i < size:
        if state == text:
            i = next_of(buf, i, size, guide[2], guide[3])
        elif state == quoted:
            i = next_of(buf, i, size, guide[4], guide[5])
        if i >= size:
            break
        c = byte_at(buf, i)
        action = actions[state, c]
        state = np.int64(following[state, c])
        if action == ROW_END:
            return i, state
        i += 1
    return np.int64(-1), np.int64(state)
