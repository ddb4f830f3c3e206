"""Statements that only read one view, answered without Spark.

    SELECT * | column, ... FROM view
      [WHERE column = literal [AND ...]] [ORDER BY column [ASC|DESC] [NULLS FIRST|LAST], ...] [LIMIT n]

sqlglot parses them, in milliseconds where starting Spark takes seconds. A comparison is supported where Spark
compares without a cast; any other statement is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

_Node = TypeVar("_Node", bound=exp.Expression)
_TESTS: dict[str | type[exp.Expression], Callable[..., Any]] = {
    "IS NULL": pc.is_null,
    "IS NOT NULL": pc.is_valid,
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}


@dataclass(frozen=True)
class Comparison:
    """``column operator literal``; operators ``IS NULL`` and ``IS NOT NULL`` have no literal."""

    column: str
    operator: str | type[exp.Expression]
    literal: int | float | Decimal | str | None = None


@dataclass(frozen=True)
class SortKey:
    """One column of ORDER BY."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class SimpleSelect:
    """A statement that reads one view. ``columns`` is None for ``*``."""

    view: str
    columns: tuple[str, ...] | None
    where: tuple[Comparison, ...]
    order: tuple[SortKey, ...]
    limit: int | None


def parse_select(text: str) -> SimpleSelect | None:
    """The statement, or None when it is not of this simple form."""
    if "\\" in text or "''" in text:  # escapes are Spark's to read
        return None
    try:
        return _parsed(text)
    except _NotSimple:
        return None


def apply_select(select: SimpleSelect, parts: Iterable[pa.Table]) -> Iterator[pa.Table] | None:
    """The statement's rows over the view's rows, or None when Spark must decide (types, unknown names).

    Parameters
    ----------
    parts : iterable of pa.Table
        The view's rows, at least one table. Without ORDER BY it is read no further than the answer is.

    Yields
    ------
    pa.Table
        At least one, which may be empty.
    """
    parts = iter(parts)
    first = next(parts)
    names = {n.lower(): n for n in first.column_names}
    wanted = [*(select.columns or ()), *(c.column for c in select.where), *(k.column for k in select.order)]
    if any(w.lower() not in names for w in wanted):
        return None
    where = [(names[c.column.lower()], c) for c in select.where]
    if not all(_comparable(first.schema.field(name).type, c) for name, c in where):
        return None
    kept: Iterator[pa.Table] = (_filtered(part, where) for part in chain((first,), parts))
    if select.order:
        ordered = _sorted(kept, [(names[k.column.lower()], k) for k in select.order], select.limit)
        if ordered is None:
            return None
        kept = iter((ordered,))
    if select.limit is not None:
        kept = _limited(kept, select.limit)
    return kept if select.columns is None else (_chosen(part, select.columns, names) for part in kept)


def _filtered(table: pa.Table, where: Sequence[tuple[str, Comparison]]) -> pa.Table:
    for name, comparison in where:
        table = _filtered_by(table, name, comparison)
    return table


def _limited(parts: Iterable[pa.Table], limit: int) -> Iterator[pa.Table]:
    for part in parts:
        yield part.slice(0, limit)
        limit -= part.num_rows
        if limit <= 0:
            return


def _chosen(table: pa.Table, columns: Sequence[str], names: Mapping[str, str]) -> pa.Table:
    return pa.Table.from_arrays([table.column(names[c.lower()]) for c in columns], names=list(columns))


def _sorted(parts: Iterable[pa.Table], keys: Sequence[tuple[str, SortKey]], limit: int | None) -> pa.Table | None:
    """The rows in order, the first ones with a limit; None where Arrow places NaN elsewhere than Spark."""
    sort_keys: list[Any] = [
        (n, "descending" if k.descending else "ascending", "at_start" if k.nulls_first else "at_end") for n, k in keys
    ]
    kept: list[pa.Table] = []
    for part in parts:
        for name, _ in keys:
            column = part.column(name)
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                return None
        kept.append(part)
        if limit is not None:
            rows = pa.concat_tables(kept)
            kept = [rows.take(pc.sort_indices(rows, sort_keys=sort_keys).slice(0, limit))]
    rows = pa.concat_tables(kept)
    return rows.take(pc.sort_indices(rows, sort_keys=sort_keys))


def _comparable(type_: pa.DataType, comparison: Comparison) -> bool:
    """Whether Spark compares values of a type with the literal without a cast that matters."""
    literal = comparison.literal
    if comparison.operator in ("IS NULL", "IS NOT NULL"):
        return True
    if pa.types.is_string(type_):
        return isinstance(literal, str)
    if pa.types.is_integer(type_):
        return isinstance(literal, int) and abs(literal) < 2**31
    return pa.types.is_float64(type_) and isinstance(literal, int | float | Decimal)


def _filtered_by(table: pa.Table, name: str, comparison: Comparison) -> pa.Table:
    column, test, literal = table.column(name), _TESTS[comparison.operator], comparison.literal
    if literal is None:
        return table.filter(test(column))
    if pa.types.is_integer(column.type):
        return table.filter(test(column.cast(pa.int64()), pa.scalar(literal, pa.int64())))
    if isinstance(literal, str):
        return table.filter(test(column, pa.scalar(literal, column.type)))
    found = test(column, pa.scalar(float(literal), column.type))
    # In Spark NaN is above all numbers.
    return table.filter(pc.or_(found, pc.is_nan(column)) if comparison.operator in (exp.GT, exp.GTE) else found)


class _NotSimple(Exception):  # noqa: N818
    """The text is some other SQL."""


def _parsed(text: str) -> SimpleSelect:
    try:
        (found,) = sqlglot.parse(text.strip().rstrip(";"), read="spark")
    except (SqlglotError, RecursionError, ValueError) as error:
        raise _NotSimple from error
    select = _only(found, exp.Select, "expressions", "from_", "where", "order", "limit")
    source = _only(select.args.get("from_"), exp.From, "this")
    view = _name(_only(source.this, exp.Table, "this").this)
    where = select.args.get("where")
    order = select.args.get("order")
    limit = select.args.get("limit")
    columns = None if _is_star(select.expressions) else tuple(map(_column, select.expressions))
    return SimpleSelect(
        view.lower(),
        columns,
        () if where is None else tuple(map(_comparison, _conditions(where.this))),
        () if order is None else tuple(map(_sort_key, _only(order, exp.Order, "expressions").expressions)),
        None if limit is None else _limit(limit),
    )


def _only(node: object, kind: type[_Node], *parts: str) -> _Node:
    """The node, if it is of this kind and has no other parts."""
    if type(node) is not kind or any(value and name not in parts for name, value in node.args.items()):
        raise _NotSimple
    return node


def _is_star(columns: Sequence[exp.Expression]) -> bool:
    return len(columns) == 1 and isinstance(columns[0], exp.Star) and not any(columns[0].args.values())


def _name(node: object) -> str:
    return str(_only(node, exp.Identifier, "this", "quoted").this)


def _column(node: object) -> str:
    return _name(_only(node, exp.Column, "this").this)


def _conditions(node: Any) -> Iterator[Any]:
    while type(node) is exp.Paren:
        node = node.this
    if type(node) is not exp.And:
        yield node
        return
    yield from _conditions(node.left)
    yield from _conditions(node.right)


def _comparison(node: Any) -> Comparison:
    negated = type(node) is exp.Not
    inner = node.this if negated else node
    if type(inner) is exp.Is:
        _only(inner.expression, exp.Null)
        return Comparison(_column(inner.this), "IS NOT NULL" if negated else "IS NULL")
    if negated or type(node) not in _TESTS:
        raise _NotSimple
    return Comparison(_column(node.this), type(node), _literal(node.expression))


def _literal(node: Any) -> int | float | Decimal | str:
    negative = type(node) is exp.Neg
    literal = _only(node.this if negative else node, exp.Literal, "this", "is_string")
    text = str(literal.this)
    if literal.is_string and not negative:
        return text
    if literal.is_string:
        raise _NotSimple
    text = "-" * negative + text
    if text.lstrip("-").isdigit():
        return int(text)
    return float(text) if "e" in text.lower() else Decimal(text)


def _sort_key(node: object) -> SortKey:
    key = _only(node, exp.Ordered, "this", "desc", "nulls_first")
    return SortKey(_column(key.this), bool(key.args.get("desc")), bool(key.args.get("nulls_first")))


def _limit(node: object) -> int:
    count = _literal(_only(node, exp.Limit, "expression").expression)
    if not isinstance(count, int) or count < 0:
        raise _NotSimple
    return count
