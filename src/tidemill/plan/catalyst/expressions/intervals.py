"""Rules for intervals: their constants, arithmetic, fields and casts."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa

from tidemill.plan.catalyst.expressions.rules import Rule, Translator, call, fixed, type_of, unsupported
from tidemill.plan.catalyst.expressions.zones import zone_option
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.schema import DAY_TIME, TIMESTAMP, YEAR_MONTH, type_to_ddl
from tidemill.task.expressions import Expression, Literal
from tidemill.task.functions.times.intervals import UNITS
from tidemill.task.functions.times.time_text import MICROS_PER_DAY

INTERVALS = (DAY_TIME, YEAR_MONTH)
_MONTHS = {"year": 12, "month": 1}
_PART = re.compile(r"(-?[0-9.]+) (year|month|day|hour|minute|second)s")


class CalendarInterval(NamedTuple):
    """An interval of Spark's type CalendarInterval, whose parts are added one after the other."""

    months: int
    days: int
    micros: int


def calendar_interval(text: str) -> CalendarInterval:
    """The parts of what Spark prints as ``1 years 2 months`` or ``3 days 4 hours 5.5 seconds``."""
    months, days, micros = 0, 0, Decimal(0)
    for number, unit in _PART.findall(text):
        if unit in _MONTHS:
            months += int(number) * _MONTHS[unit]
        elif unit == "day":
            days += int(number)
        else:
            micros += Decimal(number) * UNITS[unit]
    return CalendarInterval(months, days, int(micros))


def negated(text: str) -> str:
    """The text of a calendar interval with the opposite sign."""
    return _PART.sub(lambda part: part[0][1:] if part[0].startswith("-") else f"-{part[0]}", text)


def calendar_literal(text: str) -> Literal:
    """A calendar interval as one of days to seconds or of months.

    Raises
    ------
    TidemillError
        TM2101 where months stand beside days or hours.
    """
    months, days, micros = calendar_interval(text)
    micros += days * MICROS_PER_DAY
    if months and micros:
        raise unsupported(f"the interval {text}", "add its months and its days one after the other")
    return Literal(months, YEAR_MONTH) if months else Literal(micros, DAY_TIME)


def fields_of(node: JsonTree) -> tuple[str, str]:
    """The first and the last field of an interval's type."""
    kind = node.fields.get("dataType")
    if not (isinstance(kind, str) and kind.startswith("interval ")):
        kind = node.fields["java"].node.dataType().typeName()
    words = kind.split()
    return words[1], words[-1]


def interval_arithmetic(function: str, left: Expression, right: Expression, mode: str) -> Expression:
    """A sum or difference of two intervals."""
    nullable = left.nullable or right.nullable or mode == "try"
    return call(f"interval_{function}", (left, right), left.type, nullable, mode=mode)


def cast_of_interval(node: JsonTree, value: Expression, target: pa.DataType) -> Expression | None:
    """A cast from or to an interval; None for others.

    Raises
    ------
    TidemillError
        TM2101 for a cast that is not supported.
    """
    if value.type in INTERVALS:
        first, last = fields_of(node.children[0])
        unit = _MONTHS[last] if value.type == YEAR_MONTH else UNITS[last]
        if pa.types.is_string(target):
            return call("interval_text", (value,), target, first=first, last=last)
        if pa.types.is_integer(target):
            return call("interval_to_number", (value,), target, unit=unit)
        if target == value.type:
            end = fields_of(node)[1]
            size = _MONTHS[end] if target == YEAR_MONTH else UNITS[end]
            return value if size <= unit or end == "second" else call("cut_interval", (value,), target, unit=size)
    elif target in INTERVALS and pa.types.is_integer(value.type):
        last = fields_of(node)[1]
        unit = _MONTHS[last] if target == YEAR_MONTH else UNITS[last]
        return call("number_to_interval", (value,), target, unit=unit)
    elif target not in INTERVALS or pa.types.is_null(value.type):
        return None
    raise unsupported(f"CAST({type_to_ddl(value.type)} AS {type_to_ddl(target)})")


def _difference(function: str) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        if node.fields.get("legacyInterval"):
            raise unsupported("a difference as a legacy interval", "set the legacy option of Spark to false")
        return call(function, to.args(node), DAY_TIME)

    return rule


def _make(type_: pa.DataType, units: tuple[int, ...]) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        return call("make_interval", to.args(node), type_, units=units)

    return rule


def _field(type_: pa.DataType, unit: int, within: int = 0) -> Rule:
    def rule(node: JsonTree, to: Translator) -> Expression:
        return call("interval_field", to.args(node), type_, unit=unit, within=within)

    return rule


def plus_interval(node: JsonTree, to: Translator) -> Expression:
    """A date or timestamp and an interval, whose days are those of the session's time zone."""
    constant = node.children[1]
    if (
        constant.name == "Literal"
        and constant.fields["dataType"] == "interval"
        and constant.fields["value"] is not None
    ):
        return _plus_calendar_interval(node, to.arg(node, 0), str(constant.fields["value"]))
    value, interval = to.arg(node, 0), to.arg(node, 1)
    if interval.type not in INTERVALS:
        raise unsupported(f"{node.name} with an interval that is not a constant")
    number: Expression
    if isinstance(interval, Literal) and interval.value is not None:
        number = Literal(interval.value, pa.int64())
    else:
        number = call("interval_number", (interval,), pa.int64())
    if pa.types.is_date(value.type):
        if interval.type != YEAR_MONTH:
            raise unsupported(f"{node.name} with an interval of less than a day")
        months = Literal(number.value, pa.int32()) if isinstance(number, Literal) else None
        return call("add_months", (value, months or _as_int(number)), pa.date32())
    unit = "month" if interval.type == YEAR_MONTH else "microsecond"
    zone = zone_option(node) if value.type == TIMESTAMP else {}
    return call("timestamp_add", (value, number), value.type, unit=unit, **zone)


def _plus_calendar_interval(node: JsonTree, value: Expression, text: str) -> Expression:
    """Its months, then its days, both by the calendar of the zone, then its microseconds, which pass in any zone."""
    months, days, micros = calendar_interval(text)
    if pa.types.is_date(value.type):
        if micros:
            raise unsupported(f"{node.name} with an interval of less than a day")
        if months:
            value = call("add_months", (value, Literal(months, pa.int32())), pa.date32())
        return call("date_add", (value, Literal(days, pa.int32())), pa.date32()) if days or not months else value
    zone = zone_option(node) if value.type == TIMESTAMP else {}
    passing: dict[str, str] = {}
    steps = (("month", months, zone), ("microsecond", days * MICROS_PER_DAY, zone), ("microsecond", micros, passing))
    for unit, number, option in steps:
        if number:
            value = call("timestamp_add", (value, Literal(number, pa.int64())), value.type, unit=unit, **option)
    return value


def _as_int(number: Expression) -> Expression:
    return call("cast", (number,), pa.int32(), mode="ansi")


def or_interval(function: str, plain: Rule, result: Callable[[pa.DataType], pa.DataType] = lambda t: t) -> Rule:
    """A rule for numbers, or ``function`` where the first argument is an interval."""

    def rule(node: JsonTree, to: Translator) -> Expression:
        first = to.arg(node, 0)
        if first.type in INTERVALS:
            return call(function, (first,), result(first.type))
        return plain(node, to)

    return rule


def interval_literal(node: JsonTree) -> Literal | None:
    """A constant interval; None for other constants."""
    kind, value = node.fields["dataType"], node.fields["value"]
    if kind == "interval" and value is not None:
        return calendar_literal(str(value))
    if isinstance(kind, str) and kind.startswith("interval "):
        return Literal(None if value is None else int(value), type_of(kind))
    return None


_DAY, _HOUR, _MINUTE, _SECOND = UNITS.values()

INTERVAL_RULES: dict[str, Rule] = {
    "SubtractTimestamps": _difference("subtract_timestamps"), "SubtractDates": _difference("subtract_dates"),
    **dict.fromkeys(("MultiplyDTInterval", "MultiplyYMInterval"), fixed("multiply_interval")),
    **dict.fromkeys(("DivideDTInterval", "DivideYMInterval"), fixed("divide_interval")),
    "MakeDTInterval": _make(DAY_TIME, (_DAY, _HOUR, _MINUTE, _SECOND)), "MakeYMInterval": _make(YEAR_MONTH, (12, 1)),
    "ExtractANSIIntervalDays": _field(pa.int32(), _DAY), "ExtractANSIIntervalHours": _field(pa.int8(), _HOUR, _DAY),
    "ExtractANSIIntervalMinutes": _field(pa.int8(), _MINUTE, _HOUR),
    "ExtractANSIIntervalSeconds": _field(pa.decimal128(8, 6), _SECOND, _MINUTE),
    "ExtractANSIIntervalYears": _field(pa.int32(), 12), "ExtractANSIIntervalMonths": _field(pa.int8(), 1, 12),
    **dict.fromkeys(
        ("TimestampAddInterval", "TimestampAddYMInterval", "DateAddYMInterval", "DateAddInterval"), plus_interval
    ),
}  # fmt: skip
