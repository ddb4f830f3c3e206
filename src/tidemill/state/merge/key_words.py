"""One word per key for a merge: 8 bytes in which keys that lie close together differ."""

from __future__ import annotations

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import I64_OUT, Bytes, Ints, Words, head_mask, inlined, kernel, load64, load_word
from tidemill.state.keys.run_table import RUN_TABLE, run_data, run_offsets, run_size

_REACH = 32
"""Leading bytes of a key of which constant ones can be left out of its word."""


@inlined
def _shared_prefix(table: Words, width: int) -> tuple[int, bool]:
    """How many bytes all keys begin with, and whether all are of one width."""
    data = run_data(table, 0)
    base = run_offsets(table, 0)[0]
    other_lengths = np.int64(0)
    shared = width
    for r in range(table.shape[0]):
        offsets = run_offsets(table, r)
        bytes_ = run_data(table, r)
        last = run_size(table, r) - 1
        for i in range(last + 1):
            other_lengths |= (offsets[i + 1] - offsets[i]) ^ width
        for row in (0, last):  # what the first and the last key of a run share, all between them do
            shared = min(shared, offsets[row + 1] - offsets[row])
            i = 0
            while i < shared and bytes_[offsets[row] + i] == data[base + i]:
                i += 1
            shared = i
    return shared, other_lengths == 0


@inlined
def _varying_bits(table: Words, width: int) -> tuple[Words, Words, Words, Words]:
    """The bits in which keys of one width differ, of their first four words."""
    data = run_data(table, 0)
    base = run_offsets(table, 0)[0]
    f0 = load_word(data, base, base + width)
    f1 = load_word(data, base + 8, base + width)
    f2 = load_word(data, base + 16, base + width)
    f3 = load_word(data, base + 24, base + width)
    v0 = np.uint64(0)
    v1 = np.uint64(0)
    v2 = np.uint64(0)
    v3 = np.uint64(0)
    for r in range(table.shape[0]):
        at = run_offsets(table, r)[0]
        size = run_size(table, r)
        bytes_ = run_data(table, r)
        plain = max(0, min(size, (bytes_.size - at - _REACH) // width))
        if width <= 16:
            for _ in range(plain):
                v0 |= f0 ^ load64(bytes_, at)
                v1 |= f1 ^ load64(bytes_, at + 8)
                at += width
        else:
            for _ in range(plain):
                v0 |= f0 ^ load64(bytes_, at)
                v1 |= f1 ^ load64(bytes_, at + 8)
                v2 |= f2 ^ load64(bytes_, at + 16)
                v3 |= f3 ^ load64(bytes_, at + 24)
                at += width
        for _ in range(plain, size):
            v0 |= f0 ^ load_word(bytes_, at, at + width)
            v1 |= f1 ^ load_word(bytes_, at + 8, at + width)
            v2 |= f2 ^ load_word(bytes_, at + 16, at + width)
            v3 |= f3 ^ load_word(bytes_, at + 24, at + width)
            at += width
    return (
        v0 & head_mask(width),
        v1 & head_mask(width - 8),
        v2 & head_mask(width - 16),
        v3 & head_mask(width - 24),
    )


@inlined
def _choose_varying(varying: tuple[Words, Words, Words, Words], parts: Ints) -> None:
    """Up to 8 bytes that vary, in at most two parts."""
    part = -1
    used = 0
    previous = -2
    for position in range(_REACH):
        byte = (varying[position >> 3] >> np.uint64(56 - 8 * (position & 7))) & np.uint64(255)
        if byte == 0 or used == 8:
            continue
        if position != previous + 1:
            if part == 1:
                break
            part += 1
            parts[2 * part] = position
            parts[2 * part + 1] = 0
        parts[2 * part + 1] += 1
        previous = position
        used += 1


@kernel(types.void, RUN_TABLE, I64_OUT)
def choose_word_parts(table: Words, parts: Ints) -> None:
    """Which bytes of a key make its word: start and length of a first part, and of a second; the keys' length.

    All keys agree on the bytes before and between, so that words order like keys as far as they go. Constant bytes
    between varying ones are only looked for in keys of one length; that is 0 if there are several.
    """
    width = run_offsets(table, 0)[1] - run_offsets(table, 0)[0]
    shared, even = _shared_prefix(table, width)
    parts[:] = 0
    parts[0] = shared
    parts[1] = 8
    if even and shared < width:
        parts[1] = min(8, width - shared)
        parts[4] = width
    if even and shared + 8 < min(width, _REACH):
        _choose_varying(_varying_bits(table, width), parts)


@inlined
def load_words(offsets: Ints, data: Bytes, low: int, high: int, parts: Ints, words: Words, at: int) -> None:
    """Write the words of rows ``low`` to ``high - 1`` from ``words[at]`` on."""
    s0 = parts[0]
    s1 = parts[2]
    r0 = np.uint64(64 - 8 * parts[1])
    l1 = np.uint64(8 * parts[3])
    r1 = np.uint64(64) - l1
    width = parts[4]
    plain = low
    if width > 0:
        start = offsets[low]
        plain = min(high, low + max(0, (data.size - start - _REACH - 8) // width))
        if l1 == 0:
            for i in range(plain - low):
                words[at + i] = load64(data, start + s0) >> r0
                start += width
        else:
            for i in range(plain - low):
                words[at + i] = ((load64(data, start + s0) >> r0) << l1) | (load64(data, start + s1) >> r1)
                start += width
    for row in range(plain, high):
        word = load_word(data, offsets[row] + s0, offsets[row + 1]) >> r0
        if l1 != 0:
            word = (word << l1) | (load_word(data, offsets[row] + s1, offsets[row + 1]) >> r1)
        words[at + row - low] = word
