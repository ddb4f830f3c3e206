"""Compiled encodings: Base64, hexadecimal, URLs, numbers in other bases, CRC-32.

Those that make texts are called twice, see :mod:`tidemill.task.functions.columns.text_buffers`. Those that can fail say
so in ``bad`` and make nothing of that row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import inlined, kernel
from tidemill.task.functions.kernels.search import LONGS_OUT, NUMBERS, ROOM, TEXT

_BAD = types.array(types.int8, 1, "C")
_LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_DIGITS = np.frombuffer(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", np.uint8)
_NO_DIGIT = 99
_VALUES = np.full(256, _NO_DIGIT, np.uint8)
_VALUES[_LETTERS] = np.arange(64)
_OF_DIGIT = np.full(256, _NO_DIGIT, np.uint8)
_OF_DIGIT[_DIGITS] = np.arange(36)
_OF_DIGIT[np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)] = np.arange(10, 36)
_PLAIN = np.zeros(256, np.bool_)
_PLAIN[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.*", np.uint8)] = True


def _crc_table() -> np.ndarray[Any, np.dtype[np.uint32]]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1).astype(np.uint32)
    return table


_CRC = _crc_table()


@kernel(types.void, *TEXT, types.boolean, LONGS_OUT, ROOM)
def base64(raw: Any, first: Any, last: Any, lines: bool, ends: Any, room: Any) -> None:
    """Base64 with padding; ``lines`` of 76 letters."""
    for i in range(len(ends) - 1):
        to, at = ends[i], first[i]
        if len(room) == 0:
            size = (last[i] - at + 2) // 3 * 4
            ends[i + 1] = size + (size - 1) // 76 * 2 if lines and size > 0 else size
            continue
        written = 0
        while to < ends[i + 1]:
            if lines and written == 76:
                room[to], room[to + 1] = 13, 10
                to += 2
                written = 0
            left = last[i] - at
            bits = np.int64(raw[at]) << 16
            if left > 1:
                bits |= np.int64(raw[at + 1]) << 8
            if left > 2:
                bits |= np.int64(raw[at + 2])
            for k in range(4):
                room[to + k] = _LETTERS[bits >> (18 - 6 * k) & 63] if k <= left else 61
            at += 3
            to += 4
            written += 4


@inlined
def _strict(raw: Any, first: int, last: int) -> bool:
    """Spark's own check of ``to_binary(x, 'base64')``: whole groups of four, with padding or without."""
    letters = padding = 0
    for at in range(first, last):
        letter = raw[at]
        if letter == 32 or letter == 9 or letter == 10 or letter == 13:
            continue
        if letter == 61:
            padding += 1
        elif padding > 0 or _VALUES[letter] == _NO_DIGIT:
            return False
        else:
            letters += 1
    return padding <= 2 and letters % 4 != 1 and (padding == 0 or (letters + padding) % 4 == 0)


@inlined
def _mime(raw: Any, at: int, end: int, to: int, room: Any) -> int:
    """Decode as Java's MIME decoder does, which passes over other letters; the number of bytes, or -1."""
    bits = count = size = 0
    while at < end:
        letter = raw[at]
        at += 1
        if letter == 61:
            if count < 2:
                return -1
            if count == 2:
                if at == end or raw[at] != 61:
                    return -1
                at += 1
            break
        value = _VALUES[letter]
        if value == _NO_DIGIT:
            continue
        bits, count = bits << 6 | value, count + 1
        if count == 4:
            if len(room) > 0:
                for k in range(3):
                    room[to + size + k] = bits >> (16 - 8 * k) & 255
            size += 3
            bits = count = 0
    if count == 1:
        return -1
    for k in range(count - 1):
        if len(room) > 0:
            room[to + size] = (bits << 6 * (4 - count)) >> (16 - 8 * k) & 255
        size += 1
    for k in range(at, end):
        if raw[k] == 61 or _VALUES[raw[k]] != _NO_DIGIT:
            return -1
    return size


@kernel(types.void, *TEXT, types.boolean, _BAD, LONGS_OUT, ROOM)
def unbase64(raw: Any, first: Any, last: Any, strict: bool, bad: Any, ends: Any, room: Any) -> None:
    """The bytes that Base64 means; ``bad`` is 1 where it is none."""
    for i in range(len(ends) - 1):
        if len(room) > 0:
            if ends[i] < ends[i + 1]:
                _mime(raw, first[i], last[i], ends[i], room)
            continue
        size = -1 if strict and not _strict(raw, first[i], last[i]) else _mime(raw, first[i], last[i], 0, room)
        bad[i] = size < 0
        ends[i + 1] = max(size, 0)


@kernel(types.void, *TEXT, LONGS_OUT, ROOM)
def hexadecimal(raw: Any, first: Any, last: Any, ends: Any, room: Any) -> None:
    """Two digits a byte."""
    for i in range(len(ends) - 1):
        if len(room) == 0:
            ends[i + 1] = 2 * (last[i] - first[i])
            continue
        for k in range((ends[i + 1] - ends[i]) // 2):
            byte = raw[first[i] + k]
            room[ends[i] + 2 * k] = _DIGITS[byte >> 4]
            room[ends[i] + 2 * k + 1] = _DIGITS[byte & 15]


@kernel(types.void, *TEXT, _BAD, LONGS_OUT, ROOM)
def unhex(raw: Any, first: Any, last: Any, bad: Any, ends: Any, room: Any) -> None:
    """The bytes of digits, the first of an odd number being a byte of its own; ``bad`` is 1 where it is no digit."""
    for i in range(len(ends) - 1):
        if len(room) == 0:
            wrong = False
            for at in range(first[i], last[i]):
                wrong |= _OF_DIGIT[raw[at]] > 15
            bad[i] = wrong
            ends[i + 1] = 0 if wrong else (last[i] - first[i] + 1) // 2
            continue
        at = last[i] - 1
        for k in range(ends[i + 1] - ends[i]):
            high = _OF_DIGIT[raw[at - 1]] if at > first[i] else 0
            room[ends[i + 1] - 1 - k] = high << 4 | _OF_DIGIT[raw[at]]
            at -= 2


@kernel(types.void, NUMBERS, types.int64, LONGS_OUT, ROOM)
def bit_digits(numbers: Any, bits: int, ends: Any, room: Any) -> None:
    """64 unsigned bits in digits of so many bits."""
    shift = np.uint64(bits)
    mask = (np.uint64(1) << shift) - np.uint64(1)
    for i in range(len(numbers)):
        rest = np.uint64(numbers[i])
        if len(room) == 0:
            size = 1
            while rest >> shift:
                rest >>= shift
                size += 1
            ends[i + 1] = size
            continue
        for k in range(ends[i + 1] - ends[i]):
            room[ends[i + 1] - 1 - k] = _DIGITS[rest & mask]
            rest >>= shift


@kernel(types.void, *TEXT, LONGS_OUT, ROOM)
def url_encode(raw: Any, first: Any, last: Any, ends: Any, room: Any) -> None:
    """A plus for a blank, and %XX for every byte that is no letter, digit or one of ``-_.*``."""
    for i in range(len(ends) - 1):
        to = ends[i] if len(room) > 0 else 0
        if len(room) > 0 and to == ends[i + 1]:
            continue
        for at in range(first[i], last[i]):
            byte = raw[at]
            plain = _PLAIN[byte] or byte == 32
            if len(room) > 0:
                if plain:
                    room[to] = byte if byte != 32 else 43
                else:
                    room[to], room[to + 1], room[to + 2] = 37, _DIGITS[byte >> 4], _DIGITS[byte & 15]
            to += 1 if plain else 3
        if len(room) == 0:
            ends[i + 1] = to


@kernel(types.void, *TEXT, _BAD, LONGS_OUT, ROOM)
def url_decode(raw: Any, first: Any, last: Any, bad: Any, ends: Any, room: Any) -> None:
    """The bytes behind %XX (or %+X, as Java has it) and plus signs; ``bad`` is 1 where digits are missing."""
    for i in range(len(ends) - 1):
        to, at = ends[i] if len(room) > 0 else 0, first[i]
        if len(room) > 0 and to == ends[i + 1]:
            continue
        wrong = False
        while at < last[i]:
            byte = raw[at]
            if byte == 37:
                high = low = _NO_DIGIT
                if at + 2 < last[i]:
                    high = 0 if raw[at + 1] == 43 else _OF_DIGIT[raw[at + 1]]
                    low = _OF_DIGIT[raw[at + 2]]
                if high > 15 or low > 15:
                    wrong = True
                    break
                byte = np.uint8(high << 4 | low)
                at += 2
            elif byte == 43:
                byte = np.uint8(32)
            if len(room) > 0:
                room[to] = byte
            to += 1
            at += 1
        if len(room) == 0:
            bad[i] = wrong
            ends[i + 1] = 0 if wrong else to


@kernel(types.void, *TEXT, LONGS_OUT)
def crc32(raw: Any, first: Any, last: Any, sums: Any) -> None:
    """The CRC-32 of gzip and zip."""
    for i in range(len(sums)):
        crc = np.uint32(0xFFFFFFFF)
        for at in range(first[i], last[i]):
            crc = np.uint32(_CRC[(crc ^ raw[at]) & np.uint32(255)] ^ (crc >> np.uint32(8)))
        sums[i] = np.int64(crc ^ np.uint32(0xFFFFFFFF))


_ZERO, _SIGN = np.uint64(0), np.uint64(1 << 63)


@inlined
def _converted(raw: Any, at: int, end: int, source: int, target: int, found: Any) -> int:
    """Put the number into ``found[0]`` and say: 0 for a result, 1 for one with a minus, 2 for NULL, 3 for overflow."""
    while at < end and raw[at] == 32:
        at += 1
    while at < end and raw[end - 1] == 32:
        end -= 1
    if at == end or not (2 <= source <= 36) or not (2 <= abs(target) <= 36):
        return 2
    negative = raw[at] == 45
    base, value = np.uint64(source), _ZERO
    for k in range(at + negative, end):
        digit = np.uint64(_OF_DIGIT[raw[k]])
        if digit >= base:
            break
        if value > (~_ZERO - digit) // base:
            return 3
        value = value * base + digit
    high = value >= _SIGN
    if negative and target > 0:
        value = ~_ZERO if high else _ZERO - value
    elif target < 0 and high:
        value = _ZERO - value
        negative = True
    found[0] = value
    return 1 if negative and target < 0 else 0


@kernel(types.void, *TEXT, NUMBERS, NUMBERS, _BAD, LONGS_OUT, ROOM)
def conv(raw: Any, first: Any, last: Any, source: Any, target: Any, bad: Any, ends: Any, room: Any) -> None:
    """A number in another base, in 64 unsigned bits; ``bad`` is 2 for NULL and 3 for overflow."""
    found = np.empty(1, np.uint64)
    for i in range(len(ends) - 1):
        if len(room) > 0 and ends[i] == ends[i + 1]:
            continue
        kind = _converted(raw, first[i], last[i], source[i], target[i], found)
        if len(room) == 0:
            bad[i] = kind
            ends[i + 1] = 0
        if kind > 1:
            continue
        base, value, size = np.uint64(abs(target[i])), found[0], 0
        while value > _ZERO or size == 0:
            if len(room) > 0:
                room[ends[i + 1] - 1 - size] = _DIGITS[value % base]
            value //= base
            size += 1
        if len(room) == 0:
            ends[i + 1] = size + kind
        elif kind == 1:
            room[ends[i]] = 45
