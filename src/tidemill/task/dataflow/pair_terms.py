"""Accumulators of pairs of rows, from accumulators of either side: sums of products.

A term ``coefficient * left * right`` stands for the sum of ``coefficient * a * b`` over all pairs of rows, where a is
what ``left`` adds up and b what ``right`` does; ``rows`` and ``count`` add up ones. Sums multiply, since
``sum(a) * sum(b)`` is the sum of all products.

**NaN and infinities** are counted beside a sum, and so are those of a product. Against a count their number is exact:
each special value meets that many rows, and a negative coefficient turns the sign of an infinity. Against another
sum it takes the signs of the factors it meets, which a term's ``signs`` count (``inf * 0`` is NaN); without them
every pair with a special value counts as NaN. Pairs with a NULL do not count, given the side has a ``count`` of the
sum's argument.

``sum_f64`` keeps special values in the sum itself. It is read like a row with that value, which is right only
while neither side retracts: a sum that sees deletions is ``sum_exact``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.state.folds.products import add_product_dd, add_product_wide, ints_as_dd, wide_as_dd
from tidemill.state.merge.combining import summable
from tidemill.state.merge.operations import MergeOp
from tidemill.state.runs.prefix_sums import split_specials
from tidemill.task.program import GroupPartial, PairSums, Term

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

Factors: TypeAlias = dict[int, tuple[npt.NDArray[Any], ...]]
"""By accumulator position: (n,) for a count or 64-bit sum, (low, high) for a 128-bit one; for a sum of doubles what
:func:`tidemill.state.runs.prefix_sums.split_specials` gives."""

COUNTS = ("rows", "count")
DOUBLES = ("sum_f64", "sum_exact")
SUMS = ("sum_i64", "sum_i128", *DOUBLES)


def check(operation: PairSums) -> None:
    """Refuse what cannot be computed; a programming error of the planner.

    Raises
    ------
    ValueError
        For accumulators that are no sums, doubles in a sum of integers, or such a sum with a broken coefficient.
    """
    output = operation.output.layout.accumulators
    if len(output) != len(operation.terms):
        raise ValueError(f"{len(operation.terms)} lists of terms for {len(output)} accumulators")
    for accumulator, terms in zip(output, operation.terms):
        whole = accumulator.kind in (*COUNTS, "sum_i64", "sum_i128")
        if accumulator.distinct or not (whole or accumulator.kind == "sum_exact"):
            raise ValueError(f"{accumulator} is no sum over pairs")
        for term in terms:
            for side, at in ((operation.left, term.left), (operation.right, term.right)):
                factor = side.layout.accumulators[at]
                if factor.kind not in (*COUNTS, *SUMS):
                    raise ValueError(f"{factor} is no factor of a sum over pairs")
                if whole and factor.kind in DOUBLES:
                    raise ValueError(f"{factor} in a {accumulator.kind}")
            if not np.isfinite(term.coefficient) or (whole and term.coefficient != int(term.coefficient)):
                raise ValueError(f"coefficient {term.coefficient} in a {accumulator.kind}")


def used(operation: PairSums) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The accumulators of the left and of the right side that take part, ascending."""
    left, right = operation.left, operation.right
    terms = [t for terms in operation.terms for t in terms]
    lefts, rights = {t.left for t in terms}, {t.right for t in terms}
    for term in terms:
        if _kind(left, term.left) in SUMS and _kind(right, term.right) in SUMS:
            lefts.add(_partners(left, term.left))
            rights.add(_partners(right, term.right))
            lefts.update(term.left_signs or ())
            rights.update(term.right_signs or ())
    return tuple(sorted(lefts)), tuple(sorted(rights))


def _kind(side: GroupPartial, at: int) -> str:
    return side.layout.accumulators[at].kind


def _partners(side: GroupPartial, at: int) -> int:
    """The accumulator that counts the rows which a sum adds up: those not NULL, else all."""
    accumulators = side.layout.accumulators
    for position, other in enumerate(accumulators):
        if other.kind == "count" and other.argument == accumulators[at].argument and not other.distinct:
            return position
    return 0


def sum_columns(side: GroupPartial, accumulators: Sequence[int]) -> list[list[tuple[MergeOp, int]]]:
    """Per accumulator the merge operations of its values, each with its first column."""
    offsets = side.layout.offsets(side.input_types)
    found = []
    for position in accumulators:
        at, columns = offsets[position], []
        for op in side.layout.accumulators[position].merge_ops():
            columns.append((op, at))
            at += op.columns
        found.append(columns)
    return found


def factors(side: GroupPartial, accumulators: Sequence[int], values: Sequence[pa.Array[Any]]) -> Factors:
    """The factors in the value columns of a side's table."""
    offsets = side.layout.offsets(side.input_types)
    found: Factors = {}
    for position in accumulators:
        at = offsets[position]
        types = side.layout.accumulators[position].columns(side.input_types)
        arrays = [summable(values[at + i], np.float64 if t == pa.float64() else np.int64) for i, t in enumerate(types)]
        found[position] = split_specials(arrays[0]) if _kind(side, position) == "sum_f64" else tuple(arrays)
    return found


def take(given: Factors, rows: Ints) -> Factors:
    """The factors of some rows."""
    return {position: tuple(array[rows] for array in arrays) for position, arrays in given.items()}


def products(operation: PairSums, left: Factors, right: Factors, rows: int) -> list[pa.Array[Any]]:
    """The value columns of the output: for row i the terms over factors ``left[..][i]`` and ``right[..][i]``."""
    columns: list[pa.Array[Any]] = []
    for accumulator, terms in zip(operation.output.layout.accumulators, operation.terms):
        if accumulator.kind == "sum_exact":
            columns += map(column, _doubles(operation, terms, left, right, rows))
        elif accumulator.kind == "sum_i128":
            columns += map(column, _wide(terms, left, right, rows))
        else:
            total = np.zeros(rows, np.int64)
            for term in terms:
                total += _signed(int(term.coefficient), 0) * left[term.left][0] * right[term.right][0]
            columns.append(column(total))
    return columns


def _signed(value: int, word: int) -> Any:
    """Bits 64 * word to 64 * word + 63 of a number, as int64."""
    bits = (value >> (64 * word)) & 0xFFFFFFFFFFFFFFFF
    return np.int64(bits - (1 << 64) if bits >> 63 else bits)


def _wide(terms: Sequence[Term], left: Factors, right: Factors, rows: int) -> tuple[Ints, Ints]:
    total, high = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    for term in terms:
        coefficient = int(term.coefficient)
        words = _signed(coefficient, 0), _signed(coefficient, 1)
        add_product_wide(*_as_wide(left[term.left]), *_as_wide(right[term.right]), *words, total, high)
    return total, high


def _as_wide(arrays: tuple[npt.NDArray[Any], ...]) -> tuple[Ints, Ints]:
    return (arrays[0], arrays[0] >> 63) if len(arrays) == 1 else (arrays[0], arrays[1])


def _doubles(
    operation: PairSums, terms: Sequence[Term], left: Factors, right: Factors, rows: int
) -> tuple[npt.NDArray[Any], ...]:
    total = np.zeros((4, rows))
    specials = np.zeros((3, rows), np.int64)
    for term in terms:
        mine, theirs = left[term.left], right[term.right]
        add_product_dd(_as_dd(mine), _as_dd(theirs), float(term.coefficient), total)
        if len(mine) < 3 and len(theirs) < 3:
            continue
        kinds = _kind(operation.left, term.left), _kind(operation.right, term.right)
        if kinds[0] in COUNTS:
            specials += _signed_specials(theirs, mine[0], term.coefficient)
        elif kinds[1] in COUNTS:
            specials += _signed_specials(mine, theirs[0], term.coefficient)
        else:
            partners = left[_partners(operation.left, term.left)][0], right[_partners(operation.right, term.right)][0]
            if term.left_signs is not None and term.right_signs is not None:
                signs = (
                    _Signs(mine, partners[0], *(left[s][0] for s in term.left_signs)),
                    _Signs(theirs, partners[1], *(right[s][0] for s in term.right_signs)),
                )
                specials += _special_products(*signs, term.coefficient)
                continue
            own, other = _any_special(mine), _any_special(theirs)
            specials[0] += own * partners[1] + partners[0] * other - own * other
    return *total, *specials


class _Signs:
    """How many values of a sum are of each kind."""

    def __init__(self, arrays: tuple[npt.NDArray[Any], ...], values: Ints, above: Ints, below: Ints) -> None:
        none = np.zeros(len(values), np.int64)
        specials: tuple[Ints, ...] = arrays[4:] or (none, none, none)
        self.nans, self.infinite, self.minus_infinite = specials
        self.values = values
        self.above = above - self.nans  # NaN is greater than any number
        self.below = below
        self.zeros = values - self.above - self.below - self.nans


def _special_products(left: _Signs, right: _Signs, coefficient: float) -> npt.NDArray[np.int64]:
    """NaN, inf and -inf among the products of all values of either side."""
    if coefficient == 0:
        infinite = (left.infinite + left.minus_infinite, right.infinite + right.minus_infinite)
        own, other = left.nans + infinite[0], right.nans + infinite[1]
        return np.stack([own * right.values + left.values * other - own * other, 0 * own, 0 * own])
    nans = left.nans * right.values + left.values * right.nans - left.nans * right.nans
    nans = nans + (left.infinite + left.minus_infinite) * right.zeros
    nans = nans + left.zeros * (right.infinite + right.minus_infinite)
    up, down = left.above - left.infinite, left.below - left.minus_infinite
    positive = left.infinite * right.above + left.minus_infinite * right.below
    positive = positive + up * right.infinite + down * right.minus_infinite
    negative = left.infinite * right.below + left.minus_infinite * right.above
    negative = negative + up * right.minus_infinite + down * right.infinite
    return np.stack([nans, positive, negative] if coefficient > 0 else [nans, negative, positive])


def _any_special(arrays: tuple[npt.NDArray[Any], ...]) -> Ints | np.int64:
    """How many rows of a sum are NaN or infinite."""
    if not arrays[4:]:
        return np.int64(0)
    total: Ints = arrays[4] + arrays[5] + arrays[6]
    return total


def _signed_specials(arrays: tuple[npt.NDArray[Any], ...], counts: Ints, coefficient: float) -> npt.NDArray[np.int64]:
    """NaN, inf and -inf of ``coefficient * value``, each value as often as its count says."""
    nans, positive, negative = arrays[4:]
    if coefficient == 0:  # 0 * inf is NaN
        nans, positive, negative = nans + positive + negative, 0 * positive, 0 * negative
    elif coefficient < 0:
        positive, negative = negative, positive
    return np.stack([nans, positive, negative]) * counts


def _as_dd(arrays: tuple[npt.NDArray[Any], ...]) -> Floats:
    """A sum as float64[4, n]: high and low, and those of what is huge."""
    found = np.zeros((4, len(arrays[0])))
    if len(arrays) == 1:
        found[:2] = ints_as_dd(np.ascontiguousarray(arrays[0]))
    elif len(arrays) == 2:
        found[:2] = wide_as_dd(*map(np.ascontiguousarray, arrays))
    else:
        found[:] = arrays[:4]
    return found
