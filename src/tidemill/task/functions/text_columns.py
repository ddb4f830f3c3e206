"""Searching for a text that is a column: ``contains``, ``startswith``, ``endswith``, ``instr``, ``locate``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.task.expressions import Call
from tidemill.task.functions.arithmetic import to_numpy
from tidemill.task.functions.registry import Value, as_array, function
from tidemill.task.functions.search_kernels import find_bytes
from tidemill.task.functions.text_positions import code_point_of, layout, substring

Longs = npt.NDArray[np.int64]


def _found(text: pa.Array, searched: pa.Array, begin: Longs | None = None, end: Longs | None = None) -> Longs:
    """Byte positions of ``searched`` in ``text``, or -1; ``begin`` and ``end`` narrow the rows of ``text``."""
    raw, starts = layout(text)
    part, bounds = layout(searched)
    found = np.empty(len(text), np.int64)
    first, last = starts[:-1] if begin is None else begin, starts[1:] if end is None else end
    find_bytes(raw, first, last, part, bounds[:-1], bounds[1:], found)
    return found


def _both(args: list[Value], rows: int) -> tuple[pa.Array, pa.Array, pa.Array]:
    text, searched = as_array(args[0], rows), as_array(args[1], rows)
    return text, searched, pc.and_(text.is_valid(), searched.is_valid())


def _answer(truth: npt.NDArray[np.bool_], valid: pa.Array) -> pa.Array:
    return pc.if_else(valid, pa.array(truth), pa.scalar(None, pa.bool_()))


@function("contains_any", sql=("contains", "LIKE concat('%', x, '%')"))
def _contains(call: Call, args: list[Value], rows: int) -> Value:
    text, searched, valid = _both(args, rows)
    return _answer(_found(text, searched) >= 0, valid)


@function("starts_with_any", sql=("startswith",))
def _starts_with(call: Call, args: list[Value], rows: int) -> Value:
    text, searched, valid = _both(args, rows)
    starts, sizes = layout(text)[1], np.diff(layout(searched)[1])
    ends = np.minimum(starts[1:], starts[:-1] + sizes)
    return _answer(_found(text, searched, None, ends) == 0, valid)


@function("ends_with_any", sql=("endswith",))
def _ends_with(call: Call, args: list[Value], rows: int) -> Value:
    text, searched, valid = _both(args, rows)
    starts, sizes = layout(text)[1], np.diff(layout(searched)[1])
    begins = np.maximum(starts[:-1], starts[1:] - sizes)
    return _answer(_found(text, searched, begins) == 0, valid)


@function("instr_any", sql=("instr", "position", "locate"))
def _instr(call: Call, args: list[Value], rows: int) -> Value:
    text, searched, valid = _both(args, rows)
    at = code_point_of(text, pa.array(_found(text, searched)))
    return pc.if_else(valid, at, pa.scalar(None, pa.int32()))


@function("locate_any", sql=("locate", "position", "charindex"), strict=False)
def _locate(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are text, searched text and start; a NULL start gives 0."""
    text, searched, valid = _both(args, rows)
    start = as_array(args[2], rows)
    numbers = to_numpy(start, rows).astype(np.int64)
    tail = substring(text, pc.max_element_wise(pc.fill_null(start, 1), 1), pa.scalar(2**31 - 1))
    found = code_point_of(tail, pa.array(_found(tail, searched)))
    places = to_numpy(found, rows).astype(np.int64)
    lengths = to_numpy(pc.utf8_length(text), rows)
    inside = (numbers >= 1) & (numbers - 1 <= lengths) & (places > 0)
    result = np.where(inside, places + numbers - 1, 0)
    empty = to_numpy(pc.binary_length(searched), rows) == 0
    result = np.where(empty & (numbers >= 1), 1, result)
    result = np.where(start.is_valid().to_numpy(zero_copy_only=False), result, 0)
    known = pc.or_(valid, start.is_null())
    return pc.if_else(known, pa.array(result.astype(np.int32)), pa.scalar(None, pa.int32()))
