"""Searches of several runs in files at once, whose ranges of keys are disjoint: those of a level.

A probe can be in one of them only. Kernels go through probes and runs together, so that a call costs the same for a
hundred runs as for one, and the steps of interpolation of probes of different runs overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import BOOL_OUT, I64, I64_OUT, U8, U64, Bools, Bytes, Ints, Words, compare, equal, kernel
from tidemill.state.keys.keys import Keys
from tidemill.state.keys.run_table import RUN_TABLE
from tidemill.state.runs.body import (
    MANY,
    SAMPLE,
    Body,
    fence_data,
    fence_offsets,
    filter_words,
    known_blocks,
)
from tidemill.state.runs.filters import has
from tidemill.state.runs.interpolating import locate_within
from tidemill.state.runs.searching import search

_NO_HASHES = np.empty(0, np.uint64)


@kernel(types.void, RUN_TABLE, I64, U8, U64, I64_OUT, I64_OUT, BOOL_OUT)
def _find_blocks(
    table: Words, probe_offsets: Ints, probes: Bytes, hashes: Words, bodies: Ints, blocks: Ints, unknown: Bools
) -> None:
    """Write the body and the block where each probe would be; the block is -1 if it is in none, or a filter says so.

    Without ``hashes`` filters are not asked. ``unknown`` becomes True where a block was not checked.
    """
    r = 0
    at = 0
    for p in range(blocks.size):
        start = probe_offsets[p]
        end = probe_offsets[p + 1]
        blocks[p] = -1
        while r < table.shape[0]:
            offsets = fence_offsets(table, r)
            last = offsets.size - 2
            if compare(fence_data(table, r), offsets[last], offsets[last + 1], probes, start, end) >= 0:
                break
            r += 1
            at = 0
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
            if words.size and not has(words, hashes[p]):
                continue
        blocks[p] = block
        if known_blocks(table, r)[block] == 0:
            unknown[r] = True


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
    """
    table = np.stack([run.addresses for run in runs])
    found = _blocks(runs, table, probes, _filtering(runs, table, probes, hashes))
    bodies, blocks, unknown = found
    for r in np.flatnonzero(unknown).tolist():
        first, end = np.searchsorted(bodies, np.array([r, r + 1]))
        some = blocks[first:end]
        runs[r].check_blocks(some[some >= 0])
    return bodies, locate_within(table, bodies, blocks, probes.offsets, probes.data)


def _blocks(runs: Sequence[Body], table: Words, probes: Keys, hashes: Words) -> tuple[Ints, Ints, Bools]:
    bodies, blocks = np.empty(len(probes), np.int64), np.empty(len(probes), np.int64)
    unknown = np.zeros(len(runs), np.bool_)
    _find_blocks(table, probes.offsets, probes.data, hashes, bodies, blocks, unknown)
    return bodies, blocks, unknown


def _filtering(runs: Sequence[Body], table: Words, probes: Keys, hashes: Callable[[], Words]) -> Words:
    """The hashes if filters are worth using: they reject most of many probes, or these are few."""
    if not any(run.has_filter for run in runs):
        return _NO_HASHES
    if len(probes) < MANY:
        return hashes()
    some = np.arange(0, len(probes), len(probes) // SAMPLE)
    _, blocks, _ = _blocks(runs, table, probes.take(some), np.ascontiguousarray(hashes()[some]))
    return hashes() if 2 * int(np.count_nonzero(blocks >= 0)) < len(blocks) else _NO_HASHES
