"""Compiled merging of sorted runs, for :mod:`tidemill.state.merge.merge`.

A merge is first decided, then carried out. Decided means that of each row of the result's order it is known which run
it comes from, and whether its key is that of the row before: two bytes a row. Every column is then made by walking them
with a cursor in each run, so that all runs are read from front to back and nothing is concatenated first.

Deciding goes block by block (:func:`interleave`): some next rows of every run up to a common key, so few that what is
known of them stays in the processor's cache. There their keys are one word each, merged two by two without branches.

Runs are given by address, since a kernel cannot take a varying number of arrays: their owner must outlive the call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray, types

from tidemill.kernels.columns import room
from tidemill.kernels.words import (
    BOOL,
    F64_OUT,
    I64,
    I64_OUT,
    U8_OUT,
    U64,
    U64_OUT,
    Bools,
    Bytes,
    Floats,
    Ints,
    Words,
    as_pointer,
    compare,
    copy_bytes,
    head_mask,
    inlined,
    kernel,
    load64,
    load_word,
    store64,
)

MOST_RUNS = 1 << 15
_RUN = MOST_RUNS - 1
_SAME = 15
_BLOCK = 16384
_REACH = 32

Sources = npt.NDArray[np.uint16]
Marks = npt.NDArray[np.uint32]
GRID64 = types.Array(types.uint64, 2, "C")
GRID32 = types.Array(types.uint32, 2, "C")
U16 = types.Array(types.uint16, 1, "C", readonly=True)
U16_OUT = types.Array(types.uint16, 1, "C")


def address(array: Any) -> int:
    """Where the first element of an array lies."""
    return int(array.__array_interface__["data"][0])


@inlined
def _offsets_of(addresses: Words, sizes: Ints, run: int) -> Any:
    return carray(as_pointer(addresses[run]), sizes[run] + 1, np.int64)


@inlined
def _data_of(addresses: Words, sizes: Ints, run: int) -> Any:
    return carray(as_pointer(addresses[run]), sizes[run], np.uint8)


@kernel(types.void, U64, U64, I64, I64, I64_OUT)
def _word_parts(offset_addresses: Words, data_addresses: Words, sizes: Ints, data_sizes: Ints, parts: Ints) -> None:
    """Which bytes of a key make its word: start and length of a first part, and of a second; the keys' length.

    All keys agree on the bytes before and between, so that words order like keys as far as they go. Constant bytes
    between varying ones are only looked for in keys of one length; that is 0 if there are several.
    """
    runs = sizes.size
    offsets = _offsets_of(offset_addresses, sizes, 0)
    data = _data_of(data_addresses, data_sizes, 0)
    base = offsets[0]
    width = offsets[1] - base
    other_lengths = np.int64(0)
    shared = width
    for r in range(runs):
        theirs = _offsets_of(offset_addresses, sizes, r)
        bytes_ = _data_of(data_addresses, data_sizes, r)
        for i in range(sizes[r]):
            other_lengths |= (theirs[i + 1] - theirs[i]) ^ width
        for row in (0, sizes[r] - 1):  # what the first and the last key of a run share, all between them do
            shared = min(shared, theirs[row + 1] - theirs[row])
            i = 0
            while i < shared and bytes_[theirs[row] + i] == data[base + i]:
                i += 1
            shared = i
    parts[0] = shared
    parts[1] = 8
    parts[2] = 0
    parts[3] = 0
    parts[4] = 0
    if other_lengths == 0 and shared < width:
        parts[1] = min(8, width - shared)
        parts[4] = width
    if other_lengths != 0 or shared + 8 >= width or shared + 8 >= _REACH:
        return
    v0 = np.uint64(0)
    v1 = np.uint64(0)
    v2 = np.uint64(0)
    v3 = np.uint64(0)
    f0 = load_word(data, base, base + width)
    f1 = load_word(data, base + 8, base + width)
    f2 = load_word(data, base + 16, base + width)
    f3 = load_word(data, base + 24, base + width)
    for r in range(runs):
        at = _offsets_of(offset_addresses, sizes, r)[0]
        bytes_ = _data_of(data_addresses, data_sizes, r)
        plain = max(0, min(sizes[r], (data_sizes[r] - at - _REACH) // width))
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
        for _ in range(plain, sizes[r]):
            v0 |= f0 ^ load_word(bytes_, at, at + width)
            v1 |= f1 ^ load_word(bytes_, at + 8, at + width)
            v2 |= f2 ^ load_word(bytes_, at + 16, at + width)
            v3 |= f3 ^ load_word(bytes_, at + 24, at + width)
            at += width
    varying = (
        v0 & head_mask(width),
        v1 & head_mask(width - 8),
        v2 & head_mask(width - 16),
        v3 & head_mask(width - 24),
    )
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


@inlined
def _order(
    a: int,
    a_row: int,
    b: int,
    b_row: int,
    offset_addresses: Words,
    data_addresses: Words,
    sizes: Ints,
    data_sizes: Ints,
) -> int:
    """How a key of run ``a`` compares to one of run ``b`` (-1, 0 or 1)."""
    left = _offsets_of(offset_addresses, sizes, a)
    right = _offsets_of(offset_addresses, sizes, b)
    return compare(
        _data_of(data_addresses, data_sizes, a),
        left[a_row],
        left[a_row + 1],
        _data_of(data_addresses, data_sizes, b),
        right[b_row],
        right[b_row + 1],
    )


@inlined
def _load_words(offsets: Ints, data: Bytes, low: int, high: int, parts: Ints, words: Words, at: int) -> None:
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


@inlined
def _merge_pair(
    words: Words,
    marks: Marks,
    low: int,
    middle: int,
    high: int,
    words_out: Words,
    marks_out: Marks,
    rows: Ints,
    offset_addresses: Words,
    data_addresses: Words,
    sizes: Ints,
    data_sizes: Ints,
) -> None:
    """Merge two neighbouring parts of a block; of equal keys that of the left one, which is older, comes first."""
    left = low
    right = middle
    at = low
    while left < middle and right < high:
        x = words[left]
        y = words[right]
        a = marks[left]
        b = marks[right]
        later = y < x
        if x == y:
            m = int(a)
            n = int(b)
            later = (
                _order(
                    n >> 16,
                    rows[n >> 16] + (n & 0xFFFF),
                    m >> 16,
                    rows[m >> 16] + (m & 0xFFFF),
                    offset_addresses,
                    data_addresses,
                    sizes,
                    data_sizes,
                )
                < 0
            )
        words_out[at] = y if later else x
        marks_out[at] = b if later else a
        step = int(later)
        right += step
        left += 1 - step
        at += 1
    while left < middle:
        words_out[at] = words[left]
        marks_out[at] = marks[left]
        left += 1
        at += 1
    while right < high:
        words_out[at] = words[right]
        marks_out[at] = marks[right]
        right += 1
        at += 1


@kernel(types.int64, U64, U64, I64, I64, I64, U16_OUT, GRID64, GRID32, I64_OUT, I64_OUT, I64_OUT)
def _interleave(
    offset_addresses: Words,
    data_addresses: Words,
    sizes: Ints,
    data_sizes: Ints,
    parts: Ints,
    sources: Sources,
    word_room: Words,
    mark_room: Marks,
    rows: Ints,
    ends: Ints,
    bounds: Ints,
) -> int:
    """Fill ``sources``; returns the segments. What comes after is room: twice a block; for each run and one more."""
    runs = sizes.size
    most = word_room.shape[1] // runs
    segments = 0
    done = 0
    for r in range(runs):
        rows[r] = 0
    while done < sources.size:
        # The block ends before the smallest of the keys that lie 'most' rows ahead.
        first = -1
        for r in range(runs):
            if sizes[r] - rows[r] > most and (
                first < 0
                or _order(
                    r, rows[r] + most, first, rows[first] + most, offset_addresses, data_addresses, sizes, data_sizes
                )
                < 0
            ):
                first = r
        size = 0
        filled = 0
        for r in range(runs):
            left = rows[r]
            right = min(sizes[r], rows[r] + most)
            if first >= 0 and r == first:
                left = right
            elif first >= 0:
                limit = rows[first] + most
                step = 1
                while left + step <= right:
                    if (
                        _order(r, left + step - 1, first, limit, offset_addresses, data_addresses, sizes, data_sizes)
                        >= 0
                    ):
                        break
                    left += step
                    step *= 2
                right = min(left + step - 1, right)
                while left < right:
                    middle = (left + right) >> 1
                    if _order(r, middle, first, limit, offset_addresses, data_addresses, sizes, data_sizes) < 0:
                        left = middle + 1
                    else:
                        right = middle
            else:
                left = right
            ends[r] = left
            if left > rows[r]:
                bounds[filled] = size
                filled += 1
                size += left - rows[r]
        bounds[filled] = size
        words = word_room[0]
        marks = mark_room[0]
        if filled > 1:
            at = 0
            for r in range(runs):
                count = ends[r] - rows[r]
                if count > 0:
                    offsets = _offsets_of(offset_addresses, sizes, r)
                    data = _data_of(data_addresses, data_sizes, r)
                    _load_words(offsets, data, rows[r], ends[r], parts, words, at)
                    for i in range(count):
                        marks[at + i] = np.uint32((r << 16) | i)
                    at += count
            spare = 1
            while filled > 1:
                words_out = word_room[spare]
                marks_out = mark_room[spare]
                for pair in range(0, filled, 2):
                    low = bounds[pair]
                    middle = bounds[pair + 1]
                    high = bounds[min(pair + 2, filled)]
                    _merge_pair(
                        words,
                        marks,
                        low,
                        middle,
                        high,
                        words_out,
                        marks_out,
                        rows,
                        offset_addresses,
                        data_addresses,
                        sizes,
                        data_sizes,
                    )
                    bounds[pair >> 1] = low
                filled = (filled + 1) >> 1
                bounds[filled] = size
                words = words_out
                marks = marks_out
                spare = 1 - spare
            sources[done] = np.uint16(marks[0] >> np.uint32(16))
            segments += 1
            for i in range(1, size):
                mark = int(marks[i])
                source = mark >> 16
                same = 0
                if words[i] == words[i - 1]:
                    before = int(marks[i - 1])
                    same = int(
                        _order(
                            source,
                            rows[source] + (mark & 0xFFFF),
                            before >> 16,
                            rows[before >> 16] + (before & 0xFFFF),
                            offset_addresses,
                            data_addresses,
                            sizes,
                            data_sizes,
                        )
                        == 0
                    )
                sources[done + i] = np.uint16(source | (same << _SAME))
                segments += 1 - same
        else:
            for r in range(runs):
                if ends[r] > rows[r]:
                    for i in range(size):
                        sources[done + i] = np.uint16(r)
            segments += size
        done += size
        for r in range(runs):
            rows[r] = ends[r]
    return segments


def interleave(offset_addresses: Words, data_addresses: Words, sizes: Ints, data_sizes: Ints) -> tuple[Sources, int]:
    """Decide a merge.

    Parameters
    ----------
    offset_addresses, data_addresses : np.ndarray
        uint64 per run, oldest first: where offsets and bytes of its keys lie (see
        :class:`~tidemill.state.keys.keys.Keys`).
    sizes, data_sizes : np.ndarray
        int64 per run: keys, at least one, and bytes of data. At most ``MOST_RUNS`` runs.

    Returns
    -------
    sources : np.ndarray
        uint16 per row in ascending order of keys, of equal keys from old to new: its run, and bit 15 where the key is
        that of the row before. Rows of one run come in their order.
    segments : int
        How many different keys there are.
    """
    parts = np.zeros(5, np.int64)
    keys = (offset_addresses, data_addresses, sizes, data_sizes)
    _word_parts(*keys, parts)
    rows = int(sizes.sum())
    sources = room(rows, np.uint16)
    block = min(max(_BLOCK, 16 * len(sizes)), rows + len(sizes))
    blocks = np.empty((2, block), np.uint64), np.empty((2, block), np.uint32)
    return sources, _interleave(*keys, parts, sources, *blocks, *np.empty((3, len(sizes) + 1), np.int64))


@kernel(types.int64, U64, U64, I64, I64, U16, BOOL, I64_OUT, U8_OUT)
def copy_keys(
    offset_addresses: Words,
    data_addresses: Words,
    sizes: Ints,
    data_sizes: Ints,
    sources: Sources,
    keep: Bools,
    offsets: Ints,
    out: Bytes,
) -> int:
    """Write the different keys, or those of segments to ``keep`` unless that is empty; returns their bytes."""
    cursors = np.zeros(sizes.size, np.int64)
    segment = -1
    rows = 0
    at = 0
    offsets[0] = 0
    for i in range(sources.size):
        source = int(sources[i])
        r = source & _RUN
        row = cursors[r]
        cursors[r] = row + 1
        if source >> _SAME:
            continue
        segment += 1
        if keep.size > 0 and not keep[segment]:
            continue
        theirs = _offsets_of(offset_addresses, sizes, r)
        data = _data_of(data_addresses, data_sizes, r)
        start = theirs[row]
        end = theirs[row + 1]
        stop = at + end - start
        # Whole words may reach into the key after this one, which is written next.
        while start < end and start + 8 <= data.size and at + 8 <= out.size:
            store64(out, at, load64(data, start))
            start += 8
            at += 8
        if start < end:
            copy_bytes(data, start, out, at, end - start)
        at = stop
        rows += 1
        offsets[rows] = at
    return at


@kernel(types.void, U64, U16, I64_OUT)
def sum_ints(addresses: Words, sources: Sources, out: Ints) -> None:
    """Sum int64 values by segment, wrapping; ``addresses`` are those of each run's values."""
    cursors = addresses.copy()
    segment = -1
    for i in range(sources.size):
        source = int(sources[i])
        r = source & _RUN
        value = carray(as_pointer(cursors[r]), 1, np.int64)[0]
        cursors[r] += np.uint64(8)
        if source >> _SAME:
            out[segment] += value
        else:
            segment += 1
            out[segment] = value


@kernel(types.void, U64, U16, F64_OUT)
def sum_floats(addresses: Words, sources: Sources, out: Floats) -> None:
    """Sum float64 values by segment, from old to new."""
    cursors = addresses.copy()
    segment = -1
    for i in range(sources.size):
        source = int(sources[i])
        r = source & _RUN
        value = carray(as_pointer(cursors[r]), 1, np.float64)[0]
        cursors[r] += np.uint64(8)
        if source >> _SAME:
            out[segment] += value
        else:
            segment += 1
            out[segment] = value


@kernel(types.void, U64, U16, U64_OUT)
def last_words(addresses: Words, sources: Sources, out: Words) -> None:
    """The newest of the 8-byte values of each segment."""
    cursors = addresses.copy()
    segment = -1
    for i in range(sources.size):
        source = int(sources[i])
        r = source & _RUN
        value = carray(as_pointer(cursors[r]), 1, np.uint64)[0]
        cursors[r] += np.uint64(8)
        segment += 1 - (source >> _SAME)
        out[segment] = value


@kernel(types.Tuple((I64_OUT, I64_OUT)), U16, I64, types.int64)
def order_of(sources: Sources, firsts: Ints, segments: int) -> tuple[Ints, Ints]:
    """The merge as rows of the concatenated runs (run ``r`` begins at ``firsts[r]``), and where segments start."""
    order = np.empty(sources.size, np.int64)
    starts = np.empty(segments + 1, np.int64)
    cursors = firsts.copy()
    segment = 0
    for i in range(sources.size):
        source = int(sources[i])
        r = source & _RUN
        order[i] = cursors[r]
        cursors[r] += 1
        if not source >> _SAME:
            starts[segment] = i
            segment += 1
    starts[segment] = sources.size
    return order, starts


@kernel(I64_OUT, U16, types.int64)
def _found(sources: Sources, probes: int) -> Ints:
    rows = np.full(probes, -1, np.int64)
    row = -1
    probe = -1
    for i in range(sources.size):
        source = np.int64(sources[i])
        if source == 0:
            row += 1
        else:
            probe += 1
            if source >> _SAME:
                rows[probe] = row
    return rows


def locate_near(offsets: Ints, data: Bytes, probe_offsets: Ints, probes: Bytes) -> Ints:
    """Row of each probe in a run, -1 where absent, by merging them: for probes almost as many as rows, or more.

    Run and probes are ascending, each with unique keys, given as offsets (int64, n + 1, n at least 1) and bytes.
    """
    starts = np.array([address(offsets), address(probe_offsets)], np.uint64)
    bytes_ = np.array([address(data), address(probes)], np.uint64)
    sizes = np.array([len(offsets) - 1, len(probe_offsets) - 1])
    sources, _ = interleave(starts, bytes_, sizes, np.array([len(data), len(probes)]))
    return _found(sources, int(sizes[1]))
