"""Fields of timestamps, truncation, arithmetic and Unix times.

Fields are those that a clock in UTC shows. What moves times by days, months or years takes an option ``zone``: the time
zone whose days these are, UTC without it.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns import failures
from tidemill.task.functions.columns.compute import Array, pc
from tidemill.task.functions.columns.numpy_values import from_numpy, to_numpy
from tidemill.task.functions.columns.registry import Value, as_array, function
from tidemill.task.functions.times import dates
from tidemill.task.functions.times.time_text import MICROS_PER_DAY
from tidemill.zones import Clock, clock_of

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": MICROS_PER_DAY,
    "week": 7 * MICROS_PER_DAY,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def micros(value: Value, rows: int) -> npt.NDArray[np.int64]:
    """Microseconds since 1970-01-01, 0 where NULL."""
    numbers: npt.NDArray[np.int64] = to_numpy(as_array(value, rows).cast(pa.int64()), rows)
    return numbers


def clock_of_call(call: Call) -> Clock | None:
    """The clock of the option ``zone``; None for UTC."""
    zone = call.option("zone")
    return None if zone is None else clock_of(str(zone))


def _timestamps(call: Call, numbers: npt.NDArray[np.int64], *nulls_of: Array) -> Array:
    return from_numpy(numbers, pa.int64(), *nulls_of).cast(call.type)


def _clock(name: str, divisor: int, size: int) -> None:
    @function(name)
    def kernel(call: Call, args: list[Value], rows: int) -> Value:
        array = as_array(args[0], rows)
        numbers = np.floor_divide(micros(array, rows), divisor) % size
        return from_numpy(numbers.astype(np.int32), call.type, array)


_clock("hour", _UNITS["hour"], 24)
_clock("minute", _UNITS["minute"], 60)
_clock("second", _UNITS["second"], 60)


@function("second_with_fraction", sql=("extract(second ...)",))
def _second_with_fraction(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    within = from_numpy(micros(array, rows) % _UNITS["minute"], pa.int64(), array)
    scaled = pc.multiply(within.cast(pa.decimal128(19, 0)), pa.scalar(Decimal("0.000001"), pa.decimal128(6, 6)))
    return scaled.cast(call.type)


@function("trunc_timestamp", sql=("date_trunc",))
def _trunc_timestamp(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    unit = str(call.option("unit"))
    numbers, clock = micros(array, rows), clock_of_call(call)
    size = 0 if unit == "week" else _UNITS.get(unit, 0)
    if clock is None or 0 < size <= _UNITS["second"]:
        return _timestamps(call, _truncated(numbers, unit, size), array)
    offset = clock.offset(numbers)
    return _timestamps(call, clock.instant(_truncated(numbers + offset, unit, size), like=offset), array)


def _truncated(numbers: npt.NDArray[np.int64], unit: str, size: int) -> npt.NDArray[np.int64]:
    if size:
        return numbers - numbers % size
    whole_days = np.floor_divide(numbers, MICROS_PER_DAY)
    return dates.truncate_days(whole_days, unit) * MICROS_PER_DAY


def _sum(call: Call, left: Array, right: Array, size: int) -> Array:
    """``left + right * size`` microseconds, with an error when that leaves 64 bits."""
    try:
        step = pc.multiply_checked(right, pa.scalar(size, pa.int64()))
        return pc.add_checked(left.cast(pa.int64()), step).cast(call.type)
    except pa.ArrowInvalid:
        wide = pc.abs(right.cast(pa.float64(), safe=False))
        bad = pc.equal(wide, pc.max(wide))
        raise failures.overflow(call.function, call.type, bad, left, right) from None


@function("timestamp_add", sql=("timestampadd", "timestamp +/- INTERVAL"), fails=True)
def _timestamp_add(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are timestamp and quantity. In a zone whole days are those of its calendar, as many as are in it."""
    start, quantity = as_array(args[0], rows), as_array(args[1], rows)
    unit, clock = str(call.option("unit")), clock_of_call(call)
    if unit in _UNITS:
        plain = _sum(call, start, quantity.cast(pa.int64()), _UNITS[unit])  # fails where the result leaves 64 bits
        return plain if clock is None else _sum_of_days(call, clock, start, quantity, _UNITS[unit])
    numbers = micros(start, rows)
    by = to_numpy(quantity, rows).astype(np.int64) * _MONTHS[unit]
    bad = pc.and_(pa.array(np.abs(by) > 12 * 300_000), pc.and_(start.is_valid(), quantity.is_valid()))
    if failures.any_true(bad):
        raise failures.overflow(call.function, call.type, bad, start, quantity)
    if clock is None:
        return _timestamps(call, shift_months(numbers, by), start, quantity)
    offset = clock.offset(numbers)
    return _timestamps(call, clock.instant(shift_months(numbers + offset, by), like=offset), start, quantity)


def _sum_of_days(call: Call, clock: Clock, start: Array, quantity: Array, size: int) -> Array:
    numbers, rows = micros(start, len(start)), len(start)
    step = to_numpy(quantity.cast(pa.int64()), rows) * size
    days = np.sign(step) * (np.abs(step) // MICROS_PER_DAY)
    moved = days_later(clock, numbers, days) + step - days * MICROS_PER_DAY
    return _timestamps(call, moved, start, quantity)


def days_later(clock: Clock, numbers: npt.NDArray[np.int64], days: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The instants at which a clock shows the same time some days later, by the same offset where it can be."""
    offset = clock.offset(numbers)
    return clock.instant(numbers + offset + days * MICROS_PER_DAY, like=offset)


def shift_months(numbers: npt.NDArray[np.int64], by: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The same time some months later, or on the last day of a month that is too short."""
    shifted = dates.shift_months(np.floor_divide(numbers, MICROS_PER_DAY), by)
    return shifted * MICROS_PER_DAY + numbers % MICROS_PER_DAY


@function("timestamp_diff", sql=("timestampdiff",))
def _timestamp_diff(call: Call, args: list[Value], rows: int) -> Value:
    start, end = as_array(args[0], rows), as_array(args[1], rows)
    first, second = micros(start, rows), micros(end, rows)
    unit = str(call.option("unit"))
    if unit in _UNITS:
        difference = second - first
        whole = np.sign(difference) * (np.abs(difference) // _UNITS[unit])
        return from_numpy(whole, call.type, start, end)
    months = _months_between(first, second)
    whole = np.sign(months) * (np.abs(months) // _MONTHS[unit])
    return from_numpy(whole, call.type, start, end)


def _months_between(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Complete months from ``first`` to ``second``, as ``ChronoUnit.MONTHS.between`` counts them.

    A day that is not complete goes first, which may lead into the month before.
    """
    (days1, time1), (days2, time2) = (np.divmod(numbers, MICROS_PER_DAY) for numbers in (first, second))
    days2 = days2 - ((days2 > days1) & (time2 < time1)) + ((days2 < days1) & (time2 > time1))
    (months1, day1), (months2, day2) = dates.civil(days1), dates.civil(days2)
    packed = (months2 - months1) * 32 + day2 - day1
    result: npt.NDArray[np.int64] = np.sign(packed) * (np.abs(packed) // 32)
    return result


def _unix(name: str, divisor: int, *sql: str) -> None:
    @function(name, sql=sql or (name,))
    def kernel(call: Call, args: list[Value], rows: int) -> Value:
        array = as_array(args[0], rows)
        return from_numpy(np.floor_divide(micros(array, rows), divisor), call.type, array)


_unix("unix_seconds", 1_000_000)
_unix("unix_millis", 1_000)
_unix("unix_micros", 1)


@function("unix_timestamp", sql=("unix_timestamp", "to_unix_timestamp"))
def _unix_timestamp(call: Call, args: list[Value], rows: int) -> Value:
    # Unlike unix_seconds this one truncates towards zero.
    return pc.divide(as_array(args[0], rows).cast(pa.int64()), pa.scalar(1_000_000, pa.int64()))


def _from_unix(name: str, factor: int) -> None:
    @function(name, fails=factor > 1)
    def kernel(call: Call, args: list[Value], rows: int) -> Value:
        array = as_array(args[0], rows).cast(pa.int64())
        return _sum(call, pa.repeat(pa.scalar(0, pa.int64()), rows), array, factor)


_from_unix("timestamp_seconds", 1_000_000)
_from_unix("timestamp_millis", 1_000)
_from_unix("timestamp_micros", 1)


@function("months_between")
def _fractional_months(call: Call, args: list[Value], rows: int) -> Value:
    """Spark's rule: whole months when both days are equal or last, else 31-day months by the second."""
    later, earlier = as_array(args[0], rows), as_array(args[1], rows)
    parts, clock = [], clock_of_call(call)
    for array in (later, earlier):
        numbers = micros(array, rows)
        whole_days = np.floor_divide(numbers if clock is None else clock.local(numbers), MICROS_PER_DAY)
        months, day = dates.civil(whole_days)
        length = dates.month_start(months + 1) - dates.month_start(months)
        begin = whole_days * MICROS_PER_DAY if clock is None else clock.start_of_day(whole_days)
        seconds = (numbers - begin) // 1_000_000
        parts.append((months, day + 1, day + 1 == length, seconds))
    (m1, d1, last1, s1), (m2, d2, last2, s2) = parts
    whole = (m1 - m2).astype(np.float64)
    same = (d1 == d2) | (last1 & last2)
    rest = ((d1 - d2) * 86_400 + s1 - s2) / (31 * 86_400)
    result = np.where(same, whole, whole + rest)
    if call.option("round", True):
        result = np.where(same, whole, np.round(result * 1e8) / 1e8)
    return from_numpy(result, call.type, later, earlier)
