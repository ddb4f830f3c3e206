"""Compiled primitives on byte strings: unaligned words, comparison, 128-bit arithmetic.

Byte strings are compared 8 bytes at a time: a big-endian word orders like its bytes. Everything else in this
package that is compiled is built from these functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tidemill.kernels import types
from tidemill.kernels.deferred import Deferred
from tidemill.kernels.kernel import njit

F = TypeVar("F", bound=Callable[..., Any])

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Word = Any
"""A scalar of compiled code that is uint64 or uint8 there; NumPy and Python integers mix."""

U8 = types.array(types.uint8, 1, "C", readonly=True)
I64 = types.array(types.int64, 1, "C", readonly=True)
U64 = types.array(types.uint64, 1, "C", readonly=True)
F64 = types.array(types.float64, 1, "C", readonly=True)
BOOL = types.array(types.boolean, 1, "C", readonly=True)
U8_OUT = types.array(types.uint8, 1, "C")
I64_OUT = types.array(types.int64, 1, "C")
U64_OUT = types.array(types.uint64, 1, "C")
F64_OUT = types.array(types.float64, 1, "C")
BOOL_OUT = types.array(types.boolean, 1, "C")
I64_GRID = types.array(types.int64, 2, "C", readonly=True)
F64_GRID = types.array(types.float64, 2, "C", readonly=True)
F64_GRID_OUT = types.array(types.float64, 2, "C")


def kernel(result: Any, *arguments: Any) -> Callable[[F], F]:
    """Compile a function for exactly one signature, releasing the GIL, and cache it on disk."""
    return cast("Callable[[F], F]", njit(result(*arguments), nogil=True))


def inlined(function: F) -> F:
    """Compile a function into each place of a kernel that calls it.

    Left to itself the compiler calls it, with seven arguments for each array, and counts references to these.
    """
    return cast(F, njit(nogil=True, forceinline=True, cache=False)(function))


def called(function: F) -> F:
    """Compile a function once for each kernel that calls it: a long one, or one that is seldom called."""
    return cast(F, njit(nogil=True, cache=False)(function))


def _intrinsic(name: str) -> Any:
    def find() -> Any:
        from tidemill.kernels import intrinsics

        return getattr(intrinsics, name)

    return Deferred(find)


load64 = _intrinsic("load64")
"""``load64(array, position)``: 8 bytes of a byte array as a big-endian word, unaligned and unchecked."""
load64_at = _intrinsic("load64_at")
"""``load64_at(address)``: the 8 bytes at an address (int64) as a big-endian word; the caller knows that they exist."""
load8_at = _intrinsic("load8_at")
"""``load8_at(address)``: the byte at an address (int64)."""
prefetch = _intrinsic("prefetch")
"""``prefetch(address)``: the cache line at an address (int64) is fetched while other instructions are carried out."""
store64 = _intrinsic("store64")
"""``store64(array, position, word)`` writes a word big endian, unaligned and unchecked."""
store32 = _intrinsic("store32")
"""As :data:`store64`, the low half of the word alone."""
multiply_high = _intrinsic("multiply_high")
"""High word of the 128-bit product of two unsigned words."""
fused_multiply_add = _intrinsic("fused_multiply_add")
"""``left * right + addend`` with one rounding."""
as_pointer = _intrinsic("as_pointer")
"""An integer address as a pointer, for ``carray``."""
call_crc32 = _intrinsic("call_crc32")
"""``call_crc32(function, address, length)``: the checksum that the function at an address computes of some bytes."""


@inlined
def load_word(data: Bytes, position: int, end: int) -> Any:
    """The 8 bytes at ``position`` as a big-endian word, bytes from ``end`` on read as 0."""
    rest = end - position
    if rest <= 0:
        return np.uint64(0)
    if position + 8 <= data.size:
        word = load64(data, position)
        if rest < 8:
            word &= np.uint64(0xFFFFFFFFFFFFFFFF) << np.uint64(64 - 8 * rest)
        return word
    word = np.uint64(0)
    for i in range(8):
        word <<= np.uint64(8)
        if i < rest:
            word |= np.uint64(data[position + i])
    return word


@inlined
def compare(left: Bytes, l0: int, l1: int, right: Bytes, r0: int, r1: int) -> int:
    """Byte order of ``left[l0:l1]`` and ``right[r0:r1]`` as -1, 0 or 1; a prefix comes first."""
    length = min(l1 - l0, r1 - r0)
    i = 0
    while i + 8 <= length:
        a = load64(left, l0 + i)
        b = load64(right, r0 + i)
        if a != b:
            return -1 if a < b else 1
        i += 8
    if i < length:
        a = load_word(left, l0 + i, l0 + length)
        b = load_word(right, r0 + i, r0 + length)
        if a != b:
            return -1 if a < b else 1
    if l1 - l0 == r1 - r0:
        return 0
    return -1 if l1 - l0 < r1 - r0 else 1


@inlined
def equal(left: Bytes, l0: int, l1: int, right: Bytes, r0: int, r1: int) -> bool:
    """Whether ``left[l0:l1]`` and ``right[r0:r1]`` are the same bytes."""
    length = l1 - l0
    if length != r1 - r0:
        return False
    i = 0
    while i + 8 <= length:
        if load64(left, l0 + i) != load64(right, r0 + i):
            return False
        i += 8
    return i == length or load_word(left, l0 + i, l1) == load_word(right, r0 + i, r1)


@inlined
def head_mask(length: int) -> Word:
    """A word whose first ``length`` bytes are all ones; any length."""
    if length <= 0:
        return np.uint64(0)
    return np.uint64(0xFFFFFFFFFFFFFFFF) << np.uint64(max(64 - 8 * length, 0))


@inlined
def copy_bytes(source: Bytes, s0: int, target: Bytes, t0: int, length: int) -> None:
    """Copy ``length`` bytes between two buffers that do not overlap."""
    i = 0
    while i + 8 <= length:
        store64(target, t0 + i, load64(source, s0 + i))
        i += 8
    while i < length:
        target[t0 + i] = source[s0 + i]
        i += 1


@inlined
def is_valid(bitmap: Bytes, offset: int, row: int) -> bool:
    """Whether ``row`` is not NULL; an empty bitmap means that no row is."""
    if bitmap.size == 0:
        return True
    bit = offset + row
    return bool((bitmap[bit >> 3] >> (bit & 7)) & 1)


@inlined
def two_sum(a: float, b: float) -> tuple[float, float]:
    """The rounded sum and its rounding error (Knuth)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


HUGE = 2.0**960
"""From this magnitude on, finite values are summed apart, in units of :data:`HUGE_UNIT`.

Sums of 2**63 values below it, and of 2**63 above it in these units, are finite: so a sum that is too large for a double
comes back when rows are taken back.
"""
HUGE_UNIT = 2.0**100


@inlined
def add_double_double(hi: float, lo: float, hi2: float, lo2: float) -> tuple[float, float]:
    """Sum of two double-doubles (QD library's accurate addition); lo is 0 once hi is not finite."""
    s, e = two_sum(hi, hi2)
    if not np.isfinite(s):
        return s, 0.0
    t, f = two_sum(lo, lo2)
    e += t
    high = s + e
    e = e - (high - s) + f
    result = high + e
    return result, e - (result - high)
