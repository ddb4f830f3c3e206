"""Compiled searches in sorted byte strings, for :mod:`tidemill.state.lookup.lookup`.

Strings are given as offsets (int64, n + 1) and bytes; runs, probes and prefixes are sorted and unique. Each
search starts where the one before it ended and doubles its step until it has passed the probe.
"""

from __future__ import annotations

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.deferred import carray
from tidemill.kernels.words import (
    I64,
    I64_OUT,
    U8,
    U8_OUT,
    U64,
    Bytes,
    Ints,
    Words,
    as_pointer,
    compare,
    copy_bytes,
    equal,
    inlined,
    kernel,
)

I64_GRID = types.array(types.int64, 2, "C")
WHOLE = 1 << 60
"""More bytes than a key has."""


@inlined
def search(
    offsets: Ints, data: Bytes, low: int, high: int, probe: Bytes, start: int, end: int, past_prefix: bool
) -> int:
    """First row from ``low`` whose key is not less than the probe, or with ``past_prefix`` greater than all
    keys that start with it."""
    if past_prefix:
        return first_above(offsets, data, low, high, probe, start, end, 1, end - start)
    return first_above(offsets, data, low, high, probe, start, end, 0, WHOLE)


@inlined
def first_above(
    offsets: Ints, data: Bytes, low: int, high: int, probe: Bytes, start: int, end: int, limit: int, most: int
) -> int:
    """First row from ``low`` whose key, of which at most so many bytes count, is greater than the probe.

    With a ``limit`` of 0 instead of 1 it may also be equal.
    """
    step = 1
    left = low
    while left + step <= high:
        k0 = offsets[left + step - 1]
        k1 = min(offsets[left + step], k0 + most)
        if compare(data, k0, k1, probe, start, end) >= limit:
            break
        left += step
        step *= 2
    right = min(left + step - 1, high)
    while left < right:
        middle = (left + right) >> 1
        k0 = offsets[middle]
        k1 = min(offsets[middle + 1], k0 + most)
        if compare(data, k0, k1, probe, start, end) < limit:
            left = middle + 1
        else:
            right = middle
    return left


@kernel(I64_OUT, I64, U8, I64, U8)
def locate(offsets: Ints, data: Bytes, probe_offsets: Ints, probes: Bytes) -> Ints:
    """Row of each probe, -1 where absent."""
    rows = np.empty(probe_offsets.size - 1, np.int64)
    high = offsets.size - 1
    at = 0
    for p in range(rows.size):
        start = probe_offsets[p]
        end = probe_offsets[p + 1]
        at = search(offsets, data, at, high, probes, start, end, False)
        rows[p] = -1
        if at < high and equal(data, offsets[at], offsets[at + 1], probes, start, end):
            rows[p] = at
    return rows


@kernel(types.tuple_of((I64_OUT, I64_OUT)), I64, U8, I64, U8)
def locate_prefixes(offsets: Ints, data: Bytes, probe_offsets: Ints, probes: Bytes) -> tuple[Ints, Ints]:
    """First row with each prefix, and the row after the last."""
    lows = np.empty(probe_offsets.size - 1, np.int64)
    highs = np.empty(probe_offsets.size - 1, np.int64)
    size = offsets.size - 1
    at = 0
    for p in range(lows.size):
        start = probe_offsets[p]
        end = probe_offsets[p + 1]
        lows[p] = search(offsets, data, at, size, probes, start, end, False)
        at = search(offsets, data, lows[p], size, probes, start, end, True)
        highs[p] = at
    return lows, highs


@kernel(I64_OUT, I64, U8, types.int64, I64, U8, types.boolean)
def fence_bounds(offsets: Ints, data: Bytes, count: int, probe_offsets: Ints, probes: Bytes, past_prefix: bool) -> Ints:
    """The first of ``count`` fences not less than each probe, or greater than all keys that start with it."""
    found = np.empty(probe_offsets.size - 1, np.int64)
    at = 0
    for p in range(found.size):
        at = search(offsets, data, at, count, probes, probe_offsets[p], probe_offsets[p + 1], past_prefix)
        found[p] = at
    return found


@kernel(I64_OUT, I64, U8, I64, U8, I64, types.int64, types.boolean)
def bounds_within(
    offsets: Ints, data: Bytes, probe_offsets: Ints, probes: Bytes, fences: Ints, size: int, past_prefix: bool
) -> Ints:
    """Rows for the fences found by :func:`fence_bounds`: the block before each is searched."""
    rows = np.empty(probe_offsets.size - 1, np.int64)
    n = offsets.size - 1
    for p in range(rows.size):
        low = max(fences[p] - 1, 0) * size
        high = min(fences[p] * size, n)
        rows[p] = search(offsets, data, low, high, probes, probe_offsets[p], probe_offsets[p + 1], past_prefix)
    return rows


@kernel(I64_OUT, I64, I64)
def expand(lows: Ints, highs: Ints) -> Ints:
    """All rows of the given ranges."""
    rows = np.empty((highs - lows).sum(), np.int64)
    at = 0
    for p in range(lows.size):
        for row in range(lows[p], highs[p]):
            rows[at] = row
            at += 1
    return rows


@kernel(I64_OUT, I64, U8, I64, U8)
def owners_of(offsets: Ints, data: Bytes, prefix_offsets: Ints, prefixes: Bytes) -> Ints:
    """Which prefix each key starts with; keys are sorted and each starts with one."""
    owners = np.empty(offsets.size - 1, np.int64)
    p = 0
    for i in range(owners.size):
        start = offsets[i]
        while True:
            length = prefix_offsets[p + 1] - prefix_offsets[p]
            if start + length <= offsets[i + 1] and equal(
                data, start, start + length, prefixes, prefix_offsets[p], prefix_offsets[p + 1]
            ):
                break
            p += 1
        owners[i] = p
    return owners


@kernel(types.tuple_of((I64_OUT, U8_OUT)), I64, U8, types.uint8)
def append_byte(offsets: Ints, data: Bytes, byte: int) -> tuple[Ints, Bytes]:
    n = offsets.size - 1
    starts = np.empty(n + 1, np.int64)
    result = np.empty(offsets[n] - offsets[0] + n, np.uint8)
    starts[0] = 0
    for i in range(n):
        length = offsets[i + 1] - offsets[i]
        copy_bytes(data, offsets[i], result, starts[i], length)
        result[starts[i] + length] = byte
        starts[i + 1] = starts[i] + length + 1
    return starts, result


@kernel(types.tuple_of((I64_GRID, I64_GRID)), U64, U64, I64, I64, I64, U8, I64, U8)
def prefix_ranges(
    offset_addresses: Words,
    data_addresses: Words,
    sizes: Ints,
    data_sizes: Ints,
    low_offsets: Ints,
    lows: Bytes,
    prefix_offsets: Ints,
    prefixes: Bytes,
) -> tuple[Ints, Ints]:
    """In each run the first row not less than each low, and the row after all with each prefix.

    Runs are given by address, since a kernel cannot take a varying number of arrays. Runs without rows are skipped.
    """
    probes = prefix_offsets.size - 1
    begin = np.zeros((probes, sizes.size), np.int64)
    finish = np.zeros((probes, sizes.size), np.int64)
    for r in range(sizes.size):
        if sizes[r] == 0:
            continue
        offsets = carray(as_pointer(offset_addresses[r]), sizes[r] + 1, np.int64)
        data = carray(as_pointer(data_addresses[r]), data_sizes[r], np.uint8)
        at = 0
        for p in range(probes):
            start = low_offsets[p]
            begin[p, r] = search(offsets, data, at, sizes[r], lows, start, low_offsets[p + 1], False)
            start = prefix_offsets[p]
            at = search(offsets, data, begin[p, r], sizes[r], prefixes, start, prefix_offsets[p + 1], True)
            finish[p, r] = at
    return begin, finish


@kernel(
    types.tuple_of((types.int64, types.int64)), I64_GRID, U64, U64, U64, I64, I64, U64, I64, I64, I64_GRID, I64_GRID,
    types.boolean, types.int64,
)  # fmt: skip
def first_rows(
    found: Ints,
    offset_addresses: Words,
    data_addresses: Words,
    weight_addresses: Words,
    sizes: Ints,
    data_sizes: Ints,
    open_addresses: Words,
    block_sizes: Ints,
    block_starts: Ints,
    begin: Ints,
    finish: Ints,
    reverse: bool,
    first: int,
) -> tuple[int, int]:
    """Fill in the row of the winner of each prefix from ``first`` on in each run, -1 where the run does not have it.

    Row i of a run may be read if the byte of block ``(i + start) // size`` is set. Stops at a row that may not be read
    and returns the prefix and the run; returns -1 and -1 when all are done.
    """
    runs = sizes.size
    cursor = np.zeros(runs, np.int64)
    for p in range(first, begin.shape[0]):
        for r in range(runs):
            cursor[r] = finish[p, r] - 1 if reverse else begin[p, r]
        while True:
            best = -1
            b0 = 0
            b1 = 0
            total = 0
            best_data = carray(as_pointer(data_addresses[0]), data_sizes[0], np.uint8)
            for r in range(runs):
                found[p, r] = -1
                if cursor[r] < begin[p, r] or cursor[r] >= finish[p, r]:
                    continue
                block = (cursor[r] + block_starts[r]) // block_sizes[r]
                if carray(as_pointer(open_addresses[r]), block + 1, np.uint8)[block] == 0:
                    found[p, r] = cursor[r]
                    return p, r
                offsets = carray(as_pointer(offset_addresses[r]), sizes[r] + 1, np.int64)
                data = carray(as_pointer(data_addresses[r]), data_sizes[r], np.uint8)
                weights = carray(as_pointer(weight_addresses[r]), sizes[r], np.int64)
                k0 = offsets[cursor[r]]
                k1 = offsets[cursor[r] + 1]
                order = -1 if best < 0 else compare(data, k0, k1, best_data, b0, b1)
                if best >= 0 and reverse:
                    order = -order
                if order < 0:
                    best = r
                    best_data = data
                    b0 = k0
                    b1 = k1
                    total = weights[cursor[r]]
                    found[p, :r] = -1
                    found[p, r] = cursor[r]
                elif order == 0:
                    total += weights[cursor[r]]
                    found[p, r] = cursor[r]
            if best < 0 or total > 0:
                break
            for r in range(runs):
                if found[p, r] >= 0:
                    cursor[r] += -1 if reverse else 1
    return -1, -1
