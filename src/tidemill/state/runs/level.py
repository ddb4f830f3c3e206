"""Searches of several runs in files at once, whose ranges of keys are disjoint: those of a level.

A probe can be in one of them only. Kernels go through probes and runs together, so that the steps of interpolation of
probes of different runs overlap, and there is no call for each run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import (
    I64,
    I64_GRID,
    I64_OUT,
    U8,
    U8_OUT,
    U64,
    Bytes,
    Ints,
    Words,
    compare,
    copy_bytes,
    equal,
    inlined,
    kernel,
)
from tidemill.state.keys.keys import Keys
from tidemill.state.keys.run_table import RUN_TABLE
from tidemill.state.runs.body import (
    EDGE,
    FEW,
    Body,
    block_rows,
    check_block,
    check_fences,
    check_filter,
    edge,
    fence_data,
    fence_offsets,
    filter_words,
    have_filters,
    key_width,
    row_data,
    row_offsets,
    sample,
)
from tidemill.state.runs.filters import has
from tidemill.state.runs.flat_columns import FLAT, Flat, check_flat_rows, fetch_row_ahead
from tidemill.state.runs.interpolating import locate_within
from tidemill.state.runs.places import Hits, row_at, run_at
from tidemill.state.runs.searching import WHOLE, first_above, search

_GRID_OUT = types.array(types.int64, 2, "C")
_NO_HASHES = np.empty(0, np.uint64)
_AHEAD = 2
"""So many rows before it is checked a row is fetched: several columns of it are as many cache misses."""


@kernel(types.tuple_of((types.int64, types.int64)), RUN_TABLE, I64, U8, U64, I64_OUT, I64_OUT)
def _find_blocks(
    table: Words, probe_offsets: Ints, probes: Bytes, hashes: Words, bodies: Ints, blocks: Ints
) -> tuple[int, int]:
    """Write the body and the block where each probe would be; the block is -1 if it is in none, or a filter says so.

    Without ``hashes`` filters are not asked. All that is read is checked, and so are the blocks that bisection may
    search: those of bodies whose keys have several lengths. Returns a body and its page that is corrupt, or -1 and -1.
    """
    p = 0
    for r in range(table.shape[0]):
        low = edge(table, r, False)
        while p < blocks.size and compare(low, 0, low.size, probes, probe_offsets[p], probe_offsets[p + 1]) > 0:
            blocks[p] = -1  # after the body before, but not in this one
            p += 1
        high = edge(table, r, True)
        start = probe_offsets[p]
        if p == blocks.size or compare(high, 0, high.size, probes, start, min(probe_offsets[p + 1], start + EDGE)) < 0:
            continue  # its index is not read
        bad = check_fences(table, r)
        if bad >= 0:
            return r, bad
        offsets = fence_offsets(table, r)
        data = fence_data(table, r)
        words = filter_words(table, r)
        filtered = hashes.size > 0 and words.size > 0
        leaves_out = key_width(table, r) > 0
        last = offsets.size - 2
        at = 0
        known = -1
        while p < blocks.size:
            start = probe_offsets[p]
            end = probe_offsets[p + 1]
            at = first_above(offsets, data, at, last + 1, probes, start, end, 1, WHOLE)
            if at > last:
                if not equal(data, offsets[last], offsets[last + 1], probes, start, end):
                    break
                at = last
            bodies[p] = r
            block = at - 1
            if block >= 0 and filtered:
                bad = check_filter(table, r, hashes[p])
                if bad >= 0:
                    return r, bad
                if not has(words, hashes[p]):
                    block = -1
            if block > known and not leaves_out:
                known = block
                bad = check_block(table, r, block)
                if bad >= 0:
                    return r, bad
            blocks[p] = block
            p += 1
    blocks[p:] = -1
    return -1, -1


@kernel(types.tuple_of((types.int64, types.int64)), RUN_TABLE, I64, FLAT, I64_GRID)
def check_hits(table: Words, numbers: Ints, columns: Flat, hits: Hits) -> tuple[int, int]:
    """Check the values of columns of flat types at places in some runs.

    Parameters
    ----------
    table : np.ndarray
        uint64[bodies, 25]: the bodies of the runs to be checked.
    numbers : np.ndarray
        int64[runs]: which body each run has, -1 where it is not to be checked.
    columns : np.ndarray
        uint64[runs, columns, 6]: the columns of all runs.
    hits : np.ndarray
        int64[groups, probes]: places, or -1.

    Returns
    -------
    tuple of int
        A body and a page of it that is corrupt; -1 and -1 if there is none.
    """
    for g in range(hits.shape[0]):
        for p in range(hits.shape[1]):
            if p + _AHEAD < hits.shape[1] and hits[g, p + _AHEAD] >= 0:
                run = run_at(hits[g, p + _AHEAD])
                if numbers[run] >= 0:
                    fetch_row_ahead(table, numbers[run], columns, run, row_at(hits[g, p + _AHEAD]))
            if hits[g, p] >= 0:
                run = run_at(hits[g, p])
                if numbers[run] >= 0:
                    row = row_at(hits[g, p])
                    bad = check_flat_rows(table, numbers[run], columns, run, row, row + 1)
                    if bad >= 0:
                        return numbers[run], bad
    return -1, -1


def locate_by_index(
    runs: Sequence[Body], table: Words, probes: Keys, hashes: Callable[[], Words] | None
) -> tuple[Ints, Ints]:
    """Where some keys are in runs whose ranges of keys are disjoint, searched by their indexes.

    Parameters
    ----------
    runs : sequence of Body
        At least one, ascending.
    table : np.ndarray
        uint64[runs, 25]: the bodies of the runs as kernels take them.
    probes : Keys
        n keys, ascending and unique.
    hashes : callable, optional
        Gives the hashes of the probes (uint64[n]). Without it filters are not asked.

    Returns
    -------
    runs : np.ndarray
        int64[n]: the number of the run that has each probe, anything where none has it.
    rows : np.ndarray
        int64[n]: its row there, -1 where absent.

    Raises
    ------
    TidemillError
        TM1011 when what was to be read is corrupt.
    """
    asked = _NO_HASHES if hashes is None else _filtering(runs, table, probes, hashes)
    bodies, blocks = _blocks(runs, table, probes, asked)
    rows = np.full(len(probes), -1, np.int64)
    bad, page = locate_within(table, bodies, blocks, probes.offsets, probes.data, rows)
    if bad >= 0:
        runs[bad].pages.require(page)
    return bodies, rows


def _blocks(runs: Sequence[Body], table: Words, probes: Keys, hashes: Words) -> tuple[Ints, Ints]:
    bodies, blocks = np.empty(len(probes), np.int64), np.empty(len(probes), np.int64)
    bad, page = _find_blocks(table, probes.offsets, probes.data, hashes, bodies, blocks)
    if bad >= 0:
        runs[bad].pages.require(page)
    return bodies, blocks


def _filtering(runs: Sequence[Body], table: Words, probes: Keys, hashes: Callable[[], Words]) -> Words:
    """The hashes if filters are worth using: they reject most of many probes, or these are few."""
    if not have_filters(table):
        return _NO_HASHES
    if len(probes) < FEW:
        return hashes()
    some = sample(len(probes))
    _, blocks = _blocks(runs, table, probes.take(some), np.ascontiguousarray(hashes()[some]))
    return hashes() if 2 * int(np.count_nonzero(blocks >= 0)) < len(blocks) else _NO_HASHES


@kernel(types.tuple_of((types.int64, types.int64, types.int64)), RUN_TABLE, I64, U8, I64, U8, _GRID_OUT)
def _find_ranges(
    table: Words, low_offsets: Ints, lows: Bytes, prefix_offsets: Ints, prefixes: Bytes, found: Any
) -> tuple[int, int, int]:
    """Write body, prefix, first row and the row after the last of the ranges of rows with a prefix.

    A range begins with the first key not less than the low of its prefix. All that is read is checked. Returns how many
    ranges there are, and a body and its page that is corrupt, or -1 and -1.
    """
    count = 0
    first = 0
    probes = prefix_offsets.size - 1
    for r in range(table.shape[0]):
        low = edge(table, r, False)
        while first < probes:
            start = prefix_offsets[first]
            end = prefix_offsets[first + 1]
            if compare(low, 0, min(low.size, end - start), prefixes, start, end) <= 0:
                break
            first += 1
        if first == probes:
            break
        high = edge(table, r, True)
        start = prefix_offsets[first]
        if compare(high, 0, high.size, prefixes, start, min(prefix_offsets[first + 1], start + EDGE)) < 0:
            continue  # its index is not read
        bad = check_fences(table, r)
        if bad >= 0:
            return count, r, bad
        offsets = fence_offsets(table, r)
        data = fence_data(table, r)
        last = offsets.size - 2
        while first < probes:
            start = prefix_offsets[first]
            end = prefix_offsets[first + 1]
            if compare(data, offsets[0], min(offsets[1], offsets[0] + end - start), prefixes, start, end) <= 0:
                break
            first += 1
        p = first
        at = 0
        while p < probes:
            start = prefix_offsets[p]
            end = prefix_offsets[p + 1]
            if compare(data, offsets[last], offsets[last + 1], prefixes, start, end) < 0:
                break
            at = search(offsets, data, at, last, lows, low_offsets[p], low_offsets[p + 1], False)
            bad = check_block(table, r, max(at - 1, 0))
            if bad >= 0:
                return count, r, bad
            begin = _in_block_before(table, r, at, lows, low_offsets[p], low_offsets[p + 1], False)
            at = search(offsets, data, at, last, prefixes, start, end, True)
            bad = check_block(table, r, max(at - 1, 0))
            if bad >= 0:
                return count, r, bad
            finish = _in_block_before(table, r, at, prefixes, start, end, True)
            if begin < finish:
                found[count, 0] = r
                found[count, 1] = p
                found[count, 2] = begin
                found[count, 3] = finish
                count += 1
            p += 1
        first = max(first, p - 1)  # the last of them may go on in the next body
    return count, -1, -1


@inlined
def _in_block_before(table: Words, body: int, fence: int, probe: Bytes, start: int, end: int, past: bool) -> int:
    """The first row not less than a probe, or with ``past`` behind all with it, given the first such fence."""
    offsets = row_offsets(table, body)
    size = block_rows(table, body)
    high = min(fence * size, offsets.size - 1)
    return search(offsets, row_data(table, body), max(fence - 1, 0) * size, high, probe, start, end, past)


@kernel(types.tuple_of((types.int64, types.int64)), RUN_TABLE, I64, I64, I64_OUT)
def _key_ends(table: Words, bodies: Ints, rows: Ints, ends: Ints) -> tuple[int, int]:
    """Write where each of some keys ends when they are put together, and check them: as :func:`_find_blocks`."""
    at = 0
    for i in range(rows.size):
        bad = check_block(table, bodies[i], rows[i] // block_rows(table, bodies[i]))
        if bad >= 0:
            return bodies[i], bad
        offsets = row_offsets(table, bodies[i])
        at += offsets[rows[i] + 1] - offsets[rows[i]]
        ends[i] = at
    return -1, -1


@kernel(types.void, RUN_TABLE, I64, I64, I64, U8_OUT)
def _gather_keys(table: Words, bodies: Ints, rows: Ints, ends: Ints, out: Bytes) -> None:
    at = 0
    for i in range(rows.size):
        source = row_offsets(table, bodies[i])[rows[i]]
        copy_bytes(row_data(table, bodies[i]), source, out, at, ends[i] - at)
        at = ends[i]


def ranges_by_index(runs: Sequence[Body], table: Words, lows: Keys, prefixes: Keys) -> tuple[Ints, Ints, Ints, Ints]:
    """Ranges of rows with some prefixes in runs whose ranges of keys are disjoint, searched by their indexes.

    Parameters
    ----------
    runs : sequence of Body
        At least one, ascending.
    table : np.ndarray
        uint64[runs, 25]: the bodies of the runs as kernels take them.
    lows, prefixes : Keys
        n keys each; prefixes are ascending and none is a prefix of another. The range of a prefix begins with the first
        key that is not less than its low.

    Returns
    -------
    tuple of np.ndarray
        int64[m] each, by run, then prefix: the number of the run, the prefix, the first row and the one after the last.

    Raises
    ------
    TidemillError
        TM1011 when what was to be read is corrupt.
    """
    found = np.empty((len(prefixes) + len(runs), 4), np.int64)
    count, bad, page = _find_ranges(table, lows.offsets, lows.data, prefixes.offsets, prefixes.data, found)
    if bad >= 0:
        runs[bad].pages.require(page)
    numbers, owners, firsts, ends = np.ascontiguousarray(found[:count].T)
    return numbers, owners, firsts, ends


def keys_by_index(runs: Sequence[Body], table: Words, numbers: Ints, rows: Ints) -> Keys:
    """The keys of some rows, given the number of the run and the row in it; copied. TM1011 when one is corrupt."""
    offsets = np.zeros(len(rows) + 1, np.int64)
    bad, page = _key_ends(table, numbers, rows, offsets[1:])
    if bad >= 0:
        runs[bad].pages.require(page)
    data = np.empty(offsets[-1], np.uint8)
    _gather_keys(table, numbers, rows, offsets[1:], data)
    return Keys(offsets, data)
