"""The columns of a key, and the values of Arrow columns as NumPy has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import TidemillError

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

VNODES = 256
VNODE_BYTES = 2


@dataclass(frozen=True)
class KeyColumn:
    """Type and order of one column of a key.

    Attributes
    ----------
    type : pa.DataType
        bool, signed integer, float, decimal128, string, binary, date32, timestamp in microseconds, null, or an
        array, struct or map of these.
    descending : bool
        Whether greater values come first.
    nulls_first : bool
        Whether NULL comes before every value in byte order, also when descending.
    exact : bool
        Whether every value comes back bit by bit, and values that SQL does not tell apart have keys of their own:
        -0.0 and 0.0, NaN of other bits, maps whose entries are in another order.
    """

    type: pa.DataType
    descending: bool = False
    nulls_first: bool = True
    exact: bool = False

    @property
    def tags(self) -> tuple[int, int]:
        """Tag bytes as stored, of a value and of NULL."""
        null, value = (0, 1) if self.nulls_first else (1, 0)
        return (0xFE + value, 0xFE + null) if self.descending else (value, null)


_STRINGS = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
_WIDTHS = {
    **{t.id: t.bit_width // 8 for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32())},
    **{t.id: t.bit_width // 8 for t in (pa.float32(), pa.float64(), pa.duration("us"), pa.decimal128(1))},
    **{t.id: -1 for t in _STRINGS},
    pa.bool_().id: 1,
    pa.null().id: 0,
}
"""What :func:`body_width` says of types, by their numbers. Of timestamps it depends on the unit."""


def is_nested(type_: pa.DataType) -> bool:
    """Whether values are arrays, structs or maps."""
    return bool(pa.types.is_list(type_) or pa.types.is_struct(type_) or pa.types.is_map(type_))


def is_bytes(type_: pa.DataType) -> bool:
    """Whether values are strings of bytes (string, binary, and the large ones)."""
    return _WIDTHS.get(type_.id) == -1


def body_width(type_: pa.DataType) -> int:
    """Bytes of the body of a value, 0 for null, -1 for strings of bytes, -2 for nested values.

    Raises
    ------
    TidemillError
        TM1101 for a type that cannot be part of a key.
    """
    width = _WIDTHS.get(type_.id)
    if width is not None:
        return width
    if pa.types.is_timestamp(type_) and type_.unit == "us":
        return 8
    if is_nested(type_) and all(body_width(type_.field(i).type) >= -2 for i in range(type_.num_fields)):
        return -2
    raise TidemillError(
        "TM1101",
        "this type cannot be part of a key",
        got=str(type_),
        hint="usable: bool, int8 to int64, float32/64, decimal128, string, binary, date32, timestamp[us], duration, "
        "and arrays, structs and maps of these",
    )


def validity(array: pa.Array[Any]) -> tuple[Bytes, int]:
    """Validity bitmap and the bit of row 0 in it; the bitmap is empty when no row is NULL."""
    buffer = array.buffers()[0]
    if buffer is None or array.null_count == 0:
        return np.empty(0, np.uint8), 0
    return np.frombuffer(memoryview(buffer), np.uint8), array.offset


def fixed(array: pa.Array[Any], dtype: Any) -> Any:
    """The values of a fixed-width array as NumPy, zero copy; undefined where NULL."""
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.empty(0, dtype)
    size = np.dtype(dtype).itemsize
    return np.frombuffer(memoryview(buffer), dtype, len(array), array.offset * size)


def byte_strings(array: pa.Array[Any]) -> tuple[Ints, Bytes]:
    """Offsets (int64, n + 1) and bytes of a string or binary array; NULL rows may have any length."""
    _, offsets, data = array.buffers()
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    if len(array) == 0 or offsets is None:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    dtype = np.int64 if wide else np.int32
    starts = np.frombuffer(memoryview(offsets), dtype, len(array) + 1, array.offset * np.dtype(dtype).itemsize)
    content = np.empty(0, np.uint8) if data is None or data.size == 0 else np.frombuffer(memoryview(data), np.uint8)
    return starts.astype(np.int64, copy=False), content


def ordered_words(array: pa.Array[Any], exact: bool = False) -> Words:
    """Values of at most 8 bytes as unsigned words that order like the values; undefined where NULL.

    Unless ``exact``, floats that are equal are one word.
    """
    type_ = array.type
    if pa.types.is_boolean(type_):
        return fixed(array.cast(pa.uint8()), np.uint8).astype(np.uint64)  # type: ignore[no-any-return]
    width = body_width(type_)
    sign = 1 << (8 * width - 1)
    if pa.types.is_floating(type_):
        raw, quiet = (np.uint64, 0x7FF8 << 48) if width == 8 else (np.uint32, 0x7FC0 << 16)
        values = fixed(array, np.dtype(f"f{width}"))
        bits = values.view(raw) if exact else (values + values.dtype.type(0)).view(raw)
        if not exact:
            bits[values != values] = quiet
        ordered = bits ^ np.where(bits >> raw(8 * width - 1), ~raw(0), raw(sign))
        return ordered.astype(np.uint64, copy=False)  # type: ignore[no-any-return]
    raw_ints = fixed(array, np.dtype(f"u{width}"))
    return (raw_ints ^ raw_ints.dtype.type(sign)).astype(np.uint64, copy=False)  # type: ignore[no-any-return]


def ordered_decimals(array: pa.Array[Any]) -> tuple[Words, Words]:
    """Decimals as (high, low) unsigned words that order like the values; undefined where NULL."""
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    pairs = np.frombuffer(memoryview(buffer), np.uint64, 2 * len(array), array.offset * 16)
    return pairs[1::2] ^ np.uint64(1 << 63), np.ascontiguousarray(pairs[::2])
