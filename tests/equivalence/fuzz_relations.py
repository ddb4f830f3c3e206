"""Random relations: tables, views, subqueries and joins, and conditions on them, some with subqueries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from fuzz_aggregates import OPAQUE
from fuzz_parts import Part, clause, fixed, listed, sql
from fuzz_tables import FuzzTable, Kind
from fuzz_values import FAMILIES, INTEGER, STRING, Value, ValueMaker

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
    """What stands in FROM: its columns as expressions, at most how many rows, the source when it is just one."""

    part: Part
    columns: tuple[Value, ...]
    rows: int
    source: Source | None = None


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
        return Relation(fixed("{} {}", name, alias), columns, source.rows, source)

    def relation(self, depth: int) -> Relation:
        """A source, a subquery, a join, an exploded relation."""
        rng = self.rng
        form = rng.random()
        if depth <= 0 or form < 0.3:
            return self.read(self.source())
        if form < 0.42:
            query = self.query(depth - 1)
            if any(k.name in FAMILIES for _, k in query.columns):
                alias = self._name("x")
                columns = tuple(Value(fixed("{}.{}", alias, n), k) for n, k in query.columns if k.name in FAMILIES)
                return Relation(fixed("({}) {}", query.part, alias), columns, query.rows)
        if form < 0.5:
            return self.exploded()
        if form < 0.53:
            return self.turned()
        if form < 0.57:
            return self.constants()
        if form < 0.59:
            return self.recursion()
        return self.join(depth - 1)

    def exploded(self) -> Relation:
        """LATERAL VIEW of a source."""
        rng = self.rng
        base = self.read(self.source())
        values = ValueMaker(rng, base.columns)
        alias, name, place = self._name("y"), self._name("w"), self._name("p")
        outer = rng.choice(("", " OUTER"))
        generator, names, kinds = "explode", [name], [INTEGER]
        a, b = values.small(1), values.small(0)
        form = rng.randrange(10)
        if form < 4 and values.of_family("string"):
            made = sql("split({}, '{}')", values.column("string").part, rng.choice(" ,a-"))
            kinds = [Kind("string")]
        elif form < 6:
            made = sql("array({}, {})", a.part, b.part)
        elif form == 6:
            made = sql("sequence(1, CAST(pmod({}, 4) AS INT))", b.part)
        elif form == 7:
            made = fixed("map('k', {}, 'v', {})", a.part, b.part)
            names, kinds = [place, name], [STRING, INTEGER]
        elif form == 9:
            made = fixed("to_json(named_struct('a', {}, 'b', {})), 'a', 'b'", a.part, values.value("string", 0).part)
            generator, names, kinds = "json_tuple", [place, name], [STRING, STRING]
        else:
            c, d = values.any(0), values.value("string", 0)
            made = fixed("array(named_struct('i', {}, 's', {}), NULL, named_struct('i', {}, 's', {}))",
                         a.part, d.part, b.part, fixed("CAST({} AS STRING)", c.part)
                         if c.kind.name not in ("double", "timestamp") else d.part)  # fmt: skip
            generator, names, kinds = "inline", [place, name], [INTEGER, STRING]
        if generator == "explode" and form != 7 and rng.random() < 0.3:
            generator, names, kinds = "posexplode", [place, name], [Kind("int", 50), *kinds]
        around, kept = self._name("x"), [self._name("o") for _ in base.columns]
        items = [fixed("{} AS {}", v.part, n) for v, n in zip(base.columns, kept, strict=True)]
        items += [fixed("{}.{}", alias, n) for n in names]
        call = fixed("{}({})", generator, made)
        exploded = fixed("{} LATERAL VIEW{} {} {} AS {}", base.part, outer, call, alias, ", ".join(names))
        part = fixed("(SELECT {} FROM {}) {}", listed(items), exploded, around)
        all_kinds = [*((n, v.kind) for n, v in zip(kept, base.columns, strict=True)), *zip(names, kinds, strict=True)]
        return Relation(part, tuple(Value(fixed("{}.{}", around, n), k) for n, k in all_kinds), base.rows * 6)

    def constants(self) -> Relation:
        """A source joined with rows that stand in the query."""
        rng = self.rng
        base = self.read(self.source())
        alias, number, text = self._name("y"), self._name("w"), self._name("p")
        values = ValueMaker(rng, base.columns)
        if rng.random() < 0.3:
            rows, columns = fixed("(SELECT id AS {} FROM range({}, {}))", number, rng.randrange(-2, 2), 5), [INTEGER]
            made = fixed("{} {}", rows, alias)
        else:
            listed_rows = [
                fixed("({}, {})", rng.choice((0, 1, 2, 3, "CAST(NULL AS INT)")), values.constant("string").part)
                for _ in range(rng.randrange(1, 6))
            ]
            made, columns = fixed("(VALUES {}) {}({}, {})", listed(listed_rows), alias, number, text), [INTEGER, STRING]
        added = tuple(Value(fixed("{}.{}", alias, n), k) for n, k in zip((number, text), columns, strict=False))
        kind = rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN"))
        part = fixed("{} {} {} ON {}", base.part, kind, made, fixed("{} = {}", values.small(1).part, added[0].part))
        return Relation(part, (*base.columns, *added), base.rows * 6)

    def recursion(self) -> Relation:
        """WITH RECURSIVE: rows of a source as they count down, or along edges that are pairs of small numbers."""
        rng = self.rng
        base, name, around = self.read(self.source()), self._name("r"), self._name("x")
        number, value, level = (self._name(letter) for letter in "wpo")
        values = ValueMaker(rng, base.columns)
        carried = values.any(1)
        anchor = sql("SELECT CAST(pmod({}, 5) AS INT), {}, 1 FROM {}", values.small(1).part, carried.part, base.part)
        if rng.random() < 0.4:
            step = Part((f"SELECT {number} - 1, {value}, {level} + 1 FROM {name} WHERE {number} > 0",))
        else:
            edges, alias = self.read(self.source(0)), self._name("y")
            ends = ValueMaker(rng, edges.columns)
            begin, end = (fixed("CAST(pmod({}, 5) AS INT)", ends.small(1).part) for _ in range(2))
            distinct = fixed("(SELECT DISTINCT {} AS f, {} AS t FROM {}) {}", begin, end, edges.part, alias)
            kind = rng.choice(("JOIN", "JOIN", "LEFT JOIN"))
            columns = f"{alias}.t, {name}.{value}, {name}.{level} + 1 FROM {name} {kind}"
            until = f"ON {alias}.f = {name}.{number} WHERE {name}.{level} < {rng.choice((2, 3))}"
            step = fixed("SELECT {} {} {}", columns, distinct, until)
        limit = rng.choice(("", "", " MAX RECURSION LEVEL 20"))
        head = f"WITH RECURSIVE {name}({number}, {value}, {level}){limit}"
        part = fixed("({} AS ({} UNION ALL {}) SELECT * FROM {}) {}", head, anchor, step, name, around)
        kinds = ((number, Kind("int", 5)), (value, carried.kind), (level, Kind("int", 20)))
        return Relation(part, tuple(Value(fixed("{}.{}", around, n), k) for n, k in kinds), base.rows * 31)

    def turned(self) -> Relation:
        """UNPIVOT: columns to rows; or stack."""
        rng = self.rng
        base = self.read(self.source(0))
        values = ValueMaker(rng, base.columns)
        kept, name, value = self._name("o"), self._name("w"), self._name("p")
        around, within = self._name("x"), self._name("x")
        columns = [self._name("o") for _ in range(rng.choice((2, 3)))]
        items = [fixed("{} AS {}", values.column().part, kept)]
        kept_kind = next(c.kind for c in base.columns if str(items[0]).startswith(f"{c.part} "))
        if rng.random() < 0.3:
            made = [values.small(1).part for _ in columns]
            texts = listed([fixed("'{}', CAST({} AS BIGINT)", c, m) for c, m in zip(columns, made, strict=True)])
            part = fixed("(SELECT {}, stack({}, {}) AS ({}, {}) FROM {}) {}",
                         items[0], len(columns), texts, name, value, base.part, around)  # fmt: skip
        else:
            items += [fixed("CAST({} AS BIGINT) AS {}", values.small(1).part, c) for c in columns]
            nulls = rng.choice(("", " INCLUDE NULLS"))
            part = fixed("(SELECT * FROM (SELECT {} FROM {}) {} UNPIVOT{} ({} FOR {} IN ({}))) {}",
                         listed(items), base.part, within, nulls, value, name, ", ".join(columns), around)  # fmt: skip
        kinds = ((kept, kept_kind), (name, STRING), (value, INTEGER))
        return Relation(part, tuple(Value(fixed("{}.{}", around, n), k) for n, k in kinds), base.rows * 3)

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
        elif draw < 0.55:
            parts = [sql("({} OR {})", *(self.equality(left.columns, right.columns) for _ in range(2)))]
        if rng.random() < 0.2:
            parts.append(ValueMaker(rng, [*left.columns, *right.columns]).condition(0))
        return listed(parts, " AND ")

    def join(self, depth: int) -> Relation:
        """Two relations."""
        rng = self.rng
        left = self.relation(depth)
        right = self.relation(depth - 1)
        if left.source is not None and rng.random() < 0.15:
            right = self.read(left.source)
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
        if kind == "JOIN" and rng.random() < 0.1:
            return self.lateral(left, right)
        condition = fixed("ON {}", self.joined(left, right))
        sources = [r.source for r in (left, right)]
        if "SEMI" not in kind and "ANTI" not in kind and rng.random() < 0.1:
            shared = [n for n, k in sources[0].columns if sources[1] is not None and (n, k.name) in
                      {(m, j.name) for m, j in sources[1].columns}] if sources[0] is not None else []  # fmt: skip
            if shared:
                condition = fixed("USING ({})", ", ".join(shared[: rng.choice((1, 2))]))
            columns = [{n for n, _ in s.columns} if s is not None else set() for s in sources]
            if shared and columns[0] & columns[1] == set(shared) and rng.random() < 0.5:
                kind, condition = f"NATURAL {kind}", fixed("")
        part = Part((left.part, f" {kind} ", right.part, " ", condition), inner=(0, 2))
        if kind.startswith(("LEFT SEMI", "LEFT ANTI")):
            return Relation(part, left.columns, left.rows)
        rows = left.rows * right.rows + left.rows + right.rows
        return Relation(part, (*left.columns, *right.columns), rows)

    def lateral(self, left: Relation, right: Relation) -> Relation:
        """A subquery for each row of the left side: rows that match, or an aggregate of them."""
        rng = self.rng
        alias = self._name("x")
        among = rng.sample(right.columns, min(len(right.columns), rng.choice((1, 2))))
        names = [self._name("o") for _ in among]
        link = self.equality(left.columns, right.columns)
        kinds = [v.kind for v in among]
        first = self.first_rows(left, right, list(zip(among, names, strict=True))) if rng.random() < 0.6 else None
        if first is not None and rng.random() < 0.3:
            within, outer = self._name("x"), [self._name("o") for _ in names]
            listed_names = [fixed("max({}.{}) AS {}", within, n, o) for n, o in zip(names, outer, strict=True)]
            first, names = fixed("SELECT {} FROM ({}) {}", listed(listed_names), first, within), outer
        if rng.random() < 0.5:
            items = listed([fixed("max({}) AS {}", v.part, n) for v, n in zip(among, names, strict=True)])
        else:
            items = listed([fixed("{} AS {}", v.part, n) for v, n in zip(among, names, strict=True)])
        kind, condition = rng.choice((("CROSS JOIN", ""), ("LEFT JOIN", " ON true"), ("JOIN", " ON true")))
        if first is not None:
            inner = fixed("({}) {}", first, alias)
        else:
            inner = fixed("(SELECT {} FROM {} WHERE {}) {}", items, right.part, link, alias)
        part = Part((left.part, f" {kind} LATERAL ", inner, condition), inner=(0,))
        columns = tuple(Value(fixed("{}.{}", alias, n), k) for n, k in zip(names, kinds, strict=True))
        return Relation(part, (*left.columns, *columns), left.rows * (right.rows + 1))

    def first_rows(
        self, outer: Relation, inner: Relation, items: list[tuple[Value, str]], most: int = 3
    ) -> Part | None:
        """The first rows that match a row outside, in an order by columns that need not come out; ties are alike.

        Spark itself relies on a sort by one key to keep an order, which it does where no key is NULL. Those of IN and
        EXISTS it takes of the rows for all keys, so that the order has the key, too.
        """
        rng = self.rng
        pairs = [
            (a, b)
            for a in outer.columns
            for b in inner.columns
            if a.kind.name == b.kind.name and a.kind.name not in ("boolean", "double")
        ]
        if not pairs:
            return None
        keys = [(a, b) for a, b in pairs if str(a.part).endswith(".k") and str(b.part).endswith(".k")]
        a, b = rng.choice(keys if keys and rng.random() < 0.6 else pairs)
        conditions = [sql("({} = {})", a.part, b.part), fixed("{} IS NOT NULL", b.part)]
        if rng.random() < 0.3:
            conditions.append(ValueMaker(rng, inner.columns).condition(0))
        before = [rng.choice(inner.columns).part for _ in range(rng.choice((0, 1, 1, 2)))]
        if rng.random() < 0.2:
            before.append(ValueMaker(rng, inner.columns).any(1).part)
        ways = ("", "", " DESC", " NULLS LAST", " DESC NULLS FIRST")
        by = (*before, *(v.part for v, _ in items), b.part)
        order = listed([fixed("{}{}", part, rng.choice(ways)) for part in by])
        chosen = listed([fixed("{} AS {}", v.part, n) for v, n in items])
        limit = fixed(" LIMIT {}", rng.randrange(1, most + 1))
        offset = clause(" OFFSET {}", rng.choice((1, 2))) if rng.random() < 0.2 else fixed("")
        text = "SELECT {} FROM {} WHERE {} ORDER BY {}{}{}"
        return fixed(text, chosen, inner.part, listed(conditions, " AND "), order, limit, offset)

    def where(self, relation: Relation, often: float = 0.5) -> Part:
        """Conditions, some with subqueries."""
        rng = self.rng
        if rng.random() > often:
            return fixed("")
        values = ValueMaker(rng, relation.columns)
        parts = [values.condition()] if rng.random() < 0.7 else []
        if rng.random() < 0.5 or not parts:
            found = self.subquery_condition(relation, values)
            parts.append(sql("({} OR {})", found, values.condition(0)) if rng.random() < 0.15 else found)
        return clause(" WHERE {}", listed(parts, " AND "))

    def subquery_condition(self, outer: Relation, values: ValueMaker) -> Part:
        """A condition with a subquery."""
        raise NotImplementedError
