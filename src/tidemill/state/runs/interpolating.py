"""Interpolation search in blocks of sorted byte strings of one length, many probes at a time.

Keys are spread about evenly, since a hash of a vnode begins them, so where a probe would be is guessed and mended a few
times. Each guess is in a cache line of its own, and waiting for memory is all that takes time: so a group of probes
takes each step together, and their loads, which do not depend on each other, are under way at once. Source: group
prefetching in "Improving Hash Join Performance through Prefetching", Chen, Ailamaki, Gibbons, Mowry 2004.
"""

from __future__ import annotations

import numpy as np
from numba import types

from tidemill.kernels.words import I64, I64_OUT, U8, U8_OUT, Bytes, Ints, Word, equal, inlined, kernel, load_word
from tidemill.state.runs.searching import search

_CORRECTIONS = 2
"""How often a guess is mended by what is found there."""
_GROUP = 64
"""Probes that take a step together."""


@inlined
def _first_word(data: Bytes, first: int, width: int, skip: int, count: int, word: Word, guess: int) -> int:
    """The first of ``count`` keys whose word from byte ``skip`` on is not less than another; the last key's is not.

    Keys of ``width`` bytes lie from ``first`` on. Goes from a guess, in steps that double, to either side.
    """
    step = 1
    at = first + guess * width
    if load_word(data, at + skip, at + width) < word:
        low = guess + 1
        high = low
        at = first + high * width
        while high < count - 1 and load_word(data, at + skip, at + width) < word:
            low = high + 1
            high = min(high + step, count - 1)
            step *= 2
            at = first + high * width
    else:
        high = guess
        low = max(0, high - 1)
        at = first + low * width
        while low > 0 and load_word(data, at + skip, at + width) >= word:
            high = low
            low = max(0, low - step)
            step *= 2
            at = first + low * width
    while low < high:
        middle = (low + high) >> 1
        at = first + middle * width
        if load_word(data, at + skip, at + width) < word:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(I64_OUT, I64, U8, I64, U8, I64, types.int64, U8_OUT)
def locate_within(
    offsets: Ints, data: Bytes, probe_offsets: Ints, probes: Bytes, blocks: Ints, size: int, even: Bytes
) -> Ints:
    """Row of each probe (ascending) in its block of ``size`` rows, -1 where absent or where the block is -1.

    A block whose keys are not all of one length is searched by bisection.
    ``even`` says of each block whether it is one (1) or not (2), 0 where that is not known; it is filled in.
    """
    n = offsets.size - 1
    rows = np.full(probe_offsets.size - 1, -1, np.int64)
    places = np.empty(_GROUP, np.int64)
    lows = np.empty(_GROUP, np.int64)
    counts = np.empty(_GROUP, np.int64)
    firsts = np.empty(_GROUP, np.int64)
    widths = np.empty(_GROUP, np.int64)
    shares = np.empty(_GROUP, np.int64)
    words = np.empty(_GROUP, np.uint64)
    leasts = np.empty(_GROUP, np.uint64)
    distances = np.empty(_GROUP, np.float64)
    scales = np.empty(_GROUP, np.float64)
    guesses = np.empty(_GROUP, np.int64)
    at = 0
    p = 0
    while p < rows.size:
        held = 0
        while p < rows.size and held < _GROUP:
            block = blocks[p]
            if block >= 0:
                low = block * size
                high = min(low + size, n)
                first: Word = offsets[low]
                width: Word = offsets[low + 1] - first
                if even[block] == 0:
                    other = np.int64(0)
                    for i in range(low, high):
                        other |= (offsets[i + 1] - offsets[i]) ^ width
                    even[block] = 1 if other == 0 else 2
                if even[block] == 1:
                    if probe_offsets[p + 1] - probe_offsets[p] == width:
                        places[held] = p
                        lows[held] = low
                        counts[held] = high - low
                        firsts[held] = first
                        widths[held] = width
                        held += 1
                else:
                    start = probe_offsets[p]
                    end = probe_offsets[p + 1]
                    at = search(offsets, data, max(at, low), high, probes, start, end, False)
                    if at < high and equal(data, offsets[at], offsets[at + 1], probes, start, end):
                        rows[p] = at
            p += 1
        possible = 0
        for i in range(held):
            first = firsts[i]
            width = widths[i]
            last = first + (counts[i] - 1) * width
            if i and possible and lows[i] == lows[possible - 1]:
                shared = shares[possible - 1]
            else:
                shared = np.int64(0)
                while shared < width and data[first + shared] == data[last + shared]:
                    shared += 1
            start = probe_offsets[places[i]]
            least = load_word(data, first + shared, first + width)
            greatest = load_word(data, last + shared, last + width)
            word = load_word(probes, start + shared, start + width)
            if word < least or word > greatest or not equal(data, first, first + shared, probes, start, start + shared):
                continue
            scale = (counts[i] - 1) / np.float64(greatest - least) if greatest > least else 0.0
            places[possible] = places[i]
            lows[possible] = lows[i]
            counts[possible] = counts[i]
            firsts[possible] = first
            widths[possible] = width
            shares[possible] = shared
            words[possible] = word
            scales[possible] = scale
            leasts[possible] = least
            distances[possible] = np.float64(word - least)
            guesses[possible] = min(np.int64(distances[possible] * scale), counts[i] - 1)
            possible += 1
        for _ in range(_CORRECTIONS):
            for i in range(possible):
                there = firsts[i] + guesses[i] * widths[i]
                seen = load_word(data, there + shares[i], there + widths[i])
                short = (distances[i] - np.float64(seen - leasts[i])) * scales[i]
                guesses[i] = min(max(guesses[i] + np.int64(short), 0), counts[i] - 1)
        for i in range(possible):
            first = firsts[i]
            width = widths[i]
            shared = shares[i]
            low = lows[i]
            start = probe_offsets[places[i]]
            row = low + _first_word(data, first, width, shared, counts[i], words[i], guesses[i])
            there = first + (row - low) * width
            if equal(data, there, there + width, probes, start, start + width):
                rows[places[i]] = row
            elif width > shared + 8:
                high = low + counts[i]
                row = search(offsets, data, row, high, probes, start, start + width, False)
                if row < high and equal(data, offsets[row], offsets[row + 1], probes, start, start + width):
                    rows[places[i]] = row
    return rows
