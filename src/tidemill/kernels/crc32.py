"""CRC-32 (that of gzip) of memory, for kernels that check what they read.

The function of ISA-L does it, whose address is found in the library that :mod:`isal` comes with; where it is not found,
a compiled one does, eight bytes at a time ("A Systematic Approach to Building High Performance, Software-based, CRC
Generators", Kounavis and Berry 2005).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from tidemill.kernels import types
from tidemill.kernels.kernel import compiler_is_loaded
from tidemill.kernels.words import call_crc32, inlined, kernel

_POLYNOMIAL = 0xEDB88320
_NAME = "crc32_gzip_refl"
"""``uint32_t (uint32_t start, const unsigned char *bytes, uint64_t length)``: https://github.com/intel/isa-l."""


def _table() -> npt.NDArray[np.uint32]:
    """For each byte and each number of bytes behind it, up to seven, what it adds to the checksum (uint32[8, 256])."""
    table = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table[0, byte] = crc
    for behind in range(1, 8):
        table[behind] = table[behind - 1] >> np.uint32(8) ^ table[0][table[behind - 1] & np.uint32(255)]
    return table


_TABLE = _table()


@cache
def crc32_function() -> int:
    """The address of the library's function, or of a compiled one if the library has none of this name."""
    try:
        found = getattr(ctypes.CDLL(isal_zlib.__file__), _NAME)
    except (OSError, AttributeError):
        return int(compiled_crc32().address)
    return int(ctypes.cast(found, ctypes.c_void_p).value or 0)


@inlined
def crc32(function: Any, address: Any, length: Any) -> Any:
    """The checksum (uint32) of ``length`` bytes at an address; ``function`` is :func:`crc32_function`."""
    return call_crc32(function, address, np.uint64(length))


@cache
def compiled_crc32() -> Any:
    """A function that does what the library's does, as Numba's ``CFunc``; each process compiles it."""
    from numba import carray, cfunc
    from numba import types as numba_types

    def crc32_of(start: Any, pointer: Any, length: Any) -> Any:
        data = carray(pointer, length, np.uint8)
        crc = np.uint32(~start)
        at = 0
        while at + 8 <= length:
            low = crc ^ (
                np.uint32(data[at])
                | np.uint32(data[at + 1]) << np.uint32(8)
                | np.uint32(data[at + 2]) << np.uint32(16)
                | np.uint32(data[at + 3]) << np.uint32(24)
            )
            crc = (
                _TABLE[7, low & np.uint32(255)]
                ^ _TABLE[6, low >> np.uint32(8) & np.uint32(255)]
                ^ _TABLE[5, low >> np.uint32(16) & np.uint32(255)]
                ^ _TABLE[4, low >> np.uint32(24)]
                ^ _TABLE[3, data[at + 4]]
                ^ _TABLE[2, data[at + 5]]
                ^ _TABLE[1, data[at + 6]]
                ^ _TABLE[0, data[at + 7]]
            )
            at += 8
        while at < length:
            crc = crc >> np.uint32(8) ^ _TABLE[0, (crc ^ np.uint32(data[at])) & np.uint32(255)]
            at += 1
        return np.uint32(~crc)

    signature = numba_types.uint32(numba_types.uint32, numba_types.voidptr, numba_types.int64)
    return cfunc(signature, nopython=True)(crc32_of)


@kernel(types.void, types.uint64, types.uint64, types.int64, types.array(types.uint32, 1, "C"))
def _crc32_of_pages(function: Any, address: Any, page: int, out: npt.NDArray[np.uint32]) -> None:
    for i in range(out.size):
        out[i] = crc32(function, np.uint64(address + np.uint64(i * page)), page)


def crc32_of_pages(data: Any, page: int) -> npt.NDArray[np.uint32]:
    """The checksum of each whole page of ``page`` bytes of a buffer; bytes after the last are left out."""
    if not compiler_is_loaded():
        view = memoryview(data)
        crcs = [isal_zlib.crc32(view[at : at + page]) for at in range(0, len(view) - page + 1, page)]
        return np.array(crcs, np.uint32)
    array = np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
    found = np.empty(len(array) // page, np.uint32)
    _crc32_of_pages(crc32_function(), array.__array_interface__["data"][0], page, found)
    return found
