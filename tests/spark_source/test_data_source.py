"""``spark.read.format("tidemill")``: what Spark's own readers read, from splits of any size, and what it refuses."""

from __future__ import annotations

import gzip
import math
import random
import runpy
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import tidemill as tm

COLUMNS = "id BIGINT, s STRING, x DOUBLE, d DATE, t TIMESTAMP, m DECIMAL(9,2)"


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    tm.register(spark)


def load(spark: SparkSession, path: Path, columns: str, **options: Any) -> DataFrame:
    return spark.read.format("tidemill").options(**options).schema(columns).load(str(path))


def rows_of(frame: DataFrame) -> list[str]:
    """As texts, so that NaN equals itself and what is nested can be sorted."""
    return sorted(repr(tuple(row)) for row in frame.collect())


def csv_text(rng: random.Random, rows: int) -> str:
    lines = []
    for i in range(rows):
        s = rng.choice(["plain", "a,b", 'say ""hi""', "two\nlines", "1,2\n3,4", "", "é"])
        x = rng.choice(["1.5", "-0.0", "NaN", "1e300", ""])
        lines.append(f'{i},"{s}",{x},2024-02-{i % 28 + 1:02},2024-01-01T00:00:{i % 60:02}.5Z,{i}.25\n')
    return "".join(lines)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_csv_with_quotes_over_splits_equals_sparks_reader(
    spark: SparkSession, tmp_path: Path, seed: int, mode: str
) -> None:
    rng = random.Random(seed)
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("id,s,x,d,t,m\n" + csv_text(rng, 200))
    expected = spark.read.csv(str(tmp_path), schema=COLUMNS, header=True, multiLine=True, escape='"')
    theirs = rows_of(expected)
    for size in ("1k", "1g"):
        found = load(
            spark, tmp_path, COLUMNS, format="csv", header=True, maxPartitionBytes=size, readMode=mode, bufferSize="700"
        )
        assert rows_of(found) == theirs


def test_csv_by_line_and_in_many_splits(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("id,s,x,d,t,m\n" + csv_text(rng, 200))
    lines = [line for line in csv_text(rng, 300).splitlines() if line.count('"') % 2 == 0 and line.count(",") > 4]
    (tmp_path / "0.csv").write_text(
        "id,s,x,d,t,m\n" + "\n".join(line + '"' * (i % 7 == 0) for i, line in enumerate(lines))
    )
    by_line = load(
        spark, tmp_path / "0.csv", COLUMNS, format="csv", header=True, multiLine=False, maxPartitionBytes="1k"
    )
    theirs = spark.read.csv(str(tmp_path / "0.csv"), schema=COLUMNS, header=True, escape='"')
    assert rows_of(by_line.select("id", "s")) == rows_of(theirs.select("id", "s"))
    assert len(lines) > 100
    small = load(spark, tmp_path, COLUMNS, format="csv", header=True, maxPartitionBytes="1k")
    assert small.select(sf.spark_partition_id()).distinct().count() > 20
    assert small.filter("s LIKE 'two%'").groupBy("s").count().count() == 1


def test_csv_of_another_dialect_over_splits(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "a.csv"
    texts = ["plain", "a||b", r"say \"hi\"", "two\nlines", "1||2\n3||4"]
    path.write_text("".join(f'{i}||"{rng.choice(texts)}"\n' for i in range(200)))
    options = {"format": "csv", "sep": "||", "escape": "\\"}
    expected = rows_of(spark.read.csv(str(path), schema="i INT, s STRING", sep="||", escape="\\", multiLine=True))
    assert len(expected) == 200
    for size in ("500", "1g"):
        assert rows_of(load(spark, path, "i INT, s STRING", maxPartitionBytes=size, **options)) == expected


def test_json_equals_sparks_reader(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    columns = "id BIGINT, user STRUCT<name: STRING, tags: ARRAY<STRING>>, counts MAP<STRING, INT>, x DOUBLE"
    values = [
        '{"id": %d, "user": {"name": "n\\n", "tags": ["a", null]}, "counts": {"a": 1}, "x": 2.5}',
        '{"id": %d, "user": null}',
        '{"id": %d, "user": {"tags": []}, "counts": {}, "x": "NaN"}',
    ]
    text = "".join(rng.choice(values) % i + "\n" for i in range(500))
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.json").write_text(text)
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "a.json.gz").write_bytes(gzip.compress(text.encode()))
    expected = rows_of(spark.read.json(str(tmp_path / "plain"), schema=columns))
    assert len(expected) == 500
    for folder in ("plain", "packed"):
        assert rows_of(load(spark, tmp_path / folder, columns, format="json", maxPartitionBytes="2k")) == expected


def test_other_formats(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(k, k / 4) for k in range(1000)]
    files = {
        "native": b"".join(struct.pack("<Bid", 0, *row) for row in rows),
        "frames": b"".join(struct.pack("<I", len(f)) + f for f in (b"%d,%r" % row for row in rows)),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    pq.write_table(pa.table({"k": pa.array([k for k, _ in rows], pa.int32()), "x": [x for _, x in rows]}),
                   tmp_path / "parquet", row_group_size=100)  # fmt: skip
    for name, options in {"native": {}, "frames": {"payload": "csv"}, "parquet": {}}.items():
        found = load(spark, tmp_path / name, "k INT, x DOUBLE", format=name, maxPartitionBytes="1k", **options)
        assert sorted(tuple(row) for row in found.collect()) == rows
    assert load(spark, tmp_path / "native", "k INT, x DOUBLE", format="native").count() == 1000


def test_modes_and_errors(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{i},a\n" if i % 10 else "x,a\n" for i in range(100)))
    found = load(spark, path, "k INT, s STRING", format="csv", maxPartitionBytes="60", errorsPath=tmp_path / "errors")
    for _ in range(2):  # read again, errors are written again
        assert sum(row.k is None for row in found.collect()) == 10
    errors = spark.read.parquet(str(tmp_path / "errors")).orderBy("position").collect()
    assert len(errors) == 10
    assert tuple(errors[0]) == (str(path), 0, 1, 0, "k", "bad_int32", b"x,a")
    assert [(e.line, e.at) for e in errors] == [(1 + 10 * k, e.position) for k, e in enumerate(errors)]
    assert load(spark, path, "k INT, s STRING", format="csv", mode="DROPMALFORMED").count() == 90
    with pytest.raises(Exception, match="TM4020") as caught:
        load(spark, path, "k INT, s STRING", format="csv", mode="FAILFAST").collect()
    assert str(path) in str(caught.value)


def test_columns_by_position(spark: SparkSession, tmp_path: Path) -> None:
    """What is not asked for is not parsed: neither its values nor what is wrong with them."""
    path = tmp_path / "a.csv"
    path.write_text("1,a,x\n2,b,y\nz,c,0.5,more\n")
    options = {"format": "csv", "Columns": "id INT, s STRING, x DOUBLE", "rescuedDataColumn": "r"}
    assert load(spark, path, "id INT, s STRING, x DOUBLE, r STRING", **options).columns == ["id", "s", "x", "r"]
    found = load(spark, path, "s STRING", errorsPath=tmp_path / "errors", **options)
    assert [tuple(row) for row in found.collect()] == [("a",), ("b",), ("c",)]
    assert not (tmp_path / "errors").exists()
    found = load(spark, path, "r STRING, x DOUBLE", **options)
    where = f',"_file_path":"{path}"}}'
    expected = [('{"x":"x"', None), ('{"x":"y"', None), ('{"id":"z","_c3":"more"', 0.5)]
    assert [tuple(row) for row in found.collect()] == [(text + where, x) for text, x in expected]
    whole = spark.read.format("tidemill").options(**options).load(str(path))
    assert whole.dtypes == [("id", "int"), ("s", "string"), ("x", "double"), ("r", "string")]
    with pytest.raises(Exception, match=r"TM4003(.|\n)*x int of the schema must be one of them"):
        load(spark, path, "x INT", **options).collect()


def test_several_paths_and_none(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "empty").mkdir()
    reader = spark.read.format("tidemill").option("format", "csv").schema("s STRING")
    assert rows_of(reader.load([str(tmp_path / "a"), str(tmp_path / "b")])) == ["('a',)", "('b',)"]
    assert reader.load(str(tmp_path / "empty")).collect() == []


def test_columns_are_inferred(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,note,day\n1,"two\nlines",2024-01-01\n2,,2024-01-02\n')
    frame = spark.read.format("tidemill").options(format="csv", header=True).load(str(tmp_path))
    assert dict(frame.dtypes) == {"id": "int", "note": "string", "day": "date"}
    assert sorted((row.id, row.note, str(row.day)) for row in frame.collect()) == [
        (1, "two\nlines", "2024-01-01"),
        (2, None, "2024-01-02"),
    ]


def test_types_keep_their_values(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("true,-128,32767,1.5,NaN,QQ==,2024-01-01 12:00:00\n")
    columns = "b BOOLEAN NOT NULL, i TINYINT, j SMALLINT, f FLOAT, g DOUBLE, y BINARY, n TIMESTAMP_NTZ"
    row = load(spark, path, columns, format="csv").collect()[0]
    assert (row.b, row.i, row.j, row.f, bytes(row.y), str(row.n)) == (
        True, -128, 32767, 1.5, b"QQ==", "2024-01-01 12:00:00",
    )  # fmt: skip
    assert math.isnan(row.g)


@pytest.mark.parametrize(
    ("options", "number", "hint"),
    [
        ({"format": "csv", "heeder": "true"}, "TM4005", "header"),
        ({"format": "csv", "readMode": "later"}, "TM4003", "async"),
        ({"format": "csv", "maxPartitionBytes": "none"}, "TM4003", "positive"),
        ({"format": "cvs"}, "TM4001", "csv"),
        ({"format": "debezium"}, "TM4070", "mill"),
        ({}, "TM4070", "csv"),
        ({"format": "csv", "header": "perhaps"}, "TM4003", "true or false"),
        ({"format": "parquet", "readMode": "async"}, "TM4065", "leave out"),
    ],
)
def test_options_are_checked_before_anything_is_read(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], number: str, hint: str
) -> None:
    (tmp_path / "a").write_text("1\n")
    with pytest.raises(Exception, match=number) as caught:
        load(spark, tmp_path, "k INT", **options).collect()
    assert hint in str(caught.value)


def test_what_else_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    reader = spark.read.format("tidemill").option("format", "csv")
    with pytest.raises(Exception, match="TM4071"):
        reader.load(str(tmp_path))
    with pytest.raises(Exception, match="TM5001"):
        reader.schema("k INT").load(str(tmp_path / "missing")).collect()
    with pytest.raises(Exception, match="TM4004"):
        reader.schema("k ARRAY<INT>").load(str(tmp_path)).collect()


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_columns_are_inferred_as_by_spark(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    texts = {"csv": "a,b,c\n1,x,2024-01-31\n2,,\n", "json": '{"a": 1, "b": ["x"]}\n{"a": 2.5}\n'}
    (tmp_path / "file").write_text(texts[format_])
    options = {"header": "true"} if format_ == "csv" else {}
    found = spark.read.format("tidemill").options(format=format_, **options).load(str(tmp_path))
    expected = spark.read.options(inferSchema="true", **options).format(format_).load(str(tmp_path))
    assert found.schema == expected.schema
    assert sorted(map(tuple, found.collect()), key=repr) == sorted(map(tuple, expected.collect()), key=repr)


def test_the_example(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text('id,note\n1,"two\nwords"\nx,one\n')
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "spark_source.py"))
    found = example["notes"](spark, path, tmp_path / "errors").collect()
    assert sorted(map(tuple, found), key=repr) == [(1, 2), (None, 1)]
    assert spark.read.parquet(str(tmp_path / "errors")).count() == 1


def test_errors_are_not_written_among_the_files(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1\nx\n")
    (tmp_path / "file").write_text("")
    for read, errors in ((tmp_path, tmp_path), (tmp_path / "*", tmp_path), (tmp_path / "a.csv", tmp_path / "file")):
        with pytest.raises(Exception, match="TM4003"):
            load(spark, read, "k INT", format="csv", errorsPath=errors).collect()
