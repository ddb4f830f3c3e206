"""Random aggregate and window calls whose results do not depend on the order of rows."""

from __future__ import annotations

import random
from dataclasses import replace

import fuzz_times
from fuzz_parts import Part, clause, fixed, listed, sql
from fuzz_tables import Kind
from fuzz_values import BOOLEAN, Value, ValueMaker

OPAQUE = Kind("opaque")
"""A result that is right within rounding, or a list: nothing may be computed from it."""
_COUNT = Kind("int", 2**20)


class CallMaker:
    """Makes calls over the columns of ``values``, of which there are at most ``rows``."""

    def __init__(self, rng: random.Random, values: ValueMaker, rows: int) -> None:
        self.rng = rng
        self.values = values
        self.rows = rows
        self._any: Part | None = None
        self._last: bool | None = None
        self._total: tuple[Part, Part] | None = None
        """Partition and order of all calls that tell equal rows apart: rows are numbered in one way only."""

    def summable(self) -> Value:
        """A number whose sum over all rows is exact and fits."""
        family = self.rng.choice([c.kind.name for c in self.values.columns if c.kind.name in _NUMBERS] or ["int"])
        if family == "decimal":
            found = self.values.value("decimal", 1)
            return found if found.kind.bound + found.kind.scale <= 27 else self.summable_int()
        if family == "double":
            return self.values.exact()
        return self.summable_int()

    def summable_int(self) -> Value:
        """An integer whose sum fits, also in a double."""
        return self.values.limited(self.values.value("int", 1), max(2, 2**50 // max(1, self.rows)))

    def total(self, value: Value) -> Kind:
        """The kind of a sum."""
        if value.kind.name == "decimal":
            return Kind("decimal", value.kind.bound + 10, value.kind.scale)
        return replace(value.kind, bound=value.kind.bound * max(1, self.rows))

    def mean(self, value: Value) -> Kind:
        """The kind of an average."""
        if value.kind.name == "decimal":
            return Kind("decimal", value.kind.bound, value.kind.scale + 4)
        return Kind("double", value.kind.bound, exact=False)

    def aggregate(self) -> Value:
        """A call, perhaps with FILTER."""
        found = self._aggregate()
        if self.rng.random() < 0.15 and not str(found.part).startswith("round("):
            filtered = sql("{}{}", found.part, clause(" FILTER (WHERE {})", self.values.condition()))
            return replace(found, part=filtered)
        return found

    def _aggregate(self) -> Value:
        rng, values = self.rng, self.values
        form = rng.randrange(37)
        if form < 3:
            return Value(fixed("count(*)"), _COUNT)
        if form < 5:
            return Value(fixed("count({})", values.any(1).part), _COUNT)
        if form < 7:
            return Value(fixed("count(DISTINCT {})", values.any(1).part), _COUNT)
        if form == 7:
            return Value(fixed("count(DISTINCT {}, {})", values.column().part, values.any(1).part), _COUNT)
        if form < 12:
            argument = self.summable()
            return Value(fixed("sum({})", argument.part), self.total(argument))
        if form == 12:
            argument = self.summable()
            return Value(fixed(rng.choice(("sum(DISTINCT {})", "try_sum({})")), argument.part), self.total(argument))
        if form < 15:
            argument = self.summable()
            return Value(fixed("avg({})", argument.part), self.mean(argument))
        if form == 15:
            argument = self.summable()
            return Value(fixed("avg(DISTINCT {})", argument.part), self.mean(argument))
        if form < 20:
            argument = values.any(1)
            return Value(fixed(rng.choice(("min({})", "max({})")), argument.part), argument.kind)
        if form == 20:
            return Value(
                fixed(
                    rng.choice(("bool_and({})", "bool_or({})", "every({})", "some({})", "any({})")), values.condition()
                ),
                BOOLEAN,
            )
        if form == 21:
            return Value(fixed("count_if({})", values.condition()), _COUNT)
        if form == 22:
            argument = values.small(1)
            name = rng.choice(("bit_and({})", "bit_or({})", "bit_xor({})"))
            return Value(fixed(name, argument.part), Kind("int", 1024))
        if form == 23:
            name = rng.choice(("var_samp({})", "var_pop({})", "stddev({})", "stddev_pop({})"))
            return Value(fixed(name, self.moment().part), OPAQUE)
        if form == 24:
            name = rng.choice(("median({})", "percentile({}, 0.25)", "percentile_disc(0.5) WITHIN GROUP (ORDER BY {})"))
            return Value(fixed(name, values.small(1).part), OPAQUE)
        if form == 25:
            argument = values.column()
            return Value(fixed("mode() WITHIN GROUP (ORDER BY {})", argument.part), argument.kind)
        if form == 26:
            name = rng.choice(("collect_list({})", "collect_set({})", "array_agg({})", "collect_list(DISTINCT {})"))
            return Value(fixed(name, values.column().part), OPAQUE)
        if form > 27:
            return self._rarer(form)
        value, order = values.column(), values.column()
        name = rng.choice(("min_by({}, struct({}, {}))", "max_by({}, struct({}, {}))"))
        return Value(fixed(name, value.part, order.part, value.part), value.kind)

    def _rarer(self, form: int) -> Value:
        rng, values = self.rng, self.values
        if form == 28 and rng.random() < 0.5 and values.of_family("timestamp"):
            name = rng.choice(("sum({})", "max({})", "min({})", "count(DISTINCT {})"))
            return Value(fixed(name, fuzz_times.span(values)), OPAQUE)
        if form == 28:
            argument = values.small(1)
            # a third of a short fraction lies between no two numbers of 7 digits, so that rounding decides nothing
            form_ = rng.choice(("round(skewness({}) / 3, 7)", "round(kurtosis({}) / 3, 7)"))
            return Value(fixed(form_, argument.part), OPAQUE)
        if form == 29:
            name = rng.choice(("percentile({}, array(0.0, 0.5, 0.9))", "percentile(DISTINCT {}, 0.75)",
                               "percentile_cont(0.3) WITHIN GROUP (ORDER BY {} DESC)",
                               "percentile_disc(0.3) WITHIN GROUP (ORDER BY {} DESC)"))  # fmt: skip
            return Value(fixed(name, fixed("CAST({} AS INT)", values.small(1).part)), OPAQUE)
        if form == 30:
            a, b = values.column(), values.column()
            name = rng.choice(("max(struct({}, {}))", "min(array(CAST({} AS STRING), CAST({} AS STRING)))",
                               "count(DISTINCT struct({}, {}))", "count({}, {})"))  # fmt: skip
            if name.startswith("min") and "double" in (a.kind.name, b.kind.name):
                name = "max(struct({}, {}))"
            kind = _COUNT if name.startswith("count") else OPAQUE
            return Value(fixed(name, a.part, b.part), kind)
        if form == 31:
            argument = self.summable_int()
            if rng.random() < 0.3:
                return Value(fixed("regr_count({}, {})", argument.part, values.small(0).part), _COUNT)
            return Value(fixed("try_avg({})", argument.part), self.mean(argument))
        if form > 32:
            return self._decided_here(form)
        argument = self.summable()
        part = sql("sum(CASE WHEN {} THEN {} END)", values.condition(0), argument.part)
        return Value(Part(part.pieces), self.total(argument))

    def _decided_here(self, form: int) -> Value:
        """Functions that Spark approximates, or of which it leaves the value open: it is asked for what is meant."""
        rng, values = self.rng, self.values
        if form == 33:
            part = values.column().part
            name = "/*[*/ approx_count_distinct({}) /*=> count(DISTINCT {}) ]*/"
            return Value(fixed(name, part, part), _COUNT)
        if form == 34:
            if rng.random() < 0.5:  # the same argument everywhere: several would be of one row
                self._any = self._any or values.column().part
                self._last = rng.random() < 0.3 if self._last is None else self._last
                name = "last" if self._last else rng.choice(("first", "any_value", "first_value"))
                meant = "max" if self._last else "min"
                return Value(fixed(f"/*[*/ {name}({{}}) /*=> {meant}({{}}) ]*/", self._any, self._any), OPAQUE)
            argument = values.column()
            name = "/*[*/ mode({}) /*=> mode({}, true) ]*/"
            return Value(fixed(name, argument.part, argument.part), argument.kind)
        if form == 35:
            one, other = values.small(0), values.small(0)
            # beside 1 what Spark's rounding leaves of a covariance of 0 is no difference
            name = rng.choice(("(1 + covar_pop({}, {}))", "(1 + covar_samp({}, {}))", "(1 + regr_sxy({}, {}))",
                               "round(corr({}, {}) / 3, 7)",
                               "round(regr_slope({}, {}) / 3, 6)", "round(regr_r2({}, {}) / 3, 6)"))  # fmt: skip
            return Value(fixed(name, one.part, other.part), OPAQUE)
        argument = values.small(1)
        name = rng.choice(("percentile_approx({}, 0.4)", "percentile_approx({}, array(0.0, 0.7, 1.0), 500)",
                           "listagg({0}, ',') WITHIN GROUP (ORDER BY {0})",
                           "string_agg(DISTINCT CAST({0} AS STRING)) WITHIN GROUP (ORDER BY CAST({0} AS STRING) DESC)",
                           "/*[*/ min_by({0}, {0}, 2) /*=> min_by({0}, {0}, 2) ]*/",
                           "/*[*/ max_by({0}, {0}, 3) /*=> max_by({0}, {0}, 3) ]*/"))  # fmt: skip
        if "{0}" in name:
            return Value(fixed(name.replace("{0}", "{}"), *[argument.part] * name.count("{0}")), OPAQUE)
        return Value(fixed(name, argument.part), OPAQUE)

    def moment(self) -> Value:
        """A number of which a variance is taken."""
        return self.values.exact() if self.rng.random() < 0.5 else self.values.small()

    def window(self) -> Value:
        """A window call. Where ties would matter the order is by all columns."""
        rng, values = self.rng, self.values
        columns = list(values.columns)
        rng.shuffle(columns)
        partition = [c.part for c in columns[: rng.choice((0, 1, 1, 1, 2))]]
        if partition and rng.random() < 0.2:
            partition[0] = values.any(1).part
        by = clause("PARTITION BY {} ", listed(partition)) if partition else fixed("")
        rng.shuffle(columns)
        if self._total is None:
            order = fixed(", ".join("{}" for _ in columns), *(self._sorted(c) for c in columns))
            self._total = fixed("{}", str(by)), fixed("ORDER BY {}", order)
        whole, everything = self._total
        some = fixed("ORDER BY {}", listed([self._sorted(c) for c in columns[: rng.choice((1, 1, 2))]]))
        form = rng.randrange(13)
        if form == 12:
            own = values.small(0) if rng.random() < 0.4 else values.column()
            name = "sum({})" if own.kind.name == "int" and own.kind.bound <= 2**31 else "max({})"
            call = fixed(rng.choice((name, "count({})", "min({})")), own.part)
            kind = self.total(own) if str(call).startswith("sum") else own.kind
            kind = _COUNT if str(call).startswith("count") else kind
            return Value(fixed("{} OVER (PARTITION BY {} {})", call, own.part, some), kind)
        if form < 2:
            name = rng.choice(("row_number()", f"ntile({rng.choice((2, 3))})"))
            return Value(fixed("{} OVER ({}{})", name, whole, everything), _COUNT)
        if form < 4:
            name = rng.choice(("rank()", "dense_rank()"))
            return Value(fixed("{} OVER ({}{})", name, by, some), _COUNT)
        if form == 4:
            name = rng.choice(("percent_rank()", "cume_dist()"))
            return Value(fixed("{} OVER ({}{})", name, by, some), Kind("double", 1, exact=False))
        if form < 7:
            argument = values.column()
            offset = rng.choice((1, 1, 2))
            name = rng.choice(
                (f"lag({{}}, {offset})", f"lead({{}}, {offset})", "first_value({})", "last_value({})",
                 "nth_value({}, 2)", "first_value({}) IGNORE NULLS", "last_value({}) IGNORE NULLS",
                 "nth_value({}, 2) IGNORE NULLS", f"lag({{}}, {offset}) IGNORE NULLS", "lead({}, 1) IGNORE NULLS",
                 "lag({}, 1, default)")
            )  # fmt: skip
            if name.endswith("default)"):
                lag = fixed("lag({}, {}, {})", argument.part, offset, argument.part)
                return Value(fixed("{} OVER ({}{})", lag, whole, everything), argument.kind)
            if name.startswith(("first", "last", "nth")):
                everything = fixed("{}{}", everything, clause(" {}", self._rows()))
            return Value(fixed("{} OVER ({}{})", fixed(name, argument.part), whole, everything), argument.kind)
        call = self._windowed()
        if form < 9:
            frame, by = fixed("{}{}", everything, clause(" {}", self._rows())), whole
        elif form == 9:
            frame = self._range(columns) or some
        else:
            frame = some if rng.random() < 0.6 else fixed("")
        return Value(fixed("{} OVER ({}{})", call.part, by, frame), call.kind)

    def _range(self, columns: list[Value]) -> Part | None:
        """An order by one column, and a frame of values near that of a row."""
        rng = self.rng
        among = [c for c in columns if c.kind.name in ("int", "date") and c.kind.bound <= 1000]
        among += [c for c in columns if c.kind.name in ("timestamp", "double") or 0 < c.kind.scale <= 4]
        if not among:
            return None
        column = rng.choice(among)
        one, few, many = _NEAR.get(column.kind.name, ("1", "3", "9"))
        bounds = rng.choice(
            (
                f"{few} PRECEDING AND CURRENT ROW",
                f"{few} PRECEDING AND {one} FOLLOWING",
                f"{one} FOLLOWING AND {many} FOLLOWING",
                f"UNBOUNDED PRECEDING AND {one} PRECEDING",
                f"{many} PRECEDING AND {one} PRECEDING",
                "CURRENT ROW AND UNBOUNDED FOLLOWING",
            )
        )
        return fixed("ORDER BY {}{}", self._sorted(column), clause(" RANGE BETWEEN {}", bounds))

    def _windowed(self) -> Value:
        rng = self.rng
        argument = self.summable()
        form = self.rng.randrange(6)
        if form == 5:
            name = rng.choice(("bool_or({})", "bool_and({})", "count_if({})"))
            return Value(fixed(name, self.values.condition(0)), _COUNT if name.startswith("count") else BOOLEAN)
        if form == 0:
            return Value(rng.choice((fixed("count(*)"), fixed("count({})", self.values.any(1).part))), _COUNT)
        if form == 1:
            return Value(fixed("sum({})", argument.part), self.total(argument))
        if form == 2:
            return Value(fixed("avg({})", argument.part), self.mean(argument))
        other = self.values.column()
        return Value(fixed(rng.choice(("min({})", "max({})")), other.part), other.kind)

    def _rows(self) -> str:
        low = self.rng.choice(("UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW"))
        high = self.rng.choice(("CURRENT ROW", "1 FOLLOWING", "UNBOUNDED FOLLOWING", "3 FOLLOWING"))
        return f"ROWS BETWEEN {low} AND {high}"

    def _sorted(self, value: Value) -> Part:
        direction = self.rng.choice(("", "", " DESC", " NULLS LAST", " DESC NULLS FIRST"))
        return fixed("{}{}", value.part, direction)


_NUMBERS = ("int", "decimal", "double")
_NEAR = {
    "timestamp": ("INTERVAL 1 HOUR", "INTERVAL 30 HOURS", "INTERVAL 9 DAYS"),
    "double": ("0.5D", "2D", "40D"),
    "decimal": ("0.1", "2.5", "30"),
}
