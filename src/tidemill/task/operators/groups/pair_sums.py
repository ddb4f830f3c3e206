"""Sums over pairs of rows without making the pairs: an ordered aggregate index, and factorised aggregation.

Both sides are partial groups in state tables and the result is bilinear in them:

    d(L x R) = dL x (R + dR) + L x dR

With comparisons the right table is sorted by (K, y). The y that a left group meets are ranges of that order, whose
totals are differences of prefix sums of each run: O(log n) a group and run. ``L x dR`` is the same seen
from the other side where it can be: when the left table is sorted by (K, bound) and the output is keyed by K alone, a
changed (K, y) meets ranges of bounds. Else the left groups of every K that dR touches are read and each probes
dR: O(n of the key).

Without comparisons the groups of equal K are paired up; only these pairs of groups are made.

References: Olteanu and Schleich, "Factorized Databases" (2016), for sums over joins; Abeysinghe, He and Rompf,
"Relative Partial Aggregate Indexes" (SIGMOD 2022), for inequalities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.kernels.columns import column, numbers
from tidemill.state.keys.keys import KeyColumn, Keys, decode, encode, group
from tidemill.state.lookup.key_ranges import ByteBound, Probes, byte_ranges, number_ranges
from tidemill.state.lookup.reader import TableReader, TableState
from tidemill.state.merge.merge import Rows
from tidemill.state.runs.derived import derived
from tidemill.state.runs.prefix_sums import RangeTotals
from tidemill.task.dataflow.deltas import Item
from tidemill.task.dataflow.holding_operator import HoldingOperator
from tidemill.task.dataflow.matching import matches
from tidemill.task.dataflow.operator import Output, carries_out
from tidemill.task.dataflow.pair_terms import Factors, check, factors, products, sum_columns, take, used
from tidemill.task.operators.joins.arrange import empty_keys, outputs_of
from tidemill.task.operators.joins.join import pairs, slices
from tidemill.task.program import Comparison, GroupPartial, PairSums, changes_probe_left

_Ints = npt.NDArray[np.int64]

_PAIRS = 1 << 17
"""Pairs of groups multiplied at once: bounds memory."""

_SEEN_FROM_VALUE = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_SWAPPED = {"value_minus_bound": "bound_minus_value", "bound_minus_value": "value_minus_bound"}


@carries_out(PairSums)
class PairSumsOperator(HoldingOperator):
    """Input ports 0 and 1: runs of the left and of the right groups. Output: one run of the output's groups.

    Parameters
    ----------
    symmetric : bool
        False reads the left groups of a key even where they could be probed; for tests.
    """

    def __init__(self, step: int, operation: PairSums, symmetric: bool = True) -> None:
        complete, sides = operation.complete, (operation.left.groups, operation.right.groups)
        super().__init__(step, *sides, everywhere=() if complete is None else (complete,))
        _check_keys(operation)
        check(operation)
        self.operation = operation
        self._symmetric = symmetric and changes_probe_left(operation)
        self._used = used(operation)

    def add_input(self, item: Item, port: int) -> None:
        """Hold a sorted run of the left (0) or right (1) groups; of the side that is not complete, if one is."""
        complete = self.operation.complete
        super().add_input(item, port if complete is None else 1 - complete)

    def changes(self, *inputs: TableState) -> Iterator[Output]:
        """Multiply the changes of either side with the groups of the other."""
        left, right = inputs
        output = self.context.hold(self.operation.output.groups)
        try:
            self._multiply(left, right, output)
        finally:
            left.close()
            right.close()
        yield from outputs_of(output)

    def _multiply(self, left: TableState, right: TableState, output: TableState) -> None:
        operation = self.operation
        for changes in left.blocks():
            if operation.comparisons:
                self._probe(changes, right.now.parts(), 0, output)
            else:
                self._pair(changes, right.now, 0, output)
        for changes in right.blocks():
            if not operation.comparisons:
                self._pair(changes, left.before, 1, output)
            elif self._symmetric:
                self._probe(changes, left.before.parts(), 1, output)
            else:
                for groups in self._of_same_key(changes, left.before):
                    self._probe(groups, [changes], 0, output)

    def _ordered(self, of: int) -> tuple[GroupPartial, GroupPartial]:
        """Side number ``of``, and the other."""
        left, right = self.operation.left, self.operation.right
        return (right, left) if of else (left, right)

    def _heads(self, columns: Sequence[pa.Array[Any]], side: GroupPartial, rows: int) -> Keys:
        """The key columns that both sides share, as a prefix of the side's keys; more columns make it longer."""
        if not columns:
            return empty_keys(rows)
        return encode(columns, side.groups.key[: len(columns)], side.groups.distribution)

    def _of_same_key(self, changes: Rows, table: TableReader) -> Iterator[Rows]:
        """Left groups whose shared key is that of some changed right group."""
        left, right = self._ordered(0)
        shared = decode(changes.keys, right.groups.key)[: self.operation.key_width]
        heads = self._heads(shared, left, len(changes))
        _, first = group(heads)
        for match in matches(table, heads.take(first), drop_zero=False):
            yield match.rows

    def _probe(self, changes: Rows, runs: Sequence[Rows], of: int, output: TableState) -> None:
        """Writes groups of side ``of`` with the totals of the ranges of the other side's runs that they meet."""
        if not runs or not len(changes):
            return
        operation = self.operation
        (side, other), (own, theirs) = self._ordered(of), (self._used[of], self._used[1 - of])
        columns = decode(changes.keys, side.groups.key)
        comparisons = _seen_from_value(operation) if of else operation.comparisons
        search = _Search(operation, other, columns, comparisons, self._heads, len(changes))
        values = sum_columns(other, theirs)
        totals = RangeTotals([v for vs in values for v in vs], other.groups.value_types, len(changes))
        met = np.zeros(len(changes), np.bool_)
        for run in runs:
            lows, highs = search.ranges(run)
            totals.add(run, lows, highs)
            met |= (highs > lows).any(axis=0)
        found = iter(totals.totals)
        total = {at: tuple(array for _ in ops for array in next(found)) for at, ops in zip(theirs, values)}
        rows = np.flatnonzero(met)
        mine = factors(side, own, changes.values)
        keys = [columns[k].take(column(rows)) for k in operation.keys]
        self._product(take(mine, rows), take(total, rows), keys, of, output)

    def _pair(self, changes: Rows, table: TableReader, of: int, output: TableState) -> None:
        """Writes changed groups of side ``of`` with the other side's groups of equal key."""
        if not table:
            return
        operation, (side, other) = self.operation, self._ordered(of)
        mine = decode(changes.keys, side.groups.key)
        heads = self._heads(mine[: operation.key_width], other, len(changes))
        ids, first = group(heads)
        own = factors(side, self._used[of], changes.values)
        from_right = len(operation.left.groups.key)
        for match in matches(table, heads.take(first), drop_zero=False):
            if not len(match.rows):
                continue
            begin, end = np.searchsorted(ids, [match.start, match.stop]).tolist()
            meeting, groups = ids[begin:end] - match.start, match.stop - match.start
            theirs = decode(match.rows.keys, other.groups.key)
            their = factors(other, self._used[1 - of], match.rows.values)
            columns = [*theirs, *mine] if of else [*mine, *theirs]
            for start, stop in slices(np.bincount(match.found, minlength=groups)[meeting], _PAIRS):
                rows, partners = pairs(meeting[start:stop], match.found, groups)
                rows += begin + start
                keys = [
                    columns[k].take(column(rows if (k < from_right) != bool(of) else partners)) for k in operation.keys
                ]
                self._product(take(own, rows), take(their, partners), keys, of, output)

    def _product(self, own: Factors, their: Factors, keys: list[pa.Array[Any]], of: int, output: TableState) -> None:
        """Writes products by output key; rows without any effect are left out."""
        rows = len(next(iter(own.values()))[0])
        if not rows:
            return
        table = self.operation.output.groups
        values = products(self.operation, *((their, own) if of else (own, their)), rows)
        kept = np.flatnonzero(np.any([numbers(v) != 0 for v in values], axis=0))
        if len(kept) < rows:
            index = column(kept)
            keys, values, rows = [k.take(index) for k in keys], [v.take(index) for v in values], len(kept)
        if rows:
            output.write_unsorted(encode(keys, table.key, table.distribution) if keys else empty_keys(rows), values)


class _Search:
    """Finds, in any run of the searched side, the ranges that each probing group meets."""

    def __init__(
        self,
        operation: PairSums,
        searched: GroupPartial,
        columns: Sequence[pa.Array[Any]],
        comparisons: Sequence[Comparison],
        heads: Any,
        rows: int,
    ) -> None:
        self._operation, self._comparisons, self._at = operation, comparisons, operation.key_width
        self._searched = searched
        shared = list(columns[: self._at])
        self._probes = Probes.of(heads(shared, searched, rows))
        missing = {c.bound: pc.is_null(columns[c.bound]).to_numpy(zero_copy_only=False) for c in comparisons}
        self._as_numbers = any(c.form != "value" for c in comparisons)
        if self._as_numbers:
            self._bounds = np.stack([numbers(columns[c.bound]) for c in comparisons])
            self._missing = np.stack([missing[c.bound] for c in comparisons])
        else:
            self._byte_bounds = [
                ByteBound.of(heads([*shared, columns[b]], searched, rows), absent) for b, absent in missing.items()
            ]
            self._conditions = [(list(missing).index(c.bound), c.op) for c in comparisons]

    def ranges(self, run: Rows) -> tuple[_Ints, _Ints]:
        """Ranges of rows per probe, int64[k, probes] each."""
        any_of = self._operation.any_of
        if not self._as_numbers:
            return byte_ranges(run, self._probes, self._byte_bounds, self._conditions, any_of)
        (y,) = derived(run, ("column", self._at), lambda: (self._decoded(run),))
        conditions = [(c.form, c.op, c.limit) for c in self._comparisons]
        return number_ranges(run, y, self._probes, self._bounds, self._missing, conditions, any_of)

    def _decoded(self, run: Rows) -> npt.NDArray[np.float64]:
        values: npt.NDArray[np.float64] = numbers(decode(run.keys, self._searched.groups.key)[self._at])
        return values


def _seen_from_value(operation: PairSums) -> list[Comparison]:
    """The comparisons with y and the bound in each other's place; y is the key column after the shared ones."""
    swapped = []
    for c in operation.comparisons:
        if c.form == "value":
            swapped.append(Comparison("value", _SEEN_FROM_VALUE[c.op], operation.key_width))
        else:
            swapped.append(Comparison(_SWAPPED[c.form], c.op, operation.key_width, c.limit))
    return swapped


def _check_keys(operation: PairSums) -> None:
    """Refuse keys that do not fit together; a programming error of the planner.

    Raises
    ------
    ValueError
        When the shared key columns or their distribution differ, or a compared column cannot be compared.
    """
    left, right, width = operation.left.groups, operation.right.groups, operation.key_width
    if left.key[:width] != right.key[:width] or min(len(left.key), len(right.key)) < width:
        raise ValueError(f"keys of {width} columns: {left.key} and {right.key}")
    if left.distribution != right.distribution or left.distribution > width:
        raise ValueError(f"vnodes of {left.distribution} and {right.distribution} columns, {width} are shared")
    if not operation.comparisons:
        return
    if len(right.key) != width + 1 or right.key[width] != KeyColumn(right.key[width].type):
        raise ValueError(f"the compared column is to be the last of {right.key}, ascending")
    for c in operation.comparisons:
        if left.key[c.bound] != right.key[width]:
            raise ValueError(f"{c} compares {left.key[c.bound]} with {right.key[width]}")
        if c.form != "value" and (right.key[width].type != pa.float64() or c.limit is None):
            raise ValueError(f"{c} of {right.key[width]}")
    if any(k >= len(left.key) for k in operation.keys):
        raise ValueError(f"output keys {operation.keys} of {len(left.key)} left columns")
