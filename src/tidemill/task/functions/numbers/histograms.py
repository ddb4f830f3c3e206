"""``histogram_numeric``: the bins of a streaming histogram, of values in ascending order.

The algorithm is that of Ben-Haim and Tom-Tov, "A Streaming Parallel Decision Tree Algorithm" (JMLR 11, 2010), as Spark
and Hive have it: each value becomes a bin, or counts for the bin at its place; of more bins than there may be the two
that are closest become one, at their mean. Of equally close ones a generator of random numbers, always with the same
seed, chooses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.columns import column
from tidemill.kernels.words import inlined, kernel
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import element_type, fields_of, pc
from tidemill.task.functions.columns.lists import Lists, offsets_of, put_together, take_apart
from tidemill.task.functions.columns.registry import Value, function

_F64 = types.array(types.float64, 1, "A", readonly=True)
_I64 = types.array(types.int64, 1, "A", readonly=True)
_F64_OUT = types.array(types.float64, 1, "C")
_I64_OUT = types.array(types.int64, 1, "C")

_SEED = 31183
_MULTIPLIER = 0x5DEECE66D
_MASK = (1 << 48) - 1
_UNIT = 2.0**-53


@function("histogram_bins", sql=("histogram_numeric",))
def _histogram_bins(call: Call, args: list[Value], rows: int) -> Value:
    """Bins of arrays whose elements are in ascending order; NULL for an array without elements."""
    lists = take_apart(args[0], rows)
    most = int(call.option("bins"))
    element = lists.values.type
    numbers = lists.values
    if not pa.types.is_floating(element):
        width = pa.int32() if pa.types.is_date(element) else pa.int64()
        numbers = numbers.cast(width).cast(pa.int64())
    values = numbers.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    counts = np.zeros(rows, np.int64)
    room = int(np.minimum(lists.lengths, most).sum())
    xs, ys = np.empty(room, np.float64), np.empty(room, np.float64)
    histograms(lists.offsets, values, most, counts, xs, ys)
    centres = column(xs[: int(counts.sum())])
    fields = fields_of(element_type(call.type))
    type_ = fields[0].type
    if not pa.types.is_floating(type_):
        whole = pc.trunc(centres).cast(pa.int64(), safe=False)
        centres = whole.cast(pa.int32()) if pa.types.is_date(type_) else whole
    bins = pa.StructArray.from_arrays([centres.cast(type_), column(ys[: len(centres)])], fields=fields)
    return put_together(call.type, Lists(counts > 0, offsets_of(counts), bins))


@inlined
def _nearest(x: Any, used: Any, state: Any) -> Any:
    """The first of the two bins that are closest, and the generator's next state."""
    least = x[1] - x[0]
    at = 0
    ties = 1
    for i in range(1, used - 1):
        gap = x[i + 1] - x[i]
        if gap < least:
            least = gap
            at = i
            ties = 1
        elif gap == least:
            state = (state * _MULTIPLIER + 0xB) & _MASK
            high = state >> 22
            state = (state * _MULTIPLIER + 0xB) & _MASK
            ties += 1
            if ((high << 27) + (state >> 21)) * _UNIT <= 1.0 / ties:
                at = i
    return at, state


@kernel(types.void, _I64, _F64, types.int64, _I64_OUT, _F64_OUT, _F64_OUT)
def histograms(offsets: Any, values: Any, most: Any, counts: Any, xs: Any, ys: Any) -> None:
    """The bins of each group of values, one group behind the other.

    Parameters
    ----------
    offsets : ndarray of int64
        Group i has the values from ``offsets[i]`` to ``offsets[i + 1]``.
    most : int
        Bins of a group, 2 or more.
    counts : ndarray of int64
        Receives the number of bins of each group.
    xs, ys : ndarray of float64
        Receive centres and heights.
    """
    x = np.empty(most + 1, np.float64)
    y = np.empty(most + 1, np.float64)
    out = 0
    for group in range(offsets.size - 1):
        used = 0
        state = np.int64((_SEED ^ _MULTIPLIER) & _MASK)
        for i in range(offsets[group], offsets[group + 1]):
            value = values[i]
            place = 0
            left = 0
            right = used
            while left < right:
                place = (left + right) // 2
                if x[place] > value:
                    right = place
                elif x[place] < value:
                    place += 1
                    left = place
                else:
                    break
            if place < used and x[place] == value:
                y[place] += 1
                continue
            for j in range(used, place, -1):
                x[j] = x[j - 1]
                y[j] = y[j - 1]
            x[place] = value
            y[place] = 1
            used += 1
            if used > most:
                at, state = _nearest(x, used, state)
                height = y[at] + y[at + 1]
                x[at] *= y[at] / height
                x[at] += x[at + 1] / height * y[at + 1]
                y[at] = height
                for j in range(at + 1, used - 1):
                    x[j] = x[j + 1]
                    y[j] = y[j + 1]
                used -= 1
        counts[group] = used
        for j in range(used):
            xs[out] = x[j]
            ys[out] = y[j]
            out += 1
