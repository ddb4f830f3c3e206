"""Runs a mill over random tables and asks Spark, epoch by epoch, what every view should be."""

from __future__ import annotations

import random
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from random_tables import COLUMNS, DIMENSION, RandomTable, random_table
from sorted_lists import with_sorted_lists

from tidemill.mill import Mill
from tidemill.plan.sql.statements import split_script
from tidemill.runtime.epoch.report import EpochReport
from tidemill.schema import WEIGHT
from tidemill.testing import assert_same_rows, weighted_rows

ONE_TASK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
_WORD = re.compile(r"\w+")


_LIMITED_JOIN = re.compile(r"\b(?:LocalLimit|Offset) [^\n]*\n(?:[ :]*\+- Project [^\n]*\n)*[ :]*\+- Join ")


class Oracle:
    """Spark's own answers over given rows, in a session of its own set up for very small data."""

    def __init__(self, spark: SparkSession) -> None:
        self._session = spark.newSession()
        for name, value in ONE_TASK.items():
            self._session.conf.set(name, value)
        self._given: dict[str, pa.Buffer] = {}
        self._answered: dict[str, tuple[str, pa.Table]] = {}
        self._readable: set[str] = set()

    def answers(
        self, tables: Mapping[str, pa.Table], views: Mapping[str, str], asked: Collection[str] | None = None
    ) -> dict[str, pa.Table]:
        """Each view's rows, or those of the views ``asked``; a view may read the ones before it.

        A view is asked again when its query, or anything that it may read, is not what it was when it was asked last,
        or when it was not in the last call.
        """
        assert all(_WORD.fullmatch(name) for name in (*tables, *views)), "names are found in the text of queries"
        self._answered = {name: answer for name, answer in self._answered.items() if name in views}
        self._readable &= views.keys()
        changed = set()
        for name, rows in tables.items():
            given = _serialized(rows)
            if name not in self._given or not self._given[name].equals(given):
                # one partition that is known to be the only one: no plan has an exchange
                self._session.createDataFrame(rows).coalesce(1).createOrReplaceTempView(name)
                self._given[name] = given
                changed.add(name.lower())
        frames = {}
        read = Counter(word for query in views.values() for word in set(_WORD.findall(query.lower())))
        for name, query in views.items():
            known = name in self._answered and self._answered[name][0] == query
            known = known and (name in self._readable or not read[name.lower()])
            if known and changed.isdisjoint(_WORD.findall(query.lower())):
                continue
            self._answered.pop(name, None)
            self._readable.discard(name)
            changed.add(name.lower())
            if asked is None or name in asked or read[name.lower()]:
                frames[name] = _named_apart(self._session.sql(with_sorted_lists(query)))
            if read[name.lower()]:
                frames[name].createOrReplaceTempView(name)
                self._readable.add(name)
        if asked is not None:
            frames = {name: frame for name, frame in frames.items() if name in asked}
        with ThreadPoolExecutor(2) as threads:  # most of the time goes into Spark's own planning
            found = list(threads.map(DataFrame.toArrow, frames.values()))
        self._answered |= {name: (views[name], answer) for name, answer in zip(frames, found, strict=True)}
        return {name: self._answered[name][1] for name in views if asked is None or name in asked}

    def decides(self, query: str) -> bool:
        """Whether Spark's answer is decided by the rows: its plan has no LIMIT or OFFSET above a join.

        Where the columns of ``SELECT ... FROM (... ORDER BY ... LIMIT n)`` have a subquery, Spark moves the LIMIT above
        the join that finds it, which keeps no order.
        """
        plan = _named_apart(self._session.sql(with_sorted_lists(query)))._jdf.queryExecution().optimizedPlan()
        return _LIMITED_JOIN.search(plan.toString()) is None

    def name(self, name: str, query: str) -> None:
        """Let queries that are given later read this one by a name."""
        _named_apart(self._session.sql(with_sorted_lists(query))).createOrReplaceTempView(name)

    def answer(self, query: str) -> pa.Table | str:
        """The rows of a query over what was last given, or what Spark raises, by its first two lines."""
        try:
            return _named_apart(self._session.sql(with_sorted_lists(query))).toArrow()
        except (PySparkException, Py4JJavaError) as error:
            return " ".join(str(error).splitlines()[:2])


def _named_apart(frame: DataFrame) -> DataFrame:
    """With numbers behind the names of columns that Spark's SELECT names alike, as a view has them."""
    seen: Counter[str] = Counter()
    names = []
    for name in frame.columns:
        names.append(f"{name}_{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return frame if names == frame.columns else frame.toDF(*names)


def _serialized(rows: pa.Table) -> pa.Buffer:
    """Rows as bytes: unlike rows with NaN, they equal themselves."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


class Trial:
    """A mill, random tables, and the right answers of all epochs so far.

    Attributes
    ----------
    answers : dict
        Epoch, then view name, to the rows that Spark gives. Epoch 0 is kept too.
    views : dict
        Name to query of the views that exist, in the order they were created.

    Parameters
    ----------
    sometimes : bool
        Spark is asked about a view that has had rows in two epochs of five, and at the end of :meth:`run`; of the
        other epochs there are no answers.
    """

    def __init__(self, mill: Mill, tables: Iterable[RandomTable], sometimes: bool = False) -> None:
        self.mill = mill
        self._sometimes = sometimes
        self.tables = {t.name: t for t in tables}
        self.views: dict[str, str] = {}
        self.answers: dict[int, dict[str, pa.Table]] = {}
        self.ever: set[str] = set()
        self._admitted: dict[str, list[int]] = {name: [] for name in self.tables}
        self._oracle = Oracle(mill.spark)
        for table in self.tables.values():
            table.release(1)
            mill.sql(table.create_statement())

    def create(self, views: Mapping[str, str]) -> None:
        """Create views in the mill, all at once as a script does."""
        create_views(self.mill, views)
        self.views |= views

    def drop(self, name: str) -> None:
        """Drop a view."""
        self.mill.sql(f"DROP VIEW {name}")
        del self.views[name]

    def advance(self) -> EpochReport | None:
        """Run one epoch and compare every view that is not initialising with Spark."""
        report = self.mill.advance()
        if report is not None:
            assert not report.failed, report.failed
            for name, table in self.tables.items():
                self._admitted[name] += table.admitted((p, s, e) for t, p, s, e in report.read if t == name)
            self._compare()
        return report

    def _compare(self, last: bool = False) -> None:
        epoch = self.mill.epoch
        rows = {name: table.rows(self._admitted[name]) for name, table in self.tables.items()}
        asked = [n for n in self.views if last or not self._sometimes or n not in self.ever or by_chance(n, epoch)]
        expected = self._oracle.answers(rows, self.views, asked)
        self.answers[epoch] = expected
        initialising = self.mill.snapshot().initialising
        for name, table in expected.items():
            if name not in initialising:
                assert_same_rows(self.mill.read(name), table, f"view {name} at epoch {epoch}: {self.views[name]}")
                if table.num_rows:
                    self.ever.add(name)

    def run(self, rng: random.Random, most: int = 100) -> int:
        """Epochs until everything has appeared and is admitted; returns how many there were."""
        for count in range(most):
            waiting = [t for t in self.tables.values() if t.waiting]
            if waiting:
                rng.choice(waiting).release(rng.randrange(1, 3))
            if self.advance() is None and not waiting:
                if self._sometimes:
                    self._compare(last=True)
                return count
        raise AssertionError(f"not finished after {most} epochs")

    def check_not_vacuous(self) -> None:
        """Fail when views were empty in every epoch: more than the few of whose condition that can be so by chance."""
        empty = self.views.keys() - self.ever
        assert len(empty) <= len(self.views) // 6, f"these views never had a row: {sorted(empty)}"

    def check_history(self, name: str, created_at_epoch: int = 0) -> None:
        """The changes of every epoch are the difference of Spark's answers, and they sum to the view."""
        epochs = [e for e in self.answers if e > created_at_epoch]
        changes = dict(self.mill.subscribe(name, timeout=0))
        assert changes.keys() <= {created_at_epoch, *epochs}
        total: dict[tuple[object, ...], int] = (
            dict(weighted_rows(changes[created_at_epoch])) if created_at_epoch in changes else {}
        )
        for epoch in epochs:
            delta = weighted_rows(changes[epoch]) if epoch in changes else {}
            for row, weight in delta.items():
                total[row] = total.get(row, 0) + weight
            assert all(w >= 0 for w in total.values()), f"{name}: a row that was not there is taken away at {epoch}"
            if name not in self.answers[epoch]:
                continue
            seen = as_table(total, self.mill.read(name).schema)
            assert_same_rows(seen, self.answers[epoch][name], f"changes of {name} up to epoch {epoch}")
            assert WEIGHT not in seen.column_names


def create_views(mill: Mill, views: Mapping[str, str]) -> None:
    """Create views all at once, as a script does."""
    script = ";\n".join(f"CREATE MATERIALIZED VIEW {name} AS {query}" for name, query in views.items())
    with mill.declaring() as declaration:
        declaration.add_script(split_script(script), may_replace=False)
    assert not declaration.changed


def by_chance(name: str, epoch: int) -> bool:
    """Whether this is one of the epochs, two of five, in which a view is compared that is compared sometimes."""
    return zlib.crc32(f"{name} {epoch}".encode()) % 5 < 2


def as_table(rows: Mapping[tuple[object, ...], int], schema: pa.Schema) -> pa.Table:
    """Rows with weights as a table that repeats them."""
    repeated = [row for row, weight in rows.items() for _ in range(weight)]
    columns = list(zip(*repeated, strict=True)) if repeated else [()] * len(schema)
    arrays = []
    for values, column in zip(columns, schema, strict=True):
        if pa.types.is_floating(column.type):
            values = tuple(float(v) if v == "NaN" else v for v in values)
        if pa.types.is_nested(column.type):
            values = tuple(_arrow_value(v, column.type) for v in values)
        arrays.append(pa.array(values, column.type))
    return pa.table(arrays, schema=schema)


def _arrow_value(value: Any, type_: pa.DataType) -> Any:
    """What :func:`tidemill.testing.plain_values` gave, as Arrow takes it."""
    if value is None:
        return None
    if pa.types.is_list(type_):
        return [_arrow_value(v, type_.value_type) for v in value]
    if pa.types.is_struct(type_):
        return {f.name: _arrow_value(v, f.type) for f, (_, v) in zip(type_, value, strict=True)}
    if pa.types.is_map(type_):
        return [(_arrow_value(k, type_.key_type), _arrow_value(v, type_.item_type)) for k, v in value]
    return value


def usual_tables(rng: random.Random, directory: Path, rows: int = 160) -> list[RandomTable]:
    """``t`` (ten types, deletes), ``u`` (a dimension with deletes) and ``a`` (as ``t``, inserts only)."""
    return [
        random_table(rng, "t", COLUMNS, directory / "t", rows=rows, deletes=True, files=4),
        random_table(rng, "u", DIMENSION, directory / "u", rows=rows // 4, deletes=True, files=2),
        random_table(rng, "a", COLUMNS, directory / "a", rows=rows // 2, deletes=False, files=3),
    ]


def usual_settings(rng: random.Random, tables: Iterable[RandomTable], epochs: int = 4) -> dict[str, int]:
    """Random split sizes and partitions, and an epoch size that gives about ``epochs`` epochs."""
    total = sum(len(content) for t in tables for _, content, _ in t.waiting)
    return {
        "epoch_bytes": max(1, int(total / epochs * rng.uniform(0.9, 1.4))),
        "split_bytes": rng.choice((50, 200, 1000, 100_000)),
        "partitions": rng.randrange(1, 6),
        "small_epoch_bytes": rng.choice((0, 1500, 1 << 20)),
    }


class LaterTrial(Trial):
    """A trial whose views have the queries that the mill says they have."""

    def _compare(self, last: bool = False) -> None:
        self.views = {n: v.query for n, v in self.mill.snapshot().catalog.views.items()}
        super()._compare(last)
