"""Comparison of the rows of two columns in the order that keys have: Spark's order of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.words import I64, U8, Bytes, Ints, compare, kernel
from tidemill.state.keys.encoding import encode_datums

_I8_OUT = types.array(types.int8, 1, "C")


@kernel(_I8_OUT, I64, U8, I64, U8)
def _compare(left: Ints, left_data: Bytes, right: Ints, right_data: Bytes) -> npt.NDArray[np.int8]:
    result = np.zeros(left.size - 1, np.int8)
    for i in range(result.size):
        order = compare(left_data, left[i], left[i + 1], right_data, right[i], right[i + 1])
        result[i] = 1 if order > 0 else (-1 if order < 0 else 0)
    return result


def compare_rows(left: pa.Array[Any], right: pa.Array[Any]) -> npt.NDArray[np.int8]:
    """-1, 0 or 1 as each left value is before, equal to or after the right one (int8).

    NULL is before everything and equal to NULL, NaN is above all numbers, -0.0 is 0.0; nested values compare
    element by element, maps by their entries sorted by key. Both columns are of one type.
    """
    order: npt.NDArray[np.int8] = _compare(*encode_datums([left]), *encode_datums([right]))
    return order
