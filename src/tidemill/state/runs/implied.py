"""Parts of columns that a rule gives, which a file leaves out: lengths that are all equal, a usual number in all rows.

Keys of numbers have equal lengths and most weights are 1, so the offsets of the former and all of the latter are not
written. A process has them once for all runs, as long as the longest of these.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import nulls, values_of

LEAST, MOST = 1024, 1 << 22
"""Columns of fewer rows are written whole, as naming the rule takes space, and so are those of more, as what a process
has once would be too large."""
_KEPT_BYTES = 16 << 20
"""Bytes that a process keeps although no run may refer to them."""
_USUAL = frozenset((0, 1, -1))
"""Numbers that are left out where all rows have one, floats by their bits: a process has an array for each."""
_TYPE, _VALUE = b"type", b"value"
_SHORT, _LONG = np.dtype("i4"), np.dtype("i8")
_TEXTS: dict[int, np.dtype[Any]] = {
    pa.string().id: _SHORT,
    pa.binary().id: _SHORT,
    pa.large_string().id: _LONG,
    pa.large_binary().id: _LONG,
}
_NUMBERS = frozenset(t.id for t in (pa.int64(), pa.float64()))
_NAMED: dict[bytes, pa.DataType] = {
    str(t).encode(): t
    for t in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.int64(), pa.float64())
}
_Known: TypeAlias = tuple[tuple[bytes, bytes], ...]
_Field: TypeAlias = tuple[str, pa.DataType, _Known]

_Key: TypeAlias = tuple[str, int]
_alive: WeakValueDictionary[_Key, npt.NDArray[Any]] = WeakValueDictionary()
_kept: OrderedDict[_Key, npt.NDArray[Any]] = OrderedDict()
_lock = threading.Lock()


def without_implied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns as a file has them; :func:`with_implied` is the way back.

    A string or binary column without NULLs whose values have equal lengths becomes ``fixed_size_binary``, an int64 or
    float64 column of one usual value ``null``. The metadata of a field say what it was.
    """
    rows = batch.num_rows
    if not LEAST <= rows <= MOST:
        return batch
    columns = batch.columns
    fields: list[_Field] = []
    for i, name in enumerate(batch.schema.names):
        column = columns[i]
        id_ = column.type.id
        known: _Known = ()
        if id_ in _TEXTS:
            found = _lengths_left_out(column, rows)
            if found is not None:
                columns[i], known = found, ((_TYPE, str(column.type).encode()),)
        elif id_ in _NUMBERS:
            value = _one_value(column, rows)
            if value is not None:
                known = ((_TYPE, str(column.type).encode()), (_VALUE, b"%d" % value))
                columns[i] = nulls(rows)
        fields.append((name, columns[i].type, known))
    if not any(known for _, _, known in fields):
        return batch
    return pa.RecordBatch.from_arrays(columns, schema=_schema(tuple(fields)))


def with_implied(batch: pa.RecordBatch) -> list[pa.Array[Any]]:
    """All columns, zero copy over the batch and over what this process has already."""
    columns = batch.columns
    for i, field in enumerate(batch.schema):
        if field.metadata:
            type_, rows = _NAMED[field.metadata[_TYPE]], batch.num_rows
            if type_.id in _NUMBERS:
                columns[i] = pa.Array.from_buffers(type_, rows, [None, _numbers(int(field.metadata[_VALUE]), rows)])
            else:
                assert isinstance(field.type, pa.FixedSizeBinaryType)
                offsets = _offsets(field.type.byte_width, rows, _TEXTS[type_.id])
                columns[i] = pa.Array.from_buffers(type_, rows, [None, offsets, columns[i].buffers()[1]])
    return columns


@lru_cache(256)
def _schema(fields: tuple[_Field, ...]) -> pa.Schema:
    return pa.schema([pa.field(name, type_, metadata=dict(known) or None) for name, type_, known in fields])


def _lengths_left_out(column: pa.Array[Any], rows: int) -> pa.Array[Any] | None:
    """The values alone, if their lengths are equal."""
    dtype = _TEXTS[column.type.id]
    _, ends, data = column.buffers()
    offsets = values_of(ends, dtype, rows + 1, column.offset * dtype.itemsize)
    first = int(offsets[0])
    width = int(offsets[1]) - first
    if not width or int(offsets[rows]) - first != rows * width or column.null_count:
        return None
    if not (offsets[1:] - offsets[:-1] == width).all():
        return None
    assert data is not None
    return pa.Array.from_buffers(pa.binary(width), rows, [None, data.slice(first, rows * width)])


def _one_value(column: pa.Array[Any], rows: int) -> int | None:
    """The value of all rows, if they have one that is usual; of floats its bits."""
    values = values_of(column.buffers()[1], np.int64, rows, column.offset * 8)
    value = int(values[0])
    if value not in _USUAL or value != values[rows - 1] or column.null_count or not (values == value).all():
        return None
    return value


def _offsets(width: int, rows: int, dtype: np.dtype[Any]) -> pa.Buffer:
    def make(n: int) -> npt.NDArray[Any]:
        return (np.arange(min(n, np.iinfo(dtype).max // width + 1)) * width).astype(dtype, copy=False)

    return _shared((dtype.char, width), rows + 1, make)


def _numbers(value: int, rows: int) -> pa.Buffer:
    return _shared(("=", value), rows, lambda n: np.full(n, value, np.int64))


def _shared(key: _Key, rows: int, make: Callable[[int], npt.NDArray[Any]]) -> pa.Buffer:
    """An array of at least so many elements, which this process has once as long as any run needs it."""
    with _lock:
        array = _alive.get(key)
    if array is None or array.size < rows:
        array = make(rows if array is None else min(max(rows, 2 * array.size), MOST + 1))
        array.flags.writeable = False
    with _lock:
        known = _alive.get(key)
        if known is not None and known.size >= array.size:
            array = known
        _alive[key] = _kept[key] = array
        _kept.move_to_end(key)
        size = sum(a.nbytes for a in _kept.values())
        while size > _KEPT_BYTES and len(_kept) > 1:
            size -= _kept.popitem(last=False)[1].nbytes
    return pa.py_buffer(array.data)
