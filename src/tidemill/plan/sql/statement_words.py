"""Classifies statements by their first word, without Spark: reading, declaring or unknown."""

from __future__ import annotations

from tidemill.errors import TidemillError, nearest, without_secrets
from tidemill.plan.sql.own_statements import own_statement
from tidemill.plan.sql.statements import Describe, Explain, Query, Show, Source, classify, split_script, tokens, words

READING = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
"""The words that a query begins with."""

_SHOWING = ("SHOW", "DESCRIBE", "DESC", "EXPLAIN")
_DECLARING = ("CREATE", "ALTER", "DROP")
_WRITING = ("INSERT", "DELETE", "UPDATE", "MERGE", "TRUNCATE", "LOAD", "REPLACE", "MAP", "REDUCE")
_OTHERS = (
    *("ADD", "ANALYZE", "BEGIN", "CACHE", "CALL", "CLEAR", "COMMENT", "COMMIT", "DECLARE", "DFS", "EXECUTE", "EXPORT"),
    *("GRANT", "IMPORT", "LIST", "LOCK", "MSCK", "REFRESH", "REPAIR", "RESET", "REVOKE", "ROLLBACK", "SET", "START"),
    *("UNCACHE", "UNLOCK", "USE"),
)
"""Spark's other statements."""

_KNOWN = (*READING, *_SHOWING, *_DECLARING, *_WRITING, *_OTHERS)
_WHERE = {
    **dict.fromkeys(_DECLARING, "put it into a script for `tidemill run`, or give it to mill.sql()"),
    **dict.fromkeys(_WRITING, "tables get their rows from sources, and views follow"),
}


def head(source: Source) -> str:
    """The first word of a statement in upper case.

    Raises
    ------
    TidemillError
        TM2001 when no statement begins with it.
    """
    word = words(source.text, 1)[0][0]
    if word not in _KNOWN:
        known = [w for w in _KNOWN if w.isalpha()]
        close = nearest(word, known)
        hint = close if close.startswith("did") else "a statement begins with SELECT, CREATE, DROP, SHOW or DESCRIBE"
        raise TidemillError("TM2001", "the SQL cannot be parsed", got=f"line {source.line}: {_line(source)}", hint=hint)
    return word


def parse_reading(text: str) -> Query | Show | Describe | Explain:
    """The one statement in a text, which only reads.

    ``Query`` is also any SHOW, DESCRIBE or EXPLAIN that is not Tidemill's own.

    Raises
    ------
    TidemillError
        TM2024 for several statements or none, and for one that does not read, TM2001 when it cannot be parsed.
    """
    found = split_script(text)
    if len(found) != 1:
        raise TidemillError(
            "TM2024", "a query is one statement", got=f"{len(found)} statements", hint="send one at a time"
        )
    word = head(found[0])
    if word not in (*READING, *_SHOWING):
        raise no_query(found[0].text, _WHERE.get(word, "Spark's other commands have no meaning for a mill"))
    known = classify(found[0]) if word in _SHOWING else None
    if isinstance(known, Describe) and len(known.name.split()) > 1:
        known = None  # DESCRIBE QUERY, FUNCTION, EXTENDED: Spark's
    return known if isinstance(known, Show | Describe | Explain) else Query(found[0].text)


def no_query(text: str, hint: str = _WHERE["INSERT"]) -> TidemillError:
    """TM2024: a statement that does more than read."""
    return TidemillError(
        "TM2024",
        "this statement is not a query",
        got=_line(Source(text)),
        hint=f"a query is SELECT, SHOW, DESCRIBE or EXPLAIN; {hint}",
    )


def check_script(text: str) -> list[Source]:
    """The statements of a script, as far as they can be checked without Spark's parser.

    Raises
    ------
    TidemillError
        TM2001 when it cannot be split, when a statement or the query of a view begins with an unknown word, or when
        parentheses do not match; TM2003 for a statement that declares nothing.
    """
    found = split_script(text)
    for source in found:
        if head(source) not in _DECLARING:
            raise declares_nothing(source)
        classify(source)
        own_statement(source)
        _check_parts(source)
    return found


def _check_parts(source: Source) -> None:
    """TM2001 for parentheses that do not match, and for a view whose query begins with another word than a query."""
    found = tokens(source.text)
    opened: list[int] = []
    query: int | None = None
    for i, (token, at, _) in enumerate(found):
        if token == "(":
            opened.append(at)
        elif token == ")" and not opened:
            raise _unparsed(source, at, "this parenthesis closes nothing")
        elif token == ")":
            opened.pop()
        elif token.upper() == "AS" and not opened and query is None and i > 2:
            query = i + 1
    if opened:
        raise _unparsed(source, opened[-1], "this parenthesis is not closed")
    if query is None or "VIEW" not in [w for w, _ in words(source.text, 5)]:
        return
    word = found[query][0].upper() if query < len(found) else ""
    if word not in READING:
        close = nearest(word, [w for w in READING if w.isalpha()])
        hint = close if close.startswith("did") else "the query of a view begins with SELECT, WITH, VALUES or FROM"
        raise _unparsed(source, found[min(query, len(found) - 1)][1], hint)


def _unparsed(source: Source, at: int, hint: str) -> TidemillError:
    line, column = source.place(at)
    got = f"line {line}, column {column} of: {_line(source)}"
    return TidemillError("TM2001", "the SQL cannot be parsed", got=got, hint=hint)


def declares_nothing(source: Source) -> TidemillError:
    """TM2003 for a statement that is not allowed in a script or pipeline."""
    return TidemillError(
        "TM2003",
        "this statement declares nothing",
        got=_line(source),
        hint="CREATE TABLE, CREATE MATERIALIZED VIEW, CREATE SINK, ALTER, DROP; `tidemill query` reads, and in a "
        "pipeline so does a SELECT inside a function",
    )


def _line(source: Source) -> str:
    return without_secrets(source.text).splitlines()[0][:80]
