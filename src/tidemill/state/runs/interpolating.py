"""Interpolation search in blocks of sorted byte strings of one length, many probes at a time.

Keys are spread about evenly, since they begin with a vnode, so the place of a probe is guessed from the fences of its
block and corrected a few times. Each guess is in a cache line of its own, and memory latency dominates: so the probes
of a group take each step together, and their loads, which do not depend on each other, overlap. Source: group
prefetching in "Improving Hash Join Performance through Prefetching", Chen, Ailamaki, Gibbons, Mowry 2004.

Keys and fences are read eight bytes at a time by their addresses, also where less of them is left: a file goes on
behind them.
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
    Words,
    called,
    compare,
    equal,
    head_mask,
    inlined,
    kernel,
    load64_at,
    load_word,
    prefetch,
)
from tidemill.state.keys.run_table import RUN_TABLE
from tidemill.state.runs.body import (
    block_rows,
    body_rows,
    even_blocks,
    fence_address,
    fence_offsets,
    key_address,
    key_width,
    row_data,
    row_offsets,
)
from tidemill.state.runs.pages import check_bytes, fetch_ahead
from tidemill.state.runs.searching import search

_CORRECTIONS = 1
"""How often a guess is corrected by the key found there."""
_WINDOW = 8
"""Rows around the last guess that are all compared, without a branch that depends on them."""
_GROUP = 64
"""Probes that take a step together."""
_INTS = ("probe", "body", "low", "last", "keys", "width", "fence", "span", "shared", "guess")
_GUESS = np.dtype(
    [(name, np.int64) for name in _INTS]
    + [("word", np.uint64), ("mask", np.uint64), ("least", np.uint64), ("distance", np.float64), ("scale", np.float64)]
)
"""A probe, the block it is in if it exists (its body, first row, number of rows less one, the address of its keys and
their length), the address of the fence where the block begins, how many rows are between that and the next one, how
many bytes these two share, and the guess: in words of bytes of the key after those shared, which the mask has."""


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
def _guess(table: Words, probe_offsets: Ints, probes: Bytes, group: Any, held: int) -> None:
    """Guess where probes are between the fences of their blocks, which are not greater and not less than they."""
    for i in range(held):
        g = group[i]
        fence = g.fence
        width = g.width
        before = group[i - 1]
        if i and fence == before.fence:
            shared = before.shared
            mask = before.mask
            least = before.least
            scale = before.scale
        else:
            shared = np.int64(0)
            while (
                shared < width and (load64_at(fence + shared) ^ load64_at(fence + width + shared)) >> np.uint64(56) == 0
            ):
                shared += 1
            mask = head_mask(width - shared)
            least = load64_at(fence + shared) & mask
            greatest = load64_at(fence + width + shared) & mask
            scale = g.span / np.float64(greatest - least) if greatest > least else 0.0
        start = probe_offsets[g.probe]
        word = load_word(probes, start + shared, start + width)
        distance = np.float64(word - least)
        g.shared = shared
        g.mask = mask
        g.least = least
        g.scale = scale
        g.word = word
        g.distance = distance
        guess = min(max(np.int64(distance * scale), 0), g.last)
        g.guess = guess
        fetch_ahead(table, g.body, g.keys + guess * width - np.int64(table[g.body, 0]))


@inlined
def _check(table: Words, body: int, address: int, size: int, bad: Ints) -> None:
    """Check some bytes of the keys of a body; ``bad`` gets the body and the page if one is corrupt."""
    start: Any = address - np.int64(table[body, 0])
    page = check_bytes(table, body, start, start + size)
    if page >= 0:
        bad[0] = body
        bad[1] = page


@inlined
def _is_before(table: Words, g: Any, row: int, bad: Ints) -> bool:
    """Whether the word of the key of a row of the block is less than that of the probe."""
    at = g.keys + row * g.width
    _check(table, g.body, at, g.width, bad)
    return bool(load64_at(at + g.shared) & g.mask < g.word)


@inlined
def _correct(table: Words, group: Any, held: int, bad: Ints) -> None:
    """Correct guesses by the distance of the keys there."""
    for i in range(held):
        g = group[i]
        at = g.keys + g.guess * g.width
        _check(table, g.body, at, g.width, bad)
        seen = load64_at(at + g.shared) & g.mask
        ahead = np.float64(seen - g.least) if seen > g.least else 0.0
        guess = min(max(g.guess + np.int64((g.distance - ahead) * g.scale), 0), g.last)
        g.guess = guess
        prefetch(g.keys + (guess - _WINDOW // 2) * g.width)
        prefetch(g.keys + (guess + _WINDOW // 2) * g.width)


@called
def _first_not_before(table: Words, g: Any, guess: int, bad: Ints) -> Any:
    """The first row of the block whose word is not less than that of the probe, or the last one.

    Goes from a guess, in steps that double, to either side.
    """
    step = 1
    last = g.last
    if _is_before(table, g, guess, bad):
        low = min(guess + 1, last)
        high = low
        while high < last and _is_before(table, g, high, bad):
            low = high + 1
            high = min(high + step, last)
            step *= 2
    else:
        high = guess
        low = max(0, high - 1)
        while low > 0 and not _is_before(table, g, low, bad):
            high = low
            low = max(0, low - step)
            step *= 2
    while low < high:
        middle = (low + high) >> 1
        if _is_before(table, g, middle, bad):
            low = middle + 1
        else:
            high = middle
    return low


@called
def _among_equal_words(table: Words, probe: Bytes, start: int, g: Any, row: int, bad: Ints) -> int:
    """The first row from one on whose whole key is not less than the probe, or the last one."""
    data = row_data(table, g.body)
    base = g.keys - key_address(table, g.body)
    high = g.last
    while row < high:
        middle = (row + high) >> 1
        at = base + middle * g.width
        _check(table, g.body, g.keys + middle * g.width, g.width, bad)
        if compare(data, at, at + g.width, probe, start, start + g.width) < 0:
            row = middle + 1
        else:
            high = middle
    return row


@inlined
def _finish(table: Words, probe_offsets: Ints, probes: Bytes, group: Any, held: int, rows: Ints, bad: Ints) -> None:
    """Search from the guesses, and write the rows of the probes that exist."""
    for i in range(held):
        g = group[i]
        keys = g.keys
        width = g.width
        shared = g.shared
        mask = g.mask
        word = g.word
        last = g.last
        row = g.guess
        apart = True
        if last >= _WINDOW - 1:
            low = max(min(row - _WINDOW // 2, last - (_WINDOW - 1)), 0)
            _check(table, g.body, keys + low * width, _WINDOW * width, bad)
            at = keys + low * width + shared
            row = low
            for _ in range(_WINDOW):
                row += 1 if load64_at(at) & mask < word else 0
                at += width
            apart = (row == low and low > 0) or (row == low + _WINDOW and row <= last)
            row = min(row, last)
        if apart:
            row = _first_not_before(table, g, row, bad)
        at = keys + row * width
        _check(table, g.body, at, width, bad)
        if load64_at(at + shared) & mask != word:
            continue
        if width > shared + 8:
            start = probe_offsets[g.probe]
            data = row_data(table, g.body)
            base = keys - key_address(table, g.body)
            if not equal(data, base + row * width, base + (row + 1) * width, probes, start, start + width):
                row = _among_equal_words(table, probes, start, g, row, bad)
                at = base + row * width
                _check(table, g.body, keys + row * width, width, bad)
                if not equal(data, at, at + width, probes, start, start + width):
                    continue
        rows[g.probe] = g.low + row


@kernel(types.tuple_of((types.int64, types.int64)), RUN_TABLE, I64, I64, I64, U8, I64_OUT)
def locate_within(
    table: Words, bodies: Ints, blocks: Ints, probe_offsets: Ints, probes: Bytes, rows: Ints
) -> tuple[int, int]:
    """Write the row of each probe (ascending) in its block of its body, if it is there; not if the block is -1.

    Keys are checked as they are compared. A block whose keys are not all of one length is searched by bisection: that,
    and all offsets and fences, must be checked before. Returns a body and its page that is corrupt, or -1 and -1.
    """
    group = np.empty(_GROUP, _GUESS)
    bad = np.full(2, -1, np.int64)
    at = 0
    body = -1
    p = 0
    while p < rows.size:
        held = 0
        while p < rows.size and held < _GROUP:
            block = blocks[p]
            if block < 0:
                p += 1
                continue
            if body != bodies[p]:
                body = bodies[p]
                at = 0
            size = block_rows(table, body)
            low = block * size
            high = min(low + size, body_rows(table, body))
            start = probe_offsets[p]
            end = probe_offsets[p + 1]
            width = key_width(table, body)
            first = low * width
            fence = block * width
            even = width > 0
            if not even:
                offsets = row_offsets(table, body)
                fences = fence_offsets(table, body)
                width = offsets[low + 1] - offsets[low]
                first = offsets[low]
                fence = fences[block]
                even = (
                    width > 0
                    and fences[block + 2] - fences[block + 1] == width
                    and _is_even(offsets, low, high, block, even_blocks(table, body))
                )
                if not even:
                    data = row_data(table, body)
                    at = search(offsets, data, max(at, low), high, probes, start, end, False)
                    if at < high and equal(data, offsets[at], offsets[at + 1], probes, start, end):
                        rows[p] = at
            if even and end - start == width:
                g = group[held]
                g.probe = p
                g.body = body
                g.low = low
                g.last = high - low - 1
                g.keys = key_address(table, body) + first
                g.width = width
                g.fence = fence_address(table, body) + fence
                g.span = high - low if high - low == size else high - low - 1
                held += 1
            p += 1
        _guess(table, probe_offsets, probes, group, held)
        for _ in range(_CORRECTIONS):
            _correct(table, group, held, bad)
        _finish(table, probe_offsets, probes, group, held, rows, bad)
        if bad[0] >= 0:
            return bad[0], bad[1]
    return -1, -1
