"""Searching for a text that is a column: ``contains``, ``startswith``, ``endswith``, ``instr``, ``locate``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidemill.task.expressions import Call
from tidemill.task.functions.columns.numpy_values import Longs
from tidemill.task.functions.columns.registry import Value, function
from tidemill.task.functions.columns.text_buffers import Ints, Texts, longs, nullable, of_columns, texts
from tidemill.task.functions.kernels.search import find_bytes, find_characters


def _found(text: Texts, searched: Texts, begin: Ints | None = None, end: Ints | None = None) -> Longs:
    """Byte positions of ``searched`` in ``text``, or -1; ``begin`` and ``end`` narrow the rows of ``text``."""
    found = np.empty(len(text.first), np.int64)
    first, last = text.first if begin is None else begin, text.last if end is None else end
    find_bytes(text.raw, first, last, *searched.parts, found)
    return found


def _answer(call: Call, truth: npt.NDArray[np.bool_], text: Texts, searched: Texts) -> Value:
    return nullable(truth, call.type, text.valid & searched.valid)


@of_columns("contains_any", sql=("contains", "LIKE concat('%', x, '%')"))
def _contains(call: Call, args: list[Value], rows: int) -> Value:
    text, searched = (texts(arg, rows) for arg in args)
    return _answer(call, _found(text, searched) >= 0, text, searched)


@of_columns("starts_with_any", sql=("startswith",))
def _starts_with(call: Call, args: list[Value], rows: int) -> Value:
    text, searched = (texts(arg, rows) for arg in args)
    ends = np.minimum(text.last, text.first + (searched.last - searched.first))
    return _answer(call, _found(text, searched, None, ends) == 0, text, searched)


@of_columns("ends_with_any", sql=("endswith",))
def _ends_with(call: Call, args: list[Value], rows: int) -> Value:
    text, searched = (texts(arg, rows) for arg in args)
    begins = np.maximum(text.first, text.last - (searched.last - searched.first))
    return _answer(call, _found(text, searched, begins) == 0, text, searched)


@function("locate", sql=("instr", "locate", "position", "charindex"), strict=False)
def _locate(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are text, searched text and start; a NULL start gives 0."""
    text, searched = (texts(arg, rows) for arg in args[:2])
    start, known = longs(args[2], rows)
    place = np.empty(rows, np.int32)
    find_characters(*text.parts, *searched.parts, start, place)
    return nullable(place, call.type, (text.valid & searched.valid) | ~known)
