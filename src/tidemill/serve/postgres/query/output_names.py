"""Names of result columns as PostgreSQL gives them."""

from __future__ import annotations

from sqlglot import exp

from tidemill.serve.postgres.query.parsing import WRITTEN

_TRIMMED = {"LEADING": "ltrim", "TRAILING": "rtrim"}


def name_outputs(tree: exp.Query) -> None:
    """Give columns of the result that have no name the one that PostgreSQL gives them, in place."""
    first: exp.Expr = tree
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    if not isinstance(first, exp.Select):
        return
    for output in list(first.expressions):
        if isinstance(output, exp.Column | exp.Alias | exp.Star | exp.Aliases):
            continue
        if isinstance(output, exp.Dot) and isinstance(output.expression, exp.Star):
            continue
        output.replace(exp.alias_(output.copy(), _name(output), quoted=True))


def _name(node: exp.Expr) -> str:
    match node:
        case exp.Case():
            return "case"
        case exp.Trim() if node.meta.get(WRITTEN) == "trim":
            return _TRIMMED.get(str(node.args.get("position") or "").upper(), "btrim")
        case _ if WRITTEN in node.meta and not isinstance(node, exp.Cast | exp.Exists):
            return str(node.meta[WRITTEN])
        case (
            exp.Paren()
            | exp.Bracket()
            | exp.Collate()
            | exp.Distinct()
            | exp.Filter()
            | exp.Window()
            | exp.WithinGroup()
        ):
            return _name(node.this)
        case exp.Cast():
            inner = _name(node.this)
            return inner if inner != "?column?" else _type(node)
        case exp.Column():
            return node.name
        case exp.Dot():
            return _name(node.expression)
        case exp.Identifier():
            return node.name
        case exp.Exists():
            return "exists"
        case exp.Array():
            return "array"
        case exp.Subquery():
            inside = node.this.expressions if isinstance(node.this, exp.Select) else []
            return (inside[0].alias or _name(inside[0])) if len(inside) == 1 else "?column?"
        case exp.Boolean():
            return "bool"
        case exp.Interval():
            return "interval"
    return "?column?"


def _type(cast: exp.Cast) -> str:
    kind = cast.to.sql("postgres").lower().partition("(")[0].rpartition(".")[2].strip('"')
    return {
        "int": "int4",
        "integer": "int4",
        "bigint": "int8",
        "smallint": "int2",
        "decimal": "numeric",
        "double precision": "float8",
        "real": "float4",
        "boolean": "bool",
    }.get(kind, kind)
