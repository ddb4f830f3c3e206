"""What an aggregate keeps per group.

Every aggregate function is a few accumulators. An accumulator is one or more columns of the
aggregate's state table with a merge operation each, so that writing a change needs no read: the
change's accumulators are appended and combined when read. The first column is always the number
of rows in the group; a group whose number is zero does not exist.

Sums that may see deletions keep more than their result, so that they do not drift: doubles are
summed as double-doubles, huge ones apart, with NaN and the infinities counted, 64-bit integers and decimals in
128 bits, powers of values (for variances) as quad-doubles.

What has no such form (a percentile, the list of a group's values) is *recomputed*: each change of a group reads
the group's multiset of values, and the result is stored as the newest one.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidemill.state.folds.comoments import SUMS
from tidemill.state.folds.expansions import TERMS
from tidemill.state.merge.merge import MergeOp

_INT64 = pa.int64()
_FLOAT64 = pa.float64()


OF_GROUP = frozenset(
    {
        "collect_list",
        "collect_set",
        "ordered_list",
        "percentile",
        "percentile_disc",
        "percentile_approx",
        "mode",
        "bit_and",
        "bit_or",
        "bit_xor",
        "product",
    }
)
"""Kinds that are made of all values of a group."""

ONLY = "only"
"""The value of a scalar subquery: that of the group's only row, an error while there are several."""
LISTS = frozenset({"collect_list", "collect_set", "ordered_list"})
"""Those of them that are lists of all values: NULL is the list of a group that has values, and is too large."""
PERCENTILES = frozenset({"percentile", "percentile_disc", "percentile_approx"})
"""Those of them with percentages."""

POWERS = {"moments2": 2, "moments3": 3, "moments4": 4}
"""Kinds that sum powers of values, with the highest power."""

COMOMENTS = "comoments"
"""The kind that sums two columns, their squares and their products: ``argument`` is x, ``others`` has y."""

Option = bool | int | tuple[float, ...]


@dataclass(frozen=True)
class Multiset:
    """Values kept per group with multiplicities, in a table of their own keyed by (group, columns).

    ``columns`` are positions of the aggregate's input. Rows with a NULL in one of the first ``required`` columns
    are left out.
    """

    columns: tuple[int, ...]
    required: int


@dataclass(frozen=True)
class Accumulator:
    """One thing kept per group.

    Parameters
    ----------
    kind : str
        ``rows``, ``count``, ``sum_i64``, ``sum_i128``, ``sum_wide``, ``sum_f64``, ``sum_exact``, ``min`` or ``max``;
        one of :data:`POWERS`; :data:`COMOMENTS`; and, always recomputed, ``min_by``, ``max_by`` and those of
        :data:`OF_GROUP`.
    argument : int or None
        Column position of the aggregate's input; None only for ``rows``.
    distinct : bool
        Whether it sees each distinct non-NULL value of a group once.
    recomputed : bool
        The value is looked up in the group's multiset whenever the group changes, instead of being combined. For
        ``min`` and ``max`` where the input may retract.
    others : tuple of int
        Further columns: of ``COUNT(DISTINCT a, b)`` all but the first; of ``min_by`` and ``max_by`` the value,
        where ``argument`` is what orders it; of comoments the second one.
    options : tuple
        Constants by name: ``percentages``, whether the result is a list of them (``many``), ``descending``; of an
        ordered list ``descending`` and ``nulls_last`` for each field of the argument but the last, and ``limit``.
    """

    kind: str
    argument: int | None = None
    distinct: bool = False
    recomputed: bool = False
    others: tuple[int, ...] = ()
    options: tuple[tuple[str, Option], ...] = ()

    @property
    def multiset(self) -> Multiset | None:
        """The values it is computed from, if not from the rows of the epoch."""
        if not (self.distinct or self.recomputed):
            return None
        assert self.argument is not None
        columns = (self.argument, *self.others)
        return Multiset(columns, 1 if self.kind in ("min_by", "max_by") else len(columns))

    def columns(self, input_types: tuple[pa.DataType, ...]) -> tuple[pa.DataType, ...]:
        """Arrow types of the columns it occupies."""
        if self.kind == "sum_i128":
            return (_INT64, _INT64)
        if self.kind == "sum_wide":
            return (_INT64, _INT64, _INT64)
        if self.kind == "sum_exact":
            return (_FLOAT64,) * 4 + (_INT64,) * 3
        if self.kind == "sum_f64":
            return (_FLOAT64,)
        if self.kind in POWERS:
            return (_FLOAT64,) * (TERMS * POWERS[self.kind]) + (_INT64, _INT64)
        if self.kind == COMOMENTS:
            return (_FLOAT64,) * (TERMS * SUMS) + (_INT64,) * 3
        if self.kind in PERCENTILES:
            assert self.argument is not None
            type_ = input_types[self.argument] if self.kind == "percentile_approx" else _FLOAT64
            return (pa.list_(type_) if dict(self.options)["many"] else type_,)
        if self.recomputed or self.kind in ("min", "max"):
            assert self.argument is not None
            type_ = input_types[self.others[0] if self.others else self.argument]
            if self.kind == "ordered_list":
                return (pa.list_(type_.field(type_.num_fields - 1).type),)
            return (pa.list_(type_) if self.kind in ("collect_list", "collect_set") else type_,)
        return (_INT64,)

    def merge_ops(self) -> tuple[MergeOp, ...]:
        """How its columns combine across runs; two-column operations count once."""
        if self.kind == "sum_i128":
            return (MergeOp.SUM_I128,)
        if self.kind == "sum_wide":
            return (MergeOp.SUM_I128, MergeOp.SUM)
        if self.kind == "sum_exact":
            return (MergeOp.SUM_DD,) * 2 + (MergeOp.SUM,) * 3
        if self.kind in POWERS:
            return (MergeOp.SUM_QD,) * POWERS[self.kind] + (MergeOp.SUM, MergeOp.SUM)
        if self.kind == COMOMENTS:
            return (MergeOp.SUM_QD,) * SUMS + (MergeOp.SUM,) * 3
        if self.recomputed:
            return (MergeOp.LAST,)
        if self.kind in ("min", "max"):
            return (MergeOp.MIN if self.kind == "min" else MergeOp.MAX,)
        return (MergeOp.SUM,)


@dataclass(frozen=True)
class Result:
    """How one aggregate call is read: positions in the list of accumulators.

    ``count`` is the accumulator with the number of non-NULL arguments (``rows`` when none can be NULL).
    ``argument`` is the type of the argument, NULL type for ``COUNT(*)``. With ``lenient`` a result that does not
    fit is NULL instead of an error.
    """

    function: str
    argument: pa.DataType
    type: pa.DataType
    value: int
    count: int
    lenient: bool = False


@dataclass(frozen=True)
class AggregateLayout:
    """The state of one aggregate node.

    Attributes
    ----------
    accumulators : tuple of Accumulator
        The first is ``rows``.
    results : tuple of Result
        One per aggregate call.
    multisets : tuple of Multiset
        For DISTINCT, for MIN and MAX when rows may be retracted, and for all else that is recomputed.
    """

    accumulators: tuple[Accumulator, ...]
    results: tuple[Result, ...]
    multisets: tuple[Multiset, ...]

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
