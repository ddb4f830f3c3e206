"""What a statement is, in a few words that have no values in them."""

from __future__ import annotations

import re

from tidemill.plan.sql.statements import words

_READING = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "EXPLAIN")
_CHANGING = ("CREATE", "ALTER", "DROP")
_BETWEEN = ("OR", "REPLACE", "STATIC", "MATERIALIZED")
_THINGS = ("TABLE", "VIEW", "SINK", "ADAPTOR")
_NAME = re.compile(r"[\w.$-]{1,128}")


def named(statement: str) -> tuple[str, str]:
    """Kind and name of a statement, such as ``("CREATE VIEW", "spending")``; the name is empty where there is none.

    Only known words and names of things are given, whatever else the text has.
    """
    found = [word for word, _ in words(statement, 12)]
    if not found:
        return "statement", ""
    first = found[0].upper()
    if first == "(":
        return "SELECT", ""
    if first in _READING:
        return first, ""
    if first not in _CHANGING:
        return "statement", ""
    rest = found[1:]
    while rest and rest[0] in _BETWEEN:
        rest.pop(0)
    if not rest or rest[0] not in _THINGS:
        return first, ""
    thing = rest.pop(0)
    if rest[:2] == ["IF", "EXISTS"]:
        rest = rest[2:]
    elif rest[:3] == ["IF", "NOT", "EXISTS"]:
        rest = rest[3:]
    name = rest[0].lower() if rest and _NAME.fullmatch(rest[0]) else ""
    return f"{first} {thing}", name
