"""``spark.readStream.format("tidemill")``: every row once, whatever is killed, listed late or limited."""

from __future__ import annotations

import gzip
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructField, StructType

import tidemill as tm
from tidemill.errors import TidemillError
from tidemill.spark_source import data_stream, stream_history
from tidemill.spark_source.data_source import TidemillSource
from tidemill.spark_source.data_stream import TidemillStreamReader

COLUMNS = StructType([StructField("id", LongType()), StructField("s", StringType())])
CSV = {"format": "csv", "header": "true"}


def reader(path: Path | str, **options: Any) -> TidemillStreamReader:
    """As Spark makes one in the process beside the driver."""
    return TidemillSource({**CSV, "path": str(path), **{k: str(v) for k, v in options.items()}}).streamReader(COLUMNS)


def ids(stream: TidemillStreamReader, start: Any, end: Any) -> list[int]:
    """What a batch has."""
    return [i for part in stream.partitions(start, end) for b in stream.read(part) for i in b["id"].to_pylist()]


def write(path: Path, first: int, count: int) -> list[int]:
    """A file with quoted newlines; it has its name when it is whole."""
    rows = "".join(f'{i},"a\n""{i}"""\n' for i in range(first, first + count))
    hidden = path.with_name(f".{path.name}")
    hidden.write_text("id,s\n" + rows)
    hidden.replace(path)
    return list(range(first, first + count))


class Engine:
    """What Spark does with a source, but for the rows: it keeps offsets, and begins again after a kill anywhere.

    The sink takes a batch once, as Spark's do: by its number.
    """

    def __init__(self, make: Callable[[], TidemillStreamReader], chance: random.Random) -> None:
        self.make, self.chance = make, chance
        self.offsets: list[str] = []
        self.sink: dict[int, list[int]] = {}

    def run(self, limit: ReadLimit | None = None, now: bool = True, kills: float = 0.0) -> int:
        """Start the query, until there is nothing more or it is killed; the number of batches that it began."""
        stream, began = self.make(), 0
        if now:
            stream.prepareForTriggerAvailableNow()
        if self.offsets:  # the last batch may not have ended
            self.batch(stream, len(self.offsets) - 1)
        while True:
            start = json.loads(self.offsets[-1]) if self.offsets else stream.initialOffset()
            end = stream.latestOffset(start, limit or stream.getDefaultReadLimit())
            if json.dumps(end) == json.dumps(start):
                return began
            if self.chance.random() < kills:
                return began
            self.offsets.append(json.dumps(end))
            began += 1
            if self.chance.random() < kills:
                return began
            self.batch(stream, len(self.offsets) - 1)
            if self.chance.random() < kills:
                return began

    def batch(self, stream: TidemillStreamReader, number: int) -> None:
        start = json.loads(self.offsets[number - 1]) if number else stream.initialOffset()
        found = ids(stream, start, json.loads(self.offsets[number]))
        assert self.sink.setdefault(number, found) == found, "a batch that runs again has the same rows"

    @property
    def rows(self) -> list[int]:
        return sorted(i for batch in self.sink.values() for i in batch)


@pytest.fixture(params=["offsets", "directory", "s3"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Where the stream notes what it has read."""
    if request.param == "s3":
        request.getfixturevalue("endpoint")
        return {"stateLocation": f"s3://mill/{tmp_path.name}/{time.time_ns()}"}
    return {"stateLocation": str(tmp_path / "state")} if request.param == "directory" else {}


@pytest.mark.slow
def test_every_row_once_over_kills(
    state: dict[str, str], tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_history, "TOGETHER", 3)
    chance = random.Random(seed)
    data = tmp_path / "data"
    data.mkdir()
    engine = Engine(lambda: reader(data, maxPartitionBytes="100", **limits, **state), chance)
    limits: dict[str, Any] = {}
    written: list[int] = []
    for number in range(40):
        for k in range(chance.randrange(3)):
            written += write(data / f"{chance.random()}-{number}.csv", number * 1000 + k * 100, chance.randrange(1, 20))
        limits = chance.choice(
            [{}, {"maxFilesPerTrigger": 1}, {"maxBytesPerTrigger": 200}, {"maxRowsPerTrigger": 7},
             {"maxRowsPerTrigger": 5, "maxFilesPerTrigger": 2}]
        )  # fmt: skip
        engine.run(now=chance.random() < 0.5, kills=0.25)
        assert set(engine.rows) <= set(written)
    engine.run()
    assert engine.rows == sorted(written)
    if state:
        assert max(map(len, engine.offsets)) < 80
        log = json.loads(engine.offsets[-1])["log"]
        names = stream_history.StreamHistory(state["stateLocation"])._names(log)
        assert len(names) < len(engine.offsets), "batches of old are one object"


def test_limits(tmp_path: Path) -> None:
    for number in range(6):
        write(tmp_path / f"{number}.csv", number * 10, 10)
        os.utime(tmp_path / f"{number}.csv", ns=(0, (9 - number) * 10**9))
    size = (tmp_path / "5.csv").stat().st_size
    batches = {
        "maxFilesPerTrigger": (4, [40, 20]),
        "maxBytesPerTrigger": (2 * size, [20, 20, 20]),
        "maxRowsPerTrigger": (25, [25, 25, 10]),
    }
    for name, (most, expected) in batches.items():
        engine = Engine(lambda given={name: most}: reader(tmp_path, **given), random.Random(0))  # type: ignore[misc]
        assert engine.run() == len(expected)
        assert [len(found) for found in engine.sink.values()] == expected
        assert engine.sink[0][:20] == [*range(50, 60), *range(40, 50)], "the oldest first"
        assert engine.run(ReadAllAvailable()) == 0
    one = reader(tmp_path, maxFilesPerTrigger=4)
    assert one.getDefaultReadLimit() == ReadMaxFiles(4)
    assert len(ids(one, {"batch": 0}, one.latestOffset({"batch": 0}, ReadAllAvailable()))) == 60
    assert len(ids(one, {"batch": 0}, one.latestOffset({"batch": 0}, ReadMaxRows(3)))) == 3
    assert isinstance(reader(tmp_path).getDefaultReadLimit(), ReadAllAvailable)
    for name in batches:
        with pytest.raises(TidemillError, match="TM4003"):
            reader(tmp_path, **{name: "none"})


def test_rows_of_files_that_are_not_cut(tmp_path: Path) -> None:
    """A compressed or columnar file comes whole, alone when it has more rows than a batch may have."""
    for number, count in enumerate((30, 10, 8)):
        text = "id,s\n" + "".join(f"{number * 100 + i},x\n" for i in range(count))
        (tmp_path / f"{number}.csv.gz").write_bytes(gzip.compress(text.encode()))
        table = pa.table({"id": [number * 100 + i for i in range(count)]})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=7)
        for suffix in ("csv.gz", "parquet"):
            os.utime(tmp_path / f"{number}.{suffix}", ns=(0, number * 10**9))
    for kind, suffix in (("csv", "csv.gz"), ("parquet", "parquet")):
        given = {"format": kind, "path": f"{tmp_path}/*.{suffix}", "maxRowsPerTrigger": "20"}
        given |= {"header": "true"} if kind == "csv" else {}
        engine = Engine(lambda given=given: TidemillSource(given).streamReader(COLUMNS), random.Random(0))  # type: ignore[misc]
        engine.run()
        assert [len(found) for found in engine.sink.values()] == [30, 18]


def test_what_appears_later_waits_for_the_next_run(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", 0, 5) + write(tmp_path / "b.csv", 10, 5)
    stream = reader(tmp_path, maxFilesPerTrigger=1)
    stream.prepareForTriggerAvailableNow()
    offset: Any = stream.initialOffset()
    found: list[int] = []
    for number in range(3):
        write(tmp_path / f"later{number}.csv", 100 + number, 1)
        end = stream.latestOffset(offset, stream.getDefaultReadLimit())
        found += ids(stream, offset, end)
        offset = end
    assert sorted(found) == first


def test_a_new_file_is_seen_at_once_when_nothing_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While files wait that are known, listing again may take its time."""
    monkeypatch.setattr(data_stream, "_LISTING_SHARE", 1e9)
    rows = [i for number in range(3) for i in write(tmp_path / f"{number}.csv", number * 10, 2)]
    stream = reader(tmp_path, maxFilesPerTrigger=2)
    offset: Any = stream.initialOffset()
    found: list[int] = []
    for number in range(3, 6):
        rows += write(tmp_path / f"{number}.csv", number * 10, 2)
        end = stream.latestOffset(offset, stream.getDefaultReadLimit())
        found += ids(stream, offset, end)
        offset = end
    assert len(found) == 2 * (2 + 2 + 2)
    assert sorted(found) == rows


def test_empty_files_wait_and_names_count(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    engine = Engine(lambda: reader(tmp_path), random.Random(0))
    assert engine.run(now=False) == 0
    rows = write(tmp_path / "a.csv", 0, 3)
    assert engine.run(now=False) == 1
    rows += write(tmp_path / "b.csv", 10, 3)
    assert engine.run(now=False) == 1
    write(tmp_path / "a.csv", 50, 3)
    assert engine.run(now=False) == 0
    assert engine.rows == rows


def test_a_log_after_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without stateLocation a stream ends before its offsets grow beyond bounds, and goes on with it."""
    monkeypatch.setattr(stream_history, "MOST_IN_OFFSET", 5)
    data, state = tmp_path / "data", {"stateLocation": tmp_path / "state"}
    data.mkdir()
    written = [i for number in range(8) for i in write(data / f"{number}.csv", number * 10, 3)]
    given: dict[str, Any] = {}
    engine = Engine(lambda: reader(data, maxFilesPerTrigger=2, **given), random.Random(0))
    with pytest.raises(TidemillError, match=r"TM5060(.|\n)*stateLocation"):
        engine.run()
    assert len(engine.offsets) == 2
    given = state
    engine.run()
    assert engine.rows == written
    given = {}
    with pytest.raises(TidemillError, match="TM5062"):
        engine.run()
    given = {"stateLocation": tmp_path / "elsewhere"}
    with pytest.raises(TidemillError, match="TM5062"):
        engine.run()


def test_errors_of_the_log(endpoint: str, tmp_path: Path) -> None:
    write(tmp_path / "a.csv", 0, 3)
    (tmp_path / "file").touch()
    with pytest.raises(TidemillError, match="TM5061"):
        Engine(lambda: reader(tmp_path / "a.csv", stateLocation=tmp_path / "file"), random.Random(0)).run()
    with pytest.raises(TidemillError, match="TM1009"):
        reader(tmp_path, stateLocation="ftp://state")
    state = "s3://there-is-no-such-bucket/state"
    with pytest.raises(TidemillError, match="TM5063"):
        reader(tmp_path, stateLocation=state).partitions({"batch": 0}, {"batch": 1, "log": "0"})


@pytest.fixture
def bucket(spark: SparkSession, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client, and an empty bucket ``streams`` that Spark's workers can reach."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setitem(spark.sparkContext.environment, name, os.environ[name])
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="streams")
    yield client
    for found in client.list_objects_v2(Bucket="streams").get("Contents", ()):
        client.delete_object(Bucket="streams", Key=found["Key"])
    client.delete_bucket(Bucket="streams")


def stream_of(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    tm.register(spark)
    return spark.readStream.format("tidemill").options(**options).schema(COLUMNS).load(path)


@pytest.mark.slow
def test_sinks_of_spark_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    """A file sink has what Spark's own reader finds in the same files, run by run."""
    data = tmp_path / "data"
    data.mkdir()
    theirs = spark.read.schema(COLUMNS).option("multiLine", True).option("escape", '"')

    given: dict[str, Any] = {**CSV, "stateLocation": tmp_path / "state", "maxPartitionBytes": "100"}
    for number, limit in enumerate(({"maxFilesPerTrigger": 2}, {"maxRowsPerTrigger": 13}, {})):
        for k in range(4):
            write(data / f"{number}{k}.csv", number * 1000 + k * 100, 7 + k)
        stream = stream_of(spark, str(data), **given, **limit).writeStream.format("parquet")
        stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        stream.start(str(tmp_path / "ours")).awaitTermination()
        found = [
            sorted(f.collect())
            for f in (spark.read.parquet(str(tmp_path / "ours")), theirs.csv(str(data), header=True))
        ]
        assert found[0] == found[1] != []
    offsets = [p.read_text().splitlines()[-1] for p in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")]
    assert len(offsets) > 5
    assert max(map(len, offsets)) < 100


@pytest.mark.slow
def test_objects_and_files_between_batches(spark: SparkSession, bucket: Any, tmp_path: Path) -> None:
    """A query that is stopped and started while objects come; what it notes is in the store, too."""
    written: Counter[int] = Counter()

    def put(number: int) -> None:
        values = range(number * 100, number * 100 + 10)
        bucket.put_object(Bucket="streams", Key=f"in/{number}.json",
                          Body="".join(f'{{"id": {i}, "s": "x"}}\n' for i in values).encode())  # fmt: skip
        written.update(values)

    frame = stream_of(
        spark,
        "s3://streams/in/*.json",
        format="json",
        allowHttp=True,
        stateLocation="s3://streams/state",
        maxFilesPerTrigger=1,
    )
    for run in range(2):
        put(run * 10)
        sink = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = sink.start(str(tmp_path / "out"))
        for number in range(1, 4):
            put(run * 10 + number)
            query.processAllAvailable()
        query.stop()
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        assert Counter(row.id for row in rows) == written


def test_errors_reach_who_waits(spark: SparkSession, tmp_path: Path) -> None:
    frame = stream_of(spark, str(tmp_path / "none"), **CSV)
    query = frame.writeStream.format("memory").queryName("none").start()
    with pytest.raises(Exception, match="TM5001"):
        query.processAllAvailable()
    query.stop()
