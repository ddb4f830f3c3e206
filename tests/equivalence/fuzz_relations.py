"""Random relations: tables, views, subqueries and joins, and conditions on them, some with subqueries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from fuzz_aggregates import OPAQUE
from fuzz_parts import Part, clause, fixed, listed, sql
from fuzz_tables import FuzzTable, Kind
from fuzz_values import FAMILIES, INTEGER, Value, ValueMaker

MOST_ROWS = 2 * 10**5
"""Joins whose sides could have more pairs of rows are not made."""


@dataclass(frozen=True)
class Source:
    """A table, view or CTE: its name, columns and at most how many rows it has."""

    name: str
    columns: tuple[tuple[str, Kind], ...]
    rows: int
    query: Part | None = None


@dataclass(frozen=True)
class Relation:
    """What stands in FROM: its columns as expressions, at most how many rows."""

    part: Part
    columns: tuple[Value, ...]
    rows: int


@dataclass(frozen=True)
class Query:
    """A query and its columns, some of which nothing can be computed from."""

    part: Part
    columns: tuple[tuple[str, Kind], ...]
    rows: int


class RelationMaker:
    """Makes what stands in FROM and WHERE, over tables and views. Names are never used twice."""

    def __init__(self, rng: random.Random, tables: Sequence[FuzzTable]) -> None:
        self.rng = rng
        self.tables = [
            Source(t.name, tuple(zip((c.name for c in t.columns), t.kinds, strict=True)), sum(map(len, t.files)))
            for t in tables
        ]
        self.views: list[Source] = []
        self._count = 0

    def _name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def add_view(self, name: str, query: Query) -> None:
        """Let later queries read a view."""
        if sum(k != OPAQUE for _, k in query.columns) >= 1 and query.rows <= 5000:
            self.views.append(Source(name, query.columns, query.rows, query.part))

    def query(self, depth: int) -> Query:
        """A query."""
        raise NotImplementedError

    def source(self, views: float = 0.2) -> Source:
        """A table, or a view."""
        if self.views and self.rng.random() < views:
            return self.rng.choice(self.views[-6:])
        return self.rng.choice(self.tables)

    def read(self, source: Source) -> Relation:
        """A source under an alias."""
        alias = self._name("x")
        columns = tuple(Value(fixed("{}.{}", alias, n), k) for n, k in source.columns if k.name in FAMILIES)
        name = Part((source.name,), (fixed("({})", source.query),) if source.query is not None else ())
        return Relation(fixed("{} {}", name, alias), columns, source.rows)

    def relation(self, depth: int) -> Relation:
        """A source, a subquery, a join, an exploded relation."""
        rng = self.rng
        form = rng.random()
        if depth <= 0 or form < 0.4:
            return self.read(self.source())
        if form < 0.52:
            query = self.query(depth - 1)
            if any(k.name in FAMILIES for _, k in query.columns):
                alias = self._name("x")
                columns = tuple(Value(fixed("{}.{}", alias, n), k) for n, k in query.columns if k.name in FAMILIES)
                return Relation(fixed("({}) {}", query.part, alias), columns, query.rows)
        if form < 0.6:
            return self.exploded()
        return self.join(depth - 1)

    def exploded(self) -> Relation:
        """LATERAL VIEW of a source."""
        rng = self.rng
        base = self.read(self.source())
        values = ValueMaker(rng, base.columns)
        alias, name, place = self._name("e"), self._name("w"), self._name("p")
        outer = rng.choice(("", " OUTER"))
        if values.of_family("string") and rng.random() < 0.6:
            array, kind = sql("split({}, '{}')", values.column("string").part, rng.choice(" ,a-")), Kind("string")
        elif rng.random() < 0.6:
            a, b = values.small(1), values.small(0)
            array, kind = sql("array({}, {})", a.part, b.part), INTEGER
        else:
            array, kind = sql("sequence(1, CAST(pmod({}, 4) AS INT))", values.small(0).part), Kind("int", 4)
        generator, names, made = "explode", name, [(name, kind)]
        if rng.random() < 0.3:
            generator, names = "posexplode", f"{place}, {name}"
            made.append((place, Kind("int", 50)))
        around, kept = self._name("x"), [self._name("c") for _ in base.columns]
        items = [fixed("{} AS {}", v.part, n) for v, n in zip(base.columns, kept, strict=True)]
        items += [fixed("{}.{}", alias, n) for n, _ in made]
        exploded = fixed("{} LATERAL VIEW{} {}({}) {} AS {}", base.part, outer, generator, array, alias, names)
        part = fixed("(SELECT {} FROM {}) {}", listed(items), exploded, around)
        kinds = [*((n, v.kind) for n, v in zip(kept, base.columns, strict=True)), *made]
        return Relation(part, tuple(Value(fixed("{}.{}", around, n), k) for n, k in kinds), base.rows * 6)

    def equality(self, left: Sequence[Value], right: Sequence[Value]) -> Part:
        """``=`` between columns of two sides."""
        rng = self.rng
        families = {v.kind.name for v in left} & {v.kind.name for v in right}
        pairs = [(a, b) for a in left for b in right if a.kind.name == b.kind.name and a.kind.name != "boolean"]
        if not pairs or (rng.random() < 0.1 and families):
            a, b = (ValueMaker(rng, side).small(1) for side in (left, right))
            return sql("({} = {})", a.part, b.part)
        keys = [(a, b) for a, b in pairs if str(a.part).endswith(".k") and str(b.part).endswith(".k")]
        a, b = rng.choice(keys if keys and rng.random() < 0.6 else pairs)
        return sql(rng.choice(("({} = {})", "({} = {})", "({} = {})", "({} <=> {})")), a.part, b.part)

    def comparison(self, left: Sequence[Value], right: Sequence[Value]) -> Part:
        """An inequality between columns of two sides."""
        rng = self.rng
        pairs = [(a, b) for a in left for b in right if a.kind.name == b.kind.name]
        if not pairs:
            a, b = (ValueMaker(rng, side).small(1) for side in (left, right))
        else:
            a, b = rng.choice(pairs)
        return sql(f"({{}} {rng.choice(('<', '<=', '>', '>=', '<>'))} {{}})", a.part, b.part)

    def joined(self, left: Relation, right: Relation) -> Part:
        """A condition of a join."""
        rng = self.rng
        parts = [self.equality(left.columns, right.columns)]
        draw = rng.random()
        if draw < 0.15:
            parts.append(self.equality(left.columns, right.columns))
        elif draw < 0.4:
            parts.append(self.comparison(left.columns, right.columns))
        elif draw < 0.5:
            parts = [self.comparison(left.columns, right.columns)]
        if rng.random() < 0.2:
            parts.append(ValueMaker(rng, [*left.columns, *right.columns]).condition(0))
        return listed(parts, " AND ")

    def join(self, depth: int) -> Relation:
        """Two relations."""
        rng = self.rng
        left, right = self.relation(depth), self.relation(depth - 1)
        if left.rows * right.rows > MOST_ROWS:
            return left
        kind = rng.choice(("JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN",
                           "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN"))  # fmt: skip
        if kind == "CROSS JOIN":
            if left.rows * right.rows > 5000:
                kind = "JOIN"
            else:
                columns = (*left.columns, *right.columns)
                part = Part((left.part, " CROSS JOIN ", right.part), inner=(0, 2))
                return Relation(part, columns, left.rows * right.rows)
        part = Part((left.part, f" {kind} ", right.part, " ON ", self.joined(left, right)), inner=(0, 2))
        if kind.startswith(("LEFT SEMI", "LEFT ANTI")):
            return Relation(part, left.columns, left.rows)
        rows = left.rows * right.rows + left.rows + right.rows
        return Relation(part, (*left.columns, *right.columns), rows)

    def where(self, relation: Relation, often: float = 0.5) -> Part:
        """Conditions, some with subqueries."""
        rng = self.rng
        if rng.random() > often:
            return fixed("")
        values = ValueMaker(rng, relation.columns)
        parts = [values.condition()] if rng.random() < 0.7 else []
        if rng.random() < 0.35 or not parts:
            found = self.subquery_condition(relation, values)
            parts.append(sql("({} OR {})", found, values.condition(0)) if rng.random() < 0.15 else found)
        return clause(" WHERE {}", listed(parts, " AND "))

    def subquery_condition(self, outer: Relation, values: ValueMaker) -> Part:
        """EXISTS, IN, NOT IN, a comparison with a scalar subquery."""
        rng = self.rng
        inner = self.read(self.source())
        own = ValueMaker(rng, inner.columns)
        more = clause(" AND {}", own.condition(0)) if rng.random() < 0.4 else fixed("")
        form = rng.randrange(7)
        if form < 2:
            link = self.equality(outer.columns, inner.columns)
            if rng.random() < 0.3:
                link = listed([link, self.comparison(outer.columns, inner.columns)], " AND ")
            name = rng.choice(("EXISTS", "NOT EXISTS"))
            return fixed("{} (SELECT 1 FROM {} WHERE {}{})", name, inner.part, link, more)
        if form < 4:
            pairs = [(a, b) for a in outer.columns for b in inner.columns if a.kind.name == b.kind.name]
            a, b = rng.choice(pairs) if pairs else (values.small(0), own.small(0))
            where = clause(" WHERE {}", own.condition(0)) if rng.random() < 0.5 else fixed("")
            return fixed(
                "{} {} (SELECT {} FROM {}{})", a.part, rng.choice(("IN", "IN", "NOT IN")), b.part, inner.part, where
            )
        a = values.value(rng.choice(("int", "double")), 1)
        operator = rng.choice(("<", ">", "<=", ">=", "<>"))
        name = rng.choice(("max", "min", "avg", "count"))
        b = own.exact(0) if a.kind.name == "double" else own.small(0)
        if form == 4:
            return fixed("{} {} (SELECT {}({}) FROM {}{})", a.part, operator, name, b.part, inner.part,
                         clause(" WHERE {}", own.condition(0)) if rng.random() < 0.3 else fixed(""))  # fmt: skip
        if form == 5:
            link = self.equality(outer.columns, inner.columns)
            return fixed(
                "{} {} (SELECT {}({}) FROM {} WHERE {}{})", a.part, operator, name, b.part, inner.part, link, more
            )
        link = self.comparison(outer.columns, inner.columns)
        other = self.read(self.source(0))
        own2 = ValueMaker(rng, other.columns)
        return fixed("0.25D * (SELECT sum(abs({})) FROM {}) {} (SELECT sum(abs({})) FROM {} WHERE {})",
                     own2.small(0).part, other.part, rng.choice("<>"), own.small(0).part, inner.part, link)  # fmt: skip
