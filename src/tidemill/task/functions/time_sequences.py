"""``sequence`` of dates and timestamps with a step of days, months or less."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.schema import YEAR_MONTH
from tidemill.state.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions import dates
from tidemill.task.functions.lists import Lists, offsets_of, put_together, validity
from tidemill.task.functions.registry import Value, as_array, function
from tidemill.task.functions.sizes import check_size
from tidemill.task.functions.time_text import MICROS_PER_DAY
from tidemill.task.functions.timestamps import micros

_LONGEST = 1 << 31
_SHORTEST_MONTH = 28 * MICROS_PER_DAY


@function("sequence_of_times", sql=("sequence",), fails=True)
def _sequence_of_times(call: Call, args: list[Value], rows: int) -> Value:
    arrays = [as_array(a, rows) for a in args]
    valid = np.logical_and.reduce([validity(a) for a in arrays])
    date = pa.types.is_date(arrays[0].type)
    if date:
        start, stop = (dates.days(a, rows) * MICROS_PER_DAY for a in arrays[:2])
    else:
        start, stop = (micros(a, rows) for a in arrays[:2])
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
    months = len(arrays) > 2 and arrays[2].type == YEAR_MONTH
    size = np.maximum(np.abs(step) * (_SHORTEST_MONTH if months else 1), 1)
    count = np.where(valid, np.abs(stop - start) // size + (2 if months else 1), 0)
    if count.astype(np.float64).sum() > _LONGEST:
        raise EvaluationError("TM3004", "a sequence is too long", got=f"{count.max():,} elements")
    check_size(8.0 * float(count.astype(np.float64).sum()))
    owners = np.repeat(np.arange(rows), count)
    offsets = offsets_of(count)
    steps = (np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], count)) * step[owners]
    first = start[owners]
    if months:
        shifted = dates.shift_months(np.floor_divide(first, MICROS_PER_DAY), steps)
        values = shifted * MICROS_PER_DAY + first % MICROS_PER_DAY
        kept = np.where(step[owners] > 0, values <= stop[owners], values >= stop[owners])
        kept &= (step[owners] != 0) | (steps == 0)
        values, owners = values[kept], owners[kept]
        if (step == 0).any():  # one element, which every step of 0 repeats
            once = np.append(True, (owners[1:] != owners[:-1]) | (step[owners[1:]] != 0))
            values, owners = values[once], owners[once]
        offsets = offsets_of(np.bincount(owners, minlength=rows).astype(np.int64))
    else:
        values = first + steps
    inner = call.type.value_type
    if date:
        elements = column(np.floor_divide(values, MICROS_PER_DAY)).cast(pa.int32()).cast(inner)
    else:
        elements = column(values).cast(inner)
    return put_together(call.type, Lists(valid, offsets, elements))
