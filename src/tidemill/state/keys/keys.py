"""Keys of the state store: columns as byte strings that sort and compare by memcmp.

A key is ``vnode (2 bytes, big endian) | memcomparable columns``. The bytes are those of
:mod:`tidemill.state.keys.encoding`; they are written to storage: neither they nor :func:`hash64` may ever change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.sorting import sort_rows
from tidemill.kernels.words import (
    I64,
    I64_OUT,
    U8,
    U8_OUT,
    Bytes,
    Ints,
    Words,
    copy_bytes,
    kernel,
    load64,
    store64,
)
from tidemill.state.keys.decoding import decode_columns
from tidemill.state.keys.encoding import encode_columns, hash_rows
from tidemill.state.keys.grouping import group_rows
from tidemill.state.keys.layout import VNODES, KeyColumn, byte_strings

__all__ = [
    "VNODES",
    "KeyColumn",
    "Keys",
    "decode",
    "encode",
    "group",
    "hash64",
    "in_vnodes",
    "prefix",
    "sort",
    "vnodes",
]


@kernel(types.void, I64, U8, I64, I64, U8_OUT)
def _gather_bytes(offsets: Ints, data: Bytes, rows: Ints, targets: Ints, out: Bytes) -> None:
    for i in range(rows.size):
        source = offsets[rows[i]]
        end = offsets[rows[i] + 1]
        at = targets[i]
        # Whole words may reach into the key after this one, which is written next.
        while source < end and source + 8 <= data.size and at + 8 <= out.size:
            store64(out, at, load64(data, source))
            source += 8
            at += 8
        if source < end:
            copy_bytes(data, source, out, at, end - source)


@kernel(I64_OUT, I64, I64)
def _gather_offsets(offsets: Ints, rows: Ints) -> Ints:
    result = np.empty(rows.size + 1, np.int64)
    result[0] = 0
    for i in range(rows.size):
        result[i + 1] = result[i] + offsets[rows[i] + 1] - offsets[rows[i]]
    return result


@dataclass(frozen=True, eq=False)
class Keys:
    """An array of byte strings.

    Attributes
    ----------
    offsets : np.ndarray
        int64, n + 1, ascending; the first need not be 0. Key ``i`` is ``data[offsets[i]:offsets[i + 1]]``.
    data : np.ndarray
        uint8; may be longer than the last offset.
    """

    offsets: Ints
    data: Bytes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> bytes:
        row = range(len(self))[row]
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def take(self, rows: npt.ArrayLike) -> Keys:
        """The keys of the given rows (int64, each within 0..n-1), copied."""
        index = np.ascontiguousarray(rows, np.int64)
        if len(index) and (index.min() < 0 or index.max() >= len(self)):
            raise IndexError(f"rows {index.min()}..{index.max()} of {len(self)} keys")
        offsets = _gather_offsets(self.offsets, index)
        data = np.empty(offsets[-1], np.uint8)
        _gather_bytes(self.offsets, self.data, index, offsets, data)
        return Keys(offsets, data)

    def slice(self, start: int, stop: int) -> Keys:
        """The keys of rows ``start`` to ``stop - 1``, zero copy."""
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"rows {start}..{stop} of {len(self)} keys")
        return Keys(self.offsets[start : stop + 1], self.data)

    def to_arrow(self) -> pa.Array[Any]:
        """The same bytes as a large_binary array, zero copy."""
        buffers = [None, pa.py_buffer(self.offsets.data), pa.py_buffer(self.data.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)

    @staticmethod
    def from_arrow(array: pa.Array[Any]) -> Keys:
        """The bytes of a large_binary array without NULLs, zero copy."""
        if not pa.types.is_large_binary(array.type) or array.null_count:
            raise TypeError(f"keys are large_binary without NULLs, not {array.type} with {array.null_count} NULLs")
        return Keys(*byte_strings(array))

    @staticmethod
    def empty() -> Keys:
        """No keys."""
        return Keys(np.zeros(1, np.int64), np.empty(0, np.uint8))

    @staticmethod
    def concat(parts: Sequence[Keys]) -> Keys:
        """The keys of all parts, one after the other, copied unless there is only one part."""
        if len(parts) == 1:
            return parts[0]
        offsets = np.zeros(sum(map(len, parts)) + 1, np.int64)
        chunks = []
        at, size = 1, 0
        for part in parts:
            first, last = int(part.offsets[0]), int(part.offsets[-1])
            np.add(part.offsets[1:], size - first, out=offsets[at : at + len(part)])
            chunks.append(part.data[first:last])
            at += len(part)
            size += last - first
        return Keys(offsets, np.concatenate(chunks) if chunks else np.empty(0, np.uint8))


def encode(columns: Sequence[pa.Array[Any]], layout: Sequence[KeyColumn], distribution: int) -> Keys:
    """Encode rows as keys.

    Parameters
    ----------
    columns : sequence of pa.Array
        One per column of the layout, all of n rows; may be sliced; dictionaries must be decoded before.
    layout : sequence of KeyColumn
        Type and order of each column.
    distribution : int
        The vnode is ``hash64(encoded bytes of the first 'distribution' columns) % VNODES``, 0 if 0.

    Returns
    -------
    Keys
        n keys in the order of the rows; of two keys of one vnode the smaller one is the row that sorts first.

    Raises
    ------
    TidemillError
        TM1101 for a type that cannot be part of a key, TM1102 where a column differs from the layout.
    """
    if len(columns) != len(layout):
        raise ValueError(f"{len(columns)} columns for a key of {len(layout)}")
    return Keys(*encode_columns(columns, layout, distribution))


def prefix(columns: Sequence[pa.Array[Any]], layout: Sequence[KeyColumn], distribution: int) -> Keys:
    """Encode the first ``len(columns)`` columns of a longer key: a byte prefix of every key that starts so.

    ``distribution`` is that of the longer key and at most ``len(columns)``.
    """
    return Keys(*encode_columns(columns, layout[: len(columns)], distribution))


def in_vnodes(prefixes: Keys, low: int, high: int) -> Keys:
    """Each prefix once in every vnode of ``[low, high)``, whatever its own; ascending if the prefixes are.

    For finding what begins so in a table whose vnodes also depend on later columns.
    """
    count = len(prefixes)
    repeated = prefixes.take(np.tile(np.arange(count), high - low))
    numbers = np.repeat(np.arange(low, high), count)
    starts = repeated.offsets[:-1]
    repeated.data[starts] = numbers >> 8
    repeated.data[starts + 1] = numbers & 255
    return repeated


def vnodes(columns: Sequence[pa.Array[Any]], layout: Sequence[KeyColumn], distribution: int) -> npt.NDArray[np.uint16]:
    """The vnode (uint16) that :func:`encode` gives to each row; later columns are not read."""
    if distribution == 0:
        return np.zeros(len(columns[0]) if columns else 0, np.uint16)
    offsets, data = encode_columns(columns[:distribution], layout[:distribution], distribution)
    starts = offsets[:-1]
    pairs: npt.NDArray[np.uint16] = (data[starts].astype(np.uint16) << np.uint16(8)) | data[starts + 1]
    return pairs


def decode(keys: Keys, layout: Sequence[KeyColumn]) -> list[pa.Array[Any]]:
    """The columns of encoded keys, of the types of the layout; -0.0 comes back as 0.0."""
    return decode_columns(keys.offsets, keys.data, layout)


def sort(keys: Keys) -> Ints:
    """Stable permutation (int64) that puts keys in ascending byte order."""
    return sort_rows(keys.offsets, keys.data)


def group(keys: Keys) -> tuple[Ints, Ints]:
    """Group equal keys.

    Returns
    -------
    ids : np.ndarray
        int64[n], dense from 0 in order of first appearance.
    first_rows : np.ndarray
        int64[groups], the row where each group appears first.
    """
    return group_rows(keys.offsets, keys.data)


def hash64(keys: Keys) -> Words:
    """64-bit hash of each key; the same in every process and version."""
    return hash_rows(keys.offsets, keys.data)
