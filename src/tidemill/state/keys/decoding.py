"""Memcomparable bytes back to columns; the inverse of :mod:`tidemill.state.keys.encoding`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.columns import column
from tidemill.kernels.words import (
    BOOL_OUT,
    I64,
    I64_OUT,
    U8,
    U8_OUT,
    U64_OUT,
    Bools,
    Bytes,
    Ints,
    Word,
    Words,
    kernel,
    load_word,
)
from tidemill.state.keys.arrow_columns import bitmap, from_words
from tidemill.state.keys.layout import VNODE_BYTES, KeyColumn, body_width, is_bytes, is_nested
from tidemill.state.keys.nested import count_elements, entry_type, find_elements, map_array, program, stack_depth


@kernel(types.void, U8, I64_OUT, types.int64, types.uint8, types.uint64, U64_OUT, BOOL_OUT)
def _read_fixed(data: Bytes, cursors: Ints, width: int, null_tag: int, flip: Word, words: Words, valid: Bools) -> None:
    shift = np.uint64(64 - 8 * width)
    for i in range(cursors.size):
        at = cursors[i]
        valid[i] = data[at] != null_tag
        words[i] = 0
        cursors[i] = at + 1
        if valid[i]:
            words[i] = (load_word(data, at + 1, at + 1 + width) ^ flip) >> shift
            cursors[i] = at + 1 + width


@kernel(types.void, U8, I64_OUT, types.uint8, types.uint64, U64_OUT, BOOL_OUT)
def _read_decimal(data: Bytes, cursors: Ints, null_tag: int, flip: Word, pairs: Words, valid: Bools) -> None:
    for i in range(cursors.size):
        at = cursors[i]
        valid[i] = data[at] != null_tag
        pairs[2 * i] = 0
        pairs[2 * i + 1] = 0
        cursors[i] = at + 1
        if valid[i]:
            sign = np.uint64(1) << np.uint64(63)
            pairs[2 * i + 1] = load_word(data, at + 1, at + 9) ^ flip ^ sign
            pairs[2 * i] = load_word(data, at + 9, at + 17) ^ flip
            cursors[i] = at + 17


@kernel(types.void, U8, I64, types.uint8, types.uint8, I64_OUT, BOOL_OUT)
def _measure_bytes(data: Bytes, cursors: Ints, null_tag: int, flip: Word, offsets: Ints, valid: Bools) -> None:
    offsets[0] = 0
    for i in range(cursors.size):
        at = cursors[i]
        valid[i] = data[at] != null_tag
        length = np.int64(0)
        if valid[i] and data[at + 1] ^ flip == 1:
            at += 10
            while data[at] ^ flip == 9:
                length += 8
                at += 9
            length += np.int64(data[at] ^ flip)
        offsets[i + 1] = offsets[i] + length


@kernel(types.void, U8, I64_OUT, types.uint8, I64, BOOL_OUT, U8_OUT)
def _read_bytes(data: Bytes, cursors: Ints, flip: Word, offsets: Ints, valid: Bools, content: Bytes) -> None:
    for i in range(cursors.size):
        at = cursors[i] + 1
        if valid[i]:
            at += 1
            position = offsets[i]
            end = offsets[i + 1]
            while position < end:
                for k in range(min(8, end - position)):
                    content[position + k] = data[at + k] ^ flip
                position += 8
                at += 9
        cursors[i] = at


def _inner(type_: pa.DataType, descending: bool) -> KeyColumn:
    """How a datum inside a nested value is written: NULL first, all bits inverted when descending."""
    return KeyColumn(type_, descending, nulls_first=not descending)


def _read_lists(data: Bytes, cursors: Ints, key: KeyColumn, low: Word) -> pa.Array[Any]:
    """Arrays and maps; the elements of all rows are read as one column."""
    rows, type_ = len(cursors), cast("pa.ListType[Any] | pa.MapType[Any, Any, Any]", key.type)
    element = entry_type(type_) if isinstance(type_, pa.MapType) else type_.value_type
    codes = program(element, body_width)
    depth = stack_depth(codes)
    offsets, ends = np.empty(rows + 1, np.int64), np.empty(rows, np.int64)
    valid = np.empty(rows, np.bool_)
    count_elements(data, cursors, key.tags[1], low, codes, depth, offsets, valid, ends)
    places = find_elements(data, cursors, low, codes, depth, offsets)
    cursors[:] = ends
    values = _read_column(data, places, _inner(element, key.descending))
    if isinstance(type_, pa.MapType):
        return map_array(type_, offsets, cast("pa.StructArray", values), bitmap(valid))
    buffers = [bitmap(valid), pa.py_buffer(offsets.astype(np.int32).data)]
    return pa.Array.from_buffers(type_, rows, buffers, children=[values])


def _read_structs(data: Bytes, cursors: Ints, key: KeyColumn) -> pa.Array[Any]:
    valid = data[cursors] != key.tags[1]
    cursors += 1
    present = np.flatnonzero(valid)
    inside = cursors[present]
    fields = [_read_column(data, inside, _inner(f.type, key.descending)) for f in cast("pa.StructType", key.type)]
    cursors[present] = inside
    if len(present) < len(cursors):
        scatter = np.zeros(len(cursors), np.int64)
        scatter[present] = np.arange(len(present))
        index = column(scatter, ~valid)
        fields = [f.take(index) for f in fields]
    return pa.Array.from_buffers(key.type, len(cursors), [bitmap(valid)], children=fields)


def _read_column(data: Bytes, cursors: Ints, key: KeyColumn) -> pa.Array[Any]:
    rows = len(cursors)
    null_tag = key.tags[1]
    flip = np.uint64(0xFFFFFFFFFFFFFFFF if key.descending else 0)
    low = np.uint8(flip & np.uint64(255))
    if is_nested(key.type):
        return (
            _read_structs(data, cursors, key) if pa.types.is_struct(key.type) else _read_lists(data, cursors, key, low)
        )
    valid = np.empty(rows, np.bool_)
    if is_bytes(key.type):
        offsets = np.empty(rows + 1, np.int64)
        _measure_bytes(data, cursors, null_tag, low, offsets, valid)
        content = np.empty(offsets[-1], np.uint8)
        _read_bytes(data, cursors, low, offsets, valid, content)
        textual = pa.types.is_string(key.type) or pa.types.is_large_string(key.type)
        wide = pa.large_string() if textual else pa.large_binary()
        buffers = [bitmap(valid), pa.py_buffer(offsets.data), pa.py_buffer(content.data)]
        return pa.Array.from_buffers(wide, rows, buffers).cast(key.type)
    width = body_width(key.type)
    if width == 0:
        cursors += 1
        return pa.nulls(rows)
    if width == 16:
        pairs = np.empty(2 * rows, np.uint64)
        _read_decimal(data, cursors, null_tag, flip, pairs, valid)
        return pa.Array.from_buffers(key.type, rows, [bitmap(valid), pa.py_buffer(pairs.data)])
    words = np.empty(rows, np.uint64)
    _read_fixed(data, cursors, width, null_tag, flip, words, valid)
    return from_words(words, key.type, valid)


def decode_columns(offsets: Ints, data: Bytes, layout: Sequence[KeyColumn]) -> list[pa.Array[Any]]:
    """Columns of encoded rows; see :func:`tidemill.state.keys.keys.decode`."""
    cursors = offsets[:-1] + VNODE_BYTES
    return [_read_column(data, cursors, key) for key in layout]
