"""Statements that only read one view, understood without Spark.

    SELECT * | column, ... FROM view
      [WHERE column = literal [AND ...]] [ORDER BY column [ASC|DESC] [NULLS FIRST|LAST], ...] [LIMIT n]

Comparisons are understood where no cast is needed to say what Spark would answer; anything else is
left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

_T = TypeVar("_T")
_TOKENS = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_]\w*|`[^`]+`)|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<text>'(?:[^'\\]|'')*')|(?P<sign><=|>=|<>|!=|=|<|>|,|\*|;))"
)
_COMPARE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True)
class Comparison:
    """``column operator literal``; operators ``IS NULL`` and ``IS NOT NULL`` have no literal."""

    column: str
    operator: str
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
    tokens = _tokenize(text)
    if tokens is None:
        return None
    try:
        return _Parser(tokens).select()
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
        table = table.filter(_mask(table.column(name), comparison))
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
    sort_keys = [
        (n, "descending" if k.descending else "ascending", "at_start" if k.nulls_first else "at_end") for n, k in keys
    ]
    held: list[pa.Table] = []
    for part in parts:
        for name, _ in keys:
            column = part.column(name)
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                return None
        held.append(part)
        if limit is not None:
            rows = pa.concat_tables(held)
            held = [rows.take(pc.sort_indices(rows, sort_keys=sort_keys).slice(0, limit))]
    rows = pa.concat_tables(held)
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


def _mask(column: pa.ChunkedArray, comparison: Comparison) -> pa.ChunkedArray:
    if comparison.operator == "IS NULL":
        return pc.is_null(column)
    if comparison.operator == "IS NOT NULL":
        return pc.is_valid(column)
    compare, literal = _COMPARE[comparison.operator], comparison.literal
    if pa.types.is_integer(column.type):
        return compare(column.cast(pa.int64()), pa.scalar(literal, pa.int64()))
    if not isinstance(literal, int | float | Decimal):
        return compare(column, pa.scalar(literal, column.type))
    found = compare(column, pa.scalar(float(literal), column.type))
    # In Spark NaN is above all numbers.
    return pc.or_(found, pc.is_nan(column)) if comparison.operator in (">", ">=") else found


class _NotSimple(Exception):  # noqa: N818
    """The text is some other SQL."""


def _tokenize(text: str) -> list[tuple[str, str]] | None:
    tokens, at = [], 0
    text = text.strip()
    while at < len(text):
        match = _TOKENS.match(text, at)
        if match is None or match.lastgroup is None:
            return None
        tokens.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    while tokens and tokens[-1] == ("sign", ";"):
        tokens.pop()
    return tokens


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    def select(self) -> SimpleSelect:
        self._need("SELECT")
        columns = None if self._sign("*") else self._list(self._name)
        self._need("FROM")
        view = self._name().lower()
        where: tuple[Comparison, ...] = ()
        order: tuple[SortKey, ...] = ()
        limit = None
        if self._word("WHERE"):
            found = [self._comparison()]
            while self._word("AND"):
                found.append(self._comparison())
            where = tuple(found)
        if self._word("ORDER"):
            self._need("BY")
            order = self._list(self._sort_key)
        if self._word("LIMIT"):
            limit = int(self._take("number"))
        if self._at < len(self._tokens):
            raise _NotSimple
        return SimpleSelect(view, columns, where, order, limit)

    def _comparison(self) -> Comparison:
        column = self._name()
        if self._word("IS"):
            negated = self._word("NOT")
            self._need("NULL")
            return Comparison(column, "IS NOT NULL" if negated else "IS NULL")
        operator = self._take("sign")
        if operator not in _COMPARE:
            raise _NotSimple
        kind, text = self._next()
        if kind == "text":
            return Comparison(column, operator, text[1:-1].replace("''", "'"))
        if kind != "number":
            raise _NotSimple
        if text.lstrip("-").isdigit():
            return Comparison(column, operator, int(text))
        return Comparison(column, operator, float(text) if "e" in text.lower() else Decimal(text))

    def _sort_key(self) -> SortKey:
        column = self._name()
        descending = self._word("DESC") or (self._word("ASC") and False)
        nulls_first = not descending
        if self._word("NULLS"):
            nulls_first = self._word("FIRST")
            if not nulls_first:
                self._need("LAST")
        return SortKey(column, descending, nulls_first)

    def _list(self, item: Callable[[], _T]) -> tuple[_T, ...]:
        found = [item()]
        while self._sign(","):
            found.append(item())
        return tuple(found)

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise _NotSimple
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, kind: str) -> str:
        found, text = self._next()
        if found != kind:
            raise _NotSimple
        return text

    def _name(self) -> str:
        text = self._take("name")
        if text.upper() in _RESERVED:
            raise _NotSimple
        return text.strip("`")

    def _word(self, word: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at][1].upper() == word:
            self._at += 1
            return True
        return False

    def _sign(self, sign: str) -> bool:
        return self._word(sign)

    def _need(self, word: str) -> None:
        if not self._word(word):
            raise _NotSimple


_RESERVED = {
    "SELECT",
    "FROM",
    "WHERE",
    "AND",
    "ORDER",
    "BY",
    "LIMIT",
    "DISTINCT",
    "ALL",
    "NULL",
    "TRUE",
    "FALSE",
    "CASE",
    "NOT",
}
