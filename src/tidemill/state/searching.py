"""Compiled searches in sorted byte strings, for :mod:`tidemill.state.lookup`.

Strings are given as offsets (int64, n + 1) and bytes; runs, probes and prefixes are sorted and unique. Each
search starts where the one before it ended and doubles its step until it has passed the probe.
"""

from __future__ import annotations

import numpy as np
from numba import carray, types

from tidemill.state.words import (
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

I64_GRID = types.Array(types.int64, 2, "C")


@inlined
def _search(
    offsets: Ints, data: Bytes, low: int, high: int, probe: Bytes, start: int, end: int, past_prefix: bool
) -> int:
    """First row from ``low`` whose key is not less than the probe, or with ``past_prefix`` greater than all
    keys that start with it."""
    limit = 1 if past_prefix else 0
    length = end - start
    step = 1
    left = low
    while left + step <= high:
        k0 = offsets[left + step - 1]
        k1 = offsets[left + step]
        if past_prefix:
            k1 = min(k1, k0 + length)
        if compare(data, k0, k1, probe, start, end) >= limit:
            break
        left += step
        step *= 2
    right = min(left + step - 1, high)
    while left < right:
        middle = (left + right) >> 1
        k0 = offsets[middle]
        k1 = offsets[middle + 1]
        if past_prefix:
            k1 = min(k1, k0 + length)
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
        at = _search(offsets, data, at, high, probes, start, end, False)
        rows[p] = -1
        if at < high and equal(data, offsets[at], offsets[at + 1], probes, start, end):
            rows[p] = at
    return rows


@kernel(types.Tuple((I64_OUT, I64_OUT)), I64, U8, I64, U8)
def locate_prefixes(offsets: Ints, data: Bytes, probe_offsets: Ints, probes: Bytes) -> tuple[Ints, Ints]:
    """First row with each prefix, and the row after the last."""
    lows = np.empty(probe_offsets.size - 1, np.int64)
    highs = np.empty(probe_offsets.size - 1, np.int64)
    size = offsets.size - 1
    at = 0
    for p in range(lows.size):
        start = probe_offsets[p]
        end = probe_offsets[p + 1]
        lows[p] = _search(offsets, data, at, size, probes, start, end, False)
        at = _search(offsets, data, lows[p], size, probes, start, end, True)
        highs[p] = at
    return lows, highs


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


@kernel(types.Tuple((I64_OUT, U8_OUT)), I64, U8, types.uint8)
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


@kernel(I64_GRID, U64, U64, U64, I64, I64, I64, U8, I64, U8, types.boolean)
def first_rows(
    offset_addresses: Words,
    data_addresses: Words,
    weight_addresses: Words,
    sizes: Ints,
    data_sizes: Ints,
    low_offsets: Ints,
    lows: Bytes,
    prefix_offsets: Ints,
    prefixes: Bytes,
    reverse: bool,
) -> Ints:
    """Row of the winner of each prefix in each run, -1 where the run does not have it.

    Runs are given by address, since a kernel cannot take a varying number of arrays.
    """
    runs = sizes.size
    probes = prefix_offsets.size - 1
    found = np.full((probes, runs), -1, np.int64)
    begin = np.zeros(runs, np.int64)
    finish = np.zeros(runs, np.int64)
    cursor = np.zeros(runs, np.int64)
    for p in range(probes):
        start = prefix_offsets[p]
        end = prefix_offsets[p + 1]
        for r in range(runs):
            offsets = carray(as_pointer(offset_addresses[r]), sizes[r] + 1, np.int64)
            data = carray(as_pointer(data_addresses[r]), data_sizes[r], np.uint8)
            low = _search(offsets, data, finish[r], sizes[r], lows, low_offsets[p], low_offsets[p + 1], False)
            begin[r] = low
            finish[r] = _search(offsets, data, low, sizes[r], prefixes, start, end, True)
            cursor[r] = finish[r] - 1 if reverse else low
        while True:
            best = -1
            b0 = 0
            b1 = 0
            total = 0
            best_data = carray(as_pointer(data_addresses[0]), data_sizes[0], np.uint8)
            for r in range(runs):
                found[p, r] = -1
                if cursor[r] < begin[r] or cursor[r] >= finish[r]:
                    continue
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
    return found
