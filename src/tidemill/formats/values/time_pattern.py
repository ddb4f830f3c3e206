"""Compile the part of Spark's datetime patterns that has one fixed layout into a table for the kernels."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

LITERAL = 0
YEAR = 1
MONTH = 2
DAY = 3
HOUR = 4
MINUTE = 5
SECOND = 6
FRACTION = 7

_FIELDS = {"yyyy": YEAR, "MM": MONTH, "dd": DAY, "HH": HOUR, "mm": MINUTE, "ss": SECOND}
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>[^A-Za-z'\[\]{}#])", re.DOTALL)

NO_PATTERN = np.zeros((0, 2), np.int32)
"""Stands for the default layout of the type."""


def compile_pattern(pattern: str) -> npt.NDArray[np.int32]:
    """The steps of a pattern.

    Supported are ``yyyy MM dd HH mm ss``, ``S`` to ``SSSSSSSSS`` (one digit up to that many), characters that
    are not letters, and text in single quotes (``''`` is one quote), each field at most once.

    Returns
    -------
    ndarray of int32, shape (steps, 2)
        Kind of step, and the byte of a literal or the most digits of a fraction.

    Raises
    ------
    ValueError
        For everything else in Spark's pattern language; the text says what.
    """
    if not pattern:
        raise ValueError("the pattern is empty")
    steps: list[tuple[int, int]] = []
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            raise ValueError(f"{pattern[position]!r} is not supported")
        position = token.end()
        if letters := token["letters"]:
            kind = FRACTION if re.fullmatch("S{1,9}", letters) else _FIELDS.get(letters)
            if kind is None:
                raise ValueError(f"{letters!r} is not supported")
            if any(kind == earlier for earlier, _ in steps):
                raise ValueError(f"{letters!r} occurs twice")
            steps.append((kind, len(letters)))
        else:
            quoted = token["quoted"]
            text = token["other"] if quoted is None else (quoted.replace("''", "'") or "'")
            steps.extend((LITERAL, byte) for byte in text.encode())
    return np.array(steps, np.int32)
