"""Memcomparable encoding: columns to byte strings whose byte order is the order of the rows.

Source of the format: the crate ``memcomparable`` of RisingWave. Per datum a tag byte, then a body unless
NULL; descending columns are inverted bit by bit, tag included.

=====================  ===========================================================================
type                   body
=====================  ===========================================================================
bool                   0 or 1
int8 ... int64         big endian, sign bit flipped; date32 as int32, timestamp(us) and duration as int64
float32, float64       NaN normalised (greatest), -0.0 as 0.0, unless ``exact``; sign 0: set it, sign 1: invert all
                       bits
decimal128(p, s)       16 bytes big endian, sign bit flipped. Orders values of one scale only, which a column
                       has; RisingWave's decimal is of variable scale and is encoded differently.
string, binary         empty: 00. Else 01, then groups of 8 zero padded bytes, each followed by the number of
                       bytes used if last, or by 9
null                   none
array, struct, map     see :mod:`tidemill.state.keys.nested`
=====================  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.kernels import types
from tidemill.kernels.words import (
    I64,
    I64_OUT,
    U8,
    U8_OUT,
    U64,
    U64_OUT,
    Bytes,
    Ints,
    Word,
    Words,
    inlined,
    is_valid,
    kernel,
    load64,
    load_word,
    store32,
    store64,
)
from tidemill.state.keys.layout import (
    VNODE_BYTES,
    VNODES,
    KeyColumn,
    body_width,
    byte_strings,
    is_bytes,
    is_nested,
    ordered_decimals,
    ordered_words,
    validity,
)
from tidemill.state.keys.nested import bodies, write_bodies


@inlined
def hash_bytes(data: Bytes, start: int, end: int) -> Any:
    """64-bit hash: MurmurHash64A's step per big-endian word, last zero padded, and Murmur3's finaliser."""
    multiplier = np.uint64(0xC6A4A7935BD1E995)
    state = np.uint64(end - start) * multiplier ^ np.uint64(0x9E3779B97F4A7C15)
    position = start
    while position < end:
        if position + 8 <= end:
            word = load64(data, position)
        else:
            word = load_word(data, position, end)
        word *= multiplier
        word ^= word >> np.uint64(47)
        word *= multiplier
        state = (state ^ word) * multiplier
        state ^= state >> np.uint64(47)
        position += 8
    state ^= state >> np.uint64(33)
    state *= np.uint64(0xFF51AFD7ED558CCD)
    state ^= state >> np.uint64(33)
    state *= np.uint64(0xC4CEB9FE1A85EC53)
    return state ^ (state >> np.uint64(33))


@kernel(types.void, U8_OUT, I64_OUT, U64, types.int64, U8, types.int64, types.uint8, types.uint8, types.uint64)
def _write_fixed(
    data: Bytes,
    cursors: Ints,
    words: Words,
    width: int,
    bitmap: Bytes,
    offset: int,
    value_tag: int,
    null_tag: int,
    flip: Word,
) -> None:
    for i in range(words.size):
        at = cursors[i]
        if not is_valid(bitmap, offset, i):
            data[at] = null_tag
            cursors[i] = at + 1
            continue
        data[at] = value_tag
        word = words[i] ^ flip
        if width == 8:
            store64(data, at + 1, word)
        elif width == 4:
            store32(data, at + 1, word)
        else:
            for k in range(width):
                data[at + 1 + k] = (word >> np.uint64(8 * (width - 1 - k))) & np.uint64(255)
        cursors[i] = at + 1 + width


@kernel(types.void, U8_OUT, I64_OUT, U64, U64, U8, types.int64, types.uint8, types.uint8, types.uint64)
def _write_decimal(
    data: Bytes,
    cursors: Ints,
    high: Words,
    low: Words,
    bitmap: Bytes,
    offset: int,
    value_tag: int,
    null_tag: int,
    flip: Word,
) -> None:
    for i in range(high.size):
        at = cursors[i]
        if not is_valid(bitmap, offset, i):
            data[at] = null_tag
            cursors[i] = at + 1
            continue
        data[at] = value_tag
        store64(data, at + 1, high[i] ^ flip)
        store64(data, at + 9, low[i] ^ flip)
        cursors[i] = at + 17


@kernel(types.void, U8_OUT, I64_OUT, I64, U8, U8, types.int64, types.uint8, types.uint8, types.uint64)
def _write_bytes(
    data: Bytes,
    cursors: Ints,
    starts: Ints,
    content: Bytes,
    bitmap: Bytes,
    offset: int,
    value_tag: int,
    null_tag: int,
    flip: Word,
) -> None:
    low = np.uint8(flip & np.uint64(255))
    for i in range(starts.size - 1):
        at = cursors[i]
        if not is_valid(bitmap, offset, i):
            data[at] = null_tag
            cursors[i] = at + 1
            continue
        data[at] = value_tag
        position = starts[i]
        end = starts[i + 1]
        data[at + 1] = np.uint8(1 if position < end else 0) ^ low
        at += 2
        while position < end:
            store64(data, at, load_word(content, position, end) ^ flip)
            data[at + 8] = np.uint8(min(end - position, 9)) ^ low
            at += 9
            position += 8
        cursors[i] = at


@kernel(types.void, I64_OUT, I64, types.int64, U8, types.int64)
def _add_lengths(lengths: Ints, starts: Ints, width: int, bitmap: Bytes, offset: int) -> None:
    """Add the encoded length of each datum; ``starts`` is used when ``width`` is negative."""
    for i in range(lengths.size):
        if not is_valid(bitmap, offset, i):
            lengths[i] += 1
        elif width >= 0:
            lengths[i] += 1 + width
        elif width == -2:
            lengths[i] += 1 + starts[i + 1] - starts[i]
        else:
            lengths[i] += 2 + 9 * ((starts[i + 1] - starts[i] + 7) >> 3)


@kernel(types.void, U8_OUT, I64, I64, types.uint64)
def _write_vnodes(data: Bytes, offsets: Ints, ends: Ints, mask: Word) -> None:
    """The modulus is a power of two: a mask does, and a division would cost as much as the hash."""
    for i in range(ends.size):
        start = offsets[i]
        vnode = hash_bytes(data, start + 2, ends[i]) & mask
        data[start] = vnode >> np.uint64(8)
        data[start + 1] = vnode & np.uint64(255)


@kernel(U64_OUT, I64, U8)
def hash_rows(offsets: Ints, data: Bytes) -> Words:
    """Hash of each byte string."""
    result = np.empty(offsets.size - 1, np.uint64)
    for i in range(result.size):
        result[i] = hash_bytes(data, offsets[i], offsets[i + 1])
    return result


def nested_bodies(column: pa.Array[Any], exact: bool = False) -> tuple[Ints, Bytes]:
    """The encoded bodies of a nested column as byte strings; NULL rows may have any length."""
    return bodies(column, partial(encode_datums, exact=exact), validity(column), in_key_order=not exact)


def encode_datums(columns: Sequence[pa.Array[Any]], exact: bool = False) -> tuple[Ints, Bytes]:
    """Columns side by side, each datum with its tag: what a nested value is made of. NULL comes first."""
    layout = [KeyColumn(c.type, exact=exact) for c in columns]
    parts = _nested_parts(columns, layout)
    offsets = _offsets(columns, parts, len(columns[0]), 0)
    data = np.empty(offsets[-1], np.uint8)
    cursors = offsets[:-1].copy()
    for column, key, part in zip(columns, layout, parts):
        _write_column(data, cursors, column, key, part)
    return offsets, data


def _nested_parts(columns: Sequence[pa.Array[Any]], layout: Sequence[KeyColumn]) -> list[tuple[Ints, Bytes] | None]:
    return [nested_bodies(c, key.exact) if is_nested(c.type) else None for c, key in zip(columns, layout)]


def _offsets(
    columns: Sequence[pa.Array[Any]], parts: Sequence[tuple[Ints, Bytes] | None], rows: int, base: int = VNODE_BYTES
) -> Ints:
    """Offsets of the encoded rows (int64, rows + 1); ``base`` bytes come before the columns."""
    varying = []
    for column, part in zip(columns, parts):
        width = body_width(column.type)
        if width >= 0 and (width == 0 or column.null_count == 0):
            base += 1 + width
        else:
            varying.append((column, part))
    if not varying:
        return np.arange(rows + 1, dtype=np.int64) * base
    offsets = np.zeros(rows + 1, np.int64)
    lengths = offsets[1:]
    lengths += base
    for column, part in varying:
        width = body_width(column.type)
        starts = np.empty(0, np.int64)
        if part is not None:
            starts = part[0]
        elif width < 0:
            starts = byte_strings(column)[0]
        _add_lengths(lengths, starts, width, *validity(column))
    np.cumsum(lengths, out=lengths)
    return offsets


def _write_column(
    data: Bytes, cursors: Ints, column: pa.Array[Any], key: KeyColumn, part: tuple[Ints, Bytes] | None
) -> None:
    """Write one column at the cursors, which move on."""
    width = body_width(key.type)
    flip = np.uint64(0xFFFFFFFFFFFFFFFF if key.descending else 0)
    if width == 0:
        data[cursors] = key.tags[1]
        cursors += 1
        return
    if part is not None:
        write_bodies(data, cursors, *part, *validity(column), *key.tags, np.uint8(flip & np.uint64(255)))
        return
    rest: tuple[Any, ...] = (*validity(column), *key.tags, flip)
    if width < 0:
        _write_bytes(data, cursors, *byte_strings(column), *rest)
    elif width == 16:
        _write_decimal(data, cursors, *ordered_decimals(column), *rest)
    else:
        _write_fixed(data, cursors, ordered_words(column, key.exact), width, *rest)


def encode_columns(
    columns: Sequence[pa.Array[Any]], layout: Sequence[KeyColumn], distribution: int
) -> tuple[Ints, Bytes]:
    """Offsets (int64, n + 1) and bytes of the encoded rows; see :func:`tidemill.state.keys.keys.encode`.

    Raises
    ------
    TidemillError
        TM1101 for a type that cannot be part of a key, TM1102 where a column differs from the layout.
    """
    if distribution > len(columns):
        raise ValueError(f"vnode of {distribution} columns, but only {len(columns)} are given")
    rows = len(columns[0]) if columns else 0
    for column, key in zip(columns, layout):
        body_width(key.type)
        same = column.type == key.type or (is_bytes(column.type) and is_bytes(key.type))
        if not same or len(column) != rows:
            raise TidemillError(
                "TM1102",
                "a column of a key differs from its layout",
                got=f"{len(column)} rows of {column.type}",
                hint=f"expected {rows} rows of {key.type}",
            )
    parts = _nested_parts(columns, layout)
    offsets = _offsets(columns, parts, rows)
    data = np.empty(offsets[-1], np.uint8)
    cursors = offsets[:-1] + VNODE_BYTES
    if distribution == 0:
        _write_vnodes(data, offsets, cursors, 0)
    for index, (column, key, part) in enumerate(zip(columns, layout, parts)):
        _write_column(data, cursors, column, key, part)
        if index + 1 == distribution:
            _write_vnodes(data, offsets, cursors, VNODES - 1)
    return offsets, data
