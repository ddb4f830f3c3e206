"""Parts of columns that a rule gives, which a file leaves out: lengths that are all equal, one number in all rows.

Keys of numbers have equal lengths and most weights are 1, so the offsets of the former and all of the latter are not
written. A process has them once for all runs, as long as the longest of these.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import values_of

LEAST, MOST = 1024, 1 << 22
"""Columns of fewer rows are written whole, as naming the rule takes space, and so are those of more, as what a process
has once would be too large."""
_LIMIT = 64 << 20
"""Bytes that a process keeps although no run may refer to them."""
_TYPE, _VALUE = b"type", b"value"
_TEXTS = {str(t): t for t in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())}
_NUMBERS = {str(t): t for t in (pa.int64(), pa.float64())}

_shared: OrderedDict[tuple[str, int], pa.Buffer] = OrderedDict()
_lock = threading.Lock()


def without_implied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns as a file has them; :func:`with_implied` is the way back.

    A string or binary column without NULLs whose values have equal lengths becomes ``fixed_size_binary``, an int64 or
    float64 column of one value ``null``. The metadata of a field say what it was.
    """
    if not LEAST <= batch.num_rows <= MOST:
        return batch
    fields, columns = [], []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        found = None if column.null_count else _lengths_left_out(column) or _value_left_out(column)
        kept, known = found or (column, {})
        columns.append(kept)
        fields.append(pa.field(field.name, kept.type, metadata=known) if known else field)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def with_implied(batch: pa.RecordBatch) -> list[pa.Array[Any]]:
    """All columns, zero copy over the batch and over what this process has already."""
    columns = batch.columns
    for i, field in enumerate(batch.schema):
        if field.metadata and _TYPE in field.metadata:
            name, rows = field.metadata[_TYPE].decode(), batch.num_rows
            if name in _NUMBERS:
                values = _numbers(int(field.metadata[_VALUE]), rows)
                columns[i] = pa.Array.from_buffers(_NUMBERS[name], rows, [None, values])
            else:
                assert isinstance(field.type, pa.FixedSizeBinaryType)
                offsets = _offsets(field.type.byte_width, rows, _dtype(_TEXTS[name]))
                columns[i] = pa.Array.from_buffers(_TEXTS[name], rows, [None, offsets, columns[i].buffers()[1]])
    return columns


def _lengths_left_out(column: pa.Array[Any]) -> tuple[pa.Array[Any], dict[bytes, bytes]] | None:
    name, n = str(column.type), len(column)
    if name not in _TEXTS:
        return None
    dtype = _dtype(column.type)
    _, ends, data = column.buffers()
    offsets = values_of(ends, dtype, n + 1, column.offset * dtype.itemsize)
    first, width = int(offsets[0]), int(offsets[1] - offsets[0])
    if not width or int(offsets[n]) - first != n * width or not np.all(np.diff(offsets) == width):
        return None
    assert data is not None
    rows = pa.Array.from_buffers(pa.binary(width), n, [None, data.slice(first, n * width)])
    return rows, {_TYPE: name.encode()}


def _value_left_out(column: pa.Array[Any]) -> tuple[pa.Array[Any], dict[bytes, bytes]] | None:
    name, n = str(column.type), len(column)
    if name not in _NUMBERS:
        return None
    values = values_of(column.buffers()[1], np.int64, n, column.offset * 8)  # floats by their bits
    if values[0] != values[n - 1] or not np.all(values == values[0]):
        return None
    return pa.nulls(n), {_TYPE: name.encode(), _VALUE: b"%d" % values[0]}


def _dtype(type_: pa.DataType) -> np.dtype[Any]:
    return np.dtype(np.int64 if str(type_).startswith("large") else np.int32)


def _offsets(width: int, rows: int, dtype: np.dtype[Any]) -> pa.Buffer:
    def make(n: int) -> npt.NDArray[Any]:
        return (np.arange(min(n, np.iinfo(dtype).max // width + 1)) * width).astype(dtype, copy=False)

    return _long(dtype.char, width, rows + 1, make)


def _numbers(value: int, rows: int) -> pa.Buffer:
    return _long("=", value, rows, lambda n: np.full(n, value, np.int64))


def _long(kind: str, of: int, rows: int, make: Callable[[int], npt.NDArray[Any]]) -> pa.Buffer:
    """An array of at least so many rows, which this process has once."""
    key = (kind, of)
    with _lock:
        known = _shared.get(key)
        if known is not None:
            _shared.move_to_end(key)
            if known.size >= rows * (4 if kind == "i" else 8):
                return known
    made = make(max(rows, min(2 * rows, MOST + 1)))
    buffer = pa.py_buffer(made.data)
    with _lock:
        _shared[key] = buffer
        _shared.move_to_end(key)
        size = sum(b.size for b in _shared.values())
        while size > _LIMIT and len(_shared) > 1:
            size -= _shared.popitem(last=False)[1].size
    return buffer
