"""How the values of equal keys combine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

import pyarrow as pa


class MergeOp(StrEnum):
    """How the values of equal keys become one.

    ``SUM`` is int64 (wraps) or float64 (added in order of age). ``MIN`` and ``MAX`` take NULL as neutral and
    NaN as greatest. ``LAST`` takes the value of the newest run, NULL included. ``SUM_DD`` is a double-double
    in two float64 columns (high, low; low is 0 once high is not finite), ``SUM_I128`` a wrapping 128-bit int
    in two int64 columns (low word as its bit pattern, high word), ``SUM_QD`` a quad-double in four float64
    columns. Sums never see a NULL.
    """

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    LAST = "last"
    SUM_DD = "sum_dd"
    SUM_I128 = "sum_i128"
    SUM_QD = "sum_qd"

    @property
    def columns(self) -> int:
        """Arrow columns that one logical value takes."""
        if self is MergeOp.SUM_QD:
            return 4
        return 2 if self in (MergeOp.SUM_DD, MergeOp.SUM_I128) else 1

    @property
    def is_sum(self) -> bool:
        """Whether a missing value is 0 rather than NULL."""
        return self in (MergeOp.SUM, MergeOp.SUM_DD, MergeOp.SUM_I128, MergeOp.SUM_QD)


def is_multiset(ops: Sequence[MergeOp], value_types: Sequence[pa.DataType]) -> bool:
    """Whether a row is its key and a weight, nothing else."""
    return list(ops) == [MergeOp.SUM] and list(value_types) == [pa.int64()]


def columns_by_op(ops: Sequence[MergeOp]) -> Iterator[tuple[MergeOp, int]]:
    """Each operation with the position of its first Arrow column."""
    at = 0
    for op in ops:
        yield op, at
        at += op.columns
