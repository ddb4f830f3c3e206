"""Columns of text and bytes as buffers for kernels, and columns made of what kernels write.

A kernel that makes texts is called twice. The first call gets no room for bytes and returns how many each row needs;
the second call writes them at offsets that :func:`make_texts` has computed from these. Constants are not repeated: all
their rows are the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, buffer, nulls
from tidemill.task.functions.columns.numpy_values import Bools, Bytes, Longs, bitmap, to_numpy, validity, words_of
from tidemill.task.functions.columns.registry import Fails, Kernel, Value, as_array, function
from tidemill.task.functions.columns.sizes import check_size
from tidemill.task.functions.kernels.cut import copy_ranges

Ints = npt.NDArray[np.int32]

_NOTHING: Bytes = np.zeros(0, np.uint8)


@dataclass(frozen=True)
class Texts:
    """Row i is ``raw[first[i]:last[i]]``; the bytes of a NULL row are undefined."""

    raw: Bytes
    first: Ints
    last: Ints
    valid: Bools

    @property
    def parts(self) -> tuple[Bytes, Ints, Ints]:
        """The arguments of kernels."""
        return self.raw, self.first, self.last


def texts(value: Value, rows: int) -> Texts:
    """The buffers of a column, or of a constant, of STRING or BINARY."""
    if isinstance(value, pa.Scalar):
        raw = words_of(cast("pa.BinaryScalar", value).as_buffer(), np.uint8)
        first, last = (np.broadcast_to(np.int32(n), rows) for n in (0, len(raw)))
        return Texts(raw, first, last, np.broadcast_to(np.bool_(value.is_valid), rows))
    array = as_array(value, rows)
    if not rows:
        return Texts(_NOTHING, np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.bool_))
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):  # of 64-bit offsets
        array = array.cast(pa.string() if pa.types.is_large_string(array.type) else pa.binary())
    _, offsets, data = array.buffers()
    starts = words_of(offsets, np.int32)[array.offset : array.offset + rows + 1]
    return Texts(words_of(data, np.uint8), starts[:-1], starts[1:], validity(array))


def longs(value: Value, rows: int) -> tuple[Longs, Bools]:
    """Integers as int64, 0 where NULL, and which are not NULL."""
    if isinstance(value, pa.Scalar):
        number = np.int64(value.as_py() or 0)
        return np.broadcast_to(number, rows), np.broadcast_to(np.bool_(value.is_valid), rows)
    array = as_array(value, rows)
    return to_numpy(array, rows).astype(np.int64), validity(array)


def nullable(values: npt.NDArray[Any], type_: pa.DataType, valid: Bools) -> Array:
    """Numbers or booleans as a column, NULL where not ``valid``."""
    return pa.array(values, type_, mask=None if valid.all() else ~valid)


def make_texts(type_: pa.DataType, valid: Bools, write: Callable[[Longs, Bytes], None]) -> Array:
    """The texts that ``write(ends, room)`` makes.

    Parameters
    ----------
    type_ : pa.DataType
        STRING or BINARY.
    valid : ndarray of bool
        Rows that are not NULL.
    write : callable
        With an empty ``room`` it writes the size of row i to ``ends[i + 1]``; else row i to
        ``room[ends[i]:ends[i + 1]]``, which it must not touch where that is empty.

    Raises
    ------
    TooLargeError
        TM3020 when the texts together are larger than a column may be.
    """
    rows = len(valid)
    ends = np.zeros(rows + 1, np.int64)
    write(ends, _NOTHING)
    ends[1:][~valid] = 0
    np.cumsum(ends, out=ends)
    check_size(int(ends[-1]))
    room = np.empty(int(ends[-1]), np.uint8)
    if len(room):
        write(ends, room)
    return pa.Array.from_buffers(type_, rows, [bitmap(valid), buffer(ends.astype(np.int32)), buffer(room)])


def cut(type_: pa.DataType, text: Texts, valid: Bools, ranges: Callable[[Ints, Ints], None]) -> Array:
    """The parts of texts whose bounds in ``text.raw`` ``ranges(first, last)`` writes."""
    first, last = np.empty(len(valid), np.int32), np.empty(len(valid), np.int32)
    ranges(first, last)
    return make_texts(type_, valid, lambda ends, room: copy_ranges(text.raw, first, last, ends, room))


def of_columns(name: str, *, sql: tuple[str, ...] = (), fails: Fails = False) -> Callable[[Kernel], Kernel]:
    """Register a strict kernel that gets at least one row; constants alone are one row."""

    def register(kernel: Kernel) -> Kernel:
        def checked(call: Call, args: list[Value], rows: int) -> Value:
            if not rows:
                return nulls(0, call.type)
            if all(isinstance(arg, pa.Scalar) for arg in args):
                return kernel(call, args, 1)[0]
            return kernel(call, args, rows)

        checked.__module__ = kernel.__module__
        return function(name, sql=sql, fails=fails)(checked)

    return register


def check_rows(call: Call, args: list[Value], bad: Bools, what: str, number: str = "TM3004", hint: str = "") -> None:
    """Fail for the first row that is ``bad``.

    Raises
    ------
    EvaluationError
        With ``number`` and ``what``, and the arguments of that row.
    """
    if not bad.any():
        return
    row = int(np.flatnonzero(bad)[0])
    shown = ", ".join(repr((arg if isinstance(arg, pa.Scalar) else arg[row]).as_py()) for arg in args)
    raise EvaluationError(number, what, got=f"{call.function}({shown})", hint=hint)
