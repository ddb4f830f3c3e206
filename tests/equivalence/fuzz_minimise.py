"""Makes a failing query and its rows smaller while it still fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from fuzz_parts import Part, reductions, words
from fuzz_trial import Failure, Plan, Run
from pyspark.sql import SparkSession

_TOGETHER = 12


@dataclass
class Minimiser:
    """A failure, and how long one may look for a smaller one.

    Attributes
    ----------
    upstream : dict
        Name to query of the views that the failing one may read, in order.
    """

    spark: SparkSession
    plan: Plan
    name: str
    query: Part
    upstream: Mapping[str, str]
    late: Collection[str]
    failure: Failure
    deadline: float

    def culprit(self) -> Failure | None:
        """The failure, when the query alone makes it."""
        needed = _needed(str(self.query), self.upstream)
        self.upstream = {n: q for n, q in self.upstream.items() if n in needed}
        return self._fails(self.plan, {self.name: str(self.query)})

    def minimised(self) -> str:
        """The failure as text: settings, tables, files, views, what is wrong."""
        alone = {n: q for n, q in self.upstream.items() if n in _needed(str(self.query), self.upstream)}
        self.upstream = alone
        found = self._fails(self.plan, {self.name: str(self.query)})
        if found is None:
            return self._text(f"{self.name} does not fail alone; with its neighbours: {self.failure.text}")
        self._shrink_query()
        self._shrink_rows()
        final = self._fails(self.plan, {self.name: str(self.query)})
        return self._text(final.text if final is not None else self.failure.text)

    def _fails(self, plan: Plan, views: Mapping[str, str]) -> Failure | None:
        """The failure of the first of some views that fails as the query did, each judged by its own name."""
        with Run(self.spark, plan) as run:
            late = {*self.late, *(views if self.name in self.late else ())}
            outcome = run.run({**self.upstream, **views}, late)
        for name in (*views, ""):
            failure = outcome.failures.get(name)
            if failure is not None and self._alike(failure):
                return replace(failure, view=name)
        return None

    def _alike(self, failure: Failure) -> bool:
        if failure.kind != self.failure.kind:
            return False
        return failure.kind != "crash" or failure.text.split(":")[0] == self.failure.text.split(":")[0]

    def _shrink_query(self) -> None:
        while time.monotonic() < self.deadline:
            for group in _groups(list(reductions(self.query)), 1 if self.failure.kind == "crash" else _TOGETHER):
                if time.monotonic() > self.deadline:
                    return
                named = {f"{self.name}_{i}": part for i, part in enumerate(group)}
                found = self._fails(self.plan, {n: str(p) for n, p in named.items()})
                if found is None:
                    continue
                part = named.get(found.view) or group[0]
                if len(group) == 1 or self._fails(self.plan, {self.name: str(part)}) is not None:
                    self.query = part
                    break
            else:
                return

    def _shrink_rows(self) -> None:
        used = _needed(" ".join((str(self.query), *self.upstream.values())), {t.name: "" for t in self.plan.tables})
        names = {t.name for t in self.plan.tables if t.name in used}
        tables = tuple(t for t in self.plan.tables if t.name in names)
        steps = tuple(tuple((n, f) for n, f in step if n in names) for step in self.plan.steps)
        self._try(replace(self.plan, tables=tables, steps=steps))
        for table in self.plan.tables:
            rows = list(dict.fromkeys(repr(e[1]) for file in table.files for e in file))
            size = max(1, len(rows) // 2)
            while True:
                for start in range(0, len(rows), size):
                    if time.monotonic() > self.deadline:
                        return
                    dropped = set(rows[start : start + size])
                    smaller = tuple(t.without(dropped) if t.name == table.name else t for t in self.plan.tables)
                    self._try(replace(self.plan, tables=smaller))
                if size == 1:
                    break
                left = {repr(e[1]) for t in self.plan.tables if t.name == table.name for f in t.files for e in f}
                rows = [r for r in rows if r in left]
                size = max(1, min(size // 2, len(rows) // 2))

    def _try(self, plan: Plan) -> bool:
        if self._fails(plan, {self.name: str(self.query)}) is None:
            return False
        self.plan = plan
        return True

    def _text(self, what: str) -> str:
        lines = [f"{self.failure.kind}: {what}", f"settings {dict(self.plan.settings)}", f"steps {self.plan.steps}"]
        lines += [f"late {sorted(self.late)} before step {self.plan.late}"]
        lines += [t.literal() for t in self.plan.tables]
        lines += [f"CREATE MATERIALIZED VIEW {n} AS {q};" for n, q in {**self.upstream, self.name: self.query}.items()]
        return "\n".join(lines)


def _groups(parts: list[Part], size: int) -> Iterator[list[Part]]:
    for start in range(0, len(parts), size):
        yield parts[start : start + size]


def _needed(query: str, upstream: Mapping[str, str]) -> set[str]:
    found = words(query) & upstream.keys()
    for name in sorted(found):
        found |= _needed(upstream[name], upstream)
    return found
