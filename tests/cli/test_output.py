"""Tables as text: aligned for people, exact for programs."""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import random
import struct
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest

from tidemill.cli.query import output
from tidemill.cli.query.change_table import as_text
from tidemill.errors import TidemillError


def written(table: pa.Table, format_: str) -> str:
    stream = io.BytesIO()
    output.write(table, format_, stream)
    return stream.getvalue().decode()


def test_every_float_survives_csv_and_json(seed: int) -> None:
    chance = random.Random(seed)
    values = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(2000)]
    values = [v for v in values if math.isfinite(v)] + [0.1, -0.0, 5e-324, 1.7976931348623157e308]
    table = pa.table({"x": values})
    assert [float(line) for line in written(table, "csv").splitlines()[1:]] == values
    assert [json.loads(line)["x"] for line in written(table, "json").splitlines()] == values


@pytest.mark.parametrize("format_", ["table", "csv", "json", "arrow"])
def test_rows_in_parts_are_written_as_together(format_: str) -> None:
    made = []
    together = pa.table({"k": [1, 2, 3], "t": ["a", None, "long text"], "l": [[1], None, [2, 3]]})

    def parts() -> Iterator[pa.Table]:
        for row in range(3):
            made.append((row, stream.tell()))
            yield together.slice(row, 1)

    stream = io.BytesIO()
    output.write_parts(parts(), format_, stream)
    if format_ == "arrow":
        assert pa.ipc.open_stream(stream.getvalue()).read_all() == together
    else:
        assert stream.getvalue().decode() == written(together, format_)
    if format_ != "table":
        assert made[1][1] < made[2][1] < stream.tell(), "a row is written before the next one is asked for"


def test_csv_tells_null_from_empty_text() -> None:
    text = written(pa.table({"s": ["", None, 'a "b", c\nd']}), "csv")
    assert text == '"s"\n""\n\n"a ""b"", c\nd"\n'
    assert list(csv.reader(io.StringIO(text)))[-1] == ['a "b", c\nd']


def test_types_that_csv_and_json_lack() -> None:
    table = pa.table(
        {
            "d": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
            "t": pa.array([datetime.datetime(2024, 2, 29, 1, 2, 3, 400), None], pa.timestamp("us", "UTC")),
            "b": pa.array([b"a\xff", None], pa.binary()),
            "day": pa.array([datetime.date(2024, 2, 29), None]),
            "flag": pa.array([True, None]),
        }
    )
    rows = list(csv.reader(io.StringIO(written(table, "csv"))))
    assert rows[1:] == [["1.50", "2024-02-29 01:02:03.000400", "a\\xff", "2024-02-29", "true"], [""] * 5]
    first, second = map(json.loads, written(table, "json").splitlines())
    assert list(first.values()) == ["1.50", "2024-02-29 01:02:03.000400", "a\\xff", "2024-02-29", True]
    assert set(second.values()) == {None}


def test_nested_values_in_json() -> None:
    table = pa.table({"l": [[1.0, math.nan]], "s": [{"d": datetime.date(2024, 1, 1), "x": -math.inf}]})
    assert json.loads(written(table, "json")) == {"l": [1.0, "NaN"], "s": {"d": "2024-01-01", "x": "-Infinity"}}


def test_empty_table() -> None:
    table = pa.table({"a": pa.array([], pa.int64())})
    assert written(table, "table") == "a\n-\n(0 rows)\n"
    assert written(table, "csv") == '"a"\n'
    assert written(table, "json") == ""


def test_long_text_is_cut_for_people_only() -> None:
    table = pa.table({"s": ["x" * 100]})
    assert max(map(len, written(table, "table").splitlines())) == 60
    assert "x" * 100 in written(table, "csv")


def test_unknown_format() -> None:
    with pytest.raises(TidemillError, match="TM7002"):
        output.write(pa.table({}), "xlsx", io.BytesIO())


def test_years_that_python_lacks() -> None:
    """Spark has them, and writes them so; the other rows are as ever."""
    micros = [253_402_300_800_000_001, 0, None, -62_135_596_800_000_001]
    days = pa.array([2_932_897, 0, None, -719_163], pa.int32()).cast(pa.date32())
    at = pa.array(micros).cast(pa.timestamp("us", "+02:00"))
    nested = pa.StructArray.from_arrays([days, pa.array([[m] for m in at], pa.list_(at.type))], ["d", "l"])
    table = pa.table({"d": days, "at": at, "n": pa.array(micros).cast(pa.timestamp("us")), "s": nested})
    plain = ["+10000-01-01 00:00:00.000001", "1970-01-01 00:00:00", "", "0000-12-31 23:59:59.999999"]
    dates = ["+10000-01-01", "1970-01-01", "", "0000-12-31"]
    there = ["+10000-01-01 02:00:00.000001", "1970-01-01 02:00:00", "", "0001-01-01 01:59:59.999999"]
    lines = list(map(json.loads, written(table, "json").splitlines()))
    for row, line in enumerate(lines):
        zoned = there[row] and f"{there[row]}+02:00"
        expected = [text or None for text in (dates[row], zoned, plain[row])]
        assert [line["d"], line["at"], line["n"]] == expected
        assert line["s"] == {"d": expected[0], "l": [expected[1]]}
    rows = list(csv.reader(io.StringIO(written(table, "csv"))))[1:]
    assert [row[:3] for row in rows] == [
        [d, t and f"{t}+02:00", n] for d, t, n in zip(dates, there, plain, strict=True)
    ]
    for row, line in enumerate(written(table, "table").splitlines()[2:-1]):
        shown = [text or "NULL" for text in (dates[row], there[row], plain[row])]
        nested_text = "NULL, [NULL]" if shown[0] == "NULL" else f"{shown[0]}, [{shown[1]}]"
        assert all(text in line for text in (*shown, nested_text)), line
    changes = table.append_column("__weight", pa.array([1, -1, 1, 1]))
    assert "+10000-01-01" in as_text(changes)
