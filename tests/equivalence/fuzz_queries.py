"""Random queries of everything that views support, over tables and over views that are there already."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuzz_aggregates import CallMaker
from fuzz_parts import Part, clause, fixed, listed, sql
from fuzz_relations import MOST_ROWS, Query, Relation, Source
from fuzz_subqueries import SubqueryMaker
from fuzz_tables import Kind
from fuzz_values import FAMILIES, STRING, TIMESTAMP, Value, ValueMaker, widest


class QueryMaker(SubqueryMaker):
    """Makes queries; those that became views are added as sources of later ones."""

    def _items(self, values: Sequence[Value]) -> tuple[Part, tuple[tuple[str, Kind], ...]]:
        names = [self._name("o") for _ in values]
        items = listed([fixed("{} AS {}", v.part, n) for v, n in zip(values, names, strict=True)])
        return items, tuple((n, v.kind) for n, v in zip(names, values, strict=True))

    def flat(self, depth: int) -> Query:
        """SELECT [DISTINCT] ... FROM ... WHERE, sometimes with a scalar subquery."""
        rng = self.rng
        relation = self.relation(depth)
        values = ValueMaker(rng, relation.columns)
        chosen = [values.any() for _ in range(rng.randrange(1, 5))]
        if rng.random() < 0.12:
            chosen.append(self.scalar_subquery(relation))
        if rng.random() < 0.06:
            chosen.append(self.membership(relation, values))
        where = self.where(relation)
        items, columns = self._items(chosen)
        if rng.random() < 0.1 and columns[0][1].name != "double":  # a column of the same SELECT
            own = self._name("o")
            items = fixed("{}, coalesce(CAST({} AS STRING), '?') AS {}", items, columns[0][0], own)
            columns = (*columns, (own, STRING))
        distinct = clause("DISTINCT ") if rng.random() < 0.2 else fixed("")
        return Query(fixed("SELECT {}{} FROM {}{}", distinct, items, relation.part, where), columns, relation.rows)

    def grouped(self, depth: int) -> Query:
        """GROUP BY with all its forms, or an aggregate of everything."""
        rng = self.rng
        relation = self.relation(depth)
        values = ValueMaker(rng, relation.columns)
        where = self.where(relation, 0.35)
        calls = CallMaker(rng, values, relation.rows)
        keys = [values.any(1) for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3)))]
        results = [calls.aggregate() for _ in range(rng.randrange(1, 5))]
        if rng.random() < 0.15 and len(results) > 1:
            results.append(self._combined(results))
        if rng.random() < 0.1:
            other = self.read(self.source())
            total = CallMaker(rng, ValueMaker(rng, other.columns), other.rows).aggregate()
            results.append(Value(fixed("(SELECT {} FROM {})", total.part, other.part), total.kind))
        names = [f"o{self._count + 1 + n}" for n in range(len(keys))]
        grouping = self._grouping(names)
        if any(w in str(grouping) for w in ("ROLLUP", "CUBE", "SETS")) and rng.random() < 0.5:
            call = fixed("grouping_id()") if rng.random() < 0.4 else fixed("grouping({})", rng.choice(keys).part)
            results.append(Value(call, Kind("int", 8)))
        elif keys and rng.random() < 0.12:
            results.append(Value(fixed("rank() OVER (ORDER BY {})", self.plain_call(calls)), Kind("int", 2**20)))
        items, columns = self._items([*keys, *results])
        assert [n for n, _ in columns[: len(names)]] == names
        having = fixed("")
        if rng.random() < 0.25:
            source = self.read(self.source())
            conditions = (
                fixed("count(*) > {}", rng.choice((1, 2, 5))),
                fixed("max({}) > 0", values.small(0).part),
                fixed("{} IS NOT NULL", calls.aggregate().part),
                fixed("count(*) < (SELECT count({}) FROM {})",
                      ValueMaker(rng, source.columns).column().part, source.part),
            )  # fmt: skip
            having = clause(" HAVING {}", rng.choice(conditions))
        part = fixed("SELECT {} FROM {}{}{}{}", items, relation.part, where, grouping, having)
        return Query(part, columns, relation.rows if keys else 1)

    def _grouping(self, names: list[str]) -> Part:
        """GROUP BY in one of its forms."""
        rng = self.rng
        if not names:
            return fixed("")
        form = rng.random()
        parts = listed([fixed("{}", n) for n in names])
        if rng.random() < 0.06:
            return fixed(" GROUP BY ALL")
        if form < 0.75 or len(names) < 2:
            return fixed(" GROUP BY {}", parts)
        if form < 0.86:
            return fixed(" GROUP BY {} ({})", rng.choice(("ROLLUP", "CUBE")), parts)
        if form < 0.92:
            rest = listed([fixed("{}", n) for n in names[1:]])
            return fixed(" GROUP BY {}, {} ({})", names[0], rng.choice(("ROLLUP", "CUBE")), rest)
        sets = rng.sample([f"({names[0]})", "()", f"({names[-1]})"], rng.randrange(0, 4))
        chosen = listed([fixed("{}", s) for s in [f"({', '.join(names)})", *sets]])
        return fixed(" GROUP BY GROUPING SETS ({})", chosen)

    def plain_call(self, calls: CallMaker) -> Part:
        """An aggregate to order by."""
        argument = calls.summable_int()
        return fixed(self.rng.choice(("sum({})", "count({})", "max({}) DESC")), argument.part)

    def timed(self, depth: int) -> Query:
        """GROUP BY windows of time."""
        rng = self.rng
        relation = self.relation(depth)
        values = ValueMaker(rng, relation.columns)
        times = values.of_family("timestamp") or values.of_family("date")
        if not times or relation.rows > 5000:
            return self.grouped(depth)
        where = self.where(relation, 0.3)
        calls = CallMaker(rng, values, relation.rows * 3)
        spans = rng.choice(("'1 hour'", "'7 days'", "'90 days'", "'3 hours', '1 hour'", "'40 days', '20 days'",
                            "'50 days', '30 days', '7 hours'", "'1 day', '1 day', '5 hours'"))  # fmt: skip
        name = "window"
        if rng.random() < 0.3:
            name, spans = "session_window", rng.choice(("'1 hour'", "'3 days'", "'60 days'"))
        call = fixed("{}({}, {})", name, rng.choice(times).part, spans)
        keys = [values.any(1) for _ in range(rng.choice((0, 0, 1)))]
        results = [calls.aggregate() for _ in range(rng.randrange(1, 4))]
        edge = Value(fixed("{}.{}", name, rng.choice(("start", "end"))), TIMESTAMP)
        items, columns = self._items([*keys, edge, *results])
        grouping = listed([*(fixed("{}", n) for n, _ in columns[: len(keys)]), call])
        part = fixed("SELECT {} FROM {}{} GROUP BY {}", items, relation.part, where, grouping)
        return Query(part, columns, relation.rows * 3)

    def pivoted(self, depth: int) -> Query:
        """PIVOT: values of a column become columns."""
        rng = self.rng
        relation = self.relation(depth)
        values = ValueMaker(rng, relation.columns)
        calls = CallMaker(rng, values, relation.rows)
        key, number = values.any(1), calls.summable_int()
        turned = sql("pmod({}, 3)", values.small(1).part)
        group, by, name = self._name("o"), self._name("o"), self._name("o")
        names = [self._name("o") for _ in range(2)]
        call, bound = rng.choice((("sum", number.kind.bound * relation.rows), ("max", number.kind.bound)))
        places = ", ".join(f"{place} AS {n}" for place, n in zip((0, 1), names, strict=True))
        items = fixed("{} AS {}, {} AS {}, {} AS {}", key.part, group, turned, by, number.part, name)
        inner = fixed("SELECT {} FROM {}{}", items, relation.part, self.where(relation, 0.3))
        part = fixed("SELECT * FROM ({}) PIVOT ({}({}) FOR {} IN ({}))", inner, call, name, by, places)
        kinds = ((group, key.kind), *((n, Kind("int", bound)) for n in names))
        return Query(part, kinds, relation.rows)

    def _combined(self, results: list[Value]) -> Value:
        numbers = [r for r in results if r.kind.name == "int" and r.kind.bound < 2**60]
        if len(numbers) < 2:
            return results[0]
        a, b = numbers[:2]
        return Value(sql("({} - {})", a.part, b.part), Kind("int", a.kind.bound + b.kind.bound))

    def pairs(self, depth: int) -> Query:
        """Sums over joins, in forms that are kept as sums of either side."""
        rng = self.rng
        left, right = self.read(self.source(0.1)), self.read(self.source(0.1))
        conditions = [self.equality(left.columns, right.columns)]
        draw = rng.random()
        if draw < 0.3:
            conditions.append(self.comparison(left.columns, right.columns))
        elif draw < 0.45:
            conditions = [self.comparison(left.columns, right.columns)]
        elif draw < 0.55:
            a, b = (ValueMaker(rng, r.columns).exact(0).part for r in (left, right))
            far = rng.choice((1, 20))
            conditions.append(sql("(({} - {} > {}) OR ({} - {} > {}))", a, b, far, b, a, far))
        kind = rng.choice(("", "", "", "", " LEFT", " RIGHT", " FULL"))
        relation = Relation(
            fixed("{}{} JOIN {} ON {}", left.part, kind, right.part, listed(conditions, " AND ")),
            (*left.columns, *right.columns), left.rows * right.rows,
        )  # fmt: skip
        if rng.random() < 0.25:
            third = self.read(self.source(0))
            if relation.rows * third.rows < MOST_ROWS:
                link = self.equality(right.columns, third.columns)
                part = Part((relation.part, fixed(" JOIN {} ON {}", third.part, link)), inner=(0,))
                relation = Relation(part, (*relation.columns, *third.columns), relation.rows * third.rows)
        sides = [ValueMaker(rng, r.columns) for r in (left, right)]
        results = []
        for _ in range(rng.randrange(1, 4)):
            a, b = (s.exact(0) for s in sides)
            form = rng.randrange(7)
            if form < 2:
                argument = sql("{} * {}", a.part, b.part)
            elif form == 2:
                text = rng.choice(("{} - {}", "{} + {}", "({} - {}) * 0.5D"))
                if rng.random() < 0.3:
                    argument = sql("({} - {}) * {}", a.part, b.part, rng.choice(sides).exact(0).part)
                else:
                    argument = sql(text, a.part, b.part)
            elif form == 3:
                argument = sql("{} * {} - {} * {}", a.part, sides[0].limited(sides[0].exact(0), 1000).part, b.part, 0.5)
            else:
                side = CallMaker(rng, rng.choice(sides), relation.rows)
                summed = side.summable()
                if form == 4:
                    results.append(Value(fixed("avg({})", summed.part), side.mean(summed)))
                elif form == 5:
                    results.append(Value(fixed("count({})", summed.part), Kind("int", 2**30)))
                else:
                    results.append(Value(fixed("sum({})", summed.part), side.total(summed)))
                continue
            results.append(Value(fixed("sum({})", argument), Kind("double", 2**45, exact=False)))
        if rng.random() < 0.5:
            results.append(Value(fixed("count(*)"), Kind("int", 2**30)))
        where = clause(" WHERE {}", rng.choice(sides).condition(0)) if rng.random() < 0.3 else fixed("")
        keys = [rng.choice(sides).column() for _ in range(rng.choice((0, 1, 1, 2)))]
        items, columns = self._items([*keys, *results])
        names = listed([fixed("{}", n) for n, _ in columns[: len(keys)]])
        grouping = fixed(" GROUP BY {}", names) if keys else fixed("")
        part = fixed("SELECT {} FROM {}{}{}", items, relation.part, where, grouping)
        return Query(part, columns, relation.rows if keys else 1)

    def windowed(self, depth: int) -> Query:
        """Window functions, sometimes only the first rows of each partition."""
        rng = self.rng
        relation = self.relation(depth)
        if relation.rows > 20000:
            relation = self.read(self.source())
        values = ValueMaker(rng, relation.columns)
        calls = CallMaker(rng, values, relation.rows)
        chosen = [values.any(1) for _ in range(rng.randrange(1, 4))]
        where = self.where(relation, 0.3)
        if rng.random() < 0.2:
            first = rng.choice(("row_number()", "rank()", "dense_rank()"))
            among = relation.columns if first == "row_number()" else relation.columns[: rng.choice((1, 2))]
            order = fixed(", ".join("{}" for _ in among), *(calls._sorted(c) for c in among))
            place = self._name("r")
            by = clause("PARTITION BY {} ", values.any(1).part) if rng.random() < 0.7 else fixed("")
            call = fixed("{} OVER ({}ORDER BY {})", first, by, order)
            items, columns = self._items(chosen)
            inner = fixed("SELECT {}, {} AS {} FROM {}{}", items, call, place, relation.part, where)
            listed_names = ", ".join(n for n, _ in columns)
            number = rng.choice((1, 2, 3))
            if rng.random() < 0.3:
                text = fixed("SELECT {} FROM {}{} QUALIFY {} <= {}", items, relation.part, where, call, number)
                return Query(text, columns, relation.rows)
            part = fixed("SELECT {} FROM ({}){}", listed_names, inner, clause(" WHERE {} <= {}", place, number))
            return Query(part, columns, relation.rows)
        chosen += [calls.window() for _ in range(rng.randrange(1, 4))]
        items, columns = self._items(chosen)
        return Query(fixed("SELECT {} FROM {}{}", items, relation.part, where), columns, relation.rows)

    def combined(self, depth: int) -> Query:
        """UNION, INTERSECT, EXCEPT."""
        rng = self.rng
        first = self.core(depth - 1)
        if any(k.name not in FAMILIES for _, k in first.columns):
            return first
        relation = self.relation(depth - 1)
        values = ValueMaker(rng, relation.columns)
        second = [values.value(k.name, 1) for _, k in first.columns]
        items, _ = self._items(second)
        operator = rng.choice(("UNION ALL", "UNION ALL", "UNION", "UNION", "INTERSECT", "EXCEPT", "EXCEPT",
                               "EXCEPT ALL", "INTERSECT ALL"))  # fmt: skip
        other = fixed("SELECT {} FROM {}{}", items, relation.part, self.where(relation, 0.3))
        kinds = [widest(a, b.kind) for (_, a), b in zip(first.columns, second, strict=True)]
        columns = tuple((n, k) for (n, _), k in zip(first.columns, kinds, strict=True))
        part = Part((first.part, f" {operator} ", other), inner=(0, 2))
        rows = first.rows + relation.rows
        if rng.random() < 0.25:
            again = self.relation(0)
            more = [ValueMaker(rng, again.columns).value(k.name, 0) for _, k in first.columns]
            columns = tuple((n, widest(k, m.kind)) for (n, k), m in zip(columns, more, strict=True))
            third = fixed("SELECT {} FROM {}", self._items(more)[0], again.part)
            operator = rng.choice(("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "MINUS"))
            part = Part(("(", part, f") {operator} ", third), inner=(1, 3))
            rows += again.rows
        return Query(part, columns, rows)

    def limited(self, depth: int) -> Query:
        """ORDER BY all columns, LIMIT."""
        rng = self.rng
        query = self.core(depth)
        if any(k.name not in FAMILIES for _, k in query.columns):
            return query
        names = [n for n, _ in query.columns]
        rng.shuffle(names)
        order = ", ".join(n + rng.choice(("", "", " DESC", " NULLS LAST", " DESC NULLS FIRST")) for n in names)
        offset = clause(" OFFSET {}", rng.choice((1, 3))) if rng.random() < 0.2 else fixed("")
        limit = fixed(" LIMIT {}", rng.choice((1, 3, 10)))
        rows = 10
        if str(offset) and rng.random() < 0.3:
            limit, rows = fixed(""), query.rows
        part = Part(("SELECT * FROM (", query.part, f") ORDER BY {order}", limit, offset), inner=(1,))
        return Query(part, query.columns, rows)

    def with_cte(self, depth: int) -> Query:
        """WITH, read once or twice."""
        rng = self.rng
        inner = self.with_cte(depth - 1) if depth > 0 and rng.random() < 0.3 else self.core(depth - 1)
        if inner.rows > 3000 or not any(k.name in FAMILIES for _, k in inner.columns):
            return inner
        name = self._name("w")
        kept, tables = self.views, self.tables
        self.views, self.tables = [], [Source(name, inner.columns, inner.rows), *rng.sample(tables, 1)]
        outer = self.core(depth - 1)
        self.views, self.tables = kept, tables
        return Query(
            Part(("WITH ", name, " AS (", inner.part, ") ", outer.part), inner=(3,)), outer.columns, outer.rows
        )

    def core(self, depth: int) -> Query:
        """A SELECT of one of the kinds."""
        makers: tuple[tuple[float, Callable[[int], Query]], ...] = (
            (0.3, self.flat), (0.32, self.grouped), (0.15, self.pairs), (0.19, self.windowed), (0.04, self.timed),
            (0.02, self.pivoted),
        )  # fmt: skip
        (maker,) = self.rng.choices([m for _, m in makers], [w for w, _ in makers])
        return maker(depth)

    def query(self, depth: int = 2) -> Query:
        """A query."""
        draw = self.rng.random()
        if draw < 0.12:
            return self.combined(depth)
        if draw < 0.2:
            return self.limited(depth)
        if draw < 0.28:
            return self.with_cte(depth)
        return self.core(depth)
