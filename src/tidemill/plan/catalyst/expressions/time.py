"""Rules for dates, timestamps and intervals."""

from __future__ import annotations

import pyarrow as pa

from tidemill.plan.catalyst.expressions.rules import Rule, Translator, call, fixed, only, type_of, unsupported
from tidemill.plan.catalyst.expressions.zones import instants, shown, zone_of, zone_option
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ
from tidemill.task.expressions import Expression, Literal
from tidemill.task.functions.times.date_patterns import can_parse, can_print

_TRUNC_UNITS = {
    "microsecond": "microsecond", "millisecond": "millisecond", "second": "second", "minute": "minute",
    "hour": "hour", "day": "day", "dd": "day", "week": "week", "month": "month", "mon": "month", "mm": "month",
    "quarter": "quarter", "year": "year", "yyyy": "year", "yy": "year",
}  # fmt: skip
_DATE_UNITS = frozenset({"week", "month", "quarter", "year"})
_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (("mo", "mon", "monday"), ("tu", "tue", "tuesday"), ("we", "wed", "wednesday"), ("th", "thu", "thursday"),
         ("fr", "fri", "friday"), ("sa", "sat", "saturday"), ("su", "sun", "sunday"))
    )
    for name in names
}  # fmt: skip


def _truncate(node: JsonTree, to: Translator) -> Expression:
    date = node.name == "TruncDate"
    value, name = to.arg(node, 0 if date else 1), to.constant(node, 1 if date else 0)
    unit = _TRUNC_UNITS.get(name.lower())
    if unit is None or (date and unit not in _DATE_UNITS):
        return Literal(None, value.type)
    return call("trunc_date" if date else "trunc_timestamp", (value,), value.type, unit=unit, **zone_option(node))


def _next_day(node: JsonTree, to: Translator) -> Expression:
    weekday = _WEEKDAYS.get(to.constant(node, 1).strip().lower())
    if weekday is None:
        raise unsupported(f"next_day to {to.constant(node, 1)!r}")
    return call("next_day", (to.arg(node, 0),), pa.date32(), weekday=weekday)


def _date_format(node: JsonTree, to: Translator) -> Expression:
    pattern = to.constant(node, 1)
    if not can_print(pattern):
        raise unsupported(f"date_format with the pattern {pattern!r}")
    value = to.arg(node, 0)
    if node.name == "FromUnixTime":
        value = shown(call("timestamp_seconds", (value,), TIMESTAMP), zone_of(node))
    return call("date_format", (value,), pa.string(), pattern=pattern)


def _parsed(node: JsonTree, value: Expression, pattern: str, type_: pa.DataType) -> Expression:
    if not can_parse(pattern):
        raise unsupported(f"to_timestamp with the pattern {pattern!r}")
    mode = "ansi" if node.fields["failOnError"] else "try"
    found = call("parse_timestamp", (value,), type_, value.nullable or mode == "try", pattern=pattern, mode=mode)
    return instants(found, zone_of(node)) if type_ == TIMESTAMP else found


def _get_timestamp(node: JsonTree, to: Translator) -> Expression:
    return _parsed(node, to.arg(node, 0), to.constant(node, 1), type_of(node.fields["dataType"]))


def _unix_timestamp(node: JsonTree, to: Translator) -> Expression:
    value = to.arg(node, 0)
    if pa.types.is_string(value.type):
        value = _parsed(node, value, to.constant(node, 1), TIMESTAMP)
    elif pa.types.is_date(value.type):
        value = call("cast", (value,), TIMESTAMP, mode="ansi", **zone_option(node))
    return call("unix_timestamp", (value,), pa.int64())


def _timestamp_add(node: JsonTree, to: Translator) -> Expression:
    value, quantity = to.arg(node, 1), to.arg(node, 0)
    unit = {"DAYOFYEAR": "day"}.get(node.fields["unit"].upper(), node.fields["unit"].lower())
    if unit not in _TRUNC_UNITS:
        raise unsupported(f"timestampadd of {unit}")
    # Hours are as long as they are; only an interval counts those that make days as days.
    calendar = value.type == TIMESTAMP and _TRUNC_UNITS[unit] in ("day", *_DATE_UNITS)
    zone = zone_option(node) if calendar else {}
    return call("timestamp_add", (value, quantity), value.type, unit=unit, **zone)


def _timestamp_diff(node: JsonTree, to: Translator) -> Expression:
    unit = node.fields["unit"].lower()
    if unit not in _TRUNC_UNITS:
        raise unsupported(f"timestampdiff of {unit}")
    return call("timestamp_diff", to.args(node), pa.int64(), unit=unit)


def _make_date(node: JsonTree, to: Translator) -> Expression:
    mode = "ansi" if node.fields["failOnError"] else "try"
    args = to.args(node)
    return call("make_date", args, pa.date32(), mode == "try" or any(a.nullable for a in args), mode=mode)


def _make_timestamp(node: JsonTree, to: Translator) -> Expression:
    mode = "ansi" if node.fields["failOnError"] else "try"
    args, type_, zone = to.args(node), type_of(node.fields["dataType"]), zone_of(node)
    nullable = mode == "try" or any(a.nullable for a in args)
    if zone is not None and type_ == TIMESTAMP and len(args) == _PARTS:
        args = (*args, Literal(zone, _STRING))
    return call("make_timestamp", args, type_, nullable, mode=mode)


def _in_zone(function: str) -> Rule:
    """A time and its zone, which comes first here."""

    def rule(node: JsonTree, to: Translator) -> Expression:
        time, zone = to.args(node)
        return call(function, (zone, time), time.type)

    return rule


def _months_between(node: JsonTree, to: Translator) -> Expression:
    times = (to.arg(node, 0), to.arg(node, 1))
    return call("months_between", times, pa.float64(), round=to.constant(node, 2), **zone_option(node))


def _precise_timestamp(node: JsonTree, to: Translator) -> Expression:
    target = type_of(node.fields["toType"])
    function = "unix_micros" if target == pa.int64() else "timestamp_micros"
    return call(function, (to.arg(node, 0),), target)


_INT, _LONG, _STRING = pa.int32(), pa.int64(), pa.string()
_PARTS = 6
"""Arguments of make_timestamp without a zone."""

TIME_RULES: dict[str, Rule] = {
    **{
        name: fixed(function, _INT)
        for name, function in {
            "Year": "year", "Quarter": "quarter", "Month": "month", "DayOfMonth": "day", "DayOfYear": "day_of_year",
            "DayOfWeek": "day_of_week", "WeekDay": "weekday", "WeekOfYear": "week_of_year",
            "YearOfWeek": "year_of_week", "Hour": "hour", "Minute": "minute", "Second": "second",
            "UnixDate": "unix_date", "DateDiff": "date_diff",
        }.items()
    },
    "SecondWithFraction": fixed("second_with_fraction", pa.decimal128(8, 6)),
    "MonthName": fixed("month_name", _STRING), "DayName": fixed("day_name", _STRING),
    "DateFromUnixDate": fixed("date_from_unix_date", pa.date32()),
    "DateAdd": fixed("date_add"), "DateSub": fixed("date_sub"), "AddMonths": fixed("add_months"),
    "LastDay": fixed("last_day"), "NextDay": _next_day, "TruncDate": _truncate, "TruncTimestamp": _truncate,
    "DateFormatClass": _date_format, "FromUnixTime": _date_format, "GetTimestamp": _get_timestamp,
    "UnixTimestamp": _unix_timestamp, "ToUnixTimestamp": _unix_timestamp, "MakeDate": _make_date,
    "TimestampAdd": _timestamp_add, "TimestampDiff": _timestamp_diff, "MonthsBetween": _months_between,
    "FromUTCTimestamp": _in_zone("from_utc_timestamp"), "ToUTCTimestamp": _in_zone("to_utc_timestamp"),
    "ConvertTimezone": fixed("convert_timezone", TIMESTAMP_NTZ), "MakeTimestamp": _make_timestamp,
    "UnixSeconds": fixed("unix_seconds", _LONG), "UnixMillis": fixed("unix_millis", _LONG),
    "UnixMicros": fixed("unix_micros", _LONG),
    "SecondsToTimestamp": only("timestamp_seconds", (pa.types.is_integer,), TIMESTAMP),
    "MillisToTimestamp": fixed("timestamp_millis", TIMESTAMP),
    "MicrosToTimestamp": fixed("timestamp_micros", TIMESTAMP), "PreciseTimestampConversion": _precise_timestamp,
}  # fmt: skip
