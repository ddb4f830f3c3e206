"""Random expressions of intervals, time zones and parts of times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz_parts import Part, sql
from fuzz_tables import Kind

if TYPE_CHECKING:
    from fuzz_values import ValueMaker

FAMILIES = ("int", "string", "date", "timestamp", "boolean")
_ZONES = ("America/New_York", "Asia/Kolkata", "Europe/Berlin", "Australia/Lord_Howe", "+05:30", "UTC")
_UNITS = ("MONTH", "DAY", "HOUR", "MINUTE", "QUARTER", "YEAR")


def time_value(maker: ValueMaker, family: str, depth: int) -> tuple[Part, Kind]:
    """An expression of one of the families."""
    kinds = {"int": _int, "string": _string, "date": _date, "timestamp": _timestamp, "boolean": _boolean}
    return kinds[family](maker, depth)


def span(maker: ValueMaker) -> Part:
    """An interval of days and less."""
    number = maker.small(0, 100).part
    form = maker.rng.randrange(6)
    if form == 0:
        return sql("({} - {})", maker.value("timestamp", 0).part, maker.value("timestamp", 0).part)
    if form == 1:
        return sql("({} - {})", maker.value("date", 0).part, maker.value("date", 0).part)
    if form == 2:
        return sql("(INTERVAL '1' HOUR * {})", number)
    if form == 3:
        return sql("make_dt_interval(0, CAST({} AS INT), 7)", number)
    if form == 4:
        return sql("(INTERVAL '3 04:05:06' DAY TO SECOND / nullif({}, 0))", number)
    return sql("abs({} - {})", maker.value("timestamp", 0).part, maker.constant("timestamp").part)


def _months(maker: ValueMaker) -> Part:
    number = maker.small(0, 100).part
    texts = ("(INTERVAL '1' MONTH * {})", "make_ym_interval(0, CAST({} AS INT))", "(INTERVAL '1-3' YEAR TO MONTH * {})")
    return sql(maker.rng.choice(texts), number)


def _int(maker: ValueMaker, depth: int) -> tuple[Part, Kind]:
    del depth
    a, b = maker.value("timestamp", 0).part, maker.value("timestamp", 0).part
    form = maker.rng.randrange(5)
    if form == 0:
        unit = maker.rng.choice(("DAYS", "HOUR", "MINUTE"))
        return sql(f"extract({unit} FROM {{}})", span(maker)), Kind("int", 10**6)
    if form == 1:
        return sql(f"timestampdiff({maker.rng.choice(_UNITS)}, {{}}, {{}})", a, b), Kind("int", 10**8)
    if form == 2:
        return sql("CAST(({} - {}) AS INT)", *(maker.value("date", 0).part for _ in range(2))), Kind("int", 10**6)
    if form == 3:
        return sql(f"extract({maker.rng.choice(('YEAR', 'MONTH'))} FROM {{}})", _months(maker)), Kind("int", 200)
    return sql("unix_micros({}) div 60000000", a), Kind("int", 10**9)


def _string(maker: ValueMaker, depth: int) -> tuple[Part, Kind]:
    del depth
    form = maker.rng.randrange(4)
    if form == 0:
        return sql("CAST({} AS STRING)", span(maker)), Kind("string")
    if form == 1:
        return sql("CAST({} AS STRING)", _months(maker)), Kind("string")
    if form == 2:
        return sql("date_format({}, 'yyyy-MM-dd HH:mm')", maker.value("timestamp", 0).part), Kind("string")
    return sql("CAST({} AS STRING)", maker.value("timestamp", 0).part), Kind("string")


def _date(maker: ValueMaker, depth: int) -> tuple[Part, Kind]:
    day = maker.value("date", 0).part
    form = maker.rng.randrange(4)
    if form == 0:
        return sql(f"({{}} {maker.rng.choice('+-')} {{}})", day, _months(maker)), Kind("date")
    if form == 1:
        return sql("make_date(2020, CAST(1 + pmod({}, 12) AS INT), 28)", maker.small(depth).part), Kind("date")
    if form == 2:
        return sql(f"next_day({{}}, '{maker.rng.choice(('MO', 'Friday', 'SUN'))}')", day), Kind("date")
    return sql("CAST({} AS DATE)", _zoned(maker)), Kind("date")


def _zoned(maker: ValueMaker) -> Part:
    call = maker.rng.choice(("from_utc_timestamp", "to_utc_timestamp"))
    return sql(f"{call}({{}}, '{maker.rng.choice(_ZONES)}')", maker.value("timestamp", 0).part)


def _timestamp(maker: ValueMaker, depth: int) -> tuple[Part, Kind]:
    at = maker.value("timestamp", 0).part
    form = maker.rng.randrange(4)
    if form == 0:
        return _zoned(maker), Kind("timestamp")
    if form == 1:
        return sql(f"({{}} {maker.rng.choice('+-')} {{}})", at, span(maker)), Kind("timestamp")
    if form == 2:
        number = sql("CAST({} AS INT)", maker.small(depth, 100).part)
        return sql(f"timestampadd({maker.rng.choice(_UNITS)}, {{}}, {{}})", number, at), Kind("timestamp")
    return sql("({} + {})", at, _months(maker)), Kind("timestamp")


def _boolean(maker: ValueMaker, depth: int) -> tuple[Part, Kind]:
    del depth
    return sql(f"({{}} {maker.rng.choice(('<', '>=', '=', '<=>'))} {{}})", span(maker), span(maker)), Kind("boolean")
