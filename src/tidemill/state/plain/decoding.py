"""Columns of keys without kernels: those of all rows at once. What the bytes are says :mod:`tidemill.state.keys`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.state.keys.arrow_columns import bitmap, from_words
from tidemill.state.keys.layout import VNODE_BYTES, Bytes, Ints, KeyColumn, body_width, byte_strings, is_bytes


def decoded(keys: pa.Array[Any], layout: Sequence[KeyColumn]) -> list[pa.Array[Any]]:
    """As :func:`tidemill.state.keys.keys.decode`, for types that are not nested.

    Parameters
    ----------
    keys : pa.Array
        large_binary, without NULLs.
    """
    offsets, data = byte_strings(keys)
    cursors = offsets[:-1] + VNODE_BYTES
    return [_read(data, cursors, key) for key in layout]


def _read(data: Bytes, cursors: Ints, key: KeyColumn) -> pa.Array[Any]:
    """One column, whose values begin at the cursors; these go on to the next."""
    rows, width = len(cursors), body_width(key.type)
    if width == 0:
        cursors += 1
        return pa.nulls(rows)
    valid = data[cursors] != key.tags[1]
    cursors += 1
    flip = np.uint8(0xFF if key.descending else 0)
    if is_bytes(key.type):
        return _read_texts(data, cursors, key, valid, flip)
    at = cursors[valid]
    body = data[at[:, None] + np.arange(width)] ^ flip
    cursors[valid] = at + width
    words = np.zeros((rows, max(width, 8)), np.uint8)
    words[valid, -width:] = body
    if width != 16:
        return from_words(words.view(">u8").ravel().astype(np.uint64), key.type, valid)
    words[valid, 0] ^= 0x80  # the sign
    pairs = np.ascontiguousarray(words.view(">u8")[:, ::-1]).astype(np.uint64)
    return pa.Array.from_buffers(key.type, rows, [bitmap(valid), pa.py_buffer(pairs.data)])


def _read_texts(data: Bytes, cursors: Ints, key: KeyColumn, valid: Any, flip: np.uint8) -> pa.Array[Any]:
    lengths = np.zeros(len(cursors), np.int64)
    filled = valid.copy()
    filled[valid] = data[cursors[valid]] ^ flip == 1
    starts = cursors + 1
    cursors += valid
    going = np.flatnonzero(filled)
    while len(going):  # group by group: 8 bytes, then how many of them are used, or 9
        used = data[cursors[going] + 8] ^ flip
        cursors[going] += 9
        lengths[going] += np.minimum(used, 8)
        going = going[used == 9]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    places = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    content = data[np.repeat(starts, lengths) + places + places // 8] ^ flip
    textual = pa.types.is_string(key.type) or pa.types.is_large_string(key.type)
    buffers = [bitmap(valid), pa.py_buffer(offsets.data), pa.py_buffer(content.data)]
    wide = pa.large_string() if textual else pa.large_binary()
    return pa.Array.from_buffers(wide, len(cursors), buffers).cast(key.type)
