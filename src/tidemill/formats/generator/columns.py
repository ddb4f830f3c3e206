"""Generated values, a column at a time.

Plain twin: ``tests/formats/generator_reference.py``.
"""

from __future__ import annotations

import hashlib
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.generator.settings import Shape
from tidemill.kernels.columns import map_array, nulls

Array: TypeAlias = "pa.Array[Any]"
Words = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_NULLS = 0xA0761D6478BD642F
_MASK = (1 << 64) - 1
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", np.uint8)
_BITS, _LETTERS_OF_WORD = 5, 12
_SHIFTS = np.arange(_LETTERS_OF_WORD, dtype=np.uint64) * np.uint64(_BITS)


def column_of(shape: Shape, seed: int, rows: Words) -> Array:
    """The values of some rows, by their numbers."""
    if pa.types.is_null(shape.type):
        return nulls(len(rows))
    key = _key_of(seed, shape.name)
    values = _values(shape, seed, key, rows)
    threshold = int(shape.null_rate * (1 << 64))
    if threshold == 0:
        return values
    missing = np.ones(len(rows), bool) if threshold > _MASK else _words(key ^ _NULLS, rows) < np.uint64(threshold)
    return values.take(pa.array(np.arange(len(rows)), pa.int64(), mask=missing))


def _key_of(seed: int, name: str) -> int:
    """The number of a column, or a part of one."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    word = np.array([(seed & _MASK) ^ int.from_bytes(digest, "little")], np.uint64)
    return int(_mixed(word)[0])


def _values(shape: Shape, seed: int, key: int, rows: Words) -> Array:
    type_ = shape.type
    if pa.types.is_struct(type_):
        return pa.StructArray.from_arrays([column_of(p, seed, rows) for p in shape.parts], fields=list(type_))
    if shape.parts:
        return _collections(shape, seed, rows)
    if shape.sequence:
        return _sequence(shape, rows)
    if type_ == pa.string() or type_ == pa.binary():
        return _texts(shape, key, rows)
    words = _words(key, rows)
    if pa.types.is_boolean(type_):
        return _array(words >> np.uint64(63) == 1)
    if pa.types.is_floating(type_):
        numbers = shape.least + (words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * (shape.most - shape.least)
        return _array(numbers).cast(type_, safe=False)
    count = min(shape.most - shape.least, _MASK - 1)
    words = words % np.uint64(count + 1)
    if not pa.types.is_decimal(type_):
        return _stored(type_, words + np.uint64(shape.least & _MASK))
    return _decimals(type_, words, max((shape.most - shape.least) // count, 1) if count else 1, shape.least)


def _collections(shape: Shape, seed: int, rows: Words) -> Array:
    """Lists and maps, all of one length; keys are numbers from 0 on."""
    length = shape.length
    first = rows[:, None] * np.uint64(length)
    places = np.add(first, np.arange(length, dtype=np.uint64), dtype=np.uint64).ravel()
    offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * np.int32(length))
    values = column_of(shape.parts[0], seed, places)
    if pa.types.is_list(shape.type):
        return pa.ListArray.from_arrays(offsets, values, type=shape.type)
    assert pa.types.is_map(shape.type)
    keys = pa.array(np.tile(np.arange(length), len(rows)), pa.int64()).cast(shape.type.key_type)
    return map_array(offsets, keys, values, shape.type)


def _sequence(shape: Shape, rows: Words) -> Array:
    type_ = shape.type
    if pa.types.is_decimal(type_):
        return _decimals(type_, rows, 10**type_.scale, shape.least)
    if pa.types.is_floating(type_):
        return _array(shape.least + rows.astype(np.float64)).cast(type_, safe=False)
    counts = rows % np.uint64(shape.wrap) if shape.wrap else rows
    if shape.step:
        counts = (counts.astype(np.float64) * shape.step).astype(np.uint64)
    numbers = counts + np.uint64(shape.least & _MASK)
    if type_ == pa.string():
        return _array(numbers.view(np.int64)).cast(type_)
    return _stored(type_, numbers)


def _array(values: npt.NDArray[Any]) -> Array:
    array: Array = pa.array(values)
    return array


def _stored(type_: pa.DataType, numbers: Words) -> Array:
    """Whole numbers as a column of a type that has as many bits or fewer."""
    narrow = numbers.astype(f"u{type_.bit_width // 8}")
    return pa.Array.from_buffers(type_, len(narrow), [None, pa.py_buffer(narrow.data)])


def _decimals(type_: pa.DataType, words: Words, step: int, least: int) -> Array:
    """``least + step * word``, unscaled."""
    wide = pa.array(words).cast(pa.decimal256(20, 0))
    product = pc.multiply(wide, pa.scalar(Decimal(step), pa.decimal256(39, 0)))
    unscaled = pc.add(product, pa.scalar(Decimal(least), pa.decimal256(39, 0))).cast(pa.decimal128(38, 0))
    return pa.Array.from_buffers(type_, len(words), [None, unscaled.buffers()[1]])


def _texts(shape: Shape, key: int, rows: Words) -> Array:
    """Texts of one length: letters, or random bytes."""
    text = shape.type == pa.string()
    numbers = np.arange(-(-shape.length // (_LETTERS_OF_WORD if text else 8)), dtype=np.uint64)
    first = _mixed(np.uint64(key) + rows * _GOLDEN)
    words = _mixed(first[:, None] + numbers * _GOLDEN)
    if text:
        data = _LETTERS[(words[:, :, None] >> _SHIFTS) & np.uint64((1 << _BITS) - 1)]
    else:
        data = words.astype("<u8").view(np.uint8)
    data = np.ascontiguousarray(data.reshape(len(rows), -1)[:, : shape.length])
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(shape.length)
    return pa.Array.from_buffers(shape.type, len(rows), [None, pa.py_buffer(offsets.data), pa.py_buffer(data.data)])


def _words(key: int, rows: Words) -> Words:
    return _mixed(_mixed(np.uint64(key) + rows * _GOLDEN))


def _mixed(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Words = words ^ (words >> np.uint64(31))
    return mixed
