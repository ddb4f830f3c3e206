"""Parameters of prepared statements: which types they have, and their values in the place of ``$1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from tidemill.errors import TidemillError
from tidemill.serve.postgres.catalogue.relations import relations
from tidemill.serve.postgres.catalogue.shown import Relation
from tidemill.serve.postgres.query.names import Named
from tidemill.serve.postgres.values import pg_types
from tidemill.serve.postgres.values.parameter_values import Value
from tidemill.serve.postgres.values.pg_types import BY_NAME, BY_OID, PgType, array_of, of_arrow

_MOST = 1000
_COUNTS = (exp.Limit, exp.Offset, exp.Fetch)
_BESIDE = (exp.Binary, exp.Between, exp.In, exp.Coalesce, exp.Paren, exp.Neg)
_NAMED = {"INT": pg_types.INT4, "DECIMAL": pg_types.NUMERIC, "DOUBLE": pg_types.FLOAT8, "FLOAT": pg_types.FLOAT4,
          "TIMESTAMPTZ": pg_types.TIMESTAMPTZ, "VARBINARY": pg_types.BYTEA}  # fmt: skip
_SQL = {
    pg_types.INT2: "SMALLINT",
    pg_types.INT4: "INT",
    pg_types.INT8: "BIGINT",
    pg_types.OID: "BIGINT",
    pg_types.FLOAT4: "REAL",
    pg_types.FLOAT8: "DOUBLE PRECISION",
    pg_types.DATE: "DATE",
    pg_types.TIME: "TIME",
    pg_types.TIMESTAMP: "TIMESTAMP",
    pg_types.TIMESTAMPTZ: "TIMESTAMPTZ",
    pg_types.INTERVAL: "INTERVAL",
    pg_types.BOOL: "BOOLEAN",
    pg_types.BYTEA: "BYTEA",
}
_QUOTED = (*(pg_types.DATE, pg_types.TIME, pg_types.TIMESTAMP, pg_types.TIMESTAMPTZ, pg_types.INTERVAL), *(
    (pg_types.FLOAT4, pg_types.FLOAT8)))  # fmt: skip


def parameter_types(
    tree: exp.Query, given: Sequence[int], named: Named, known: Mapping[str, Relation]
) -> tuple[PgType, ...]:
    """The types of ``$1``, ``$2`` and so on: what the client says, else what the place of each suggests, else text.

    Raises
    ------
    TidemillError
        TM8118 for a number that is too large, or a type that is not known here.
    """
    columns = _column_types(named, known)
    found: dict[int, PgType] = {}
    most = len(given)
    for node in tree.find_all(exp.Parameter):
        number = _number(node)
        most = max(most, number)
        suggested = _suggested(node, columns)
        if number not in found or found[number] is pg_types.TEXT:
            found[number] = suggested
    types = []
    for number in range(1, most + 1):
        oid = given[number - 1] if number <= len(given) else 0
        types.append(_of_oid(oid) if oid not in (0, pg_types.UNKNOWN.oid) else found.get(number, pg_types.TEXT))
    return tuple(types)


def _number(node: exp.Parameter) -> int:
    text = node.this.name if isinstance(node.this, exp.Expr) else str(node.this)
    if not text.isdigit() or not 1 <= int(text) <= _MOST:
        raise TidemillError(
            "TM8118", "a parameter is no value of its type", got=f"${text}", hint=f"parameters are $1 to ${_MOST}"
        )
    return int(text)


def _of_oid(oid: int) -> PgType:
    if oid not in BY_OID:
        raise TidemillError(
            "TM8118", "a parameter is no value of its type", got=f"type {oid}", hint="send it as text, and cast it"
        )
    return BY_OID[oid]


def _column_types(named: Named, known: Mapping[str, Relation]) -> dict[str, PgType]:
    """The type of each column by its name; columns of several types in a query are left out."""
    fields = [(f.name, f.type) for view in dict.fromkeys(named.views) for f in known[view].columns]
    fields += [(f.name, f.type) for name in named.catalogue for f in relations()[name]]
    found: dict[str, PgType] = {}
    several = set()
    for name, type_ in fields:
        pg_type = BY_OID[of_arrow(type_).oid]  # without precision and scale
        if found.setdefault(name.lower(), pg_type) != pg_type:
            several.add(name.lower())
    return {name: t for name, t in found.items() if name not in several}


def _suggested(node: exp.Expr, columns: Mapping[str, PgType]) -> PgType:
    parent = node.parent
    if isinstance(parent, exp.Cast):
        return _cast_type(parent)
    if isinstance(parent, _COUNTS):
        return pg_types.INT8
    if isinstance(parent, exp.Paren | exp.Neg):
        return _suggested(parent, columns)
    if isinstance(parent, exp.Any):
        inner = _suggested(parent, columns)
        return array_of(inner) if inner.array else inner
    if isinstance(parent, exp.Like | exp.ILike | exp.DPipe | exp.RegexpLike):
        return pg_types.TEXT
    if isinstance(parent, _BESIDE):
        for other in parent.iter_expressions():
            if other is not node and (found := _type_of(other, columns)) is not None:
                return found
    return pg_types.TEXT


def _type_of(node: exp.Expr, columns: Mapping[str, PgType]) -> PgType | None:
    match node:
        case exp.Column():
            found = columns.get(node.name.lower())
            return None if found is None or found.element is not None else found
        case exp.Paren() | exp.Neg():
            return _type_of(node.this, columns)
        case exp.Cast():
            return _cast_type(node)
        case exp.Literal() if not node.is_string:
            return pg_types.INT4 if str(node.this).isdigit() else pg_types.NUMERIC
        case exp.Count():
            return pg_types.INT8
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod():
            return _type_of(node.this, columns) or _type_of(node.expression, columns)
    return None


def _cast_type(cast: exp.Cast) -> PgType:
    to = cast.to
    if isinstance(to, exp.DataType) and to.is_type(exp.DataType.Type.ARRAY) and to.expressions:
        inner = _cast_type(exp.Cast(this=exp.Null(), to=to.expressions[0].copy()))
        return array_of(inner) if inner.array else pg_types.TEXT
    name = to.sql("postgres").partition("(")[0].rpartition(".")[2].strip('"')
    return _NAMED.get(name.upper()) or BY_NAME.get(name.lower(), pg_types.TEXT)


def put_values(tree: exp.Query, types: Sequence[PgType], values: Sequence[Value] | None) -> None:
    """Replace parameters by values, in place; by NULLs of their types when there are none."""
    for node in list(tree.find_all(exp.Parameter)):
        number = _number(node)
        type_ = types[number - 1]
        value = None if values is None else values[number - 1]
        counts = isinstance(node.parent, _COUNTS)
        if counts and values is None:
            node.replace(exp.Literal.number(1))
        elif counts and isinstance(value, str):
            node.replace(exp.Literal.number(_count(value)))
        else:
            node.replace(_literal(value, type_))


def _count(value: str) -> int:
    """The rows of LIMIT or OFFSET, whatever type the client gives the parameter. TM8118 for anything else."""
    if not (value.isascii() and value.isdigit()):
        raise TidemillError(
            "TM8118", "a parameter is no value of its type", got=f"{value[:40]!r} as a number of rows", hint="0 or more"
        )
    return int(value)


def _literal(value: Value, type_: PgType) -> exp.Expr:
    """A value as an expression of its type."""
    if isinstance(value, list) and type_.element is not None:
        found: exp.Expr = exp.Array(expressions=[_literal(v, type_.element) for v in value])
        return exp.cast(found, f"{_name(type_.element)}[]", dialect="postgres")
    if value is None:
        suffix = "[]" if type_.element is not None else ""
        return exp.cast(exp.Null(), _name(type_.element or type_) + suffix, dialect="postgres")
    text = str(value)
    if type_ is pg_types.BYTEA:
        return exp.Unhex(this=exp.Literal.string(text))
    if type_ is pg_types.BOOL:
        return exp.Boolean(this=text == "true")
    if type_ is pg_types.NUMERIC:
        return exp.cast(exp.Literal.string(text), _numeric_name(text), dialect="postgres")
    if type_ in _QUOTED:
        return exp.cast(exp.Literal.string(text), _SQL[type_], dialect="postgres")
    if type_ in _SQL:
        number: exp.Expr = exp.Literal.number(text.lstrip("-"))
        number = exp.Neg(this=number) if text.startswith("-") else number
        return exp.Paren(this=exp.cast(number, _SQL[type_], dialect="postgres"))
    return exp.Literal.string(text)


def _name(type_: PgType) -> str:
    return _SQL.get(type_, "NUMERIC(38, 10)" if type_ is pg_types.NUMERIC else "TEXT")


def _numeric_name(text: str) -> str:
    """The type of a number with just the digits that it has; of more than 38, a double."""
    if not text.lstrip("-")[:1].isdigit():
        return "DOUBLE PRECISION"
    whole, _, places = text.lstrip("-").partition(".")
    digits = len(whole.lstrip("0")) + len(places)
    return f"NUMERIC({max(1, digits)}, {len(places)})" if digits <= 38 else "DOUBLE PRECISION"
