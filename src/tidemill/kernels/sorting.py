"""Stable sort of byte strings: most significant word first, least significant digit first inside a word.

A segment of rows that agree on all earlier words is sorted by as many of the varying bytes of its next word
as are needed to tell its rows apart if they were random; that is a radix sort of one to three passes. What
still ties is a smaller segment: an insertion sort if it is tiny, the same procedure otherwise.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidemill.kernels import types
from tidemill.kernels.words import (
    I64,
    I64_OUT,
    U8,
    U64_OUT,
    Bytes,
    Ints,
    Word,
    Words,
    compare,
    inlined,
    kernel,
    load_word,
)

_TINY = 24

Indices = npt.NDArray[np.int32]
I32_OUT = types.array(types.int32, 1, "C")


@inlined
def _is_sorted(offsets: Ints, data: Bytes) -> bool:
    for i in range(1, offsets.size - 1):
        if compare(data, offsets[i - 1], offsets[i], data, offsets[i], offsets[i + 1]) > 0:
            return False
    return True


@kernel(types.void, I64, U8, I32_OUT, U64_OUT, types.int64, types.int64, types.int64)
def _insertion_sort(offsets: Ints, data: Bytes, rows: Indices, words: Words, low: int, high: int, depth: int) -> None:
    """Sort a segment whose words at ``depth`` are loaded."""
    for i in range(low + 1, high):
        row = rows[i]
        word = words[i]
        j = i
        while j > low:
            before = words[j - 1]
            if before < word:
                break
            if before == word:
                other = rows[j - 1]
                if (
                    compare(
                        data,
                        offsets[other] + depth,
                        offsets[other + 1],
                        data,
                        offsets[row] + depth,
                        offsets[row + 1],
                    )
                    <= 0
                ):
                    break
            rows[j] = rows[j - 1]
            words[j] = before
            j -= 1
        rows[j] = row
        words[j] = word


@kernel(types.void, I64, I32_OUT, I32_OUT, types.int64, types.int64, types.int64)
def _sort_by_rest(offsets: Ints, rows: Indices, spare: Indices, low: int, high: int, depth: int) -> None:
    """Stable counting sort by the number of bytes left at ``depth``, all above 8 counting as 9."""
    counts = np.zeros(11, np.int64)
    for i in range(low, high):
        rest = min(offsets[rows[i] + 1] - offsets[rows[i]] - depth, 9)
        counts[rest + 1] += 1
    for k in range(1, 11):
        counts[k] += counts[k - 1]
    for i in range(low, high):
        rest = min(offsets[rows[i] + 1] - offsets[rows[i]] - depth, 9)
        spare[low + counts[rest]] = rows[i]
        counts[rest] += 1
    for i in range(low, high):
        rows[i] = spare[i]


@kernel(
    types.uint64,
    I32_OUT,
    I32_OUT,
    U64_OUT,
    U64_OUT,
    types.array(types.int64, 2, "C"),
    types.int64,
    types.int64,
    types.uint64,
)
def _radix_sort(
    rows: Indices,
    spare_rows: Indices,
    words: Words,
    spare_words: Words,
    counts: Ints,
    low: int,
    high: int,
    varying: Word,
) -> Word:
    """Stable sort of a segment by its most significant varying bytes; returns the mask of the bytes used."""
    need = 0
    while (1 << need) < high - low:
        need += 1
    shifts = np.empty(8, np.int64)
    used = 0
    bits = np.int64(0)
    mask = np.uint64(0)
    for k in range(8):
        shift = 56 - 8 * k
        byte = (varying >> np.uint64(shift)) & np.uint64(255)
        if byte != 0 and bits < need:
            shifts[used] = shift
            used += 1
            mask |= np.uint64(255) << np.uint64(shift)
            while byte != 0:
                bits += np.int64(byte & np.uint64(1))
                byte >>= np.uint64(1)
    counts[:used, :] = 0
    for i in range(low, high):
        word = words[i]
        for k in range(used):
            counts[k, (word >> np.uint64(shifts[k])) & np.uint64(255)] += 1
    for k in range(used - 1, -1, -1):
        total = low
        for digit in range(256):
            count = counts[k, digit]
            counts[k, digit] = total
            total += count
        shift_k = np.uint64(shifts[k])
        digits = counts[k]
        for i in range(low, high):
            word = words[i]
            digit_k = np.int64((word >> shift_k) & np.uint64(255))
            at = digits[digit_k]
            digits[digit_k] = at + 1
            spare_words[at] = word
            spare_rows[at] = rows[i]
        words, spare_words = spare_words, words
        rows, spare_rows = spare_rows, rows
    if used & 1:
        for i in range(low, high):
            spare_words[i] = words[i]
            spare_rows[i] = rows[i]
    return mask


@kernel(I64_OUT, I64, U8)
def sort_rows(offsets: Ints, data: Bytes) -> Ints:
    """Permutation that sorts byte strings (offsets int64 n + 1, bytes), stable."""
    n = offsets.size - 1
    if _is_sorted(offsets, data):
        return np.arange(n)
    rows = np.arange(n).astype(np.int32)
    spare_rows = np.empty(n, np.int32)
    words = np.empty(n, np.uint64)
    spare_words = np.empty(n, np.uint64)
    counts = np.empty((8, 256), np.int64)
    pending = np.empty((n // _TINY + 2, 3), np.int64)
    pending[0, 0] = 0
    pending[0, 1] = n
    pending[0, 2] = 0
    top = 1
    while top > 0:
        top -= 1
        low = pending[top, 0]
        high = pending[top, 1]
        depth = pending[top, 2]
        varying = np.uint64(0)
        rest_varies = False
        first_row = rows[low]
        first_rest = min(offsets[first_row + 1] - offsets[first_row] - depth, 9)
        first_word = load_word(data, offsets[first_row] + depth, offsets[first_row + 1])
        for i in range(low, high):
            start = offsets[rows[i]] + depth
            end = offsets[rows[i] + 1]
            words[i] = load_word(data, start, end)
            varying |= words[i] ^ first_word
            if min(end - start, 9) != first_rest:
                rest_varies = True
        if high - low <= _TINY:
            _insertion_sort(offsets, data, rows, words, low, high, depth)
            continue
        if varying == 0:
            # Rows that end inside a word all of whose bytes agree are prefixes of one another.
            if rest_varies:
                _sort_by_rest(offsets, rows, spare_rows, low, high, depth)
            start = high
            while start > low and offsets[rows[start - 1] + 1] - offsets[rows[start - 1]] - depth > 8:
                start -= 1
            if high - start > 1:
                pending[top, 0] = start
                pending[top, 1] = high
                pending[top, 2] = depth + 8
                top += 1
            continue
        mask = _radix_sort(rows, spare_rows, words, spare_words, counts, low, high, varying)
        done = (varying & ~mask) == 0 and not rest_varies and first_rest == 9
        start = low
        while start < high:
            tie = words[start] & mask
            stop = start + 1
            while stop < high and (words[stop] & mask) == tie:
                stop += 1
            if stop - start > _TINY:
                pending[top, 0] = start
                pending[top, 1] = stop
                pending[top, 2] = depth + 8 if done else depth
                top += 1
            elif stop - start > 1:
                _insertion_sort(offsets, data, rows, words, start, stop, depth)
            start = stop
    return rows.astype(np.int64)
