"""Bloom filters: no key is ever denied, few others pass, and the bits are those of a plain twin."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidemill.kernels.words import Words
from tidemill.state.keys.keys import KeyColumn, encode, hash64
from tidemill.state.runs import filters

WORD = 2**64


def bits_of(hash_: int, lines: int) -> list[int]:
    """The bits of the whole filter that a key sets."""
    line = hash_ * lines // WORD
    spread = hash_ * 0x9E3779B97F4A7C15 % WORD
    return [line * 512 + (spread << (9 * i) & WORD - 1) // 2**55 for i in range(6)]


def twin(hashes: list[int], lines: int) -> list[int]:
    whole = 0
    for hash_ in hashes:
        for bit in bits_of(hash_, lines):
            whole |= 1 << bit
    return [whole >> 64 * i & WORD - 1 for i in range(8 * lines)]


def hashes_of(first: int, count: int) -> Words:
    return hash64(encode([pa.array(range(first, first + count), pa.int64())], [KeyColumn(pa.int64())], 1))


@pytest.mark.parametrize("count", [0, 1, 51, 52, 1000])
def test_bits_are_those_of_the_twin(count: int) -> None:
    hashes = hashes_of(7, count)
    words = filters.build(hashes)
    assert words.tolist() == twin(hashes.tolist(), max(1, -(-count * 10 // 512)))
    others = np.concatenate([hashes, hashes_of(10_000, 500)])
    lines = len(words) // 8
    whole = sum(word << 64 * i for i, word in enumerate(words.tolist()))
    expected = [all(whole >> bit & 1 for bit in bits_of(h, lines)) for h in others.tolist()]
    assert filters.may_contain(words, others).tolist() == expected


def test_frozen() -> None:
    """Filters are stored: the same keys give the same bits in every version."""
    words = filters.build(np.array([0, 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF], np.uint64))
    assert [f"{w:016x}" for w in words.tolist()] == FROZEN


@pytest.mark.parametrize("count", [1024, 100_000])
def test_ten_bits_a_key_let_few_pass(count: int) -> None:
    hashes = hashes_of(0, count)
    words = filters.build(hashes)
    assert len(words) * 64 <= 10 * count + 512
    assert filters.may_contain(words, hashes).all()
    assert filters.may_contain(words, hashes_of(10**9, 100_000)).mean() < 0.02


FROZEN = [
    "0004000002400001",
    "0000010000004000",
    "0000000080000000",
    "0000000020000008",
    "3000000400000001",
    "0200040120000000",
    "0000000000800000",
    "0000020000002000",
]
