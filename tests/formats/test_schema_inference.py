"""Inferred columns: those of Spark's own readers, and what is told where there are none."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tidemill.formats
from tidemill.errors import TidemillError
from tidemill.formats import infer_schema
from tidemill.formats.inference.sampling import chosen
from tidemill.formats.types.json_shapes import DEEPEST, without_depths
from tidemill.schema import Schema, nullable_type, type_from_spark


def types(schema: Schema) -> dict[str, pa.DataType]:
    return {f.name: nullable_type(f.type) for f in schema}


def spark_types(spark: SparkSession, format_: str, path: Path, **options: Any) -> dict[str, pa.DataType]:
    frame = spark.read.format(format_).options(inferSchema=True, **options).load(str(path))
    return {f.name: type_from_spark(json.loads(f.dataType.json())) for f in frame.schema}


def raised(number: str, format_: str, *sources: Any, **options: Any) -> TidemillError:
    with pytest.raises(TidemillError) as error:
        infer_schema(format_, *sources, **options)
    assert error.value.number == number
    return error.value


# -- JSON ---------------------------------------------------------------------------------------------


_SCALARS = ("null", "true", "1", "-7", "9223372036854775807", "9223372036854775808", "1.5", "1e3", '""', '"x"', '"1"')
_LARGE = ("12345678901234567890123456789012345678", "1" * 39, "-99999999999999999999", '"2020-01-01"', "{}", "[]")


def _value(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if depth and kind < 0.25:
        return "[" + ",".join(_value(rng, depth - 1) for _ in range(rng.randrange(3))) + "]"
    if depth and kind < 0.5:
        return _record(rng, depth - 1)
    return rng.choice(_SCALARS if kind < 0.9 else _LARGE)


def _record(rng: random.Random, depth: int) -> str:
    names = rng.sample(["a", "b", "c", "é", "z z"], rng.randrange(4))
    return "{" + ",".join(f'"{name}": {_value(rng, depth)}' for name in names) + "}"


def test_json_is_inferred_as_spark_infers_it(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(25):
        path = tmp_path / f"{number}.json"
        path.write_text("".join(_record(rng, 3) + "\n" for _ in range(rng.randrange(1, 6))) + '{"k": 1}\n')
        assert types(infer_schema("json", path)) == spark_types(spark, "json", path), path.read_text()


def test_json_values_by_hand() -> None:
    data = b'{"t": "2020-01-01 10:00:00", "A": 1, "s": [{"x": 1}, {"y": null}], "n": null, "e": {}}\n'
    data += b'{"a": 2.5}\n{"a": 3}\n'
    assert infer_schema("json", data).to_ddl() == (
        "`a` double, `n` string, `s` array<struct<`x`:bigint,`y`:string>>, `t` string"
    )
    assert types(infer_schema("json", data, inferTimestamp=True))["t"] == pa.timestamp("us", "UTC")
    assert set(types(infer_schema("json", data, inferColumnTypes=False)).values()) == {pa.string()}


def test_json_timestamps_as_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"a": "2020-01-01T10:00:00Z", "b": "2020-01-01 10:00:00", "c": ["2020-01-02"], "d": "no"}\n')
    assert types(infer_schema("json", path, inferTimestamp=True)) == spark_types(
        spark, "json", path, inferTimestamp=True
    )


def test_malformed_records_do_not_count() -> None:
    deep = b'{"deep": ' + b"[" * 500 + b"]" * 500 + b"}\n"
    data = b'{"a": 1}\n{"a": "x\n' + deep + b'[1]\n{"b": "\xff"}\n{"a": 2}'
    assert infer_schema("json", data, maxNestingDepth=500).to_ddl() == "`a` bigint, `b` string"


def test_what_lies_very_deep_is_text() -> None:
    """No record is left out of a sample for its depth, and none of what it holds is lost."""
    levels = 300
    array = b"[" * levels + b'"]}",' + b'{"k": 1}' + b"]" * levels
    objects = b'{"x": 0, "o": ' * levels + b"2" + b"}" * levels
    data = b'{"a": 1, "deep": ' + array + b', "b": true}\n{"deep": [], "objects": ' + objects + b"}\n"
    opened = tidemill.formats.open("json")
    table = opened.read(data)
    assert set(table.column_names) == {"a", "b", "deep", "objects", "_rescued_data"}
    assert table.column("_rescued_data").null_count == 2
    type_, column, depth = table.schema.field("deep").type, table.column("deep").chunk(0), 1
    while pa.types.is_list(type_):
        type_, column, depth = type_.value_type, column.flatten(), depth + 1
    assert (type_, depth) == (pa.string(), DEEPEST)
    assert column.to_pylist() == [(b"[" * (levels - DEEPEST + 1) + array[levels : -DEEPEST + 1]).decode()]
    type_, depth = table.schema.field("objects").type, 1
    while pa.types.is_struct(type_):
        assert type_.field("x").type == pa.int64()
        type_, depth = type_.field("o").type, depth + 1
    assert (type_, depth) == (pa.string(), DEEPEST)
    assert without_depths(b'{"a": [[1, "]"], {}], "b": {}}', 2) == b'{"a": ["deep", "deep"], "b": {}}'


# -- CSV ----------------------------------------------------------------------------------------------

_FIELDS = {
    "int": ("1", "-7", "+5", "2147483647"),
    "bigint": ("2147483648", "-9223372036854775808"),
    "decimal": ("12345678901234567890", "-99999999999999999999999"),
    "double": ("1.5", "-2.25", ".5", "1e10", "NaN", "Infinity", "1" * 39),
    "date": ("2020-01-01", "1999-12-31"),
    "timestamp": ("2020-01-01 10:00:00", "2020-01-01T10:00:00Z", "2020-01-01 10:00:00.123456"),
    "boolean": ("true", "FALSE"),
    "string": ("x", "1 2", "2020-13-01", "é"),
    "null": ("", ""),
}


def test_csv_is_inferred_as_spark_infers_it(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(12):
        kinds = [["null", *rng.sample(sorted(_FIELDS), rng.choice([1, 1, 2, 2, 3]))] for _ in range(12)]
        rows = [[rng.choice(_FIELDS[rng.choice(k)]) for k in kinds] for _ in range(rng.randrange(1, 12))]
        path = tmp_path / f"{number}.csv"
        header = ",".join(f"c{i}" for i in range(12))
        path.write_text("\n".join([header, *(",".join(row) for row in rows)]))
        expected = spark_types(spark, "csv", path, header=True)
        assert types(infer_schema("csv", path, header=True)) == expected, path.read_text()


@pytest.mark.parametrize("header", [True, False])
def test_csv_names_and_quotes(spark: SparkSession, tmp_path: Path, header: bool) -> None:
    path = tmp_path / "names.csv"
    path.write_text('id,"a b",ID,,x\n"1","2.5",7,,"line"\n2,,8,,""\n')
    found = types(infer_schema("csv", path, header=header))
    assert found == spark_types(spark, "csv", path, header=header)
    table = tidemill.formats.open("csv", header=header).read(path)
    if header:
        assert list(found) == ["id0", "a b", "ID2", "_c3", "x"]
        assert table.column("ID2").to_pylist() == [7, 8]
    else:
        assert table.column("_c2").to_pylist() == ["ID", "7", "8"]


def test_csv_options_and_formats(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "options.csv"
    path.write_text("# note\n01.02.2020|NA|5\n# note\n03.02.2020|1|NA\n")
    options = {"sep": "|", "comment": "#", "nullValue": "NA", "dateFormat": "dd.MM.yyyy"}
    found = types(infer_schema("csv", path, **options))
    assert found == spark_types(spark, "csv", path, **options)
    assert found["_c0"] == pa.date32()


def test_every_sampled_value_can_be_read(seed: int) -> None:
    rng = random.Random(seed)
    texts = [t for group in _FIELDS.values() for t in group] + [" 5", "5 ", "12:30", "2020", "1d", "0x10", "1,5", "-"]
    for _ in range(100):
        values = rng.sample(texts, rng.randrange(1, 4))
        data = ("c,d\n" + "".join(f'"{v}",1\n' if v else ",1\n" for v in values)).encode()
        errors: list[Any] = []
        opened = tidemill.formats.open("csv", infer_schema("csv", data, header=True), header=True)
        opened.read(data, errors=errors)
        assert not errors, data


# -- Parquet and Arrow --------------------------------------------------------------------------------


def _parquet(path: Path, **columns: pa.Array) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet_and_arrow_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    first = {"a": pa.array([1], pa.int32()), "s": pa.array([{"x": 1.5}]), "l": pa.array([["x"]])}
    second = {"b": pa.array(["x"]), "s": pa.array([{"x": 2.5, "y": True}]), "a": pa.array([2], pa.int32())}
    for i, columns in enumerate((first, second)):
        _parquet(tmp_path / f"{i}.parquet", **columns)
        with pa.ipc.new_file(tmp_path / f"{i}.arrow", pa.table(columns).schema) as writer:
            writer.write_table(pa.table(columns))
    found = infer_schema("parquet", *sorted(tmp_path.glob("*.parquet")))
    assert types(found) == spark_types(spark, "parquet", tmp_path / "*.parquet", mergeSchema=True)
    assert infer_schema("arrow", *sorted(tmp_path.glob("*.arrow"))) == found


def test_parquet_types_are_widened(tmp_path: Path) -> None:
    large = pa.array([1], pa.uint64())
    one = _parquet(tmp_path / "1", a=pa.array([1], pa.int32()), B=pa.array([1], pa.int16()), d=large, n=pa.nulls(1))
    two = _parquet(tmp_path / "2", a=pa.array([1], pa.int64()), b=pa.array([1.5], pa.float32()), n=pa.nulls(1))
    assert infer_schema("parquet", one, two).to_ddl() == "`a` bigint, `B` float, `d` decimal(20,0), `n` string"
    three = _parquet(tmp_path / "3", a=pa.array(["x"]))
    error = raised("TM4072", "parquet", one, two, three)
    assert "a is string, int64 before" in error.got and str(three) in error.got
    table = tidemill.formats.open("parquet", infer_schema("parquet", one, two)).read(two)
    assert table.to_pydict() == {"a": [1], "B": [1.5], "d": [None], "n": [None]}


# -- samples, hints, errors ---------------------------------------------------------------------------


def test_only_a_sample_is_read(tmp_path: Path) -> None:
    for i in range(10):
        rows = [{"a": 1}] * 1000 + [{"late": 1}]
        (tmp_path / f"{i}.json").write_text("".join(json.dumps(r) + "\n" for r in rows))
    files = sorted(tmp_path.iterdir())
    assert infer_schema("json", *files, schemaInferenceSampleBytes=20_000).names == ("a",)
    assert infer_schema("json", *files).names == ("a", "late")
    (tmp_path / "5.json").write_text('{"middle": 1}\n')
    assert infer_schema("json", *files, schemaInferenceSampleFiles=2).names == ("a", "late")
    assert chosen(list(map(str, range(10))), 3) == ["0", "4", "9"]
    long = b'{"text": "' + b"x" * 3000 + b'", "b": 1}\n'
    assert infer_schema("json", long + long, long, schemaInferenceSampleBytes=8000).names == ("b", "text")


def test_compressed_files_and_arrays(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'[{"a": 1},\n {"b": [true]}]'))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a;b\n1;2\n"))
    assert infer_schema("json", tmp_path / "a.json.gz").to_ddl() == "`a` bigint, `b` array<boolean>"
    assert infer_schema("csv", tmp_path / "a.csv.gz", sep=";", header=True).to_ddl() == "`a` int, `b` int"


def test_hints() -> None:
    data = b'{"id": 1, "o": {"x": 1, "y": [1]}}'
    hints = "ID DECIMAL(10,2), o.y.element STRING, o.z INT, `new col` MAP<STRING, INT>"
    assert infer_schema("json", data, schemaHints=hints).to_ddl() == (
        "`ID` decimal(10,2), `o` struct<`x`:bigint,`y`:array<string>,`z`:int>, `new col` map<string,int>"
    )
    for bad in ("id", "id NUMBER", "id.x INT"):
        raised("TM4003", "json", data, schemaHints=bad)


def test_errors() -> None:
    raised("TM4071", "json")
    raised("TM4071", "json", b"", b"\n[]")
    raised("TM4071", "csv", b"", header=True)
    raised("TM4073", "native", b"")
    raised("TM4005", "json", b"", schemaHint="a INT")
    raised("TM4003", "json", b"", schemaInferenceSampleFiles=0)
    raised("TM4041", "parquet", b"no parquet")


def test_keys_that_are_no_text() -> None:
    assert infer_schema("json", b'{"b":2}\n{"\\ud83d":1,"c":{"\\udc00":1,"d":2}}\n').to_ddl() == (
        "`b` bigint, `c` struct<`d`:bigint>"
    )
