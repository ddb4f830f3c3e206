"""Spark streams into tables of a mill: views equal Spark's answer over all rows, each batch once over kills."""

from __future__ import annotations

import json
import os
import random
import runpy
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import boto3
import ingest_mill
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from mill_factory import MillFactory
from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.ingest import batches as ingest
from tidemill.runtime.ingest.cleaning import Removal
from tidemill.runtime.ingest.log import Given, IngestLog
from tidemill.state.versions.objects import Objects

KILLS = int(os.environ.get("TIDEMILL_CHAOS", "1"))
TABLE = """CREATE TABLE t (id BIGINT, k INT, s STRING, at TIMESTAMP, tags ARRAY<STRING>)
  USING %s OPTIONS (path 'ingest://')"""
VIEWS = """
CREATE MATERIALIZED VIEW rows AS SELECT * FROM t;
CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(id) AS total, MAX(s) AS most FROM t GROUP BY k;
"""


def frame(spark: SparkSession, first: int, count: int) -> DataFrame:
    """Rows of all types; names in another case and order than the table's."""
    return spark.range(first, first + count, numPartitions=2).selectExpr(
        "transform(sequence(1, CAST(id % 3 AS INT) + 1), i -> concat('tag', i)) AS tags",
        "CAST(id % 7 AS INT) AS K",
        "IF(id % 5 = 0, NULL, concat('s', id)) AS s",
        "timestamp_seconds(id) AS at",
        "id",
    )


def rows(mill: Mill, view: str) -> Counter[str]:
    return Counter(repr(tuple(r.values())) for r in mill.read(view).to_pylist())


def drain(mill: Mill) -> None:
    for _ in mill.drain():
        pass


def files_below(root: Path, part: str) -> list[Path]:
    return sorted(p for p in (root / "ingest").rglob("*") if p.is_file() and f"/{part}/" in str(p))


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_a_stream_of_files_with_restarts(
    spark: SparkSession, mill_factory: MillFactory, tmp_path: Path, format_: str
) -> None:
    """Query and mill are stopped and started by turns; a view that comes later has all rows, too."""
    data = tmp_path / "data"
    data.mkdir()
    stream = spark.readStream.schema(frame(spark, 0, 1).schema).option("maxFilesPerTrigger", 1).parquet(str(data))

    def run(mill: Mill) -> None:
        sink = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.foreachBatch(mill.ingest("t")).trigger(availableNow=True).start()
        query.awaitTermination()

    for number in range(3):
        frame(spark, number * 1000, 50 + number).write.mode("append").parquet(str(data))
        mill = mill_factory()
        mill.script(TABLE % format_ + ";" + VIEWS)
        run(mill)
        if number:
            drain(mill)
        if number == 1:
            mill.sql("CREATE MATERIALIZED VIEW later AS SELECT id, tags FROM t WHERE k < 3")
        mill.close()
    mill = mill_factory()
    drain(mill)
    spark.read.schema(frame(spark, 0, 1).schema).parquet(str(data)).createOrReplaceTempView("t_all")
    for view, query in {
        "rows": "SELECT id, k, s, at, tags FROM t_all",
        "sums": "SELECT k, COUNT(*), SUM(id), MAX(s) FROM t_all GROUP BY k",
        "later": "SELECT id, tags FROM t_all WHERE k < 3",
    }.items():
        names = mill.read(view).column_names
        expected = spark.sql(query).toDF(*names).toArrow().to_pylist()
        assert rows(mill, view) == Counter(repr(tuple(r.values())) for r in expected)
    assert sum(rows(mill, "rows").values()) == 153


def test_a_batch_counts_once(
    spark: SparkSession, mill_factory: MillFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replays add nothing: to the same mill, to the next one, and after the files have been deleted."""
    monkeypatch.setattr(ingest, "_TOGETHER", 3)
    mill = mill_factory(checkpoint_seconds=0.0)
    mill.script(TABLE.replace("'ingest://'", "'ingest://', retainBytes '0'") % "parquet" + ";" + VIEWS)
    add = mill.ingest("T", query="load")
    assert add(frame(spark, 0, 10), 0) == 10
    assert add(frame(spark, 100, 10), 0) == 0
    assert mill.ingest("t", query="another")(frame(spark, 200, 5), 0) == 5
    assert add(frame(spark, 300, 5), 7) == 5
    drain(mill)
    assert sum(rows(mill, "rows").values()) == 20
    for number in range(20, 26):
        add(frame(spark, number * 100, 1), number)
        drain(mill)
        mill.checkpoint()
    add(frame(spark, 5000, 1), 30)
    drain(mill)
    mill.close()
    assert len(files_below(tmp_path / "root", "batches")) < 9
    assert len(files_below(tmp_path / "root", "given")) == 1
    data = next((tmp_path / "root" / "ingest").glob("*/data"))
    assert len(list(data.iterdir())) == len(files_below(tmp_path / "root", "batches")), "no directory is left"
    mill = mill_factory()
    add = mill.ingest("t", query="load")
    assert [add(frame(spark, 9000, 3), number) for number in (0, 7, 20, 25, 30)] == [0] * 5
    assert add(frame(spark, 400, 1), 6) == 1
    drain(mill)
    assert sum(rows(mill, "rows").values()) == 28
    mill.sql("CREATE MATERIALIZED VIEW late AS SELECT id FROM t")
    assert any("TM5027" in w for w in mill.warnings())
    drain(mill)
    assert 0 < sum(rows(mill, "late").values()) < 28


def test_a_kill_before_and_after_the_commit(
    spark: SparkSession, mill_factory: MillFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not committed is not there, and its files go; what is committed counts, and was it twice."""
    mill = mill_factory()
    mill.script(TABLE % "arrow" + ";" + VIEWS)
    put, commit = Objects.put, IngestLog.commit
    calls = 0

    def killed_before(self: IngestLog, *args: Any) -> bool:
        raise KeyboardInterrupt

    def killed_after(self: IngestLog, *args: Any) -> bool:
        commit(self, *args)
        raise KeyboardInterrupt

    def unconfirmed(self: Objects, name: str, data: bytes | Path) -> None:
        nonlocal calls
        put(self, name, data)
        if "/batches/" in name:
            calls += 1
            raise OSError("the connection broke")

    expected = 0
    for number, (kind, change) in enumerate(
        (("commit", killed_before), ("commit", killed_after), ("put", unconfirmed))
    ):
        with monkeypatch.context() as patch:
            patch.setattr(IngestLog if kind == "commit" else Objects, kind, change)
            with pytest.raises((KeyboardInterrupt, TidemillError)):
                mill.ingest("t", query="q")(frame(spark, number * 100, 10), number)
        drain(mill)
        mill.close()
        mill = mill_factory()
        mill.ingest("t", query="q")(frame(spark, number * 100, 10), number)
        expected += 10
        drain(mill)
        assert sum(rows(mill, "rows").values()) == expected
    assert calls == 1


@pytest.mark.slow
@pytest.mark.timeout(200 + 30 * KILLS)
def test_kills_at_any_moment(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    """Query and mill live in one process, which is killed; no row is lost, none counts twice."""
    chance, root, checkpoint = random.Random(seed), tmp_path / "root", tmp_path / "checkpoint"
    script = Path(__file__).with_name("ingest_mill.py")
    for _ in range(KILLS):
        running = subprocess.Popen([sys.executable, str(script), str(root), str(checkpoint)], stdout=subprocess.PIPE)
        assert running.stdout is not None
        for _ in range(chance.randrange(2, 6)):
            assert running.stdout.readline(), "it goes on after a kill"
        time.sleep(chance.random() / 2)
        running.send_signal(signal.SIGKILL)
        running.wait()
        running.stdout.close()
    mill = mill_factory()
    drain(mill)
    values = sorted(r["value"] for r in mill.read("v").to_pylist())
    assert values == list(range(len(values)))
    assert len(values) > 0
    assert len(values) % ingest_mill.ROWS == 0


def test_what_cannot_be_deleted_stays_one_batch(
    spark: SparkSession, mill_factory: MillFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a full disk nor files that cannot be deleted make rows come twice; what a task left goes after a day."""
    monkeypatch.setattr(ingest, "_TOGETHER", 1)
    mill = mill_factory(checkpoint_seconds=0.0)
    mill.sql("CREATE TABLE t (id BIGINT) USING arrow OPTIONS (path 'ingest://', retainBytes '0')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    put, remove = Objects.put, Objects.remove

    def full(self: Objects, name: str, data: bytes | Path) -> None:
        if "/given/" in name:
            raise OSError(28, "No space left on device")
        put(self, name, data)

    def refused(self: Objects, names: Iterable[str]) -> None:
        names = list(names)
        if any("/data/" in name for name in names):
            raise PermissionError("data cannot be deleted")
        remove(self, names)

    number = 0
    for name, change in (("put", full), ("remove", refused)):
        with monkeypatch.context() as patch:
            patch.setattr(Objects, name, change)
            for _ in range(4):
                mill.ingest("t", query="q")(spark.range(0, 10, numPartitions=2), number)
                drain(mill)
                mill.checkpoint()
                number += 1
            with pytest.raises(TidemillError):  # what was told to the intake is told again
                mill.sql("CREATE MATERIALIZED VIEW w AS SELECT nothing FROM t")
            drain(mill)
            assert mill.count("v") == 10 * number
    mill.close()
    data = next((tmp_path / "root" / "ingest").glob("*/data"))
    (data / "attempt").mkdir()
    (data / "attempt" / ".half.staged").touch()
    os.utime(data / "attempt", (0, 0))
    mill = mill_factory()
    for _ in range(3):
        mill.ingest("t", query="q")(spark.range(0, 10, numPartitions=2), number)
        drain(mill)
        mill.checkpoint()
        number += 1
    assert mill.count("v") == 10 * number
    mill.close()
    assert len(list(data.iterdir())) < 4


@pytest.mark.slow
def test_kills_while_batches_are_deleted(
    spark: SparkSession, mill_factory: MillFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epochs do not wait for it. A root as it is between any two steps has every row once, and no garbage when opened.

    What a killed mill leaves is a copy of its root, taken by the thread that deletes.
    """
    monkeypatch.setattr(ingest, "_TOGETHER", 3)
    put, remove = Objects.put, Objects.remove
    moments: list[str] = []
    quiet = threading.Event()

    def moment(name: str) -> None:
        if threading.current_thread().name == "forget" and name not in moments:
            assert quiet.wait(60), "an epoch waits for what is deleted"
            shutil.copytree(tmp_path / "root", tmp_path / name)
            moments.append(name)

    def watched_put(self: Objects, name: str, data: bytes | Path) -> None:
        if "/given/" in name:
            moment("before it is noted")
        put(self, name, data)
        if "/given/" in name:
            moment("noted")

    def watched_remove(self: Objects, names: Iterable[str]) -> None:
        for name in names:
            if "/batches/" in name:
                moment("files deleted")
            remove(self, [name])
            moment("one deleted" if "/data/" in name else "one of the names deleted")

    mill = mill_factory(checkpoint_seconds=1e9)
    mill.sql("CREATE TABLE t (id BIGINT) USING arrow OPTIONS (path 'ingest://', retainBytes '0')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    held = mill._coordinator.arrivals.ingestion.table("t")
    assert held is not None
    with monkeypatch.context() as patch:
        patch.setattr(Objects, "put", watched_put)
        patch.setattr(Objects, "remove", watched_remove)
        for number in range(6):
            quiet.clear()
            mill.ingest("t", query="q")(spark.range(number * 10, number * 10 + 10, numPartitions=2), number)
            drain(mill)
            mill.checkpoint()
            quiet.set()
            held.finish()
        mill.sql("CREATE MATERIALIZED VIEW late AS SELECT id FROM t")
        drain(mill)
        assert mill.count("v") == 60
        first = min(r["id"] for r in mill.read("late").to_pylist())
        assert first > 0
        assert {r["id"] for r in mill.read("late").to_pylist()} == set(range(first, 60))
        mill.close()
    assert moments == ["before it is noted", "noted", "one deleted", "files deleted", "one of the names deleted"]
    for name in moments:
        opened = mill_factory(name)
        before = opened.count("v")
        assert before >= 30
        add = opened.ingest("t", query="q")
        assert sum(add(spark.range(n * 10, n * 10 + 10, numPartitions=2), n) for n in range(6)) == 60 - before
        drain(opened)
        assert sorted(r["id"] for r in opened.read("v").to_pylist()) == list(range(60))
        opened.close()
        notes = [json.loads(p.read_text()) for p in files_below(tmp_path / name, "batches")]
        kept = {str(p.relative_to(tmp_path / name)) for p in files_below(tmp_path / name, "data")}
        assert kept == {file for note in notes for file in note["files"]}, "garbage"
        if name != "before it is noted":
            assert len(notes) <= 6 - 3


@pytest.mark.parametrize("fails", [False, True])
def test_a_view_is_created_while_batches_are_deleted(
    spark: SparkSession, mill_factory: MillFactory, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """It waits until it is known whether they are gone, and has all of what is left, now and after a restart."""
    monkeypatch.setattr(ingest, "_TOGETHER", 3)
    put, is_noted, asked = Objects.put, Removal.is_noted, threading.Event()

    def late_put(self: Objects, name: str, data: bytes | Path) -> None:
        if "/given/" in name:
            assert asked.wait(60)
            if fails:
                raise OSError(28, "No space left on device")
        put(self, name, data)

    def asking(self: Removal) -> bool:
        asked.set()
        return is_noted(self)

    mill = mill_factory(checkpoint_seconds=1e9)
    mill.sql("CREATE TABLE t (id BIGINT) USING arrow OPTIONS (path 'ingest://', retainBytes '0')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    with monkeypatch.context() as patch:
        patch.setattr(Objects, "put", late_put)
        patch.setattr(Removal, "is_noted", asking)
        for number in range(4):
            mill.ingest("t", query="q")(spark.range(number * 10, number * 10 + 10, numPartitions=1), number)
            drain(mill)
            mill.checkpoint()
        assert not asked.is_set(), "no epoch waits"
        mill.sql("CREATE MATERIALIZED VIEW late AS SELECT id FROM t")
        assert asked.is_set()
        assert any("TM5027" in w for w in mill.warnings()) != fails
        drain(mill)
    first = 0 if fails else 30
    assert sorted(r["id"] for r in mill.read("late").to_pylist()) == list(range(first, 40))
    mill.close()
    mill = mill_factory()
    drain(mill)
    assert (mill.count("v"), mill.count("late")) == (40, 40 - first)


def test_two_queries_while_the_mill_runs(spark: SparkSession, mill_factory: MillFactory, tmp_path: Path) -> None:
    """Rate and file streams into one table, with epochs beside them."""
    mill = mill_factory()
    mill.sql("CREATE TABLE t (who STRING, value BIGINT) USING parquet OPTIONS (path 'ingest://')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT who, COUNT(*) AS n, SUM(value) AS s FROM t GROUP BY who")
    mill.start(0.02)

    def start(name: str) -> StreamingQuery:
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 40).option("numPartitions", 2).load()
        sink = rate.selectExpr(f"'{name}' AS who", "value").writeStream
        sink = sink.option("checkpointLocation", str(tmp_path / name)).foreachBatch(mill.ingest("t"))
        return sink.start()

    queries = [start("a"), start("b")]
    deadline = time.monotonic() + 90
    while any(len(q.recentProgress) < 4 for q in queries) and time.monotonic() < deadline:
        assert [q.exception() for q in queries] == [None, None]
        time.sleep(0.05)
    for query in queries:
        query.stop()
    mill.stop()
    drain(mill)
    found = {r["who"]: (r["n"], r["s"]) for r in mill.read("v").to_pylist()}
    assert set(found) == {"a", "b"}
    for n, s in found.values():
        assert n >= 120 and n % 40 == 0 and s == n * (n - 1) // 2, "whole batches, each once"


def test_columns_that_do_not_fit(spark: SparkSession, mill_factory: MillFactory, tmp_path: Path) -> None:
    mill = mill_factory()
    mill.sql("CREATE TABLE t (id BIGINT, s STRING) USING parquet OPTIONS (path 'ingest://')")
    mill.sql(f"CREATE TABLE files (id BIGINT) USING csv OPTIONS (path '{tmp_path}')")
    add = mill.ingest("t", query="q")
    base = spark.range(3)
    for given, what in (
        (base, "no column s"),
        (base.selectExpr("id", "'x' AS s", "1 AS more"), "more"),
        (base.selectExpr("CAST(id AS INT) AS id", "'x' AS s"), "id int, declared bigint"),
        (base.selectExpr("id", "'x' AS s", "'y' AS S"), "several columns s"),
    ):
        with pytest.raises(TidemillError, match=rf"TM5068(.|\n)*{what}"):
            add(given, 0)
    with pytest.raises(TidemillError, match="TM5069"):
        mill.ingest("t")(base, 0)
    with pytest.raises(TidemillError, match="TM5064"):
        mill.ingest("files")
    with pytest.raises(TidemillError, match="TM2012"):
        mill.ingest("nothing")
    assert add(base.selectExpr("id AS `ID`", "'x' AS s"), 0) == 3
    mill.close()
    with pytest.raises(TidemillError, match="TM7012"):
        add(base, 1)


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("(a INT) USING native OPTIONS (path 'ingest://')", "TM5064"),
        ("USING parquet OPTIONS (path 'ingest://')", "TM5064"),
        ("(a INT) USING parquet OPTIONS (path 'ingest://there')", "TM5064"),
        ("(a INT) USING parquet OPTIONS (path 'ingest://', static 'true')", "TM5064"),
        ("(a INT) USING parquet OPTIONS (path 'ingest://', recursiveFileLookup 'true')", "TM5064"),
        ("(a INT) USING parquet OPTIONS (path 'ingest://', retainBytes 'some')", "TM4003"),
        ("(a INT) USING parquet OPTIONS (path 'ingest://', maxSpoolBytes '-1')", "TM4003"),
        ("(a INT) USING parquet OPTIONS (path 'ingest://', framing 'lines')", "TM4005"),
    ],
)
def test_tables_that_cannot_be(mill_factory: MillFactory, statement: str, number: str) -> None:
    with pytest.raises(TidemillError, match=number):
        mill_factory().sql(f"CREATE TABLE t {statement}")


def test_too_much_waits(spark: SparkSession, mill_factory: MillFactory) -> None:
    """A query waits for the mill, and not for ever."""
    mill = mill_factory()
    mill.sql("CREATE TABLE t (id BIGINT) USING arrow OPTIONS (path 'ingest://', maxSpoolBytes '1k')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    assert mill.ingest("t", query="q")(spark.range(1000), 0) == 1000
    with pytest.raises(TidemillError, match="TM5070"):
        mill.ingest("t", query="q", timeout=0.1)(spark.range(1000), 1)
    done: list[int] = []
    waiting = threading.Thread(target=lambda: done.append(mill.ingest("t", query="q")(spark.range(1000), 1)))
    waiting.start()
    drain(mill)
    waiting.join(60)
    assert done == [1000]


def test_upserts_in_the_order_of_batches(spark: SparkSession, mill_factory: MillFactory) -> None:
    mill = mill_factory(epoch_bytes=1000)
    mill.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, v INT) USING parquet OPTIONS (path 'ingest://', opColumn 'op', "
        "opDelete 'D', opInsert 'I')"
    )
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
    add = mill.ingest("t", query="changes")
    for number in range(12):
        add(spark.range(0, 6, numPartitions=2).selectExpr("id", f"{number} AS v", "'I' AS op"), number)
    add(spark.range(0, 2, numPartitions=2).selectExpr("id", "0 AS v", "'D' AS op"), 12)
    drain(mill)
    assert rows(mill, "v") == Counter(repr((i, 11)) for i in range(2, 6))


def test_drop_and_create_again(spark: SparkSession, mill_factory: MillFactory, tmp_path: Path) -> None:
    mill = mill_factory()
    for count in (3, 4):
        mill.sql("CREATE TABLE t (id BIGINT) USING parquet OPTIONS (path 'ingest://')")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
        held = mill._coordinator.arrivals.ingestion.table("t")
        assert held is not None
        assert mill.ingest("t", query="q")(spark.range(count), 0) == count
        drain(mill)
        assert sum(rows(mill, "v").values()) == count
        mill.sql("DROP VIEW v")
        mill.sql("DROP TABLE t")
        assert files_below(tmp_path / "root", "data") == []
        with pytest.raises(TidemillError, match="TM5067"):
            held.log.commit("q", 1, [])


def test_a_root_that_has_been_moved(spark: SparkSession, mill_factory: MillFactory, tmp_path: Path) -> None:
    """Positions in files count wherever these are; a file that is missing is told of."""
    mill = mill_factory(epoch_bytes=2000, split_bytes=1000)
    mill.sql("CREATE TABLE t (id BIGINT) USING parquet OPTIONS (path 'ingest://')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    for number in range(4):
        mill.ingest("t", query="q")(spark.range(number * 1000, number * 1000 + 500, numPartitions=1), number)
    mill.advance()
    assert 0 < sum(rows(mill, "v").values()) < 2000
    mill.close()
    (tmp_path / "root").rename(tmp_path / "moved")
    mill = mill_factory("moved")
    drain(mill)
    assert sum(rows(mill, "v").values()) == 2000
    mill.close()
    files_below(tmp_path / "moved", "data")[0].unlink()
    with pytest.raises(TidemillError, match="TM5065"):
        mill_factory("moved")


def test_what_was_given_as_ranges() -> None:
    given, plain = Given(), set()
    for batch in (5, 3, 4, 9, 1, 2, 3, 0):
        given.add("q", batch)
        plain.add(batch)
        assert {b for b in range(12) if ("q", b) in given} == plain
    assert given.to_json() == {"q": [[0, 5], [9, 9]]}
    assert ("p", 3) not in Given(json.loads(json.dumps(given.to_json())))


@pytest.mark.slow
def test_a_root_in_s3(spark: SparkSession, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setitem(spark.sparkContext.environment, name, os.environ[name])
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="ingested")
    settings = Settings(master="local[2]", partitions=2, buffer_directory=str(tmp_path / "buffer"))
    options = "path 'ingest://', allowHttp 'true', retainBytes '0'"
    for run in range(2):
        with Mill("s3://ingested/root", spark=spark, settings=settings) as mill:
            mill.script(TABLE.replace("path 'ingest://'", options) % "parquet" + ";" + VIEWS)
            for number in range(run, run + 2):
                mill.ingest("t", query="q")(frame(spark, number * 100, 20), number)
            drain(mill)
            assert sum(rows(mill, "rows").values()) == (2 + run) * 20


@pytest.mark.slow
def test_the_example(spark: SparkSession, mill_factory: MillFactory, tmp_path: Path) -> None:
    example = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "spark_stream.py"))
    given, found = example["follow"](spark, mill_factory(), tmp_path / "work", batches=2)
    assert found == given
