"""Compiled functions that make texts of texts: replacing, translating, padding, first letters, sound.

Each is called twice, see :mod:`tidemill.task.functions.columns.text_buffers`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import copy_bytes, kernel
from tidemill.task.functions.kernels.search import LONGS_OUT, NUMBERS, ROOM, TEXT, characters, find, skip, width


@kernel(types.void, *TEXT, *TEXT, *TEXT, LONGS_OUT, ROOM)
def replace(
    raw: Any, first: Any, last: Any, part: Any, pfirst: Any, plast: Any, by: Any, bfirst: Any, blast: Any,
    ends: Any, room: Any,
) -> None:  # fmt: skip
    """Texts with every occurrence of one replaced by another; an empty one does not occur."""
    writing = len(room) > 0
    for i in range(len(ends) - 1):
        if writing and ends[i] == ends[i + 1]:
            continue
        to, at, size, new = ends[i], first[i], plast[i] - pfirst[i], blast[i] - bfirst[i]
        if not writing:
            to = 0
        while size > 0:
            found = find(raw, at, last[i], part, pfirst[i], plast[i])
            if found < 0:
                break
            if writing:
                copy_bytes(raw, at, room, to, found - at)
                copy_bytes(by, bfirst[i], room, to + found - at, new)
            to += found - at + new
            at = found + size
        if writing:
            copy_bytes(raw, at, room, to, last[i] - at)
        else:
            ends[i + 1] = to + last[i] - at


@kernel(types.void, *TEXT, *TEXT, *TEXT, LONGS_OUT, ROOM)
def translate(
    raw: Any, first: Any, last: Any, source: Any, sfirst: Any, slast: Any, target: Any, tfirst: Any, tlast: Any,
    ends: Any, room: Any,
) -> None:  # fmt: skip
    """Texts with each character of ``source`` replaced by the one at its place in ``target``, or left out."""
    writing = len(room) > 0
    for i in range(len(ends) - 1):
        to, at = ends[i] if writing else 0, first[i]
        if writing and to == ends[i + 1]:
            continue
        while at < last[i]:
            size = min(width(raw[at]), last[i] - at)
            found = find(source, sfirst[i], slast[i], raw, at, at + size)
            if found < 0:
                if writing:
                    copy_bytes(raw, at, room, to, size)
                to += size
            else:
                place = skip(target, tfirst[i], tlast[i], characters(source, sfirst[i], found))
                if place < tlast[i]:
                    new = min(width(target[place]), tlast[i] - place)
                    if writing:
                        copy_bytes(target, place, room, to, new)
                    to += new
            at += size
        if not writing:
            ends[i + 1] = to


@kernel(types.void, *TEXT, NUMBERS, *TEXT, types.boolean, types.boolean, LONGS_OUT, ROOM)
def pad(
    raw: Any, first: Any, last: Any, size: Any, by: Any, bfirst: Any, blast: Any, left: bool, binary: bool,
    ends: Any, room: Any,
) -> None:  # fmt: skip
    """Texts cut or filled to ``size`` characters (bytes if ``binary``), filled on the left or on the right."""
    for i in range(len(ends) - 1):
        to = ends[i]
        if len(room) > 0 and to == ends[i + 1]:
            continue
        wanted, length = max(size[i], 0), last[i] - first[i]
        count, filling = length, blast[i] - bfirst[i]
        if not binary:
            count, filling = characters(raw, first[i], last[i]), characters(by, bfirst[i], blast[i])
        rounds = rest = 0
        if wanted <= count:
            length = wanted if binary else skip(raw, first[i], last[i], wanted) - first[i]
        elif filling > 0:
            rounds, more = (wanted - count) // filling, (wanted - count) % filling
            rest = more if binary else skip(by, bfirst[i], blast[i], more) - bfirst[i]
        fill = rounds * (blast[i] - bfirst[i]) + rest
        if len(room) == 0:
            ends[i + 1] = length + fill
            continue
        copy_bytes(raw, first[i], room, to + fill if left else to, length)
        if not left:
            to += length
        for _ in range(rounds):
            copy_bytes(by, bfirst[i], room, to, blast[i] - bfirst[i])
            to += blast[i] - bfirst[i]
        copy_bytes(by, bfirst[i], room, to, rest)


@kernel(types.void, *TEXT, LONGS_OUT, ROOM)
def capitalise(raw: Any, first: Any, last: Any, ends: Any, room: Any) -> None:
    """ASCII texts with a capital behind every blank and small letters elsewhere."""
    for i in range(len(ends) - 1):
        if len(room) == 0:
            ends[i + 1] = last[i] - first[i]
            continue
        to, start = ends[i], True
        for at in range(first[i], first[i] + ends[i + 1] - to):
            letter = raw[at]
            if start and 97 <= letter <= 122:
                letter -= np.uint8(32)
            elif not start and 65 <= letter <= 90:
                letter += np.uint8(32)
            room[to] = letter
            start = letter == 32
            to += 1


_CODES = np.frombuffer(b"01230127022455012623017202", np.uint8)


@kernel(types.void, *TEXT, LONGS_OUT, ROOM)
def soundex(raw: Any, first: Any, last: Any, ends: Any, room: Any) -> None:
    """A letter and three digits. A text that begins with anything but an ASCII letter stays as it is."""
    for i in range(len(ends) - 1):
        b, e, to = first[i], last[i], ends[i]
        head = raw[b] & 0xDF if b < e else 0
        sounds = 65 <= head <= 90
        if len(room) == 0:
            ends[i + 1] = 4 if sounds else e - b
            continue
        if to == ends[i + 1]:
            continue
        if not sounds:
            copy_bytes(raw, b, room, to, e - b)
            continue
        room[to] = head
        before, digits = _CODES[head - 65], 1
        for at in range(b + 1, e):
            letter = raw[at] & 0xDF
            if letter < 65 or letter > 90 or raw[at] >= 128:
                before = np.uint8(48)
                continue
            code = _CODES[letter - 65]
            if code == 55:
                continue
            if code != 48 and code != before:
                room[to + digits] = code
                digits += 1
                if digits == 4:
                    break
            before = code
        for k in range(digits, 4):
            room[to + k] = 48


_KINDS = types.array(types.uint8, 1, "C", readonly=True)


@kernel(types.void, *TEXT, _KINDS, *TEXT, LONGS_OUT, ROOM)
def mask(raw: Any, first: Any, last: Any, kinds: Any, by: Any, bfirst: Any, blast: Any, ends: Any, room: Any) -> None:
    """Texts with each character replaced by the text of its kind; an empty one keeps it.

    ``kinds`` has a number for every code point, or for those below 128 if there are no others.
    """
    for i in range(len(ends) - 1):
        to, at = ends[i] if len(room) > 0 else 0, first[i]
        if len(room) > 0 and to == ends[i + 1]:
            continue
        while at < last[i]:
            lead = np.int64(raw[at])
            size = min(width(lead), last[i] - at)
            point = lead if size == 1 else lead & (0x7F >> size)
            for k in range(1, size):
                point = point << 6 | raw[at + k] & 0x3F
            kind = kinds[min(point, len(kinds) - 1)]
            new = blast[kind] - bfirst[kind]
            if len(room) > 0:
                if new > 0:
                    copy_bytes(by, bfirst[kind], room, to, new)
                else:
                    copy_bytes(raw, at, room, to, size)
            to += new if new > 0 else size
            at += size
        if len(room) == 0:
            ends[i + 1] = to
