"""Reading keys and key prefixes across several sorted runs without copying a run.

Everywhere: runs are oldest first and sorted with unique keys, probes and prefixes are sorted and unique, and
the first value column is the weight. A probe searches from where the one before it ended (exponential
search), so a batch of probes costs about log(gap) comparisons each and touches only the pages it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.state.columns import column
from tidemill.state.combining import MergeOp, columns_by_op, combine, summable
from tidemill.state.encoding import fixed
from tidemill.state.extremes import take_or_null
from tidemill.state.keys import Keys
from tidemill.state.merge import Rows, merge
from tidemill.state.searching import append_byte, expand, first_rows, locate, locate_prefixes, owners_of
from tidemill.state.words import Bools, Ints


def _absent(op: MergeOp, type_: pa.DataType, rows: int) -> pa.Array:
    """The values of keys that do not exist."""
    return column(np.zeros(rows, type_.to_pandas_dtype())) if op.is_sum else pa.nulls(rows, type_)


def _spread(values: pa.Array, positions: Ints, op: MergeOp) -> pa.Array:
    """Values by probe, from values of the probes that were found; position -1 where it was not."""
    if len(values) == len(positions):
        return values
    if not op.is_sum:
        return take_or_null(values, positions)
    found = positions >= 0
    dtype = values.type.to_pandas_dtype()
    result = np.zeros(len(positions), dtype)
    result[found] = fixed(values, dtype)
    return column(result)


def _combine_hits(
    runs: Sequence[Rows], hits: Sequence[Ints], ops: Sequence[MergeOp], probes: int, drop_zero: bool = True
) -> tuple[Bools, tuple[pa.Array, ...]]:
    """Combine the rows hit in each run (by probe, -1 where none), by default dropping zero weights; by probe."""
    chosen = [np.flatnonzero(rows >= 0) for rows in hits]
    owners = np.concatenate(chosen)
    taken = [column(rows[which]) for rows, which in zip(hits, chosen)]
    values = [
        pa.concat_arrays([column.take(index) for column, index in zip(columns, taken)])
        for columns in zip(*(run.values for run in runs))
    ]
    order = np.argsort(owners, kind="stable")
    owners = owners[order]
    starts = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]])) if len(owners) else owners
    kept, combined = combine(order, np.append(starts, len(owners)), values, ops, drop_zero and bool(values))
    positions = np.full(probes, -1, np.int64)
    positions[owners[starts[kept]]] = np.arange(len(kept))
    spread = tuple(_spread(combined[at + i], positions, op) for op, at in columns_by_op(ops) for i in range(op.columns))
    return positions >= 0, spread


def _nothing(
    ops: Sequence[MergeOp], value_types: Sequence[pa.DataType], probes: int
) -> tuple[Bools, tuple[pa.Array, ...]]:
    columns = [_absent(op, value_types[at + i], probes) for op, at in columns_by_op(ops) for i in range(op.columns)]
    return np.zeros(probes, np.bool_), tuple(columns)


def get(
    runs: Sequence[Rows],
    probes: Keys,
    ops: Sequence[MergeOp],
    value_types: Sequence[pa.DataType],
    drop_zero: bool = True,
) -> tuple[Bools, tuple[pa.Array, ...]]:
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
    hits = [locate(run.keys.offsets, run.keys.data, probes.offsets, probes.data) for run in filled]
    return _combine_hits(filled, hits, ops, len(probes), drop_zero)


def _types(runs: Sequence[Rows], value_types: Sequence[pa.DataType] | None) -> Sequence[pa.DataType]:
    if value_types is not None:
        return value_types
    if not runs:
        raise ValueError("without runs the types of the values must be given")
    return [column.type for column in runs[0].values]


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
    for run in runs:
        lows, highs = locate_prefixes(run.keys.offsets, run.keys.data, prefixes.offsets, prefixes.data)
        rows = expand(lows, highs)
        if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
            selected.append(run.slice(int(rows[0]), int(rows[-1]) + 1))
        elif len(rows):
            selected.append(run.take(rows))
    if not selected:
        columns = tuple(pa.array([], type_) for type_ in _types(runs, value_types))
        return np.empty(0, np.int64), Rows(Keys.empty(), columns)
    merged = merge(selected, ops, drop_zero)
    keys = merged.keys
    return owners_of(keys.offsets, keys.data, prefixes.offsets, prefixes.data), merged


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def first_with_prefix(
    runs: Sequence[Rows],
    prefixes: Keys,
    reverse: bool,
    ops: Sequence[MergeOp],
    skip_null: bool = False,
    value_types: Sequence[pa.DataType] | None = None,
) -> tuple[Bools, Keys, tuple[pa.Array, ...]]:
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
    weights = [summable(run.values[0], np.int64) for run in filled]
    rows = first_rows(
        np.array([_address(run.keys.offsets) for run in filled], np.uint64),
        np.array([_address(run.keys.data) for run in filled], np.uint64),
        np.array([_address(weight) for weight in weights], np.uint64),
        np.array([len(run) for run in filled]),
        np.array([len(run.keys.data) for run in filled]),
        lows.offsets,
        lows.data,
        prefixes.offsets,
        prefixes.data,
        reverse,
    )
    hits = [np.ascontiguousarray(rows[:, r]) for r in range(len(filled))]
    found, values = _combine_hits(filled, hits, ops, n)
    parts = [Keys(np.zeros(2, np.int64), np.empty(0, np.uint8))]
    source = np.zeros(n, np.int64)
    count = 1
    for run, hit in zip(filled, hits):
        which = np.flatnonzero(hit >= 0)
        parts.append(run.keys.take(hit[which]))
        source[which] = count + np.arange(len(which))
        count += len(which)
    return found, Keys.concat(parts).take(source), values


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
