"""Golden roots: small roots that a version of Tidemill wrote, one for each version of the format on disk.

``python tests/runtime/durability/golden_root.py`` writes that of the present version to ``golden/`` beside it. It is
run before the version goes up, and what it has written is never changed afterwards (``docs/on-disk-format.md``). So
tables, views and data below must not change either, as long as a root that has them is to be read.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tidemill.config import Settings
from tidemill.mill import Mill

GOLDEN = Path(__file__).parent / "golden"
DATA = Path("/tmp/tidemill-golden-data")
"""Roots name their files, so that these always lie here."""
BATCHES = 3
"""How many batches of files a golden root has read."""

TABLES = {
    "t": "CREATE TABLE t (k INT, g STRING, i BIGINT, d DOUBLE) USING csv "
    f"OPTIONS (path '{DATA}/t', header true, opColumn 'op', opInsert 'insert', opDelete 'delete')",
    "p": f"CREATE TABLE p (k INT, amount DECIMAL(12,2), day DATE) USING parquet OPTIONS (path '{DATA}/p')",
    "j": "CREATE TABLE j (k INT, who STRUCT<name: STRING, age: INT>, tags ARRAY<STRING>, at TIMESTAMP) USING json "
    f"OPTIONS (path '{DATA}/j')",
    "u": f"CREATE TABLE u (id INT PRIMARY KEY, name STRING, w DOUBLE) USING json OPTIONS (path '{DATA}/u')",
    "e": f"CREATE TABLE e (a INT, b INT) USING csv OPTIONS (path '{DATA}/e')",
    "s": f"CREATE STATIC TABLE s (k INT, label STRING) USING csv OPTIONS (path '{DATA}/s')",
}

VIEWS = {
    "rows": "SELECT k, g, i, d FROM t WHERE i > 3",
    "agg": "SELECT g, count(*) AS c, sum(i) AS s, avg(i) AS a, min(d) AS lo, max(d) AS hi, "
    "percentile(i, 0.5D) AS m FROM t GROUP BY g",
    "same_groups": "SELECT x.g, x.s + 1 AS more FROM (SELECT g, sum(i) AS s, max(k) AS hi FROM t GROUP BY g) x "
    "WHERE x.hi > 2",
    "same_again": "SELECT max(x.s) AS most FROM (SELECT g, sum(i) AS s, max(k) AS hi FROM t GROUP BY g) x",
    "total": "SELECT count(*) AS c, sum(i) AS s, min(d) AS lo FROM t",
    "over": "SELECT c, count(*) AS n, max(s) AS s FROM agg GROUP BY c",
    "over_over": "SELECT sum(n) AS n FROM over",
    "different": "SELECT DISTINCT g, k FROM t",
    "joined": "SELECT t.k, t.i, u.name FROM t JOIN u ON t.k = u.id",
    "left_joined": "SELECT t.k, t.g, p.amount FROM t LEFT JOIN p ON t.k = p.k AND t.i > 5",
    "pairs": "SELECT t.g, sum(t.i * p.amount) AS s, count(*) AS c FROM t JOIN p ON t.k = p.k GROUP BY t.g",
    "labelled": "SELECT s.label, count(*) AS c FROM t JOIN s ON t.k = s.k GROUP BY s.label",
    "some": "SELECT k, i FROM t WHERE k IN (SELECT k FROM p WHERE amount > 20)",
    "running": "SELECT g, k, i, sum(i) OVER (PARTITION BY g ORDER BY i, k) AS s, "
    "rank() OVER (PARTITION BY g ORDER BY i DESC, k) AS r FROM t",
    "top": "SELECT k, i FROM t ORDER BY i DESC, k LIMIT 5",
    "money": "SELECT k, sum(amount) AS s, avg(amount) AS a, max(day) AS last FROM p GROUP BY k",
    "nested": "SELECT k, who, tags, at FROM j WHERE who.age > 20",
    "tags": "SELECT tag, count(*) AS c, count(DISTINCT k) AS d FROM (SELECT k, explode(tags) AS tag FROM j) "
    "GROUP BY tag",
    "people": "SELECT who.name AS name, count(*) AS c FROM j GROUP BY who.name",
    "reached": "WITH RECURSIVE r(id, n) MAX RECURSION LEVEL 9 AS (SELECT k, 1 FROM s WHERE k = 0 UNION ALL "
    "SELECT e.b, r.n + 1 FROM r JOIN e ON e.a = r.id) SELECT id, n FROM r",
}
YOUNG = {
    "young": "SELECT k, count(*) AS c, max(i) AS hi FROM t GROUP BY k",
    "young_over": "SELECT c, max(hi) AS hi FROM agg GROUP BY c",
    "young_joined": "SELECT u.name, sum(t.i) AS s FROM t JOIN u ON t.k = u.id GROUP BY u.name",
}
REPLACED = {"rows": "SELECT k, g, i, d FROM t WHERE i > 4"}


def views() -> dict[str, str]:
    """The queries of a golden root's views, by name."""
    return {**VIEWS, **YOUNG, **REPLACED}


def write_batch(n: int) -> None:
    """The files of one batch; from the second on, rows of the batch before are deleted."""
    for table in TABLES:
        (DATA / table).mkdir(parents=True, exist_ok=True)
    lines = ["k,g,i,d,op", *(f"{_t(n, i)},insert" for i in range(40))]
    if n:
        lines += [f"{_t(n - 1, i)},delete" for i in range(0, 40, 3)]
    (DATA / "t" / f"{n}.csv").write_text("\n".join(lines) + "\n")
    numbers = [(i * 7 + n) % 11 for i in range(20)]
    amounts = pa.array([None if i % 9 == 8 else f"{i * 3 + n}.{i % 10}5" for i in range(20)]).cast(pa.decimal128(12, 2))
    days = pa.array([18000 + i * n for i in range(20)], pa.int32()).cast(pa.date32())
    pq.write_table(
        pa.table({"k": pa.array(numbers, pa.int32()), "amount": amounts, "day": days}), DATA / f"p/{n}.parquet"
    )
    _write_json(DATA / "j" / f"{n}.json", [_j(n, i) for i in range(15)])
    _write_json(DATA / "u" / f"{n}.json", [{"id": i, "name": f"u{i % 4}-{n}", "w": i / 4} for i in range(n, n + 6)])
    (DATA / "e" / f"{n}.csv").write_text("".join(f"{a},{a + 1 + n}\n" for a in range(4)))
    if n == 0:
        (DATA / "s" / "0.csv").write_text("".join(f"{k},{'abc'[k % 3]}\n" for k in range(8)))


def _t(n: int, i: int) -> str:
    return f"{(i * 3 + n) % 10},{'' if i % 13 == 12 else 'gh'[i % 2] + str(n % 2)},{(i * 5 + n) % 17},{i / 8 - n}"


def _j(n: int, i: int) -> dict[str, Any]:
    who = None if i == 7 else {"name": f"n{i % 5}", "age": 18 + (i + n) % 7}
    return {
        "k": i,
        "who": who,
        "tags": ["x", f"y{i % 3}", f"z{n}"][: i % 4],
        "at": f"2026-03-{n + 1:02d}T0{i % 8}:00:00Z",
    }


def _write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def expected(spark: SparkSession) -> dict[str, DataFrame]:
    """What Spark's batch says of every view over all files there are; read by Spark's own readers."""
    frames = {
        "t": spark.read.csv(f"{DATA}/t", header=True, schema="k INT, g STRING, i BIGINT, d DOUBLE, op STRING"),
        "p": spark.read.parquet(f"{DATA}/p"),
        "j": spark.read.json(
            f"{DATA}/j", schema="k INT, who STRUCT<name: STRING, age: INT>, tags ARRAY<STRING>, at TIMESTAMP"
        ),
        "e": spark.read.csv(f"{DATA}/e", schema="a INT, b INT"),
        "s": spark.read.csv(f"{DATA}/s", schema="k INT, label STRING"),
    }
    put = frames["t"].where("op = 'insert'").drop("op")
    frames["t"] = put.exceptAll(frames["t"].where("op = 'delete'").drop("op"))
    messages = spark.read.json(f"{DATA}/u", schema="id INT, name STRING, w DOUBLE").selectExpr(
        "*", "_metadata.file_name f"
    )
    newest = messages.selectExpr("*", "row_number() OVER (PARTITION BY id ORDER BY f DESC) AS n")
    frames["u"] = newest.where("n = 1").drop("n", "f")
    for name, frame in frames.items():
        # each file is read once, not for each view, and no plan of a view has an exchange
        spark.createDataFrame(frame.toArrow()).coalesce(1).createOrReplaceTempView(name)
    found: dict[str, DataFrame] = {}
    for name, query in views().items():
        found[name] = spark.sql(query)
        found[name].createOrReplaceTempView(name)
    return found


@contextmanager
def alone() -> Iterator[None]:
    """The only process of this host that uses the directory of the data, which is removed at the end."""
    with Path(tempfile.gettempdir(), "tidemill-golden.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            shutil.rmtree(DATA, ignore_errors=True)
            yield
        finally:
            shutil.rmtree(DATA, ignore_errors=True)


def unpack(archive: Path, directory: Path) -> Path:
    """Put the data of an archive where it was; the root lies below ``directory``."""
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")
    shutil.copytree(directory / "data", DATA)
    return directory / "root"


def write(archive: Path) -> None:
    """Make the root of this version and pack it."""
    with alone(), tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "root"
        write_batch(0)
        with Mill(root, settings=Settings(master="local[2]", partitions=2, listing_seconds=0.0)) as mill:
            for statement in TABLES.values():
                mill.sql(statement)
            for name, query in VIEWS.items():
                mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            reports = list(mill.drain())
            for n in range(1, BATCHES):
                write_batch(n)
                reports += mill.drain()
                if n == 1:
                    for name, query in YOUNG.items():
                        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
                    for name, query in REPLACED.items():
                        mill.sql(f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {query}")
                    list(mill.drain())
            assert not any(r.rows_malformed for r in reports), "every row of the files counts"
        archive.parent.mkdir(exist_ok=True)
        with tarfile.open(archive, "w:xz") as packed:
            packed.add(root, "root")
            packed.add(DATA, "data")


if __name__ == "__main__":
    from tidemill.state.versions.manifest import FORMAT_VERSION

    write(GOLDEN / f"{FORMAT_VERSION}.tar.xz")
