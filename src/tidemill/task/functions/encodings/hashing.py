"""Spark's ``hash`` (Murmur3) and ``xxhash64``: each column's hash is the seed of the next one's."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, pc
from tidemill.task.functions.columns.lists import take_apart
from tidemill.task.functions.columns.numpy_values import text_bytes, validity, words_of
from tidemill.task.functions.columns.registry import Value, as_array, function
from tidemill.task.functions.kernels import hash as kernels

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class _Hash:
    """The three kernels of a hash function: of 32-bit values, of 64-bit values, of bytes."""

    ints: Callable[..., None]
    longs: Callable[..., None]
    texts: Callable[..., None]


_MURMUR3 = _Hash(kernels.murmur3_ints, kernels.murmur3_longs, kernels.murmur3_bytes)
_XXHASH64 = _Hash(kernels.xxhash64_ints, kernels.xxhash64_longs, kernels.xxhash64_bytes)


def _fold(array: Array, hashes: Words, by: _Hash) -> Words:
    """The hashes after this column; NULL leaves a hash as it is."""
    if pa.types.is_null(array.type):
        return hashes
    result = hashes.copy()
    valid = validity(array)
    if pa.types.is_struct(array.type):
        for position in range(array.type.num_fields):
            result = _fold(pc.struct_field(array, position), result, by)
        return np.where(valid, result, hashes)
    if pa.types.is_list(array.type):
        return _fold_lists(array, result, by)
    _fold_values(array, result, valid, by)
    return result


def _fold_lists(array: Array, hashes: Words, by: _Hash) -> Words:
    """The first elements of all lists, then the second ones, and so on: a hash depends on the one before."""
    lists = take_apart(array, len(array))
    for position in range(int(lists.lengths.max(initial=0))):
        rows = np.flatnonzero(lists.lengths > position)
        elements = lists.values.take(column(lists.offsets[rows] + position))
        hashes[rows] = _fold(elements, hashes[rows], by)
    return hashes


def _fold_values(array: Array, hashes: Words, valid: npt.NDArray[np.bool_], by: _Hash) -> None:
    type_ = array.type
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        raw, starts = text_bytes(array)
        by.texts(raw, starts, valid, hashes)
    elif pa.types.is_decimal(type_) and type_.precision > 18:
        unscaled = [None if v is None else _big_endian(int(v.scaleb(type_.scale, _WIDE))) for v in array.to_pylist()]
        raw, starts = text_bytes(pa.array(unscaled, pa.binary()))
        by.texts(raw, starts, valid, hashes)
    elif pa.types.is_decimal(type_):
        words = words_of(array.buffers()[1], np.int64)[2 * array.offset :: 2][: len(array)]
        by.longs(np.ascontiguousarray(words), valid, hashes)
    elif pa.types.is_float32(type_):
        by.ints(_plain(array).view(np.int32), valid, hashes)
    elif pa.types.is_float64(type_):
        by.longs(_plain(array).view(np.int64), valid, hashes)
    elif pa.types.is_int64(type_) or pa.types.is_timestamp(type_):
        by.longs(np.ascontiguousarray(_numbers(array, pa.int64())), valid, hashes)
    else:
        by.ints(np.ascontiguousarray(_numbers(array, pa.int32())), valid, hashes)


def _numbers(array: Array, type_: pa.DataType) -> npt.NDArray[Any]:
    numbers: npt.NDArray[Any] = pc.fill_null(array.cast(type_), 0).to_numpy(zero_copy_only=False)
    return numbers


def _plain(array: Array) -> npt.NDArray[Any]:
    """Floats with one NaN and one zero."""
    number = array.type.to_pandas_dtype()
    values: npt.NDArray[Any] = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False) + number(0.0)
    values[np.isnan(values)] = np.nan
    return values


def _big_endian(number: int) -> bytes:
    """Java's ``BigInteger.toByteArray``: as few bytes as hold the number and its sign."""
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


_WIDE = decimal.Context(prec=80)


@function("hash", sql=("hash",), strict=False)
def _hash(call: Call, args: list[Value], rows: int) -> Value:
    hashes = np.full(rows, np.uint64(int(call.option("seed")) & 0xFFFFFFFF))
    for arg in args:
        hashes = _fold(as_array(arg, rows), hashes, _MURMUR3)
    return pa.array(hashes.astype(np.uint32).view(np.int32))


@function("xxhash64", strict=False)
def _xxhash64(call: Call, args: list[Value], rows: int) -> Value:
    hashes = np.full(rows, np.uint64(int(call.option("seed")) & 0xFFFFFFFFFFFFFFFF))
    for arg in args:
        hashes = _fold(as_array(arg, rows), hashes, _XXHASH64)
    return pa.array(hashes.view(np.int64))
