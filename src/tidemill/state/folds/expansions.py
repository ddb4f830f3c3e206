"""Sums of powers as quad-doubles (about 212 bits), and central moments of them without cancellation.

A sum of squares beside a sum of values gives a variance only if the digits that cancel are there: what one
value of 1e12 adds to a group of ones is 1e24, and it may be deleted again. Four float64 that do not overlap
hold 212 bits, and the differences below are taken on expansions of any length.

Source: J. R. Shewchuk, "Adaptive Precision Floating-Point Arithmetic", 1997; the QD library for four terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.words import (
    F64,
    F64_OUT,
    I64,
    I64_OUT,
    U8,
    Bytes,
    Floats,
    Ints,
    fused_multiply_add,
    inlined,
    is_valid,
    kernel,
    two_sum,
)
from tidemill.state.keys.layout import fixed, validity

TERMS = 4
"""Columns of a quad-double."""

KEPT = 8
ROOM = 1100
_NO_WEIGHTS = np.empty(0, np.int64)


def limit(power: int) -> float:
    """Values from this magnitude on are only counted: their powers, and products of sums of these, may overflow."""
    return 2.0 ** (780 // power)


@inlined
def two_product(a: float, b: float) -> tuple[float, float]:
    product = a * b
    return product, fused_multiply_add(a, b, -product)


@inlined
def add(sums: Floats, at: int, step: int, x: float) -> None:
    """Add a float to the quad-double at ``at``, ``at + step``, ``at + 2 * step`` and ``at + 3 * step``."""
    a0, rest = two_sum(sums[at], x)
    if rest == 0.0 and sums[at + step] == 0.0:
        sums[at] = a0
        return
    a1, rest = two_sum(sums[at + step], rest)
    a2, rest = two_sum(sums[at + 2 * step], rest)
    a3, rest = two_sum(sums[at + 3 * step], rest)
    total, t4 = two_sum(a3, rest)
    total, t3 = two_sum(a2, total)
    total, t2 = two_sum(a1, total)
    total, t1 = two_sum(a0, total)
    for i in range(4):
        sums[at + i * step] = 0.0
    filled = 0
    for term in (t1, t2, t3, t4):
        total, rest = two_sum(total, term)
        if rest != 0.0:
            if filled < 4:
                sums[at + filled * step] = total
            filled += 1
            total = rest
    if filled < 4:
        sums[at + filled * step] = total


@inlined
def add_weighted(sums: Floats, at: int, step: int, x: float, weight: int) -> None:
    if x == 0.0 or weight == 0:
        return
    if weight == 1 or weight == -1:
        add(sums, at, step, x * weight)
        return
    # A weight of more than 53 bits is two floats.
    small = -9007199254740992 <= weight <= 9007199254740992
    upper = 0.0 if small else (weight >> 32) * 4294967296.0
    lower = weight * 1.0 if small else (weight & 0xFFFFFFFF) * 1.0
    for part in (upper, lower):
        if part != 0.0:
            high, low = two_product(x, part)
            add(sums, at, step, high)
            if low != 0.0:
                add(sums, at, step, low)


@kernel(
    types.tuple_of((F64_OUT, I64_OUT, I64_OUT)), I64, F64, I64, U8, types.int64, types.int64, types.int64, types.float64
)
def _sum_powers(
    ids: Ints, values: Floats, weights: Ints, bitmap: Bytes, offset: int, groups: int, power: int, most: float
) -> tuple[Floats, Ints, Ints]:
    sums = np.zeros(4 * power * groups, np.float64)
    special = np.zeros(groups, np.int64)
    huge = np.zeros(groups, np.int64)
    for i in range(ids.size):
        if not is_valid(bitmap, offset, i):
            continue
        x = values[i]
        group = ids[i]
        weight = weights[i] if weights.size else 1
        if not np.isfinite(x):
            special[group] += weight
            continue
        if x >= most or x <= -most:
            huge[group] += weight
            continue
        add_weighted(sums, group, groups, x, weight)
        high, low = two_product(x, x)
        at = 4 * groups + group
        add_weighted(sums, at, groups, high, weight)
        add_weighted(sums, at, groups, low, weight)
        if power >= 3:
            at += 4 * groups
            for part in (high, low):
                upper, lower = two_product(part, x)
                add_weighted(sums, at, groups, upper, weight)
                add_weighted(sums, at, groups, lower, weight)
        if power >= 4:
            at += 4 * groups
            for left, right in ((high, high), (2.0 * high, low), (low, low)):
                upper, lower = two_product(left, right)
                add_weighted(sums, at, groups, upper, weight)
                add_weighted(sums, at, groups, lower, weight)
    return sums, special, huge


@kernel(F64_OUT, I64, I64, F64, F64, F64, F64)
def _sum_quads(order: Ints, starts: Ints, first: Floats, second: Floats, third: Floats, fourth: Floats) -> Floats:
    groups = starts.size - 1
    sums = np.zeros(4 * groups, np.float64)
    for s in range(groups):
        row = order[starts[s]]
        sums[s] = first[row]
        sums[groups + s] = second[row]
        sums[2 * groups + s] = third[row]
        sums[3 * groups + s] = fourth[row]
        for j in range(starts[s] + 1, starts[s + 1]):
            row = order[j]
            for part in (first[row], second[row], third[row], fourth[row]):
                if part != 0.0:
                    add(sums, s, groups, part)
    return sums


@inlined
def _grow(terms: Floats, size: int, x: float) -> int:
    """Add a float to an expansion (terms from small to large); returns its new size."""
    if x == 0.0:
        return size
    kept = 0
    total = x
    for i in range(size):
        total, rest = two_sum(total, terms[i])
        if rest != 0.0:
            terms[kept] = rest
            kept += 1
    if total != 0.0:
        terms[kept] = total
        kept += 1
    return kept


@inlined
def add_product(terms: Floats, size: int, left: Floats, right: Floats, factor: float) -> int:
    """Add ``factor * left * right`` to an expansion; ``left`` and ``right`` are read up to their first 0."""
    for i in range(left.size):
        if left[i] == 0.0:
            break
        for j in range(right.size):
            if right[j] == 0.0:
                break
            for part in two_product(left[i], right[j]):
                high, low = two_product(part, factor)
                size = _grow(terms, size, low)
                size = _grow(terms, size, high)
    return size


@inlined
def leading(terms: Floats, size: int, out: Floats) -> None:
    """The largest terms of an expansion, from large to small, then zeros."""
    out[:] = 0.0
    if size == 0:
        return
    total = terms[size - 1]
    filled = 0
    for i in range(size - 2, -1, -1):
        total, rest = two_sum(total, terms[i])
        if rest != 0.0:
            if filled < out.size:
                out[filled] = total
            filled += 1
            total = rest
    if filled < out.size:
        out[filled] = total


@kernel(F64_OUT, I64, F64, types.int64)
def _central_moments(counts: Ints, sums: Floats, power: int) -> Floats:
    groups = counts.size
    result = np.zeros((power - 1) * groups, np.float64)
    terms = np.empty(ROOM, np.float64)
    one = np.zeros(2, np.float64)
    one[0] = 1.0
    power_sums = np.zeros((4, 5), np.float64)
    square = np.zeros(KEPT, np.float64)
    other = np.zeros(KEPT, np.float64)
    third = np.zeros(KEPT, np.float64)
    for g in range(groups):
        if counts[g] <= 0:
            continue
        n = np.float64(counts[g])
        for p in range(power):
            for i in range(4):
                power_sums[p, i] = sums[(4 * p + i) * groups + g]
        s1 = power_sums[0]
        s2 = power_sums[1]
        size = add_product(terms, 0, s2, one, n)
        size = add_product(terms, size, s1, s1, -1.0)
        leading(terms, size, other)
        result[g] = max(other[0], 0.0) / n
        if power < 3:
            continue
        # n * (n * s3 - 3 * s1 * s2) + 2 * s1 ** 3
        size = add_product(terms, 0, power_sums[2], one, n)
        size = add_product(terms, size, s1, s2, -3.0)
        leading(terms, size, other)
        size = add_product(terms, 0, s1, s1, 1.0)
        leading(terms, size, square)
        size = add_product(terms, 0, other, one, n)
        size = add_product(terms, size, square, s1, 2.0)
        leading(terms, size, third)
        result[groups + g] = third[0] / n / n
        if power < 4:
            continue
        # n * (n * (n * s4 - 4 * s1 * s3) + 6 * s1 ** 2 * s2) - 3 * s1 ** 4
        size = add_product(terms, 0, power_sums[3], one, n)
        size = add_product(terms, size, s1, power_sums[2], -4.0)
        leading(terms, size, other)
        size = add_product(terms, 0, other, one, n)
        size = add_product(terms, size, square, s2, 6.0)
        leading(terms, size, other)
        size = add_product(terms, 0, other, one, n)
        size = add_product(terms, size, square, square, -3.0)
        leading(terms, size, other)
        result[2 * groups + g] = other[0] / n / n / n
    return result


def _rows(flat: Floats, groups: int) -> list[Floats]:
    return [flat[at : at + groups] for at in range(0, len(flat), groups)] if groups else []


def sum_powers(
    ids: Ints, values: pa.Array[Any], weights: Ints | None, groups: int, power: int
) -> tuple[list[Floats], Ints, Ints]:
    """Sums of ``value ** p`` times weight for p from 1 to ``power`` (2 to 4) of a float64 column.

    Returns
    -------
    sums : list of np.ndarray
        ``4 * power`` float64[groups]: the quad-double of p = 1, then of p = 2, ...
    special, huge : np.ndarray
        int64[groups]: weights of NaN and the infinities, and of values from :func:`limit` on; neither is summed.
    """
    flat, special, huge = _sum_powers(
        ids,
        fixed(values, np.dtype(np.float64)),
        _NO_WEIGHTS if weights is None else np.ascontiguousarray(weights, np.int64),
        *validity(values),
        groups,
        power,
        limit(power),
    )
    return _rows(flat, groups) or [np.empty(0)] * (TERMS * power), special, huge


def sum_quads(order: Ints, starts: Ints, quads: tuple[Floats, ...]) -> list[Floats]:
    """Quad-doubles of the rows of each segment added up; segments as in :mod:`tidemill.state.merge.combining`."""
    groups = len(starts) - 1
    return _rows(_sum_quads(order, starts, *quads), groups) or [np.empty(0)] * TERMS


def central_moments(counts: Ints, sums: list[Floats], power: int) -> list[Floats]:
    """Sums of ``(value - mean) ** p`` for p from 2 to ``power``; 0 where ``counts`` is not positive.

    Each is rounded once or twice; it is exactly 0 where the difference of the sums is.

    Parameters
    ----------
    counts : np.ndarray
        int64[groups], the numbers of values summed.
    sums : list of np.ndarray
        As from :func:`sum_powers`.
    """
    flat = _central_moments(counts, np.concatenate(sums), power)
    return _rows(flat, len(counts)) or [np.empty(0)] * (power - 1)
