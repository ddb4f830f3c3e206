"""Masks, words and bit counts against Python integers."""

from __future__ import annotations

import math
import struct

import numba
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.formats import byte_masks as bm

words = st.integers(0, 2**64 - 1)
EXAMPLES = settings(max_examples=100, deadline=None)


@numba.njit
def all_of(array, index, size, byte, left, right, number):
    return (
        bm.byte_at(array, index),
        bm.load_word(array, index),
        bm.equal_mask(array, index, byte),
        bm.block_mask(array, index, size, byte),
        bm.trailing_zeros(left),
        bm.leading_zeros(left),
        bm.count_bits(left),
        bm.prefix_xor(left),
        bm.multiply_high(left, right),
        bm.bits_of_float(number),
        bm.float_from_bits(left),
    )


@numba.njit
def written(array, index, word):
    bm.store_word(array, index, word)


@EXAMPLES
@given(
    st.binary(min_size=64, max_size=64),
    st.binary(max_size=64),
    st.integers(0, 255),
    words,
    words,
    st.floats(allow_nan=False),
)
def test_against_python(front, back, byte, left, right, number):
    data = front + back
    index = len(back)
    size = min(len(data), index + left % 80)
    found = all_of(np.frombuffer(data, np.uint8), index, size, byte, np.uint64(left), np.uint64(right), number)
    block = data[index : index + 64]
    mask = sum(1 << k for k, c in enumerate(block) if c == byte)
    parity = sum((bin(left & ((2 << k) - 1)).count("1") & 1) << k for k in range(64))
    assert found[:10] == (
        data[index],
        int.from_bytes(data[index : index + 8], "little"),
        mask,
        mask & ((1 << size - index) - 1),
        (left & -left).bit_length() - 1 if left else 64,
        64 - left.bit_length(),
        left.bit_count(),
        parity,
        left * right >> 64,
        struct.unpack("<Q", struct.pack("<d", number))[0],
    )
    (expected,) = struct.unpack("<d", struct.pack("<Q", left))
    assert found[10] == expected or (math.isnan(found[10]) and math.isnan(expected))


def test_store_word():
    array = np.zeros(10, np.uint8)
    written(array, 1, np.uint64(0x0807060504030201))
    assert array.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]
