"""Arrow columns and constants as NumPy arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.task.functions.columns.registry import Value, as_array


def to_numpy(value: Value, rows: int) -> npt.NDArray[Any]:
    """The values as NumPy, with zero (or false) where NULL."""
    array = as_array(value, rows)
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(0, pa.int64()).cast(array.type))
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def from_numpy(values: npt.NDArray[Any], type_: pa.DataType, *nulls_of: pa.Array) -> pa.Array:
    """``values`` as Arrow, NULL wherever one of ``nulls_of`` is NULL."""
    mask = np.zeros(len(values), dtype=bool)
    for array in nulls_of:
        if array.null_count:
            mask |= array.is_null().to_numpy(zero_copy_only=False)
    return pa.array(values, type_, mask=mask if mask.any() else None)
