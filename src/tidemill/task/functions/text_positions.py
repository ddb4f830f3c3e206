"""Substrings, padding and searching by position, counted in Unicode code points.

A column of text is one byte buffer with row offsets. Positions of code points become positions of bytes
by counting the bytes that start a code point, and pieces are gathered from the buffer in one step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.task.expressions import Call
from tidemill.task.functions import growth
from tidemill.task.functions.arithmetic import to_numpy
from tidemill.task.functions.registry import Value, as_array, function

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]


def layout(array: pa.Array) -> tuple[Bytes, Longs]:
    """The bytes of the column and the ``len + 1`` offsets of its rows."""
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    raw = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return raw, starts


def _gather(raw: Bytes, first: Longs, last: Longs, valid: pa.Array, type_: pa.DataType) -> pa.Array:
    """The byte ranges ``first[i]:last[i]`` as a column."""
    lengths = np.maximum(last - first, 0)
    lengths[~valid.to_numpy(zero_copy_only=False)] = 0
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    source = np.repeat(first - offsets[:-1], lengths) + np.arange(offsets[-1])
    content = raw[source] if len(source) else np.zeros(0, np.uint8)
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)]
    result = pa.Array.from_buffers(type_, len(lengths), buffers)
    return pc.if_else(valid, result, pa.scalar(None, type_))


def substring(array: pa.Array, position: Any, length: Any) -> pa.Array:
    """Spark's substring: positions from 1, 0 like 1, negative from the end; ``length`` is cut at the end."""
    rows = len(array)
    raw, starts = layout(array)
    binary = pa.types.is_binary(array.type)
    leads = np.ones(len(raw), dtype=bool) if binary else (raw & 0xC0) != 0x80
    before = np.concatenate([[0], np.cumsum(leads)])
    lead_bytes = np.concatenate([np.flatnonzero(leads), [len(raw)]])
    base = before[starts[:-1]]
    count = before[starts[1:]] - base
    pos = to_numpy(position, rows).astype(np.int64)
    size = to_numpy(length, rows).astype(np.int64)
    begin = np.where(pos > 0, pos - 1, np.where(pos < 0, count + pos, 0))
    end = np.clip(begin + size, 0, count)
    begin = np.clip(begin, 0, count)
    end = np.maximum(begin, end)
    # A row's end is not the next code point of the buffer when rows were sliced: use its own offset.
    first = np.where(begin == count, starts[1:], lead_bytes[np.minimum(base + begin, len(lead_bytes) - 1)])
    last = np.where(end == count, starts[1:], lead_bytes[np.minimum(base + end, len(lead_bytes) - 1)])
    valid = array.is_valid()
    for argument in (position, length):
        valid = pc.and_(valid, as_array(argument, rows).is_valid())
    return _gather(raw, first, last, valid, array.type)


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


def _pad(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are text and width; the padding is an option."""
    array, width = as_array(args[0], rows), as_array(args[1], rows)
    padding = str(call.option("padding"))
    one, whole = pa.scalar(1), pc.max_element_wise(width, 0, skip_nulls=False)
    cut = substring(array, one, whole)
    if not padding:
        return cut
    missing = pc.subtract(whole, pc.utf8_length(cut))
    longest = pc.max(missing).as_py() or 0
    fill_text = (padding * (longest // len(padding) + 1))[:longest]
    fill = substring(as_array(pa.scalar(fill_text), rows), one, missing)
    parts = (fill, cut) if call.function == "lpad" else (cut, fill)
    return pc.binary_join_element_wise(*parts, "")


function("lpad", size=growth.padded)(_pad)
function("rpad", size=growth.padded)(_pad)


def code_point_of(array: pa.Array, byte: pa.Array) -> pa.Array:
    """The code point positions (from 1) of byte positions (from 0); 0 where the position is -1."""
    raw, starts = layout(array)
    before = np.concatenate([[0], np.cumsum((raw & 0xC0) != 0x80)])
    position = to_numpy(byte, len(array)).astype(np.int64)
    found = position >= 0
    at = starts[:-1] + np.where(found, position, 0)
    code = np.where(found, before[at] - before[starts[:-1]] + 1, 0)
    result = pa.array(code.astype(np.int32))
    return pc.if_else(array.is_valid(), result, pa.scalar(None, pa.int32()))


def _find(array: pa.Array, search: str) -> pa.Array:
    return code_point_of(array, pc.find_substring(array, search))


@function("locate", sql=("instr", "locate", "position", "charindex"), strict=False)
def _locate(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are text and, when not 1, the start; the searched text is an option."""
    array = as_array(args[0], rows)
    search = str(call.option("search"))
    if len(args) == 1:
        return _find(array, search)
    start = as_array(args[1], rows)
    tail = substring(array, pc.max_element_wise(start, 1, skip_nulls=False), pa.scalar(2**31 - 1))
    found = _find(tail, search)
    moved = pc.subtract(pc.add(found, start.cast(pa.int32())), 1)
    result = pc.if_else(pc.greater(found, 0), moved, 0)
    # A start below 1 finds nothing, the empty text is always found at 1, and a NULL start gives 0.
    inside = pc.and_(pc.greater_equal(start, 1), pc.less_equal(pc.subtract(start, 1), pc.utf8_length(array)))
    result = pc.if_else(inside, result, 0)
    if search == "":
        result = pc.if_else(pc.greater_equal(start, 1), 1, 0)
    answer = pc.if_else(start.is_valid(), result, 0).cast(pa.int32())
    known = pc.or_(array.is_valid(), start.is_null())
    return pc.if_else(known, answer, pa.scalar(None, pa.int32()))
