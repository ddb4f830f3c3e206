"""Guess whether a byte in the middle of a file lies inside quotes, from the look of the quotes behind it.

Opening quotes follow a separator or a line end, closing quotes precede one. The idea of guessing first and
checking later is from Ge et al., "Speculative Distributed CSV Data Parsing", SIGMOD 2019.
"""

from __future__ import annotations

import re

WINDOW = 64 * 1024
"""Bytes looked at, at most."""

_ENOUGH = 32


def guess_in_quotes(data: bytes, separator: int, quote: int) -> bool:
    """Whether ``data[1]`` lies inside quotes; False when nothing speaks for it.

    Each run of an odd number of quotes that has a separator or line end on one side only is a vote on the
    state before it; the parity of the quotes before it turns that into a vote on ``data[1]``. The first 32
    votes count.

    Parameters
    ----------
    data : bytes
        The byte before the one in question and what follows it.
    """
    edges = {separator, ord("\n"), ord("\r")}
    votes = 0
    parity = 0
    cast = 0
    for run in re.finditer(re.escape(bytes([quote])) + b"+", data[1:]):
        length = run.end() - run.start()
        if length % 2 and run.end() + 1 < len(data):
            opens = data[run.start()] in edges
            closes = data[run.end() + 1] in edges
            if opens != closes:
                inside_before = closes
                votes += 1 if inside_before != bool(parity) else -1
                cast += 1
                if cast == _ENOUGH:
                    break
        parity ^= length & 1
    return votes > 0
