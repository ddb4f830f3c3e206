"""Compiled merging of sorted runs, for :mod:`tidemill.state.merge.merge`.

A merge is first decided, then carried out. Decided (:mod:`tidemill.state.merge.interleaving`) means that of each row
of the result's order it is known which run it comes from, and whether its key is that of the row before: two bytes a
row. Every column is then made here by walking them with a cursor in each run, so that all runs are read from front to
back and nothing is concatenated first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tidemill.kernels import types
from tidemill.kernels.deferred import carray
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
    Ints,
    Words,
    as_pointer,
    copy_bytes,
    kernel,
    load64,
    store64,
)
from tidemill.state.keys.keys import Keys
from tidemill.state.keys.run_table import RUN_TABLE, run_data, run_offsets, run_table
from tidemill.state.merge.interleaving import RUN, SAME, Sources, interleave

_U16 = types.array(types.uint16, 1, "C", readonly=True)


@kernel(types.int64, RUN_TABLE, _U16, BOOL, I64_OUT, U8_OUT)
def copy_keys(table: Words, sources: Sources, keep: Bools, offsets: Ints, out: Bytes) -> int:
    """Write the different keys, or those of segments to ``keep`` unless that is empty; returns their bytes."""
    cursors = np.zeros(table.shape[0], np.int64)
    segment = -1
    rows = 0
    at = 0
    offsets[0] = 0
    for i in range(sources.size):
        source = int(sources[i])
        r = source & RUN
        row = cursors[r]
        cursors[r] = row + 1
        if source >> SAME:
            continue
        segment += 1
        if keep.size > 0 and not keep[segment]:
            continue
        theirs = run_offsets(table, r)
        data = run_data(table, r)
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


def _sum_segments(addresses: Words, sources: Sources, out: npt.NDArray[Any]) -> None:
    """Sum values by segment, from old to new; integers wrap. ``addresses`` are those of each run's values."""
    cursors = addresses.copy()
    segment = -1
    for i in range(sources.size):
        source = int(sources[i])
        r = source & RUN
        value = carray(as_pointer(cursors[r]), 1, out.dtype)[0]
        cursors[r] += np.uint64(8)
        if source >> SAME:
            out[segment] += value
        else:
            segment += 1
            out[segment] = value


sum_ints = kernel(types.void, U64, _U16, I64_OUT)(_sum_segments)
sum_floats = kernel(types.void, U64, _U16, F64_OUT)(_sum_segments)


@kernel(types.void, U64, _U16, U64_OUT)
def last_words(addresses: Words, sources: Sources, out: Words) -> None:
    """The newest of the 8-byte values of each segment."""
    cursors = addresses.copy()
    segment = -1
    for i in range(sources.size):
        source = int(sources[i])
        r = source & RUN
        value = carray(as_pointer(cursors[r]), 1, np.uint64)[0]
        cursors[r] += np.uint64(8)
        segment += 1 - (source >> SAME)
        out[segment] = value


@kernel(types.tuple_of((I64_OUT, I64_OUT)), _U16, I64, types.int64)
def order_of(sources: Sources, firsts: Ints, segments: int) -> tuple[Ints, Ints]:
    """The merge as rows of the concatenated runs (run ``r`` begins at ``firsts[r]``), and where segments start."""
    order = np.empty(sources.size, np.int64)
    starts = np.empty(segments + 1, np.int64)
    cursors = firsts.copy()
    segment = 0
    for i in range(sources.size):
        source = int(sources[i])
        r = source & RUN
        order[i] = cursors[r]
        cursors[r] += 1
        if not source >> SAME:
            starts[segment] = i
            segment += 1
    starts[segment] = sources.size
    return order, starts


@kernel(I64_OUT, _U16, types.int64)
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
            if source >> SAME:
                rows[probe] = row
    return rows


def locate_near(offsets: Ints, data: Bytes, probe_offsets: Ints, probes: Bytes) -> Ints:
    """Row of each probe in a run, -1 where absent, by merging them: for probes almost as many as rows, or more.

    Run and probes are ascending, each with unique keys, given as offsets (int64, n + 1, n at least 1) and bytes.
    """
    runs = Keys(offsets, data), Keys(probe_offsets, probes)
    sources, _ = interleave(run_table(runs))
    return _found(sources, len(runs[1]))
