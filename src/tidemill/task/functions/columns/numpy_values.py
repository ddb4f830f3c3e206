"""Arrow columns and constants as NumPy arrays, and back."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.task.functions.columns.compute import Array, buffer, pc
from tidemill.task.functions.columns.registry import Value, as_array

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def to_numpy(value: Value, rows: int) -> npt.NDArray[Any]:
    """The values as NumPy, with zero (or false) where NULL."""
    array = as_array(value, rows)
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(0, pa.int64()).cast(array.type))
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def from_numpy(values: npt.NDArray[Any], type_: pa.DataType, *nulls_of: Array) -> Array:
    """``values`` as Arrow, NULL wherever one of ``nulls_of`` is NULL."""
    mask = np.zeros(len(values), dtype=bool)
    for array in nulls_of:
        if array.null_count:
            mask |= array.is_null().to_numpy(zero_copy_only=False)
    return pa.array(values, type_, mask=mask if mask.any() else None)


def validity(array: Array) -> Bools:
    """Which values are not NULL; read-only where all are."""
    if not array.null_count:
        return np.broadcast_to(np.True_, len(array))
    return array.is_valid().to_numpy(zero_copy_only=False)


def bitmap(valid: Bools) -> pa.Buffer | None:
    """Arrow's bits for ``valid``; None where all are."""
    return None if valid.all() else buffer(np.packbits(valid, bitorder="little"))


def text_bytes(array: Array) -> tuple[Bytes, Longs]:
    """The bytes of a STRING or BINARY column and the offsets of its values (n + 1); NULL is empty."""
    if not len(array):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = array.buffers()
    starts = words_of(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    return words_of(data, np.uint8), starts


def words_of(content: pa.Buffer | None, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A buffer as numbers, zero copy; none for an absent one."""
    if content is None or not content.size:
        return np.zeros(0, dtype)
    return np.frombuffer(cast("Any", content), dtype)
