"""Columns in the binary format: each value as PostgreSQL's send functions write it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import values_of
from tidemill.serve.postgres.values.pg_types import INT2, PgType
from tidemill.serve.postgres.values.plain_arrays import decimal_digits, interval_parts, is_negative, plain
from tidemill.serve.postgres.values.text_cells import list_offsets, lists_of, text_cells
from tidemill.task.functions.columns.compute import buffer, pc

_EPOCH_DAYS = 10_957
"""2000-01-01, from which PostgreSQL counts, in days since 1970."""
_DAY = 86_400_000_000
_NEGATIVE = 0x4000
_NUMBERS = {pa.int16(): ">i2", pa.int32(): ">i4", pa.uint32(): ">u4", pa.int64(): ">i8"}


def binary_cells(array: pa.Array[Any], type_: PgType, zone: str) -> pa.Array[Any]:
    """The bytes of values, NULL for NULL.

    Parameters
    ----------
    array : pyarrow.Array
        Of a type that ``type_`` stands for.
    zone : str
        Whose clock times within JSON show.

    Returns
    -------
    pyarrow.Array
        Of binary.
    """
    array = plain(array)
    if pa.types.is_boolean(array.type):
        return _fixed(array, array.cast(pa.uint8()).fill_null(0).to_numpy())
    if pa.types.is_integer(array.type):
        wanted = pa.int16() if type_ is INT2 else pa.int32() if array.type == pa.uint16() else array.type
        return _numbers(array.cast(wanted), _NUMBERS[wanted])
    if pa.types.is_floating(array.type):
        return _numbers(array, ">f4" if array.type == pa.float32() else ">f8")
    if pa.types.is_decimal(array.type):
        return _numerics(array)
    if pa.types.is_date(array.type):
        return _numbers(array.cast(pa.int32()), ">i4", _EPOCH_DAYS)
    if pa.types.is_timestamp(array.type):
        return _numbers(array.cast(pa.int64()), ">i8", _EPOCH_DAYS * _DAY)
    if pa.types.is_time(array.type):
        return _numbers(array.cast(pa.int64()), ">i8")
    if pa.types.is_interval(array.type):
        return _intervals(array)
    if type_.element is not None:
        return _arrays(array, type_.element, zone)
    if pa.types.is_binary(array.type):
        return array
    return text_cells(array, zone).cast(pa.binary())


def _numbers(array: pa.Array[Any], kind: str, less: int = 0) -> pa.Array[Any]:
    values = array.fill_null(0).to_numpy()
    return _fixed(array, (values - less if less else values).astype(kind))


def _fixed(array: pa.Array[Any], values: npt.NDArray[Any]) -> pa.Array[Any]:
    """Values of one size, NULL where the array is."""
    ends = np.arange(len(values) + 1, dtype=np.int32) * np.int32(values.dtype.itemsize)
    return _cells(array, ends, np.ascontiguousarray(values))


def _cells(array: pa.Array[Any], ends: npt.NDArray[np.int32], data: npt.NDArray[Any]) -> pa.Array[Any]:
    cells = pa.Array.from_buffers(pa.binary(), len(array), [None, buffer(ends), buffer(data)])
    return pc.if_else(array.is_valid(), cells, pa.scalar(None, pa.binary())) if array.null_count else cells


def _ragged(array: pa.Array[Any], words: npt.NDArray[Any], used: npt.NDArray[np.bool_]) -> pa.Array[Any]:
    """Rows of words of one size, of which some are left out."""
    ends = np.zeros(len(words) + 1, np.int32)
    np.cumsum(used.sum(axis=1) * words.dtype.itemsize, out=ends[1:])
    return _cells(array, ends, words[used])


def _numerics(array: pa.Array[Any]) -> pa.Array[Any]:
    """Digits to the base of 10,000 behind their number, the weight of the first, the sign and the places shown."""
    scale, precision = array.type.scale, array.type.precision
    groups = max(1, -(-(precision - scale) // 4))
    texts = decimal_digits(array, groups * 4, -scale % 4)
    width = groups * 4 + scale + -scale % 4
    digits = values_of(texts.buffers()[2], np.uint8, len(array) * width) - ord("0")
    values = digits.reshape(len(array), width // 4, 4).astype(np.int16) @ np.array([1000, 100, 10, 1], np.int16)
    there = values != 0
    first = np.where(there.any(axis=1), there.argmax(axis=1), 0)
    last = np.where(there.any(axis=1), values.shape[1] - there[:, ::-1].argmax(axis=1), 0)
    at = np.arange(values.shape[1])
    used = (at >= first[:, None]) & (at < last[:, None])
    count = used.sum(axis=1)
    words = np.empty((len(array), values.shape[1] + 4), ">i2")
    words[:, 0] = count
    words[:, 1] = np.where(count > 0, groups - 1 - first, 0)
    words[:, 2] = np.where(is_negative(array), _NEGATIVE, 0)
    words[:, 3] = scale
    words[:, 4:] = values
    return _ragged(array, words, np.hstack([np.ones((len(array), 4), np.bool_), used]))


def _intervals(array: pa.Array[Any]) -> pa.Array[Any]:
    parts = interval_parts(array)
    found = np.empty(len(array), [("micros", ">i8"), ("days", ">i4"), ("months", ">i4")])
    found["micros"] = np.trunc(parts["nanos"] / 1000)
    found["days"], found["months"] = parts["days"], parts["months"]
    return _fixed(array, found)


def _arrays(array: pa.Array[Any], element: PgType, zone: str) -> pa.Array[Any]:
    """Dimensions, whether there are NULLs, the type of elements, then each with its length."""
    values = pc.list_flatten(array)
    offsets = list_offsets(array)
    lists = lists_of(offsets, with_lengths(binary_cells(values, element, zone)))
    starts = offsets.to_numpy()
    nulls = np.concatenate([[0], np.cumsum(values.is_null().to_numpy(zero_copy_only=False))])
    count = np.diff(starts)
    head = np.empty((len(array), 5), ">i4")
    head[:, 0] = count > 0
    head[:, 1] = nulls[starts[1:]] > nulls[starts[:-1]]
    head[:, 2] = element.oid
    head[:, 3] = count
    head[:, 4] = 1
    used = np.ones(head.shape, np.bool_)
    used[count == 0, 3:] = False
    cells = pc.binary_join_element_wise(_ragged(array, head, used), pc.binary_join(lists, b""), b"")
    return pc.if_else(array.is_valid(), cells, pa.scalar(None, pa.binary()))


def with_lengths(cells: pa.Array[Any]) -> pa.Array[Any]:
    """Each value behind its length as four bytes; NULL is the length -1."""
    return pc.binary_join_element_wise(lengths_of(cells), cells.cast(pa.binary()).fill_null(b""), b"")


def lengths_of(cells: pa.Array[Any]) -> pa.Array[Any]:
    """The length of each value as four bytes, -1 for NULL."""
    lengths = pc.binary_length(cells).fill_null(-1).to_numpy().astype(">i4")
    ends = np.arange(len(cells) + 1, dtype=np.int32) * np.int32(4)
    return pa.Array.from_buffers(pa.binary(), len(cells), [None, buffer(ends), buffer(lengths)])
