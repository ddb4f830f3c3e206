"""Generated rows: the columns are those of the scalar twin, whatever is asked for; bad settings are refused."""

from __future__ import annotations

import datetime
import io
import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from tests.formats.generator_reference import value_of

import tidemill.formats
from tidemill.connectors.generated import GeneratedLocation, parse_generated_place, parse_pace
from tidemill.ddl import parse_columns
from tidemill.errors import TidemillError
from tidemill.formats.generator.columns import column_of
from tidemill.formats.generator.format import GeneratorFormat, row_bytes
from tidemill.formats.generator.settings import shapes_of

COLUMNS = """
b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, f4 FLOAT, f8 DOUBLE, d1 DECIMAL(9,2), d2 DECIMAL(38,18),
d3 DECIMAL(38,0), s STRING, x BINARY, day DATE, t TIMESTAMP, n TIMESTAMP_NTZ,
l ARRAY<INT>, m MAP<STRING, DOUBLE>, k MAP<INT, ARRAY<STRING>>, r STRUCT<a: INT, b: STRUCT<c: STRING, d: DATE>>
"""
OPTIONS = {
    "seed": "42",
    "rowspersecond": "300",
    "fields.i2.min": "-3",
    "fields.i2.max": "3",
    "fields.i8.nullrate": "0.25",
    "fields.f8.min": "-1e3",
    "fields.f8.max": "1e3",
    "fields.d1.min": "0.01",
    "fields.d1.max": "9.99",
    "fields.s.length": "25",
    "fields.s.nullrate": "0.5",
    "fields.x.length": "11",
    "fields.day.min": "2024-01-01",
    "fields.day.max": "2024-01-02",
    "fields.t.min": "2024-01-01 00:00:00+02:00",
    "fields.t.max": "2024-01-01",
    "fields.l.length": "4",
    "fields.l.nullrate": ".1",
    "fields.l.element.max": "9",
    "fields.l.element.nullrate": "0.3",
    "fields.k.value.element.length": "2",
    "fields.r.a.min": "7",
    "fields.r.b.c.length": "1",
    "fields.r.b.nullrate": "0.4",
}
SEQUENCES = {
    **{f"fields.{c}.kind": "sequence" for c in ("i1", "i4", "i8", "f4", "f8", "d2", "s", "day", "t", "n")},
    "fields.i4.start": "2147483600",
    "fields.i8.start": "-5",
    "fields.d2.start": "1.5",
    "fields.day.start": "9999-12-30",
    "fields.t.start": "2024-02-28T23:59:59.5Z",
    "rowspersecond": "0.3",
}


@pytest.mark.parametrize("options", [{}, OPTIONS, SEQUENCES], ids=["plain", "settings", "sequences"])
def test_columns_are_those_of_the_twin(seed: int, options: dict[str, str]) -> None:
    rng = random.Random(seed)
    schema = parse_columns(COLUMNS)
    starts = [0, 10**6, rng.randrange(10**14)]
    rows = [row + i for row in starts for i in range(150)]
    for shape in shapes_of(schema, options):
        for number in (0, rng.randrange(10**17), -1):
            found = column_of(shape, number, np.array(rows, np.uint64))
            found.validate(full=True)
            assert found.type == shape.type
            assert found.to_pylist() == [value_of(shape, number, row) for row in rows], shape.name


def test_bounds_are_kept_and_reached() -> None:
    table = tidemill.formats.open("generator", COLUMNS, **OPTIONS, numberOfRows=20_000).read(b"")
    assert set(table["i2"].to_pylist()) == set(range(-3, 4))
    assert set(table["day"].to_pylist()) == {datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)}
    times = table["t"].to_pylist()
    low, high = (
        datetime.datetime(2023, 12, 31, 22, tzinfo=datetime.UTC),
        datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    )
    assert low <= min(times) < low + datetime.timedelta(minutes=1) and max(times) <= high
    cents = {int(v * 100) for v in table["d1"].to_pylist()}
    assert cents == set(range(1, 1000))
    assert -1000 <= min(table["f8"].to_pylist()) < -990 and 990 < max(table["f8"].to_pylist()) < 1000
    assert 0.22 < table["i8"].null_count / 20_000 < 0.28
    assert 0.47 < table["s"].null_count / 20_000 < 0.53
    letters = "".join(v for v in table["s"].to_pylist() if v)
    assert len(set(letters)) == 32 and max(map(letters.count, set(letters))) < 1.05 * len(letters) / 32


def test_a_column_does_not_depend_on_others() -> None:
    alone = tidemill.formats.open("generator", "f8 DOUBLE", seed=7, numberOfRows=100).read(b"")
    beside = tidemill.formats.open("generator", COLUMNS, seed=7, numberOfRows=100).read(b"", ["s", "f8"])
    assert alone["f8"] == beside["f8"] and beside.column_names == ["s", "f8"]
    other = tidemill.formats.open("generator", "f8 DOUBLE", seed=8, numberOfRows=100).read(b"")
    assert alone["f8"] != other["f8"]


def test_any_parts_are_the_whole(seed: int) -> None:
    rng = random.Random(seed)
    schema = parse_columns("a INT, s STRING")
    width = row_bytes(schema, {})
    assert width == 4 + 10
    reader = GeneratorFormat().reader(schema, {}, ["s", "a"])
    cuts = sorted({0, 1000 * width, *(rng.randrange(1000 * width) for _ in range(9))})
    found = []
    for start, end in pairwise(cuts):
        for rows in reader.rows(io.BytesIO(), start=start, end=end, file_size=10**9):
            assert rows.positions.tolist() == list(range(rows.positions[0], rows.positions[0] + rows.count))
            found.append(rows.batch)
    whole = tidemill.formats.open("generator", "a INT, s STRING", numberOfRows=1000).read(b"", ["s", "a"])
    assert pa.Table.from_batches(found).to_pylist() == whole.to_pylist()
    (none,) = GeneratorFormat().reader(schema, {}, []).rows(io.BytesIO(), start=0, end=5 * width, file_size=10**9)
    assert (none.count, none.batch.num_rows, none.batch.num_columns) == (5, 5, 0)


@pytest.mark.parametrize(
    ("options", "seconds", "rows"),
    [
        ({}, "1", 10_000),
        ({"rowspersecond": "3"}, "1/2", 1),
        ({"rowspersecond": "0.1"}, "99", 9),
        ({"rowspersecond": "5", "numberofrows": "7"}, "1", 5),
        ({"rowspersecond": "5", "numberofrows": "7"}, "2", 7),
        ({"numberofrows": "7"}, "0", 7),
        ({"numberofrows": "70", "fields.a.start": "-5", "fields.a.end": "4"}, "0", 10),
        ({"rowspersecond": "5"}, "-3", 0),
    ],
)
def test_how_many_rows_there_are(options: dict[str, str], seconds: str, rows: int) -> None:
    pace = parse_pace(options)
    assert pace.available(Fraction(seconds)) == rows
    place = parse_generated_place(GeneratedLocation(5 * 10**6, 12).path)
    assert place.rows(pace, 5 + float(Fraction(seconds))) == rows and place.row_bytes == 12


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({"rowsPerSecond": "0"}, "TM4003"),
        ({"rowsPerSecond": "fast"}, "TM4003"),
        ({"numberOfRows": "-1"}, "TM4003"),
        ({"seed": "x"}, "TM4003"),
        ({"fields.i4.kind": "normal"}, "TM4003"),
        ({"fields.x.kind": "sequence"}, "TM4003"),
        ({"fields.b.kind": "sequence"}, "TM4005"),
        ({"fields.i1.max": "128"}, "TM4003"),
        ({"fields.i1.min": "5", "fields.i1.max": "4"}, "TM4003"),
        ({"fields.d1.min": "0.001"}, "TM4003"),
        ({"fields.f8.max": "nan"}, "TM4003"),
        ({"fields.day.min": "yesterday"}, "TM4003"),
        ({"fields.n.min": "2024-01-01T00:00:00Z"}, "TM4003"),
        ({"fields.s.length": "0"}, "TM4003"),
        ({"fields.s.min": "a"}, "TM4005"),
        ({"fields.s.nullRate": "1.1"}, "TM4003"),
        ({"fields.q.nullRate": "1"}, "TM4003"),
        ({"fields.zzz.min": "1"}, "TM4005"),
        ({"fields.i4.mim": "1"}, "TM4005"),
        ({"fields.i4.start": "1"}, "TM4005"),
        ({"fields.i4.kind": "sequence", "fields.i4.end": "-1"}, "TM4003"),
        ({"fields.d1.kind": "sequence"}, "TM4003"),
        ({"rowsPerMinute": "5"}, "TM4005"),
    ],
)
def test_bad_settings(options: dict[str, str], number: str) -> None:
    with pytest.raises(TidemillError, match=number):
        schema = parse_columns(COLUMNS + ", q INT NOT NULL")
        tidemill.formats.open("generator", schema, **options)


def test_keys_of_maps() -> None:
    with pytest.raises(TidemillError, match="TM4004"):
        tidemill.formats.open("generator", "m MAP<DATE, INT>")
    with pytest.raises(TidemillError, match="TM4003"):
        tidemill.formats.open("generator", "a INT").read(b"")
