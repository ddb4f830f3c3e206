"""Compiled MD5, SHA-1 and SHA-256 over columns (RFC 1321, FIPS 180-4), written as hexadecimal digits.

Each kernel takes one padded block after the other; ``words`` are its 16 words, ``room`` is full of the digits of rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import inlined, kernel
from tidemill.task.functions.kernels.search import ROOM, TEXT

_U32 = np.uint32
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_SINES = np.array([int(abs(math.sin(i + 1)) * 2**32) for i in range(64)], _U32)
_SHIFTS = np.repeat(
    np.array([[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]], _U32), 4, axis=0
).reshape(-1)
_PRIMES = [p for p in range(2, 312) if all(p % q for q in range(2, p))]


def _root_bits(prime: int, third: bool) -> int:
    """The first 32 bits behind the point of a square or cube root."""
    scaled, power = (prime << 96, 3) if third else (prime << 64, 2)
    low, high = 0, 1 << 40
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**power <= scaled else (low, middle)
    return low & 0xFFFFFFFF


_CUBES = np.array([_root_bits(p, True) for p in _PRIMES[:64]], _U32)
_ROOTS = np.array([_root_bits(p, False) for p in _PRIMES[:8]], _U32)
_OF_224 = np.array(
    [0xC1059ED8, 0x367CD507, 0x3070DD17, 0xF70E5939, 0xFFC00B31, 0x68581511, 0x64F98FA7, 0xBEFA4FA4], _U32
)
_OF_OTHERS = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0], _U32)


@inlined
def _left(word: Any, bits: Any) -> Any:
    return _U32((word << bits) | (word >> (_U32(32) - bits)))


@inlined
def _byte(raw: Any, first: int, last: int, at: int, size: int, little: bool) -> Any:
    """Byte ``at`` of the padded message: a one bit behind the text, zeros, and in the last 8 bytes its bits."""
    if first + at < last:
        return _U32(raw[first + at])
    if first + at == last:
        return _U32(0x80)
    place = at - (size - 8)
    if place < 0:
        return _U32(0)
    if not little:
        place = 7 - place
    return _U32((np.uint64(last - first) << np.uint64(3)) >> np.uint64(8 * place) & np.uint64(255))


@inlined
def _read(raw: Any, first: int, last: int, block: int, size: int, little: bool, words: Any) -> None:
    """The 16 words of a block."""
    for k in range(16):
        word, at = _U32(0), block + 4 * k
        for b in range(4):
            shift = _U32(8 * b if little else 24 - 8 * b)
            word |= _byte(raw, first, last, at + b, size, little) << shift
        words[k] = word


@inlined
def _write(state: Any, count: int, little: bool, room: Any, to: int) -> None:
    for k in range(count):
        for b in range(4):
            byte = (state[k] >> _U32(8 * b if little else 24 - 8 * b)) & _U32(255)
            room[to] = _DIGITS[byte >> _U32(4)]
            room[to + 1] = _DIGITS[byte & _U32(15)]
            to += 2


@kernel(types.void, *TEXT, ROOM)
def md5(raw: Any, first: Any, last: Any, room: Any) -> None:
    """32 digits a row."""
    words, state = np.empty(16, np.uint32), np.empty(4, np.uint32)
    for i in range(len(first)):
        size = (last[i] - first[i] + 72) // 64 * 64
        state[:] = _OF_OTHERS[:4]
        for block in range(0, size, 64):
            _read(raw, first[i], last[i], block, size, True, words)
            a, b, c, d = state[0], state[1], state[2], state[3]
            for t in range(64):
                if t < 16:
                    mixed, k = (b & c) | (~b & d), t
                elif t < 32:
                    mixed, k = (d & b) | (~d & c), (5 * t + 1) & 15
                elif t < 48:
                    mixed, k = b ^ c ^ d, (3 * t + 5) & 15
                else:
                    mixed, k = c ^ (b | ~d), 7 * t & 15
                turned = _left(_U32(a + mixed + _SINES[t] + words[k]), _SHIFTS[t])
                a, d, c, b = d, c, b, _U32(b + turned)
            state[0], state[1] = _U32(state[0] + a), _U32(state[1] + b)
            state[2], state[3] = _U32(state[2] + c), _U32(state[3] + d)
        _write(state, 4, True, room, 32 * i)


@kernel(types.void, *TEXT, ROOM)
def sha1(raw: Any, first: Any, last: Any, room: Any) -> None:
    """40 digits a row."""
    words, state = np.empty(80, np.uint32), np.empty(5, np.uint32)
    for i in range(len(first)):
        size = (last[i] - first[i] + 72) // 64 * 64
        state[:] = _OF_OTHERS
        for block in range(0, size, 64):
            _read(raw, first[i], last[i], block, size, False, words)
            for t in range(16, 80):
                words[t] = _left(words[t - 3] ^ words[t - 8] ^ words[t - 14] ^ words[t - 16], _U32(1))
            a, b, c, d, e = state[0], state[1], state[2], state[3], state[4]
            for t in range(80):
                if t < 20:
                    mixed = _U32(((b & c) | (~b & d)) + _U32(0x5A827999))
                elif t < 40:
                    mixed = _U32((b ^ c ^ d) + _U32(0x6ED9EBA1))
                elif t < 60:
                    mixed = _U32(((b & c) | (b & d) | (c & d)) + _U32(0x8F1BBCDC))
                else:
                    mixed = _U32((b ^ c ^ d) + _U32(0xCA62C1D6))
                turned = _U32(_left(a, _U32(5)) + mixed + e + words[t])
                e, d, c, b, a = d, c, _left(b, _U32(30)), a, turned
            state[0], state[1], state[2] = _U32(state[0] + a), _U32(state[1] + b), _U32(state[2] + c)
            state[3], state[4] = _U32(state[3] + d), _U32(state[4] + e)
        _write(state, 5, False, room, 40 * i)


@inlined
def _right(word: Any, bits: int) -> Any:
    return _U32((word >> _U32(bits)) | (word << _U32(32 - bits)))


@kernel(types.void, *TEXT, types.boolean, ROOM)
def sha256(raw: Any, first: Any, last: Any, short: bool, room: Any) -> None:
    """64 digits a row, or the 56 of SHA-224 if ``short``."""
    words, state, s = np.empty(64, np.uint32), np.empty(8, np.uint32), np.empty(8, np.uint32)
    count = 7 if short else 8
    for i in range(len(first)):
        size = (last[i] - first[i] + 72) // 64 * 64
        state[:] = _OF_224 if short else _ROOTS
        for block in range(0, size, 64):
            _read(raw, first[i], last[i], block, size, False, words)
            for t in range(16, 64):
                x, y = words[t - 15], words[t - 2]
                small = _right(x, 7) ^ _right(x, 18) ^ (x >> _U32(3))
                large = _right(y, 17) ^ _right(y, 19) ^ (y >> _U32(10))
                words[t] = _U32(words[t - 16] + small + words[t - 7] + large)
            a, b, c, d, e, f, g, h = state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7]
            for t in range(64):
                one = _right(e, 6) ^ _right(e, 11) ^ _right(e, 25)
                two = _right(a, 2) ^ _right(a, 13) ^ _right(a, 22)
                left = _U32(h + one + ((e & f) ^ (~e & g)) + _CUBES[t] + words[t])
                right = _U32(two + ((a & b) ^ (a & c) ^ (b & c)))
                h, g, f, e, d, c, b, a = g, f, e, _U32(d + left), c, b, a, _U32(left + right)
            s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7] = a, b, c, d, e, f, g, h
            for k in range(8):
                state[k] = _U32(state[k] + s[k])
        _write(state, count, False, room, 8 * count * i)
