"""Tables whose files are overwritten, and views over them: right after every epoch, with every version whole."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from oracle import Oracle
from pyspark.sql import SparkSession

from mill_factory import MillFactory
from tidemill.config import Settings
from tidemill.mill import Mill
from tidemill.runtime.epoch.report import EpochReport
from tidemill.testing import assert_same_rows, weighted_rows

SCHEMA = pa.schema([("f", pa.string()), ("k", pa.int32()), ("v", pa.float64()), ("s", pa.string())])

OLD = {
    "plain": "SELECT f, k, s FROM t WHERE v > 1",
    "texts": "SELECT k, CAST(v AS STRING) AS x FROM t",
    "grouped": "SELECT k, count(*) AS n, sum(v) AS total, max(s) AS last, min(v) AS least FROM t GROUP BY k",
    "everything": "SELECT count(*) AS n, count(DISTINCT s) AS d FROM t",
    "joined": "SELECT t.f, t.k, u.s FROM t JOIN u ON t.k = u.k",
    "missing": "SELECT f, k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "sums": "SELECT t.f, sum(t.v * d.v) AS x FROM t JOIN d ON t.k = d.k GROUP BY t.f",
    "counts": "SELECT n, count(*) AS groups FROM grouped GROUP BY n",
}
YOUNG = {
    "y_plain": OLD["plain"],
    "y_grouped": "SELECT s, count(*) AS n, max(k) AS x FROM t GROUP BY s",
    "y_joined": "SELECT a.f, b.f AS g FROM t a JOIN t b ON a.k = b.k AND a.f < b.f",
    "y_of_old": "SELECT joined.f, count(*) AS n FROM joined JOIN t ON joined.k = t.k GROUP BY joined.f",
    "y_ranked": "SELECT f, k, row_number() OVER (PARTITION BY f ORDER BY k, v, s) AS r FROM t",
}

Row = tuple[Any, ...]


class Files:
    """The files of one table, overwritten again and again."""

    def __init__(self, rng: random.Random, name: str, directory: Path) -> None:
        self.rng = rng
        self.name = name
        self.directory = directory
        self.versions: dict[str, list[Row]] = {}
        self._written = 0
        self._broadcast = name == "u" and rng.random() < 0.5
        directory.mkdir()

    def create_statement(self) -> str:
        options = f"path '{self.directory}', allowOverwrites 'true', broadcast '{self._broadcast}'"
        return f"CREATE TABLE {self.name} (f STRING, k INT, v DOUBLE, s STRING) USING csv OPTIONS ({options})"

    def write(self, file: str, rows: list[Row]) -> None:
        self.versions[file] = rows
        path = self.directory / file
        path.write_text("".join(map(_line, rows)))
        self._written += 1
        os.utime(path, ns=(self._written * 10**9, self._written * 10**9))

    def change(self) -> None:
        """Write some file: new or again, other rows, fewer, the same, none."""
        file = f"{self.name}{self.rng.randrange(5)}.csv"
        rows = list(self.versions.get(file, []))
        kind = self.rng.random()
        if kind < 0.1:
            rows = []
        elif kind < 0.3:
            rows = rows[: self.rng.randrange(len(rows) + 1)]
        elif kind > 0.4:
            self.rng.shuffle(rows)
            rows = [self._row(file) for _ in range(self.rng.randrange(12))] + rows[: self.rng.randrange(12)]
        self.write(file, rows)

    def _row(self, file: str) -> Row:
        key = self.rng.choice((*range(6), "bad", None))
        return (file, key, self.rng.choice((None, 1.5, -0.0, 0.0, 7.25)), self.rng.choice(("x", "y,\nz", 'q"q', None)))

    def table(self) -> pa.Table:
        """The rows of the files as they are now; a malformed field is NULL."""
        rows = [(f, None if k == "bad" else k, v, s) for found in self.versions.values() for f, k, v, s in found]
        columns = zip(*rows, strict=True) if rows else [()] * 4
        return pa.table([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)

    def malformed(self) -> list[str]:
        """In which file a field is malformed, once each time."""
        return sorted(row[0] for rows in self.versions.values() for row in rows if row[1] == "bad")


def _line(row: Row) -> str:
    def field(value: Any) -> str:
        text = "" if value is None else str(value)
        return '"' + text.replace('"', '""') + '"' if set(text) & set('",\n') else text

    return ",".join(map(field, row)) + "\n"


class OverwriteTrial:
    """A mill over two tables of overwritten files and one of an ordinary file."""

    def __init__(self, mill: Mill, rng: random.Random, directory: Path) -> None:
        self.mill = mill
        directory.mkdir()
        self.tables = [Files(rng, "t", directory / "t"), Files(rng, "u", directory / "u")]
        self.fixed = pa.table({"k": pa.array(range(5), pa.int32()), "v": [1.0, 2.0, 0.5, -1.0, 4.0]})
        lines = [f"{row['k']},{row['v']}\n" for row in self.fixed.to_pylist()]
        (directory / "d.csv").write_text("".join(lines))
        self.views: dict[str, str] = {}
        self.ever: set[str] = set()
        self._oracle = Oracle(mill.spark)
        for table in self.tables:
            mill.sql(table.create_statement())
        mill.sql(f"CREATE TABLE d (k INT, v DOUBLE) USING csv OPTIONS (path '{directory / 'd.csv'}')")

    def create(self, views: dict[str, str]) -> None:
        for name, query in views.items():
            self.mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        self.views |= views

    def advance(self) -> EpochReport | None:
        """One epoch; views must equal Spark's over the tables' rows, and no version takes another's place in parts."""
        before = {t.name: by_file(self.mill.read(t.name)) for t in self.tables}
        report = self.mill.advance()
        if report is None:
            return None
        assert not report.failed, report.failed
        for table in self.tables:
            found, now = by_file(self.mill.read(table.name)), by_file(table.table())
            for file in {*found, *now}:
                old, rows, new = (of.get(file, Counter()) for of in (before[table.name], found, now))
                assert rows in (old, new) or old <= rows <= new, (file, report.read)
        self.compare()
        return report

    def compare(self) -> None:
        """Every view that is not being filled is what Spark gives over the rows that the tables have."""
        rows = {t.name: self.mill.read(t.name) for t in self.tables} | {"d": self.fixed}
        expected = self._oracle.answers(rows, self.views)
        initialising = self.mill.snapshot().initialising
        for name in self.views.keys() - initialising:
            where = f"{name} at epoch {self.mill.epoch}: {self.views[name]}"
            assert_same_rows(self.mill.read(name), expected[name], where)
            if expected[name].num_rows:
                self.ever.add(name)

    def drain(self) -> int:
        """Epochs until nothing waits; then everything is as Spark sees the files."""
        count = 0
        while self.advance() is not None:
            count += 1
        for table in self.tables:
            assert_same_rows(self.mill.read(table.name), table.table(), table.name)
            errors = self.mill.read(f"{table.name}__errors").to_pylist()
            assert sorted(Path(e["file"]).name for e in errors) == table.malformed()
        return count


def by_file(rows: pa.Table) -> dict[str, Counter[Row]]:
    """How often each row is there, by its first column."""
    found: dict[str, Counter[Row]] = {}
    for row, weight in weighted_rows(rows).items():
        found.setdefault(str(row[0]), Counter())[row] = weight
    return found


def settings(rng: random.Random, epoch_bytes: int) -> dict[str, Any]:
    chosen = {
        "epoch_bytes": int(epoch_bytes * rng.uniform(0.7, 1.4)),
        "split_bytes": rng.choice((20, 100, 100_000)),
        "partitions": rng.randrange(1, 5),
        "small_epoch_bytes": rng.choice((0, 200)),
        "compact_after": rng.choice((3, 12)),
        "compact_bytes": rng.choice((2000, 32 << 20)),
    }
    print(chosen)
    return chosen


@pytest.mark.slow
def test_versions_of_files_and_views_that_come_later(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"overwrites {seed}")
    trial = OverwriteTrial(mill_factory(**settings(rng, 600)), rng, tmp_path / "in")
    late = dict(YOUNG)
    trial.create(OLD)
    epochs = 0
    for _ in range(14):
        for _ in range(rng.randrange(1, 4)):
            rng.choice(trial.tables).change()
        if late and rng.random() < 0.5:
            name = next(iter(late))
            trial.create({name: late.pop(name)})
        if rng.random() < 0.3:
            epochs += trial.advance() is not None
        else:
            epochs += trial.drain()
    trial.create(late)
    for table in trial.tables:
        for file in (f"{table.name}0.csv", f"{table.name}1.csv"):
            table.write(file, [(file, 1, 1.5, "x"), (file, 2, 7.25, "y,\nz"), (file, None, None, None)])
    trial.drain()
    assert epochs >= 10
    assert not trial.mill.snapshot().initialising
    assert trial.ever == OLD.keys() | YOUNG.keys()
    check_changes(trial.mill, "t")
    for name in reversed(trial.views):
        trial.mill.sql(f"DROP VIEW {name}")
    for name in ("t", "u", "d"):
        trial.mill.sql(f"DROP TABLE {name}")
    assert not trial.mill.snapshot().version.tables


def check_changes(mill: Mill, name: str) -> None:
    """The changes of all epochs sum up to the rows, none is there less than never, and none changes for nothing."""
    total: Counter[Row] = Counter()
    for _, delta in mill.subscribe(name, timeout=0):
        changes = weighted_rows(delta)
        assert len(changes) == delta.num_rows, "each row once, with its net weight"
        for row, weight in changes.items():
            total[row] += weight
            assert total[row] >= 0
    assert +total == Counter(weighted_rows(mill.read(name)))


def test_restarts_that_lose_epochs(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"overwrites lost {seed}")
    chosen = settings(rng, 400)

    def reopen() -> Mill:
        return Mill(
            tmp_path / "root", spark=spark, settings=Settings(**chosen, checkpoint_seconds=1e6, listing_seconds=0)
        )

    trial = OverwriteTrial(reopen(), rng, tmp_path / "in")
    trial.create({name: OLD[name] for name in ("texts", "grouped", "joined")})
    lost = 0
    for _ in range(12):
        for _ in range(rng.randrange(1, 3)):
            rng.choice(trial.tables).change()
        trial.advance()
        if rng.random() < 0.4:
            trial.mill.checkpoint()
        if rng.random() < 0.5:
            lost += 1
            trial.mill._coordinator._compactor.wait()
            trial.mill._coordinator.close(checkpoint=False)
            trial.mill = reopen()
    trial.create({"y_plain": YOUNG["y_plain"]})
    trial.drain()
    trial.mill.close()
    trial.mill = reopen()
    assert trial.advance() is None
    trial.compare()
    trial.mill.close()
    assert lost
