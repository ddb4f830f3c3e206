"""Views of a mill of another time zone than UTC equal what Spark gives in a session of that zone."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from local_jobs import local
from tidemill.cli.query import output
from tidemill.cli.query.local import answer, follow
from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.formats.values.columns.time_options import time_patterns
from tidemill.mill import Mill
from tidemill.runtime.root import Root
from tidemill.testing import assert_same_rows

Opener = Callable[..., Mill]

ZONE = "America/New_York"
_FULL = "%Y-%m-%d %H:%M:%S"
COLUMNS = "id BIGINT, ts TIMESTAMP, tn TIMESTAMP_NTZ, d DATE, s STRING"
TABLES = {
    "c": ("csv", "header true"),
    "j": ("json", ""),
    "p": ("csv", "header true, timestampFormat 'dd.MM.yyyy HH:mm[:ss][XXX]'"),
    "z": ("csv", "header true, timeZone 'Asia/Tokyo'"),
}
VIEWS = {
    "everything": "SELECT *, CAST(ts AS STRING) AS shown, CAST(tn AS TIMESTAMP) AS at FROM c",
    "of_json": "SELECT id, ts, date_format(ts, 'yyyy-MM-dd HH:mm') AS shown FROM j",
    "of_pattern": "SELECT id, ts, CAST(ts AS DATE) AS day FROM p",
    "of_tokyo": "SELECT id, ts, hour(ts) AS h FROM z",
    "by_day": "SELECT date_trunc('DAY', ts) AS day, count(*) AS n, max(ts) AS latest FROM c GROUP BY 1",
    "by_hour": "SELECT hour(ts) AS h, weekday(ts) AS w, count(*) AS n FROM c GROUP BY ALL",
    "texts": "SELECT id, CAST(s AS TIMESTAMP) AS t, to_date(s) AS d FROM c",
    "filtered": "SELECT id FROM c WHERE ts >= '2024-03-10 03:00:00' AND ts < TIMESTAMP'2024-11-03 01:30:00'",
    "joined": "SELECT c.id, j.id AS other FROM c JOIN j ON c.d = CAST(j.ts AS DATE) AND hour(c.ts) < hour(j.ts)",
    "windows": "SELECT window.start AS b, window.end AS e, count(*) AS n FROM c GROUP BY window(ts, '1 day')",
    "sessions": "SELECT session_window.start AS b, session_window.end AS e, count(*) AS n FROM c "
    "GROUP BY session_window(ts, '3 hours')",
    "near": "SELECT id, count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '5' HOUR PRECEDING AND CURRENT ROW) AS n "
    "FROM c",
    "days": "SELECT id, count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW) AS n, "
    "sum(id) OVER (ORDER BY ts DESC RANGE BETWEEN INTERVAL '1 02:30:00' DAY TO SECOND PRECEDING AND "
    "INTERVAL '2 00:00:00' DAY TO SECOND FOLLOWING) AS s, min(id) OVER (PARTITION BY id % 2 ORDER BY ts RANGE BETWEEN "
    "INTERVAL '1' DAY FOLLOWING AND UNBOUNDED FOLLOWING) AS m, max(id) OVER (ORDER BY ts RANGE BETWEEN "
    "INTERVAL '0 23:30:00' DAY TO SECOND FOLLOWING AND INTERVAL '1 00:00:00' DAY TO SECOND FOLLOWING) AS x FROM c",
    "months": "SELECT id, count(*) OVER (ORDER BY ts DESC RANGE BETWEEN INTERVAL '1' MONTH PRECEDING AND CURRENT ROW) "
    "AS n, sum(id) OVER (ORDER BY ts DESC RANGE CAST('1 day 2 hours' AS INTERVAL) PRECEDING) AS s, count(ts) OVER "
    "(ORDER BY ts RANGE BETWEEN CAST('1 day 30 hours' AS INTERVAL) PRECEDING AND "
    "CAST('1 month 1 day 30 hours' AS INTERVAL) FOLLOWING) AS c FROM c",
    "other_ranges": "SELECT id, count(*) OVER (ORDER BY d RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW) a,"
    " sum(id) OVER (ORDER BY d DESC RANGE BETWEEN INTERVAL '1' YEAR PRECEDING AND INTERVAL '1' YEAR FOLLOWING) AS b,"
    " sum(id) OVER (ORDER BY id RANGE BETWEEN 7 PRECEDING AND 3 FOLLOWING) AS c, count(*) OVER (ORDER BY tn RANGE "
    "BETWEEN INTERVAL '5' HOUR PRECEDING AND CURRENT ROW) AS e, count(*) OVER (ORDER BY tn RANGE BETWEEN INTERVAL '1' "
    "DAY PRECEDING AND INTERVAL '1' DAY FOLLOWING) AS f FROM c",
    "later": "SELECT id, ts + INTERVAL '1' DAY AS a, ts + INTERVAL '1' MONTH AS b, current_timezone() AS z FROM c",
    "json_texts": "SELECT id, to_json(named_struct('ts', ts, 'tn', tn)) AS t FROM c",
}


def write(directory: Path, chance: random.Random, number: int) -> None:
    """One file of each table; of the texts without a zone some name times that do not exist, or exist twice."""
    rows = []
    for i in range(120):
        turn = chance.choice((datetime(2024, 3, 10, 2), datetime(2024, 11, 3, 1), datetime(1883, 11, 18, 12)))
        far = chance.randrange(-2000, 2000) if i % 3 else chance.randrange(-1, 2) * 1440 + chance.randrange(-100, 100)
        local_time = turn + timedelta(minutes=far)
        rows.append((number * 1000 + i, local_time, turn + timedelta(minutes=chance.randrange(-100, 100))))
    behind = [chance.choice(("", "", "Z", "+02:00")) for _ in rows]
    for name, (kind, _) in TABLES.items():
        lines = []
        for (key, at, other), zone in zip(rows, behind, strict=True):
            plain = f"{at:%d.%m.%Y %H:%M}" if name == "p" else f"{at:%Y-%m-%d %H:%M:%S}"
            second, day, text = (f"{t:{p}}" for t, p in ((other, _FULL), (other, _FULL[:8]), (at, _FULL)))
            cells = [str(key), plain + zone, second, day, text]
            record = dict(zip(("id", "ts", "tn", "d", "s"), cells, strict=True))
            lines.append(json.dumps({**record, "id": key}) if kind == "json" else ",".join(cells))
        if kind == "csv":
            lines.insert(0, "id,ts,tn,d,s")
        (directory / name).mkdir(parents=True, exist_ok=True)
        (directory / name / f"{number}.{kind}").write_text("\n".join(lines) + "\n")


class Zoned:
    """A Spark session of the zone over the same files."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.session, self._directory = spark.newSession(), directory
        self.session.conf.set("spark.sql.session.timeZone", ZONE)
        self.session.conf.set("spark.sql.ansi.enabled", "true")
        self.session.conf.set("spark.sql.shuffle.partitions", "1")

    def read(self) -> None:
        for name, (kind, options) in TABLES.items():
            reader = self.session.read.schema(COLUMNS)
            for option in options.split(", ") if options else ():
                key, _, value = option.partition(" ")
                reader = reader.option(key, value.strip("'"))
            reader.format(kind).load(str(self._directory / name)).createOrReplaceTempView(name)

    def check(self, mill: Mill) -> None:
        self.read()
        for name, query in VIEWS.items():
            found, expected = mill.read(name), self.session.sql(query).toArrow()
            assert found.num_rows, name
            assert_same_rows(found, expected, name)


@pytest.fixture
def mill(mill_factory: Opener, tmp_path: Path, seed: int) -> Mill:
    write(tmp_path / "data", random.Random(seed), 1)
    mill = local(mill_factory(time_zone=ZONE))
    for name, (kind, options) in TABLES.items():
        given = f"path '{tmp_path / 'data' / name}'" + (f", {options}" if options else "")
        mill.sql(f"CREATE TABLE {name} ({COLUMNS}) USING {kind} OPTIONS ({given})")
    for name, query in VIEWS.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return mill


@pytest.mark.slow
def test_a_mill_of_another_time_zone(
    mill: Mill, mill_factory: Opener, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    directory, oracle = tmp_path / "data", Zoned(spark, tmp_path / "data")
    list(mill.drain())
    oracle.check(mill)
    write(directory, random.Random(seed + 1), 2)
    list(mill.drain())
    oracle.check(mill)

    # Instants stay instants, wherever they are read; queries, texts and tables for people are of the zone.
    shown = "SELECT id, ts, CAST(ts AS STRING) AS shown FROM everything"
    expected = oracle.session.sql(shown.replace("everything", "c")).toArrow()
    assert_same_rows(mill.query(shown).toArrow(), expected)
    assert_same_rows(mill.table("everything").select("id", "ts").toArrow(), expected.select(["id", "ts"]))
    refused_or_built(mill, spark)
    functions_in_python(mill, spark)
    mill.checkpoint()
    mill.close()

    root = str(tmp_path / "root")
    parts = answer(root, "SELECT id, ts FROM everything WHERE id = 1000", None, None)
    assert not isinstance(parts, str)
    texts = pa.concat_tables(parts)
    moment, text = texts["ts"][0].as_py(), expected.filter(pc.equal(expected["id"], 1000))["shown"][0].as_py()
    assert text in printed(texts, "table")
    assert f'"{moment.isoformat(" ")}"' in printed(texts, "json")
    assert moment.isoformat(" ") in printed(texts, "csv")
    assert moment.utcoffset().total_seconds() < 0
    _, first = next(iter(follow(root, "everything", 0)))
    assert first.schema.field("ts").type.tz == ZONE

    with pytest.raises(TidemillError, match=f"Europe/Berlin, and the root has {ZONE}") as caught:
        mill_factory(time_zone="Europe/Berlin")
    assert caught.value.number == "TM1040"
    again = local(mill_factory())
    write(directory, random.Random(seed + 2), 3)
    list(again.drain())
    oracle.check(again)


def refused_or_built(mill: Mill, spark: SparkSession) -> None:
    """DataFrames must be of a session of the zone."""
    key = "spark.sql.session.timeZone"
    before = spark.conf.get(key)
    assert before == "UTC"
    with pytest.raises(TidemillError, match=f"UTC, and the mill has {ZONE}") as caught:
        mill.create_view("no", mill.table("everything").select(sf.hour("ts").alias("h")))
    assert caught.value.number == "TM2017"
    try:
        spark.conf.set(key, ZONE)
        mill.create_view("hours", mill.table("everything").select(sf.hour("ts").alias("h")))
        list(mill.drain())
        frame = mill.table("everything").select(sf.hour("ts").alias("h"))
        assert_same_rows(mill.read("hours"), frame.toArrow())
    finally:
        spark.conf.set(key, before)
    mill.sql("DROP VIEW hours")


def functions_in_python(mill: Mill, spark: SparkSession) -> None:
    """pandas functions get what the clock of the zone shows, Arrow functions its instants, functions of rows UTC."""
    key = "spark.sql.session.timeZone"
    series, arrays = sf.pandas_udf, sf.arrow_udf

    def shown(times: pd.Series) -> pd.Series:
        return times.astype(str)

    def same(times: pd.Series) -> pd.Series:
        return times

    def of_tokyo(times: pd.Series) -> pd.Series:
        return times.dt.tz_localize("Asia/Tokyo")

    def arrow_shown(times: pa.Array) -> pa.Array:
        return pc.cast(pc.strftime(times, "%Y-%m-%d %H:%M:%S%z"), pa.string())

    def arrow_same(times: pa.Array) -> pa.Array:
        return times

    def arrow_nested(times: pa.Array) -> pa.Array:
        return pa.array([f"{times.type.value_type} {t[0]}" for t in times.to_pylist()])

    def called(frame: DataFrame) -> DataFrame:
        return frame.select(
            "id",
            series(shown, "string")("ts").alias("a"),  # type: ignore[call-overload]
            series(same, "timestamp")("ts").alias("b"),  # type: ignore[call-overload]
            series(of_tokyo, "timestamp")("tn").alias("c"),  # type: ignore[call-overload]
            arrays(arrow_shown, "string")("ts").alias("d"),
            arrays(arrow_same, "timestamp")("ts").alias("e"),
            arrays(arrow_nested, "string")(sf.array("ts")).alias("f"),
        )

    try:
        spark.conf.set(key, ZONE)
        mill.create_view("called", called(mill.table("everything")))
        skipped = series(lambda t: pd.Series([datetime(2024, 3, 10, 2, 30)] * len(t)), "timestamp")  # type: ignore[call-overload]
        mill.create_view("skipped", mill.table("everything").select(skipped("ts").alias("t")))
        with pytest.raises(TidemillError, match="a pandas function of TIMESTAMPs in other values") as caught:
            no = series(shown, "string")(sf.array("ts"))  # type: ignore[call-overload]
            mill.create_view("no", mill.table("everything").select(no))
        assert caught.value.number == "TM2107"
        mill.register_function("of_time", lambda at: (at, str(at)), "struct<t: timestamp, s: string>")
        mill.sql("CREATE MATERIALIZED VIEW by_row AS SELECT ts, of_time(ts) AS f FROM everything")
        failed = [report.failed for report in mill.drain()]
        assert_same_rows(mill.read("called"), called(mill.table("everything")).toArrow())
    finally:
        spark.conf.set(key, "UTC")
    assert [number for found in failed for number in found] == ["skipped"]
    assert "TM3013" in failed[-1]["skipped"] and "2024-03-10 02:30:00" in failed[-1]["skipped"]
    for row in mill.read("by_row").to_pylist():
        assert row["f"] == {"t": row["ts"], "s": str(row["ts"].astimezone(UTC).replace(tzinfo=None))}
    for name in ("called", "skipped", "by_row"):
        mill.sql(f"DROP VIEW {name}")


def printed(table: pa.Table, format_: str) -> str:
    stream = io.BytesIO()
    output.write(table, format_, stream)
    return stream.getvalue().decode()


@pytest.mark.parametrize("zone", ["Mars/Olympus", "+5:30", "EST", "+19:00", "America/new_york"])
def test_no_time_zone(zone: str, tmp_path: Path) -> None:
    with pytest.raises(TidemillError, match="time_zone=") as caught:
        Root(tmp_path / "root", Settings(time_zone=zone))
    assert caught.value.number == "TM7006"


def test_an_empty_root_takes_another_zone(tmp_path: Path) -> None:
    root = Root(tmp_path / "root", Settings(time_zone="+05:30"))
    assert root.recovered.catalog.time_zone == "+05:30"
    root.release()
    with pytest.raises(TidemillError, match="timeZone"):
        time_patterns({"timezone": "Mars/Olympus"})
