"""Phase 1 of JSON, first half: where the tokens of a buffer are, 64 bytes at a time.

After simdjson (https://arxiv.org/abs/1902.08318): bytes behind an odd number of backslashes are escaped, a byte is
inside a string when an odd number of unescaped quotes stands before it, and everything else follows from masks. Other
than there, a newline ends a record whatever stands before it, so that a string that is never closed costs one record;
both quotes of a string are tokens; and what no JSON text may hold (a control character in a string, an escape that
does not exist) becomes a token of the code ``BROKEN``, so that the second half meets it in its place.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.byte_masks import (
    below_mask,
    byte_at,
    count_bits,
    equal_mask,
    folded_mask,
    inlined,
    kernel,
    prefix_xor,
    trailing_zeros,
)

QUOTE, COMMA, COLON, BACKSLASH = 0x22, 0x2C, 0x3A, 0x5C
OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE = 0x5B, 0x5D, 0x7B, 0x7D
RECORD_END = 10
"""Code of the token behind a record: a newline, or in a file of arrays whatever ends an element."""
BROKEN = 1
"""Code of a byte that cannot stand where it stands."""

_ONE = np.uint64(1)
_ODD_BITS = np.uint64(0xAAAAAAAAAAAAAAAA)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@inlined
def _is_hex(c):
    return 48 <= c <= 57 or 97 <= (c | 32) <= 102


@inlined
def _is_escape(buf, at, size):
    """Whether a backslash at ``at`` begins an escape of JSON."""
    if at + 1 >= size:
        return False
    c = byte_at(buf, at + 1)
    if c == 117:
        if at + 5 >= size:
            return False
        for k in range(2, 6):  # noqa: SIM110 - all() over a generator does not compile to a loop
            if not _is_hex(byte_at(buf, at + k)):
                return False
        return True
    return c in (QUOTE, BACKSLASH, 47, 98, 102, 110, 114, 116)


@kernel
def index_tokens(buf, begin, by_line, marks, codes):
    """Find the tokens of a buffer that starts outside strings.

    Parameters
    ----------
    buf : ndarray of uint8
    begin : int
        First byte to read: 0, or 3 behind a byte order mark.
    by_line : bool
        Every newline ends a record; else it is white space.
    marks : ndarray of int32, shape (size + 1,)
        Receives the offset of each token: a quote, one of ``{}[]:,``, the first byte of anything else outside
        strings that is not white space, a newline (with ``by_line``), a broken byte. The last token is a
        ``RECORD_END``, perhaps behind the last byte.
    codes : ndarray of uint8, shape (size + 1,)
        Receives the byte at each mark, ``RECORD_END`` or ``BROKEN``.

    Returns
    -------
    tuple of (int, int, int, bool)
        Number of tokens, of them ``RECORD_END`` and of them commas and opening brackets and braces, and whether there
        is any backslash.
    """
    size = np.int64(buf.size)
    count = np.int64(0)
    records = np.int64(0)
    parts = np.int64(0)
    any_backslash = False
    carry = np.uint64(0)
    escape_carry = np.uint64(0)
    scalar_carry = np.uint64(0)
    tail = np.full(64, 32, np.uint8)
    for base in range(0, size, 64):
        block = buf
        at = np.int64(base)
        if base + 64 > size:
            for k in range(base, size):
                tail[k - base] = byte_at(buf, k)
            block = tail
            at = np.int64(0)
        quotes = equal_mask(block, at, QUOTE)
        backslashes = equal_mask(block, at, BACKSLASH)
        spaces = below_mask(block, at, 33)
        newlines = equal_mask(block, at, 10)
        parting = folded_mask(block, at, OPEN_BRACE) | equal_mask(block, at, COMMA)
        operators = parting | folded_mask(block, at, CLOSE_BRACE) | equal_mask(block, at, COLON)
        if base == 0 and begin > 0:
            spaces |= (_ONE << np.uint64(begin)) - _ONE
        escapes = np.uint64(0)
        if backslashes | escape_carry != 0:
            any_backslash = True
            codes_and_odd = (((backslashes & ~escape_carry) << _ONE) | _ODD_BITS) - (backslashes & ~escape_carry)
            terminal = codes_and_odd ^ _ODD_BITS
            quotes &= ~(terminal ^ (backslashes | escape_carry))
            escapes = terminal & backslashes
            escape_carry = escapes >> np.uint64(63)
        quoted = prefix_xor(quotes) ^ carry
        if by_line:
            inside = newlines & quoted
            while inside != 0:
                # A string ends with its line, closed or not: from here on the parity is the other one.
                quoted ^= ~((inside & (~inside + _ONE)) - _ONE)
                inside = newlines & quoted
        carry = np.uint64(np.int64(quoted) >> 63)
        broken = np.uint64(0)
        controls = below_mask(block, at, 32)
        if controls & ~newlines != 0 or (not by_line and controls & quoted != 0):
            blanks = newlines | equal_mask(block, at, 9) | equal_mask(block, at, 13)
            broken = controls & (quoted | ~blanks)
            if by_line:
                broken &= ~newlines
        while escapes != 0:
            bit = escapes & (~escapes + _ONE)
            escapes ^= bit
            if not _is_escape(buf, base + trailing_zeros(bit), size):
                broken |= bit
        scalars = ~(operators | spaces | quoted | quotes)
        begins = scalars & ~((scalars << _ONE) | scalar_carry)
        scalar_carry = scalars >> np.uint64(63)
        tokens = (operators & ~quoted) | quotes | begins | broken
        if by_line:
            tokens |= newlines
            records += count_bits(newlines)
        parts += count_bits(parting & ~quoted)
        if base + 64 > size:
            tokens &= (_ONE << np.uint64(size - base)) - _ONE
        if broken == 0:
            while tokens != 0:
                mark = base + trailing_zeros(tokens)
                tokens &= tokens - _ONE
                marks[count] = mark
                codes[count] = byte_at(buf, mark)
                count += 1
        else:
            while tokens != 0:
                bit = tokens & (~tokens + _ONE)
                mark = base + trailing_zeros(tokens)
                tokens ^= bit
                marks[count] = mark
                codes[count] = BROKEN if broken & bit != 0 else byte_at(buf, mark)
                count += 1
    if count == 0 or codes[count - 1] != RECORD_END:
        marks[count] = size
        codes[count] = RECORD_END
        count += 1
        records += 1
    return count, records, parts, any_backslash
