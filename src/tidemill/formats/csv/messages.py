"""Messages of CSV that are not complete rows: a quote is open at their end."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tidemill.errors import TidemillError
from tidemill.formats.csv.options import parse_options
from tidemill.formats.text.line_ends import NO_BYTE, OPEN, LineRules, scan_row_ends
from tidemill.options.option import bad_option

_NEWLINE = b"\n"


def message_boundary(options: Mapping[str, str]) -> Callable[[bytes | bytearray], int]:
    """A function that finds the first message that leaves a quote open.

    A reader would take such a message and those behind it for one row. The function takes messages with newlines at
    their ends, and returns the offset behind the message that it finds, or -1.

    Raises
    ------
    TidemillError
        TM4003 for a header, or for separators, line ends or quotes beyond those of
        :class:`~tidemill.formats.text.line_ends.LineRules`.
    """
    parsed = parse_options(options)
    if parsed.header:
        raise bad_option("header", "true", "messages have no header; leave it out, columns are those declared")
    rules = parsed.lines
    if not isinstance(rules, LineRules):
        raise _too_general(options)
    quote = rules.quote
    if quote == NO_BYTE:
        return lambda _: -1
    return lambda messages: _open_message(messages, rules) if quote in messages else -1


def _too_general(options: Mapping[str, str]) -> TidemillError:
    name = next((n for n in ("escape", "charToEscapeQuoteEscaping", "lineSep", "sep") if n.lower() in options), "sep")
    hint = "sockets take CSV with separators of one byte, lines that end with newlines, and doubled quotes"
    return bad_option(name, options.get(name.lower(), ""), hint)


def _open_message(messages: bytes | bytearray, rules: LineRules) -> int:
    data = np.frombuffer(messages, np.uint8)
    if _complete(data, rules):
        return -1
    ends = np.flatnonzero(data == _NEWLINE[0]) + 1
    low, high = 0, len(ends) - 1  # the first prefix that is not complete is searched by halves
    while low < high:
        middle = (low + high) // 2
        if _complete(data[: ends[middle]], rules):
            low = middle + 1
        else:
            high = middle
    return int(ends[low])


def _complete(data: np.ndarray, rules: LineRules) -> bool:
    """Whether every newline ends a row."""
    found = scan_row_ends(data, 0, rules.separator, rules.quote, rules.leading, OPEN)
    return int(found[0]) == int(np.count_nonzero(data == _NEWLINE[0]))
