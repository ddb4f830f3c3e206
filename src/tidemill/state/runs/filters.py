"""Blocked Bloom filters: whether a run may have a key, at the cost of one cache line.

A filter is lines of 512 bits (8 words). A key's hash picks a line, and six bits of it are set. With ten bits a key
about 1 % of the keys that are not there pass. Filters are written to storage: what is computed here may never change.
Source: "Cache-, Hash- and Space-Efficient Bloom Filters", Putze, Sanders, Singler 2007; bits of one multiplication as
in RocksDB's FastLocalBloom.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import BOOL_OUT, U64, U64_OUT, Bools, Words, inlined, kernel, multiply_high

BITS_PER_KEY = 10
LINE_WORDS = 8
"""64-bit words of a line: 64 bytes."""
_PROBES = 6
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@kernel(U64_OUT, U64, types.int64)
def _build(hashes: Words, lines: int) -> Words:
    words = np.zeros(lines * LINE_WORDS, np.uint64)
    for i in range(hashes.size):
        first = np.int64(multiply_high(hashes[i], np.uint64(lines))) * LINE_WORDS
        bits = hashes[i] * _SPREAD
        for _ in range(_PROBES):
            bit = bits >> np.uint64(55)
            words[first + np.int64(bit >> np.uint64(6))] |= np.uint64(1) << (bit & np.uint64(63))
            bits <<= np.uint64(9)
    return words


@inlined
def line_of(words: Words, hash_: int) -> Any:
    """The first word of the line that has the bits of a hash."""
    return np.int64(multiply_high(hash_, np.uint64(words.size // LINE_WORDS))) * LINE_WORDS


@inlined
def has(words: Words, hash_: int) -> bool:
    """Whether the key of a hash may be among those the filter was built of; never False for one that is."""
    first = line_of(words, hash_)
    bits = hash_ * _SPREAD
    found = np.uint64(1)
    for _ in range(_PROBES):  # all of them: whether one is set is as good as random, so a branch would be mispredicted
        bit = bits >> np.uint64(55)
        found &= words[first + np.int64(bit >> np.uint64(6))] >> (bit & np.uint64(63))
        bits <<= np.uint64(9)
    return bool(found != 0)


@kernel(BOOL_OUT, U64, U64)
def may_contain(words: Words, hashes: Words) -> Bools:
    """:func:`has` of each hash."""
    result = np.empty(hashes.size, np.bool_)
    for i in range(hashes.size):
        result[i] = has(words, hashes[i])
    return result


def build(hashes: Words) -> Words:
    """The filter of some keys, given their 64-bit hashes: whole lines, at least one."""
    return _build(hashes, max(1, -(-len(hashes) * BITS_PER_KEY // (64 * LINE_WORDS))))
