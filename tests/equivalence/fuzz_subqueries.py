"""Random conditions and values with subqueries, correlated and not."""

from __future__ import annotations

from fuzz_aggregates import CallMaker
from fuzz_parts import NOTHING, Part, clause, fixed, listed, sql
from fuzz_relations import MOST_ROWS, Relation, RelationMaker
from fuzz_values import BOOLEAN, FAMILIES, Value, ValueMaker


class SubqueryMaker(RelationMaker):
    """Makes what may stand in WHERE, HAVING and SELECT and reads something else."""

    def inner(self, outer: Relation) -> Relation:
        """What a subquery reads: a source, often the one that is read outside, sometimes a join."""
        rng = self.rng
        if outer.source is not None and rng.random() < 0.3:
            return self.read(outer.source)
        if rng.random() < 0.12:
            found = self.join(0)
            if found.rows * outer.rows < MOST_ROWS * 5:
                return found
        return self.read(self.source())

    def link(self, outer: Relation, inner: Relation) -> Part:
        """A correlation: equality, equality and inequality, or inequality alone."""
        rng = self.rng
        draw = rng.random()
        if draw < 0.55:
            return self.equality(outer.columns, inner.columns)
        if draw < 0.8:
            both = [self.equality(outer.columns, inner.columns), self.comparison(outer.columns, inner.columns)]
            return listed(both, " AND ")
        return self.comparison(outer.columns, inner.columns)

    def scalar_subquery(self, outer: Relation) -> Value:
        """An aggregate of a source, of all rows or of those that match."""
        rng = self.rng
        inner = self.inner(outer)
        if rng.random() < 0.3:
            value = rng.choice(inner.columns)
            first = self.first_rows(outer, inner, [(value, self._name("o"))], most=1)
            if first is not None:
                return Value(fixed("({})", first), value.kind)
        calls = CallMaker(rng, ValueMaker(rng, inner.columns), inner.rows)
        call = calls.aggregate()
        conditions = []
        if rng.random() < 0.55:
            conditions.append(self.link(outer, inner))
        if rng.random() < 0.25:
            conditions.append(ValueMaker(rng, inner.columns).condition(0))
        where = clause(" WHERE {}", listed(conditions, " AND ")) if conditions else NOTHING
        return Value(fixed("(SELECT {} FROM {}{})", call.part, inner.part, where), call.kind)

    def subquery_condition(self, outer: Relation, values: ValueMaker) -> Part:
        """EXISTS, IN, NOT IN, a comparison with a scalar subquery."""
        rng = self.rng
        form = rng.randrange(10)
        if form < 2:
            return self._exists(outer)
        if form < 5:
            return self._in(outer, values)
        if form < 8:
            return self._compared(outer, values)
        return self._share(outer)

    def _own(self, inner: Relation, often: float = 0.4) -> Part:
        """A condition of the subquery, sometimes with a subquery."""
        rng = self.rng
        own = ValueMaker(rng, inner.columns)
        if rng.random() > often:
            return NOTHING
        if rng.random() < 0.12:
            return clause(" AND {}", self._exists(inner) if rng.random() < 0.5 else self._in(inner, own))
        return clause(" AND {}", own.condition(0))

    def _exists(self, outer: Relation) -> Part:
        rng = self.rng
        inner = self.inner(outer)
        name = rng.choice(("EXISTS", "NOT EXISTS"))
        link = self.link(outer, inner) if rng.random() < 0.9 else ValueMaker(rng, inner.columns).condition(0)
        return fixed("{} (SELECT 1 FROM {} WHERE {}{})", name, inner.part, link, self._own(inner))

    def _in(self, outer: Relation, values: ValueMaker) -> Part:
        """IN and NOT IN: bare, negated, beside another condition, and as a value."""
        rng = self.rng
        draw = rng.random()
        if draw < 0.7:
            return self._membership(outer, values)
        if draw < 0.8:
            return sql("NOT ({})", self._membership(outer, values))
        if draw < 0.9:
            return sql("({} OR {})", values.condition(0), self._membership(outer, values))
        text = "CASE WHEN {} THEN {} WHEN {} THEN {} END"
        both = [self._membership(outer, values) for _ in range(2)]
        return fixed(text, both[0], rng.choice(("true", "false")), both[1], values.condition(0))

    def membership(self, outer: Relation, values: ValueMaker) -> Value:
        """IN and NOT IN as a column."""
        return Value(self._membership(outer, values), BOOLEAN)

    def _membership(self, outer: Relation, values: ValueMaker) -> Part:
        """IN and NOT IN: of one value or two, correlated or not, of groups."""
        rng = self.rng
        inner = self.inner(outer)
        own = ValueMaker(rng, inner.columns)
        pairs = [(a, b) for a in outer.columns for b in inner.columns if a.kind.name == b.kind.name]
        a, b = rng.choice(pairs) if pairs else (values.small(0), own.small(0))
        if pairs and rng.random() < 0.2:
            first = self.first_rows(outer, inner, [(b, self._name("o"))])
            if first is not None:
                return fixed("{} IN ({})", a.part, first)
        name = rng.choice(("IN", "IN", "NOT IN"))
        form = rng.random()
        if form < 0.15:
            having = clause(" HAVING count(*) > {}", rng.choice((1, 2)))
            return fixed("{} {} (SELECT {} FROM {} GROUP BY {}{})", a.part, name, b.part, inner.part, b.part, having)
        conditions: list[Part] = []
        if rng.random() < 0.4:
            conditions.append(own.condition(0))
        if form < 0.45:
            conditions.append(self.link(outer, inner))
        where = clause(" WHERE {}", listed(conditions, " AND ")) if conditions else NOTHING
        if form > 0.85 and len(pairs) > 1:
            c, d = rng.choice(pairs)
            return fixed(
                "({}, {}) {} (SELECT {}, {} FROM {}{})", a.part, c.part, name, b.part, d.part, inner.part, where
            )
        return fixed("{} {} (SELECT {} FROM {}{})", a.part, name, b.part, inner.part, where)

    def _compared(self, outer: Relation, values: ValueMaker) -> Part:
        """A value and an aggregate of everything or of what matches."""
        rng = self.rng
        inner = self.inner(outer)
        own = ValueMaker(rng, inner.columns)
        operator = rng.choice(("<", ">", "<=", ">=", "<>", "="))
        family = rng.choice([c.kind.name for c in outer.columns if c.kind.name in FAMILIES] or ["int"])
        if family in ("int", "double"):
            a = values.value(family, 1)
            b = own.exact(0) if family == "double" else own.small(0)
            name = rng.choice(("max", "min", "avg", "count", "sum"))
        else:
            a = values.value(family, 0)
            b = own.value(family, 0)
            name = rng.choice(("max", "min"))
        if rng.random() < 0.4:
            condition = clause(" WHERE {}", own.condition(0)) if rng.random() < 0.4 else NOTHING
        else:
            condition = fixed(" WHERE {}{}", self.link(outer, inner), self._own(inner))
        return sql("({} {} {})", a.part, operator,
                   fixed("(SELECT {}({}) FROM {}{})", name, b.part, inner.part, condition))  # fmt: skip

    def _share(self, outer: Relation) -> Part:
        """A part of a total against the total of what is beyond a row, as in VWAP."""
        rng = self.rng
        inner = self.inner(outer)
        other = self.read(outer.source if outer.source is not None and rng.random() < 0.7 else self.source(0))
        totals = [ValueMaker(rng, r.columns).small(0).part for r in (other, inner)]
        link = self.comparison(outer.columns, inner.columns)
        if rng.random() < 0.25:
            link = listed([link, self.equality(outer.columns, inner.columns)], " AND ")
        text = "{}D * (SELECT sum(abs({})) FROM {}) {} (SELECT sum(abs({})) FROM {} WHERE {})"
        share = rng.choice(("0.25", "0.5", "0"))
        return fixed(text, share, totals[0], other.part, rng.choice("<>"), totals[1], inner.part, link)
