"""Bit operations on integers; shift distances wrap at the width of the type, as in Java."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, pc
from tidemill.task.functions.columns.numpy_values import from_numpy, to_numpy
from tidemill.task.functions.columns.registry import Value, as_array, function


def _bits(name: str, sql: str, compute: Callable[..., Array]) -> None:
    @function(name, sql=(sql,))
    def kernel(call: Call, args: list[Value], rows: int) -> Value:
        return compute(*args)


_bits("bit_and", "&", pc.bit_wise_and)
_bits("bit_or", "|", pc.bit_wise_or)
_bits("bit_xor", "^", pc.bit_wise_xor)
_bits("bit_not", "~", pc.bit_wise_not)


def _shift(call: Call, args: list[Value], rows: int) -> Value:
    left, right = as_array(args[0], rows), as_array(args[1], rows)
    values = to_numpy(left, rows)
    width = values.dtype.itemsize * 8
    distance = (to_numpy(right, rows) & (width - 1)).astype(values.dtype)
    if call.function == "shift_left":
        result = np.left_shift(values, distance)
    elif call.function == "shift_right":
        result = np.right_shift(values, distance)
    else:
        unsigned = np.uint32 if width == 32 else np.uint64
        result = np.right_shift(values.view(unsigned), distance.astype(unsigned)).view(values.dtype)
    return from_numpy(result, call.type, left, right)


function("shift_left", sql=("<<", "shiftleft"))(_shift)
function("shift_right", sql=(">>", "shiftright"))(_shift)
function("shift_right_unsigned", sql=(">>>", "shiftrightunsigned"))(_shift)


@function("bit_count")
def _bit_count(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    if pa.types.is_boolean(array.type):
        return array.cast(pa.int32())
    wide = to_numpy(array, rows).astype(np.int64).view(np.uint64)
    return from_numpy(np.bitwise_count(wide).astype(np.int32), call.type, array)
