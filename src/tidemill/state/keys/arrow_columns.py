"""Words that order like values back to Arrow columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.state.keys.layout import Words, body_width

Bools = npt.NDArray[np.bool_]


def bitmap(valid: Bools) -> pa.Buffer | None:
    """Validity buffer of a Boolean array, None when all rows are valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").data)


def from_words(words: Words, type_: pa.DataType, valid: Bools) -> pa.Array[Any]:
    """A column of values of at most 8 bytes, the inverse of :func:`~tidemill.state.keys.layout.ordered_words`."""
    if pa.types.is_boolean(type_):
        packed = np.packbits(words.astype(np.bool_), bitorder="little")
        return pa.Array.from_buffers(type_, len(words), [bitmap(valid), pa.py_buffer(packed.data)])
    width = body_width(type_)
    sign = np.uint64(1 << (8 * width - 1))
    if pa.types.is_floating(type_):
        words = np.where(words & sign, words ^ sign, ~words)
    else:
        words = words ^ sign
    values = words.astype(np.dtype(f"u{width}"))
    return pa.Array.from_buffers(type_, len(words), [bitmap(valid), pa.py_buffer(values.data)])
