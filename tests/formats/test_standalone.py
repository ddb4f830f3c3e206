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
