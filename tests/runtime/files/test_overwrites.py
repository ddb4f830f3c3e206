"""``allowOverwrites``: which tables can have it, and files that are overwritten, emptied and deleted."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill.formats
from mill_factory import MillFactory
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.catalog.state_tables import stored_columns
from tidemill.runtime.job.epoch_work import without_guesses
from tidemill.sources.split import Split
from tidemill.testing import weighted_rows


class Input:
    """A directory of files, each version of which has a time of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._written = 0
        directory.mkdir()

    def write(self, name: str, content: str | bytes | pa.Table) -> None:
        path = self.directory / name
        if isinstance(content, pa.Table):
            pq.write_table(content, path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        self._written += 1
        os.utime(path, ns=(self._written * 10**9, self._written * 10**9))

    def table(self, columns: str, format_: str = "csv", more: str = "") -> str:
        options = f"path '{self.directory}', allowOverwrites 'true'{more}"
        return f"CREATE TABLE t ({columns}) USING {format_} OPTIONS ({options})"


@pytest.fixture
def files(tmp_path: Path) -> Input:
    return Input(tmp_path / "in")


def rows(mill: Mill, name: str = "t") -> list[tuple[Any, ...]]:
    return sorted(weighted_rows(mill.read(name)).items(), key=repr)


@pytest.mark.parametrize(
    ("columns", "format_", "options", "number"),
    [
        ("k INT", "csv", "allowOverwrites 'maybe'", "TM4003"),
        ("k INT PRIMARY KEY", "csv", "allowOverwrites 'true'", "TM2037"),
        ("k INT PRIMARY KEY", "debezium", "allowOverwrites 'true'", "TM2037"),
        ("k INT", "csv", "allowOverwrites 'true', static 'true'", "TM2037"),
        ("k INT, at TIMESTAMP", "csv", "ALLOWOVERWRITES 'True', watermark 'at'", "TM2037"),
        ("k INT", "json", "allowOverwrites 'true', schemaEvolutionMode 'addNewColumns'", "TM2037"),
    ],
)
def test_what_such_a_table_cannot_be(
    mill_factory: MillFactory, files: Input, columns: str, format_: str, options: str, number: str
) -> None:
    with pytest.raises(TidemillError, match=number):
        mill_factory().sql(f"CREATE TABLE t ({columns}) USING {format_} OPTIONS (path '{files.directory}', {options})")


def test_neither_an_order_book_nor_a_stream(mill_factory: MillFactory, files: Input) -> None:
    mill = mill_factory()
    for form in (
        f"t USING orderbook OPTIONS (path '{files.directory}', book 'bids', allowOverwrites 'true')",
        "t (k INT) USING csv OPTIONS (path 'tcp+listen://127.0.0.1:0', allowOverwrites 'true')",
    ):
        with pytest.raises(TidemillError, match="TM2037"):
            mill.sql(f"CREATE TABLE {form}")
    mill.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{files.directory}', allowOverwrites 'false')")
    with pytest.raises(TidemillError, match="TM2023"):
        mill.sql("ALTER TABLE t SET OPTIONS (allowOverwrites 'true')")
    with pytest.raises(TidemillError, match=r"TM4005(.*\n)+.*allowOverwrites is for the tables of a mill"):
        tidemill.formats.open("csv", "k INT", allowOverwrites="true")


def test_a_file_that_is_deleted_keeps_its_rows_until_it_is_there_again(mill_factory: MillFactory, files: Input) -> None:
    files.write("a", "1,x\n2,y\n")
    files.write("b", "1,x\n")
    mill = mill_factory()
    mill.sql(files.table("k INT, s STRING"))
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT s, count(*) AS n FROM t GROUP BY s")
    mill.advance()
    assert rows(mill) == [((1, "x"), 2), ((2, "y"), 1)]
    (files.directory / "a").unlink()
    assert mill.advance() is None
    assert rows(mill) == [((1, "x"), 2), ((2, "y"), 1)]
    files.write("a", "3,x\n")
    assert mill.advance() is not None
    assert rows(mill, "v") == [(("x", 2), 1)]
    files.write("a", "")
    assert mill.advance() is not None
    assert rows(mill, "v") == [(("x", 1), 1)]
    assert mill.advance() is None
    files.write("a", "4,z\n")
    assert mill.advance() is not None
    assert rows(mill, "v") == [(("x", 1), 1), (("z", 1), 1)]
    assert mill.sql("SELECT sum(k) AS k FROM t").collect()[0].k == 5
    assert mill.table("t").count() == 2
    assert mill.advance() is None


def test_a_version_with_the_same_rows_changes_nothing(mill_factory: MillFactory, files: Input) -> None:
    files.write("a", "1,x\n2,y\n")
    mill = mill_factory()
    mill.sql(files.table("k INT, s STRING"))
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
    mill.advance()
    runs = mill.snapshot().version.runs(mill.snapshot().plan("v").table.id)
    files.write("a", "2,y\n1,x\n")
    report = mill.advance()
    assert report is not None
    assert report.rows_in == 2
    assert mill.snapshot().version.runs(mill.snapshot().plan("v").table.id) == runs
    assert dict(mill.subscribe("v", mill.epoch, timeout=0)) == {}


def test_new_rows_and_deletions_by_file(mill_factory: MillFactory, files: Input) -> None:
    """A deletion may stand in another file than its row; only views put them together."""
    files.write("a", "1,I\n2,I\n2,I\n")
    files.write("b", "2,D\n3,D\n")
    mill = mill_factory()
    mill.sql(files.table("k INT, op STRING", more=", opColumn 'op'"))
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, k + 1 AS l FROM t")
    mill.advance()
    assert rows(mill, "v") == [((1, 2), 1), ((2, 3), 1)]
    mill.sql("CREATE MATERIALIZED VIEW late AS SELECT k FROM t")
    files.write("b", "1,D\n")
    mill.advance()
    assert rows(mill, "v") == [((2, 3), 2)]
    assert rows(mill, "late") == [((2,), 2)]
    files.write("c", "3,I\n3,I\n")
    files.write("b", "")
    mill.advance()
    assert rows(mill, "late") == [((1,), 1), ((2,), 2), ((3,), 2)]
    for read in (lambda: mill.read("t"), lambda: mill.sql("SELECT * FROM t")):
        with pytest.raises(TidemillError, match="TM2036"):
            read()


JSON = [{"m": {"b": 1, "a": 2}, "v": -0.0, "l": [0.0, -0.0]}, {"m": {"a": 2, "b": 1}, "v": 0.0, "l": [None]}]


@pytest.mark.parametrize("array", [False, True])
def test_values_are_taken_out_as_they_were_put_in(mill_factory: MillFactory, files: Input, array: bool) -> None:
    """Else what a view made of them would stay: -0.0 is another text than 0.0, and a map's keys have an order."""

    def text(found: list[Any]) -> str:
        return json.dumps(found) if array else "".join(json.dumps(row) + "\n" for row in found)

    files.write("a.json", text([*JSON, JSON[0]]))
    mill = mill_factory()
    mill.sql(files.table("m MAP<STRING, INT>, v DOUBLE, l ARRAY<DOUBLE>", "json"))
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT map_keys(m) AS k, CAST(v AS STRING) AS v FROM t")
    mill.advance()
    expected = {(("b", "a"), "-0.0"): 2, (("a", "b"), "0.0"): 1}
    assert weighted_rows(mill.read("v")) == expected
    mill.sql("CREATE MATERIALIZED VIEW late AS SELECT map_keys(m) AS k, CAST(v AS STRING) AS v FROM t")
    files.write("a.json", text([JSON[1], JSON[1], JSON[0]]))
    mill.advance()
    expected = {(("b", "a"), "-0.0"): 1, (("a", "b"), "0.0"): 2}
    assert weighted_rows(mill.read("v")) == weighted_rows(mill.read("late")) == expected
    files.write("a.json", "")
    mill.advance()
    assert weighted_rows(mill.read("v")) == weighted_rows(mill.read("late")) == {}


def test_compressed_and_columnar_files(mill_factory: MillFactory, files: Input) -> None:
    mill = mill_factory(split_bytes=100)
    mill.sql(files.table("k BIGINT", "parquet"))
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(k) AS k FROM t")
    for numbers in ([1, 2, 3], list(range(5000)), [], [7, 7]):
        files.write("a.parquet", pa.table({"k": pa.array(numbers, pa.int64())}))
        assert mill.advance() is not None
        assert rows(mill, "v") == [((len(numbers), sum(numbers) if numbers else None), 1)]
    mill.script("DROP VIEW v; DROP TABLE t")
    (files.directory / "a.parquet").unlink()
    mill.sql(files.table("k BIGINT"))
    for numbers in (list(range(3000)), [5], list(range(10, 2000))):
        files.write("a.csv.gz", gzip.compress("".join(f"{n}\n" for n in numbers).encode()))
        assert mill.advance() is not None
        assert sorted(mill.read("t")["k"].to_pylist()) == numbers


def test_a_version_that_cannot_be_read_takes_no_place(mill_factory: MillFactory, files: Input) -> None:
    def numbers(*found: int) -> pa.Table:
        return pa.table({"k": pa.array(found, pa.int64())})

    files.write("a.parquet", numbers(1, 2))
    files.write("b.parquet", numbers(3))
    mill = mill_factory()
    mill.sql(files.table("k BIGINT", "parquet"))
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(k) AS k FROM t")
    mill.advance()
    files.write("a.parquet", b"PAR1 and nothing that follows from it")
    files.write("b.parquet", numbers(4))
    mill.advance()
    assert rows(mill, "v") == [((3, 7), 1)], "what was read of it stays, and other files go on"
    files.write("a.parquet", numbers(10))
    mill.advance()
    assert rows(mill, "v") == [((2, 14), 1)]


def test_a_version_is_one_change_however_large(mill_factory: MillFactory, files: Input) -> None:
    """The limits of an epoch do not cut it, nor does a wrong guess about quotes in mode FAILFAST."""
    mill = mill_factory(epoch_bytes=2000, split_bytes=300, partitions=3, memory_bytes=200_000)
    mill.sql(files.table("k INT, s STRING", more=", mode 'FAILFAST'"))
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT max(k) AS least, count(*) AS n FROM t")
    files.write("a", "".join(f"{i},x\n" for i in range(1000)))
    assert len(list(mill.drain())) > 2
    for size, text in ((3000, '"a,b\nc,""d\n1,e"'), (800, "x"), (4000, '"\n\n"')):
        files.write("a", "".join(f"{i},{text}\n" for i in range(size)))
        assert mill.advance() is not None
        assert rows(mill, "v") == [((size - 1, size), 1)]
        assert mill.read("t").num_rows == size
        assert mill.advance() is None


def test_objects(mill_factory: MillFactory, endpoint: str) -> None:
    """Objects of one size, written within a second, differ in their ETags."""
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="overwritten")
    mill = mill_factory()
    store = f"endpoint '{endpoint}', allowHttp 'true', awsAccessKey 'test', awsSecretKey 'test', region 'us-east-1'"
    place = f"path 's3://overwritten/in/', {store}"
    mill.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS ({place}, allowOverwrites 'true')")
    for text, expected in (("1\n2\n", [1, 2]), ("3\n2\n", [2, 3]), ("", []), ("3\n2\n", [2, 3])):
        client.put_object(Bucket="overwritten", Key="in/a.csv", Body=text.encode())
        assert mill.advance() is not None
        assert sorted(mill.read("t")["k"].to_pylist()) == expected
    client.delete_object(Bucket="overwritten", Key="in/a.csv")
    assert mill.advance() is None
    assert mill.read("t").num_rows == 2


def test_columns_of_the_state_have_names(mill_factory: MillFactory, files: Input) -> None:
    mill = mill_factory()
    mill.sql(files.table("k INT, s STRING"))
    catalog = mill.snapshot().catalog
    assert stored_columns(catalog)[f"table:{catalog.tables['t'].uid}"] == ("file", "k", "s")


def test_without_guesses_a_version_stays_whole() -> None:
    place = ("t", "a")
    splits = [
        Split(*place, 0, 10, 25, 1, False, replaces=True),
        Split(*place, 10, 20, 25, 1, None),
        Split(*place, 20, 25, 25, 1, None),
        Split("t", "b", 3, 9, 12, 1, True),
        Split("t", "b", 9, 12, 12, 1, None),
    ]
    assert without_guesses(splits) == [Split(*place, 0, 25, 25, 1, False, replaces=True), splits[3]]
    assert without_guesses(without_guesses(splits)) == without_guesses(splits)
