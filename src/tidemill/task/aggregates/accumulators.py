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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.kernels.columns import column, nulls
from tidemill.state.merge.merge import MergeOp

Array: TypeAlias = "pa.Array[Any]"
Ints: TypeAlias = npt.NDArray[np.int64]
Weights: TypeAlias = npt.NDArray[np.int64] | None
Types: TypeAlias = tuple[pa.DataType, ...]
Option: TypeAlias = bool | int | tuple[float, ...]

Part: TypeAlias = tuple[Array, Ints]
"""Values without NULLs, and how often each occurs, positive."""
Parts: TypeAlias = Callable[[], Iterator[Part]]
"""Gives the parts of one group's values, again each time it is called: ascending values, each once."""


@dataclass(frozen=True)
class GroupValues:
    """The values of some groups, for kinds that are made of all of them.

    Attributes
    ----------
    ids : np.ndarray
        int64[m], ascending: the group of each distinct value.
    values : pa.Array
        Without NULLs, in ascending order within a group, NaN last.
    weights : np.ndarray
        int64[m], how often each value occurs, positive.
    groups : int
        Number of groups, some of which may have no values.
    """

    ids: Ints
    values: Array
    weights: Ints
    groups: int

    @property
    def starts(self) -> Ints:
        """int64[groups + 1]: where the values of each group begin."""
        found: Ints = np.searchsorted(self.ids, np.arange(self.groups + 1))
        return found


Fold: TypeAlias = Callable[[Ints, Any, Any, Weights, int], list[Array]]
"""Ids, values, values of the second column, weights, number of groups: one array for each column of the kind."""


@dataclass(frozen=True)
class Kind:
    """What one kind of accumulator keeps of a group.

    Attributes
    ----------
    columns : callable
        Types of its columns, given the accumulator and the types of the aggregate's input.
    merge : callable
        How they combine across runs; an operation of several columns counts once.
    fold : callable or None
        Folds a batch to one row a group; None for a kind that is always looked up in the group's multiset.
    of_group : callable or None
        For kinds that are made of all values of a group: the column, one entry a group, NULL (for lists the empty
        list) without values.
    of_parts : callable or None
        Beside ``of_group``: few values that stand for those of a group that is too large for memory.
    is_list : bool
        Whether NULL stands for a list that is too large.
    greatest : bool
        Of extremes, whether it is the greatest.
    of_any : bool
        Whether a row counts when one of its further columns is NULL: only the first one is required.
    carried : bool
        Whether the total of a window frame can be carried on to the next slice of a large partition: it is the same in
        whatever order rows are added, and one row can stand for all before it.
    in_order : bool
        Over a window, whether values are in the order of the window; else ascending.
    """

    name: str
    columns: Callable[[Accumulator, Types], Types]
    merge: Callable[[Accumulator], tuple[MergeOp, ...]]
    fold: Fold | None = None
    of_group: Callable[[Accumulator, GroupValues], Array] | None = None
    of_parts: Callable[[Accumulator, Parts], list[Part]] | None = None
    is_list: bool = False
    greatest: bool = False
    of_any: bool = False
    carried: bool = False
    in_order: bool = False


_kinds: dict[str, Kind] = {}


def declare_kinds(*kinds: Kind) -> None:
    """Make kinds of accumulators known, by name."""
    _kinds.update((kind.name, kind) for kind in kinds)


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
        The name of a :class:`Kind`.
    argument : int or None
        Column position of the aggregate's input; None only for ``rows``.
    distinct : bool
        Whether it sees each distinct non-NULL value of a group once.
    recomputed : bool
        The value is looked up in the group's multiset whenever the group changes, instead of being combined.
    others : tuple of int
        Further columns: of ``COUNT(DISTINCT a, b)`` all but the first; of ``min_by`` and ``max_by`` the value,
        where ``argument`` is what orders it; of comoments the second one.
    options : tuple
        Constants by name, as the kind understands them.
    """

    kind: str
    argument: int | None = None
    distinct: bool = False
    recomputed: bool = False
    others: tuple[int, ...] = ()
    options: tuple[tuple[str, Option], ...] = ()

    @property
    def declared(self) -> Kind:
        """Its kind."""
        found = _kinds.get(self.kind)
        if found is None:
            raise TidemillError("TM2102", "this aggregate function is not supported yet", got=self.kind)
        return found

    @property
    def of_group(self) -> bool:
        """Whether it is made of all values of a group."""
        return self.declared.of_group is not None

    @property
    def multiset(self) -> Multiset | None:
        """The values it is computed from, if not from the rows of the epoch."""
        if not (self.distinct or self.recomputed):
            return None
        assert self.argument is not None
        columns = (self.argument, *self.others)
        return Multiset(columns, 1 if self.declared.of_any else len(columns))

    def columns(self, input_types: Types) -> Types:
        """Arrow types of the columns it occupies."""
        return self.declared.columns(self, input_types)

    def merge_ops(self) -> tuple[MergeOp, ...]:
        """How its columns combine across runs; operations of several columns count once."""
        return (MergeOp.LAST,) if self.recomputed else self.declared.merge(self)

    def fold(self, ids: Ints, values: Array | None, other: Array | None, weights: Weights, groups: int) -> list[Array]:
        """One batch.

        Parameters
        ----------
        ids : np.ndarray
            int64: the group of each row, dense from 0.
        values, other : pa.Array or None
            The argument, None for ``rows``; the second column.

        Returns
        -------
        list of pa.Array
            ``groups`` rows each, one array for each column of the accumulator.
        """
        fold = self.declared.fold
        assert fold is not None, f"{self.kind} is looked up in a multiset"
        return fold(ids, values, other, weights, groups)

    def neutral(self, input_types: Types, groups: int) -> list[Array]:
        """Its columns for groups of which it is computed later, from a multiset."""
        if self.recomputed:
            return [nulls(groups, t) for t in self.columns(input_types)]
        return [column(np.zeros(groups, t.to_pandas_dtype())) for t in self.columns(input_types)]


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
