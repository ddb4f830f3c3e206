"""Values as texts in JSON, CSV and the lines of sinks, against Python's own texts of them."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
import random
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidemill.schema import DAY_TIME, TIMESTAMP, TIMESTAMP_NTZ, WEIGHT, YEAR_MONTH
from tidemill.serve.encoding import json_rows
from tidemill.serve.encoding.formats import format_of
from tidemill.sinks import json_lines
from tidemill.task.functions.times.time_text import date_text, timestamp_text

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LEAST, MOST = dt.datetime(1, 1, 2, tzinfo=dt.UTC), dt.datetime(9999, 12, 30, tzinfo=dt.UTC)
"""A day within the years that Python has, whatever the zone."""


def moments(chance: random.Random) -> list[dt.datetime | None]:
    """Instants with all kinds of fractions in the years 1 to 9999, many of them near 1970 and now."""
    microsecond = dt.timedelta(microseconds=1)
    found = [LEAST + chance.randrange((MOST - LEAST) // microsecond) * microsecond for _ in range(1000)]
    found += [EPOCH + n * microsecond for n in (-1_000_000, -999, -1, 0, 1, 999, 1000, 999_999)]
    found += [EPOCH + chance.randrange(-(10**15), 2 * 10**15) * microsecond for _ in range(1000)]
    return [*found, *(m.replace(microsecond=0) for m in found[:20]), None]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "-11:30"])
def test_timestamps_keep_their_microseconds(seed: int, zone: str) -> None:
    values = moments(random.Random(seed))
    offset = dt.timezone(-dt.timedelta(hours=11, minutes=30)) if zone == "-11:30" else ZoneInfo(zone)
    zoned = [None if v is None else v.astimezone(offset).isoformat(timespec="microseconds") for v in values]
    zoned = [None if v is None else v.removesuffix("+00:00") + "Z" * v.endswith("+00:00") for v in zoned]
    plain = [None if v is None else v.replace(tzinfo=None).isoformat(timespec="microseconds") for v in values]
    naive = [None if v is None else v.replace(tzinfo=None) for v in values]
    columns = [pa.array(values, TIMESTAMP), pa.array(naive, TIMESTAMP_NTZ)]
    lists = pa.array([[v] for v in values], pa.list_(TIMESTAMP))
    table = pa.Table.from_arrays([*columns, lists], names=["t", "n", "l"])
    wanted = list(zip(zoned, plain, strict=True))

    answer = json.loads(b"".join(json_rows.result(1, [table], zone)))
    assert answer["rows"] == [[t, n, [t]] for t, n in wanted]
    text = b"".join(format_of("csv").body([table.drop_columns(["l"])], zone)).decode()
    assert list(csv.reader(io.StringIO(text)))[1:] == [[t or "", n or ""] for t, n in wanted]
    lines = b"".join(json_lines.lines(table, zone)).splitlines()
    assert [json.loads(line) for line in lines] == [{"t": t, "n": n, "l": [t]} for t, n in wanted]
    weighted = table.append_column(WEIGHT, pa.repeat(pa.scalar(1), len(values)))
    changes = json.loads(json_rows.changes(1, "v", weighted, zone))["changes"]
    assert changes == [{"weight": 1, "t": t, "n": n, "l": [t]} for t, n in wanted]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_all_years_are_written_as_spark_writes_them(spark: SparkSession, seed: int, zone: str) -> None:
    """Arrow has no sign for years after 9999, and none at all after 32767."""
    chance = random.Random(seed)
    micros = [-(2**63) + 1, 2**63 - 1, 253402300799999999, 253402300800000000, -62135596800000001, -62167219200000001]
    micros += [chance.choice((-1, 1)) * chance.randrange(2 ** chance.randrange(40, 63)) for _ in range(200)]
    rows = [(n, max(-100_000_000, min(100_000_000, n // 10 ** chance.randrange(8, 12)))) for n in micros]
    options = f"map('timeZone', '{zone}', 'timestampFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSSxxxxx')"
    found = spark.createDataFrame(rows, "n BIGINT, d INT").selectExpr(
        "n", "d", f"to_json(struct(timestamp_micros(n) AS t, date_from_unix_date(d) AS d), {options}) AS j",
        "CAST(date_from_unix_date(d) AS STRING) AS s",
    ).collect()  # fmt: skip
    wanted = [
        (w["t"].replace("+00:00", "Z") if zone == "UTC" else w["t"], w["d"]) for w in (json.loads(r.j) for r in found)
    ]
    assert [d for _, d in wanted] == [r.s for r in found]
    days, times = pa.array([r.d for r in found], pa.int32()).cast(pa.date32()), pa.array([r.n for r in found])
    table = pa.table({"t": times.cast(TIMESTAMP), "d": days})
    answer = json.loads(b"".join(json_rows.result(1, [table], zone)))
    assert [tuple(row) for row in answer["rows"]] == wanted
    text = b"".join(format_of("csv").body([table], zone)).decode()
    assert [tuple(row) for row in csv.reader(io.StringIO(text))][1:] == wanted
    assert date_text(days).to_pylist() == [r.s for r in found]
    if zone == "UTC":
        clocks = [t.removesuffix("Z").replace("T", " ").partition(".") for t, _ in wanted]
        shown = [whole + f".{fraction}".rstrip("0").rstrip(".") for whole, _, fraction in clocks]
        assert timestamp_text(times.cast(TIMESTAMP)).to_pylist() == shown
    assert json.loads(b"".join(json_rows.result(1, [table.slice(0, 0)], zone)))["rows"] == []
    nulls = pa.table(
        {"t": pa.array([None, 2**62], TIMESTAMP), "d": pa.array([None, 10**7], pa.int32()).cast(pa.date32())}
    )
    assert json.loads(b"".join(json_rows.result(1, [nulls], zone)))["rows"][0] == [None, None]


def test_intervals_and_numbers_that_are_none() -> None:
    """As docs/server.md has them."""
    table = pa.table(
        {
            "f": [math.nan, math.inf, -math.inf, 1.5],
            "d": pa.array([86_400_000_000, -1, None, 0], DAY_TIME),
            "m": pa.array([14, -1, None, 0], YEAR_MONTH),
        }
    )
    answer = json.loads(b"".join(json_rows.result(1, [table])))
    assert answer["types"] == ["double", "interval day to second", "interval year to month"]
    intervals = [[86_400_000_000, 14], [-1, -1], [None, None], [0, 0]]
    assert [row[1:] for row in answer["rows"]] == intervals
    assert [row[0] for row in answer["rows"]] == ["NaN", "Infinity", "-Infinity", 1.5]
    text = b"".join(format_of("csv").body([table], "UTC")).decode()
    assert text.splitlines()[1:] == ["nan,86400000000,14", "inf,-1,-1", "-inf,,", "1.5,0,0"]
