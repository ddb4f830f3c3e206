"""Fields of dates and arithmetic on dates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns import failures
from tidemill.task.functions.columns.compute import Array, null_unless, pc
from tidemill.task.functions.columns.numpy_values import from_numpy, to_numpy
from tidemill.task.functions.columns.registry import Kernel, Value, as_array, function
from tidemill.task.functions.times.time_text import days_from_civil


def days(value: Value, rows: int) -> npt.NDArray[np.int64]:
    """Days since 1970-01-01 as 64-bit integers, 0 where NULL."""
    numbers: npt.NDArray[np.int64] = to_numpy(as_array(value, rows).cast(pa.int32()), rows).astype(np.int64)
    return numbers


def to_dates(numbers: npt.NDArray[Any], *nulls_of: Array) -> Array:
    """Day numbers as dates; they wrap at 32 bits, as Java's int does."""
    return from_numpy(numbers.astype(np.int32), pa.int32(), *nulls_of).cast(pa.date32())


def civil(numbers: npt.NDArray[np.int64]) -> tuple[Any, Any]:
    """Months since January 1970 and the zero-based day of the month."""
    dates = numbers.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    return months.astype(np.int64), (dates - months.astype("datetime64[D]")).astype(np.int64)


def month_start(months: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The day number of the first day of each month."""
    starts: npt.NDArray[np.int64] = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return starts


def shift_months(numbers: npt.NDArray[np.int64], by: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The same day some months later, or the last day of a month that is too short."""
    months, day = civil(numbers)
    target = months + by
    first = month_start(target)
    shifted: npt.NDArray[np.int64] = first + np.minimum(day, month_start(target + 1) - first - 1)
    return shifted


def _field(compute: Callable[[Array], Array]) -> Kernel:
    def kernel(call: Call, args: list[Value], rows: int) -> Value:
        return compute(as_array(args[0], rows)).cast(call.type)

    return kernel


function("year")(_field(pc.year))
function("quarter")(_field(pc.quarter))
function("month")(_field(pc.month))
function("day", sql=("day", "dayofmonth"))(_field(pc.day))
function("day_of_year", sql=("dayofyear",))(_field(pc.day_of_year))
function("day_of_week", sql=("dayofweek",))(
    _field(lambda array: pc.day_of_week(array, count_from_zero=False, week_start=7))
)
function("weekday")(_field(pc.day_of_week))
function("week_of_year", sql=("weekofyear", "extract(week ...)"))(_field(pc.iso_week))
function("year_of_week", sql=("extract(yearofweek ...)",))(_field(pc.iso_year))
function("unix_date")(_field(lambda array: array.cast(pa.int32())))
function("date_from_unix_date")(_field(lambda array: array.cast(pa.date32())))


def _named(names: list[str], index: Callable[[Array], Array]) -> Kernel:
    def kernel(call: Call, args: list[Value], rows: int) -> Value:
        return pa.array(names).take(index(as_array(args[0], rows)))

    return kernel


MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]

function("month_name", sql=("monthname",))(_named(MONTHS, lambda array: pc.subtract(pc.month(array), 1)))
function("day_name", sql=("dayname",))(_named(DAYS, pc.day_of_week))


@function("date_add", sql=("date_add", "date + n", "date +/- INTERVAL ... DAY"))
def _date_add(call: Call, args: list[Value], rows: int) -> Value:
    start, number = as_array(args[0], rows), as_array(args[1], rows)
    return to_dates(days(start, rows) + to_numpy(number, rows), start, number)


@function("date_sub", sql=("date_sub", "date - n"))
def _date_sub(call: Call, args: list[Value], rows: int) -> Value:
    start, number = as_array(args[0], rows), as_array(args[1], rows)
    return to_dates(days(start, rows) - to_numpy(number, rows), start, number)


@function("date_diff", sql=("datediff", "date_diff"))
def _date_diff(call: Call, args: list[Value], rows: int) -> Value:
    end, start = as_array(args[0], rows), as_array(args[1], rows)
    return from_numpy((days(end, rows) - days(start, rows)).astype(np.int32), call.type, end, start)


@function("add_months", sql=("add_months", "date +/- INTERVAL ... MONTH"), fails=True)
def _add_months(call: Call, args: list[Value], rows: int) -> Value:
    start, number = as_array(args[0], rows), as_array(args[1], rows)
    shifted = shift_months(days(start, rows), to_numpy(number, rows).astype(np.int64))
    bad = pc.and_(pa.array(np.abs(shifted) >= 2**31), pc.and_(start.is_valid(), number.is_valid()))
    if failures.any_true(bad):
        raise failures.overflow(call.function, call.type, bad, start, number)
    return to_dates(shifted, start, number)


@function("last_day")
def _last_day(call: Call, args: list[Value], rows: int) -> Value:
    start = as_array(args[0], rows)
    return to_dates(month_start(civil(days(start, rows))[0] + 1) - 1, start)


@function("next_day")
def _next_day(call: Call, args: list[Value], rows: int) -> Value:
    start = as_array(args[0], rows)
    numbers = days(start, rows)
    # Day 0 of 1970 was a Thursday, weekday 3 when Monday is 0.
    ahead = (int(call.option("weekday")) - numbers - 3 - 1) % 7 + 1
    return to_dates(numbers + ahead, start)


def truncate_days(numbers: npt.NDArray[np.int64], unit: str) -> npt.NDArray[np.int64]:
    """The first day of the week, month, quarter or year of each day."""
    if unit == "week":
        return numbers - (numbers + 3) % 7
    months = civil(numbers)[0]
    size = {"month": 1, "quarter": 3, "year": 12}[unit]
    return month_start(months - months % size)


@function("trunc_date", sql=("trunc",))
def _trunc_date(call: Call, args: list[Value], rows: int) -> Value:
    start = as_array(args[0], rows)
    return to_dates(truncate_days(days(start, rows), str(call.option("unit"))), start)


@function("make_date", fails=lambda call: bool(call.option("mode", "ansi") == "ansi"))
def _make_date(call: Call, args: list[Value], rows: int) -> Value:
    parts = [as_array(arg, rows) for arg in args]
    year, month, day = (to_numpy(part, rows).astype(np.int64) for part in parts)
    # Keep impossible years out of datetime64; LocalDate ends at one thousand million.
    inside = np.abs(year) <= 999_999_999
    numbers, exists = days_from_civil(np.where(inside, year, 1970), np.clip(month, 0, 13), day)
    good = inside & exists & (numbers >= -(2**31)) & (numbers < 2**31)
    present = pc.and_(pc.and_(parts[0].is_valid(), parts[1].is_valid()), parts[2].is_valid())
    bad = pc.and_(present, pa.array(~good))
    if failures.any_true(bad) and call.option("mode", "ansi") == "ansi":
        raise failures.failure("the date does not exist", bad, *parts)
    result = to_dates(np.where(good, numbers, 0), *parts)
    return null_unless(pa.array(good), result)
