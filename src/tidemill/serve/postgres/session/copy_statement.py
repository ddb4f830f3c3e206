"""COPY ... TO STDOUT: the query whose rows are given, and the format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tidemill.errors import TidemillError, nearest
from tidemill.serve.postgres.protocol.errors import PostgresError
from tidemill.serve.postgres.query.parsing import writes
from tidemill.serve.postgres.session.statements import Statement
from tidemill.serve.postgres.values.copy_rows import CopyFormat

_OPTIONS = ("format", "delimiter", "null", "header", "quote", "escape", "force_quote", "encoding", "freeze")
_BINARY_STATES = {"delimiter": "42601", "null": "42601", "header": "0A000"}
_TRUE, _FALSE = ("", "true", "on", "1"), ("false", "off", "0")
_NOT_IN_TEXT = "\\.abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True)
class Copied:
    """What COPY gives.

    Attributes
    ----------
    query : str
        A table's rows are those of a query, too.
    format : CopyFormat
    """

    query: str
    format: CopyFormat


def copied(statement: Statement) -> Copied:
    """What a COPY statement gives.

    Raises
    ------
    TidemillError
        TM8110 when it reads from a client or writes a file, TM8123 when it is not understood, TM8128 for options that
        cannot be.
    """
    reader = _Reader(statement, 1)
    options: dict[str, Any] = {}
    if reader.is_word("BINARY") and not reader.is_word("TO", ahead=1):
        reader.next()
        options["format"] = "binary"
    if reader.is_word("("):
        query = reader.parentheses()
    else:
        query = reader.table()
    if not reader.is_word("TO") or not reader.is_word("STDOUT", ahead=1):
        raise writes(statement.text)
    reader.next(2)
    if reader.is_word("WITH"):
        reader.next()
    if reader.is_word("("):
        _add(options, _listed(reader))
    else:
        _add(options, _loose(reader))
    if not reader.ended:
        raise reader.unexpected()
    return Copied(query, _format(options))


@dataclass
class _Reader:
    """The tokens of a statement, one after the other."""

    statement: Statement
    at: int
    started: int = field(default=0)

    @property
    def ended(self) -> bool:
        return self.at >= len(self.statement.words)

    def is_quoted(self, ahead: int = 0) -> bool:
        if self.at + ahead >= len(self.statement.starts):
            return False
        start = self.statement.starts[self.at + ahead]
        return self.statement.text[start] in "\"'$" or self.statement.text[start : start + 2] in ("E'", "e'")

    def is_text(self) -> bool:
        """Whether the token is a text in quotes."""
        return self.is_quoted() and self.statement.text[self.statement.starts[self.at]] != '"'

    def is_word(self, word: str, ahead: int = 0) -> bool:
        """Whether a token is a word that is not in quotes, or a sign."""
        at = self.at + ahead
        return at < len(self.statement.words) and self.statement.words[at] == word and not self.is_quoted(ahead)

    def next(self, count: int = 1) -> str:
        """The token, as it is written. TM8123 at the end."""
        if self.ended:
            raise self.unexpected()
        found = self.statement.written[self.at]
        self.at += count
        return found

    def parentheses(self) -> str:
        """The text within a pair of parentheses."""
        opened, depth = self.statement.starts[self.at], 0
        while not self.ended:
            depth += 1 if self.is_word("(") else -1 if self.is_word(")") else 0
            self.next()
            if not depth:
                return self.statement.text[opened + 1 : self.statement.starts[self.at - 1]]
        raise self.unexpected()

    def table(self) -> str:
        """A SELECT of a table or view, and of its columns where they are named."""
        start = self.at
        self.next()
        while self.is_word("."):
            self.next(2)
        if self.ended or self.is_word("TO", ahead=start - self.at):
            raise self.unexpected()
        name = self.statement.text[self.statement.starts[start] : self.statement.starts[self.at]].strip()
        columns = self.parentheses() if self.is_word("(") else "*"
        return f"SELECT {columns} FROM {name}"

    def text(self) -> str:
        """A value in quotes, behind AS or not. TM8123 for anything else."""
        if self.is_word("AS"):
            self.next()
        if not self.is_text():
            raise self.unexpected()
        found = self.next()
        if found[:2] in ("E'", "e'"):
            found = found[2:-1].encode("latin-1", "backslashreplace").decode("unicode_escape")
        return found

    def names(self) -> list[str]:
        """``*``, or names within parentheses."""
        if self.is_word("*"):
            self.next()
            return ["*"]
        if not self.is_word("("):
            raise self.unexpected()
        found = []
        while not self.is_word(")"):
            self.next()
            found.append(self.next())
            if not (self.is_word(",") or self.is_word(")")):
                raise self.unexpected()
        self.next()
        return found

    def unexpected(self) -> TidemillError:
        """TM8123 at the token."""
        near = self.statement.from_word(self.at)[:40] or "the end"
        return TidemillError(
            "TM8123",
            "the SQL of the query cannot be parsed",
            got=f"COPY, near: {near}",
            hint="COPY view | (query) TO STDOUT [WITH (FORMAT csv, HEADER)]",
        )


def _listed(reader: _Reader) -> Iterator[tuple[str, Any]]:
    """``(FORMAT csv, HEADER, NULL 'x')``."""
    while True:
        reader.next()
        name, value = reader.next().lower(), ""
        if name == "force_quote":
            yield name, reader.names()
        else:
            if not (reader.is_word(",") or reader.is_word(")")):
                value = reader.text() if reader.is_text() else reader.next()
            yield name, value
        if reader.is_word(")"):
            reader.next()
            return
        if not reader.is_word(","):
            raise reader.unexpected()


def _loose(reader: _Reader) -> Iterator[tuple[str, Any]]:
    """``CSV HEADER NULL AS 'x'``: the form of options before version 9, which psql's users still write."""
    while not reader.ended:
        if reader.is_quoted():
            raise reader.unexpected()
        word = reader.next().upper()
        if word in ("CSV", "BINARY"):
            yield "format", word.lower()
        elif word == "HEADER":
            yield "header", ""
        elif word in ("DELIMITER", "NULL", "QUOTE", "ESCAPE", "ENCODING"):
            yield word.lower(), reader.text()
        elif word == "FORCE" and reader.is_word("QUOTE"):
            reader.next()
            yield "force_quote", _unparenthesised(reader)
        else:
            reader.at -= 1
            raise reader.unexpected()


def _unparenthesised(reader: _Reader) -> list[str]:
    if reader.is_word("*"):
        return reader.names()
    found = [reader.next()]
    while reader.is_word(","):
        reader.next()
        found.append(reader.next())
    return found


def _add(options: dict[str, Any], given: Iterator[tuple[str, Any]]) -> None:
    for name, value in given:
        if name not in _OPTIONS:
            raise _cannot(f"option {name}", nearest(name, _OPTIONS), "42601")
        if name in options:
            raise _cannot(f"{name} twice", "give each option once", "42601")
        options[name] = value


def _format(options: dict[str, Any]) -> CopyFormat:
    kind = str(options.get("format", "text")).lower()
    if kind not in ("text", "csv", "binary"):
        raise _cannot(f"format {kind}", "text, csv or binary")
    if str(options.get("encoding", "utf8")).lower().replace("-", "") not in ("utf8", "unicode"):
        raise _cannot(f"encoding {options['encoding']}", "everything is UTF8")
    header = _flag("header", options.get("header", "false"))
    _flag("freeze", options.get("freeze", "false"))
    for name in ("quote", "escape", "force_quote"):
        if name in options and kind != "csv":
            raise _cannot(f"{name} in format {kind}", "it is for format csv", "0A000")
    if kind == "binary":
        for name in _BINARY_STATES:
            if name in options and (name != "header" or header):
                raise _cannot(f"{name} in format binary", "it is for formats text and csv", _BINARY_STATES[name])
        return CopyFormat(kind)
    found = CopyFormat(
        kind,
        options.get("delimiter", "," if kind == "csv" else "\t"),
        options.get("null", "" if kind == "csv" else "\\N"),
        header,
        options.get("quote", '"'),
        options.get("escape", options.get("quote", '"')),
        tuple(n.lower() for n in options.get("force_quote", ())),
    )
    _check(found)
    return found


def _check(given: CopyFormat) -> None:
    """TM8128 for characters that would make rows ambiguous."""
    for name, value in (("delimiter", given.delimiter), ("quote", given.quote), ("escape", given.escape)):
        if len(value.encode()) != 1:
            raise _cannot(f"{name} {value!r}", "a single character of ASCII", "0A000")
    csv, unsupported, invalid = given.kind == "csv", "0A000", "22023"
    rules: tuple[tuple[bool, str, str], ...] = (
        (given.delimiter in "\r\n", "a delimiter is no end of line", invalid),
        ("\r" in given.null or "\n" in given.null, "the text for NULL has no end of line", invalid),
        (not csv and given.delimiter in _NOT_IN_TEXT, "another delimiter: values would have it", invalid),
        (csv and given.delimiter == given.quote, "delimiter and quote differ", invalid),
        (given.delimiter in given.null, "the text for NULL has no delimiter", unsupported),
        (csv and given.quote in given.null, "the text for NULL has no quote", unsupported),
    )
    for wrong, hint, state in rules:
        if wrong:
            got = f"delimiter {given.delimiter!r}, null {given.null!r}, quote {given.quote!r}"
            raise _cannot(got, hint, state)


def _flag(name: str, value: str) -> bool:
    if value.lower() not in (*_TRUE, *_FALSE):
        raise _cannot(f"{name} {value}", "true or false", "42601")
    return value.lower() in _TRUE


def _cannot(got: str, hint: str, state: str = "22023") -> TidemillError:
    return PostgresError("TM8128", "an option of COPY cannot be so", got[:200], hint, state)
