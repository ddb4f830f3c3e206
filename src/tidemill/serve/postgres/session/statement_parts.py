"""What single statements say: the query within, the name of a cursor, how many rows are wanted."""

from __future__ import annotations

import re

from tidemill.errors import TidemillError
from tidemill.serve.postgres.protocol.errors import PostgresError, not_supported
from tidemill.serve.postgres.session.copy_statement import copied
from tidemill.serve.postgres.session.statements import Kind, Statement

_READING = ("SHOW", "DESCRIBE", "DESC", "EXPLAIN")
ALL_ROWS = (1 << 63) - 1
_WHAT = re.compile(r"(\w+)(?: OR REPLACE)?(?: STATIC)? (MATERIALIZED VIEW|\w+)")


def no_such_name(name: str, state: str) -> TidemillError:
    """TM8116: there is no prepared statement (26000) or cursor (34000) of this name."""
    return PostgresError(
        "TM8116", "there is no prepared statement or cursor of this name", name, "it may have been closed", state
    )


def reads(statement: Statement) -> bool:
    return statement.kind is not Kind.MILL or statement.text.split(None, 1)[0].upper() in _READING


def query_text(statement: Statement) -> str | None:
    """The query that a statement has in it; None for none."""
    if statement.kind is Kind.QUERY:
        return statement.text
    if statement.kind is Kind.DECLARE and "FOR" in statement.words:
        return statement.from_word(statement.words.index("FOR") + 1)
    if statement.kind is Kind.COPY:
        return copied(statement).query
    if statement.kind is Kind.EXPLAIN:
        return _explained(statement)
    return None


def _explained(statement: Statement) -> str:
    words, at = statement.words, 1
    if words[at : at + 1] == ("(",) and words[at + 1 : at + 2] != ("SELECT",):
        at = words.index(")") + 1 if ")" in words else len(words)
    while words[at : at + 1] in (("VERBOSE",), ("ANALYZE",), ("ANALYSE",)):
        at += 1
    if {"ANALYZE", "ANALYSE"} & set(words[1:at]):
        raise not_supported("EXPLAIN ANALYZE", "EXPLAIN, without running the query")
    return statement.from_word(at)


def tag_of(text: str) -> str:
    """``CREATE MATERIALIZED VIEW``, ``DROP VIEW`` and so on: what was done to what."""
    match = _WHAT.match(" ".join(text.upper().split()[:6]))
    return " ".join(match.groups()) if match is not None else text.split(None, 1)[0].upper()


def cursor_name(word: str) -> str:
    return word.lower()


def fetch_count(statement: Statement) -> int:
    """How many rows FETCH wants. TM8111 for another direction than forward."""
    words = [w for w in statement.words[1:-1] if w not in ("FROM", "IN", "FORWARD")]
    if not words:
        return 1
    if words == ["NEXT"]:
        return 1
    if words == ["ALL"]:
        return ALL_ROWS
    if len(words) == 1 and words[0].isdigit():
        return int(words[0])
    raise not_supported(statement.text[:80], "rows are given forward: FETCH [FORWARD] n | ALL | NEXT FROM cursor")
