"""Interpolation search in blocks of sorted byte strings of one length, many probes at a time.

Keys are spread about evenly, since they begin with a vnode, so the place of a probe is guessed and corrected a few
times. Each guess is in a cache line of its own, and memory latency dominates: so the probes of a group take each step
together, and their loads, which do not depend on each other, overlap. Source: group
prefetching in "Improving Hash Join Performance through Prefetching", Chen, Ailamaki, Gibbons, Mowry 2004.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidemill.kernels.words import I64, I64_OUT, U8, Bytes, Ints, Word, Words, equal, inlined, kernel, load_word
from tidemill.state.keys.run_table import RUN_TABLE
from tidemill.state.runs.body import block_rows, even_blocks, row_data, row_offsets
from tidemill.state.runs.searching import search

_CORRECTIONS = 2
"""How often a guess is corrected by the key found there."""
_GROUP = 64
"""Probes that take a step together."""
_INTS = ("probe", "body", "low", "count", "first", "width", "shared", "guess")
_GUESS = np.dtype(
    [(name, np.int64) for name in _INTS]
    + [("word", np.uint64), ("least", np.uint64), ("distance", np.float64), ("scale", np.float64)]
)
"""A probe, the block it may be in (its body, first row, number of rows, where its keys begin, their length and how
many bytes they share) and the guess: in words from the byte after those shared."""


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


@inlined
def _is_even(offsets: Ints, low: int, high: int, block: int, even: Bytes) -> bool:
    """Whether the keys of a block are all of one length; kept in ``even``."""
    if even[block] == 0:
        width = offsets[low + 1] - offsets[low]
        other = np.int64(0)
        for i in range(low, high):
            other |= (offsets[i + 1] - offsets[i]) ^ width
        even[block] = 1 if other == 0 else 2
    return bool(even[block] == 1)


@inlined
def _first_guesses(table: Words, probe_offsets: Ints, probes: Bytes, group: Any, held: int) -> int:
    """Guess where probes are; returns how many may be in their blocks, which come first in the group then."""
    possible = 0
    for i in range(held):
        g = group[i]
        data = row_data(table, g.body)
        first = g.first
        width = g.width
        last = first + (g.count - 1) * width
        before = group[possible - 1]
        if i and possible and g.low == before.low and g.body == before.body:
            shared = before.shared
        else:
            shared = np.int64(0)
            while shared < width and data[first + shared] == data[last + shared]:
                shared += 1
        start = probe_offsets[g.probe]
        least = load_word(data, first + shared, first + width)
        greatest = load_word(data, last + shared, last + width)
        word = load_word(probes, start + shared, start + width)
        if word < least or word > greatest or not equal(data, first, first + shared, probes, start, start + shared):
            continue
        to = group[possible]
        to.probe = g.probe
        to.body = g.body
        to.low = g.low
        to.count = g.count
        to.first = first
        to.width = width
        to.shared = shared
        to.word = word
        to.least = least
        to.scale = (g.count - 1) / np.float64(greatest - least) if greatest > least else 0.0
        to.distance = np.float64(word - least)
        to.guess = min(np.int64(to.distance * to.scale), to.count - 1)
        possible += 1
    return possible


@inlined
def _correct_guesses(table: Words, group: Any, possible: int) -> None:
    for i in range(possible):
        g = group[i]
        data = row_data(table, g.body)
        there = g.first + g.guess * g.width
        seen = load_word(data, there + g.shared, there + g.width)
        short = (g.distance - np.float64(seen - g.least)) * g.scale
        g.guess = min(max(g.guess + np.int64(short), 0), g.count - 1)


@inlined
def _search_from_guesses(
    table: Words, probe_offsets: Ints, probes: Bytes, group: Any, possible: int, rows: Ints
) -> None:
    for i in range(possible):
        g = group[i]
        data = row_data(table, g.body)
        width = g.width
        start = probe_offsets[g.probe]
        row = g.low + _first_word(data, g.first, width, g.shared, g.count, g.word, g.guess)
        there = g.first + (row - g.low) * width
        if equal(data, there, there + width, probes, start, start + width):
            rows[g.probe] = row
        elif width > g.shared + 8:
            offsets = row_offsets(table, g.body)
            high = g.low + g.count
            row = search(offsets, data, row, high, probes, start, start + width, False)
            if row < high and equal(data, offsets[row], offsets[row + 1], probes, start, start + width):
                rows[g.probe] = row


@kernel(I64_OUT, RUN_TABLE, I64, I64, I64, U8)
def locate_within(table: Words, bodies: Ints, blocks: Ints, probe_offsets: Ints, probes: Bytes) -> Ints:
    """Row of each probe (ascending) in its block of its body, -1 where absent or where the block is -1.

    A block whose keys are not all of one length is searched by bisection.
    """
    rows = np.full(probe_offsets.size - 1, -1, np.int64)
    group = np.empty(_GROUP, _GUESS)
    at = 0
    body = -1
    p = 0
    while p < rows.size:
        held = 0
        while p < rows.size and held < _GROUP:
            block = blocks[p]
            if block >= 0:
                if body != bodies[p]:
                    body = bodies[p]
                    at = 0
                offsets = row_offsets(table, body)
                size = block_rows(table, body)
                low = block * size
                high = min(low + size, offsets.size - 1)
                start = probe_offsets[p]
                end = probe_offsets[p + 1]
                if _is_even(offsets, low, high, block, even_blocks(table, body)):
                    width = offsets[low + 1] - offsets[low]
                    if end - start == width:
                        group[held].probe = p
                        group[held].body = body
                        group[held].low = low
                        group[held].count = high - low
                        group[held].first = offsets[low]
                        group[held].width = width
                        held += 1
                else:
                    data = row_data(table, body)
                    at = search(offsets, data, max(at, low), high, probes, start, end, False)
                    if at < high and equal(data, offsets[at], offsets[at + 1], probes, start, end):
                        rows[p] = at
            p += 1
        possible = _first_guesses(table, probe_offsets, probes, group, held)
        for _ in range(_CORRECTIONS):
            _correct_guesses(table, group, possible)
        _search_from_guesses(table, probe_offsets, probes, group, possible, rows)
    return rows
