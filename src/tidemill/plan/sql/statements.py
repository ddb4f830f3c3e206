"""Splits a script into statements and says what each one is.

Only heads are recognised here; column lists, options and queries are read by Spark's own parser
(``plan/catalyst/analyser.py``), so that they mean what they mean in Spark. The tokens are those of Spark's lexer, by
one pattern: a script is split, and a statement refused, before Spark has started, and the text of a statement and its
place in the script must stay as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tidemill.connectors.registry import know_secrets
from tidemill.errors import TidemillError, without_secrets
from tidemill.schema import Schema

_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<quoted>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`)
    |(?P<word>\w+)
    |(?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Source:
    """The text of one statement, and the line and column of the script it begins at (from 1)."""

    text: str
    line: int = 1
    column: int = 1

    def place(self, index: int) -> tuple[int, int]:
        """Line and column in the script of a position in the text."""
        down = self.text.count("\n", 0, index)
        across = index - (self.text.rfind("\n", 0, index) + 1)
        return (self.line + down, across + (1 if down else self.column))


@dataclass(frozen=True)
class CreateTable:
    """``CREATE [STATIC] TABLE [IF NOT EXISTS] name (columns [, PRIMARY KEY (...)]) USING format OPTIONS (...)``.

    STATIC is the option ``static 'true'``.
    """

    name: str
    schema: Schema
    format: str
    options: Mapping[str, str]
    if_not_exists: bool = False
    primary_key: tuple[str, ...] = ()


@dataclass(frozen=True)
class AlterTable:
    """``ALTER TABLE name PAUSE|RESUME|SET OPTIONS (...)|UNSET OPTIONS (...)``; None resets an option.

    ``paused`` is None where options are changed.
    """

    name: str
    options: Mapping[str, str | None] = field(default_factory=dict)
    paused: bool | None = None


@dataclass(frozen=True)
class CreateView:
    """``CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [TBLPROPERTIES (...)] AS query``.

    ``at`` is the line and column at which the query begins in the script.
    """

    name: str
    query: str
    properties: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False
    or_replace: bool = False
    at: tuple[int, int] = (1, 1)


@dataclass(frozen=True)
class AlterView:
    """``ALTER [MATERIALIZED] VIEW name PAUSE|RESUME|SET TBLPROPERTIES (...)|UNSET TBLPROPERTIES (...)``.

    ``paused`` is None where properties are changed; None resets one.
    """

    name: str
    paused: bool | None = None
    properties: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class CreateSink:
    """``CREATE SINK [IF NOT EXISTS] name FROM view INTO target OPTIONS (...)``."""

    name: str
    view: str
    target: str
    options: Mapping[str, str]
    if_not_exists: bool = False


@dataclass(frozen=True)
class AlterSink:
    """``ALTER SINK name PAUSE|RESUME|SET OPTIONS (...)|UNSET OPTIONS (...)``; None resets an option.

    ``paused`` is None where options are changed.
    """

    name: str
    paused: bool | None = None
    options: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Drop:
    """``DROP TABLE|VIEW|SINK [IF EXISTS] name``."""

    kind: str
    name: str
    if_exists: bool


SHOWN = ("TABLES", "VIEWS", "SINKS", "QUEUES", "CONNECTORS", "FORMATS", "OPTIONS")
"""What SHOW lists."""


@dataclass(frozen=True)
class Show:
    """``SHOW`` and one of :data:`SHOWN`."""

    kind: str


@dataclass(frozen=True)
class Describe:
    """``DESCRIBE name``."""

    name: str


@dataclass(frozen=True)
class Explain:
    """``EXPLAIN INCREMENTAL query``."""

    query: str


@dataclass(frozen=True)
class Query:
    """Any other statement that reads."""

    text: str


Statement: TypeAlias = (
    CreateTable
    | AlterTable
    | CreateView
    | AlterView
    | CreateSink
    | AlterSink
    | Drop
    | Show
    | Describe
    | Explain
    | Query
)


def split_script(script: str) -> list[Source]:
    """The statements of a script, without the semicolons between them.

    Semicolons in strings, quoted names and comments do not count. Empty statements are left out.

    Raises
    ------
    TidemillError
        TM2001 for a string or comment that is not closed, or half of a surrogate pair.
    """
    half = next((i for i, c in enumerate(script) if "\ud800" <= c <= "\udfff"), None)
    if half is not None:
        line = script.count("\n", 0, half) + 1
        hint = "half of a surrogate pair is no character: write the whole one"
        raise TidemillError("TM2001", "the SQL cannot be parsed", got=f"line {line}: {script[half]!a}", hint=hint)
    know_secrets(script)
    statements = []
    start = at = 0
    meaningful = False
    while at < len(script):
        match = _TOKEN.match(script, at)
        assert match is not None
        if (match.lastgroup == "other" and match[0] in "'\"`") or (script.startswith("/*", at) and match[0] == "/"):
            line = script.count("\n", 0, at) + 1
            raise TidemillError(
                "TM2001",
                "the SQL cannot be parsed",
                got=f"line {line}: {_shown(script, at)}",
                hint="a string, quoted name or comment that begins here is not closed",
            )
        if match.lastgroup == "other" and match[0] == ";":
            if meaningful:
                statements.append(_source(script, start, at))
            start, meaningful = match.end(), False
        elif match.lastgroup != "skip":
            meaningful = True
        at = match.end()
    if meaningful:
        statements.append(_source(script, start, len(script)))
    return statements


def _shown(script: str, at: int) -> str:
    """The text at a position; ``***`` where it is part of a secret."""
    text = script[at : at + 40].splitlines()[0]
    return "***" if without_secrets(script[:at] + text) != without_secrets(script[:at]) + text else text


def _source(script: str, start: int, end: int) -> Source:
    while True:
        match = _TOKEN.match(script, start)
        if match is None or match.lastgroup != "skip" or match.end() > end:
            break
        start = match.end()
    column = start - (script.rfind("\n", 0, start) + 1) + 1
    return Source(script[start:end].rstrip(), script.count("\n", 0, start) + 1, column)


def without_or_replace(text: str) -> tuple[str, bool]:
    """A CREATE statement with blanks in the place of OR REPLACE, and whether that was there."""
    return _blanked(text, ("CREATE", "OR", "REPLACE", "MATERIALIZED"), 2)


def without_static(text: str) -> tuple[str, bool]:
    """A CREATE TABLE statement with blanks in the place of STATIC, and whether that was there."""
    return _blanked(text, ("CREATE", "STATIC", "TABLE"), 1)


def _blanked(text: str, beginning: Sequence[str], count: int) -> tuple[str, bool]:
    """A statement with blanks in the place of ``count`` words after the first one, if it begins with these words."""
    head = words(text, len(beginning))
    if [w for w, _ in head] != [*beginning]:
        return text, False
    start, end = head[0][1], head[count][1]
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:], True


def with_properties(text: str) -> tuple[str, bool]:
    """An ALTER TABLE statement with TBLPROPERTIES in the place of OPTIONS, as Spark has it; whether that was there."""
    head = words(text, 5)
    if [w for w, _ in head[:2]] != ["ALTER", "TABLE"] or [w for w, _ in head[4:]] != ["OPTIONS"]:
        return text, False
    end = head[4][1]
    return f"{text[: end - len('OPTIONS')]}TBLPROPERTIES{text[end:]}", True


def words(text: str, count: int) -> list[tuple[str, int]]:
    """The first words of a statement in upper case, each with the position after it."""
    found: list[tuple[str, int]] = []
    at = 0
    while at < len(text) and len(found) < count:
        match = _TOKEN.match(text, at)
        assert match is not None
        if match.lastgroup != "skip":
            name = match[0][1:-1].replace("``", "`") if match[0].startswith("`") else match[0].upper()
            found.append((name, match.end()))
        at = match.end()
    return found


def tokens(text: str) -> list[tuple[str, int, int]]:
    """The tokens of a text without blanks and comments, each with where it begins and ends."""
    matches = _TOKEN.finditer(text)
    return [(m[0], m.start(), m.end()) for m in matches if m.lastgroup != "skip"]


def unquoted_name(text: str) -> str:
    """A table or view name as written, without back quotes, in lower case as Spark keeps it."""
    name = text.strip().rstrip(";").strip()
    if name.startswith("`") and name.endswith("`"):
        name = name[1:-1].replace("``", "`")
    return name.lower()


def classify(source: Source) -> Statement | None:
    """The statement if its head alone says what it is; None when Spark's parser must read it."""
    head = words(source.text, 5)
    names = [w for w, _ in head]
    if names[:2] == ["EXPLAIN", "INCREMENTAL"]:
        query = source.text[head[1][1] :].strip()
        if not query:
            raise TidemillError(
                "TM2001", "the SQL cannot be parsed", got="EXPLAIN INCREMENTAL alone", hint="write a SELECT after it"
            )
        return Explain(query)
    if names[:1] == ["SHOW"] and "".join(names[1:2]) in SHOWN:
        return Show(names[1].lower())
    if names[:1] in (["DESCRIBE"], ["DESC"]):
        skip = 2 if names[1:2] in (["TABLE"], ["VIEW"]) else 1
        return Describe(unquoted_name(source.text[head[skip - 1][1] :]))
    if names[:1] == ["DROP"]:
        at = 1
        if names[at : at + 1] == ["MATERIALIZED"]:
            at += 1
        kind = names[at : at + 1]
        if kind in (["TABLE"], ["VIEW"], ["SINK"]):
            if_exists = names[at + 1 : at + 3] == ["IF", "EXISTS"]
            end = head[at + 2 if if_exists else at][1]
            return Drop(kind[0].lower(), _only_name(source.text, end), if_exists)
    table = names[1:2] == ["TABLE"] or names[1:3] == ["STATIC", "TABLE"]
    ours = table or names[1:2] == ["SINK"]
    if names[:1] == ["CREATE"] and not ours and "MATERIALIZED" not in names[:4]:
        raise TidemillError(
            "TM2003",
            "this kind of CREATE is not supported",
            got=" ".join(names[:3]),
            hint="CREATE TABLE name (...) USING format OPTIONS (...), CREATE MATERIALIZED VIEW name AS SELECT ..., or "
            "CREATE SINK name FROM view INTO target OPTIONS (...)",
        )
    if names[:1] in (["SELECT"], ["WITH"], ["VALUES"], ["FROM"]):
        return Query(source.text)
    return None


def _only_name(text: str, start: int) -> str:
    """The one name that a statement ends with. TM2001 for anything else, which IF EXISTS would hide."""
    rest = [token for token, _, _ in tokens(text[start:])]
    if rest[-1:] == [";"]:
        rest.pop()
    if len(rest) != 1 or not re.fullmatch(r"\w+|`.*`", rest[0], re.DOTALL):
        raise TidemillError(
            "TM2001",
            "the SQL cannot be parsed",
            got=text[:200],
            hint="DROP takes one name alone, in back quotes where it has other characters than letters, digits and _",
        )
    return unquoted_name(rest[0])
