"""Tables of many columns: buffers are put together until they have rows enough, and the rows are Python's."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import random
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import tidemill.formats
from tidemill.errors import FormatError
from tidemill.formats.csv.rows import RowBuilder
from tidemill.formats.json.rows import RecordBuilder
from tidemill.formats.reading.open_split import FilePart, OpenSplit
from tidemill.formats.reading.whole_source import WholeSource
from tidemill.schema import Field, Schema

COLUMNS = 600
SCHEMA = Schema(tuple(Field(f"c{i}", pa.string() if i % 50 == 7 else pa.int32()) for i in range(COLUMNS)))
ROWS = 1250


def written(format_: str, chance: random.Random) -> tuple[bytes, list[tuple[Any, ...]]]:
    """A file, and its rows by Python's own parser."""
    out = io.StringIO()
    line = [str(chance.randrange(10_000)) for _ in range(COLUMNS)]
    lines = csv.writer(out, lineterminator="\n")
    for i in range(ROWS):
        line = [*line[1:], str(chance.randrange(100_000))]
        row: list[str] = [f"a, {v}\n{i}" if n % 50 == 7 and chance.random() < 0.02 else v for n, v in enumerate(line)]
        if format_ == "csv":
            lines.writerow(row)
        else:
            typed = (v if n % 50 == 7 else int(v) for n, v in enumerate(row))
            out.write(json.dumps(dict(zip(SCHEMA.names, typed, strict=True)), separators=(",", ":")) + "\n")
    text = out.getvalue()
    if format_ == "json":
        return text.encode(), [tuple(json.loads(record).values()) for record in text.splitlines()]
    parsed = csv.reader(io.StringIO(text))
    return text.encode(), [tuple(v if n % 50 == 7 else int(v) for n, v in enumerate(r)) for r in parsed]


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize(
    ("format_", "builder", "method"), [("csv", RowBuilder, "_build"), ("json", RecordBuilder, "build")]
)
def test_rows_are_those_of_python(format_: str, builder: type, method: str, tmp_path: Path, seed: int) -> None:
    data, expected = written(format_, random.Random(seed))
    assert len(data) > 7 << 19
    (tmp_path / "plain").write_bytes(data)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(data, 1))
    with mock.patch.object(builder, method, autospec=True, side_effect=getattr(builder, method)) as build:
        counts = {}
        for name, options in {
            "plain": {},
            "packed.gz": {},
            "plain async": {"readMode": "async"},
            "plain small": {"bufferSize": "1m"},
        }.items():
            build.reset_mock()
            found = tidemill.formats.open(format_, SCHEMA, **options).read(tmp_path / name.split()[0])
            assert tuples(found) == expected, name
            counts[name] = sum(len(call.args[1]) > 0 for call in build.call_args_list)
    least = COLUMNS * 4096
    assert counts["plain"] <= len(data) // least + 1
    assert counts["packed.gz"] <= len(data) // least + 1
    assert counts["plain small"] >= len(data) >> 20, "who gives a size of buffers gets that"


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_parts_of_a_file(format_: str, seed: int) -> None:
    """Each row is in one of them; a part ends where the next one begins, however many bytes are read at once."""
    chance = random.Random(seed)
    data, expected = written(format_, chance)
    opened = tidemill.formats.open(format_, SCHEMA)
    cuts = [0, *sorted(chance.randrange(len(data)) for _ in range(3)), len(data)]
    tables, quotes = [], False
    for start, end in itertools.pairwise(cuts):
        part = FilePart("", start, end, len(data), in_quotes=quotes)
        with OpenSplit(opened.reader(), WholeSource(data, 1 << 20, {}), part, {}) as split:
            tables += [pa.Table.from_batches([rows.batch]) for rows in split if rows.count]
            quotes ^= bool(split.quote_parity)
    assert tuples(pa.concat_tables(tables)) == expected


LONG = [f"a column with a name of some length, number {i}" for i in range(3000)]


def long_header(width: int, last: str) -> bytes:
    """A header of which the first 64 KiB, or 512 KiB, end behind ``price``, where ``price_old`` has more."""
    head = ",".join(f'"{name} of {width}"' for name in LONG * 4)
    cut = head[: (1 << 16 if width == 1 else 1 << 19) - len(",price")]
    return (cut[: cut.rindex(",")] + "," + "z" * (len(cut) - cut.rindex(",") - 1) + ",price_old,price" + last).encode()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("width", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
@pytest.mark.parametrize("options", [{}, {"readMode": "async"}, {"rescuedDataColumn": "rest"}], ids=str)
def test_headers_of_any_length(options: dict[str, str], mode: str, width: int, packed: bool, tmp_path: Path) -> None:
    """They are read to their end; a part of them may look like a whole one."""
    header = long_header(width, "")
    assert header[: 1 << (16 if width == 1 else 19)].endswith(b",price")
    count = len(next(csv.reader([header.decode()])))
    data = header + b"\n" + b"".join(b"1," * (count - 2) + b"111,222\n" for _ in range(3))
    path = tmp_path / ("wide.csv.gz" if packed else "wide.csv")
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    if options.get("readMode") and packed:
        options = {}
    columns = "price INT, price_old INT" + (", rest STRING" if "rescuedDataColumn" in options else "")
    opened = tidemill.formats.open("csv", columns, header="true", mode=mode, **options)
    found = opened.read(path, ["price", "price_old"])
    assert found.to_pylist() == [{"price": 222, "price_old": 111}] * 3


def test_what_is_wrong_first_is_told_first(seed: int) -> None:
    """A bad value before the damage of a compressed file, in bytes that are read together with it."""
    data, _ = written("csv", random.Random(seed))
    packed = gzip.compress(b"x" + data, 1)[:-3000]
    part = FilePart("a.csv.gz", 0, len(packed), len(packed))
    reader = tidemill.formats.open("csv", SCHEMA, mode="FAILFAST").reader()
    with (
        OpenSplit(reader, WholeSource(packed, 1 << 16, {}), part, {"mode": "FAILFAST"}, intact=True) as split,
        pytest.raises(FormatError, match="TM4020"),
    ):
        list(split)
    reader = tidemill.formats.open("csv", SCHEMA).reader()
    with (
        OpenSplit(reader, WholeSource(packed, 1 << 16, {}), part, {}, intact=True) as split,
        pytest.raises(FormatError, match="TM4045"),
    ):
        list(split)
