"""Sums of two columns, of their squares and of their products as quad-doubles, and central moments of them.

What :mod:`tidemill.state.folds.expansions` does for one column: covariances and regressions come out of sums without
cancellation, also after deletions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.words import F64, F64_OUT, I64, I64_OUT, U8, Bytes, Floats, Ints, is_valid, kernel
from tidemill.state.folds.expansions import (
    KEPT,
    ROOM,
    TERMS,
    add_product,
    add_weighted,
    leading,
    limit,
    two_product,
)
from tidemill.state.keys.layout import fixed, validity

SUMS = 5
"""Quad-doubles of two columns: sums of x, y, x * x, y * y and x * y."""

_NO_WEIGHTS = np.empty(0, np.int64)


@kernel(types.tuple_of((F64_OUT, I64_OUT)), I64, F64, F64, I64, U8, types.int64, types.int64, types.float64)
def _sum_products(
    ids: Ints, x: Floats, y: Floats, weights: Ints, bitmap: Bytes, offset: int, groups: int, most: float
) -> tuple[Floats, Ints]:
    """``counted`` has for each group the rows whose x is no number, whose y is none, and that are too large."""
    sums = np.zeros(4 * 5 * groups, np.float64)
    counted = np.zeros(3 * groups, np.int64)
    values = np.zeros(2, np.float64)
    for i in range(ids.size):
        if not is_valid(bitmap, offset, i):
            continue
        group = ids[i]
        weight = weights[i] if weights.size else 1
        values[0] = x[i]
        values[1] = y[i]
        for side in range(2):
            if not np.isfinite(values[side]):
                counted[side * groups + group] += weight
                values[side] = 0.0
            elif values[side] >= most or values[side] <= -most:
                counted[2 * groups + group] += weight
                values[side] = 0.0
        for side in range(2):
            add_weighted(sums, 4 * side * groups + group, groups, values[side], weight)
        for part in range(3):
            left = values[0] if part != 1 else values[1]
            right = values[0] if part == 0 else values[1]
            at = 4 * (2 + part) * groups + group
            high, low = two_product(left, right)
            add_weighted(sums, at, groups, high, weight)
            add_weighted(sums, at, groups, low, weight)
    return sums, counted


@kernel(F64_OUT, I64, F64)
def _central_products(counts: Ints, sums: Floats) -> Floats:
    groups = counts.size
    result = np.zeros(3 * groups, np.float64)
    terms = np.empty(ROOM, np.float64)
    one = np.zeros(2, np.float64)
    one[0] = 1.0
    read = np.zeros((5, 5), np.float64)
    largest = np.zeros(KEPT, np.float64)
    for g in range(groups):
        if counts[g] <= 0:
            continue
        n = np.float64(counts[g])
        for p in range(5):
            for i in range(4):
                read[p, i] = sums[(4 * p + i) * groups + g]
        for part in range(3):
            left = 0 if part != 1 else 1
            right = 0 if part == 0 else 1
            size = add_product(terms, 0, read[2 + part], one, n)
            size = add_product(terms, size, read[left], read[right], -1.0)
            leading(terms, size, largest)
            found = largest[0] / n
            result[part * groups + g] = found if part == 2 else max(found, 0.0)
    return result


def _rows(flat: Any, groups: int, count: int) -> list[Any]:
    return [flat[i * groups : (i + 1) * groups] for i in range(count)]


def sum_products(
    ids: Ints, x: pa.Array[Any], y: pa.Array[Any], weights: Ints | None, groups: int
) -> tuple[list[Floats], list[Ints]]:
    """Sums over pairs of float64 values, times weight; a row with a NULL in ``x`` is left out (it has one in ``y``).

    Returns
    -------
    sums : list of np.ndarray
        ``TERMS * SUMS`` float64[groups]: the quad-double of x, of y, of x * x, of y * y and of x * y.
    counted : list of np.ndarray
        Three int64[groups]: weights of rows whose x is NaN or infinite, whose y is, and of values from
        ``limit(2)`` on; such a value is summed as 0.
    """
    flat, counted = _sum_products(
        ids,
        fixed(x, np.dtype(np.float64)),
        fixed(y, np.dtype(np.float64)),
        _NO_WEIGHTS if weights is None else np.ascontiguousarray(weights, np.int64),
        *validity(x),
        groups,
        limit(2),
    )
    return _rows(flat, groups, TERMS * SUMS), _rows(counted, groups, 3)


def central_products(counts: Ints, sums: list[Floats]) -> list[Floats]:
    """Sums of ``(x - mean) ** 2``, ``(y - mean) ** 2`` and ``(x - mean) * (y - mean)``.

    Each is rounded once or twice; it is exactly 0 where the difference of the sums is, or a count is not positive.

    Parameters
    ----------
    counts : np.ndarray
        int64[groups], the numbers of pairs.
    sums : list of np.ndarray
        As from :func:`sum_products`.
    """
    return _rows(_central_products(counts, np.concatenate(sums)), len(counts), 3)
