"""Statements that only read one view, answered without Spark.

    SELECT * | column, ... FROM view
      [WHERE column = literal [AND ...]] [ORDER BY column [ASC|DESC] [NULLS FIRST|LAST], ...] [LIMIT n]

They are parsed here, in less than a millisecond where starting Spark takes seconds. A comparison is supported where
Spark compares without a cast; any other statement is left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.kernels import columns

_TESTS: dict[str, Callable[..., Any]] = {
    "IS NULL": pc.is_null,
    "IS NOT NULL": pc.is_valid,
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_Item = TypeVar("_Item")
_SPELLINGS = {"==": "=", "!=": "<>"}
_TOKEN = re.compile(
    r"""
    (?:\s|--[^\n]*(?:\n|$)|/\*(?!\+).*?\*/)*
    (?: (?P<word>[A-Za-z_]\w*)
      | `(?P<name>[^`]+)`
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
      | '(?P<text>[^']*)' | "(?P<quoted>[^"]*)"
      | (?P<sign><=>|<=|>=|<>|!=|==|[-=<>,*();])
      | (?P<end>$)
    )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_NO_NAMES = frozenset(
    (
        *("ALL", "AND", "AS", "BY", "CASE", "CAST", "DISTINCT", "EXISTS", "FALSE", "FROM", "IN", "INTERVAL", "IS"),
        *("LIMIT", "NOT", "NULL", "OR", "ORDER", "SELECT", "TRUE", "VALUES", "WHERE"),
    )
)
"""Words that mean something else than a column or view where one may stand."""


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
    if "\\" in text or "''" in text:  # escapes are Spark's to read
        return None
    try:
        return _Parser(text).select()
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
        return table.filter(test(column.cast(pa.int64()), _scalar(int(literal))))
    if isinstance(literal, str):
        return table.filter(test(column, _scalar(literal)))
    found = test(column, _scalar(float(literal)))
    # In Spark NaN is above all numbers.
    return table.filter(pc.or_(found, pc.is_nan(column)) if comparison.operator in (">", ">=") else found)


def _scalar(value: float | str) -> Any:
    """A value for Arrow; ``pyarrow.scalar`` imports pandas first, which takes longer than reading a view."""
    if not isinstance(value, str):
        return columns.column(np.array([value]))[0]
    data = value.encode()
    buffers = [None, pa.py_buffer(np.array([0, len(data)], np.int32).data), pa.py_buffer(data)]
    found: pa.Array[Any] = pa.Array.from_buffers(pa.string(), 1, buffers)
    return found[0]


class _NotSimple(Exception):  # noqa: N818
    """The text is some other SQL."""


class _Parser:
    """Takes a text apart, token by token: its kind, and what it says (words in upper case)."""

    def __init__(self, text: str) -> None:
        self._text, self._end = text, 0
        self._next()

    def _next(self) -> None:
        """Go on to the next token, which begins where the last one ended."""
        found = _TOKEN.match(self._text, self._end)
        if found is None:
            raise _NotSimple
        self._end = found.end()
        assert found.lastgroup is not None
        self._kind, self._written = found.lastgroup, found[found.lastgroup]

    def _at(self, *expected: str) -> bool:
        """Whether a keyword or sign is next; it is passed then."""
        found = self._kind in ("word", "sign") and self._written.upper() in expected
        if found:
            self._next()
        return found

    def _expect(self, *expected: str) -> None:
        for word in expected:
            if not self._at(word):
                raise _NotSimple

    def select(self) -> SimpleSelect:
        self._expect("SELECT")
        columns = None if self._at("*") else tuple(self._listed(self._name))
        self._expect("FROM")
        view = self._name().lower()
        where = tuple(self._conditions()) if self._at("WHERE") else ()
        order: tuple[SortKey, ...] = ()
        if self._at("ORDER"):
            self._expect("BY")
            order = tuple(self._listed(self._sort_key))
        limit = self._limit() if self._at("LIMIT") else None
        while self._at(";"):
            pass
        if self._kind != "end":
            raise _NotSimple
        return SimpleSelect(view, columns, where, order, limit)

    def _listed(self, item: Callable[[], _Item]) -> Iterator[_Item]:
        yield item()
        while self._at(","):
            yield item()

    def _name(self) -> str:
        written = self._written
        if self._kind not in ("word", "name") or (self._kind == "word" and written.upper() in _NO_NAMES):
            raise _NotSimple
        self._next()
        return written

    def _conditions(self) -> Iterator[Comparison]:
        while True:
            if self._at("("):
                yield from self._conditions()
                self._expect(")")
            else:
                yield self._comparison()
            if not self._at("AND"):
                return

    def _comparison(self) -> Comparison:
        negated = self._at("NOT")
        name = self._name()
        if self._at("IS"):
            valid = negated or self._at("NOT")
            self._expect("NULL")
            return Comparison(name, "IS NOT NULL" if valid else "IS NULL")
        operator = _SPELLINGS.get(self._written, self._written)
        if negated or self._kind != "sign" or operator not in _TESTS:
            raise _NotSimple
        self._next()
        return Comparison(name, operator, self._literal())

    def _literal(self) -> int | float | Decimal | str:
        negative = self._at("-")
        kind, text = self._kind, self._written
        self._next()
        if kind in ("text", "quoted") and not negative:
            return text
        if kind != "number":
            raise _NotSimple
        text = "-" * negative + text
        if text.lstrip("-").isdigit():
            return int(text)
        return float(text) if "e" in text.lower() else Decimal(text)

    def _sort_key(self) -> SortKey:
        name = self._name()
        descending = not self._at("ASC") and self._at("DESC")
        if not self._at("NULLS"):
            return SortKey(name, descending, nulls_first=not descending)
        first = self._at("FIRST")
        if not first:
            self._expect("LAST")
        return SortKey(name, descending, first)

    def _limit(self) -> int:
        count = self._literal()
        if not isinstance(count, int) or count < 0:
            raise _NotSimple
        return count
