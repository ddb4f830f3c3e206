"""Substrings and places in texts, counted in Unicode code points."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, null_unless, pc
from tidemill.task.functions.columns.numpy_values import text_bytes, to_numpy
from tidemill.task.functions.columns.registry import Value, as_array, function
from tidemill.task.functions.columns.text_buffers import cut, longs, texts
from tidemill.task.functions.kernels import cut as kernels


def substring(array: Array, position: Value, length: Value) -> Array:
    """Spark's substring: positions from 1, 0 like 1, negative from the end; ``length`` is cut at the end."""
    rows = len(array)
    text, binary = texts(array, rows), pa.types.is_binary(array.type)
    (places, known), (sizes, given) = longs(position, rows), longs(length, rows)
    return cut(
        array.type,
        text,
        text.valid & known & given,
        lambda first, last: kernels.substring(*text.parts, places, sizes, binary, first, last),
    )


@function("substring", sql=("substring", "substr", "left", "right"))
def _substring(call: Call, args: list[Value], rows: int) -> Value:
    position, length = args[1], args[2]
    array = args[0]
    if isinstance(position, pa.Scalar) and isinstance(length, pa.Scalar) and pa.types.is_string(call.type):
        start, size = position.as_py(), length.as_py()
        if start is None or size is None:
            return pa.scalar(None, call.type)
        if start >= 0 and not isinstance(array, pa.Scalar):
            begin = max(start - 1, 0)
            return pc.utf8_slice_codeunits(array, begin, begin + max(size, 0))
    return substring(as_array(array, rows), position, length)


def code_point_of(array: Array, byte: Array) -> Array:
    """The code point positions (from 1) of byte positions (from 0); 0 where the position is -1."""
    raw, starts = text_bytes(array)
    before = np.concatenate([[0], np.cumsum((raw & 0xC0) != 0x80)])
    position = to_numpy(byte, len(array)).astype(np.int64)
    found = position >= 0
    at = starts[:-1] + np.where(found, position, 0)
    code = np.where(found, before[at] - before[starts[:-1]] + 1, 0)
    result = pa.array(code.astype(np.int32))
    return null_unless(array.is_valid(), result)
