"""Random numbers that are the same on every machine and in every version of NumPy.

They are made of the raw words of PCG64 by integer arithmetic alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


class Chance:
    """Random integers from the raw words of a bit generator."""

    def __init__(self, seed: int) -> None:
        self._words = np.random.PCG64(seed)

    def below(self, limit: int | Ints, count: int) -> Ints:
        """Integers from 0 to ``limit - 1``; limits are at most 2**31."""
        words: Words = self._words.random_raw(count) >> np.uint64(32)
        return ((words * np.asarray(limit).astype(np.uint64)) >> np.uint64(32)).astype(np.int64)

    def long_tailed(self, mean: int, count: int) -> Ints:
        """Integers that are half as frequent every two thirds of ``mean``; means are at most 2**40."""
        words: Words = self._words.random_raw(count)
        # The number of trailing zeros of a word is k with probability 2**-(k + 1).
        lowest = words & (~words + np.uint64(1))
        halvings = np.bitwise_count(lowest - np.uint64(1)).astype(np.int64)
        step = max(1, mean * 2 // 3)
        return halvings * step + self._scaled(step, count)

    def _scaled(self, limit: int, count: int) -> Ints:
        """As :meth:`below`, coarser for large limits."""
        shift = max(0, limit.bit_length() - 31)
        return self.below(limit >> shift, count) << shift
