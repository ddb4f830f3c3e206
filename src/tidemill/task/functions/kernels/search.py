"""Compiled search of one byte string in another, row by row."""

from __future__ import annotations

from typing import Any

from tidemill.kernels import types
from tidemill.kernels.words import inlined, kernel

RAW = types.array(types.uint8, 1, "C", readonly=True)
PLACES = types.array(types.int32, 1, "A", readonly=True)
NUMBERS = types.array(types.int64, 1, "A", readonly=True)
TEXT = (RAW, PLACES, PLACES)
"""A column of texts: bytes, first places, last places. A constant has steps of 0 between its places."""
INTS_OUT = types.array(types.int32, 1, "C")
LONGS_OUT = types.array(types.int64, 1, "C")
ROOM = types.array(types.uint8, 1, "C")


@inlined
def find(raw: Any, at: int, end: int, part: Any, first: int, last: int) -> int:
    """Where ``part[first:last]`` begins in ``raw[at:end]``, or -1; an empty part at once."""
    size = last - first
    if size == 0:
        return at
    head = part[first]
    while at + size <= end:
        if raw[at] == head:
            k = 1
            while k < size and raw[at + k] == part[first + k]:
                k += 1
            if k == size:
                return at
        at += 1
    return -1


@inlined
def width(lead: Any) -> int:
    """How many bytes the UTF-8 character has that begins with this byte."""
    if lead < 0xC0:
        return 1
    return 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


@inlined
def characters(raw: Any, at: int, end: int) -> int:
    """How many characters begin in ``raw[at:end]``."""
    count = 0
    for k in range(at, end):
        if raw[k] & 0xC0 != 0x80:
            count += 1
    return count


@inlined
def skip(raw: Any, at: int, end: int, count: int) -> int:
    """The place behind ``count`` characters from ``at``, at most ``end``."""
    while count > 0 and at < end:
        at += 1
        while at < end and raw[at] & 0xC0 == 0x80:
            at += 1
        count -= 1
    return at


@kernel(types.void, RAW, PLACES, PLACES, *TEXT, LONGS_OUT)
def find_bytes(raw: Any, starts: Any, ends: Any, part: Any, first: Any, last: Any, found: Any) -> None:
    """``found[i]``: where ``part[first[i]:last[i]]`` begins in ``raw[starts[i]:ends[i]]``, or -1."""
    for i in range(len(found)):
        at = find(raw, starts[i], ends[i], part, first[i], last[i])
        found[i] = at - starts[i] if at >= 0 and ends[i] >= starts[i] else -1


@kernel(types.void, *TEXT, *TEXT, NUMBERS, INTS_OUT)
def find_characters(raw: Any, starts: Any, ends: Any, part: Any, first: Any, last: Any, begin: Any, found: Any) -> None:
    """The character, from 1, where a text begins in another from character ``begin`` on; 0 for nowhere."""
    for i in range(len(found)):
        found[i] = 0
        if begin[i] < 1:
            continue
        if first[i] == last[i]:
            found[i] = 1
            continue
        at = find(raw, skip(raw, starts[i], ends[i], begin[i] - 1), ends[i], part, first[i], last[i])
        if at >= 0:
            found[i] = characters(raw, starts[i], at) + 1
