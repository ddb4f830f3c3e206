"""Compiled arithmetic on 128-bit integers as Arrow's decimals have them: low word, high word, low word, ..."""

from __future__ import annotations

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import I64, I64_OUT, Ints, Word, inlined, kernel, multiply_high


@inlined
def _product(low: Word, high: Word, low2: Word, high2: Word) -> tuple[Word, Word]:
    """Modulo 2**128."""
    a, b = np.uint64(low), np.uint64(low2)
    upper = multiply_high(a, b) + a * np.uint64(high2) + np.uint64(high) * b
    return np.int64(a * b), np.int64(upper)


@kernel(types.void, I64, types.int64, I64, types.int64, I64_OUT)
def multiply_words(left: Ints, left_step: int, right: Ints, right_step: int, result: Ints) -> None:
    """Products modulo 2**128; a step is 2, or 0 where one value stands for all rows."""
    for i in range(result.size // 2):
        a, b = i * left_step, i * right_step
        result[2 * i], result[2 * i + 1] = _product(left[a], left[a + 1], right[b], right[b + 1])


@kernel(types.void, I64, types.int64, I64, I64, types.int64, I64, I64_OUT)
def add_words(
    left: Ints, left_step: int, left_factor: Ints, right: Ints, right_step: int, right_factor: Ints, result: Ints
) -> None:
    """``left * left_factor + right * right_factor`` modulo 2**128; steps as for :func:`multiply_words`."""
    for i in range(result.size // 2):
        a, b = i * left_step, i * right_step
        low, high = _product(left[a], left[a + 1], left_factor[0], left_factor[1])
        low2, high2 = _product(right[b], right[b + 1], right_factor[0], right_factor[1])
        total = np.uint64(low) + np.uint64(low2)
        carry = np.int64(1) if total < np.uint64(low) else np.int64(0)
        result[2 * i] = np.int64(total)
        result[2 * i + 1] = high + high2 + carry


@kernel(types.int64, I64)
def widest(words: Ints) -> int:
    """The bits of the largest magnitude: every value x has -2**bits <= x < 2**bits."""
    low, high = np.int64(0), np.int64(0)
    for i in range(words.size // 2):
        sign = words[2 * i + 1] >> 63
        low |= words[2 * i] ^ sign
        high |= words[2 * i + 1] ^ sign
    bits = 0
    if high:
        bits, low = 64, high
    rest = np.uint64(low)
    while rest:
        bits += 1
        rest >>= np.uint64(1)
    return bits
