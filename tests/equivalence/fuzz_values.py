"""Random expressions of a wanted type, none of which can fail and all of which the rows decide to the last bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import fuzz_nested
import fuzz_times
from fuzz_parts import Part, fixed, sql
from fuzz_tables import Kind

INTEGER = Kind("int", 1000)
BOOLEAN = Kind("boolean")
STRING = Kind("string")
DATE = Kind("date")
TIMESTAMP = Kind("timestamp")
FAMILIES = ("int", "decimal", "double", "string", "date", "timestamp", "boolean")
_MOST = 2**53
_STRINGS = ("''", "'a'", "'x'", "'Ab'", "'é'", "'NULL'", "'a,b'", "'12'")
_PATTERNS = ("'%a%'", "'a%'", "'%b'", "'_'", "'%é%'", "'%'", "'A%'", "'%x%y%'", "''")
_FORMATS = ("'yyyy-MM'", "'dd/MM/yy'", "'yyyy-MM-dd'")


@dataclass(frozen=True)
class Value:
    """An expression and its kind."""

    part: Part
    kind: Kind


class ValueMaker:
    """Makes expressions over columns."""

    def __init__(self, rng: random.Random, columns: Sequence[Value]) -> None:
        self.rng = rng
        self.columns = list(columns)

    def of_family(self, family: str) -> list[Value]:
        """The columns of a family."""
        return [c for c in self.columns if c.kind.name == family]

    def column(self, family: str | None = None) -> Value:
        """A column of a family where there is one, else of any; a constant where there are no columns."""
        among = [c for c in self.columns if family in (None, c.kind.name)]
        if among:
            return self.rng.choice(among)
        return self.constant(family or "int")

    def constant(self, family: str) -> Value:
        """A literal."""
        rng = self.rng
        match family:
            case "int":
                return Value(fixed("{}", rng.choice((0, 1, 2, 3, -1, 7, rng.randrange(-100, 100)))), Kind("int", 100))
            case "decimal":
                return Value(fixed("{}", rng.choice(("0.5", "1.25", "0.00", "10.1"))), Kind("decimal", 2, 2))
            case "double":
                return Value(
                    fixed("{}", rng.choice(("0D", "1.5D", "-2.25D", "100D", "double('NaN')"))), Kind("double", 100)
                )
            case "string":
                return Value(fixed("{}", rng.choice(_STRINGS)), STRING)
            case "date":
                day = f"DATE'{rng.choice((2019, 2020))}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}'"
                return Value(fixed("{}", day), DATE)
            case "timestamp":
                at = f"TIMESTAMP'{rng.choice((2019, 2020))}-01-{rng.randrange(1, 29):02} {rng.randrange(24):02}:30:00'"
                return Value(fixed("{}", at), TIMESTAMP)
        return Value(fixed("{}", rng.choice(("true", "false"))), BOOLEAN)

    def any(self, depth: int = 2) -> Value:
        """An expression of any family, most often of one that columns have."""
        if self.columns and self.rng.random() < 0.5:
            return self.column()
        families = [c.kind.name for c in self.columns if c.kind.name in FAMILIES] or ["int"]
        return self.value(self.rng.choice((*families, *families, "int", "string", "boolean")), depth)

    def value(self, family: str, depth: int = 2) -> Value:
        """An expression of a family."""
        rng = self.rng
        columns = self.of_family(family)
        if columns and (depth <= 0 or rng.random() < 0.45):
            return rng.choice(columns)
        if depth <= 0:
            return self.constant(family) if rng.random() < 0.6 or family == "decimal" else self._converted(family)
        if rng.random() < 0.14:
            return self._chosen(family, depth - 1)
        if family in fuzz_nested.FAMILIES and rng.random() < 0.06:
            return Value(*fuzz_nested.nested_value(self, family, depth - 1))
        timely = 0.15 if self.of_family("timestamp") or self.of_family("date") else 0.01
        if family in fuzz_times.FAMILIES and rng.random() < timely:
            return Value(*fuzz_times.time_value(self, family, depth - 1))
        makers: dict[str, Callable[[int], Value]] = {
            "int": self._int,
            "decimal": self._decimal,
            "double": self._double,
            "string": self._string,
            "date": self._date,
            "timestamp": self._timestamp,
            "boolean": lambda d: Value(self.condition(d), BOOLEAN),
        }
        return makers[family](depth - 1)

    def small(self, depth: int = 1, bound: int = 1000) -> Value:
        """An integer that is not beyond a bound."""
        found = self.value("int", depth)
        if found.kind.bound <= bound:
            return found
        return Value(sql("({} % {})", found.part, bound), Kind("int", bound))

    def limited(self, value: Value, bound: int) -> Value:
        """An integer or double with a smaller bound, where it must have one."""
        if value.kind.bound <= bound:
            return value
        modulus = max(2, min(bound, 1000))
        return Value(sql("({} % {})", value.part, modulus), replace(value.kind, bound=modulus))

    def _converted(self, family: str) -> Value:
        """Of a column of another family."""
        rng = self.rng
        c = self.column().part
        pick = rng.choice
        match family:
            case "int":
                return Value(sql("length(CAST({} AS STRING))", self.column("string").part), Kind("int", 1000))
            case "double":
                return Value(sql("CAST({} AS DOUBLE)", self.small(0).part), Kind("double", 1000))
            case "string":
                named = [v for v in self.columns if v.kind.name in ("int", "string", "date", "boolean", "decimal")]
                return Value(sql("CAST({} AS STRING)", pick(named).part if named else fixed("'q'")), STRING)
            case "boolean":
                return Value(sql(pick(("({} IS NULL)", "({} IS NOT NULL)")), c), BOOLEAN)
            case "timestamp":
                return Value(
                    sql(
                        "CAST({} AS TIMESTAMP)",
                        self.column("date").part if self.of_family("date") else self.constant("date").part,
                    ),
                    TIMESTAMP,
                )
        return self.constant(family)

    def _chosen(self, family: str, depth: int) -> Value:
        """CASE, IF, COALESCE, NULLIF, greatest and least."""
        rng = self.rng
        a, b = self.value(family, depth), self.value(family, depth)
        kind = widest(a.kind, b.kind)
        form = rng.randrange(6)
        if form == 0:
            return Value(sql("CASE WHEN {} THEN {} ELSE {} END", self.condition(depth), a.part, b.part), kind)
        if form == 1:
            return Value(sql("CASE WHEN {} THEN {} END", self.condition(depth), a.part), a.kind)
        if form == 2:
            return Value(sql("if({}, {}, {})", self.condition(depth), a.part, b.part), kind)
        if form == 3:
            return Value(sql("nullif({}, {})", a.part, b.part), a.kind)
        if form == 4 and family != "boolean":
            return Value(sql(rng.choice(("greatest({}, {})", "least({}, {})")), a.part, b.part), kind)
        return Value(sql("coalesce({}, {})", a.part, b.part), kind)

    def _int(self, depth: int) -> Value:
        rng = self.rng
        if rng.random() < 0.08:
            call = rng.choice(("pmod(xxhash64({}, {}), 1000)", "pmod(hash({}, {}), 1000)", "find_in_set({}, {})",
                               "levenshtein({}, {})", "locate({}, {}, 2)",
                               "regexp_count({}, concat('a|', length({})))"))  # fmt: skip
            return Value(sql(call, self.value("string", depth).part, self.value("string", 0).part), INTEGER)
        form = rng.randrange(12)
        if form < 4:
            a, b = (self.limited(self.value("int", depth), 2**50) for _ in range(2))
            if form == 0:
                a, b = self.limited(a, 2**20), self.limited(b, 1000)
                return Value(sql("(CAST({} AS BIGINT) * {})", a.part, b.part), Kind("int", a.kind.bound * b.kind.bound))
            operator = rng.choice("+-")
            text = f"(CAST({{}} AS BIGINT) {operator} {{}})"
            return Value(sql(text, a.part, b.part), Kind("int", a.kind.bound + b.kind.bound))
        if form == 4:
            a = self.limited(self.value("int", depth), 2**40)
            return Value(sql(rng.choice(("(-{})", "abs({})")), a.part), a.kind)
        if form == 5:
            modulus = rng.choice((2, 3, 7))
            name = rng.choice(("({} % {})", "pmod({}, {})"))
            return Value(sql(name, self.value("int", depth).part, modulus), Kind("int", modulus))
        if form == 6:
            return Value(sql("({} div {})", self.value("int", depth).part, rng.choice((2, 3))), Kind("int", 2**53))
        if form == 7:
            return Value(sql("length({})", self.value("string", depth).part), Kind("int", 2000))
        if form == 8 and (self.of_family("date") or self.of_family("timestamp")):
            name = rng.choice(("year", "month", "day", "dayofweek", "quarter", "dayofyear", "weekofyear"))
            family = "date" if self.of_family("date") else "timestamp"
            return Value(sql(name + "({})", self.value(family, depth).part), Kind("int", 10000))
        if form == 9 and self.of_family("date"):
            return Value(
                sql("datediff({}, {})", self.value("date", depth).part, self.value("date", depth).part),
                Kind("int", 10**6),
            )
        if form == 10:
            return Value(sql("try_cast({} AS INT)", self.value("string", depth).part), Kind("int", 2**31))
        if form == 11:
            return Value(sql("CAST({} AS INT)", self.condition(depth)), Kind("int", 1))
        return self.column("int")

    def _decimal(self, depth: int) -> Value:
        a, b = self.value("decimal", 0), self.value("decimal", 0)
        form = self.rng.randrange(5)
        total = Kind("decimal", max(a.kind.bound, b.kind.bound) + 1, max(a.kind.scale, b.kind.scale))
        if form < 2 and total.bound + total.scale < 30:
            return Value(sql(("({} + {})", "({} - {})")[form], a.part, b.part), total)
        product = Kind("decimal", a.kind.bound + b.kind.bound + 1, a.kind.scale + b.kind.scale)
        if form == 2 and product.bound + product.scale < 24:
            return Value(sql("({} * {})", a.part, b.part), product)
        if form == 3 and a.kind.bound + a.kind.scale < 30:
            return Value(sql("round({}, 1)", a.part), Kind("decimal", a.kind.bound + 1, min(1, a.kind.scale)))
        if form == 4:
            return Value(sql("CAST({} AS DECIMAL(9,2))", self.small(depth).part), Kind("decimal", 7, 2))
        return Value(sql("(-{})", a.part), a.kind)

    def _double(self, depth: int) -> Value:
        rng = self.rng
        form = rng.randrange(8)
        if form < 2:
            a, b = self.exact(depth), self.exact(depth)
            return Value(
                sql(("({} + {})", "({} - {})")[form], a.part, b.part), Kind("double", a.kind.bound + b.kind.bound)
            )
        if form == 2:
            a, b = self.exact(0), self.small(depth, 100)
            return Value(sql("({} * {})", a.part, b.part), Kind("double", a.kind.bound * b.kind.bound))
        if form == 3:
            a = self.exact(depth)
            return Value(sql(rng.choice(("abs({})", "(-{})")), a.part), a.kind)
        if form == 4:
            a, b = self.value("double", depth), self.small(depth)
            return Value(sql("({} / nullif({}, 0))", a.part, b.part), replace(a.kind, exact=False))
        if form == 5:
            return Value(sql("nanvl({}, 0D)", self.exact(depth).part), Kind("double", 2**40))
        if form == 6:
            return Value(sql("CAST({} AS DOUBLE)", self.small(depth).part), Kind("double", 1000))
        return self.column("double") if self.of_family("double") else self.constant("double")

    def exact(self, depth: int = 1) -> Value:
        """A double that is a multiple of 1/8 (or not finite) with a modest bound, so that sums are exact."""
        found = self.value("double", depth)
        if found.kind.exact and found.kind.bound <= 2**20:
            return found
        among = [c for c in self.of_family("double") if c.kind.exact and c.kind.bound <= 2**20]
        if among:
            return self.rng.choice(among)
        return Value(sql("CAST({} AS DOUBLE)", self.small(0).part), Kind("double", 1000))

    def _string(self, depth: int) -> Value:
        rng = self.rng
        s = self.value("string", depth).part
        if rng.random() < 0.12:
            return self._text_of_spark(s, depth)
        form = rng.randrange(12)
        simple = ("upper({})", "lower({})", "trim({})", "reverse({})", "substring({}, 1, 2)", "replace({}, 'a', 'xy')",
                  "split_part({}, ',', 1)", "lpad({}, 3, '*')")  # fmt: skip
        if form < 5:
            return Value(sql(rng.choice(simple), s), STRING)
        if form < 7:
            other = self.value("string", depth).part
            return Value(sql(rng.choice(("concat({}, {})", "({} || {})", "concat_ws('-', {}, {})")), s, other), STRING)
        if form == 7:
            return Value(sql("CAST({} AS STRING)", self.value("int", depth).part), STRING)
        if form == 8 and self.of_family("date"):
            return Value(sql("date_format({}, {})", self.value("date", depth).part, rng.choice(_FORMATS)), STRING)
        if form == 9 and self.of_family("decimal"):
            return Value(sql("CAST({} AS STRING)", self.column("decimal").part), STRING)
        if form == 10:
            return Value(sql("regexp_replace({}, '[a-c]+', '.')", s), STRING)
        return Value(sql("CAST({} AS STRING)", self.value("boolean", depth).part), STRING)

    def _date(self, depth: int) -> Value:
        rng = self.rng
        form = rng.randrange(5)
        d = self.value("date", 0).part
        if form == 0:
            return Value(sql("date_add({}, CAST({} AS INT))", d, self.small(depth).part), DATE)
        if form == 1:
            return Value(sql("trunc({}, {})", d, rng.choice(("'MM'", "'YEAR'", "'week'"))), DATE)
        if form == 2:
            return Value(sql("add_months({}, {})", d, rng.choice((1, -2))), DATE)
        if form == 3:
            return Value(sql("last_day({})", d), DATE)
        if self.of_family("timestamp"):
            return Value(sql("to_date({})", self.column("timestamp").part), DATE)
        return Value(d, DATE)

    def _timestamp(self, depth: int) -> Value:
        rng = self.rng
        t = self.value("timestamp", 0).part
        form = rng.randrange(3)
        if form == 0:
            return Value(sql("date_trunc({}, {})", rng.choice(("'hour'", "'DAY'", "'MONTH'")), t), TIMESTAMP)
        if form == 1:
            return Value(sql("({} + INTERVAL {} HOURS)", t, rng.choice((1, -3, 48))), TIMESTAMP)
        return Value(t, TIMESTAMP)

    def _text_of_spark(self, s: Part, depth: int) -> Value:
        """A function of text that other databases have not, or not with this meaning."""
        rng = self.rng
        form = rng.randrange(3)
        if form == 0:
            call = rng.choice(("soundex({})", "mask({})", "base64({})", "hex({})", "quote({})", "url_encode({})",
                               "regexp_replace({}, '(a)(b)?', '$2$1')", "format_string('%5s|', {})",
                               "regexp_substr({}, '[a-z]+')", "overlay({} PLACING 'zz' FROM 2)"))  # fmt: skip
            return Value(sql(call, s), STRING)
        if form == 1:
            number = self.small(depth).part
            call = rng.choice(("conv(CAST({} AS STRING), 10, 16)", "format_number({}, 2)", "bin({})",
                               "format_string('%05d', {})", "to_char({}, 'S9,999,999')"))  # fmt: skip
            return Value(sql(call, number), STRING)
        call = rng.choice(("substring_index({}, {}, 1)", "replace({}, {}, '+')", "btrim({}, {})", "rpad({}, 6, {})",
                           "translate({}, {}, 'xyz')", "split_part({}, concat({}, ','), 1)",
                           "regexp_replace({}, lower(hex({})), '_')",
                           "regexp_extract({}, concat('(', hex({}), ')?'), 1)",
                           "array_join(regexp_extract_all({}, concat('[z', hex({}), ']'), 0), ',')"))  # fmt: skip
        return Value(sql(call, s, self.value("string", 0).part), STRING)

    def condition(self, depth: int = 1) -> Part:
        """A predicate."""
        rng = self.rng
        form = rng.random()
        if depth > 0 and form < 0.16:
            operator = rng.choice(("({} AND {})", "({} OR {})"))
            return sql(operator, self.condition(depth - 1), self.condition(depth - 1))
        if depth > 0 and form < 0.22:
            return sql("(NOT {})", self.condition(depth - 1))
        if form < 0.34:
            return sql(rng.choice(("({} IS NULL)", "({} IS NOT NULL)")), self.column().part)
        if form < 0.44 and self.of_family("string"):
            operator = rng.choice(("({} LIKE {})", "({} NOT LIKE {})"))
            return sql(operator, self.column("string").part, rng.choice(_PATTERNS))
        if form < 0.5 and self.of_family("boolean"):
            return self.column("boolean").part
        if form < 0.53 and self.of_family("string"):
            call = rng.choice(("contains({}, {})", "startswith({}, {})", "endswith({}, {})",
                               "({} LIKE concat('%', {}, '%'))", "({} ILIKE concat(lower(hex({})), '_'))",
                               "({} RLIKE concat('^', lower(hex({}))))",
                               "({} LIKE ANY (concat({}, '_'), 'A%'))"))  # fmt: skip
            return sql(call, self.column("string").part, self.value("string", depth).part)
        family = self.column().kind.name
        family = family if family in FAMILIES and family != "boolean" else "int"
        a = self.value(family, depth)
        if form < 0.6:
            some = [self.constant(family).part for _ in range(3)]
            return sql(rng.choice(("({} IN ({}, {}, {}))", "({} NOT IN ({}, {}, {}))")), a.part, *some)
        if form < 0.68:
            return sql("({} BETWEEN {} AND {})", a.part, self.constant(family).part, self.value(family, 0).part)
        b = self.constant(family) if rng.random() < 0.4 else self.value(family, depth)
        operator = rng.choice(("<", "<=", ">", ">=", "=", "<>", "<=>"))
        return sql(f"({{}} {operator} {{}})", a.part, b.part)


def widest(a: Kind, b: Kind) -> Kind:
    """The kind of a value that may be either."""
    return Kind(a.name, max(a.bound, b.bound), max(a.scale, b.scale), a.exact and b.exact)
