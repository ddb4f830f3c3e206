"""Columns of batches as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def as_arrays(batch: pa.RecordBatch) -> dict[str, np.ndarray[Any, Any]]:
    """An array for each column: zero copy for numbers without NULLs; numbers with NULLs are floats with NaN."""
    return {name: as_array(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def as_array(column: pa.Array[Any]) -> np.ndarray[Any, Any]:
    """The values of a column: of a list of numbers with one length for all rows an array of two dimensions."""
    if isinstance(column, pa.ListArray | pa.FixedSizeListArray) and not column.null_count:
        values = column.flatten()
        width = len(values) // len(column) if len(column) else 0
        same = isinstance(column, pa.FixedSizeListArray) or bool((np.diff(column.offsets.to_numpy()) == width).all())
        if _is_number(values.type) and not values.null_count and same:
            found: np.ndarray[Any, Any] = as_array(values).reshape(len(column), width)
            return found
    array: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
    return array


def _is_number(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_)
