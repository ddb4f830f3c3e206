"""``ignoreMissingFiles`` and ``ignoreCorruptFiles``: as Spark's own sources, each file noted once."""

from __future__ import annotations

import gzip
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

import tidemill as tm
from tidemill.errors import TidemillError
from tidemill.spark_source import left_out
from tidemill.spark_source.data_reader import TidemillReader
from tidemill.spark_source.data_source import TidemillSource
from tidemill.spark_source.data_stream import TidemillStreamReader

COLUMNS = "id BIGINT, s STRING"
STRUCT = StructType([StructField("id", LongType()), StructField("s", StringType())])
BOTH = {"ignoreMissingFiles": "true", "ignoreCorruptFiles": "true"}


def lines(first: int, count: int) -> str:
    return "".join(f'{i},"s {i}"\n' for i in range(first, first + count))


def source(data: Path, **options: str) -> tuple[TidemillSource, StructType]:
    given = {"format": "csv", "path": str(data), **options}
    return TidemillSource(given), STRUCT


def ids(reader: TidemillReader | TidemillStreamReader, parts: list[Any]) -> list[int]:
    return [i for part in parts for batch in reader.read(part) for i in batch["id"].to_pylist()]


def noted(directory: Path) -> Counter[tuple[str, str]]:
    """Names of files, each with the number of its error."""
    found = pq.read_table(directory).to_pylist() if directory.exists() else []
    return Counter((Path(row["file"]).name, row["reason"][:6]) for row in found)


def rows(frame: DataFrame) -> list[str]:
    return sorted(str(tuple(row)) for row in frame.collect())


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_corrupt_files_as_by_sparks_sources(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    """Rows before the damage of an archive are there; columns come from files that can be read."""
    tm.register(spark)
    data, errors = tmp_path / "data", tmp_path / "errors"
    data.mkdir()
    if format_ == "csv":
        whole = gzip.compress(lines(0, 30_000).encode())
        (data / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
        (data / "empty.csv.gz").write_bytes(whole[:5])
        (data / "good.csv.gz").write_bytes(gzip.compress(lines(50_000, 100).encode()))
        bad = {("cut.csv.gz", "TM4045"), ("empty.csv.gz", "TM4045")}
    else:
        for number in range(3):
            ids_ = list(range(number * 100, number * 100 + 100))
            pq.write_table(pa.table({"id": ids_, "s": [f"s {i}" for i in ids_]}), data / f"{number}.parquet")
        (data / "0.parquet").write_bytes((data / "0.parquet").read_bytes()[:-20])
        (data / "3.parquet").write_text("id,s\n")
        bad = {("0.parquet", "TM4041"), ("3.parquet", "TM4041")}

    def read(name: str, **options: str) -> DataFrame:
        return spark.read.format(name).options(**options).schema(COLUMNS).load(str(data))

    own = {"format": format_, "errorsPath": str(errors), "maxPartitionBytes": "1k"}
    expected = rows(read(format_, ignoreCorruptFiles="true"))
    assert rows(read("tidemill", ignoreCorruptFiles="true", **own)) == expected
    assert len(expected) > 100
    assert noted(errors) == Counter(bad)
    with pytest.raises(Exception, match=r"TM404[15]"):
        rows(read("tidemill", ignoreMissingFiles="true", **own))
    given = {"format": format_, "path": str(data)}
    if format_ == "parquet":
        with pytest.raises(TidemillError, match="TM4041"):
            TidemillSource(given).schema()
        assert TidemillSource({**given, "ignoreCorruptFiles": "TRUE"}).schema().lower() == "`id` bigint, `s` string"


def test_missing_files_as_by_sparks_sources(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Gone after they were planned; a file that is another one by then is gone as well. Parts of a file are one."""
    data, errors = tmp_path / "data", tmp_path / "errors"
    data.mkdir()
    for number in range(4):
        (data / f"{number}.csv").write_text(lines(number * 100, 50))
    sparks = spark.read.schema(COLUMNS).option("ignoreMissingFiles", "true").csv(str(data))
    frames = [{}, {"ignoreCorruptFiles": "true"}, {"ignoreMissingFiles": "true", "errorsPath": str(errors)}]
    made = [source(data, maxPartitionBytes="100", **options) for options in frames]
    readers = [given.reader(columns) for given, columns in made]
    planned = [reader.partitions() for reader in readers]
    assert len(planned[0]) > 8
    (data / "1.csv").unlink()
    for reader, parts in zip(readers[:2], planned, strict=False):
        with pytest.raises(TidemillError, match="TM5001"):
            ids(reader, parts)
    expected = sorted(row["id"] for row in sparks.select("id").collect())
    left_out._named.clear()
    with caplog.at_level(logging.WARNING):
        found = ids(readers[2], planned[2])
        (data / "2.csv").write_text(lines(0, 3))
        after = ids(readers[2], planned[2])
    assert sorted(found) == expected
    assert after == [i for i in found if i // 100 != 2]
    assert noted(errors) == Counter({("1.csv", "TM5001"): 1, ("2.csv", "TM5003"): 1})
    said = [r.getMessage() for r in caplog.records if "is left out" in r.getMessage()]
    assert [name for text in said for name in ("1.csv", "2.csv") if name in text] == ["1.csv", "2.csv"]


def change(path: Path) -> None:
    path.write_text(lines(0, 1))


def keep_listed(listed: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are listed as they were."""
    monkeypatch.setattr(TidemillReader, "unread", lambda _, unread: [[f for f in listed if unread([f.path])]])


@pytest.mark.parametrize("lose", [Path.unlink, change])
@pytest.mark.parametrize("limits", [{"maxFilesPerTrigger": "1"}, {"maxRowsPerTrigger": "70"}, {}])
def test_a_stream_goes_on_without_a_file(
    tmp_path: Path, limits: dict[str, str], lose: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is lost before rows are counted or parts are planned, one half-read or planned, by turns."""
    data, errors = tmp_path / "data", tmp_path / "errors"
    data.mkdir()
    for number in range(4):
        (data / f"{number}.csv").write_text(lines(number * 100, 50))
    options = {**limits, **BOTH, "errorsPath": str(errors), "maxPartitionBytes": "100"}
    given, columns = source(data, **options)
    keep_listed(sorted(given.reader(columns).listing(), key=lambda f: f.path), monkeypatch)
    stream, strict = given.streamReader(columns), source(data, **limits)[0].streamReader(columns)
    lose(data / "2.csv")
    at, found = stream.initialOffset(), list[int]()
    end = stream.latestOffset(at, stream.getDefaultReadLimit())
    lost = False
    while end != at:
        parts = stream.partitions(at, end)
        if not lost:
            lose(data / "1.csv")
            lost = True
        found += ids(stream, parts)
        at, end = end, stream.latestOffset(end, stream.getDefaultReadLimit())
    kept = [i for n in (0, 3) for i in range(n * 100, n * 100 + 50)]
    assert found == kept
    number = "TM5003" if lose is change else "TM5001"
    assert noted(errors) == Counter({("1.csv", number): 1, ("2.csv", number): 1})
    with pytest.raises(TidemillError, match=number):
        ids(strict, strict.partitions(stream.initialOffset(), at))


def test_a_query_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """A damaged archive in a stream of Spark: the query ends well, and so do those that come after."""
    tm.register(spark)
    data, errors = tmp_path / "data", tmp_path / "errors"
    data.mkdir()
    whole = gzip.compress(lines(0, 100).encode())
    (data / "0.csv.gz").write_bytes(whole[:-8])
    (data / "1.csv.gz").write_bytes(gzip.compress(lines(100, 100).encode()))
    stream = spark.readStream.format("tidemill").options(format="csv", errorsPath=str(errors), **BOTH).schema(COLUMNS)
    sink = stream.load(str(data)).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    for _ in range(2):
        sink.format("parquet").option("path", str(tmp_path / "out")).trigger(
            availableNow=True
        ).start().awaitTermination()
        found = sorted(pq.read_table(tmp_path / "out", columns=["id"]).column("id").to_pylist())
        assert found == list(range(200)), "all rows stand before the check sums"
        (data / "2.csv.gz").write_bytes(b"no archive")
    assert noted(errors) == Counter({("0.csv.gz", "TM4045"): 1, ("2.csv.gz", "TM4045"): 1})


def test_other_errors_are_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,other\n1,2\n")
    for options, number in (({"header": "true"}, "TM4010"), ({"mode": "FAILFAST"}, "TM40")):
        given, columns = source(tmp_path, **options, **BOTH)
        reader = given.reader(columns)
        with pytest.raises(TidemillError, match=number):
            ids(reader, reader.partitions())
    with pytest.raises(TidemillError, match="TM5001"):
        list(source(tmp_path / "nothing", **BOTH)[0].reader(STRUCT).listing())
    for name in ("ignoreMissingFiles", "ignoreCorruptFiles"):
        with pytest.raises(TidemillError, match="TM4003"):
            source(tmp_path, **{name: "perhaps"})
