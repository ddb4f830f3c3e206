"""``metadataColumn``: what it holds is what Spark's hidden ``_metadata`` holds for the same files."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.local_jobs import all_local

import tidemill as tm
import tidemill.formats
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.sources.file_metadata import file_uri

Opener = Callable[..., Mill]
Rows = list[tuple[Any, ...]]

_NAMES = (
    "plain",
    "sp ace",
    "per%cent%20",
    "uml ä ↯ 𝄞\u00a0\u200b",
    "q'uote\"s",
    "#?[s]{}+&=;,@!$()~^|<>`\\",
    "i\x7f\x85\t",
)
_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
_OF_FILE = "_metadata.file_path, _metadata.file_name, _metadata.file_size, _metadata.file_modification_time"
_VIEWS = {
    "by_name": "SELECT _metadata.file_name, COUNT(*) AS n, SUM(k) AS k FROM t GROUP BY _metadata.file_name",
    "by_file": f"SELECT {_OF_FILE}, MAX(s) AS s FROM t WHERE k > 3 GROUP BY ALL",
    "rows": f"SELECT k, s, {_OF_FILE} FROM t WHERE k % 5 = 0 AND _metadata.file_size > 10",
    "pairs": "SELECT a.k, b._metadata.file_name AS other FROM t a JOIN t b "
    "ON a.k = b.k AND a._metadata.file_name < b._metadata.file_name",
}


def rows_of(found: pa.Table) -> Rows:
    """Rows, sorted."""
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def drain(mill: Mill) -> None:
    while mill.advance() is not None:
        pass


def abandon(mill: Mill) -> None:
    """As if the process had died."""
    mill._coordinator.close(checkpoint=False)
    mill._closed = True


class Files:
    """Files of one format, one after the other under odd names, and how Spark reads them."""

    def __init__(self, spark: SparkSession, directory: Path, format_: str) -> None:
        self._spark = spark.newSession()
        for name, value in _FEW_ROWS.items():
            self._spark.conf.set(name, value)
        self.directory = directory
        self.format = format_
        self._count = 0
        directory.mkdir()

    def add(self, count: int = 1) -> None:
        """More files, of 60 rows and more."""
        for _ in range(count):
            number, self._count = self._count, self._count + 1
            rows = [(number * 7 + i, f"{number}-{i}") for i in range(60 + number)]
            data = self._written(rows)
            suffix = self.format
            if number % 3 == 1 and self.format != "parquet":
                data, suffix = gzip.compress(data), f"{self.format}.gz"
            path = self.directory / f"{_NAMES[number]}.{suffix}"
            path.write_bytes(data)
            os.utime(path, ns=(0, 1_700_000_000_123_456_789 + number))

    def _written(self, rows: list[tuple[int, str]]) -> bytes:
        if self.format == "csv":
            return ("k,s\n" + "".join(f'{k},"{s}"\n' for k, s in rows)).encode()
        if self.format == "json":
            return "".join(json.dumps({"k": k, "s": s}) + "\n" for k, s in rows).encode()
        sink = pa.BufferOutputStream()
        table = pa.table({"k": pa.array([k for k, _ in rows], pa.int32()), "s": [s for _, s in rows]})
        pq.write_table(table, sink, row_group_size=11)
        return sink.getvalue().to_pybytes()

    def in_spark(self) -> DataFrame:
        """All rows with Spark's own metadata."""
        reader = self._spark.read.schema("k INT, s STRING").option("header", True)
        return reader.format(self.format).load(str(self.directory)).select("*", "_metadata")

    def expected(self, query: str) -> Rows:
        """What Spark answers."""
        self.in_spark().createOrReplaceTempView("t")
        return rows_of(self._spark.sql(query).toArrow())


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_like_spark(mill_factory: Opener, spark: SparkSession, tmp_path: Path, format_: str) -> None:
    """Over epochs that end within files, a restart, and views that come later."""
    files = Files(spark, tmp_path / "a=1 %20é", format_)
    settings = {"split_bytes": 300, "epoch_bytes": 1500, "checkpoint_seconds": 1e9}
    mill = all_local(mill_factory(**settings))
    mill.sql(
        f"CREATE TABLE t (k INT, s STRING) USING {format_} "
        f"OPTIONS (path '{files.directory}', header true, metadataColumn '_metadata')".replace(
            ", header true" if format_ != "csv" else "\0", ""
        )
    )
    views = dict(_VIEWS)
    if format_ == "parquet":
        views["numbered"] = "SELECT k, _metadata.row_index, _metadata.file_name FROM t WHERE _metadata.row_index > 8"
    late = views.pop("by_file")
    for name, query in views.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    files.add(3)
    mill.advance()
    mill.checkpoint()
    mill.advance()
    abandon(mill)
    mill = all_local(mill_factory(**settings))
    files.add(len(_NAMES) - 4)
    mill.advance()
    views["by_file"] = late
    mill.sql(f"CREATE MATERIALIZED VIEW by_file AS {late}")
    drain(mill)
    assert rows_of(mill.read("by_file")) == files.expected(late), "its history was cut otherwise"
    files.add()
    drain(mill)
    for name, query in views.items():
        assert rows_of(mill.read(name)) == files.expected(query), name
    assert all(rows_of(mill.read(name)) for name in views)


def test_row_position(mill_factory: Opener, tmp_path: Path) -> None:
    """The byte of a file, or of what was compressed, with which a row begins; quoted line ends are within rows."""
    text = "k,s\n" + "".join(f'{i},"two\nlines {i}"\n' for i in range(80))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(text)
    (tmp_path / "in" / "b.csv.gz").write_bytes(gzip.compress(text.encode()))
    mill = all_local(mill_factory(split_bytes=100))
    mill.sql(
        f"CREATE TABLE t (k INT, s STRING) USING csv "
        f"OPTIONS (path '{tmp_path}/in', header true, metadataColumn 'origin')"
    )
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, origin.file_name, origin.row_position FROM t")
    drain(mill)
    found = [(k, name, text[at:].partition(",")[0]) for k, name, at in rows_of(mill.read("v"))]
    assert sorted(found) == sorted((i, name, str(i)) for i in range(80) for name in ("a.csv", "b.csv.gz"))


def test_keyed_tables_know_the_file_of_the_last_message(mill_factory: Opener, tmp_path: Path) -> None:
    for name in ("upserts", "changes"):
        (tmp_path / name).mkdir()
    for number, keys in enumerate((range(30), range(20, 50), range(40, 60))):
        lines = "".join(f"{k},{number},{'D' if k % 10 == 3 else 'I'}\n" for k in keys)
        (tmp_path / "upserts" / f"{number}.csv").write_text(lines)
        events = [{"op": "d" if k % 10 == 3 else "c", "before": {"k": k}, "after": {"k": k, "v": number}} for k in keys]
        (tmp_path / "changes" / f"{number}.json").write_text("".join(json.dumps(e) + "\n" for e in events))
    mill = all_local(mill_factory(epoch_bytes=300, split_bytes=70))
    columns, metadata = "k INT PRIMARY KEY, v INT", ", metadataColumn '_metadata'"
    mill.sql(
        f"CREATE TABLE upserts ({columns}, op STRING) USING csv "
        f"OPTIONS (path '{tmp_path}/upserts', opColumn 'op'{metadata})"
    )
    mill.sql(f"CREATE TABLE changes ({columns}) USING debezium OPTIONS (path '{tmp_path}/changes'{metadata})")
    for name in ("upserts", "changes"):
        mill.sql(f"CREATE MATERIALIZED VIEW {name}_files AS SELECT k, v, _metadata.file_name FROM {name}")
    drain(mill)
    last = {k: number for number, keys in enumerate((range(30), range(20, 50), range(40, 60))) for k in keys}
    for name, suffix in (("upserts", "csv"), ("changes", "json")):
        expected = [(k, number, f"{number}.{suffix}") for k, number in last.items() if k % 10 != 3]
        assert rows_of(mill.read(f"{name}_files")) == sorted(expected, key=repr)


def test_objects(mill_factory: Opener, endpoint: str) -> None:
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="described")
    client.put_object(Bucket="described", Key="in/a b%20/x+y.json", Body=b'{"k": 1}\n{"k": 2}\n')
    mill = all_local(mill_factory())
    mill.sql(
        "CREATE TABLE t (k INT) USING json "
        "OPTIONS (path 's3://described/**', allowHttp true, metadataColumn '_metadata')"
    )
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, _metadata FROM t")
    drain(mill)
    written = client.head_object(Bucket="described", Key="in/a b%20/x+y.json")["LastModified"]
    shared = {
        "file_path": "s3://described/in/a%20b%2520/x+y.json",
        "file_name": "x+y.json",
        "file_size": 18,
        "file_modification_time": written,
    }
    found = sorted(mill.read("v").to_pylist(), key=lambda row: row["k"])
    assert found == [
        {"k": 1, "_metadata": {**shared, "row_position": 0}},
        {"k": 2, "_metadata": {**shared, "row_position": 9}},
    ]


def test_files_that_grow(mill_factory: Opener, tmp_path: Path) -> None:
    """A view that comes later has the same rows as one that was there before the file grew."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"k": 1}\n')
    mill = all_local(mill_factory())
    options = f"path '{tmp_path}/in', metadataColumn '_metadata', allowAppends true"
    mill.sql(f"CREATE TABLE t (k INT) USING json OPTIONS ({options})")
    mill.sql("CREATE MATERIALIZED VIEW first AS SELECT k, _metadata FROM t")
    drain(mill)
    with (tmp_path / "in" / "a.json").open("a") as file:
        file.write('{"k": 2}\n')
    drain(mill)
    mill.sql("CREATE MATERIALIZED VIEW later AS SELECT k, _metadata FROM t")
    drain(mill)
    path = f"file:{tmp_path}/in/a.json"
    expected = [(k, {"file_path": path, "file_name": "a.json", "row_position": at}) for k, at in ((1, 0), (2, 9))]
    assert rows_of(mill.read("first")) == rows_of(mill.read("later")) == expected


def test_overwritten_files(mill_factory: Opener, tmp_path: Path) -> None:
    """Rows of what a file was go with what was said of it."""
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.json"
    path.write_text('{"k": 1}\n')
    mill = all_local(mill_factory())
    options = f"path '{tmp_path}/in', metadataColumn '_metadata', allowOverwrites true"
    mill.sql(f"CREATE TABLE t (k INT) USING json OPTIONS ({options})")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, _metadata.file_size FROM t")
    drain(mill)
    assert rows_of(mill.read("v")) == [(1, 9)]
    path.write_text('{"k": 2}\n{"k": 30}\n')
    drain(mill)
    assert rows_of(mill.read("v")) == [(2, 19), (30, 19)]


def test_who_does_not_read_it_does_not_pay(mill_factory: Opener, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    mill = all_local(mill_factory())
    mill.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{tmp_path}/in', metadataColumn '_metadata')")
    assert "Scan t [k]" in mill.explain("SELECT k, COUNT(*) FROM t GROUP BY k")
    assert "Scan t [k, _metadata]" in mill.explain("SELECT k, _metadata.file_name, COUNT(*) FROM t GROUP BY 1, 2")


@pytest.fixture
def table(mill_factory: Opener, tmp_path: Path) -> Iterator[Callable[[str, str], Mill]]:
    """``table(columns, options)`` makes a table ``t``."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"k": 1}\n')
    mill = all_local(mill_factory())

    def create(columns: str, options: str) -> Mill:
        mill.sql(f"CREATE TABLE t {columns} {options.replace('DIR', str(tmp_path / 'in'))}")
        return mill

    yield create


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ("(k INT)", "USING json OPTIONS (path 'DIR', metadataColumn 'K')"),
        ("(k INT)", "USING json OPTIONS (path 'DIR', metadataColumn '')"),
        ("", "USING json OPTIONS (path 'DIR', metadataColumn '_rescued_data')"),
        ("", "USING orderbook OPTIONS (path 'DIR', book 'bids', metadataColumn '_metadata')"),
        ("(k INT)", "USING json OPTIONS (path 'tcp://127.0.0.1:1', metadataColumn '_metadata')"),
    ],
)
def test_bad_options(table: Callable[[str, str], Mill], columns: str, options: str) -> None:
    with pytest.raises(TidemillError, match=r"TM4003.*metadata") as caught:
        table(columns, options)
    assert "metadata" in caught.value.what.lower()


def test_a_new_column_of_that_name(table: Callable[[str, str], Mill], tmp_path: Path) -> None:
    """It can be rescued, but not be added."""
    adding = "rescuedDataColumn 'rest', schemaEvolutionMode 'addNewColumns'"
    mill = table("", f"USING json OPTIONS (path 'DIR', metadataColumn '_metadata', {adding})")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, _metadata.file_name FROM t")
    drain(mill)
    (tmp_path / "in" / "b.json").write_text('{"k": 2, "more": 3}\n')
    drain(mill)
    assert rows_of(mill.read("v")) == [(1, "a.json"), (2, "b.json")]
    mill.sql("CREATE MATERIALIZED VIEW w AS SELECT k, more, _metadata.file_name FROM t")
    drain(mill)
    assert rows_of(mill.read("w")) == [(1, None, "a.json"), (2, 3, "b.json")]
    (tmp_path / "in" / "c.json").write_text('{"k": 3, "_metadata": 3}\n')
    with pytest.raises(TidemillError, match="TM4074"):
        mill.advance()
    assert rows_of(mill.read("v")) == [(1, "a.json"), (2, "b.json")], "nothing of it was sealed"


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_data_source(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    files = Files(spark, tmp_path / "in", format_)
    files.add(4)
    tm.register(spark)
    given = {"format": format_, "metadataColumn": "_metadata", "maxPartitionBytes": "600"}
    reader = spark.read.format("tidemill").options(**given)
    reader = reader.option("header", "true") if format_ == "csv" else reader
    frame = reader.load(str(files.directory))
    index = ("_metadata.row_index",) if format_ == "parquet" else ()
    wanted = ("k", *_OF_FILE.split(", "), *index)
    found = rows_of(frame.select(*wanted).toArrow())
    assert found == rows_of(files.in_spark().select(*wanted).toArrow())
    assert len(found) == 246
    narrow = reader.option("columns", "k INT, s STRING").schema("s STRING").load(str(files.directory))
    assert narrow.count() == 246
    with pytest.raises(Exception, match=r"TM4003.*metadataColumn"):
        reader.schema("k INT, _metadata STRING").load(str(files.directory)).count()
    with pytest.raises(TidemillError, match="TM4005"):
        tidemill.formats.open(format_, "k INT", metadataColumn="_metadata")


def test_uris() -> None:
    assert file_uri("/a b/c:d%") == "file:/a%20b/c:d%25"
    assert file_uri("s3://bucket/a b/ü?") == "s3://bucket/a%20b/ü%3F"
    assert file_uri("s3://bucket/") == "s3://bucket/"
