"""Rows that make an expression fail: a view is in error as long as Spark raises for it, and so is what reads it.

Tables get rows, and lose them again, among which some fail. After each epoch every view is asked of Spark: where that
raises the view says so, and elsewhere it has Spark's rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from oracle import ONE_TASK, as_table
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from queries import read_views

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.testing import assert_same_rows, weighted_rows

VIEWS = read_views(Path(__file__).with_name("failing_rows.sql"))
_COLUMNS = {
    "t": pa.schema([("id", pa.int32()), ("k", pa.int32()), ("v", pa.int32()), ("s", pa.string())]),
    "u": pa.schema([("id", pa.int32()), ("k", pa.int32()), ("w", pa.int32())]),
}
_DDL = {"t": "id INT, k INT, v INT, s STRING", "u": "id INT, k INT, w INT"}


class _Tables:
    """Rows of the tables, and files of what changes; mostly rows that fail nowhere."""

    def __init__(self, rng: random.Random, directory: Path) -> None:
        self._rng, self._directory = rng, directory
        self._next = 0
        self.rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in _COLUMNS}
        for name in _COLUMNS:
            (directory / name).mkdir()

    def good(self, name: str) -> tuple[object, ...]:
        """A row that fails in no view by itself. Keys of ``u`` are used once, so its subqueries give one row."""
        self._next += 1
        if name == "u":
            return (self._next, 10 + self._next, self._rng.randrange(1, 9))
        return (self._next, self._rng.randrange(1, 5), self._rng.randrange(1, 9), str(self._rng.randrange(3)))

    def bad(self, name: str, epoch: int) -> list[tuple[object, ...]]:
        """Rows that fail in some views, or make others fail: division by 0, sums of 0, a key given twice."""
        self._next += 4
        ids = [self._next - i for i in range(3)]
        first = 1 + epoch // 2
        if name == "u":
            return [(ids[0], first, 5), (ids[1], first, 8), (ids[2], self._rng.randrange(1, 4), 9)]
        key = self._rng.choice(self.rows["t"])[1]
        total = sum(int(str(r[2])) for r in self.rows["t"] if r[1] == key)
        value, text = (0, "x") if epoch == 1 else (-total, "2")
        return [(ids[0], key, value, text), (ids[1], 9, self._rng.choice((0, 1)), self._rng.choice(("x", "1")))]

    def change(self, epoch: int, inserted: dict[str, list[tuple[object, ...]]], deleted: set[object]) -> None:
        """Write a file a table; ``deleted`` are ids."""
        for name, rows in self.rows.items():
            gone = [r for r in rows if r[0] in deleted]
            changes = [*((*r, "I") for r in inserted.get(name, [])), *((*r, "D") for r in gone)]
            self._rng.shuffle(changes)
            if changes:
                text = "".join(",".join(map(str, c)) + "\n" for c in changes)
                (self._directory / name / f"{epoch}.csv").write_text(text)
            self.rows[name] = [r for r in rows if r not in gone] + inserted.get(name, [])


def _answer(frame: DataFrame) -> pa.Table | str:
    try:
        return frame.toArrow()
    except (PySparkException, Py4JJavaError) as error:
        return " ".join(str(error).splitlines()[:2])


def _check(mill: Mill, spark: SparkSession, tables: _Tables, seen: dict[str, set[bool]]) -> None:
    for name, schema in _COLUMNS.items():
        columns = list(zip(*tables.rows[name], strict=True)) or [()] * len(schema)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        spark.createDataFrame(pa.table(arrays, schema=schema)).coalesce(1).createOrReplaceTempView(name)
    status = {name: (state, detail) for name, state, _, detail in mill.status()}
    frames = {}
    for name, query in VIEWS.items():
        frames[name] = spark.sql(query)
        frames[name].createOrReplaceTempView(name)
    with ThreadPoolExecutor(2) as threads:  # most of the time goes into Spark's own planning
        answers = dict(zip(frames, threads.map(_answer, frames.values()), strict=True))
    for name, query in VIEWS.items():
        expected = answers[name]
        where = f"{name} at epoch {mill.epoch}: {query}\nSpark: {expected}\nstatus: {status[name]}"
        seen.setdefault(name, set()).add(isinstance(expected, str))
        if isinstance(expected, str):
            assert status[name][0] == "failing", where
            with pytest.raises(TidemillError, match="TM1039"):
                mill.read(name)
        else:
            assert status[name][0] == "fresh", where
            assert_same_rows(mill.read(name), expected, where)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_in_error_as_long_as_spark_is(
    mill_factory: Callable[..., Mill], spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    tables = _Tables(rng, tmp_path)
    session = spark.newSession()
    for setting, value in ONE_TASK.items():
        session.conf.set(setting, value)
    mill = mill_factory(partitions=rng.randrange(1, 4), split_bytes=rng.choice((40, 1 << 20)))
    for name, columns in _DDL.items():
        mill.sql(f"CREATE TABLE {name} ({columns}) USING csv OPTIONS (path '{tmp_path / name}', opColumn 'op')")
    late = rng.sample([n for n in VIEWS if not any(n in q for q in VIEWS.values())], 3)
    seen: dict[str, set[bool]] = {}
    bad: list[tuple[object, ...]] = []
    tables.change(0, {name: [tables.good(name) for _ in range(6)] for name in _COLUMNS}, set())
    for name, query in VIEWS.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    list(mill.drain())
    _check(mill, session, tables, seen)
    for epoch in range(1, 6):
        inserted = {name: [tables.good(name) for _ in range(rng.randrange(3))] for name in _COLUMNS}
        gone = {r[0] for r in rng.sample(tables.rows["t"][1:], 1)}
        if epoch % 2:
            for name in _COLUMNS:
                more = tables.bad(name, epoch)
                inserted[name] += more
                bad += more
        else:
            gone |= {r[0] for r in bad}
            bad = []
        tables.change(epoch, inserted, gone)
        if epoch == 3:
            for name in late:  # they begin with history that has failing rows
                mill.sql(f"DROP VIEW {name}")
                mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        list(mill.drain())
        _check(mill, session, tables, seen)
    never = [name for name, outcomes in seen.items() if False not in outcomes]
    assert not never, f"always in error: {never}"
    assert sum(True in outcomes for outcomes in seen.values()) > len(VIEWS) // 2, seen
    for name in (n for n, state, _, _ in mill.status() if state == "fresh"):
        total: dict[tuple[object, ...], int] = {}
        for _, changes in mill.subscribe(name, timeout=0):
            for row, weight in weighted_rows(changes).items():
                total[row] = total.get(row, 0) + weight
        rows = mill.read(name)
        assert_same_rows(as_table(total, rows.schema), rows, f"changes of {name}")
    mill.checkpoint()
    assert Snapshot.open(tmp_path / "root").status() == mill.status()
