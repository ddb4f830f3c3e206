"""``sequence`` of dates and timestamps with a step of days, months or less; days and months are those of a zone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column
from tidemill.schema import YEAR_MONTH
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import element_type
from tidemill.task.functions.columns.lists import Ints, Lists, offsets_of, put_together
from tidemill.task.functions.columns.numpy_values import validity
from tidemill.task.functions.columns.registry import Value, as_array, function
from tidemill.task.functions.columns.sizes import check_size
from tidemill.task.functions.times import dates
from tidemill.task.functions.times.time_text import MICROS_PER_DAY
from tidemill.task.functions.times.timestamps import clock_of_call, days_later, micros, shift_months
from tidemill.zones import Clock

_LONGEST = 1 << 31
_SHORTEST_MONTH = 28 * MICROS_PER_DAY


@function("sequence_of_times", sql=("sequence",), fails=True)
def _sequence_of_times(call: Call, args: list[Value], rows: int) -> Value:
    arrays = [as_array(a, rows) for a in args]
    valid = np.logical_and.reduce([validity(a) for a in arrays])
    months = len(arrays) > 2 and arrays[2].type == YEAR_MONTH
    date = pa.types.is_date(arrays[0].type)
    clock = clock_of_call(call) if months or not date else None
    if not date:
        start, stop = (micros(a, rows) for a in arrays[:2])
    elif clock is None:
        start, stop = (dates.days(a, rows) * MICROS_PER_DAY for a in arrays[:2])
    else:
        start, stop = (clock.start_of_day(dates.days(a, rows)) for a in arrays[:2])
    step = micros(arrays[2], rows) if len(arrays) > 2 else np.where(start <= stop, 1, -1) * MICROS_PER_DAY
    allowed = ((step > 0) & (start <= stop)) | ((step < 0) & (start >= stop)) | ((step == 0) & (start == stop))
    if (valid & ~allowed).any():
        row = int(np.flatnonzero(valid & ~allowed)[0])
        raise EvaluationError(
            "TM3004",
            "a sequence cannot be made of these bounds",
            got=f"sequence({', '.join(str(a[row]) for a in arrays)})",
            hint="the step must lead from the first to the last and must not be 0",
        )
    size = np.maximum(np.abs(step) * (_SHORTEST_MONTH if months else 1), 1)
    uneven = np.full(rows, months or clock is not None) & (step != 0)
    # Days of a zone may be shorter than 24 hours, and a clock may even pass over one.
    count = np.where(valid, np.abs(stop - start) // size + np.where(uneven, 1 if clock is None else 3, 0) + 1, 0)
    if count.astype(np.float64).sum() > _LONGEST:
        raise EvaluationError("TM3004", "a sequence is too long", got=f"{count.max():,} elements")
    check_size(8.0 * float(count.astype(np.float64).sum()))
    owners = np.repeat(np.arange(rows), count)
    offsets = offsets_of(count)
    times = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], count)
    values = _later(start[owners], times, step[owners], months, clock)
    if uneven.any():
        kept = np.where(step[owners] < 0, values >= stop[owners], values <= stop[owners])
        values, owners = values[kept], owners[kept]
        offsets = offsets_of(np.bincount(owners, minlength=rows).astype(np.int64))
    inner = element_type(call.type)
    if date:
        local = values if clock is None else clock.local(values)
        elements = column(np.floor_divide(local, MICROS_PER_DAY)).cast(pa.int32()).cast(inner)
    else:
        elements = column(values).cast(inner)
    return put_together(call.type, Lists(valid, offsets, elements))


def _later(first: Ints, times: Ints, step: Ints, months: bool, clock: Clock | None) -> Ints:
    """Times so many steps later; in a zone whole days of a step are those of its calendar."""
    if months:
        if clock is None:
            return shift_months(first, times * step)
        offset = clock.offset(first)
        return clock.instant(shift_months(first + offset, times * step), like=offset)
    if clock is None:
        return first + times * step
    days = np.sign(step) * (np.abs(step) // MICROS_PER_DAY)
    later = first + times * step
    whole = days_later(clock, first, times * days) + times * (step - days * MICROS_PER_DAY)
    return np.where(days == 0, later, whole)
