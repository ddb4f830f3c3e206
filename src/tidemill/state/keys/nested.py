"""Arrays, structs and maps as byte strings that order like the values.

Inside a nested value every datum is one tag byte (0 NULL, 1 value), then its body; NULL comes first, as Spark
orders. Bodies of the nested types:

=======  ==========================================================================================
struct   the fields, one after the other
array    per element a byte 01 and the element; then 00. A prefix of an array comes before it
map      as the array of its (key, value) entries, sorted by key: equal maps have equal bytes. In a column that is
         exact (:class:`~tidemill.state.keys.encoding.KeyColumn`), in the order they have
=======  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.sorting import sort_rows
from tidemill.kernels.words import (
    BOOL_OUT,
    I64,
    I64_OUT,
    U8,
    U8_OUT,
    Bools,
    Bytes,
    Ints,
    Word,
    copy_bytes,
    is_valid,
    kernel,
)

Rows = tuple[Ints, Bytes]
"""Byte strings: offsets (int64, n + 1) and bytes."""

_DEPTH = 64
_LIST = -2
_STRUCT = -3


def elements(array: pa.Array[Any]) -> tuple[Ints, pa.Array[Any]]:
    """Offsets of the elements of each list or map (int64, n + 1), and all elements; a NULL may have some."""
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(1, np.int64), _all_elements(array).slice(0, 0)
    raw = np.frombuffer(memoryview(buffer), np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    first, last = int(raw[0]), int(raw[-1])
    return raw - first, _all_elements(array).slice(first, last - first)


def _all_elements(array: pa.Array[Any]) -> pa.Array[Any]:
    """The elements of a list array, or the entries of a map array as structs; those outside of its slice too."""
    if isinstance(array, pa.MapArray):
        fields = list(entry_type(array.type))
        return pa.StructArray.from_arrays([array.keys, array.items], fields=fields)
    return cast("pa.ListArray[Any]", array).values


def entry_type(type_: pa.MapType[Any, Any, Any]) -> pa.StructType:
    """The struct of a map's entries."""
    return pa.struct([pa.field("key", type_.key_type), pa.field("value", type_.item_type)])


@kernel(types.tuple_of((I64_OUT, U8_OUT)), I64, I64, U8, U8, types.int64)
def _join_elements(lists: Ints, offsets: Ints, data: Bytes, bitmap: Bytes, bit: int) -> Rows:
    """The body of each list from the encoded elements of all."""
    rows = lists.size - 1
    result = np.zeros(rows + 1, np.int64)
    for i in range(rows):
        length = np.int64(0)
        if is_valid(bitmap, bit, i):
            count = lists[i + 1] - lists[i]
            length = 1 + count + offsets[lists[i + 1]] - offsets[lists[i]]
        result[i + 1] = result[i] + length
    out = np.empty(result[rows], np.uint8)
    for i in range(rows):
        if not is_valid(bitmap, bit, i):
            continue
        at = result[i]
        for j in range(lists[i], lists[i + 1]):
            out[at] = 1
            length = offsets[j + 1] - offsets[j]
            copy_bytes(data, offsets[j], out, at + 1, length)
            at += 1 + length
        out[at] = 0
    return result, out


@kernel(types.void, U8_OUT, I64_OUT, I64, U8, U8, types.int64, types.uint8, types.uint8, types.uint8)
def write_bodies(
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
    """Write encoded bodies into keys, inverted if ``flip`` is 255."""
    for i in range(starts.size - 1):
        at = cursors[i]
        if not is_valid(bitmap, offset, i):
            data[at] = null_tag
            cursors[i] = at + 1
            continue
        data[at] = value_tag
        at += 1
        for k in range(starts[i], starts[i + 1]):
            data[at] = content[k] ^ flip
            at += 1
        cursors[i] = at


def _in_key_order(lists: Ints, entries: Rows) -> tuple[Ints, Rows]:
    """Entries sorted by their bytes within each map (int64 order, and the entries in it)."""
    offsets, data = entries
    rows = len(offsets) - 1
    owners = np.repeat(np.arange(len(lists) - 1), np.diff(lists))
    lengths = np.diff(offsets)
    bounds = np.zeros(rows + 1, np.int64)
    np.cumsum(lengths + 4, out=bounds[1:])
    prefixed = np.empty(bounds[-1], np.uint8)
    head = owners.astype(">u4").view(np.uint8).reshape(-1, 4)
    for k in range(4):
        prefixed[bounds[:-1] + k] = head[:, k]
    _copy_rows(offsets, data, np.arange(rows), bounds[:-1] + 4, prefixed)
    order = sort_rows(bounds, prefixed)
    targets = np.zeros(rows + 1, np.int64)
    np.cumsum(lengths[order], out=targets[1:])
    sorted_ = np.empty(targets[-1], np.uint8)
    _copy_rows(offsets, data, order, targets[:-1], sorted_)
    return order, (targets, sorted_)


@kernel(types.void, I64, U8, I64, I64, U8_OUT)
def _copy_rows(offsets: Ints, data: Bytes, rows: Ints, targets: Ints, out: Bytes) -> None:
    for i in range(rows.size):
        start = offsets[rows[i]]
        copy_bytes(data, start, out, targets[i], offsets[rows[i] + 1] - start)


def bodies(
    array: pa.Array[Any],
    encode: Callable[[Sequence[pa.Array[Any]]], Rows],
    bitmap: tuple[Bytes, int],
    in_key_order: bool = True,
) -> Rows:
    """The body of every value of a nested column; what stands at a NULL is undefined.

    Parameters
    ----------
    encode : callable
        Encodes columns side by side, a tag and a body each, without anything before them.
    bitmap : (bytes, bit)
        Validity of ``array``.
    in_key_order : bool
        Whether the entries of maps are sorted by key, so that equal maps are equal bytes.
    """
    if isinstance(array, pa.StructArray):
        if array.type.num_fields == 0:
            return np.zeros(len(array) + 1, np.int64), np.empty(0, np.uint8)
        return encode([array.field(i) for i in range(array.type.num_fields)])
    lists, values = elements(array)
    encoded = encode([values])
    if in_key_order and pa.types.is_map(array.type):
        _, encoded = _in_key_order(lists, encoded)
    joined: Rows = _join_elements(lists, *encoded, *bitmap)
    return joined


def map_array(
    type_: pa.MapType[Any, Any, Any], lists: Ints, entries: pa.StructArray, valid: pa.Buffer | None
) -> pa.Array[Any]:
    """Maps of a type from offsets and entries."""
    child = pa.StructArray.from_arrays(
        [entries.field(0), entries.field(1)],
        fields=[pa.field(type_.key_field.name, type_.key_type, False), type_.item_field],
    )
    buffers = [valid, pa.py_buffer(lists.astype(np.int32).data)]
    return pa.Array.from_buffers(type_, len(lists) - 1, buffers, children=[child])


def program(type_: pa.DataType, width: Callable[[pa.DataType], int]) -> Ints:
    """How to step over a datum: per type in pre-order its code and the number of entries of its subtree.

    Codes: 0 or more, bytes of the body; -1 a byte string; -2 an array; -3 - n a struct of n fields.
    """
    if pa.types.is_list(type_):
        below = [program(type_.value_type, width)]
        code = _LIST
    elif pa.types.is_map(type_):
        below = [program(entry_type(type_), width)]
        code = _LIST
    elif pa.types.is_struct(type_):
        below = [program(f.type, width) for f in type_]
        code = _STRUCT - len(below)
    else:
        return np.array([width(type_), 1], np.int64)
    size = 1 + sum(len(b) // 2 for b in below)
    return np.concatenate([np.array([code, size], np.int64), *below])


@kernel(types.int64, U8, types.int64, types.uint8, I64, I64_OUT)
def _skip(data: Bytes, at: int, flip: Word, codes: Ints, stack: Ints) -> int:
    """Where the datum that begins with a tag at ``at`` ends. A negative entry of the stack is an open array."""
    stack[0] = 0
    top = 1
    while top > 0:
        pc = stack[top - 1]
        if pc < 0:
            at += 1
            if data[at - 1] ^ flip == 0:
                top -= 1
            else:
                stack[top] = -pc
                top += 1
            continue
        top -= 1
        at += 1
        if data[at - 1] ^ flip == 0:
            continue
        code = codes[2 * pc]
        if code >= 0:
            at += code
        elif code == -1:
            at += 1
            if data[at - 1] ^ flip == 1:
                while data[at + 8] ^ flip == 9:
                    at += 9
                at += 9
        elif code == _LIST:
            stack[top] = -(pc + 1)
            top += 1
        else:
            fields = _STRUCT - code
            child = pc + 1
            for k in range(fields):
                stack[top + fields - 1 - k] = child
                child += codes[2 * child + 1]
            top += fields
    return at


@kernel(types.void, U8, I64, types.uint8, types.uint8, I64, types.int64, I64_OUT, BOOL_OUT, I64_OUT)
def count_elements(
    data: Bytes,
    cursors: Ints,
    null_tag: int,
    flip: Word,
    codes: Ints,
    depth: int,
    offsets: Ints,
    valid: Bools,
    ends: Ints,
) -> None:
    """Number of elements of each array, as offsets, and where it ends."""
    stack = np.empty(depth, np.int64)
    offsets[0] = 0
    for i in range(cursors.size):
        at = cursors[i]
        valid[i] = data[at] != null_tag
        at += 1
        count = 0
        if valid[i]:
            while data[at] ^ flip == 1:
                at = _skip(data, at + 1, flip, codes, stack)
                count += 1
            at += 1
        offsets[i + 1] = offsets[i] + count
        ends[i] = at


@kernel(I64_OUT, U8, I64, types.uint8, I64, types.int64, I64)
def find_elements(data: Bytes, cursors: Ints, flip: Word, codes: Ints, depth: int, offsets: Ints) -> Ints:
    """Where each element begins, with its tag."""
    stack = np.empty(depth, np.int64)
    result = np.empty(offsets[offsets.size - 1], np.int64)
    for i in range(cursors.size):
        at = cursors[i] + 1
        for j in range(offsets[i], offsets[i + 1]):
            result[j] = at + 1
            at = _skip(data, at + 1, flip, codes, stack)
    return result


def stack_depth(codes: Ints) -> int:
    """Enough entries for the stack of a program."""
    return len(codes) + _DEPTH
