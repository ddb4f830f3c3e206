"""CREATE SINK and ALTER SINK: their heads are read here, their options as those of a table by Spark's parser.

CREATE SINK s FROM v INTO parquet OPTIONS (...)    ->    CREATE TABLE s      USING parquet OPTIONS (...)
ALTER SINK s SET OPTIONS (...)                     ->    ALTER TABLE s SET OPTIONS (...)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidemill.errors import TidemillError
from tidemill.plan.sql.statements import AlterSink, Source, tokens, unquoted_name, words

_CREATE = "CREATE SINK [IF NOT EXISTS] name FROM view INTO target OPTIONS (name 'value', ...)"
_ALTER = "ALTER SINK name PAUSE, RESUME, SET OPTIONS (name 'value', ...) or UNSET OPTIONS (name, ...)"


@dataclass(frozen=True)
class SinkText:
    """A statement about a sink as one about a table, which Spark's parser reads.

    ``view`` is what the sink reads; empty for ALTER.
    """

    text: str
    view: str = ""


def changes_sinks(source: Source) -> bool:
    """Whether a statement is CREATE, ALTER or DROP SINK, by its first words."""
    first = [word for word, _ in words(source.text, 3)]
    return first[:1] in (["CREATE"], ["ALTER"], ["DROP"]) and "SINK" in (
        first[1:] if first[1:2] == ["MATERIALIZED"] else first[1:2]
    )


def sink_statement(source: Source) -> SinkText | AlterSink | None:
    """What a statement says of a sink; None for one about something else.

    Raises
    ------
    TidemillError
        TM2001 when its head is not understood.
    """
    found = tokens(source.text)
    words = [text.upper() for text, _, _ in found]
    if words[:2] == ["CREATE", "SINK"]:
        return _create(source, found, words)
    if words[:2] == ["ALTER", "SINK"]:
        return _alter(source, found, words)
    return None


def _create(source: Source, found: list[tuple[str, int, int]], words: list[str]) -> SinkText:
    at = 5 if words[2:5] == ["IF", "NOT", "EXISTS"] else 2
    expected = {at + 1: "FROM", at + 3: "INTO"}
    for place, word in expected.items():
        if words[place : place + 1] != [word]:
            raise _unparsed(source, found, place, f"{word} is missing: {_CREATE}")
    for place in (at, at + 2, at + 4):
        if place >= len(found) or not _is_name(found[place][0]):
            raise _unparsed(source, found, place, f"a name is missing: {_CREATE}")
    rest = at + 5
    if words[rest:] and words[rest : rest + 2] != ["OPTIONS", "("]:
        raise _unparsed(source, found, rest, f"OPTIONS is expected: {_CREATE}")
    if ")" in words[rest:-1]:
        raise _unparsed(source, found, words.index(")", rest) + 1, "nothing follows the options")
    text = source.text
    start, end = found[at + 1][1], found[at + 3][2]
    blank = re.sub(r"[^\n]", " ", text[start : end - len("USING")])
    table = _table(text[:start], found) + blank + "USING" + text[end:]
    return SinkText(table, unquoted_name(found[at + 2][0]))


def _alter(source: Source, found: list[tuple[str, int, int]], words: list[str]) -> SinkText | AlterSink:
    if len(found) < 4 or not _is_name(found[2][0]):
        raise _unparsed(source, found, 2 if len(found) < 3 else 3, _ALTER)
    if words[3] in ("PAUSE", "RESUME") and len(words) == 4:
        return AlterSink(unquoted_name(found[2][0]), words[3] == "PAUSE")
    if words[3] in ("SET", "UNSET") and words[4:5] == ["OPTIONS"]:
        return SinkText(_table(source.text, found))
    raise _unparsed(source, found, 3, _ALTER)


def _table(text: str, found: list[tuple[str, int, int]]) -> str:
    """A statement with TABLE in the place of SINK, its second word."""
    return text[: found[1][1]] + "TABLE" + text[found[1][2] :]


def _is_name(token: str) -> bool:
    return token.startswith("`") or re.fullmatch(r"\w+", token) is not None


def _unparsed(source: Source, found: list[tuple[str, int, int]], at: int, hint: str) -> TidemillError:
    line, column = source.place(found[at][1] if at < len(found) else len(source.text))
    got = f"line {line}, column {column} of: {source.text.splitlines()[0][:80]}"
    return TidemillError("TM2001", "the SQL cannot be parsed", got=got, hint=hint)
