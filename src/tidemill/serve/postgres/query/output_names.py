"""Names of result columns as PostgreSQL gives them."""

from __future__ import annotations

from sqlglot import exp

from tidemill.serve.postgres.query.names import function_name

_NAMES = {
    "current_timestamp": "now",
    "count_if": "count_if",
    "array_size": "array_length",
    "timestamp_trunc": "date_trunc",
    "str_position": "position",
    "regexp_like": "?column?",
    "stddev_samp": "stddev_samp",
    "group_concat": "string_agg",
}


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
        case exp.Paren() | exp.Bracket() | exp.Collate() | exp.Distinct() | exp.Filter() | exp.Window():
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
        case exp.Case():
            return "case"
        case exp.Exists():
            return "exists"
        case exp.Array():
            return "array"
        case exp.Subquery():
            inside = node.this.expressions if isinstance(node.this, exp.Select) else []
            return (inside[0].alias or _name(inside[0])) if len(inside) == 1 else "?column?"
        case exp.Boolean():
            return "bool"
        case exp.Func() if not isinstance(node, exp.Binary | exp.Connector):
            name = function_name(node)
            return _NAMES.get(name, name)
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
