"""Arrow columns over NumPy arrays, without a copy.

``pyarrow.array`` would do the same, but it imports pandas first, which takes longer than reading a view.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_TYPES = {np.dtype(np.int64): pa.int64(), np.dtype(np.float64): pa.float64(), np.dtype(np.bool_): pa.bool_()}


_LARGE = 1 << 20
_EIGHT_BYTES = frozenset(t.id for t in (pa.int64(), pa.float64(), pa.timestamp("us"), pa.uint64()))


def room(rows: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array to be filled; large ones from Arrow's memory pool, which keeps pages that were touched before."""
    size = rows * np.dtype(dtype).itemsize
    if size < _LARGE:
        return np.empty(rows, dtype)
    return values_of(pa.allocate_buffer(size), dtype)


def values_of(buffer: pa.Buffer | None, dtype: npt.DTypeLike, count: int = -1, offset: int = 0) -> npt.NDArray[Any]:
    """``numpy.frombuffer`` of an Arrow buffer, which the type stubs do not allow; ``offset`` is in bytes."""
    values: npt.NDArray[Any] = np.frombuffer(buffer, dtype, count, offset)  # type: ignore[call-overload]
    return values


def nulls(rows: int, type_: pa.DataType | None = None) -> pa.Array[Any]:
    """``pyarrow.nulls``, whose type stubs take single types only."""
    missing: pa.Array[Any] = pa.nulls(rows, type_)  # type: ignore[arg-type]
    return missing


def map_array(
    offsets: pa.Array[Any],
    keys: pa.Array[Any],
    items: pa.Array[Any],
    type_: pa.DataType,
    mask: pa.Array[Any] | None = None,
) -> pa.Array[Any]:
    """``pyarrow.MapArray.from_arrays`` of a type; the type stubs do not take one with keys and items."""
    maps: pa.Array[Any] = pa.MapArray.from_arrays(offsets, keys, items, type=type_, mask=mask)  # type: ignore[call-overload]
    return maps


def column(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None = None) -> pa.Array[Any]:
    """An int64, float64 or boolean column; NULL where ``missing`` is true."""
    type_ = _TYPES[values.dtype]
    data = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    valid = None
    if missing is not None and missing.any():
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little").data)
    return pa.Array.from_buffers(type_, len(values), [valid, pa.py_buffer(data.data)])


def byte_size(array: pa.Array[Any]) -> int:
    """Bytes of the values of a column; ``nbytes`` of a small one takes longer than to add it up."""
    return 8 * len(array) if array.type.id in _EIGHT_BYTES else int(array.nbytes)


def numbers(array: pa.Array[Any]) -> npt.NDArray[Any]:
    """The values of an int64 or float64 column, zero copy; what stands at NULLs is undefined."""
    dtype = np.float64 if pa.types.is_float64(array.type) else np.int64
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(0, dtype)
    return values_of(buffer, dtype)[array.offset : array.offset + len(array)]


def truths(array: pa.Array[Any]) -> npt.NDArray[np.bool_]:
    """The values of a boolean column without NULLs."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(0, np.bool_)
    bits = np.unpackbits(values_of(buffer, np.uint8), count=array.offset + len(array), bitorder="little")
    return bits[array.offset :].view(np.bool_)
