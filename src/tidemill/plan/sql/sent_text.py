"""Places that errors name, in the texts that a client sent: they count in the statement that was made of those."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidemill.errors import TidemillError, without_secrets
from tidemill.plan.sql.statements import Source

_IN_SCRIPT = re.compile(r" \(line (\d+), column (\d+) of the script\)")
_PLACE = re.compile(r"(?:,? ?\bat )?\bline (\d+), column (\d+)(?P<of> of the query)?")
_LINE = re.compile(r"^line (\d+): ")
_BEGINS = re.compile(r"the statement begins on line \d+: .*")


@dataclass(frozen=True)
class Sent:
    """A text that a client sent, as a part of a statement.

    Attributes
    ----------
    name : str
        How messages name it.
    text : str
        As it was sent.
    start : int
        Its position in the statement.
    """

    name: str
    text: str
    start: int


@contextmanager
def places_in(statement: str, *sent: Sent) -> Iterator[None]:
    """Errors of a statement name places in the texts that were sent, and none where these have no such place.

    Parameters
    ----------
    sent : Sent
        In the order of the statement. The end of a text is also the place of the word behind it.
    """
    try:
        yield
    except TidemillError as error:
        got, hint = (_with_places(text, statement, sent) for text in (error.got, error.hint))
        raise type(error)(error.number, error.what, got, hint) from error


def _with_places(message: str, statement: str, sent: tuple[Sent, ...]) -> str:
    script = _IN_SCRIPT.search(message)
    message = _BEGINS.sub("", _IN_SCRIPT.sub("", message))

    def placed(match: re.Match[str]) -> str:
        line, column = (int(n) for n in (script or match).groups()[:2])
        found = _sent_at(_index(statement, line, column), statement, sent)
        if found is None:
            return ""
        part, index = found
        line, column = Source(part.text).place(index)
        before = match[0][: match[0].index("line")]
        return f"{before}line {line}, column {column} of {part.name}"

    def on_line(match: re.Match[str]) -> str:
        for part in sent:
            line = int(match[1]) - statement.count("\n", 0, part.start)
            if 1 <= line <= part.text.count("\n") + 1:
                return f"line {line}: "
        return ""

    message = _LINE.sub(on_line, _PLACE.sub(placed, message))
    return message.replace(f" of: {without_secrets(statement).splitlines()[0][:80]}", "").lstrip(", :")


def _index(statement: str, line: int, column: int) -> int:
    """The position of a place in a statement."""
    return sum(len(text) + 1 for text in statement.split("\n")[: line - 1]) + column - 1


def _sent_at(index: int, statement: str, sent: tuple[Sent, ...]) -> tuple[Sent, int] | None:
    """The text that a position is in, or at the end of, and the position in it; None for others."""
    for part in sent:
        end = part.start + len(part.text)
        if part.start <= index and not statement[end:index].strip():
            return part, min(index, end) - part.start
    return None
