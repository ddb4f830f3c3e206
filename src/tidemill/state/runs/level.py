"""Searches of several runs in files at once, whose ranges of keys are disjoint: those of a level.

A probe can be in one of them only. Kernels go through probes and runs together, so that a call costs the same for a
hundred runs as for one, and the steps of interpolation of probes of different runs overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import I64, I64_GRID, I64_OUT, U8, U64, Bytes, Ints, Words, compare, equal, kernel
from tidemill.state.keys.keys import Keys
from tidemill.state.keys.run_table import RUN_TABLE
from tidemill.state.runs.body import (
    MANY,
    SAMPLE,
    Body,
    check_block,
    check_fences,
    check_filter,
    check_values,
    fence_data,
    fence_offsets,
    filter_words,
)
from tidemill.state.runs.filters import has
from tidemill.state.runs.interpolating import locate_within
from tidemill.state.runs.places import Hits, row_at, run_at
from tidemill.state.runs.searching import search

_NO_HASHES = np.empty(0, np.uint64)


@kernel(types.tuple_of((types.int64, types.int64)), RUN_TABLE, I64, U8, U64, I64_OUT, I64_OUT)
def _find_blocks(
    table: Words, probe_offsets: Ints, probes: Bytes, hashes: Words, bodies: Ints, blocks: Ints
) -> tuple[int, int]:
    """Write the body and the block where each probe would be; the block is -1 if it is in none, or a filter says so.

    Without ``hashes`` filters are not asked. All that is read is checked, and the keys of the blocks too. Returns a
    body and its page that is corrupt, or -1 and -1.
    """
    entered = -1
    r = 0
    at = 0
    for p in range(blocks.size):
        start = probe_offsets[p]
        end = probe_offsets[p + 1]
        blocks[p] = -1
        while r < table.shape[0]:
            if entered != r:
                bad = check_fences(table, r)
                if bad >= 0:
                    return r, bad
                entered = r
                at = 0
            offsets = fence_offsets(table, r)
            last = offsets.size - 2
            if compare(fence_data(table, r), offsets[last], offsets[last + 1], probes, start, end) >= 0:
                break
            r += 1
        bodies[p] = r
        if r == table.shape[0]:
            continue
        offsets = fence_offsets(table, r)
        data = fence_data(table, r)
        last = offsets.size - 2
        at = search(offsets, data, at, last, probes, start, end, False)
        block = at
        if at == last or not equal(data, offsets[at], offsets[at + 1], probes, start, end):
            block = at - 1
        if block < 0:
            continue
        if hashes.size:
            words = filter_words(table, r)
            if words.size:
                bad = check_filter(table, r, hashes[p])
                if bad >= 0:
                    return r, bad
                if not has(words, hashes[p]):
                    continue
        bad = check_block(table, r, block)
        if bad >= 0:
            return r, bad
        blocks[p] = block
    return -1, -1


@kernel(types.tuple_of((types.int64, types.int64)), RUN_TABLE, I64, I64, I64_GRID)
def _check_hits(table: Words, numbers: Ints, starts: Ints, hits: Hits) -> tuple[int, int]:
    """Check the values at some places of runs that have a number in the table, -1 if they have none, and a start there.

    Returns a number and a page that is corrupt, or -1 and -1.
    """
    for g in range(hits.shape[0]):
        for p in range(hits.shape[1]):
            if hits[g, p] >= 0:
                run = run_at(hits[g, p])
                if numbers[run] >= 0:
                    bad = check_values(table, numbers[run], row_at(hits[g, p]) + starts[run])
                    if bad >= 0:
                        return numbers[run], bad
    return -1, -1


def locate_by_index(runs: Sequence[Body], probes: Keys, hashes: Callable[[], Words]) -> tuple[Ints, Ints]:
    """Where some keys are in runs whose ranges of keys are disjoint, searched by their indexes.

    Parameters
    ----------
    runs : sequence of Body
        At least one, ascending.
    probes : Keys
        n keys, ascending and unique.
    hashes : callable
        Gives the hashes of the probes (uint64[n]).

    Returns
    -------
    runs : np.ndarray
        int64[n]: the number of the only run that can have each probe.
    rows : np.ndarray
        int64[n]: its row there, -1 where absent.

    Raises
    ------
    TidemillError
        TM1011 when what was to be read is corrupt.
    """
    table = np.stack([run.addresses for run in runs])
    bodies, blocks = _blocks(runs, table, probes, _filtering(runs, table, probes, hashes))
    return bodies, locate_within(table, bodies, blocks, probes.offsets, probes.data)


def check_hits(bodies: Mapping[int, tuple[Body, int]], runs: int, hits: Hits) -> None:
    """Check the values at places in runs whose columns have fixed widths. TM1011 when one is corrupt.

    Parameters
    ----------
    bodies : dict
        By the number of a run its body and its first row there, ascending; other runs are left out.
    runs : int
        How many runs there are.
    hits : np.ndarray
        int64[groups, probes]: places, or -1.
    """
    numbers, starts = np.full(runs, -1, np.int64), np.zeros(runs, np.int64)
    for number, (run, (_, start)) in enumerate(bodies.items()):
        numbers[run], starts[run] = number, start
    table = np.stack([body.addresses for body, _ in bodies.values()])
    bad, page = _check_hits(table, numbers, starts, hits)
    if bad >= 0:
        list(bodies.values())[bad][0].pages.require(page)


def _blocks(runs: Sequence[Body], table: Words, probes: Keys, hashes: Words) -> tuple[Ints, Ints]:
    bodies, blocks = np.empty(len(probes), np.int64), np.empty(len(probes), np.int64)
    bad, page = _find_blocks(table, probes.offsets, probes.data, hashes, bodies, blocks)
    if bad >= 0:
        runs[bad].pages.require(page)
    return bodies, blocks


def _filtering(runs: Sequence[Body], table: Words, probes: Keys, hashes: Callable[[], Words]) -> Words:
    """The hashes if filters are worth using: they reject most of many probes, or these are few."""
    if not any(run.has_filter for run in runs):
        return _NO_HASHES
    if len(probes) < MANY:
        return hashes()
    some = np.arange(0, len(probes), len(probes) // SAMPLE)
    _, blocks = _blocks(runs, table, probes.take(some), np.ascontiguousarray(hashes()[some]))
    return hashes() if 2 * int(np.count_nonzero(blocks >= 0)) < len(blocks) else _NO_HASHES
