"""Queries in PostgreSQL's dialect as trees of sqlglot's; only what reads is let through."""

from __future__ import annotations

from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.parsers.postgres import PostgresParser

from tidemill.errors import TidemillError
from tidemill.serve.postgres.protocol.errors import not_supported

DIALECT = "postgres"
WRITTEN = "written"
"""Metadata of a function call: its name as the query writes it, in lower case."""


class PostgresAsWritten(Postgres):
    """PostgreSQL's dialect, whose trees keep the names of functions: sqlglot has one class for ``pow`` and ``^``."""

    class Parser(PostgresParser):
        """Notes the name of each function call as :data:`WRITTEN`."""

        def _parse_function_call(self, *args: Any, **options: Any) -> exp.Expr | None:
            token = self._curr
            found: exp.Expr | None = super()._parse_function_call(*args, **options)
            if found is not None and token is not None:
                found.meta.setdefault(WRITTEN, token.text.lower())
            return found


def parse_query(text: str) -> exp.Query:
    """The tree of one query.

    Raises
    ------
    TidemillError
        TM8123 when it cannot be parsed, TM8110 when it writes or locks, TM8124 when it is nested too deeply.
    """
    try:
        found = sqlglot.parse(text, read=PostgresAsWritten)
    except SqlglotError as error:
        raise _unparsed(error) from error
    except RecursionError as error:
        raise too_deep() from error
    tree = found[0] if len(found) == 1 else None
    if isinstance(tree, exp.Values):
        tree = _selected(tree)
    if isinstance(tree, exp.DML | exp.DDL) and not isinstance(tree, exp.Query):
        raise writes(text)
    if not isinstance(tree, exp.Query):
        raise TidemillError(
            "TM8123", "the SQL of the query cannot be parsed", got=_line(text), hint="a query is SELECT or VALUES"
        )
    for node in tree.walk():
        if isinstance(node, exp.DML | exp.DDL) and not isinstance(node, exp.Query):
            raise writes(node.sql(DIALECT))
        if isinstance(node, exp.Lock | exp.Into):
            raise writes(node.parent.sql(DIALECT) if node.parent is not None else text)
        if isinstance(node, exp.Command):
            raise not_supported(_line(text), "a query is SELECT or VALUES")
    return tree


def fill_selections(tree: exp.Query) -> bool:
    """Select a constant where nothing is selected, which other dialects do not know: ``SELECT FROM v``.

    Returns
    -------
    bool
        Whether the query itself selects nothing.
    """
    outermost: exp.Expr = tree
    while isinstance(outermost, exp.Subquery | exp.SetOperation):
        outermost = outermost.this
    found = isinstance(outermost, exp.Select) and not outermost.expressions
    for select in [*tree.find_all(exp.Select)]:
        if not select.expressions:
            select.select(exp.alias_(exp.Literal.number(1), "none"), copy=False)
    return found


def _selected(values: exp.Values) -> exp.Query:
    """``VALUES`` as a SELECT of the columns ``column1`` and so on."""
    rows = values.expressions
    width = len(rows[0].expressions) if rows and isinstance(rows[0], exp.Tuple) else 1
    columns = [exp.to_identifier(f"column{i}") for i in range(1, width + 1)]
    alias = exp.TableAlias(this=exp.to_identifier("values"), columns=columns)
    rest = {k: values.args[k] for k in ("order", "limit", "offset") if values.args.get(k)}
    found = exp.select("*").from_(exp.Values(expressions=rows, alias=alias))
    for name, clause in rest.items():
        found.set(name, clause)
    return found


def writes(text: str) -> TidemillError:
    """TM8110: a statement that would write."""
    return TidemillError(
        "TM8110",
        "the statement writes, and this connection only reads",
        got=_line(text),
        hint="rows come from the sources of tables, and views follow them; "
        "CREATE MATERIALIZED VIEW and DROP need the role write",
    )


def too_deep() -> TidemillError:
    """TM8124: a query that no parser of ours gets to the bottom of."""
    return TidemillError(
        "TM8124",
        "the query is nested too deeply",
        got="",
        hint="write it with fewer levels of parentheses or operators",
    )


def _unparsed(error: SqlglotError) -> TidemillError:
    found = getattr(error, "errors", None)
    if found:
        first = found[0]
        near = f"{first.get('start_context') or ''}{first.get('highlight') or ''}"[-60:].lstrip()
        got = f"line {first.get('line')}, column {first.get('col')}: {first.get('description')}, near: {near}"
    else:
        got = str(error).splitlines()[0][:300]
    return TidemillError(
        "TM8123", "the SQL of the query cannot be parsed", got=got, hint="the dialect of queries is PostgreSQL's"
    )


def _line(text: str) -> str:
    stripped = text.strip()
    return stripped.splitlines()[0][:80] if stripped else ""
