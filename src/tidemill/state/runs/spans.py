"""Checks the pages of a mapped file that hold some rows of an Arrow column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.kernels.words import Ints
from tidemill.state.runs.pages import Pages

_LISTS = (pa.ListArray, pa.LargeListArray, pa.MapArray)
_NESTED = (pa.StructType, pa.FixedSizeListType, pa.ListType, pa.LargeListType, pa.MapType)
_STRINGS = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
_WIDE = (pa.types.is_large_string, pa.types.is_large_binary, pa.types.is_large_list)


def check_rows(pages: Pages, base: int, array: pa.Array[Any], firsts: Ints, lasts: Ints) -> None:
    """Check the pages of some rows of a column, before any of their bytes is read.

    Parameters
    ----------
    pages : Pages
        The bytes that hold the column.
    base : int
        The address of the first of them.
    array : pa.Array
        A column as it was read, not sliced.
    firsts, lasts : np.ndarray
        int64: ranges of rows, the last excluded, within the column.

    Raises
    ------
    TidemillError
        TM1011 when one is corrupt.
    """
    if pages.complete or not len(firsts) or pa.types.is_null(array.type):
        return
    type_ = array.type
    buffers = array.buffers()
    if array.offset or not _known(type_):
        for buffer in buffers:
            if buffer is not None and buffer.size and _lies_in(pages, base, buffer):
                pages.check(buffer.address - base, buffer.address - base + buffer.size)
        return
    if buffers[0] is not None:
        _check_bits(pages, base, buffers[0], firsts, lasts, 1)
    if isinstance(array, pa.StructArray):
        for i in range(array.type.num_fields):
            check_rows(pages, base, array.field(i), firsts, lasts)
    elif isinstance(array, pa.FixedSizeListArray):
        size = array.type.list_size
        check_rows(pages, base, array.values, firsts * size, lasts * size)
    elif isinstance(array, _LISTS) or any(is_(type_) for is_ in _STRINGS):
        if buffers[1] is None or not buffers[1].size:
            return
        dtype = np.int64 if any(is_(type_) for is_ in _WIDE) else np.int32
        _check_bits(pages, base, buffers[1], firsts, lasts + 1, 8 * np.dtype(dtype).itemsize)
        offsets = np.frombuffer(memoryview(buffers[1]), dtype, len(array) + 1)
        starts, ends = offsets[firsts].astype(np.int64), offsets[lasts].astype(np.int64)
        if isinstance(array, pa.MapArray):
            check_rows(pages, base, array.keys, starts, ends)
            check_rows(pages, base, array.items, starts, ends)
        elif isinstance(array, _LISTS):
            check_rows(pages, base, array.values, starts, ends)
        elif buffers[2] is not None:
            _check_bits(pages, base, buffers[2], starts, ends, 8)
    elif buffers[1] is not None:
        _check_bits(pages, base, buffers[1], firsts, lasts, type_.bit_width)


def _known(type_: pa.DataType) -> bool:
    if isinstance(type_, _NESTED) or any(is_(type_) for is_ in _STRINGS):
        return True
    primitive = pa.types.is_primitive(type_) or pa.types.is_decimal(type_) or pa.types.is_fixed_size_binary(type_)
    return bool(primitive)


def _check_bits(pages: Pages, base: int, buffer: pa.Buffer, firsts: Ints, lasts: Ints, width: int) -> None:
    """Elements of ``width`` bits."""
    if buffer.size and _lies_in(pages, base, buffer):
        at = buffer.address - base
        pages.check_ranges(at + (firsts * width >> 3), at + (lasts * width + 7 >> 3))


def _lies_in(pages: Pages, base: int, buffer: pa.Buffer) -> bool:
    """Whether a buffer is part of the file: :mod:`tidemill.state.runs.implied` adds others."""
    return 0 <= buffer.address - base < pages.data.size
