"""Aggregation with changes: each group that changed gives its old row with -1 and its new one with +1."""

from __future__ import annotations

from functools import partial as bind

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.state.columns import column, numbers
from tidemill.state.keys import KeyColumn, Keys, decode, encode, group
from tidemill.state.merge import Rows
from tidemill.state.reader import TableReader, TableState
from tidemill.task.accumulators import OF_GROUP
from tidemill.task.changed_groups import changed_groups
from tidemill.task.group_values import of_group
from tidemill.task.operator import HeldOutput, Operator, Output
from tidemill.task.operators.group_partial import fold
from tidemill.task.program import GroupChanges, StateTable
from tidemill.task.read_view import zero_row
from tidemill.task.streams import Item, Keyed


class GroupChangesOperator(Operator):
    """Folds partial groups of all tasks into the state of this partition's vnodes.

    An aggregate without GROUP BY has its one row from its first epoch on, over whatever input.
    """

    def __init__(self, step: int, operation: GroupChanges) -> None:
        super().__init__(step)
        self.operation = operation
        self.partial = operation.partial
        self._groups: TableState | None = None
        self._held = HeldOutput()

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
        """Write the changed groups; hold their changes for those who read them."""
        partial = self.partial
        groups, self._groups = self._groups, None
        single = not partial.groups.key and self.context.partition == 0
        if groups is None and not (single and self.operation.emit):
            return False
        changed = zero_row(partial.groups) if groups is None else groups.changes()
        if groups is not None:
            groups.close()
            if not len(changed):
                if not single:
                    return False
                changed = zero_row(partial.groups)
        values = list(changed.values)
        for i in range(len(partial.multisets)):
            self._fold_multiset(i, changed.keys, values)
        changed = Rows(changed.keys, tuple(values))
        outputs = self._changes(changed, single) if self.operation.emit else []
        if groups is not None or outputs:
            self.context.state(partial.groups).write(changed)
        return self._held.put(outputs)

    def get_output(self) -> Output | None:
        """The changes."""
        return self._held.pop()

    def _fold_multiset(self, index: int, groups: Keys, values: list[pa.Array]) -> None:
        """Fill in the accumulators that depend on one multiset."""
        partial, table = self.partial, self.partial.multisets[index]
        state = self.context.state(table)
        delta = state.changes()
        multiset, scanned = partial.layout.multisets[index], None
        offsets = partial.layout.offsets(partial.input_types)
        for accumulator, at in zip(partial.layout.accumulators, offsets, strict=True):
            if accumulator.multiset != multiset:
                continue
            if accumulator.kind in OF_GROUP:
                if scanned is None:
                    scanned = state.now.scan(groups)
                ids, rows = scanned
                elements = decode(rows.keys, table.key)[-1]
                values[at] = of_group(accumulator, ids, elements, numbers(rows.values[0]), len(groups))
            elif accumulator.recomputed:
                reverse = accumulator.kind in ("max", "max_by")
                values[at] = _extremes(state.now, groups, table.key, reverse)
            elif len(delta.keys):
                ids, entering, elements = self._transitions(delta, state.before, groups, table)
                filled = fold(accumulator, elements, ids, entering, len(groups))
                values[at : at + len(filled)] = filled

    def _transitions(
        self, delta: Rows, multiset: TableReader, groups: Keys, table: StateTable
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], pa.Array]:
        """Values that enter (+1) or leave (-1) the set of distinct values: group, sign, value."""
        partial = self.partial
        _, old = multiset.get(delta.keys)
        before = numbers(old[0])
        after = before + numbers(delta.values[0])
        sign = (after > 0).astype(np.int64) - (before > 0).astype(np.int64)
        columns = decode(delta.keys, table.key)
        own = encode(columns[: len(partial.groups.key)], partial.groups.key, partial.groups.distribution)
        if not partial.groups.key:
            return np.zeros(len(sign), np.int64), sign, columns[-1]
        ids, _ = group(Keys.concat([groups, own]))
        return ids[len(groups) :], sign, columns[-1]

    def _changes(self, changed: Rows, single: bool) -> list[Output]:
        partial = self.partial
        before = self.context.state(partial.groups).before
        failing = bind(self.context.failing, self.step)
        delta = changed_groups(partial.groups, partial.layout, partial.input_types, before, changed, single, failing)
        return [Output(delta)] if len(delta) else []


def _extremes(table: TableReader, groups: Keys, layout: tuple[KeyColumn, ...], reverse: bool) -> pa.Array:
    """The last column of the smallest or largest row of each group's multiset, NULL where it is empty."""
    type_ = layout[-1].type
    if not table:
        return pa.nulls(len(groups), type_)
    found, winners, _ = table.first(groups, reverse, skip_null=True)
    rows = np.flatnonzero(found)
    values = decode(winners.take(rows), layout)[-1]
    position = np.full(len(found), -1, np.int64)
    position[rows] = np.arange(len(rows))
    return values.take(column(position, ~found))
