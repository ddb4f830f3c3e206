"""Formats without a mill: ``tidemill.formats.open``."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
from pathlib import Path

import lz4.frame
import numpy as np
import pyarrow as pa
import pytest

import tidemill.formats
from tidemill.errors import FormatError, TidemillError
from tidemill.formats.base import RowError

COLUMNS = "a BIGINT, b STRING, c DOUBLE"


def _written(rows: int) -> tuple[bytes, list[list[str]]]:
    random = np.random.default_rng(7)
    texts = ["x", 'y "z"', "a,b", "line\nend"]
    table = [
        [str(random.integers(-(10**12), 10**12)), texts[random.integers(4)], repr(float(random.normal()))]
        for _ in range(rows)
    ]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([["a", "b", "c"], *table])
    return out.getvalue().encode(), table


def test_bytes_and_files_give_the_same_table(tmp_path: Path) -> None:
    data, table = _written(3_000)
    path = tmp_path / "rows.csv"
    path.write_bytes(data)
    opened = tidemill.formats.open("csv", COLUMNS, header=True)
    found = opened.read(data)
    assert found.schema == pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
    assert [[str(r["a"]), r["b"], repr(r["c"])] for r in found.to_pylist()] == table
    for source in (path, str(path), bytearray(data), memoryview(data)):
        assert opened.read(source).equals(found)


@pytest.mark.parametrize("buffer_bytes", [1, 7, 100, 1 << 16])
def test_buffers_of_any_size(buffer_bytes: int, tmp_path: Path) -> None:
    data, table = _written(60)
    path = tmp_path / "rows.csv"
    path.write_bytes(data)
    opened = tidemill.formats.open("csv", COLUMNS, header=True)
    for source in (data, path):
        pieces = list(opened.rows(source, buffer_bytes=buffer_bytes))
        assert [v for p in pieces for v in p.batch.column("b").to_pylist()] == [row[1] for row in table]
        assert sum(p.count for p in pieces) == 60
        assert len(pieces) == -(-len(data) // buffer_bytes)


def test_columns_in_the_order_asked_for() -> None:
    opened = tidemill.formats.open("csv", COLUMNS, sep="|")
    found = opened.read(b"1|x|0.5\n2|y|1.5\n", columns=["c", "a"])
    assert found.to_pydict() == {"c": [0.5, 1.5], "a": [1, 2]}
    assert opened.read(b"1|x|0.5\n2|y|1.5\n", columns=[]).num_columns == 0
    with pytest.raises(TidemillError) as raised:
        opened.read(b"", columns=["A"])
    assert raised.value.number == "TM4006"


def test_what_is_malformed_is_told() -> None:
    errors: list[RowError] = []
    opened = tidemill.formats.open("csv", COLUMNS)
    found = opened.read(b"1,x,0.5\nnone,y,1.5\n3,z\n", errors=errors)
    assert found.column("a").to_pylist() == [1, None, 3]
    assert [(e.position, e.column, e.reason, e.raw) for e in errors] == [
        (8, "a", "bad_int64", b"none,y,1.5"),
        (19, None, "too_few_fields", b"3,z"),
    ]
    strict = tidemill.formats.open("csv", COLUMNS, mode="FAILFAST")
    with pytest.raises(FormatError, match="TM4020"):
        strict.read(b"none,y,1.5\n")


def test_nothing_to_read(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_bytes(b"")
    opened = tidemill.formats.open("csv", pa.schema([("a", pa.int64())]), header=True)
    for source in (b"", path):
        assert opened.read(source).equals(pa.table({"a": pa.array([], pa.int64())}))
    with pytest.raises(FileNotFoundError):
        opened.read(tmp_path / "absent.csv")


def test_compressed_files_and_bytes(tmp_path: Path) -> None:
    data, table = _written(500)
    plain = tidemill.formats.open("csv", COLUMNS, header=True)
    for suffix, compress in ((".gz", gzip.compress), (".bz2", bz2.compress), (".lz4", lz4.frame.compress)):
        path = tmp_path / f"rows.csv{suffix}"
        path.write_bytes(compress(data[:2000]) + compress(data[2000:]))
        assert plain.read(path).equals(plain.read(data))
    zipped = gzip.compress(data)
    named = tidemill.formats.open("csv", COLUMNS, header=True, compression="gzip")
    assert named.read(zipped).column("b").to_pylist() == [row[1] for row in table]
    errors: list[RowError] = []
    cut = named.read(zipped[: len(zipped) // 2], errors=errors)
    assert cut.equals(plain.read(data).slice(0, cut.num_rows)) and 0 < cut.num_rows < 500
    assert [e.reason for e in errors] == ["truncated_archive"]


def test_one_line_a_row_however_it_is_read(tmp_path: Path) -> None:
    """Quotes that lines leave open cost these lines alone: in files, bytes, codecs, buffers, with inferred columns."""
    lines = [b'%d,"%s"' % (i, b"a,b" * (i % 9)) if i % 50 else b'%d,"open, %d' % (i, i) for i in range(1, 2_000)]
    data = b"a,b\r\n" + b"\r\n".join(lines)
    expected = [(i, "a,b" * (i % 9) or None) if i % 50 else (i, None) for i in range(1, 2_000)]
    plain, packed = tmp_path / "rows.csv", tmp_path / "rows.csv.gz"
    plain.write_bytes(data)
    packed.write_bytes(gzip.compress(data))
    opened = tidemill.formats.open("csv", "a INT, b STRING", header=True, multiLine=False)
    ahead = tidemill.formats.open(
        "csv", "a INT, b STRING", header=True, multiLine=False, readMode="async", bufferSize=300
    )
    for source in (data, plain, packed):
        for reader in (opened, ahead):
            errors: list[RowError] = []
            found = reader.read(source, errors=errors).to_pydict()
            assert list(zip(found["a"], found["b"], strict=True)) == expected
            assert [(e.line, e.column, e.reason) for e in errors] == [
                (i + 1, "b", "bad_quote") for i in range(50, 2_000, 50)
            ]
    assert tidemill.formats.infer_schema("csv", plain, header=True, multiLine=False).to_ddl() == "`a` int, `b` string"
    inferred = tidemill.formats.open("csv", header=True, multiLine=False).read(packed)
    assert inferred.column("a").to_pylist() == [a for a, _ in expected]


def test_options_are_checked() -> None:
    for options, number in (
        ({"seperator": "|"}, "TM4005"),
        ({"sep": ""}, "TM4003"),
        ({"header": "maybe"}, "TM4003"),
    ):
        with pytest.raises(TidemillError) as raised:
            tidemill.formats.open("csv", COLUMNS, **options)
        assert raised.value.number == number
    with pytest.raises(TidemillError, match="TM4001"):
        tidemill.formats.open("cvs", COLUMNS)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tidemill.formats.open("csv", "a INT, a INT"),
        lambda: tidemill.formats.open("json", "a INT, A INT"),
        lambda: tidemill.formats.open("csv", "a INT").read(b"1\n", ["a", "a"]),
        lambda: list(tidemill.formats.open("csv", "a INT").rows(b"1\n", buffer_bytes=0)),
        lambda: tidemill.formats.open("csv", "a INT").read(None),
    ],
)
def test_calls_that_make_no_sense(call):
    with pytest.raises(TidemillError, match="TM4003"):
        call()


def test_none_is_an_option_not_given():
    opened = tidemill.formats.open("csv", "a STRING, b STRING", sep=None, nullValue=None)
    assert opened.read(b"None,x\n").to_pydict() == {"a": ["None"], "b": ["x"]}


def test_without_a_schema_in_buffers():
    opened = tidemill.formats.open("csv", header=True)
    parts = list(opened.rows(b"a,b\n1,x\n2,y\n", buffer_bytes=3))
    assert [row for part in parts for row in part.batch.to_pylist()] == [
        {"a": 1, "b": "x", "_rescued_data": None},
        {"a": 2, "b": "y", "_rescued_data": None},
    ]


@pytest.mark.parametrize("name", ["maxErrors", "opColumn", "watermark", "path", "maxFilesPerTrigger", "broadcast"])
def test_options_of_tables_are_told_apart(name):
    for schema in ("a INT", None):
        with pytest.raises(TidemillError, match="TM4005") as raised:
            tidemill.formats.open("csv", schema, **{name: "1"})
        assert raised.value.hint == f"{name} is for the tables of a mill; leave it out"


@pytest.mark.parametrize(
    ("schema", "options", "number", "hint"),
    [
        ("a INT", {"schemaHints": "a INT"}, "TM4003", "leave out the schema, or it"),
        ("a INT", {"maxConcurrentReads": 2}, "TM4003", "readMode 'async'"),
        ("a INT", {"timestampformat_": "x"}, "TM4005", "'timestampFormat'"),
        ("a INT", {"dateFormat": "EEE"}, "TM4003", "refuses"),
        ("a INT, Address STRING", {"dateFormat.adress": "yyyy"}, "TM4003", "'Address'"),
    ],
)
def test_what_options_are_for(schema, options, number, hint):
    with pytest.raises(TidemillError, match=number) as raised:
        tidemill.formats.open("csv", schema, **options)
    assert hint in raised.value.hint


def test_rescue_options_are_for_formats_that_can():
    with pytest.raises(TidemillError, match="TM4005"):
        tidemill.formats.open("parquet", rescuedDataColumn="r")
    with pytest.raises(TidemillError, match="TM4065"):
        tidemill.formats.open("parquet", "a INT", readMode="async")


def test_paths_of_columns_hint_at_columns_as_declared():
    with pytest.raises(TidemillError, match="TM4003") as raised:
        tidemill.formats.open("json", "Address STRING", **{"field.adress": "x"})
    assert raised.value.hint == "there is no such column; did you mean 'Address'?"


def test_failfast_tells_the_line(tmp_path: Path):
    data = b'1,"a\nb",2\n' * 400 + b"x,y,2\n"
    path = tmp_path / "rows.csv"
    path.write_bytes(data)
    for mode in ("sync", "async"):
        opened = tidemill.formats.open("csv", COLUMNS, mode="FAILFAST", readMode=mode, bufferSize=500)
        for source in (data, path):
            with pytest.raises(FormatError, match="TM4020") as raised:
                opened.read(source)
            assert raised.value.got == "line 801, byte 4000, column 'a', at byte 4000: bad_int64: x,y,2"


def _answers(opened, source, buffer_bytes=None):
    parts = list(opened.rows(source, buffer_bytes=buffer_bytes))
    rows = [row for part in parts for row in part.batch.to_pylist()]
    positions = [position for part in parts for position in part.positions.tolist()]
    return rows, positions, [error for part in parts for error in part.errors]


def test_asynchronous_reads_give_the_same(tmp_path: Path):
    data, _ = _written(800)
    flawed = data[:9000] + b"x,y\n" + data[9000:]
    lines = b'{"a": 1, "b": "x", "d": [1]}\n{"a": "q"}\n{broken\n' * 300
    array = b"[" + b",\n".join([b'{"a": 1, "b": "y\\n"}'] * 300) + b"]"
    cases = [
        ("csv", COLUMNS, {"header": True}, flawed),
        ("csv", COLUMNS, {"header": True, "escape": "\\"}, flawed),
        ("csv", COLUMNS + ", r STRING", {"rescuedDataColumn": "r"}, flawed),
        ("json", COLUMNS, {"rescuedDataColumn": "r"}, lines),
        ("json", COLUMNS, {}, array),
        ("native", "a BIGINT NOT NULL", {}, bytes(range(256)) * 3),
    ]
    for name, columns, options, content in cases:
        path = tmp_path / "file"
        path.write_bytes(content)
        expected = _answers(tidemill.formats.open(name, columns, **options), path)
        assert expected[0]
        for buffer_bytes in (61, 1000, None):
            opened = tidemill.formats.open(name, columns, readMode="async", maxConcurrentReads=3, **options)
            assert _answers(opened, path, buffer_bytes) == expected
            from_bytes = _answers(opened, memoryview(content), buffer_bytes)
            assert from_bytes[1:] == expected[1:]
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(flawed))
    opened = tidemill.formats.open("csv", header=True, readMode="async", bufferSize="1k")
    assert _answers(opened, path) == _answers(tidemill.formats.open("csv", header=True), path)
