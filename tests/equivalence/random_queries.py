"""Random queries over the usual tables, of the kinds that views support."""

from __future__ import annotations

import random

_NUMBERS = {"t": ("k", "i"), "u": ("k", "l"), "a": ("k", "i")}
_DOUBLES = {"t": ("d",), "u": ("w",), "a": ("d",)}
_TEXTS = {"t": ("g", "s"), "u": ("g", "name"), "a": ("g", "s")}
_OTHERS = {"t": ("day", "at", "b", "m"), "u": (), "a": ("day", "at", "b", "m")}
_CONSTANTS = ("'a'", "'x'", "''", "'é'", "'%a%'")


class QueryMaker:
    """Makes queries; each has columns ``c0``, ``c1`` ... and no order."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sources: list[tuple[str, str]] = []

    def query(self) -> str:
        """A query of one or two levels, or a union of two."""
        kind = self.rng.random()
        if kind < 0.15:
            width = self.rng.randrange(1, 4)
            parts = [self._flat(width, fixed=True) for _ in range(2)]
            return self.rng.choice((" UNION ALL ", " UNION ")).join(parts)
        if kind < 0.4:
            return self._flat(self.rng.randrange(1, 5))
        if kind < 0.55:
            return f"SELECT DISTINCT {self._flat(self.rng.randrange(1, 3)).removeprefix('SELECT ')}"
        inner = self._grouped()
        if kind < 0.85:
            return inner
        measure = self.rng.choice(("count(*)", "max(c0)", "count(DISTINCT c0)", "min(c0)"))
        if self.rng.random() < 0.4:
            return f"SELECT {measure} AS c0, count(*) AS c1 FROM ({inner})"
        return f"SELECT c0, {measure} AS c1, count(*) AS c2 FROM ({inner}) GROUP BY c0"

    def _from(self) -> str:
        rng = self.rng
        self.sources = [("x", rng.choice("tttuua"))]
        if rng.random() < 0.6:
            return f"{self.sources[0][1]} x{self._where()}"
        self.sources.append(("y", rng.choice("tua")))
        on = rng.choice(("x.k = y.k", "x.k <=> y.k", "x.k = y.k AND x.g = y.g", "x.g = y.g AND x.k + 1 = y.k"))
        if rng.random() < 0.4:
            on += f" AND {self._number()} < {self._number()}"
        return f"{self.sources[0][1]} x JOIN {self.sources[1][1]} y ON {on}{self._where()}"

    def _where(self) -> str:
        if self.rng.random() < 0.5:
            return ""
        return f" WHERE {self._predicate()}"

    def _column(self, columns: dict[str, tuple[str, ...]]) -> str:
        choices = [f"{alias}.{c}" for alias, table in self.sources for c in columns[table]]
        return self.rng.choice(choices) if choices else self._number()

    def _number(self) -> str:
        column = self._column(_NUMBERS)
        form = self.rng.choice(("{0}", "{0}", "{0} + 1", "{0} % 3", "abs({0})", "coalesce({0}, -1)", "-{0}"))
        return form.format(column)

    def _predicate(self) -> str:
        rng = self.rng
        simple = rng.choice(
            (
                lambda: f"{self._number()} {rng.choice(('<', '>=', '=', '<>'))} {rng.randrange(-3, 20)}",
                lambda: f"{self._column(_DOUBLES)} {rng.choice(('<', '>'))} {rng.randrange(-300, 300)}.5",
                lambda: f"{self._column(_TEXTS)} {rng.choice(('LIKE', '=', '<', '>='))} {rng.choice(_CONSTANTS)}",
                lambda: f"{self._column(_OTHERS)} IS {rng.choice(('', 'NOT '))}NULL",
                lambda: f"{self._number()} IN (0, 1, {rng.randrange(30)})",
            )
        )
        kind = rng.random()
        if kind < 0.6:
            return simple()
        if kind < 0.75:
            return f"NOT ({simple()})"
        return f"({simple()} {rng.choice(('AND', 'OR'))} {simple()})"

    def _value(self) -> str:
        rng = self.rng
        return rng.choice(
            (
                self._number,
                lambda: self._column(_TEXTS),
                lambda: f"upper({self._column(_TEXTS)})",
                lambda: self._column(_OTHERS),
                lambda: self._column(_DOUBLES),
                lambda: f"CASE WHEN {self._predicate()} THEN {self._number()} ELSE 0 END",
                lambda: f"length({self._column(_TEXTS)})",
            )
        )()

    def _flat(self, width: int, fixed: bool = False) -> str:
        source = self._from()
        values = [self._number() if fixed else self._value() for _ in range(width)]
        return f"SELECT {', '.join(f'{v} AS c{i}' for i, v in enumerate(values))} FROM {source}"

    def _aggregate(self) -> str:
        rng = self.rng
        call = rng.choice(
            (
                lambda: "count(*)",
                lambda: f"count({self._value()})",
                lambda: f"sum({self._number()})",
                lambda: f"sum(DISTINCT {self._number()})",
                lambda: f"avg({self._column(_DOUBLES)})",
                lambda: f"sum({self._column(_DOUBLES)})",
                lambda: f"min({self._value()})",
                lambda: f"max({self._value()})",
                lambda: f"count(DISTINCT {self._value()})",
            )
        )()
        return f"{call} FILTER (WHERE {self._predicate()})" if rng.random() < 0.15 else call

    def _grouped(self) -> str:
        rng = self.rng
        source = self._from()
        keys = [self._value() for _ in range(rng.choice((0, 1, 1, 1, 2)))]
        calls = [self._aggregate() for _ in range(rng.randrange(1, 4))]
        columns = ", ".join(f"{v} AS c{i}" for i, v in enumerate(keys + calls))
        grouping = f" GROUP BY {', '.join(keys)}" if keys else ""
        conditions = ("count(*) > 1", "max(x.k) > 1", "count(x.g) < 20")
        having = f" HAVING {rng.choice(conditions)}" if rng.random() < 0.3 else ""
        return f"SELECT {columns} FROM {source}{grouping}{having}"
