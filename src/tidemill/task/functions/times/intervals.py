"""Intervals: differences of times, arithmetic, fields, numbers and texts.

An interval of days to seconds is a number of microseconds (``DAY_TIME``), one of years and months a number of months
(``YEAR_MONTH``). Which fields a type shows matters only for casts; it is an option of these.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.schema import DAY_TIME
from tidemill.task.expressions import Call
from tidemill.task.functions.columns import failures
from tidemill.task.functions.columns.compute import Array, element_type, null_unless, null_where, pc, repeat
from tidemill.task.functions.columns.lists import put_together, take_apart
from tidemill.task.functions.columns.numpy_values import from_numpy, to_numpy
from tidemill.task.functions.columns.registry import Value, as_array, fails_unless_try, function
from tidemill.task.functions.numbers.arithmetic import integer_overflow
from tidemill.task.functions.times.time_text import MICROS_PER_DAY

Ints = npt.NDArray[np.int64]

UNITS = {"day": MICROS_PER_DAY, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
"""Microseconds of the fields of an interval of days to seconds, from large to small."""


def _integers(value: Value, rows: int) -> Ints:
    numbers: Ints = to_numpy(as_array(value, rows).cast(pa.int64()), rows)
    return numbers


def _limit(type_: pa.DataType) -> int:
    """The bound of an interval: months have 32 bits, microseconds 64."""
    return 2**63 if type_ == DAY_TIME else 2**31


def _result(call: Call, numbers: Ints, bad: npt.NDArray[np.bool_], *args: Array) -> Array:
    """Intervals of numbers; ``bad`` do not fit: an error, or NULL with the mode ``try``."""
    found = from_numpy(numbers, pa.int64(), *args)
    if call.type != DAY_TIME:
        bad = bad | (numbers >= _limit(call.type)) | (numbers < -_limit(call.type))
    if not bad.any():
        return found.cast(call.type)
    wrong = pc.and_(pa.array(bad), found.is_valid())
    if fails_unless_try(call) and failures.any_true(wrong):
        raise failures.overflow(call.function, call.type, wrong, *args)
    return null_where(wrong, found).cast(call.type)


@function("interval_number", sql=())
def _interval_number(call: Call, args: list[Value], rows: int) -> Value:
    return as_array(args[0], rows).cast(pa.int64())


@function("number_interval", sql=(), fails=True)
def _number_interval(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    return _result(call, _integers(array, rows), np.zeros(rows, np.bool_), array)


@function("double_interval", sql=())
def _double_interval(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    if pa.types.is_list(array.type):
        lists = take_apart(array, rows)
        values = pc.trunc(lists.values).cast(pa.int64()).cast(element_type(call.type))
        return put_together(call.type, lists.with_values(values))
    return pc.trunc(array).cast(pa.int64()).cast(call.type)


@function("subtract_timestamps", sql=("timestamp - timestamp",), fails=True)
def _subtract_timestamps(call: Call, args: list[Value], rows: int) -> Value:
    left, right = as_array(args[0], rows).cast(pa.int64()), as_array(args[1], rows).cast(pa.int64())
    bad = to_numpy(integer_overflow("subtract", left, right, rows), rows)
    return _result(call, _integers(left, rows) - _integers(right, rows), bad, left, right)


@function("subtract_dates", sql=("date - date",))
def _subtract_dates(call: Call, args: list[Value], rows: int) -> Value:
    left, right = (as_array(a, rows) for a in args)
    days = _integers(left.cast(pa.int32()), rows) - _integers(right.cast(pa.int32()), rows)
    return from_numpy(days * MICROS_PER_DAY, pa.int64(), left, right).cast(call.type)


def _sum(name: str, operation: str, sql: str) -> None:
    @function(name, sql=(sql,), fails=fails_unless_try)
    def kernel(call: Call, args: list[Value], rows: int) -> Value:
        left, right = as_array(args[0], rows).cast(pa.int64()), as_array(args[1], rows).cast(pa.int64())
        bad = to_numpy(integer_overflow(operation, left, right, rows), rows)
        a, b = _integers(left, rows), _integers(right, rows)
        return _result(call, a + b if operation == "add" else a - b, bad, left, right)


_sum("interval_add", "add", "interval + interval")
_sum("interval_subtract", "subtract", "interval - interval")


@function("interval_negate", sql=("-interval",), fails=True)
def _negate(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    numbers = _integers(array, rows)
    return _result(call, -numbers, numbers == -_limit(call.type), array)


@function("interval_abs", sql=("abs",), fails=True)
def _abs(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    numbers = _integers(array, rows)
    return _result(call, np.abs(numbers), numbers == -_limit(call.type), array)


@function("interval_sign", sql=("sign", "signum"))
def _sign(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    return from_numpy(np.sign(_integers(array, rows)).astype(np.float64), pa.float64(), array)


def _rounded_doubles(call: Call, numbers: npt.NDArray[np.float64], *args: Array) -> Array:
    """Doubles as intervals, halves away from zero."""
    with np.errstate(invalid="ignore", over="ignore"):
        whole = np.trunc(numbers)
        away = np.where(np.abs(numbers - whole) >= 0.5, np.sign(numbers), 0.0)
        rounded = whole + away
        bad = ~(np.abs(rounded) < float(_limit(call.type)))
        return _result(call, np.where(bad, 0.0, rounded).astype(np.int64), bad, *args)


def _decimal_results(call: Call, interval: Array, number: Array, divide: bool) -> Array:
    """Products and quotients with decimals, exactly, halves away from zero."""
    found, bad = np.zeros(len(interval), np.int64), np.zeros(len(interval), np.bool_)
    with localcontext() as context:
        context.prec = 80
        pairs = zip(interval.cast(pa.int64()).to_pylist(), number.to_pylist(), strict=True)
        for row, (left, right) in enumerate(pairs):
            if left is None or right is None:
                continue
            exact = Decimal(left) / right if divide else Decimal(left) * right
            whole = int(exact.to_integral_value(ROUND_HALF_UP))
            bad[row] = not -_limit(call.type) <= whole < _limit(call.type)
            found[row] = 0 if bad[row] else whole
    return _result(call, found, bad, interval, number)


@function("multiply_interval", sql=("interval * number",), fails=fails_unless_try)
def _multiply(call: Call, args: list[Value], rows: int) -> Value:
    interval, number = as_array(args[0], rows), as_array(args[1], rows)
    if pa.types.is_decimal(number.type):
        return _decimal_results(call, interval, number, False)
    if pa.types.is_floating(number.type):
        product = _integers(interval, rows).astype(np.float64) * to_numpy(number, rows).astype(np.float64)
        return _rounded_doubles(call, product, interval, number)
    left, right = interval.cast(pa.int64()), number.cast(pa.int64())
    bad = to_numpy(integer_overflow("multiply", left, right, rows), rows)
    with np.errstate(over="ignore"):
        return _result(call, _integers(left, rows) * _integers(right, rows), bad, interval, number)


@function("divide_interval", sql=("interval / number",), fails=fails_unless_try)
def _divide(call: Call, args: list[Value], rows: int) -> Value:
    interval, number = as_array(args[0], rows), as_array(args[1], rows)
    nothing = pa.scalar(Decimal(0) if pa.types.is_decimal(number.type) else 0, number.type)
    zero = pc.and_(pc.equal(number, nothing), interval.is_valid())
    if failures.any_true(zero):
        if fails_unless_try(call):
            raise failures.division_by_zero(zero, interval)
        number = null_where(zero, number)
    if pa.types.is_decimal(number.type):
        return _decimal_results(call, interval, number, True)
    if pa.types.is_floating(number.type):
        with np.errstate(divide="ignore", invalid="ignore"):
            quotient = _integers(interval, rows).astype(np.float64) / to_numpy(number, rows).astype(np.float64)
        return _rounded_doubles(call, quotient, interval, number)
    left, right = _integers(interval, rows), _integers(number, rows)
    bad = (left == -_limit(call.type)) & (right == -1)
    safe = np.where((right == 0) | bad, 1, right)
    whole = np.abs(left) // np.abs(safe)
    rest = np.abs(left) - whole * np.abs(safe)
    rounded = whole + (rest >= np.abs(safe) - rest)
    return _result(call, np.where((left < 0) != (safe < 0), -rounded, rounded), bad, interval, number)


def _truncated(numbers: Ints, size: int) -> Ints:
    """The quotient towards zero."""
    result: Ints = np.sign(numbers) * (np.abs(numbers) // size)
    return result


@function("interval_field", sql=("extract(... FROM interval)",))
def _field(call: Call, args: list[Value], rows: int) -> Value:
    """``unit`` is that of the field; ``within`` the size of the next larger one, 0 for none."""
    array = as_array(args[0], rows)
    numbers, size, within = _integers(array, rows), int(call.option("unit")), int(call.option("within"))
    if within:
        numbers = np.sign(numbers) * (np.abs(numbers) % within)
    if pa.types.is_decimal(call.type):
        whole = from_numpy(numbers, pa.int64(), array).cast(pa.decimal128(19, 0))
        return pc.multiply(whole, pa.scalar(Decimal("0.000001"), pa.decimal128(6, 6))).cast(call.type)
    return from_numpy(_truncated(numbers, size), pa.int64(), array).cast(call.type)


@function("interval_to_number", sql=("CAST(interval AS number)",), fails=True)
def _to_number(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    found = _truncated(_integers(array, rows), int(call.option("unit")))
    bound = 2 ** (call.type.bit_width - 1)
    bad = pc.and_(pa.array((found >= bound) | (found < -bound)), array.is_valid())
    if failures.any_true(bad):
        raise failures.overflow("cast", call.type, bad, array)
    return from_numpy(found, pa.int64(), array).cast(call.type)


@function("number_to_interval", sql=("CAST(number AS interval)",), fails=True)
def _from_number(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows).cast(pa.int64())
    unit = pa.repeat(pa.scalar(int(call.option("unit")), pa.int64()), rows)
    bad = to_numpy(integer_overflow("multiply", array, unit, rows), rows)
    with np.errstate(over="ignore"):
        return _result(call, _integers(array, rows) * int(call.option("unit")), bad, array)


@function("cut_interval", sql=("CAST(interval AS interval)",))
def _cut(call: Call, args: list[Value], rows: int) -> Value:
    array, size = as_array(args[0], rows), int(call.option("unit"))
    return from_numpy(_truncated(_integers(array, rows), size) * size, pa.int64(), array).cast(call.type)


@function("make_interval", sql=("make_dt_interval", "make_ym_interval"), fails=True)
def _make(call: Call, args: list[Value], rows: int) -> Value:
    """``units`` has one number for each argument; seconds are decimals."""
    arrays = [as_array(a, rows) for a in args]
    wide = pa.decimal256(60, 0)
    total = repeat(pa.scalar(Decimal(0), wide), rows)
    for array, unit in zip(arrays, call.option("units"), strict=True):
        if pa.types.is_decimal(array.type):  # seconds, whose unit is a million of what counts
            number = pc.multiply(array.cast(pa.decimal256(38, 6)), pa.scalar(Decimal(int(unit)), pa.decimal256(8, 0)))
        else:
            number = pc.multiply(array.cast(pa.decimal256(20, 0)), pa.scalar(Decimal(int(unit)), pa.decimal256(12, 0)))
        total = pc.add(total, number.cast(wide)).cast(wide)
    bound = pa.scalar(Decimal(_limit(call.type)), wide)
    bad = to_numpy(pc.or_(pc.greater_equal(total, bound), pc.less(total, pc.negate(bound))), rows)
    safe = pc.if_else(pa.array(bad), pa.scalar(Decimal(0), wide), total)
    return _result(call, _integers(pc.fill_null(safe, Decimal(0)).cast(pa.int64()), rows), bad, *arrays)


def _padded(numbers: Ints, width: int) -> Array:
    return pc.utf8_lpad(pa.array(numbers, pa.int64()).cast(pa.string()), width, "0")


@function("interval_text", sql=("CAST(interval AS STRING)",))
def _text(call: Call, args: list[Value], rows: int) -> Value:
    """``first`` and ``last`` are the fields of the type."""
    array = as_array(args[0], rows)
    first, last = str(call.option("first")), str(call.option("last"))
    numbers = _integers(array, rows)
    sign = pa.array(np.where(numbers < 0, "-", ""))
    rest = np.abs(numbers)
    shown = first.upper() if first == last else f"{first.upper()} TO {last.upper()}"
    if array.type != DAY_TIME:
        if first == last:
            body = pa.array(rest // 12 if first == "year" else rest, pa.int64()).cast(pa.string())
        else:
            years, months = (pa.array(n, pa.int64()).cast(pa.string()) for n in (rest // 12, rest % 12))
            body = pc.binary_join_element_wise(years, months, "-")
    else:
        fields = list(UNITS)
        parts: list[Array] = []
        for field in fields[fields.index(first) : fields.index(last) + 1]:
            if parts:
                parts.append(pa.repeat(pa.scalar(" " if field == "hour" else ":"), rows))
            whole = rest // UNITS[field]
            rest = rest % UNITS[field]
            parts.append(_padded(whole, 1 if field == "day" else 2))
            if field == "second":
                digits = pc.utf8_rtrim(_padded(rest, 6), "0")
                parts.append(pc.if_else(pa.array(rest == 0), "", pc.binary_join_element_wise(".", digits, "")))
        body = pc.binary_join_element_wise(*parts, "")
    text = pc.binary_join_element_wise("INTERVAL '", sign, body, f"' {shown}", "")
    return null_unless(array.is_valid(), text)
