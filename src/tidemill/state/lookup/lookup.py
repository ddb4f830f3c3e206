"""Reading keys and key prefixes across several sorted runs without copying a run.

Everywhere: runs are oldest first and sorted with unique keys, probes and prefixes are sorted and unique, and
the first value column is the weight. A probe searches from where the one before it ended (exponential
search), so a batch of probes costs about log(gap) comparisons each and touches only the pages it needs. Of a larger
run in a file the index is searched first, and only the blocks that can have a probe are checked and read.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.kernels.words import Bools, Ints, Words
from tidemill.state.keys.keys import Keys, hash64
from tidemill.state.keys.run_table import addresses
from tidemill.state.lookup.hits import combine_hits
from tidemill.state.lookup.levels import Level, groups_of, rows_with
from tidemill.state.merge.combining import summable
from tidemill.state.merge.merge import Rows, merge
from tidemill.state.merge.operations import MergeOp, columns_by_op
from tidemill.state.runs.mapped import Mapped
from tidemill.state.runs.places import make_places, rows_at
from tidemill.state.runs.searching import (
    append_byte,
    expand,
    first_rows,
    locate,
    locate_prefixes,
    owners_of,
    prefix_ranges,
)


def _absent(op: MergeOp, type_: pa.DataType, rows: int) -> pa.Array[Any]:
    """The values of keys that do not exist."""
    return column(np.zeros(rows, type_.to_pandas_dtype())) if op.is_sum else pa.nulls(rows, cast("Any", type_))


def _nothing(
    ops: Sequence[MergeOp], value_types: Sequence[pa.DataType], probes: int
) -> tuple[Bools, tuple[pa.Array[Any], ...]]:
    columns = [_absent(op, value_types[at + i], probes) for op, at in columns_by_op(ops) for i in range(op.columns)]
    return np.zeros(probes, np.bool_), tuple(columns)


class _Hashes:
    """The hashes of some keys, computed on first use."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._hashes: Words | None = None

    def __call__(self) -> Words:
        if self._hashes is None:
            self._hashes = hash64(self._keys)
        return self._hashes

    def take(self, rows: Ints) -> _Hashes:
        """The hashes of some of the keys."""
        taken = _Hashes(self._keys)
        taken._hashes = self()[rows]
        return taken


_MANY = 1024
"""From so many probes on, those that a newer run has are not looked up in older ones."""


def _locate(runs: Sequence[Rows], group: range, probes: Keys, hashes: _Hashes) -> Ints:
    """The place of each probe in a group of runs, -1 where absent."""
    if len(group) > 1:
        return Level(runs, group).locate(probes, hashes)
    run = runs[group.start]
    if isinstance(run, Mapped):
        rows = run.locate(probes, hashes)
    else:
        rows = locate(run.keys.offsets, run.keys.data, probes.offsets, probes.data)
    if group.start:
        make_places(rows, group.start)
    return rows


def _newest_first(runs: Sequence[Rows], groups: Sequence[range], probes: Keys, hashes: _Hashes) -> Ints:
    """Places by group and probe; probes that newer runs have may be left out of older ones."""
    hits = np.full((len(groups), len(probes)), -1, np.int64)
    at, missing = np.arange(len(probes)), np.ones(len(probes), np.bool_)
    for g in reversed(range(len(groups))):
        places = _locate(runs, groups[g], probes, hashes)
        hits[g, at] = places
        missing &= places < 0
        if g and 4 * np.count_nonzero(missing) <= 3 * len(missing):
            left = np.flatnonzero(missing)
            if not len(left):
                break
            probes, at, hashes = probes.take(left), at[left], hashes.take(left)
            missing = np.ones(len(left), np.bool_)
    return hits


def get(
    runs: Sequence[Rows],
    probes: Keys,
    ops: Sequence[MergeOp],
    value_types: Sequence[pa.DataType],
    drop_zero: bool = True,
) -> tuple[Bools, tuple[pa.Array[Any], ...]]:
    """Look keys up.

    Parameters
    ----------
    runs : sequence of Rows
        Oldest first.
    probes : Keys
        n keys, ascending and unique.
    ops : sequence of MergeOp
        How to combine the values of a key that several runs have.
    value_types : sequence of pa.DataType
        Types of the value columns.
    drop_zero : bool
        Whether a key whose weight (first column) is 0 after combining counts as not found.

    Returns
    -------
    found : np.ndarray
        bool[n]: some run has the key, and its weight is not 0 or does not matter.
    values : tuple of pa.Array
        Columns of n combined values; where not found 0 for sums, else NULL.
    """
    filled = [run for run in runs if len(run)]
    if not filled:
        return _nothing(ops, value_types, len(probes))
    hashes, groups = _Hashes(probes), groups_of(filled, len(probes))
    if len(groups) > 1 and len(probes) >= _MANY and all(op is MergeOp.LAST for op in ops):
        hits = _newest_first(filled, groups, probes, hashes)
        return combine_hits(filled, hits, ops, drop_zero and bool(value_types), groups)
    hits = np.empty((len(groups), len(probes)), np.int64)
    for g, group in enumerate(groups):
        hits[g] = _locate(filled, group, probes, hashes)
    if hits.size and hits.max() < 0:
        return _nothing(ops, value_types, len(probes))
    return combine_hits(filled, hits, ops, drop_zero and bool(value_types), groups)


def _types(runs: Sequence[Rows], value_types: Sequence[pa.DataType] | None) -> Sequence[pa.DataType]:
    if value_types is not None:
        return value_types
    if not runs:
        raise ValueError("without runs the types of the values must be given")
    return runs[0].value_types()


def scan_prefix(
    runs: Sequence[Rows],
    prefixes: Keys,
    ops: Sequence[MergeOp],
    drop_zero: bool = True,
    value_types: Sequence[pa.DataType] | None = None,
) -> tuple[Ints, Rows]:
    """All rows whose key starts with one of the prefixes.

    Parameters
    ----------
    runs : sequence of Rows
        Oldest first.
    prefixes : Keys
        Ascending, unique, none a prefix of another.
    ops : sequence of MergeOp
        How to combine the values of a key that several runs have.
    drop_zero : bool
        Whether to drop keys whose weight (first column) is 0 after combining.
    value_types : sequence of pa.DataType, optional
        Types of the value columns, needed if there may be no run.

    Returns
    -------
    probes : np.ndarray
        int64[m], for each row the index of its prefix.
    rows : Rows
        m combined rows by prefix, then key.
    """
    selected = []
    for group in groups_of(runs, len(prefixes)):
        if len(group) > 1:
            selected += Level(runs, group).rows_with(prefixes)
            continue
        run = runs[group.start]
        rows = expand(*rows_with(run, prefixes))
        if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
            selected.append(run.slice(int(rows[0]), int(rows[-1]) + 1))
        elif len(rows):
            selected.append(run.take(rows))
    if not selected:
        columns = tuple(pa.nulls(0, cast("Any", type_)) for type_ in _types(runs, value_types))
        return np.empty(0, np.int64), Rows(Keys.empty(), columns)
    merged = merge(selected, ops, drop_zero)
    keys = merged.keys
    return owners_of(keys.offsets, keys.data, prefixes.offsets, prefixes.data), merged


def first_with_prefix(
    runs: Sequence[Rows],
    prefixes: Keys,
    reverse: bool,
    ops: Sequence[MergeOp],
    skip_null: bool = False,
    value_types: Sequence[pa.DataType] | None = None,
) -> tuple[Bools, Keys, tuple[pa.Array[Any], ...]]:
    """The first key with each prefix whose combined weight is positive.

    Reads as many keys as it must skip, not the whole prefix.

    Parameters
    ----------
    runs : sequence of Rows
        Oldest first; the first value column is the int64 weight.
    prefixes : Keys
        n prefixes, ascending, unique, none a prefix of another.
    reverse : bool
        Whether to take the last such key instead.
    ops : sequence of MergeOp
        How to combine the values of a key that several runs have.
    skip_null : bool
        Whether to skip keys whose next column is NULL, given it is ascending with NULLs first (byte 0x00).
    value_types : sequence of pa.DataType, optional
        Types of the value columns, needed if there may be no run.

    Returns
    -------
    found : np.ndarray
        bool[n].
    keys : Keys
        n keys, empty where not found.
    values : tuple of pa.Array
        Columns of n combined values; where not found 0 for sums, else NULL.
    """
    n = len(prefixes)
    filled = [run for run in runs if len(run)]
    if not filled:
        found, values = _nothing(ops, _types(runs, value_types), n)
        return found, Keys(np.zeros(n + 1, np.int64), np.empty(0, np.uint8)), values
    lows = Keys(*append_byte(prefixes.offsets, prefixes.data, 1)) if skip_null else prefixes
    rows = _first_rows(filled, lows, prefixes, reverse)
    hits = np.ascontiguousarray(rows.T)
    for r in range(1, len(filled)):
        make_places(hits[r], r)
    found, values = combine_hits(filled, hits, ops, drop_zero=True)
    parts = [Keys(np.zeros(2, np.int64), np.empty(0, np.uint8))]
    source = np.zeros(n, np.int64)
    count = 1
    for run, hit in zip(filled, hits):
        which = np.flatnonzero(hit >= 0)
        parts.append(run.take_keys(rows_at(hit[which])))
        source[which] = count + np.arange(len(which))
        count += len(which)
    return found, Keys.concat(parts).take(source), values


def _first_rows(runs: Sequence[Rows], lows: Keys, prefixes: Keys, reverse: bool) -> Ints:
    """Row of the winner of each prefix in each run (int64[prefixes, runs]), -1 where a run does not have it."""
    bodies = [run.body if isinstance(run, Mapped) and not run.body.pages.complete else None for run in runs]
    keys = [run.unchecked_keys if isinstance(run, Mapped) else run.keys for run in runs]
    weights = [
        run.values[0] if body is None or not isinstance(run, Mapped) else body.values[0].slice(run.start, len(run))
        for run, body in zip(runs, bodies)
    ]
    numbers = [summable(w, np.int64) for w in weights]
    offsets, data = addresses([k.offsets for k in keys]), addresses([k.data for k in keys])
    sizes, data_sizes = np.array([len(run) for run in runs]), np.array([len(k.data) for k in keys])
    levels = [g for g in groups_of(runs, len(prefixes)) if len(g) > 1]
    later = {*(r for r, body in enumerate(bodies) if body), *itertools.chain.from_iterable(levels)}
    here = np.array([0 if r in later else len(run) for r, run in enumerate(runs)])
    begin, finish = prefix_ranges(
        offsets, data, here, data_sizes, lows.offsets, lows.data, prefixes.offsets, prefixes.data
    )
    opened = [_OPEN] * len(runs)
    block_sizes, starts = np.full(len(runs), _NEVER), np.zeros(len(runs), np.int64)
    for group in levels:
        which, owners, firsts, ends = Level(runs, group).ranges(lows, prefixes)
        begin[owners, which], finish[owners, which] = firsts, ends
        later -= set(group)
    for r, (run, body) in enumerate(zip(runs, bodies)):
        if body is not None and isinstance(run, Mapped):
            if r in later:
                begin[:, r], finish[:, r] = run.bounds(lows, False), run.bounds(prefixes, True)
            first = np.flatnonzero(begin[:, r] < finish[:, r])
            edge = finish[first, r] - 1 if reverse else begin[first, r]
            body.open_blocks((edge + run.start) // body.block)
            opened[r], block_sizes[r], starts[r] = body.walkable, body.block, run.start
    found = np.full(begin.shape, -1, np.int64)
    columns = (offsets, data, addresses(numbers), sizes, data_sizes)
    blocks = (addresses(opened), block_sizes, starts)
    at, ahead = 0, 1
    while True:
        at, r = first_rows(found, *columns, *blocks, begin, finish, reverse, at)
        if at < 0:
            return found
        body = bodies[r]
        assert body is not None
        block = int(found[at, r] + starts[r]) // body.block
        more = block - np.arange(ahead) if reverse else block + np.arange(ahead)
        body.open_blocks(more[(more >= 0) & (more < len(body.walkable))])
        ahead *= 2


_OPEN = np.ones(1, np.uint8)
_NEVER = np.iinfo(np.int64).max


def lower_bound(run: Rows, key: bytes) -> int:
    """The first row of a run whose key is not less than another."""
    probe = Keys(np.array([0, len(key)], np.int64), np.frombuffer(key, np.uint8))
    if isinstance(run, Mapped):
        return int(run.bounds(probe, False)[0])
    return int(locate_prefixes(run.keys.offsets, run.keys.data, probe.offsets, probe.data)[0][0])


def vnode_rows(run: Rows, low: int, high: int) -> tuple[int, int]:
    """As :func:`vnode_range`, of a run."""
    if not isinstance(run, Mapped):
        return vnode_range(run.keys, low, high)
    if low >= high:
        return 0, 0
    offsets = np.arange(0, 6, 2)
    ends = b"".join(min(vnode, 0xFFFF).to_bytes(2, "big") for vnode in (low, high))
    start, stop = run.bounds(Keys(offsets, np.frombuffer(ends, np.uint8)), False).tolist()
    return start, len(run) if high > 0xFFFF else stop


def vnode_range(keys: Keys, low: int, high: int) -> tuple[int, int]:
    """Range of rows of a sorted run whose vnode is in ``[low, high)``; ``high`` is at most 65536."""

    def first(vnode: int) -> int:
        left, right = 0, len(keys)
        while left < right:
            middle = (left + right) >> 1
            at = int(keys.offsets[middle])
            if (int(keys.data[at]) << 8) | int(keys.data[at + 1]) < vnode:
                left = middle + 1
            else:
                right = middle
        return left

    return first(low), first(high)
