"""Statements that Spark does not have: their heads are read here, options and properties by Spark's parser.

CREATE SINK s FROM v INTO parquet OPTIONS (...)    ->    CREATE TABLE s      USING parquet OPTIONS (...)
ALTER SINK s SET OPTIONS (...)                     ->    ALTER TABLE s SET OPTIONS (...)
ALTER VIEW v SET TBLPROPERTIES (...)               ->    ALTER TABLE v SET TBLPROPERTIES (...)
ALTER TABLE|VIEW|SINK n PAUSE|RESUME               ->    read here
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidemill.errors import TidemillError
from tidemill.plan.sql.statements import AlterSink, AlterTable, AlterView, Source, tokens, unquoted_name, words

_CREATE = "CREATE SINK [IF NOT EXISTS] name FROM view INTO target OPTIONS (name 'value', ...)"
_PARTS = {"SINK": "OPTIONS", "VIEW": "TBLPROPERTIES"}
"""What ALTER sets of them."""

_ALTER = {
    "SINK": "ALTER SINK name PAUSE, RESUME, SET OPTIONS (name 'value', ...) or UNSET OPTIONS (name, ...)",
    "VIEW": "ALTER VIEW name PAUSE, RESUME, SET TBLPROPERTIES ('name' = 'value', ...) or UNSET TBLPROPERTIES "
    "('name', ...)",
    "TABLE": "ALTER TABLE name PAUSE, RESUME, SET OPTIONS (name 'value', ...) or UNSET OPTIONS (name, ...)",
}


@dataclass(frozen=True)
class AsTable:
    """A statement about a sink or view as one about a table, which Spark's parser reads.

    ``kind`` is ``SINK`` or ``VIEW``; ``view`` is what a new sink reads.
    """

    text: str
    kind: str
    view: str = ""


def changes_sinks(source: Source) -> bool:
    """Whether a statement is CREATE, ALTER or DROP SINK, by its first words."""
    first = [word for word, _ in words(source.text, 3)]
    return first[:1] in (["CREATE"], ["ALTER"], ["DROP"]) and "SINK" in (
        first[1:] if first[1:2] == ["MATERIALIZED"] else first[1:2]
    )


def own_statement(source: Source) -> AsTable | AlterSink | AlterView | AlterTable | None:
    """What a statement says that Spark does not have; None for another one.

    Raises
    ------
    TidemillError
        TM2001 when its head is not understood.
    """
    found = tokens(source.text)
    upper = [text.upper() for text, _, _ in found]
    if upper[:2] == ["CREATE", "SINK"]:
        return _create(source, found, upper)
    if upper[:3] == ["ALTER", "MATERIALIZED", "VIEW"]:
        del found[1], upper[1]
    if upper[:1] == ["ALTER"] and upper[1:2] in (["SINK"], ["VIEW"]):
        return _alter(source, found, upper)
    if upper[:2] == ["ALTER", "TABLE"] and upper[3:] in (["PAUSE"], ["RESUME"]) and _is_name(found[2][0]):
        return AlterTable(unquoted_name(found[2][0]), paused=upper[3] == "PAUSE")
    return None


def _create(source: Source, found: list[tuple[str, int, int]], upper: list[str]) -> AsTable:
    at = 5 if upper[2:5] == ["IF", "NOT", "EXISTS"] else 2
    expected = {at + 1: "FROM", at + 3: "INTO"}
    for place, word in expected.items():
        if upper[place : place + 1] != [word]:
            raise _unparsed(source, found, place, f"{word} is missing: {_CREATE}")
    for place in (at, at + 2, at + 4):
        if place >= len(found) or not _is_name(found[place][0]):
            raise _unparsed(source, found, place, f"a name is missing: {_CREATE}")
    rest = at + 5
    if upper[rest:] and upper[rest : rest + 2] != ["OPTIONS", "("]:
        raise _unparsed(source, found, rest, f"OPTIONS is expected: {_CREATE}")
    if ")" in upper[rest:-1]:
        raise _unparsed(source, found, upper.index(")", rest) + 1, "nothing follows the options")
    text = source.text
    start, end = found[at + 1][1], found[at + 3][2]
    blank = re.sub(r"[^\n]", " ", text[start : end - len("USING")])
    table = _table(text[:start], found) + blank + "USING" + text[end:]
    return AsTable(table, "SINK", unquoted_name(found[at + 2][0]))


def _alter(source: Source, found: list[tuple[str, int, int]], upper: list[str]) -> AsTable | AlterSink | AlterView:
    kind = upper[1]
    if len(found) < 4 or not _is_name(found[2][0]):
        raise _unparsed(source, found, 2 if len(found) < 3 else 3, _ALTER[kind])
    if upper[3] in ("PAUSE", "RESUME") and len(upper) == 4:
        made = AlterSink if kind == "SINK" else AlterView
        return made(unquoted_name(found[2][0]), upper[3] == "PAUSE")
    if upper[3] in ("SET", "UNSET") and upper[4:5] == [_PARTS[kind]]:
        return AsTable(_table(source.text, found), kind)
    raise _unparsed(source, found, 3, _ALTER[kind])


def _table(text: str, found: list[tuple[str, int, int]]) -> str:
    """A statement with TABLE in the place of SINK or VIEW."""
    begin = found[0][2]
    blank = re.sub(r"[^\n]", " ", text[begin : found[1][1]])
    return text[:begin] + blank + "TABLE" + text[found[1][2] :]


def _is_name(token: str) -> bool:
    return token.startswith("`") or re.fullmatch(r"\w+", token) is not None


def _unparsed(source: Source, found: list[tuple[str, int, int]], at: int, hint: str) -> TidemillError:
    line, column = source.place(found[at][1] if at < len(found) else len(source.text))
    got = f"line {line}, column {column} of: {source.text.splitlines()[0][:80]}"
    return TidemillError("TM2001", "the SQL cannot be parsed", got=got, hint=hint)
