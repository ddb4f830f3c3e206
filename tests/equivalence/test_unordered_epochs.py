"""Epochs of so many rows that tasks leave them in any order: every view is Spark's answer, however it is read."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from oracle import as_table
from pyspark.sql import SparkSession

from mill_factory import MillFactory
from resident_mill import wait_for_tasks
from tidemill.mill import Mill
from tidemill.schema import WEIGHT
from tidemill.testing import assert_same_rows, plain_values

ROWS = 20_000
COLUMNS = "k INT, v BIGINT, d DOUBLE, s STRING"
VIEWS = {
    "plain": "SELECT k, v, s FROM t",
    "kept": "SELECT v, upper(s) AS u, d FROM t WHERE k % 9 > 0",
    "few": "SELECT k % 5 AS r FROM t",
    "groups": "SELECT k, count(*) AS c, sum(v) AS v, sum(d) AS d, min(s) AS low, max(d) AS high FROM t GROUP BY k",
    "counts": "SELECT k, s, count(*) AS c FROM t GROUP BY k, s",
    "kept_keys": "SELECT k FROM t WHERE v < 0",
    "both": "SELECT k, c FROM counts UNION ALL SELECT k, 1 FROM kept_keys",
}
"""Those that are not read by others are not looked up by any step."""
FEW_CHECKPOINTS = {"checkpoint_seconds": 3600.0}
"""They put small tables in order."""


class Trial:
    """A mill, files that arrive, and Spark over the same files."""

    def __init__(self, mill: Mill, data: Path, rng: random.Random) -> None:
        self.mill, self.data, self.rng = mill, data, rng
        self.files = 0
        data.mkdir(exist_ok=True)
        self.mill.sql(f"CREATE TABLE t ({COLUMNS}) USING csv OPTIONS (path '{data}', maxFilesPerTrigger 2)")

    def arrive(self, rows: int = ROWS) -> None:
        """Two files of half the rows each: one for a task."""
        for _ in range(2):
            lines = []
            for _ in range(rows // 2):
                k, v = self.rng.randrange(400_000), self.rng.randrange(-(10**6), 10**6)
                text = self.rng.choice(("", '""', "é" * self.rng.randrange(1, 30), f"s{k % 9}"))
                lines.append(f"{k},{v},{v / 8},{text}\n")
            self.files += 1
            (self.data / f"{self.files:04d}.csv").write_text("".join(lines), encoding="utf-8")

    def answers(self, names: Iterable[str]) -> Iterator[tuple[str, pa.Table]]:
        """Spark's batch."""
        session = self.mill.spark.newSession()
        session.conf.set("spark.sql.shuffle.partitions", "2")
        session.read.schema(COLUMNS).csv(str(self.data)).createOrReplaceTempView("t")
        for name, query in VIEWS.items():
            session.sql(query).createOrReplaceTempView(name)
            if name in names:
                yield name, session.table(name).toArrow()

    def unordered(self) -> dict[str, int]:
        """How many runs that readers see are in no order, by the view."""
        snapshot = self.mill.snapshot()
        found = {}
        for name in (name for name, *_ in self.mill.status() if name in VIEWS):
            runs = snapshot.runs(snapshot.plan(name))
            found[name] = sum(not snapshot.store.sections(r.file)[r.section].ordered for r in runs)
        return found

    def check(self, names: Iterable[str], in_tasks: Iterable[str] = ()) -> None:
        """Views, read here and by Spark's tasks, equal Spark's answers."""
        for name, expected in self.answers(names):
            assert_same_rows(self.mill.read(name), expected, name)
            if name in in_tasks:
                assert_same_rows(self.mill.table(name).toArrow(), expected, f"{name} in tasks")


def create(mill: Mill, names: Iterable[str]) -> None:
    for name in names:
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")


@pytest.mark.parametrize("mode", [pytest.param("job", marks=pytest.mark.slow), "resident"])
def test_views_and_their_changes_equal_spark(mode: str, mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    settings: dict[str, Any] = {"small_epoch_bytes": 1 << 20, "mode": "resident"} if mode == "resident" else {}
    rng = random.Random(f"{seed} {mode}")
    mill = mill_factory(**settings, **FEW_CHECKPOINTS)
    trial = Trial(mill, tmp_path / "in", rng)
    create(mill, VIEWS)
    if mode == "resident":
        wait_for_tasks(mill, 2)
    changes: dict[str, list[pa.Table]] = {"kept_keys": [], "groups": [], "few": []}
    for number in range(3):
        trial.arrive()
        report = mill.advance()
        assert report is not None
        assert not report.failed
        trial.check({0: ["groups"], 1: [], 2: VIEWS}[number], ["plain", "groups", "few"])
        for name, seen in changes.items():
            seen.append(mill.snapshot().changes(name, report.epoch))
    found = trial.unordered()
    assert all(found[name] for name in ("plain", "kept", "groups")), found
    assert not found["few"], "most of its rows are equal to others"
    assert not found["counts"], "a view reads it, so that its groups are looked up"
    for name, parts in changes.items():
        total: dict[tuple[object, ...], int] = {}
        for part in parts:
            columns = [plain_values(part.column(c)) for c in part.column_names if c != WEIGHT]
            for *row, weight in zip(*columns, part.column(WEIGHT).to_pylist(), strict=True):
                total[tuple(row)] = total.get(tuple(row), 0) + weight
        schema = mill.read(name).schema
        assert_same_rows(as_table(total, schema), mill.read(name), f"changes of {name}")


@pytest.mark.slow
def test_merges_and_older_epochs(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    """Also once the mill was opened again, which reads what checkpoints have written."""
    mill = mill_factory(compact_after=4, **FEW_CHECKPOINTS)
    trial = Trial(mill, tmp_path / "in", random.Random(seed))
    create(mill, ["groups", "few"])
    for _ in range(3):
        trial.arrive()
        assert mill.advance() is not None
    earlier = dict(trial.answers(["groups", "few"]))
    for _ in range(3):
        trial.arrive()
        assert mill.advance() is not None
    for _ in range(100):  # a merge is sealed with an epoch after it
        if trial.unordered()["groups"] < 6:
            break
        time.sleep(0.1)
        trial.arrive(10)
        assert mill.advance() is not None
    assert trial.unordered()["groups"] < 6, "there were six epochs of one such run at least"
    trial.check(["groups", "few"])
    mill.checkpoint()
    mill.close()
    trial.mill = mill_factory(compact_after=4, **FEW_CHECKPOINTS)
    trial.check(["groups", "few"])
    for name, answer in earlier.items():
        assert_same_rows(trial.mill.read(name, 3), answer, f"{name} as it was")


def test_a_view_that_reads_what_was_left_unordered(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    """Views created later read the state of others: by a snapshot, and from then on by their changes."""
    trial = Trial(mill_factory(**FEW_CHECKPOINTS), tmp_path / "in", random.Random(seed))
    create(trial.mill, ["plain", "groups"])
    trial.arrive()
    assert trial.mill.advance() is not None
    assert trial.unordered()["plain"]
    assert trial.unordered()["groups"]
    late = {
        "joined": "SELECT p.k, p.v, g.c FROM plain p JOIN groups g ON p.k = g.k WHERE g.c > 1",
        "ranked": "SELECT k, c, row_number() OVER (ORDER BY c DESC, k) AS n FROM groups QUALIFY n <= 20",
    }
    for name, query in late.items():
        trial.mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for rows in (0, ROWS, 100):
        if rows:
            trial.arrive(rows)
        trial.mill.advance()
        answers = dict(trial.answers(["plain", "groups"]))
        session = trial.mill.spark.newSession()
        for name in ("plain", "groups"):
            session.createDataFrame(answers[name]).createOrReplaceTempView(name)
        for name, query in late.items():
            assert_same_rows(trial.mill.read(name), session.sql(query).toArrow(), name)


def test_single_rows_and_ranges(mill_factory: MillFactory, tmp_path: Path, seed: int, spark: SparkSession) -> None:
    """SQL over views, and lookups by key, find the same rows as Spark."""
    rng = random.Random(seed)
    trial = Trial(mill_factory(**FEW_CHECKPOINTS), tmp_path / "in", rng)
    create(trial.mill, ["plain", "groups"])
    for _ in range(2):
        trial.arrive()
        assert trial.mill.advance() is not None
    answers = dict(trial.answers(["plain", "groups"]))
    for name, table in answers.items():
        spark.createDataFrame(table).createOrReplaceTempView(f"answer_{name}")
    keys = rng.sample(answers["plain"]["k"].to_pylist(), 8)
    for query in (
        f"SELECT * FROM {{}} WHERE k = {keys[0]}",
        f"SELECT * FROM {{}} WHERE k IN ({', '.join(map(str, keys))})",
        "SELECT * FROM {} WHERE k BETWEEN 1000 AND 3000",
        "SELECT count(*) AS n, sum(v) AS s FROM {}",
    ):
        for name in answers:
            found = trial.mill.query(query.format(name)).toArrow()
            assert_same_rows(found, spark.sql(query.format(f"answer_{name}")).toArrow(), query)
