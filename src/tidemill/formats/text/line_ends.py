"""Where rows end in a buffer of text: at a newline outside quotes.

The rule that everything rests on, which is also Spark's: a quote opens a field at its beginning, and again right
behind the quote that closed it, so that a doubled quote needs no case of its own; anywhere else outside quotes it is
text. A newline outside quotes ends a row, a separator outside quotes ends a field.

While no quote is text, a byte lies inside quotes when an odd number of quotes stands before it, so 64 bytes at a
time are a prefix XOR. A block with a quote that opens, but has no separator, line end or quote before it, is gone
through byte by byte (:func:`plain_block`). The state at a byte is one of ``OPEN``, ``TEXT``, ``QUOTED``.

Formats without quotes use the same functions with ``NO_BYTE`` for the quote. Plain twin:
:mod:`tests.formats.csv_reference`.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidemill.kernels.byte_masks import (
    block_mask,
    byte_at,
    count_bits,
    inlined,
    kernel,
    leading_zeros,
    prefix_xor,
    trailing_zeros,
)

NEWLINE = 10
CARRIAGE_RETURN = 13
NO_BYTE = -1
"""Stands for a quote or comment character that is switched off."""

OPEN = 0
"""Outside quotes, where a quote opens a field: at its beginning, or right behind a closing quote."""
TEXT = 1
"""Outside quotes, where a quote is text."""
QUOTED = 2
"""Inside quotes."""

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""How a file in UTF-16 begins."""

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class LineRules:
    """What decides where lines end.

    Attributes
    ----------
    separator, quote : int
        ASCII codes; ``NO_BYTE`` where there is none.
    leading : int
        Not 0 when blanks before a quote at the beginning of a field do not count.
    """

    separator: int
    quote: int
    leading: int


PLAIN_LINES = LineRules(NO_BYTE, NO_BYTE, 0)
"""Every newline ends a line."""


@inlined
def next_state(c, separator, quote, leading, state):
    """The state behind a byte."""
    if state == QUOTED:
        return OPEN if c == quote else QUOTED
    if c == separator or c == NEWLINE:  # noqa: SIM109 - not a tuple to search
        return OPEN
    if state == OPEN:
        if c == quote:
            return QUOTED
        if leading != 0 and (c == 32 or c == 9):
            return OPEN
    return TEXT


@kernel
def plain_block(buf, base, begin, size, separator, quote, leading, state):
    """Which of 64 bytes from ``base`` on lie outside quotes (uint64, quotes themselves of no account), and the state
    behind them; bytes before ``begin`` change nothing."""
    outside = np.uint64(0)
    for i in range(max(base, begin), min(base + 64, size)):
        if state != QUOTED:
            outside |= _ONE << np.uint64(i - base)
        state = next_state(byte_at(buf, i), separator, quote, leading, state)
    return outside, state


@kernel
def careful_block(buf, base, begin, size, separator, quote, leading, misplaced, quoted, state):
    """A block in which a quote opens that has no separator, line end or quote before it in the block.

    Parameters
    ----------
    misplaced, quoted : uint64
        Such quotes, and the bytes inside quotes if no quote is text.
    state : int
        The state before the block, or -1 if it is outside quotes, and no quote was text so far: then the byte
        before tells.

    Returns
    -------
    tuple
        The bytes inside quotes (uint64), and the state behind the block, or -1 if no quote of it is text.
    """
    first = state
    if state < 0:
        c = byte_at(buf, base - 1)
        first = OPEN if c == separator or c == NEWLINE or c == quote else TEXT  # noqa: SIM109 - not a tuple to search
    if misplaced == _ONE and first == OPEN and leading == 0:
        return quoted, np.int64(-1)
    outside, behind = plain_block(buf, base, begin, size, separator, quote, leading, first)
    return ~outside, np.int64(behind)


@inlined
def state_behind(buf, begin, separator, quote, carry, known_at, state):
    """The state behind the last byte, of ``carry`` behind the last block and a ``state`` known at an offset."""
    size = np.int64(buf.size)
    if carry != 0:
        return np.int64(QUOTED)
    if size > begin and known_at < size:
        c = byte_at(buf, size - 1)
        return np.int64(OPEN if c in (separator, NEWLINE, quote) else TEXT)
    return np.int64(state)


@kernel
def scan_row_ends(buf, begin, separator, quote, leading, state):
    """Count the newlines outside quotes.

    Parameters
    ----------
    buf : ndarray of uint8
    begin : int
        First byte to look at: behind a byte order mark.
    separator, quote : int
        The quote character may be ``NO_BYTE``.
    leading : int
        Not 0 when blanks before a quote at the beginning of a field do not count.
    state : int
        The state at the first byte.

    Returns
    -------
    tuple of int
        Number of row ends, offset of the first one and of the last one (-1 when there is none), number of
        quotes, state behind the last byte.
    """
    size = np.int64(buf.size)
    row_ends = np.int64(0)
    first = np.int64(-1)
    last = np.int64(-1)
    quotes = np.int64(0)
    carry = _ALL if state == QUOTED else np.uint64(0)
    known_at = np.int64(0)
    for base in range(0, size, 64):
        newlines = block_mask(buf, base, size, NEWLINE)
        if quote >= 0:
            marks = block_mask(buf, base, size, quote)
            if marks != 0 or leading != 0:
                quotes += count_bits(marks)
                quoted = prefix_xor(marks) ^ carry
                edges = newlines | marks | block_mask(buf, base, size, separator)
                misplaced = marks & quoted & ~(edges << _ONE)
                carry_in = carry
                carry = np.uint64(np.int64(quoted) >> 63)
                if misplaced != 0 or leading != 0:
                    before = QUOTED if carry_in != 0 else state if known_at == base else -1
                    quoted, state = careful_block(
                        buf, base, begin, size, separator, quote, leading, misplaced, quoted, before
                    )
                    if state >= 0:
                        known_at = np.int64(base + 64)
                        carry = _ALL if state == QUOTED else np.uint64(0)
                newlines &= ~quoted
            else:
                newlines &= ~carry
        if newlines != 0:
            row_ends += count_bits(newlines)
            if first < 0:
                first = base + trailing_zeros(newlines)
            last = base + 63 - leading_zeros(newlines)
    state = state_behind(buf, begin, separator, quote, carry, known_at, state)
    return row_ends, first, last, quotes, np.int64(state)


@kernel
def find_row_end(buf, begin, separator, quote, leading, state):
    """Offset of the first newline outside quotes at or after ``begin``, or -1, and the state behind it.

    Returns
    -------
    tuple of int
        Offset or -1; the state behind the last byte looked at.
    """
    size = np.int64(buf.size)
    for i in range(begin, size):
        c = byte_at(buf, i)
        if c == NEWLINE and state != QUOTED:
            return i, np.int64(OPEN)
        state = next_state(c, separator, quote, leading, state)
    return np.int64(-1), np.int64(state)
