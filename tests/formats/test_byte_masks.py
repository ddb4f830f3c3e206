"""Masks, words and bit counts against Python integers."""

from __future__ import annotations

import math
import struct

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from long_form import examples

from tidemill.kernels import byte_masks as bm

words = st.integers(0, 2**64 - 1)
EXAMPLES = examples(100)


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


@numba.njit
def moved(array, index, out, at, byte):
    return bm.move_32(array, index, out, at, byte), bm.move_64(array, index, out, at, byte)


@EXAMPLES
@given(st.binary(min_size=64, max_size=64), st.binary(max_size=40), st.integers(0, 255))
def test_moves_tell_of_the_bytes_they_move(block, front, byte):
    out = np.zeros(128, np.uint8)
    found = moved(np.frombuffer(front + block, np.uint8), len(front), out, 5, byte)
    assert out[5:69].tobytes() == block
    for width, (equal, high) in zip((32, 64), found, strict=True):
        assert equal == sum(1 << k for k, c in enumerate(block[:width]) if c == byte)
        assert high == sum(1 << k for k, c in enumerate(block[:width]) if c > 127)


@numba.njit
def compressed(array, index, word, few, many, out):
    if bm.COMPRESSES:
        bm.put_16_places(few, 3, 1000, word)
        bm.put_64_places(many, 3, 1000, word)
        bm.move_chosen(array, index, out, 5, word)


@EXAMPLES
@given(st.binary(min_size=64, max_size=64), st.binary(max_size=40), words)
def test_compressing_stores(block, front, word):
    few, many, out = np.zeros(19, np.int32), np.zeros(67, np.int32), np.zeros(69, np.uint8)
    compressed(np.frombuffer(front + block, np.uint8), len(front), np.uint64(word), few, many, out)
    places = [k for k in range(64) if word >> k & 1] if bm.COMPRESSES else []
    assert few[3 : 3 + len(places)].tolist() == [1000 + k for k in places[:16]]
    assert many[3 : 3 + len(places)].tolist() == [1000 + k for k in places]
    assert out[5 : 5 + len(places)].tobytes() == bytes(block[k] for k in places)
