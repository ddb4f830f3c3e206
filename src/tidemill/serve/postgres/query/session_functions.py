"""Functions whose value depends on the connection: they become literals."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

import tidemill
from tidemill.serve.postgres.catalogue.shown import PUBLIC, Relation
from tidemill.serve.postgres.values.pg_types import BY_NAME

VERSION = f"PostgreSQL 15.0 (Tidemill {tidemill.__version__})"
REGCLASS = {"pg_class": 1259, "pg_namespace": 2615, "pg_type": 1247, "pg_proc": 1255, "pg_constraint": 2606,
            "pg_attrdef": 2604, "pg_database": 1262, "pg_extension": 3079, "pg_trigger": 2620, "pg_index": 2610,
            "pg_authid": 1260, "pg_rewrite": 2618, "pg_am": 2601, "pg_tablespace": 1213}  # fmt: skip
"""The numbers of relations that queries name in ``'pg_class'::regclass``."""


@dataclass(frozen=True)
class Connection:
    """What functions say of a connection."""

    database: str
    user: str
    process: int
    epoch: int
    settings: Mapping[str, str]
    known: Mapping[str, Relation]


def session_value(name: str, arguments: list[exp.Expr], at: Connection) -> exp.Expr | None:
    """The value of a function, by its name in lower case; None for one that is no such function."""
    make = _VALUES.get(name)
    return None if make is None else make(arguments, at)


def regclass(text: str, known: Mapping[str, Relation]) -> exp.Expr:
    """The number of a relation; NULL for none."""
    name = text.rpartition(".")[2].strip('"')
    relation = known.get(name.lower())
    return _number(relation.oid if relation is not None else REGCLASS.get(name))


def regtype(text: str) -> exp.Expr:
    """The number of a type; NULL for none."""
    name = re.sub(r"\(.*?\)", "", text.removeprefix("pg_catalog.")).strip().strip('"').lower()
    base, array = name.removesuffix("[]").strip(), name.endswith("[]")
    found = BY_NAME.get(base)
    return _number(None if found is None else found.array if array else found.oid)


def _number(value: int | None) -> exp.Expr:
    return exp.cast(exp.Null() if value is None else exp.Literal.number(value), "UINTEGER", dialect="duckdb")


def _text(value: str | None) -> exp.Expr:
    return exp.Null() if value is None else exp.Literal.string(value)


def _literal(arguments: list[exp.Expr], at: int = 0) -> str:
    found = arguments[at] if len(arguments) > at else None
    while isinstance(found, exp.Cast | exp.Paren):
        found = found.this
    return str(found.this) if isinstance(found, exp.Literal) else ""


def _schemas(arguments: list[exp.Expr], _: Connection) -> exp.Expr:
    implied = [] if "FALSE" in [a.sql().upper() for a in arguments] else ["pg_catalog"]
    return exp.Array(expressions=[exp.Literal.string(s) for s in (*implied, PUBLIC)])


def _setting(arguments: list[exp.Expr], at: Connection) -> exp.Expr:
    if isinstance(arguments[0], exp.Literal) if arguments else False:
        return _text(at.settings.get(_literal(arguments).lower()))
    cases = [exp.If(this=exp.EQ(this=a.copy(), expression=_text(n)), true=_text(v)) for a in arguments[:1]
             for n, v in at.settings.items()]  # fmt: skip
    return exp.Case(ifs=cases)


_VALUES: dict[str, Callable[[list[exp.Expr], Connection], exp.Expr]] = {
    **dict.fromkeys(("version", "current_version"), lambda _, at: _text(VERSION)),
    **dict.fromkeys(("current_database", "current_catalog"), lambda _, at: _text(at.database)),
    "current_schema": lambda _, at: _text(PUBLIC),
    "current_schemas": _schemas,
    **dict.fromkeys(("current_user", "session_user", "user", "current_role"), lambda _, at: _text(at.user)),
    "current_setting": _setting,
    "set_config": lambda arguments, _: _text(_literal(arguments, 1)),
    "pg_backend_pid": lambda _, at: exp.cast(exp.Literal.number(at.process), "INT"),
    **dict.fromkeys(
        ("tidemill_epoch", "txid_current", "pg_current_xact_id"),
        lambda _, at: exp.cast(exp.Literal.number(at.epoch), "BIGINT"),
    ),
    "to_regclass": lambda arguments, at: regclass(_literal(arguments), at.known),
    "to_regtype": lambda arguments, _: regtype(_literal(arguments)),
    "pg_char_to_encoding": lambda _, at: exp.cast(exp.Literal.number(6), "INT"),
    "pg_client_encoding": lambda _, at: _text("UTF8"),
    "getdatabaseencoding": lambda _, at: _text("UTF8"),
    "pg_postmaster_start_time": lambda _, at: exp.CurrentTimestamp(),
    **dict.fromkeys(("pg_advisory_unlock_all", "pg_notify"), lambda _, at: exp.Null()),
}
