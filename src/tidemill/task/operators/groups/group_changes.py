"""Aggregation with changes: each group that changed gives its old row with -1 and its new one with +1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column, nulls, numbers
from tidemill.state.keys.keys import KeyColumn, Keys, decode
from tidemill.state.lookup.levels import counts_with
from tidemill.state.lookup.reader import TableReader, TableState
from tidemill.state.merge.merge import Rows, merge
from tidemill.task.aggregates.accumulators import Accumulator, Part
from tidemill.task.aggregates.group_values import of_group, of_large_group
from tidemill.task.dataflow.changed_groups import changed_groups
from tidemill.task.dataflow.deltas import Item, Keyed
from tidemill.task.dataflow.matching import SLICE_ROWS, matches, slice_rows
from tidemill.task.dataflow.operator import Operator, Output, carries_out
from tidemill.task.dataflow.read_view import zero_row
from tidemill.task.functions.columns.sizes import TooLargeError
from tidemill.task.operators.joins.join import slices
from tidemill.task.program import GroupChanges, StateTable


@carries_out(GroupChanges)
class GroupChangesOperator(Operator):
    """Folds partial groups of all tasks into the state of this partition's vnodes.

    An aggregate without GROUP BY has its one row from its first epoch on, over whatever input.
    """

    def __init__(self, step: int, operation: GroupChanges) -> None:
        super().__init__(step)
        self.operation = operation
        self.partial = operation.partial
        self._groups: TableState | None = None

    def add_input(self, item: Item, port: int) -> None:
        """Hold a sorted run of groups (port 0), or write one of a multiset (port i + 1)."""
        assert isinstance(item, Keyed)
        if port:
            self.context.state(self.partial.multisets[port - 1]).write(item.rows)
            return
        if self._groups is None:
            self._groups = self.context.hold(self.partial.groups)
        self._groups.write(item.rows)

    def start_drain(self) -> bool:
        """Write the changed groups, some at a time, and give their changes to those who read them."""
        groups, self._groups = self._groups, None
        single = not self.partial.groups.key and self.context.partition == 0
        if groups is None and not (single and self.operation.emit):
            return False
        return self._pending.put_all(self._folded(groups, single))

    def _folded(self, groups: TableState | None, single: bool) -> Iterator[Output]:
        some = False
        try:
            for block in groups.blocks() if groups is not None else ():
                for start, stop in self._slices(block.keys):
                    some = True
                    yield from self._written(block.slice(start, stop), single, True)
            if single and not some:
                yield from self._written(zero_row(self.partial.groups), single, groups is not None)
        finally:
            if groups is not None:
                groups.close()

    def _slices(self, groups: Keys) -> list[tuple[int, int]]:
        """The groups cut so that the values of all in a slice can be in memory; one with more is alone in its slice."""
        from_all_values = {a.multiset for a in self.partial.layout.accumulators if a.of_group}
        tables = zip(self.partial.multisets, self.partial.layout.multisets, strict=True)
        parts = [self.context.state(table).now.parts() for table, multiset in tables if multiset in from_all_values]
        if not any(sum(map(len, runs)) > slice_rows(runs) for runs in parts):
            return [(0, len(groups))]
        shares = np.zeros(len(groups), np.int64)
        for runs in parts:
            shares += counts_with(runs, groups) * (SLICE_ROWS // slice_rows(runs))
        return slices(shares, SLICE_ROWS)

    def _written(self, changed: Rows, single: bool, always: bool) -> Iterator[Output]:
        """Write some groups, with ``always`` also unchanged ones, and give their changes."""
        values = list(changed.values)
        try:
            for i in range(len(self.partial.multisets)):
                self._fold_multiset(i, changed.keys, values)
        except TooLargeError:
            middle = len(changed) // 2
            assert middle, "a list that is too large alone is NULL"
            for start, stop in ((0, middle), (middle, len(changed))):
                yield from self._written(changed.slice(start, stop), single, always)
            return
        changed = Rows(changed.keys, tuple(values))
        outputs = self._changes(changed, single) if self.operation.compares else []
        if always or outputs:
            self.context.state(self.partial.groups).write(changed)
        if self.operation.emit:
            yield from outputs

    def _fold_multiset(self, index: int, groups: Keys, values: list[pa.Array[Any]]) -> None:
        """Fill in the accumulators that depend on one multiset.

        Raises
        ------
        TooLargeError
            TM3020 when there are several groups, of which a task may not hold all values together.
        """
        layout, table = self.partial.layout, self.partial.multisets[index]
        state = self.context.state(table)
        multiset = layout.multisets[index]
        offsets = layout.offsets(self.partial.input_types)
        distinct: list[tuple[Accumulator, int]] = []
        from_all_values: list[tuple[Accumulator, int]] = []
        for accumulator, at in zip(layout.accumulators, offsets, strict=True):
            if accumulator.multiset != multiset:
                continue
            if accumulator.of_group:
                from_all_values.append((accumulator, at))
            elif accumulator.recomputed:
                values[at] = _extremes(state.now, groups, table.key, accumulator.declared.greatest)
            else:
                distinct.append((accumulator, at))
        if from_all_values:
            _of_groups(from_all_values, state.now, groups, table.key, values)
        if distinct:
            self._fold_distinct(distinct, state, groups, table, values)

    def _fold_distinct(
        self,
        accumulators: list[tuple[Accumulator, int]],
        state: TableState,
        groups: Keys,
        table: StateTable,
        values: list[pa.Array[Any]],
    ) -> None:
        """Add the values that are new among the distinct values of their group, and subtract those that are gone."""
        filled: list[list[Rows]] = [[] for _ in accumulators]
        for start, stop, found, delta in matches(state.written, groups):
            if not len(delta):
                continue
            _, old = state.before.get(delta.keys)
            before = numbers(old[0])
            sign = (before + numbers(delta.values[0]) > 0).astype(np.int64) - (before > 0).astype(np.int64)
            elements = decode(delta.keys, table.key)[-1]
            for parts, (accumulator, _) in zip(filled, accumulators, strict=True):
                folded = accumulator.fold(found, elements, None, sign, stop - start)
                parts.append(Rows(groups.slice(start, stop), tuple(folded)))
        for parts, (accumulator, at) in zip(filled, accumulators, strict=True):
            width = len(accumulator.columns(self.partial.input_types))
            none = Rows(groups, tuple(values[at : at + width]))
            values[at : at + width] = merge([none, *parts], accumulator.merge_ops(), drop_zero=False).values

    def _changes(self, changed: Rows, single: bool) -> list[Output]:
        partly = self.partial
        before = self.context.state(partly.groups).before
        failing = partial(self.context.failing, self.step)
        delta = changed_groups(partly.groups, partly.layout, partly.input_types, before, changed, single, failing)
        return [Output(delta)] if len(delta) else []


def _of_groups(
    accumulators: list[tuple[Accumulator, int]],
    table: TableReader,
    groups: Keys,
    layout: tuple[KeyColumn, ...],
    values: list[pa.Array[Any]],
) -> None:
    """Fill in the accumulators that are computed from all values of a group; a list that is too large is NULL."""
    parts = table.parts()
    most = slice_rows(parts)
    if len(groups) == 1 and sum(map(len, parts)) > most and counts_with(parts, groups)[0] > most:

        def of_one() -> Iterator[Part]:
            for rows in table.iterate(prefix=groups[0], block=most):
                weights = numbers(rows.values[0])
                present = np.flatnonzero(weights > 0)
                if len(present):
                    yield decode(rows.keys, layout)[-1].take(column(present)), weights[present]

        for accumulator, at in accumulators:
            values[at] = _or_null(values[at], partial(of_large_group, accumulator, layout[-1].type, of_one))
        return
    ids, rows = table.scan(groups)
    elements = decode(rows.keys, layout)[-1]
    for accumulator, at in accumulators:
        made = partial(of_group, accumulator, ids, elements, numbers(rows.values[0]), len(groups))
        values[at] = _or_null(values[at], made) if len(groups) == 1 else made()


def _or_null(neutral: pa.Array[Any], made: Callable[[], pa.Array[Any]]) -> pa.Array[Any]:
    try:
        return made()
    except TooLargeError:
        return nulls(len(neutral), neutral.type)


def _extremes(table: TableReader, groups: Keys, layout: tuple[KeyColumn, ...], reverse: bool) -> pa.Array[Any]:
    """The last column of the smallest or largest row of each group's multiset, NULL where it is empty."""
    type_ = layout[-1].type
    if not table:
        return nulls(len(groups), type_)
    found, winners, _ = table.first(groups, reverse, skip_null=True)
    rows = np.flatnonzero(found)
    values = decode(winners.take(rows), layout)[-1]
    position = np.full(len(found), -1, np.int64)
    position[rows] = np.arange(len(rows))
    return values.take(column(position, ~found))
