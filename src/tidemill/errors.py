"""Numbered errors: what was wrong, what was found, and a hint.

A number is stable for ever; every number is listed in ``docs/errors.md`` and asserted in a test.

Ranges: TM1xxx root and state, TM2xxx SQL and plan, TM3xxx evaluating rows, TM4xxx formats,
TM5xxx sources, TM6xxx environment, TM7xxx usage of the API, TM8xxx server and sinks, TM9xxx loader.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

SECRET_OPTIONS: set[str] = set()
"""Names in lower case of options whose values are neither shown nor stored; see :func:`keep_secret`."""


def keep_secret(names: Iterable[str]) -> None:
    """Hide the values of these options from now on; names are case-insensitive."""
    SECRET_OPTIONS.update(name.lower() for name in names)


@cache
def _secret(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(
        rf"""(?is)\b({"|".join(map(re.escape, names))})([`'"]?(?:\s*=\s*|\s+|(?=['"])))"""
        r"""("(?:[^"\\]|\\.|"")*"?|'(?:[^'\\]|\\.|'')*'?|(?<==)[^\s'"`,)]+|(?<==\s)[^\s'"`,)]+)"""
    )


def without_secrets(text: str) -> str:
    """The text of a statement with ``***`` in place of the values of options with secrets."""
    return _secret(tuple(sorted(SECRET_OPTIONS))).sub(r"\1\2***", text) if SECRET_OPTIONS else text


def as_utf8(text: str) -> str:
    """A text that every protocol can send: half of a surrogate pair, as in names of files that are not UTF-8, is
    written as an escape.
    """
    return text.encode("utf-8", "backslashreplace").decode()


class TidemillError(Exception):
    """An error with a stable number.

    Parameters
    ----------
    number : str
        ``TM`` and four digits.
    what : str
        What was wrong, one sentence.
    got : str
        What was found.
    hint : str
        What the reader can do about it.

    Attributes
    ----------
    passed : list
        Catalyst nodes that the error was raised through, innermost first, each with whether it is an operator. They
        have the position in the query. Not pickled.
    """

    def __init__(self, number: str, what: str, got: str = "", hint: str = "") -> None:
        self.number = number
        self.what = as_utf8(what)
        self.got = as_utf8(without_secrets(got))
        self.hint = as_utf8(without_secrets(hint))
        self.passed: list[tuple[Any, bool]] = []
        super().__init__(self.message())

    def message(self) -> str:
        """The error as text: number and what, then ``got`` and ``hint`` on lines of their own."""
        lines = [f"{self.number}: {self.what}"]
        if self.got:
            lines.append(f"  got:  {self.got}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[type, tuple[str, str, str, str]]:
        return (type(self), (self.number, self.what, self.got, self.hint))


class EvaluationError(TidemillError):
    """A row made an expression fail (TM3xxx). Only views with that expression fail."""


class FormatError(TidemillError):
    """Bytes could not be read as rows (TM4xxx)."""


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Add a line to the hint of errors: the place in a script that they concern."""
    try:
        yield
    except TidemillError as error:
        hint = f"{error.hint}\n        {where}" if error.hint else where
        raise type(error)(error.number, error.what, error.got, hint) from error


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint naming the closest valid name, or the list of all of them."""
    names = sorted(valid)
    close = difflib.get_close_matches(name.lower(), [n.lower() for n in names], n=1)
    if close:
        original = next(n for n in names if n.lower() == close[0])
        return f"did you mean {original!r}?"
    return "valid names: " + ", ".join(names)
