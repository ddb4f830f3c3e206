"""Expressions of a session whose time zone is not UTC give what Spark gives in such a session."""

from __future__ import annotations

import datetime as dt
import random
import zoneinfo

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from spark_oracle import comparable, same

from tidemill.errors import TidemillError
from tidemill.plan.catalyst.expressions.expressions import read_plan, translate, tree
from tidemill.plan.catalyst.expressions.rules import call
from tidemill.plan.catalyst.expressions.zones import CLASSES, in_zone
from tidemill.plan.catalyst.planner import planner
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, nullable_type, type_to_ddl
from tidemill.task.expressions import Expression, Ref, substitute
from tidemill.task.functions.evaluate import evaluate

ZONES = ("America/New_York", "Australia/Lord_Howe", "+05:30", "America/St_Johns", "America/Sao_Paulo")
"""One that changes by an hour, one by half an hour, one never, one at a minute past midnight, one at midnight."""

COLUMNS: dict[str, pa.DataType] = {
    "ts": TIMESTAMP, "ts2": TIMESTAMP, "tn": TIMESTAMP_NTZ, "dt": pa.date32(), "s": pa.string(), "s2": pa.string(),
    "js": pa.string(), "n": pa.int32(), "l": pa.int64(),
}  # fmt: skip

UNITS = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
EXPRESSIONS = """
cast(ts as string) | cast(ts as date) | cast(ts as timestamp_ntz) | cast(tn as timestamp) | cast(dt as timestamp)
cast(s as timestamp) | try_cast(s as timestamp_ntz) | cast(s as date) | cast(ts as bigint) | cast(ts as double)
cast(l as timestamp) | timestamp_seconds(l) | cast(tn as string) | tn = ts | ts = s | dt < ts | ts in (ts2, tn)
cast(array(ts, ts2) as array<string>) | cast(array(dt, null) as array<timestamp>) | concat(ts, ' ', dt)
cast(struct(ts as a, tn as b) as struct<a: timestamp_ntz, b: timestamp>) | cast(map('k', ts) as map<string, date>)
hour(ts) | minute(ts) | second(ts) | extract(second from ts) | hour(tn) | year(ts) | month(ts) | dayofmonth(ts)
dayofyear(ts) | dayofweek(ts) | weekday(ts) | weekofyear(ts) | extract(yearofweek from ts) | quarter(ts) | dayname(ts)
date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSSSSS EEE a h') | date_format(dt, 'dd.MM.yyyy HH:mm') | date_format(tn, 'H')
from_unixtime(l) | from_unixtime(l, 'yyyy-MM-dd HH') | unix_timestamp(ts) | unix_timestamp(dt) | unix_timestamp(tn)
unix_timestamp(s2) | unix_timestamp(s2, 'yyyy-MM-dd HH:mm:ss') | to_unix_timestamp(s2, 'yyyy-MM-dd HH:mm:ss')
to_timestamp(s2, 'yyyy-MM-dd HH:mm:ss') | to_date(s2, 'yyyy-MM-dd HH:mm:ss') | to_timestamp(s) | to_date(s)
try_to_timestamp(s, 'yyyy-MM-dd HH:mm:ss') | to_timestamp_ntz(s2, 'yyyy-MM-dd HH:mm:ss') | to_timestamp_ltz(s2)
trunc(ts, 'MM') | last_day(ts) | next_day(ts, 'MO') | add_months(ts, n) | date_add(ts, n) | datediff(ts, ts2)
ts + interval '1' day | ts - interval '1' day | ts + interval '25' hour | ts + interval '1 23:30:00' day to second
ts - interval '2 00:30:00' day to second | ts + make_dt_interval(n, n, 30, 0.5) | ts + interval '1' hour * n
ts + interval '1' month | ts - interval '1-1' year to month | ts + make_ym_interval(0, n) | dt + interval '12' hour
ts + cast('1 day 30 hours' as interval) | ts - cast('2 days 26 hours -5 minutes' as interval) | ts + interval '5' minute
ts + make_interval(0, 1, 0, 2, -30) | ts - cast('1 year 1 month 3 days 0.5 seconds' as interval)
ts - cast('-1 days 1 hours' as interval) | tn - cast('1 month -2 days 3 hours' as interval)
dt + cast('1 month 2 days' as interval) | dt - cast('1 month -3 days' as interval) | dt + cast('-4 days' as interval)
tn + interval '1' day | tn + interval '1' month | ts + cast('1 day 2 hours' as interval) | dt + interval '3' day
ts - ts2 | ts - tn | dt - ts | months_between(ts, ts2) | months_between(ts, ts2, false) | months_between(ts, dt)
make_timestamp(year(tn), month(tn), day(tn), hour(tn), minute(tn), extract(second from tn))
make_timestamp(year(tn), month(tn), day(tn), hour(tn), minute(tn), extract(second from tn), 'Asia/Tokyo')
make_timestamp_ntz(2020, 1, 1, 2, 3, 4) | make_timestamp_ltz(2020, 7, 1, 2, 3, 4)
sequence(ts, ts + interval '100' hour, interval '1' day) | sequence(ts, ts + interval '9' hour, interval '90' minute)
sequence(ts, ts + interval '200' hour, interval '1 06:00:00' day to second) | sequence(ts, ts - interval '100' hour)
sequence(ts, ts + interval '200' day, interval '1' month) | sequence(dt, dt + interval '90' day, interval '1' month)
sequence(dt, dt + interval '9' day) | sequence(tn, tn + interval '3' day)
to_json(struct(ts, tn, dt), map('timestampFormat', 'dd.MM.yyyy HH:mm:ss XXX', 'dateFormat', 'MM/dd/yyyy'))
from_json(js, 'b timestamp, c date', map('timestampFormat', 'yyyy-MM-dd HH:mm:ss', 'dateFormat', 'yyyy-MM-dd'))
from_json(js, 'a timestamp', map('timeZone', 'Asia/Tokyo')) | to_json(struct(ts), map('timeZone', 'Asia/Tokyo'))
to_csv(struct(ts, tn, dt)) | to_csv(struct(ts, n), map('timestampFormat', 'yyyy HH:mmXXX'))
from_csv(concat(s2, ',', s2), 'a timestamp, b timestamp_ntz')
from_csv(s2, 'a timestamp', map('timeZone', 'Asia/Tokyo'))
to_json(struct(ts, tn, dt)) | from_json(js, 'a timestamp, b timestamp_ntz, c date')
ts > timestamp'2024-03-10 02:30:00' | timestamp'2024-11-03 01:30:00' + interval '1' hour * n | date(ts2)
ts between timestamp'1950-01-01' and timestamp_ntz'2000-01-01 00:00:00' | current_timezone() | ts <= date'1999-10-31'
ts in (timestamp'2020-01-01', timestamp'2021-06-01 12:00:00', timestamp'2022-01-01 00:00:00Z') | date_diff(ts, tn)
from_utc_timestamp(ts, 'Asia/Tokyo') | to_utc_timestamp(ts, 'America/Chicago') | convert_timezone('Asia/Tokyo', tn)
convert_timezone(current_timezone(), 'UTC', tn) | greatest(ts, tn) | coalesce(tn, ts) | unix_micros(ts) | ts || ''
""" + "\n".join(
    f"date_trunc('{unit}', ts) | timestampadd({unit}, n, ts) | timestampdiff({unit}, ts, ts2)" for unit in UNITS
)


def listed() -> list[str]:
    return [sql.strip() for line in EXPRESSIONS.strip().splitlines() for sql in line.split(" | ")]


def changes(zone: str) -> list[int]:
    """The days, in seconds since 1970, at which the offset of a zone is another one than a day before."""
    if zone.startswith("+"):
        return [0, 1_710_000_000]
    clock, found, day = zoneinfo.ZoneInfo(zone), [], 86_400
    at = dt.datetime(1883, 1, 1, tzinfo=dt.UTC)
    last = at.astimezone(clock).utcoffset()
    while at.year < 2045:
        at += dt.timedelta(days=1)
        offset = at.astimezone(clock).utcoffset()
        if offset != last:
            found.append(int(at.timestamp()) - day // 2)
        last = offset
    return found


def random_rows(zone: str, chance: random.Random, count: int = 400) -> pa.RecordBatch:
    """Times of which most are near a change of the clocks, in UTC or on the clock."""
    turns = changes(zone)

    def second() -> int:
        if chance.random() < 0.25:
            return chance.randrange(-3_500_000_000, 4_000_000_000)
        near = chance.choice(turns) + chance.randrange(-130_000, 130_000)
        return near - near % chance.choice((1, 60, 1800, 3600, 86_400))

    def micros() -> int:
        return second() * 1_000_000 + chance.choice((0, 0, 500_000, chance.randrange(1_000_000)))

    def text(seconds: int) -> str:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)
        return chance.choice(("{0:%Y-%m-%d %H:%M:%S}", "{0:%Y-%m-%dT%H:%M}", "{0:%Y-%m-%d}")).format(moment)

    def full(seconds: int) -> str:
        return f"{dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}"

    def zoned() -> str:
        behind = chance.choice(("", "", "", "Z", " UTC", "+02:00", "-11:30"))
        found = text(second())
        return found + behind if found.count(":") == 2 else found

    def stamp() -> str:
        return full(second()).replace(" ", "T") + chance.choice(("", ".125", ".5Z", "+03:00"))

    makers = {
        "ts": micros, "ts2": micros, "tn": micros, "dt": lambda: second() // 86_400, "s": zoned,
        "s2": lambda: full(second()), "n": lambda: chance.randrange(-40, 40), "l": second,
        "js": lambda: f'{{"a":"{stamp()}","b":"{full(second())}","c":"{full(second())[:10]}"}}',
    }  # fmt: skip
    arrays = []
    for name, type_ in COLUMNS.items():
        cells = [None if chance.random() < 0.05 else makers[name]() for _ in range(count)]
        arrays.append(pa.array(cells, pa.int64() if pa.types.is_timestamp(type_) else type_).cast(type_))
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


class Zoned:
    """A Spark session of a time zone with the same rows in a view ``t``."""

    def __init__(self, spark: SparkSession, zone: str, rows: pa.RecordBatch) -> None:
        self.zone, self.rows, self.session = zone, rows, spark.newSession()
        rules = "org.apache.spark.sql.catalyst.optimizer."
        for key, value in {
            "spark.sql.session.timeZone": zone,
            "spark.sql.ansi.enabled": "true",
            "spark.sql.optimizer.excludedRules": f"{rules}ConvertToLocalRelation,{rules}PropagateEmptyRelation",
        }.items():
            self.session.conf.set(key, value)
        ddl = ", ".join(f"{name} {type_to_ddl(type_)}" for name, type_ in COLUMNS.items())
        self.session.createDataFrame(spark.sparkContext.emptyRDD(), ddl).createOrReplaceTempView("planned")
        numbers = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in rows.columns]
        frame = self.session.createDataFrame(pa.table(numbers, rows.schema.names))
        frame.selectExpr(*(_made(n, t) for n, t in COLUMNS.items())).coalesce(1).createOrReplaceTempView("t")

    def answers(self, sqls: list[str]) -> pa.Table:
        return self.session.sql(_select(sqls, "t")).toArrow()

    def plan(self, sqls: list[str]) -> list[Expression]:
        plan = self.session.sql(_select(sqls, "planned"))._jdf.queryExecution().optimizedPlan()
        found = read_plan(plan, planner(self.session).json(plan))
        *projects, leaf = found
        inputs = {a[0]["exprId"]["id"]: list(COLUMNS).index(a[0]["name"]) for a in leaf["output"]}
        below: tuple[Expression, ...] = tuple(Ref(n, type_) for n, type_ in enumerate(COLUMNS.values()))
        for project in reversed(projects):
            columns = [tree(expression) for expression in project["projectList"]]
            below = tuple(substitute(translate(expression, inputs), below) for expression in columns)
            inputs = {expression.fields["exprId"]["id"]: n for n, expression in enumerate(columns)}
        return list(below)

    def differences(self, sql: str, expression: Expression, expected: pa.ChunkedArray) -> list[str]:
        actual = evaluate(expression, self.rows)
        if nullable_type(actual.type) != nullable_type(expected.type):
            return [f"{self.zone}: {sql}: type {actual.type}, Spark {expected.type}"]
        pairs = zip(comparable(actual), comparable(expected), strict=True)
        wrong = [(row, mine, theirs) for row, (mine, theirs) in enumerate(pairs) if not same(mine, theirs)]
        return [
            f"{self.zone}: {sql}: {mine!r}, Spark {theirs!r} with "
            f"{[(n, str(self.rows.column(n)[row])) for n in COLUMNS if n in sql]}"
            for row, mine, theirs in wrong[:3]
        ]


def _select(sqls: list[str], relation: str) -> str:
    return "SELECT " + ", ".join(f"{sql} AS r{n}" for n, sql in enumerate(sqls)) + f" FROM {relation}"


def _made(name: str, type_: pa.DataType) -> str:
    """A column of microseconds as its type, without a clock of any zone."""
    if type_ == TIMESTAMP:
        return f"timestamp_micros({name}) AS {name}"
    if type_ == TIMESTAMP_NTZ:
        return f"timestamp_ntz'1970-01-01' + interval '0.000001' second * {name} AS {name}"
    return name


@pytest.mark.parametrize("zone", [*ZONES[:2], *(pytest.param(zone, marks=pytest.mark.slow) for zone in ZONES[2:])])
def test_expressions_equal_spark(oracle: SparkSession, zone: str, seed: int) -> None:
    zoned = Zoned(oracle, zone, random_rows(zone, random.Random(f"{zone} {seed}")))
    sqls = listed()
    expected = zoned.answers(sqls)
    found: list[str] = []
    for column, (sql, expression) in enumerate(zip(sqls, zoned.plan(sqls), strict=True)):
        found += zoned.differences(sql, expression, expected.column(column))
    assert not found, "\n".join(found)


def test_a_class_that_nobody_has_looked_at_is_refused() -> None:
    node = JsonTree("Novel", {"timeZoneId": "Europe/Berlin"}, ())
    with pytest.raises(TidemillError, match="Novel in the time zone Europe/Berlin") as caught:
        in_zone(node, lambda n, to: call("pi", (), pa.float64()))
    assert caught.value.number == "TM2101"
    assert "Novel" not in CLASSES
