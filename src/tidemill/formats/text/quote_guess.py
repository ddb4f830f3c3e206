"""Guess whether a byte in the middle of a file lies inside quotes, from the look of the quotes behind it.

Opening quotes follow a separator or a line end, closing quotes precede one. The idea of guessing first and
checking later is from Ge et al., "Speculative Distributed CSV Data Parsing", SIGMOD 2019.
"""

from __future__ import annotations

import re

from tidemill.formats.text.line_ends import NO_BYTE

WINDOW = 64 * 1024
"""Bytes looked at, at most."""

_ENOUGH = 32
_LONGEST_EDGE = 128


def guess_in_quotes(
    data: bytes, separator: int | bytes, quote: int, row_end: bytes = b"\n", escape: int = NO_BYTE
) -> bool:
    """Whether ``data[1]`` lies inside quotes; False when nothing speaks for it.

    Each run of an odd number of quotes that has a separator or line end on one side only is a vote on the
    state before it; the parity of the quotes before it turns that into a vote on ``data[1]``. The first 32
    votes count. A quote behind an escape is none.

    Parameters
    ----------
    data : bytes
        The byte before the one in question and what follows it.
    """
    if quote not in data:  # in many files there is none, and an expression looks for it a hundred times as long
        return False
    edges = tuple({bytes([separator]) if isinstance(separator, int) else separator, row_end, b"\n", b"\r"})
    one = re.escape(bytes([quote]))
    escaped = b"" if escape == NO_BYTE else re.escape(bytes([escape])) + b"(?s:.)|"
    votes = 0
    parity = 0
    cast = 0
    for run in re.finditer(escaped + b"(" + one + b"+)", data[1:]):
        if run[1] is None:
            continue
        length = run.end() - run.start()
        if length % 2 and run.end() + 1 < len(data):
            begin = run.start() + 1
            opens = data[max(begin - _LONGEST_EDGE, 0) : begin].endswith(edges)
            closes = data.startswith(edges, run.end() + 1)
            if opens != closes:
                inside_before = closes
                votes += 1 if inside_before != bool(parity) else -1
                cast += 1
                if cast == _ENOUGH:
                    break
        parity ^= length & 1
    return votes > 0
