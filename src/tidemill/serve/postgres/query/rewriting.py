"""A query in PostgreSQL's dialect as one in DuckDB's or Spark's."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import ErrorLevel, exp

from tidemill.errors import TidemillError
from tidemill.serve.postgres.catalogue import functions
from tidemill.serve.postgres.protocol.errors import not_supported
from tidemill.serve.postgres.query.names import function_name
from tidemill.serve.postgres.query.parsing import too_deep
from tidemill.serve.postgres.query.session_functions import Connection, regclass, regtype, session_value

_CATALOGUES = ("pg_catalog", "information_schema")
_REFUSED = ("getenv", "write_log", "nextval", "currval", "setval", "lastval", "query", "query_table", "getvariable")
_RENAMED = {
    **dict.fromkeys(("json_build_object", "jsonb_build_object"), "json_object"),
    **dict.fromkeys(("json_build_array", "jsonb_build_array"), "json_array"),
    **dict.fromkeys(("to_jsonb", "row_to_json"), "to_json"),
    **dict.fromkeys(("json_agg", "jsonb_agg"), "json_group_array"),
    **dict.fromkeys(("json_object_agg", "jsonb_object_agg"), "json_group_object"),
}
"""Functions that have another name in DuckDB."""
_TEXTS = ("text", "name", "char", "varchar", "bpchar", "sql_identifier", "character_data", "yes_or_no", "regproc",
          "citext", "pg_node_tree", "aclitem", "unknown", "cstring", "uuid", "json", "xml", "inet")  # fmt: skip
_NUMBERS = ("oid", "xid", "cid", "regnamespace", "regrole", "regprocedure")
_OPERATORS = {"~": exp.RegexpLike, "=": exp.EQ, "<>": exp.NEQ, "~~": exp.Like, "~~*": exp.ILike, "+": exp.Add,
              "-": exp.Sub, "<": exp.LT, ">": exp.GT, "<=": exp.LTE, ">=": exp.GTE}  # fmt: skip
_UNBOUNDED = "DECIMAL(38, 10)"
"""What ``numeric`` without precision is here."""
_PATH_KEY = re.compile(r'\s*(?:"([^"\\]*)"\s*|([^\s",{}\\][^",{}\\]*))(?:,|\Z)')
"""A key of the path of ``#>``, with the comma behind it."""
_NUMERIC_FORMAT = re.compile(r"(?=.*[90])(FM|[90.,GDSLV ]|MI|PL|SG|PR|TH|RN|EEEE)+", re.IGNORECASE)
"""Formats of numbers for ``to_char``."""


def rewrite(tree: exp.Query, at: Connection) -> bool:
    """Give everything that only PostgreSQL has another form, in place; names of relations are bound already.

    Returns
    -------
    bool
        Whether it looks up definitions of the catalogue.

    Raises
    ------
    TidemillError
        TM8121 for a function that may not be called; TM8111 for ``to_char`` of numbers and paths that are no literals.
    """
    _replace_collations(tree)
    _replace_operators(tree)
    _replace_json_paths(tree)
    _check_numeric_formats(tree)
    _replace_current_times(tree)
    looks_up = _replace_functions(tree, at)
    for cast in list(tree.find_all(exp.Cast)):
        _replace_cast(cast, at)
    for division in tree.find_all(exp.Div):
        division.set("typed", False)  # the engine does that, by the types that it finds
    return looks_up


def to_sql(tree: exp.Query, dialect: str) -> str:
    """The text of a tree. TM8124 when it is nested too deeply."""
    try:
        return tree.sql(dialect, unsupported_level=ErrorLevel.IGNORE, comments=False)
    except RecursionError as error:
        raise too_deep() from error


def _replace_collations(tree: exp.Query) -> None:
    """``COLLATE`` has no effect: texts are compared by their bytes, as in Spark."""
    for collate in list(tree.find_all(exp.Collate)):
        collate.replace(collate.this)


def _replace_operators(tree: exp.Query) -> None:
    """``a OPERATOR(pg_catalog.~) b`` as ``a ~ b``."""
    for node in list(tree.find_all(exp.Operator)):
        name = str(node.args["operator"]).removeprefix("pg_catalog.").strip()
        kind = _OPERATORS.get(name.lstrip("!"))
        if kind is None:
            raise TidemillError(
                "TM8121", "this function cannot be called over PostgreSQL's protocol", got=f"OPERATOR({name})", hint=""
            )
        found: exp.Expr = kind(this=node.this, expression=node.expression)
        node.replace(exp.Not(this=exp.Paren(this=found)) if name.startswith("!") else found)


def _replace_json_paths(tree: exp.Query) -> None:
    """``x #> '{a,0}'`` and ``x #>> '{a,0}'`` as ``x -> '$.a[0]'`` and ``x ->> '$.a[0]'``."""
    for node in list(tree.find_all(exp.JSONBExtract, exp.JSONBExtractScalar)):
        path, scalar = node.expression, isinstance(node, exp.JSONBExtractScalar)
        while isinstance(path, exp.Cast | exp.Paren):
            path = path.this
        keys = _keys_of(str(path.this).strip()) if isinstance(path, exp.Literal) else None
        if keys is None:
            raise not_supported(
                f"{'#>>' if scalar else '#>'} {path.sql()}"[:80], "write the path as '{a,b}', or use -> and ->>"
            )
        steps = [exp.JSONPathSubscript(this=int(k)) if k.isdigit() else exp.JSONPathKey(this=k) for k in keys]
        kind = exp.JSONExtractScalar if scalar else exp.JSONExtract
        node.replace(kind(this=node.this, expression=exp.JSONPath(expressions=[exp.JSONPathRoot(), *steps])))


def _keys_of(path: str) -> list[str] | None:
    """The keys of ``{a,"b,c",0}``; None for another text, and for places that count from the end."""
    if not (path.startswith("{") and path.endswith("}")):
        return None
    inner, keys, at = path[1:-1].strip(), list[str](), 0
    while at < len(inner):
        match = _PATH_KEY.match(inner, at)
        if match is None or re.fullmatch(r"-\d+", key := match[1] if match[1] is not None else match[2].strip()):
            return None
        keys.append(key)
        at = match.end()
    return None if inner.endswith(",") else keys


def _check_numeric_formats(tree: exp.Query) -> None:
    """``to_char(1234.5, '9,999.00')`` has no counterpart: the engines take the format for one of times."""
    for node in tree.find_all(exp.TimeToStr):
        written = node.args.get("format")
        text = str(written.this) if isinstance(written, exp.Literal) else ""
        text = text.replace("%u", "D").replace("%M", "MI")  # as sqlglot has put those letters
        if _NUMERIC_FORMAT.fullmatch(text):
            raise not_supported(f"to_char of a number, '{text[:40]}'", "round the number and cast it to text")


def _replace_current_times(tree: exp.Query) -> None:
    """``CURRENT_DATE`` and ``CURRENT_TIMESTAMP`` by ``now()``: DuckDB takes them for result columns of those names."""
    for node in list(tree.find_all(exp.CurrentDate, exp.CurrentTimestamp)):
        now = exp.Anonymous(this="now")
        node.replace(exp.cast(now, "DATE") if isinstance(node, exp.CurrentDate) else now)


def _replace_functions(tree: exp.Query, at: Connection) -> bool:
    for dot in list(tree.find_all(exp.Dot)):
        if isinstance(dot.this, exp.Identifier) and dot.this.name.lower() in _CATALOGUES:
            dot.replace(dot.expression)
    looks_up = False
    for node in [*tree.find_all(exp.Func), *tree.find_all(exp.Column)]:
        if isinstance(node, exp.Column):
            name = node.name.lower() if node.name.lower() in ("user", "current_role") and not node.table else ""
            if not name or node.this.args.get("quoted"):
                continue
        else:
            name = function_name(node)
        if name in _REFUSED:
            raise TidemillError(
                "TM8121",
                "this function cannot be called over PostgreSQL's protocol",
                got=name,
                hint="functions of values and of the catalogue can be",
            )
        value = session_value(name, list(node.expressions), at)
        if value is not None:
            node.replace(value)
        elif name in functions.NAMES and isinstance(node, exp.Anonymous):
            node.set("this", functions.PREFIX + name)
            looks_up |= name in functions.LOOKING_UP
        elif name in _RENAMED and isinstance(node, exp.Anonymous):
            node.set("this", _RENAMED[name])
    return looks_up


def _replace_cast(cast: exp.Cast, at: Connection) -> None:
    name, array = _type_name(cast.to)
    value = cast.this
    if name == "regclass" and isinstance(value, exp.Literal):
        cast.replace(_from_literal(value, lambda text: regclass(text, at.known)))
    elif name == "regtype" and isinstance(value, exp.Literal):
        cast.replace(_from_literal(value, regtype))
    elif name == "regclass":
        names = [exp.If(this=_is(value, r.oid), true=exp.Literal.string(r.name)) for r in at.known.values()]
        cast.replace(exp.Case(ifs=names, default=exp.cast(value.copy(), "TEXT")) if names else exp.cast(value, "TEXT"))
    elif name == "regtype":
        cast.replace(exp.Anonymous(this=f"{functions.PREFIX}format_type", expressions=[value, exp.Null()]))
    elif name in _NUMBERS:
        cast.set("to", exp.DataType.build("UINTEGER[]" if array else "UINTEGER", dialect="duckdb"))
    elif name in ("jsonb",):
        cast.set("to", exp.DataType.build("JSON"))
    elif name in _TEXTS and not cast.to.is_type("json"):
        cast.set("to", exp.DataType.build("TEXT[]" if array else "TEXT", dialect="duckdb"))
    elif name == "decimal" and not cast.to.expressions:
        cast.set("to", exp.DataType.build(_UNBOUNDED))
    elif name == "bytea" and isinstance(value, exp.Literal) and str(value.this).startswith("\\x"):
        cast.replace(exp.Unhex(this=exp.Literal.string(str(value.this)[2:])))


def _from_literal(value: exp.Literal, look_up: Callable[[str], exp.Expr]) -> exp.Expr:
    text = str(value.this)
    if text.isdigit():
        return exp.cast(exp.Literal.number(int(text)), "UINTEGER", dialect="duckdb")
    return look_up(text)


def _is(value: exp.Expr, number: int) -> exp.Expr:
    return exp.EQ(this=value.copy(), expression=exp.Literal.number(number))


def _type_name(type_: exp.Expr) -> tuple[str, bool]:
    """The name of a type in lower case, without its schema, and whether it is an array."""
    array = isinstance(type_, exp.DataType) and type_.is_type(exp.DataType.Type.ARRAY)
    if array and type_.expressions:
        type_ = type_.expressions[0]
    kind = type_.args.get("kind") if isinstance(type_, exp.DataType) else type_.this
    if isinstance(kind, exp.Dot):
        kind = kind.expression
    if kind is None and isinstance(type_, exp.DataType):
        this = type_.this
        name = this.value if isinstance(this, exp.DataType.Type) else str(this)
        return {"VARBINARY": "bytea"}.get(name, name).lower(), array
    name = kind.name if isinstance(kind, exp.Expr) else str(kind)
    return name.lower(), array
