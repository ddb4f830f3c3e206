"""Interpolation search in blocks of sorted byte strings of one length, many probes at a time.

Keys are spread about evenly, since they begin with a vnode, so the place of a probe is guessed and corrected a few
times. Each guess is in a cache line of its own, and memory latency dominates: so the probes of a group take each step
together, and their loads, which do not depend on each other, overlap. Source: group
prefetching in "Improving Hash Join Performance through Prefetching", Chen, Ailamaki, Gibbons, Mowry 2004.

Where all keys of a body have one length, the first guess needs the fences of the block alone, and of the block only the
pages are checked in which a key is compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import (
    I64,
    I64_OUT,
    U8,
    Bytes,
    Ints,
    Word,
    Words,
    compare,
    equal,
    inlined,
    kernel,
    load_word,
)
from tidemill.state.keys.run_table import RUN_TABLE
from tidemill.state.runs.body import (
    block_rows,
    even_blocks,
    fence_data,
    fence_offsets,
    has_equal_lengths,
    is_known,
    key_position,
    row_data,
    row_offsets,
)
from tidemill.state.runs.pages import check_bytes
from tidemill.state.runs.searching import search

_CORRECTIONS = 2
"""How often a guess is corrected by the key found there."""
_GROUP = 64
"""Probes that take a step together."""
_INTS = ("probe", "body", "block", "low", "count", "first", "width", "shared", "guess", "unchecked")
_GUESS = np.dtype(
    [(name, np.int64) for name in _INTS]
    + [("word", np.uint64), ("least", np.uint64), ("distance", np.float64), ("scale", np.float64)]
)
"""A probe, the block it may be in (its body, number, first row, number of rows, where its keys begin, their length and
how many bytes they share) and the guess: in words from the byte after those shared. ``unchecked`` is 1 if the pages of
its keys may not be."""


@inlined
def _check(table: Words, body: int, at: int, width: int, bad: Ints) -> None:
    """Check the key at a byte of a body; ``bad`` gets the body and the page if that is corrupt."""
    start = key_position(table, body) + at
    page = check_bytes(table, body, start, start + width)
    if page >= 0:
        bad[0] = body
        bad[1] = page


# Fields of a guess are arguments here: what a check may write would make compiled code read them again.


@inlined
def _word(
    table: Words, body: int, unchecked: int, data: Bytes, first: int, width: int, skip: int, row: int, bad: Ints
) -> Word:
    """The word of a key of a block after the bytes that are shared."""
    at = first + row * width
    if unchecked:
        _check(table, body, at, width, bad)
    return load_word(data, at + skip, at + width)


@inlined
def _first_word(
    table: Words, body: int, unchecked: int, data: Bytes, first: int, width: int, skip: int, count: int, word: Word,
    guess: int, bad: Ints,
) -> Any:  # fmt: skip
    """The first of ``count`` rows whose word is not less than another, or the last row.

    Keys of ``width`` bytes lie from ``first`` on. Goes from a guess, in steps that double, to either side.
    """
    step = 1
    last = count - 1
    if _word(table, body, unchecked, data, first, width, skip, guess, bad) < word:
        low = min(guess + 1, last)
        high = low
        while high < last and _word(table, body, unchecked, data, first, width, skip, high, bad) < word:
            low = high + 1
            high = min(high + step, last)
            step *= 2
    else:
        high = guess
        low = max(0, high - 1)
        while low > 0 and _word(table, body, unchecked, data, first, width, skip, low, bad) >= word:
            high = low
            low = max(0, low - step)
            step *= 2
    while low < high:
        middle = (low + high) >> 1
        if _word(table, body, unchecked, data, first, width, skip, middle, bad) < word:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _order(table: Words, data: Bytes, g: Any, row: int, probes: Bytes, start: int, bad: Ints) -> Any:
    """How a key of the block compares with a probe of its length."""
    at = g.first + row * g.width
    if g.unchecked:
        _check(table, g.body, at, g.width, bad)
    return compare(data, at, at + g.width, probes, start, start + g.width)


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
    """Guess where probes are; returns how many may be in their blocks, which come first in the group then.

    The guess lies between two keys: the fences of the block if all keys have one length, else its first and last key.
    """
    possible = 0
    for i in range(held):
        g = group[i]
        width = g.width
        if has_equal_lengths(table, g.body):
            data = fence_data(table, g.body)
            first = fence_offsets(table, g.body)[g.block]
            last = first + width
        else:
            data = row_data(table, g.body)
            first = g.first
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
        to.block = g.block
        to.low = g.low
        to.count = g.count
        to.first = g.first
        to.width = width
        to.shared = shared
        to.unchecked = g.unchecked
        to.word = word
        to.least = least
        to.scale = (g.count - 1) / np.float64(greatest - least) if greatest > least else 0.0
        to.distance = np.float64(word - least)
        to.guess = min(np.int64(to.distance * to.scale), to.count - 1)
        possible += 1
    return possible


@inlined
def _correct_guesses(table: Words, group: Any, possible: int, bad: Ints) -> None:
    for i in range(possible):
        g = group[i]
        data = row_data(table, g.body)
        seen = _word(table, g.body, g.unchecked, data, g.first, g.width, g.shared, g.guess, bad)
        ahead = np.float64(seen - g.least) if seen >= g.least else 0.0
        short = (g.distance - ahead) * g.scale
        g.guess = min(max(g.guess + np.int64(short), 0), g.count - 1)


@inlined
def _search_from_guesses(
    table: Words, probe_offsets: Ints, probes: Bytes, group: Any, possible: int, rows: Ints, bad: Ints
) -> None:
    for i in range(possible):
        g = group[i]
        body = g.body
        data = row_data(table, body)
        first = g.first
        width = g.width
        unchecked = g.unchecked
        start = probe_offsets[g.probe]
        row = _first_word(table, body, unchecked, data, first, width, g.shared, g.count, g.word, g.guess, bad)
        there = first + row * width
        if unchecked:
            _check(table, body, there, width, bad)
        if equal(data, there, there + width, probes, start, start + width):
            rows[g.probe] = g.low + row
        elif width > g.shared + 8 and load_word(data, there + g.shared, there + width) == g.word:
            # Several keys may have the word: those from here on are compared whole, in steps that double.
            last = g.count - 1
            high = min(row + 1, last)
            step = 1
            while high < last and _order(table, data, g, high, probes, start, bad) < 0:
                row = high + 1
                step *= 2
                high = min(high + step, last)
            row = min(row, high)
            while row < high:
                middle = (row + high) >> 1
                if _order(table, data, g, middle, probes, start, bad) < 0:
                    row = middle + 1
                else:
                    high = middle
            if _order(table, data, g, row, probes, start, bad) == 0:
                rows[g.probe] = g.low + row


@kernel(types.tuple_of((types.int64, types.int64)), RUN_TABLE, I64, I64, I64, U8, I64_OUT)
def locate_within(
    table: Words, bodies: Ints, blocks: Ints, probe_offsets: Ints, probes: Bytes, rows: Ints
) -> tuple[int, int]:
    """Write the row of each probe (ascending) in its block of its body, -1 where absent or where the block is -1.

    A block whose keys are not all of one length is searched by bisection; the caller has checked it. Returns a body and
    its page that is corrupt, or -1 and -1.
    """
    rows[:] = -1
    group = np.empty(_GROUP, _GUESS)
    bad = np.full(2, -1, np.int64)
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
                equal_lengths = has_equal_lengths(table, body)
                if equal_lengths or _is_even(offsets, low, high, block, even_blocks(table, body)):
                    width = offsets[low + 1] - offsets[low]
                    if end - start == width:
                        group[held].probe = p
                        group[held].body = body
                        group[held].block = block
                        group[held].low = low
                        group[held].count = high - low
                        group[held].first = offsets[low]
                        group[held].width = width
                        first = offsets[low]
                        known = not equal_lengths or is_known(table, body, block, first, first + (high - low) * width)
                        group[held].unchecked = 0 if known else 1
                        held += 1
                else:
                    data = row_data(table, body)
                    at = search(offsets, data, max(at, low), high, probes, start, end, False)
                    if at < high and equal(data, offsets[at], offsets[at + 1], probes, start, end):
                        rows[p] = at
            p += 1
        possible = _first_guesses(table, probe_offsets, probes, group, held)
        for _ in range(_CORRECTIONS):
            _correct_guesses(table, group, possible, bad)
        _search_from_guesses(table, probe_offsets, probes, group, possible, rows, bad)
        if bad[0] >= 0:
            return bad[0], bad[1]
    return -1, -1
