"""Runs views of the fuzzer in a mill and compares them with Spark after every epoch."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from fuzz_parts import words
from fuzz_tables import FuzzTable
from oracle import Oracle, as_table
from pyspark.sql import SparkSession
from tests.local_jobs import LocalJobs

from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.testing import difference, weighted_rows


@dataclass(frozen=True)
class Plan:
    """Everything that decides a run but the views.

    Attributes
    ----------
    steps : tuple of tuples of (table, file)
        Files that appear before each epoch; those of static tables are there before all views.
    late : int
        Before this step the views are created that are not there from the beginning.
    """

    tables: tuple[FuzzTable, ...]
    settings: Mapping[str, Any]
    steps: tuple[tuple[tuple[str, int], ...], ...]
    late: int
    local: bool = True


def random_plan(rng: random.Random, tables: Sequence[FuzzTable], local: bool) -> Plan:
    """Random settings, and files in random order."""
    growing = [t for t in tables if not t.static]
    files = [(t.name, n) for t in growing for n in range(len(t.files))]
    order = sorted(files, key=lambda f: (f[1] + rng.random() * 1.5, f[0]))
    order = [f for f in order if f[1] == 0] + [f for f in order if f[1]]
    keyed = [sorted(o[1] for o in order if o[0] == t.name) for t in growing]
    waiting = {t.name: numbers for t, numbers in zip(growing, keyed, strict=True)}
    order = [(name, waiting[name].pop(0)) for name, _ in order]  # the files of a table in their order
    cuts = sorted(rng.sample(range(1, len(order)), min(rng.choice((2, 3, 3)), len(order) - 1)))
    steps = tuple(tuple(order[a:b]) for a, b in zip((0, *cuts), (*cuts, len(order)), strict=True))
    settings = {
        "epoch_bytes": rng.choice((3000, 6000, 100_000)),
        "split_bytes": rng.choice((60, 300, 2000, 100_000)),
        "partitions": rng.randrange(1, 5),
        "small_epoch_bytes": rng.choice((0, 0, 1000, 1 << 20)),
        "compact_after": rng.choice((2, 4, 12)),
        "compact_bytes": rng.choice((2000, 32 << 20)),
    }
    return Plan(tuple(tables), settings, steps, rng.randrange(1, len(steps)), local)


@dataclass(frozen=True)
class Failure:
    """What went wrong with a view: ``wrong`` rows, a ``crash``, it ``failed``, its ``changes`` do not sum up."""

    kind: str
    view: str
    text: str
    epoch: int = 0


@dataclass
class Outcome:
    """What a run found."""

    failures: dict[str, Failure] = field(default_factory=dict)
    epochs: int = 0
    rows: dict[str, pa.Table] = field(default_factory=dict)
    ever: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    compared: int = 0
    seconds: float = 0.0

    def fail(self, failure: Failure) -> None:
        """Note the first failure of a view."""
        self.failures.setdefault(failure.view, failure)


class OracleError(Exception):
    """Spark itself has no answer."""


class Run:
    """One mill with some views over the tables of a plan; use as a context."""

    def __init__(self, spark: SparkSession, plan: Plan, answers: Mapping[str, pa.Table] | None = None) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="fuzz"))
        self.plan = plan
        self.outcome = Outcome()
        self.tables = {t.name: t.placed(self._directory / "data") for t in plan.tables}
        settings = Settings(master="local[2]", listing_seconds=0.0, **plan.settings)
        self.mill = Mill(self._directory / "root", spark=spark, settings=settings)
        if plan.local:
            self.mill._coordinator._jobs = LocalJobs()
        self._oracle = Oracle(spark)
        self._last_answers = answers
        self._events: dict[str, list[Any]] = {name: [] for name in self.tables}
        self._asked: dict[str, int] = {}
        self._answers: dict[str, pa.Table] = {}
        self.views: dict[str, str] = {}
        for table in self.tables.values():
            self.mill.sql(table.create_statement())
            for number in range(len(table.files) if table.static else 0):
                table.release(number)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.mill.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def run(self, views: Mapping[str, str], late: Collection[str] = ()) -> Outcome:
        """All epochs. The views ``late`` are created when some rows have been admitted."""
        last = len(self.plan.steps) - 1
        try:
            self._create({n: q for n, q in views.items() if n not in late})
            for number, step in enumerate(self.plan.steps):
                if number == self.plan.late:
                    self._create({n: q for n, q in views.items() if n in late})
                for name, file in step:
                    self.tables[name].release(file)
                self._advance(last_step=number == last)
            while self._advance(last_step=True):
                pass
            self._check_changes()
        except OracleError as error:
            self.outcome.fail(Failure("oracle", "", str(error)[:2000], self.mill.epoch))
        except Exception as error:
            text = "".join(traceback.format_exception(error)[-8:])
            self.outcome.fail(Failure("crash", "", f"{type(error).__name__}: {error}\n{text}"[:4000], self.mill.epoch))
        return self.outcome

    def _create(self, views: Mapping[str, str]) -> None:
        for name, query in views.items():
            try:
                self.mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            except TidemillError as error:
                self.outcome.refused[name] = f"{error.number} {error.what}: {error.got}"
            except Exception as error:
                self.outcome.fail(Failure("crash", name, f"create: {type(error).__name__}: {error}"[:2000]))
            else:
                self.views[name] = query

    def _advance(self, last_step: bool) -> bool:
        began = time.monotonic()
        report = self.mill.advance()
        self.outcome.seconds += time.monotonic() - began
        if report is None:
            return False
        for name, error in report.failed.items():
            self.outcome.fail(Failure("failed", name, str(error)[:1000], self.mill.epoch))
        for name, table in self.tables.items():
            self._events[name] += table.admitted((p, a, b) for t, p, a, b in report.read if t == name)
        self.outcome.epochs += 1
        self._compare(last_step)
        return True

    def _inputs(self, name: str) -> frozenset[str]:
        """The tables that a view reads, directly or through others."""
        read = words(self.views[name])
        return frozenset(read & self.tables.keys()).union(*(self._inputs(v) for v in read & self.views.keys()))

    def _expected(self, last_step: bool) -> dict[str, pa.Table]:
        """Spark's answers; it is not asked again where no table has changed."""
        seen = {n: len(e) for n, e in self._events.items()}
        complete = last_step and all(e == sum(map(len, self.tables[n].files)) for n, e in seen.items())
        if complete and self._last_answers is not None:
            return dict(self._last_answers)
        changed = {n: t for n, t in self.tables.items() if self._asked.get(n) != seen[n]}
        asked = [n for n in self.views if n not in self._answers or self._inputs(n) & changed.keys()]
        try:
            rows = {n: t.rows(self._events[n]) for n, t in changed.items()}
            found = self._oracle.answers(rows, self.views, asked)
        except Exception as error:
            raise OracleError(str(error)) from error
        self._asked = seen
        self._answers.update(found)
        return self._answers

    def _compare(self, last_step: bool) -> None:
        wanted = {n: q for n, q in self.views.items() if n not in self.outcome.failures}
        expected = self._expected(last_step)
        initialising = self.mill.snapshot().initialising
        for name in wanted:
            if name in initialising:
                continue
            try:
                found = self.mill.read(name)
            except Exception as error:
                self.outcome.fail(
                    Failure("crash", name, f"read: {type(error).__name__}: {error}"[:1000], self.mill.epoch)
                )
                continue
            self.outcome.compared += 1
            self.outcome.rows[name] = found
            differs = difference(found, expected[name])
            if differs is not None:
                self.outcome.fail(Failure("wrong", name, differs, self.mill.epoch))
            if found.num_rows:
                self.outcome.ever.add(name)

    def _check_changes(self) -> None:
        """The changes of each third view sum up to it."""
        for name in list(self.views)[::3]:
            if name in self.outcome.failures:
                continue
            total: dict[tuple[Any, ...], int] = {}
            for epoch, delta in self.mill.subscribe(name, timeout=0):
                for row, weight in weighted_rows(delta).items():
                    total[row] = total.get(row, 0) + weight
                    if total[row] < 0:
                        self.outcome.fail(Failure("changes", name, f"{row} taken away before it was there", epoch))
            differs = difference(as_table({r: w for r, w in total.items() if w > 0}, self.outcome.rows[name].schema),
                                 self.outcome.rows[name])  # fmt: skip
            if differs is not None:
                self.outcome.fail(Failure("changes", name, differs, self.mill.epoch))
