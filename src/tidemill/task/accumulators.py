"""What an aggregate keeps per group.

Every aggregate function is a few accumulators. An accumulator is one or more columns of the
aggregate's state table with a merge operation each, so that writing a change needs no read: the
change's accumulators are appended and combined when read. The first column is always the number
of rows in the group; a group whose number is zero does not exist.

Sums that may see deletions keep more than their result, so that they do not drift: doubles are
summed as double-double with NaN and the infinities counted apart, 64-bit integers and decimals in
128 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidemill.state.merge import MergeOp

_INT64 = pa.int64()
_FLOAT64 = pa.float64()


@dataclass(frozen=True)
class Accumulator:
    """One thing kept per group.

    Parameters
    ----------
    kind : str
        ``rows``, ``count``, ``sum_i64``, ``sum_i128``, ``sum_f64``, ``sum_exact``, ``min`` or ``max``.
    argument : int or None
        Column position of the aggregate's input; None only for ``rows``.
    distinct : bool
        Whether it sees each distinct non-NULL value of a group once.
    recomputed : bool
        For ``min`` and ``max``: the value is looked up in the group's multiset whenever the group changes
        (input may retract), instead of being combined by comparison.
    """

    kind: str
    argument: int | None = None
    distinct: bool = False
    recomputed: bool = False

    def columns(self, input_types: tuple[pa.DataType, ...]) -> tuple[pa.DataType, ...]:
        """Arrow types of the columns it occupies."""
        if self.kind == "sum_i128":
            return (_INT64, _INT64)
        if self.kind == "sum_exact":
            return (_FLOAT64, _FLOAT64, _INT64, _INT64, _INT64)
        if self.kind == "sum_f64":
            return (_FLOAT64,)
        if self.kind in ("min", "max"):
            assert self.argument is not None
            return (input_types[self.argument],)
        return (_INT64,)

    def merge_ops(self) -> tuple[MergeOp, ...]:
        """How its columns combine across runs; two-column operations count once."""
        if self.kind == "sum_i128":
            return (MergeOp.SUM_I128,)
        if self.kind == "sum_exact":
            return (MergeOp.SUM_DD, MergeOp.SUM, MergeOp.SUM, MergeOp.SUM)
        if self.kind in ("min", "max"):
            if self.recomputed:
                return (MergeOp.LAST,)
            return (MergeOp.MIN if self.kind == "min" else MergeOp.MAX,)
        return (MergeOp.SUM,)


@dataclass(frozen=True)
class Result:
    """How one aggregate call is read: positions in the list of accumulators.

    ``count`` is the accumulator with the number of non-NULL arguments (``rows`` when none can be NULL).
    ``argument`` is the type of the argument, NULL type for ``COUNT(*)``.
    """

    function: str
    argument: pa.DataType
    type: pa.DataType
    value: int
    count: int


@dataclass(frozen=True)
class AggregateLayout:
    """The state of one aggregate node.

    Attributes
    ----------
    accumulators : tuple of Accumulator
        The first is ``rows``.
    results : tuple of Result
        One per aggregate call.
    multisets : tuple of int
        Input columns whose values are kept per group with multiplicities, each in a table of its own keyed by
        (group, value): for DISTINCT, and for MIN and MAX when rows may be retracted.
    """

    accumulators: tuple[Accumulator, ...]
    results: tuple[Result, ...]
    multisets: tuple[int, ...]

    def value_types(self, input_types: tuple[pa.DataType, ...]) -> tuple[pa.DataType, ...]:
        """Arrow types of the state table's value columns."""
        return tuple(t for a in self.accumulators for t in a.columns(input_types))

    def merge_ops(self) -> tuple[MergeOp, ...]:
        """Merge operations of the state table's value columns."""
        return tuple(op for a in self.accumulators for op in a.merge_ops())

    def offsets(self, input_types: tuple[pa.DataType, ...]) -> tuple[int, ...]:
        """For each accumulator, the position of its first column among the value columns."""
        positions, at = [], 0
        for accumulator in self.accumulators:
            positions.append(at)
            at += len(accumulator.columns(input_types))
        return tuple(positions)
