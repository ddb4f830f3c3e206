"""The relations that a query names: views, and those of the catalogue. Nothing else can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from tidemill.errors import TidemillError
from tidemill.serve.postgres.catalogue.relations import INFORMATION_SCHEMA, PG_CATALOG, full_name
from tidemill.serve.postgres.catalogue.shown import ABOUT, PUBLIC, Relation

_ROW_FUNCTIONS = frozenset({"generate_series", "unnest", "json_each", "json_array_elements", "generate_subscripts"})
"""Functions that may stand where a relation does; others of DuckDB's could look outside."""
_SCHEMAS = (PUBLIC, ABOUT, PG_CATALOG, INFORMATION_SCHEMA)


@dataclass(frozen=True)
class Named:
    """What a query names.

    Attributes
    ----------
    views : tuple of str
        Views and so on, once for each place where the query names them.
    catalogue : frozenset of str
        Full names of catalogue relations.
    """

    views: tuple[str, ...]
    catalogue: frozenset[str]


def bind_names(tree: exp.Query, known: Mapping[str, Relation], unknown: Callable[[str], TidemillError]) -> Named:
    """Find the relations of a query, and put the one name that each has here in the place of how the query writes it.

    Parameters
    ----------
    known : mapping
        What can be named, by name.
    unknown : callable
        Makes the error for a name that stands for nothing.

    Raises
    ------
    TidemillError
        TM2012 for a name that stands for nothing, TM8121 for a function that may not be called.
    """
    views: list[str] = []
    catalogue: set[str] = set()
    for table in list(tree.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier):
            _check_function(table)
            continue
        schema, name = table.db.lower(), _folded(table.this)
        if not schema and _is_common(table, name):
            continue
        full = full_name(schema, name) if schema in ("", *_SCHEMAS[2:]) else None
        if full is not None:
            catalogue.add(full)
            _rename(table, full, name)
            continue
        relation = known.get(name.lower())
        if relation is None or schema not in ("", relation.schema):
            raise unknown(f"{schema}.{name}" if schema else name)
        views.append(relation.name)
        _rename(table, relation.name, name)
    _shorten_columns(tree)
    return Named(tuple(views), frozenset(catalogue))


def _folded(name: exp.Identifier) -> str:
    return str(name.this) if name.args.get("quoted") else str(name.this).lower()


def _rename(table: exp.Table, new: str, before: str) -> None:
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(before, quoted=True)))
    table.set("this", exp.to_identifier(new, quoted=True))
    table.set("db", None)
    table.set("catalog", None)


def _shorten_columns(tree: exp.Query) -> None:
    """``public.v.c`` as ``v.c``."""
    for column in tree.find_all(exp.Column):
        if column.args.get("db") is not None:
            column.set("db", None)
            column.set("catalog", None)


def _is_common(table: exp.Table, name: str) -> bool:
    """Whether a name is that of a common table expression (WITH) where it stands."""
    node: exp.Expr | None = table
    inside: set[int] = set()
    while node is not None:
        inside.add(id(node))
        clause = node.args.get("with_")
        if isinstance(clause, exp.With) and any(e == name for e in _visible(clause, inside)):
            return True
        node = node.parent
    return False


def _visible(clause: exp.With, inside: set[int]) -> Iterator[str]:
    """The names of a WITH that can be seen from a place: within one of its queries those before, and itself if it is
    recursive."""
    for common in clause.expressions:
        if id(common) in inside:
            if clause.args.get("recursive"):
                yield common.alias.lower()
            return
        yield common.alias.lower()


def _check_function(table: exp.Table) -> None:
    function = table.this
    if function is None:  # ROWS FROM (f(), g()): each is looked at by itself
        return
    name = function_name(function)
    if name not in _ROW_FUNCTIONS:
        raise TidemillError(
            "TM8121",
            "this function cannot be called over PostgreSQL's protocol",
            got=name,
            hint="in FROM there may be: " + ", ".join(sorted(_ROW_FUNCTIONS)),
        )
    table.set("db", None)


def function_name(node: exp.Expr) -> str:
    """The name of a function in lower case, as the query writes it, or as sqlglot knows it."""
    if isinstance(node, exp.ExplodingGenerateSeries | exp.GenerateSeries):
        return "generate_series"
    if isinstance(node, exp.Explode | exp.Unnest):
        return "unnest"
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__.lower()
