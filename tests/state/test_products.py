"""Products of accumulators against exact fractions."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np

from tidemill.state.folds.products import add_product_dd, add_product_wide, ints_as_dd, wide_as_dd

INTS = [0, 1, -1, 2**53 + 1, -(2**53) - 1, 2**62 + 3, 2**63 - 1, -(2**63), 0xFFFFFFFF, -(2**32)]


def words(values: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """128-bit integers as columns."""
    low = np.array([v % 2**64 for v in values], np.uint64).view(np.int64)
    return low, np.array([(v >> 64) % 2**64 for v in values], np.uint64).view(np.int64)


def test_integers_as_double_doubles_are_exact() -> None:
    high, low = ints_as_dd(np.array(INTS, np.int64))
    assert [int(Fraction(h) + Fraction(x)) for h, x in zip(high.tolist(), low.tolist())] == INTS


def test_wide_integers_as_double_doubles(seed: int) -> None:
    rng = random.Random(seed)
    values = [*INTS, *(rng.randrange(-(2 ** rng.randint(1, 127)), 2**126) for _ in range(500)), -(2**127), 2**127 - 1]
    high, low = wide_as_dd(*words(values))
    for h, x, value in zip(high.tolist(), low.tolist(), values):
        assert abs(Fraction(h) + Fraction(x) - value) <= Fraction(abs(value), 2**104)


def test_wide_products_modulo_2_to_the_128(seed: int) -> None:
    rng = random.Random(seed)

    def numbers() -> list[int]:
        return [rng.choice([rng.choice(INTS), rng.randrange(-(2**127), 2**127)]) for _ in range(300)]

    for factor in (1, -1, 0, 3, -(10**20), 2**127 - 1):
        left, right, start = numbers(), numbers(), numbers()
        low, high = words(start)
        c_low, c_high = (int(w[0]) for w in words([factor]))
        add_product_wide(*words(left), *words(right), c_low, c_high, low, high)
        for i in range(300):
            total = int(low[i]) % 2**64 + 2**64 * int(high[i])
            assert (total - start[i] - factor * left[i] * right[i]) % 2**128 == 0


def test_double_double_products(seed: int) -> None:
    rng = random.Random(seed)

    def pair() -> tuple[float, float]:
        high = rng.choice([0.0, -0.0, 1.0, 0.1, rng.gauss(0, 1) * 10.0 ** rng.randint(-40, 40)])
        return high, high * rng.choice([0.0, 1e-17, -5e-18])

    left, right = [pair() for _ in range(500)], [pair() for _ in range(500)]
    for coefficient in (1.0, -1.0, 0.1, -2.5, 0.0):
        total = np.zeros((4, 500))
        add_product_dd(grid(left), grid(right), coefficient, total)
        assert not total[2:].any()
        for i in range(500):
            a, b = (Fraction(x) + Fraction(y) for x, y in (left[i], right[i]))
            exact = a * b * Fraction(coefficient)
            assert abs(Fraction(total[0, i]) + Fraction(total[1, i]) - exact) <= abs(exact) / 2**98


def test_products_beyond_doubles() -> None:
    """Infinite once too large, but never NaN for a factor of zero."""
    left = [(1e200, 0.0), (1e200, 0.0), (math.inf, 0.0), (math.inf, 0.0)]
    right = [(1e200, 0.0), (-1e200, 0.0), (0.0, 0.0), (2.0, 0.0)]
    total = np.zeros((4, 4))
    add_product_dd(grid(left), grid(right), 1.0, total)
    assert total.tolist() == [[0.0] * 4, [0.0] * 4, [math.inf, -math.inf, 0.0, math.inf], [0.0] * 4]


def test_products_of_huge_sums(seed: int) -> None:
    """Sums and products that a double does not hold, while they are less than 2**1120."""
    rng = random.Random(seed)

    def whole(parts: tuple[float, ...]) -> Fraction:
        high, low, units, rest = map(Fraction, parts)
        return high + low + 2**100 * (units + rest)

    def factor(bits: int) -> tuple[float, float, float, float]:
        high = rng.choice([0.0, rng.choice([-1, 1]) * rng.uniform(1, 2) * 2.0 ** rng.randint(-60, min(bits, 1000))])
        units = rng.uniform(-2, 2) * 2.0 ** rng.randint(880, 950) if bits > 1000 and rng.random() < 0.7 else 0.0
        return high, high * rng.choice([0.0, 1e-17]), units, units * rng.choice([0.0, 1e-17])

    bits = [rng.randint(0, 1060) for _ in range(500)]
    left, right = [factor(b) for b in bits], [factor(1060 - b) for b in bits]
    start = [factor(1060) for _ in bits]
    total = grid(start)
    add_product_dd(grid(left), grid(right), -1.5, total)
    for i in range(500):
        product = Fraction(-3, 2) * whole(left[i]) * whole(right[i])
        size = sum(abs(Fraction(-3, 2) * a * b) for a in terms(left[i]) for b in terms(right[i]))
        size += sum(map(abs, terms(start[i])))
        got = whole(tuple(map(float, total[:, i])))
        assert abs(got - whole(start[i]) - product) <= size / 2**98


def terms(parts: tuple[float, ...]) -> tuple[Fraction, Fraction]:
    high, low, units, rest = map(Fraction, parts)
    return high + low, 2**100 * (units + rest)


def grid(sums: list[tuple[float, ...]]) -> np.ndarray:
    """Double-doubles, maybe with those in units of 2**100, as they are given to the kernel."""
    found = np.zeros((4, len(sums)))
    found[: len(sums[0])] = np.array(sums).T
    return found
