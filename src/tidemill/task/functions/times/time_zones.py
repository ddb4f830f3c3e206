"""Times between zones: what a clock shows, and when that is, see :mod:`tidemill.zones`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns import failures
from tidemill.task.functions.columns.compute import Array, null_unless, pc
from tidemill.task.functions.columns.numpy_values import from_numpy, to_numpy
from tidemill.task.functions.columns.registry import Value, as_array, fails_unless_try, function
from tidemill.task.functions.times.time_text import MICROS_PER_DAY, days_from_civil
from tidemill.zones import Ints, clock_of


def local_of_utc(zone: str, instants: Ints) -> Ints:
    """What a clock of a zone shows at some instants; both are microseconds since 1970."""
    return clock_of(zone).local(instants)


def instant_of_local(zone: str, local: Ints) -> Ints:
    """When a clock of a zone shows some times; both are microseconds since 1970."""
    return clock_of(zone).instant(local)


def _by_zone(convert: Callable[[str, Ints], Ints], zones: Value, micros: Ints, present: npt.NDArray[np.bool_]) -> Ints:
    """``convert`` of each zone's rows."""
    if isinstance(zones, pa.Scalar):
        return convert(zones.as_py(), micros) if zones.is_valid and present.any() else micros
    coded = zones.dictionary_encode()
    codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
    result = micros.copy()
    for code, zone in enumerate(coded.dictionary.to_pylist()):
        rows = (codes == code) & present
        if rows.any():
            result[rows] = convert(zone, micros[rows])
    return result


def _convert(call: Call, args: list[Value], rows: int, *steps: tuple[Callable[[str, Ints], Ints], int]) -> Array:
    """The last argument through some conversions, each by the zones of an argument."""
    times = as_array(args[-1], rows)
    nulls = [times, *(as_array(a, rows) for a in args[:-1])]
    present = np.logical_and.reduce([a.is_valid().to_numpy(zero_copy_only=False) for a in nulls])
    micros: Ints = to_numpy(times.cast(pa.int64()), rows)
    for convert, at in steps:
        micros = _by_zone(convert, args[at], micros, present)
    return from_numpy(micros, pa.int64(), *nulls).cast(call.type)


@function("from_utc_timestamp", fails=True)
def _from_utc_timestamp(call: Call, args: list[Value], rows: int) -> Value:
    return _convert(call, args, rows, (local_of_utc, 0))


@function("to_utc_timestamp", fails=True)
def _to_utc_timestamp(call: Call, args: list[Value], rows: int) -> Value:
    return _convert(call, args, rows, (instant_of_local, 0))


@function("convert_timezone", fails=True)
def _convert_timezone(call: Call, args: list[Value], rows: int) -> Value:
    return _convert(call, args, rows, (instant_of_local, 0), (local_of_utc, 1))


@function("make_timestamp", sql=("make_timestamp", "make_timestamp_ltz", "make_timestamp_ntz"), fails=fails_unless_try)
def _make_timestamp(call: Call, args: list[Value], rows: int) -> Value:
    """Year, month, day, hour, minute, second (a decimal; 60 is the next minute), and perhaps a zone."""
    arrays = [as_array(a, rows) for a in args]
    year, month, day, hour, minute = (to_numpy(a, rows).astype(np.int64) for a in arrays[:5])
    scaled = pc.multiply(arrays[5].cast(pa.decimal128(16, 6)), pa.scalar(Decimal(1_000_000), pa.decimal128(7, 0)))
    micros: Ints = to_numpy(scaled.cast(pa.decimal128(30, 0)).cast(pa.int64()), rows)
    minutes = 60 * 1_000_000
    inside = (year >= -290_000) & (year <= 290_000)
    days, exists = days_from_civil(np.where(inside, year, 1970), np.where(month > 0, month, 1), day)
    good = inside & exists & (month >= 1) & (month <= 12) & (hour >= 0) & (hour < 24) & (minute >= 0) & (minute < 60)
    good &= (micros >= 0) & (micros <= minutes)
    missing = [a.is_null().to_numpy(zero_copy_only=False) for a in arrays]
    bad = pa.array(~good & ~np.logical_or.reduce(missing))
    if failures.any_true(bad) and fails_unless_try(call):
        raise failures.failure("the fields do not make a timestamp", bad, *arrays[:6])
    total = np.where(good, days, 0) * MICROS_PER_DAY + hour * 60 * minutes + minute * minutes + micros
    total = np.where(good, total, 0)
    if len(args) > 6:
        total = _by_zone(instant_of_local, args[6], total, good & ~missing[6])
    result = from_numpy(total, pa.int64(), *arrays)
    return null_unless(pa.array(good), result).cast(call.type)
