"""Compiled Murmur3 (x86, 32 bits, as Spark reads bytes) and XXH64 over columns.

Every kernel replaces ``hashes[i]``, the seed of row i, by the hash of its value; rows that are not ``valid`` keep it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import inlined, kernel

_U8 = types.array(types.uint8, 1, "C", readonly=True)
_I32 = types.array(types.int32, 1, "A", readonly=True)
_I64 = types.array(types.int64, 1, "A", readonly=True)
_BOOL = types.array(types.boolean, 1, "A", readonly=True)
_OUT = types.array(types.uint64, 1, "C")

_M = np.uint64(0xFFFFFFFF)
_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)
_0, _1, _2, _3, _4, _5, _6, _7, _8 = (np.uint64(n) for n in range(9))
_C1, _C2, _C3 = np.uint64(0xCC9E2D51), np.uint64(0x1B873593), np.uint64(0xE6546B64)
_F1, _F2 = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)


@inlined
def _rotate32(word: Any, bits: int) -> Any:
    n = np.uint64(bits)
    return ((word << n) | (word >> (np.uint64(32) - n))) & _M


@inlined
def _mix(hash_: Any, word: Any) -> Any:
    k = (_rotate32((word * _C1) & _M, 15) * _C2) & _M
    return (_rotate32(hash_ ^ k, 13) * _5 + _C3) & _M


@inlined
def _finish(hash_: Any, length: Any) -> Any:
    h = hash_ ^ length
    h = ((h ^ (h >> np.uint64(16))) * _F1) & _M
    h = ((h ^ (h >> np.uint64(13))) * _F2) & _M
    return h ^ (h >> np.uint64(16))


@kernel(types.void, _I32, _BOOL, _OUT)
def murmur3_ints(values: Any, valid: Any, hashes: Any) -> None:
    """32-bit values."""
    for i in range(len(values)):
        if valid[i]:
            hashes[i] = _finish(_mix(hashes[i], np.uint64(values[i]) & _M), _4)


@kernel(types.void, _I64, _BOOL, _OUT)
def murmur3_longs(values: Any, valid: Any, hashes: Any) -> None:
    """64-bit values, the low half first."""
    for i in range(len(values)):
        if valid[i]:
            word = np.uint64(values[i])
            hashes[i] = _finish(_mix(_mix(hashes[i], word & _M), word >> np.uint64(32)), _8)


@kernel(types.void, _U8, _I64, _BOOL, _OUT)
def murmur3_bytes(raw: Any, starts: Any, valid: Any, hashes: Any) -> None:
    """Byte strings; the bytes behind the last whole word are signed words of their own."""
    for i in range(len(hashes)):
        if not valid[i]:
            continue
        at, end = starts[i], starts[i + 1]
        hash_ = hashes[i]
        while at + 4 <= end:
            word = _0
            for b in range(4):
                word |= np.uint64(raw[at + b]) << np.uint64(8 * b)
            hash_ = _mix(hash_, word)
            at += 4
        while at < end:
            word = np.uint64(raw[at])
            if word >= np.uint64(128):
                word |= np.uint64(0xFFFFFF00)
            hash_ = _mix(hash_, word)
            at += 1
        hashes[i] = _finish(hash_, np.uint64(end - starts[i]))


@inlined
def _rotate64(word: Any, bits: int) -> Any:
    n = np.uint64(bits)
    return (word << n) | (word >> (np.uint64(64) - n))


@inlined
def _avalanche(hash_: Any) -> Any:
    h = (hash_ ^ (hash_ >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


@inlined
def _round(lane: Any, word: Any) -> Any:
    return _rotate64(lane + word * _P2, 31) * _P1


@inlined
def _word(raw: Any, at: int, size: int) -> Any:
    word = _0
    for b in range(size):
        word |= np.uint64(raw[at + b]) << np.uint64(8 * b)
    return word


@kernel(types.void, _I32, _BOOL, _OUT)
def xxhash64_ints(values: Any, valid: Any, hashes: Any) -> None:
    """32-bit values."""
    for i in range(len(values)):
        if valid[i]:
            h = (hashes[i] + _P5 + _4) ^ ((np.uint64(values[i]) & _M) * _P1)
            hashes[i] = _avalanche(_rotate64(h, 23) * _P2 + _P3)


@kernel(types.void, _I64, _BOOL, _OUT)
def xxhash64_longs(values: Any, valid: Any, hashes: Any) -> None:
    """64-bit values."""
    for i in range(len(values)):
        if valid[i]:
            h = (hashes[i] + _P5 + _8) ^ _round(_0, np.uint64(values[i]))
            hashes[i] = _avalanche(_rotate64(h, 27) * _P1 + _P4)


@kernel(types.void, _U8, _I64, _BOOL, _OUT)
def xxhash64_bytes(raw: Any, starts: Any, valid: Any, hashes: Any) -> None:
    """Byte strings: XXH64 itself."""
    for i in range(len(hashes)):
        if not valid[i]:
            continue
        at, end, seed = starts[i], starts[i + 1], hashes[i]
        length = np.uint64(end - at)
        if end - at >= 32:
            a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
            while at + 32 <= end:
                a = _round(a, _word(raw, at, 8))
                b = _round(b, _word(raw, at + 8, 8))
                c = _round(c, _word(raw, at + 16, 8))
                d = _round(d, _word(raw, at + 24, 8))
                at += 32
            h = _rotate64(a, 1) + _rotate64(b, 7) + _rotate64(c, 12) + _rotate64(d, 18)
            for lane in (a, b, c, d):
                h = (h ^ _round(_0, lane)) * _P1 + _P4
        else:
            h = seed + _P5
        h += length
        while at + 8 <= end:
            h = _rotate64(h ^ _round(_0, _word(raw, at, 8)), 27) * _P1 + _P4
            at += 8
        if at + 4 <= end:
            h = _rotate64(h ^ (_word(raw, at, 4) * _P1), 23) * _P2 + _P3
            at += 4
        while at < end:
            h = _rotate64(h ^ (np.uint64(raw[at]) * _P5), 11) * _P1
            at += 1
        hashes[i] = _avalanche(h)
