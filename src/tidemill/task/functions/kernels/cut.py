"""Compiled functions whose result is a part of their text: they say where it begins and ends."""

from __future__ import annotations

from typing import Any

from tidemill.kernels import types
from tidemill.kernels.words import copy_bytes, inlined, kernel
from tidemill.task.functions.kernels.search import (
    INTS_OUT,
    LONGS_OUT,
    NUMBERS,
    RAW,
    ROOM,
    TEXT,
    characters,
    find,
    skip,
    width,
)

_READ = types.array(types.int32, 1, "C")


@kernel(types.void, RAW, _READ, _READ, LONGS_OUT, ROOM)
def copy_ranges(raw: Any, first: Any, last: Any, ends: Any, room: Any) -> None:
    """``raw[first[i]:last[i]]`` of each row."""
    for i in range(len(first)):
        if len(room) == 0:
            ends[i + 1] = last[i] - first[i]
        elif ends[i] < ends[i + 1]:
            copy_bytes(raw, first[i], room, ends[i], ends[i + 1] - ends[i])


@inlined
def _among(raw: Any, at: int, end: int, letters: Any, first: int, last: int) -> bool:
    """Whether the character ``raw[at:end]`` is one of ``letters[first:last]``."""
    return find(letters, first, last, raw, at, end) >= 0


@kernel(types.void, *TEXT, *TEXT, types.boolean, types.boolean, INTS_OUT, INTS_OUT)
def trim(
    raw: Any, first: Any, last: Any, letters: Any, lfirst: Any, llast: Any, left: bool, right: bool,
    begin: Any, end: Any,
) -> None:  # fmt: skip
    """Texts without the characters of a set at their ends."""
    for i in range(len(begin)):
        b, e = first[i], last[i]
        while left and b < e:
            size = min(width(raw[b]), e - b)
            if not _among(raw, b, b + size, letters, lfirst[i], llast[i]):
                break
            b += size
        while right and b < e:
            at = e - 1
            while at > b and raw[at] & 0xC0 == 0x80:
                at -= 1
            if not _among(raw, at, e, letters, lfirst[i], llast[i]):
                break
            e = at
        begin[i] = b
        end[i] = e


@kernel(types.void, *TEXT, NUMBERS, NUMBERS, types.boolean, INTS_OUT, INTS_OUT)
def substring(raw: Any, first: Any, last: Any, position: Any, length: Any, binary: bool, begin: Any, end: Any) -> None:
    """So many characters (bytes if ``binary``) from a position on, counted from 1, or from the end if negative."""
    for i in range(len(begin)):
        b, e = first[i], last[i]
        count = e - b
        at, size = max(position[i] - 1, 0), length[i]
        if position[i] < 0:
            if not binary:
                count = characters(raw, b, e)
            at = count + position[i]
        size = max(min(at + size, 2**31 - 1) - max(at, 0), 0)
        at = max(at, 0)
        if binary:
            begin[i] = min(b + at, e)
            end[i] = min(begin[i] + size, e)
        else:
            begin[i] = skip(raw, b, e, at)
            end[i] = skip(raw, begin[i], e, size)


@kernel(types.void, *TEXT, *TEXT, NUMBERS, INTS_OUT, INTS_OUT)
def substring_index(
    raw: Any, first: Any, last: Any, part: Any, pfirst: Any, plast: Any, count: Any, begin: Any, end: Any
) -> None:
    """What is before the n-th delimiter, or behind the n-th from the end; occurrences may overlap."""
    for i in range(len(begin)):
        begin[i], end[i] = first[i], last[i]
        size, left = plast[i] - pfirst[i], count[i]
        if size == 0 or left == 0:
            end[i] = first[i]
        elif left > 0:
            at = first[i] - 1
            while left > 0:
                at = find(raw, at + 1, last[i], part, pfirst[i], plast[i])
                if at < 0:
                    break
                left -= 1
            if left == 0:
                end[i] = at
        else:
            at = last[i] - size + 1
            while left < 0 and at > first[i]:
                at -= 1
                if find(raw, at, at + size, part, pfirst[i], plast[i]) >= 0:
                    left += 1
            if left == 0:
                begin[i] = at + size


@kernel(types.void, *TEXT, *TEXT, NUMBERS, INTS_OUT, INTS_OUT)
def split_part(
    raw: Any, first: Any, last: Any, part: Any, pfirst: Any, plast: Any, number: Any, begin: Any, end: Any
) -> None:
    """The n-th part of a text between delimiters, from the end if negative; a text without delimiter is one part."""
    for i in range(len(begin)):
        begin[i] = end[i] = first[i]
        wanted, size = number[i], plast[i] - pfirst[i]
        if size == 0:
            if wanted == 1 or wanted == -1:
                end[i] = last[i]
            continue
        if wanted < 0:
            wanted += 2
            at = find(raw, first[i], last[i], part, pfirst[i], plast[i])
            while at >= 0:
                wanted += 1
                at = find(raw, at + size, last[i], part, pfirst[i], plast[i])
        at = first[i]
        while wanted > 0:
            stop = find(raw, at, last[i], part, pfirst[i], plast[i])
            wanted -= 1
            if wanted == 0:
                begin[i], end[i] = at, stop if stop >= 0 else last[i]
            elif stop < 0:
                break
            at = stop + size


@kernel(types.void, *TEXT, LONGS_OUT, INTS_OUT, INTS_OUT)
def marked(raw: Any, first: Any, last: Any, ends: Any, begin: Any, end: Any) -> None:
    """The pieces between a byte 255 and the next byte 254, which UTF-8 has not; first how many each row has."""
    for i in range(len(first)):
        k = ends[i] if len(begin) > 0 else 0
        for at in range(first[i], last[i]):
            if raw[at] == 255:
                if len(begin) > 0:
                    begin[k] = at + 1
            elif raw[at] == 254:
                if len(begin) > 0:
                    end[k] = at
                k += 1
        if len(begin) == 0:
            ends[i + 1] = k
