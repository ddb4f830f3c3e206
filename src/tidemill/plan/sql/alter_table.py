"""Reads ``ALTER TABLE name SET OPTIONS (name 'value', ...)`` and ``ALTER TABLE name UNSET OPTIONS (name, ...)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.errors import TidemillError
from tidemill.plan.sql.statements import Source, tokens, unquoted_name

_QUOTES = "'\"`"


@dataclass(frozen=True)
class AlterTable:
    """Other values for some options of a table, by their names as written; None takes an option back."""

    name: str
    options: Mapping[str, str | None]


def parse_alter_table(source: Source) -> AlterTable | None:
    """The statement; None for a text that begins otherwise. TM2001 when it cannot be parsed."""
    found = tokens(source.text.rstrip().rstrip(";"))
    words = [text.upper() for text, _, _ in found]
    if words[:2] != ["ALTER", "TABLE"]:
        return None
    if len(words) < 7 or words[4:6] != ["OPTIONS", "("] or words[3] not in ("SET", "UNSET") or words[-1] != ")":
        raise _cannot_be_parsed(source)
    name = unquoted_name(found[2][0])
    options: dict[str, str | None] = {}
    for entry in _entries(found[6:-1]):
        key, *value = entry
        if value[:1] == ["="]:
            value = value[1:]
        if (words[3] == "SET") != bool(value) or not (key[0] in _QUOTES or key.isidentifier()):
            raise _cannot_be_parsed(source)
        if len(value) > 1 and any(part[0] in _QUOTES for part in value):
            raise _cannot_be_parsed(source)
        options[_text(key)] = "".join(map(_text, value)) if value else None
    if not options:
        raise _cannot_be_parsed(source)
    return AlterTable(name, options)


def _entries(found: list[tuple[str, int, int]]) -> list[list[str]]:
    """What stands between commas; an empty entry makes a list with an empty text."""
    entries: list[list[str]] = [[]]
    for text, _, _ in found:
        if text == ",":
            entries.append([])
        else:
            entries[-1].append(text)
    return [entry or [","] for entry in entries]


def _text(token: str) -> str:
    return token[1:-1] if token[0] in _QUOTES else token


def _cannot_be_parsed(source: Source) -> TidemillError:
    return TidemillError(
        "TM2001",
        "the SQL cannot be parsed",
        got=f"line {source.line}: {source.text.splitlines()[0][:80]}",
        hint="ALTER TABLE name SET OPTIONS (maxErrors '100'), or UNSET OPTIONS (maxErrors)",
    )
