"""Which line and byte errors name: the same however a file is cut, buffered or compressed, and right."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import tidemill.formats
from tidemill.formats.base import RowError
from tidemill.formats.reading.feeding import FileBytes
from tidemill.formats.text import line_numbers
from tidemill.formats.text.line_numbers import LineNumbers
from tidemill.sources.files import FileReader
from tidemill.sources.split import Split


def errors_of(format_: str, schema: str, source: bytes | Path, **options: object) -> list[RowError]:
    found: list[RowError] = []
    tidemill.formats.open(format_, schema, **options).read(source, errors=found)
    return found


def the_file(path: Path) -> tuple[FileBytes, tuple[str, int, int]]:
    status = path.stat()
    split = Split("t", str(path), 0, status.st_size, status.st_size, status.st_mtime_ns)
    return FileBytes(FileReader(split), str(path), status.st_size, {}), (str(path), split.size, split.modified)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("shared", [True, False])
def test_lines_are_newlines_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, suffix: str, shared: bool
) -> None:
    """Any positions in any order, in files of several pieces, with and without what was counted before."""
    rng = random.Random(seed)
    monkeypatch.setattr("tidemill.sources.files.BUFFER_BYTES", 97)
    monkeypatch.setattr(line_numbers, "_MARK_BYTES", 250)
    monkeypatch.setattr(line_numbers, "_MOST_FILES", 2)
    monkeypatch.setattr(line_numbers, "_FEW", rng.choice((0, 2, 200)))
    for number in range(40):
        data = bytes(rng.choice(b'ab\n\r"') for _ in range(rng.choice((0, 1, 96, 97, 98, 1500))))
        path = tmp_path / f"{number}{suffix}"
        path.write_bytes(gzip.compress(data) if suffix else data)
        for _ in range(3):
            file, key = the_file(path)
            lines = LineNumbers(file, key if shared else None)
            for _ in range(3):
                asked = [rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 1, 5)))]
                assert lines.of(asked) == [data.count(b"\n", 0, p) + 1 for p in asked]
            lines.close()
            lines.close()
    if shared and not suffix:
        assert len(line_numbers._counted) <= 2


def test_only_what_is_new_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.sources.files.BUFFER_BYTES", 100)
    monkeypatch.setattr(line_numbers, "_MARK_BYTES", 500)
    path = tmp_path / "a"
    path.write_bytes(b"123456789\n" * 1000)
    read: list[int] = []
    original = FileReader.fill
    monkeypatch.setattr(FileReader, "fill", lambda self: read.append(1) or original(self))  # type: ignore[func-returns-value]
    for at in range(0, 10_000, 1000):
        file, key = the_file(path)
        lines = LineNumbers(file, key)
        assert lines.of([at, at + 990]) == [at // 10 + 1, at // 10 + 100]
        lines.close()
    assert len(read) <= 10_000 // 100 + 10 * 6, "each split goes on near where the one before ended"


def test_nothing_is_read_twice_without_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1\n" * 1000)
    monkeypatch.setattr(LineNumbers, "_start", None)
    assert tidemill.formats.open("csv", "a INT").read(path).num_rows == 1000


CSV_CASES: list[tuple[bytes, list[tuple[int, int | None, str]]]] = [
    (b'1,"a\nb"\nx,c\n', [(3, 8, "bad_int32")]),
    (b"1,a\r\nx,b\r\n", [(2, 5, "bad_int32")]),
    (b"\n\n\nx,b", [(4, 3, "bad_int32")]),
    (b"\xef\xbb\xbfx,b\n", [(1, 3, "bad_int32")]),
    (b'1,a\xffb\n2,"\n\xe4\xb8"\n', [(1, 3, "bad_utf8"), (2, 10, "bad_utf8")]),
    (b"1\n2,a,b,c\n", [(1, 1, "too_few_fields"), (2, 6, "too_many_fields")]),
    (b'1,"a"b\n', [(1, 2, "bad_quote")]),
    (b'1,a\n2,b\n3,"c\n4,d\n', [(3, 10, "unterminated_quote")]),
]


@pytest.mark.parametrize(("data", "expected"), CSV_CASES)
def test_places_in_csv(data: bytes, expected: list[tuple[int, int | None, str]]) -> None:
    assert [(e.line, e.at, e.reason) for e in errors_of("csv", "k INT, s STRING", data)] == expected


JSON_CASES: list[tuple[str, bytes, list[tuple[int, int | None, str]]]] = [
    ("k INT, s STRING", b'{"k":1}\n{"s":"a","k": "x"}\n', [(2, 22, "bad_int32")]),
    ("k INT, s STRING", b'{"k":1}\n{"s":"a\xff"}\n', [(2, 15, "bad_utf8")]),
    ("k INT, s STRING", b'\r\n{"k":1}\n\n{"k":]}\n', [(4, 16, "bad_json")]),
    ("k INT, s STRING", b'[{"k":1},\n {"k":true},\n {"k":2}]', [(2, 16, "bad_int32")]),
    ("l ARRAY<STRING>", b'{"l":["a","b\x80"]}\n', [(1, 12, "bad_utf8")]),
    ("k INT NOT NULL", b'{"k":"1"}\n{}\n', [(1, 5, "null_in_not_null"), (2, None, "null_in_not_null")]),
]


@pytest.mark.parametrize(("schema", "data", "expected"), JSON_CASES)
def test_places_in_json(schema: str, data: bytes, expected: list[tuple[int, int | None, str]]) -> None:
    assert [(e.line, e.at, e.reason) for e in errors_of("json", schema, data)] == expected


def test_places_in_other_formats() -> None:
    fields = "t DOUBLE, id BIGINT, action STRING, volume DOUBLE, price DOUBLE"
    (error,) = errors_of("orderbook", fields, b"1.0,1,B,1,1.0\n1.0,1,Q,1,1.0\n", book="bids")
    assert (error.line, error.position, error.at, error.reason) == (2, 14, 20, "bad_action")
    frame = b'{"k":"x"}'
    data = b"".join(len(f).to_bytes(4, "little") + f for f in (b'{"k":1}', frame))
    (error,) = errors_of("frames", "k INT", data, payload="json")
    assert (error.line, error.position, error.at) == (None, 15, 15 + frame.index(b'"x"'))
    (error,) = errors_of("native", "s STRING", b"\0ok\0" + b"\0a\xffb", widths="s:3")
    assert (error.line, error.position, error.at) == (None, 4, 6)


def test_the_same_places_however_it_is_read(tmp_path: Path, seed: int) -> None:
    """Buffers of any size, compressed or not, bytes or file."""
    rng = random.Random(seed)
    rows = [
        rng.choice((f"{i},a", f'{i},"b\n{i}"', "x,c", f'{i},"\n\n",y', f"{i}", ",", "", "1,\udcff")) for i in range(300)
    ]
    data = "\n".join(rows).encode("utf-8", "surrogateescape")
    expected = errors_of("csv", "k INT, s STRING", data)
    assert len(expected) > 50
    for error in expected:
        assert error.line == data.count(b"\n", 0, error.position) + 1
        assert error.at is None or error.position <= error.at <= error.position + len(error.raw)
        if error.reason == "bad_utf8":
            assert error.at is not None and data[error.at] == 0xFF
    plain, compressed = tmp_path / "a.csv", tmp_path / "a.csv.gz"
    plain.write_bytes(data)
    compressed.write_bytes(gzip.compress(data))
    assert errors_of("csv", "k INT, s STRING", plain) == expected
    assert errors_of("csv", "k INT, s STRING", compressed) == expected
    format_ = tidemill.formats.open("csv", "k INT, s STRING")
    for size in (1, 7, 100):
        assert [e for rows_ in format_.rows(data, buffer_bytes=size) for e in rows_.errors] == expected


def test_json_values_lie_where_they_are_said_to(seed: int) -> None:
    rng = random.Random(seed)
    values = ["1", '"x"', "true", "[1,2]", '{"a":1}', "null", "1.5", '"é"']
    lines = [f'{{"o": {rng.choice(values)} , "k":{" " * rng.randrange(3)}{rng.choice(values)}}}' for _ in range(300)]
    data = "\n".join(lines).encode()
    errors = errors_of("json", "k INT", data)
    assert len(errors) > 100
    for error in errors:
        assert error.at is not None
        value, _ = json.JSONDecoder().raw_decode(data[error.at :].decode())
        assert value == json.loads(error.raw)["k"]


def test_columnar_files_have_rows_and_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"k": pa.array([1, None, 2], pa.int32())}), path)
    (error,) = errors_of("parquet", "k INT NOT NULL", path)
    assert (error.position, error.line, error.at) == (1, None, None)
