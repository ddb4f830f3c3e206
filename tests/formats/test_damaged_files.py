"""Files of good rows, damaged in some lines: the rows around the damage are kept, and nothing raises.

``make damage`` reads thousands. Spark reads the same files; what Tidemill does not call malformed is as in Spark.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidemill.formats
from tidemill.formats.base import RowError

FILES = int(os.environ.get("TIDEMILL_DAMAGED_FILES", "60"))
COLUMNS = "id BIGINT, s STRING, x DOUBLE, a ARRAY<INT>"
TEXTS = ("plain", "", "a,b", 'say "hi"', "zażółć 🙂", " blank ", "it's", "x" * 70, "{[", "\\", "NULL")
NOISE = (
    b'"', b"'", b",", b"\\", b"[", b"]", b"{", b"}", b":", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\t", b" ", b"1", b"e",
    b"-", b'""', b'","', b'\\"', b"\xc3", b"\xed\xa0\x80", b"#", b"\x1e", b"null", b"\\u12",
)  # fmt: skip


def csv_line(rng: random.Random, number: int) -> bytes:
    text = rng.choice(TEXTS)
    if rng.random() < 0.4 or any(c in text for c in ',"') or text == "":
        text = '"' + text.replace('"', '""') + '"'
    return f"{number},{text},{rng.randrange(1000) / 8}".encode()


def json_line(rng: random.Random, number: int) -> bytes:
    row = {
        "id": number,
        "s": rng.choice(TEXTS),
        "x": rng.randrange(1000) / 8,
        "a": [rng.randrange(9)] * rng.randrange(3),
    }
    names = rng.sample(list(row), 4)
    return json.dumps({name: row[name] for name in names}, ensure_ascii=rng.random() < 0.3).encode()


def damaged(rng: random.Random, line: bytes, format_: str) -> bytes:
    """One line with something wrong in it, or perhaps not; never with a line end, or a name of 50,000 characters."""
    at, kind = rng.randrange(len(line) + 1), rng.randrange(8)
    if kind == 0:
        return line[:at]
    if kind == 1:
        return line[:at] + line[at + rng.randrange(1, 4) :]
    if kind == 2:
        return line[:at] + rng.randbytes(rng.randrange(1, 5)).replace(b"\n", b"?").replace(b"\r", b"?") + line[at:]
    if kind == 3:
        return rng.choice(NOISE) + line
    if kind == 4:
        return line + rng.choice(NOISE)
    if kind == 5:
        return line[:at] + rng.choice((b"[" * 2000, b'{"a":' * 600, b"x" * 45_000, b'"' * 1001)) + line[at:]
    if kind == 6:
        return line + (b"," if format_ == "csv" else b"") + line
    return line[:at] + rng.choice(NOISE) + line[at : at + 3] + rng.choice(NOISE) + line[at + 3 :]


def make_file(rng: random.Random, format_: str) -> tuple[list[bytes], set[int], bytes]:
    """Lines, which of them are damaged, and the file."""
    make = csv_line if format_ == "csv" else json_line
    lines = [make(rng, number) for number in range(rng.randrange(2, 40))]
    chosen = set(rng.sample(range(len(lines)), min(len(lines), rng.randrange(1, 4))))
    if rng.random() < 0.3:
        chosen.add(0)  # what a file is shows at its beginning
    for number in chosen:
        lines[number] = damaged(rng, lines[number], format_) or b"x"
    ends = [rng.choice((b"\n", b"\n", b"\r\n")) for _ in lines]
    if rng.random() < 0.3:
        ends[-1] = b""
    mark = b"\xef\xbb\xbf" if rng.random() < 0.2 else b""
    return lines, chosen, mark + b"".join(line + end for line, end in zip(lines, ends, strict=True))


def opened(format_: str, **options: Any) -> tidemill.formats.OpenFormat:
    columns = COLUMNS if format_ == "json" else COLUMNS.rpartition(",")[0]
    return tidemill.formats.open(format_, columns, **options)


def good_row(line: bytes, format_: str) -> dict[str, Any]:
    """What an undamaged line says."""
    if format_ == "json":
        return dict(json.loads(line))
    number, _, rest = line.decode().partition(",")
    text, _, x = rest.rpartition(",")
    text = text[1:-1].replace('""', '"') if text.startswith('"') else text
    return {"id": int(number), "s": text or None, "x": float(x)}


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_lines_around_the_damage_are_kept(spark: SparkSession, tmp_path: Path, seed: int, format_: str) -> None:
    rng = random.Random(f"{seed} {format_}")
    options: dict[str, Any] = {"multiLine": False} if format_ == "csv" else {}
    reader = opened(format_, **options)
    found: dict[str, tuple[list[dict[str, Any]], list[bool]]] = {}
    filled_lines: dict[str, list[bytes]] = {}
    for i in range(FILES):
        lines, chosen, data = make_file(rng, format_)
        errors: list[RowError] = []
        rows = [row for part in reader.rows(data, None, rng.choice((None, 97, 1 << 20))) for row in _rows(part, errors)]
        positions = {error.position for error in errors}
        wrong = [position in positions for position, _ in rows]
        assert len(positions) == sum(wrong), "what is malformed is counted once, and kept"
        filled = [n for n, line in enumerate(lines) if n not in chosen or line.strip(b" \t")]
        blank = [n for n, line in enumerate(lines) if not line.strip(b" \t")]
        if format_ == "json" or not blank:
            assert len(rows) == len(filled), data
            for n, (_, row) in zip(filled, rows, strict=True):
                if n not in chosen:
                    assert row == good_row(lines[n], format_), data
            name = f"{i:05}.txt"
            (tmp_path / name).write_bytes(data.replace(b"\r\n", b"\n"))
            found[name] = [row for _, row in rows], wrong
            filled_lines[name] = [lines[n] for n in filled]
    schema = COLUMNS if format_ == "json" else COLUMNS.rpartition(",")[0]
    settings = {"escape": '"'} if format_ == "csv" else {}
    frame = spark.read.format(format_).options(**settings).schema(schema).load(str(tmp_path))
    theirs: dict[str, list[dict[str, Any]]] = {}
    for row in frame.selectExpr("_metadata.file_name AS file", "*").collect():
        theirs.setdefault(row["file"], []).append({k: v for k, v in row.asDict().items() if k != "file"})
    compared = 0
    for name, (rows, wrong) in found.items():
        data = (tmp_path / name).read_bytes()
        if len(theirs.get(name, [])) != len(rows):
            # A line that begins with NUL is a comment of Spark's, and an array of JSON is no row or several
            assert b"\n\x00" in data or data.startswith((b"\x00", b"[")) or b"\n[" in data, data
            continue
        for ours, spark_row, malformed, line in zip(rows, theirs[name], wrong, filled_lines[name], strict=True):
            # Spark leaves out NUL within quotes, and minds names that are not UTF-8
            if not malformed and b"\x00" not in line and line.decode(errors="ignore").encode() == line:
                compared += 1
                assert ours == spark_row, line
    assert compared > 5 * FILES


def _rows(part: Any, errors: list[RowError]) -> list[tuple[int, dict[str, Any]]]:
    errors += part.errors
    return list(zip(part.positions.tolist(), part.batch.to_pylist(), strict=True))


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_files_of_rows_that_span_lines(seed: int, format_: str) -> None:
    """Quotes and brackets may take what is behind them, but not what is before."""
    rng = random.Random(f"{seed} {format_} many")
    reader = opened(format_, multiLine=True)
    for _ in range(FILES):
        lines, chosen, data = make_file(rng, format_)
        if format_ == "json":
            data = b"[" + b",\n".join(lines) + b"]"
        errors: list[RowError] = []
        rows = reader.read(data, errors=errors).to_pylist()
        before = [good_row(line, format_) for line in lines[: min(chosen)]]
        assert rows[: len(before)] == before, data
        assert all(0 <= error.position <= len(data) for error in errors)
        if format_ == "csv" and not any(b'"' in lines[n] for n in chosen):
            kept = [row for row in rows if row["id"] is not None]
            for n in range(len(lines)):
                assert n in chosen or good_row(lines[n], format_) in kept, data


def test_files_of_anything(seed: int) -> None:
    """Random bytes, mixed line ends, NULs: nothing raises, every row is counted, in buffers of any size alike."""
    rng = random.Random(f"{seed} anything")
    pieces = (*NOISE, b"\n", b"\n", b"\r", b"\r\n", b"1,a,2\n", b'{"id":1}\n', b'3,"x\ny",4\n', b"[1]\n")
    for _ in range(FILES):
        data = b"".join(
            rng.choice(pieces) if rng.random() < 0.9 else rng.randbytes(9) for _ in range(rng.randrange(60))
        )
        data = rng.choice((b"", b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")) + data
        for format_, options in (("csv", {}), ("csv", {"multiLine": False}), ("json", {})):
            reader = opened(format_, **options)
            errors: list[RowError] = []
            whole = reader.read(data, errors=errors)
            parts = list(reader.rows(data, None, rng.randrange(1, 40)))
            assert [r for part in parts for r in part.batch.to_pylist()] == whole.to_pylist(), data
            assert [(e.position, e.reason) for part in parts for e in part.errors] == [
                (e.position, e.reason) for e in errors
            ], data
            dropping = opened(format_, mode="DROPMALFORMED", **options).read(data)
            kept_rows = {e.position for e in errors if not e.dropped}
            assert len(dropping) == len(whole) - len(kept_rows), data
