"""Compressed files read part by part: the rows of all parts are those of the file, wherever it is cut."""

from __future__ import annotations

import bz2
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

import lz4.frame
import pyarrow as pa
import pytest
from backports import zstd

from tidemill.errors import FormatError
from tidemill.formats.base import RowReader
from tidemill.formats.reading.codecs import BUFFER_BYTES
from tidemill.formats.reading.feeding import feed, file_bytes, open_split
from tidemill.formats.rows.malformed import Mode
from tidemill.formats.standalone.standalone import open_format
from tidemill.schema import Field, Schema
from tidemill.sources.files import FileReader
from tidemill.sources.split import Split

CODECS = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstd.compress, ".lz4": lz4.frame.compress}
SCHEMA = Schema((Field("k", pa.int64()), Field("s", pa.string())))
Row = tuple[object, ...]
_QUOTED = {"header": "true", "sep": "||", "escape": "\\"}


def _texts(chance: random.Random, count: int) -> list[str]:
    pieces = ["plain", "a,b", "two\nlines", 'x\n1,"2', "naïve ↯", "", "long " * 40, "\n\n"]
    return ["".join(chance.choices(pieces, k=chance.randrange(3))) for _ in range(count)]


def _csv(chance: random.Random, count: int) -> bytes:
    lines = "".join('{},"{}"\n'.format(i, t.replace('"', '""')) for i, t in enumerate(_texts(chance, count)))
    return f"k,s\n{lines}".encode().removesuffix(chance.choice((b"", b"\n")))


def _delimited(chance: random.Random, count: int) -> bytes:
    texts = (t.replace("\\", "").replace('"', '\\"') for t in _texts(chance, count))
    return (
        ("k||s\n" + "".join(f'{i}||"{t}"\n' for i, t in enumerate(texts)))
        .encode()
        .removesuffix(chance.choice((b"", b"\n")))
    )


def _json(chance: random.Random, count: int) -> bytes:
    return "".join(json.dumps({"s": t, "k": i}) + "\n" for i, t in enumerate(_texts(chance, count))).encode()


def _array(chance: random.Random, count: int) -> bytes:
    return json.dumps([{"s": t, "k": i} for i, t in enumerate(_texts(chance, count))]).encode()


KINDS = {
    "csv": ("csv", {"header": "true"}, _csv),
    "delimited": ("csv", _QUOTED, _delimited),
    "json": ("json", {}, _json),
    "array": ("json", {}, _array),
}


def parts(path: Path, reader: RowReader, options: dict[str, str], ends: Iterator[int]) -> list[list[Row]]:
    """The rows of each part of a file; parts end at ``ends``, decoded bytes, until the file is at its end."""
    status, found, start, encoded, in_quotes = path.stat(), [], 0, 0, False
    while encoded < status.st_size:
        end = next(ends)
        split = Split("t", str(path), 0, status.st_size, status.st_size, status.st_mtime_ns)
        file = file_bytes(FileReader(split, 700), str(path), split.size, split.end, options, intact=True)
        part = open_split(reader, file, start=start, end=end, size=split.size, in_quotes=in_quotes, part=True)
        rows: list[Row] = []
        for some in feed(part, file, Mode.PERMISSIVE):
            assert not some.errors
            rows += zip(*(c.to_pylist() for c in some.batch.columns), strict=True)
        file.close()
        assert file.encoded is not None and file.encoded >= encoded
        found.append(rows)
        start, encoded, in_quotes = end, file.encoded, in_quotes ^ bool(part.quote_parity)
    return found


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", KINDS)
def test_all_parts_together_are_the_file(tmp_path: Path, seed: int, kind: str, codec: str) -> None:
    chance = random.Random(f"{seed} {kind} {codec}")
    name, options, write = KINDS[kind]
    opened = open_format(name, SCHEMA, **options)
    reader = opened.reader()
    assert isinstance(reader, RowReader)
    for count in (0, 1, 40, 40, 40):
        data = write(chance, count)
        path = tmp_path / f"a{codec}"
        path.write_bytes(b"".join(CODECS[codec](data[i : i + 999]) for i in range(0, max(len(data), 1), 999)))
        whole = opened.read(data).to_pydict()
        expected = list(zip(whole["k"], whole["s"], strict=True))
        assert len(expected) == count
        for most in (1, 4, 17, 400, len(data), len(data) + 1):
            cuts = _ends(chance, max(most, len(data) // 60, 1))
            found = parts(path, reader, options, cuts)
            assert [row for rows in found for row in rows] == expected
            assert kind != "array" or len(found) == 1


def _ends(chance: random.Random, most: int) -> Iterator[int]:
    end = 0
    while True:
        end += chance.randrange(max(most // 2, 1), most + 1)
        yield end


def test_the_end_of_a_part_in_the_last_buffer_is_not_the_end_of_the_file(tmp_path: Path) -> None:
    lines = b"".join(b"%d,x\n" % i for i in range(800_000))
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(lines))
    reader = open_format("csv", SCHEMA).reader()
    assert isinstance(reader, RowReader)
    assert len(lines) > 3 * BUFFER_BYTES
    for end in (len(lines) - 9, len(lines) // BUFFER_BYTES * BUFFER_BYTES, len(lines) - len(b"399999,x\n")):
        first, *others = parts(path, reader, {}, iter((end, len(lines), len(lines) + 9)))
        assert first == [(i, "x") for i in range(len(first))]
        assert [row for rows in others for row in rows] == [(i, "x") for i in range(len(first), 800_000)]
        assert len(first) == lines[:end].count(b"\n") + (lines[end - 1 : end] != b"\n")


@pytest.mark.parametrize("text", ["a,b", "a\nb", "a"])
def test_quotes_behind_the_end_of_a_part_in_the_last_row(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv.gz"
    reader = open_format("csv", SCHEMA).reader()
    assert isinstance(reader, RowReader)
    for last in ("", "\n"):
        data = f'1,x\n2,"{text}"{last}'.encode()
        path.write_bytes(gzip.compress(data))
        for end in range(1, len(data) + 1):
            found = parts(path, reader, {}, iter((end, end + 1, len(data), len(data) + 1)))
            assert [row for rows in found for row in rows] == [(1, "x"), (2, text)]


def test_a_file_that_is_damaged_behind_its_first_part_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    data = bytearray(gzip.compress(b"".join(b"%d,x\n" % i for i in range(10_000))))
    data[-6] ^= 1
    path.write_bytes(data)
    reader = open_format("csv", SCHEMA).reader()
    assert isinstance(reader, RowReader)
    with pytest.raises(FormatError, match="TM4045") as caught:
        parts(path, reader, {}, iter((100,)))
    assert "none of its rows count" in caught.value.hint
