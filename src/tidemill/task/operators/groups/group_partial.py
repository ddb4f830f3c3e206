"""Partial aggregation: this task's rows of the epoch, folded to one row of accumulators per group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.kernels.columns import column
from tidemill.state.keys.column_groups import group_columns
from tidemill.state.keys.keys import Keys, encode, group
from tidemill.state.lookup.reader import TableState
from tidemill.state.merge.unordered import unordered
from tidemill.task.dataflow.deltas import Delta, Item, Keyed, Loose, concat
from tidemill.task.dataflow.operator import Operator, Output, carries_out
from tidemill.task.program import GroupPartial

_FOLD_ROWS, _MOST_ROWS = 1 << 17, 1 << 20
"""Rows folded at once. Fewer stay in the cache; more meet more of their group before it is sorted. So there are more
while groups have less than ``_MANY`` rows each, up to some bytes."""
_MANY = 16
_MOST_BYTES = 32 << 20
_ROOM = 512 << 20
"""With a smaller budget of memory there are not more: they are held beside it."""


@carries_out(GroupPartial)
class GroupPartialOperator(Operator):
    """Output port 0: groups; port i + 1: the values of multiset i with their multiplicities."""

    def __init__(self, step: int, operation: GroupPartial) -> None:
        super().__init__(step)
        self.operation = operation
        self._waiting: list[Delta] = []
        self._rows = self._bytes = 0
        self._fold_rows = _FOLD_ROWS
        self._in_dictionaries = True
        self._folded: list[TableState] = []
        self._folds = 0

    def add_input(self, item: Item, port: int) -> None:
        """Hold a batch until there are enough rows to fold at once."""
        assert isinstance(item, Delta)
        self._waiting.append(item)
        self._rows += len(item)
        self._bytes += item.batch.nbytes
        if self._rows >= self._fold_rows or self._bytes >= _MOST_BYTES:
            self._fold_waiting()

    def _fold_waiting(self) -> None:
        if not self._waiting:
            return
        item = concat(self._waiting)
        self._waiting, self._rows, self._bytes = [], 0, 0
        self._folds += 1
        operation, batch = self.operation, item.batch
        key_columns = [batch.column(k) for k in operation.keys]
        if not self._folded:
            self._folded = [self.context.hold(table) for table in (operation.groups, *operation.multisets)]
        if key_columns:
            ids, first = self._grouped(key_columns)
            groups = len(first)
            if len(item) >= _FOLD_ROWS:
                many = groups * _MANY >= len(item) and not 0 < self.context.budget.limit < _ROOM
                self._fold_rows = _MOST_ROWS if many else _FOLD_ROWS
                self._in_dictionaries = 2 * groups < len(item)
            rows = column(first)
            self._write_groups([c.take(rows) for c in key_columns], self._fold(item, ids, groups))
        else:
            keys = Keys(np.array([0, 2], np.int64), np.zeros(2, np.uint8))
            self._folded[0].write_unsorted(keys, self._fold(item, np.zeros(len(item), np.int64), 1))
        for i, multiset in enumerate(operation.layout.multisets):
            columns, weights = [*key_columns, *(batch.column(c) for c in multiset.columns)], item.explicit_weights()
            for at in range(len(key_columns), len(key_columns) + multiset.required):
                if columns[at].null_count:
                    present = pc.is_valid(columns[at])
                    columns = [c.filter(present) for c in columns]
                    weights = weights[present.to_numpy(zero_copy_only=False)]
            table = operation.multisets[i]
            self._folded[i + 1].write_unsorted(encode(columns, table.key, table.distribution), [column(weights)])

    def _grouped(self, columns: Sequence[pa.Array[Any]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The group of each row, and the first row of each group."""
        numbered = group_columns(columns, self._in_dictionaries)
        if numbered is not None:
            return numbered
        return group(encode(columns, self.operation.groups.key, self.operation.groups.distribution))

    def _write_groups(self, keys: list[pa.Array[Any]], values: list[pa.Array[Any]]) -> None:
        """Hold groups, as they are if they may be loose."""
        table, held = self.operation.groups, self._folded[0]
        loose = unordered(keys, values, table.key, table.distribution) if self.only_stored else None
        if loose is not None:
            held.write_unordered(loose)
        else:
            held.write_unsorted(encode(keys, table.key, table.distribution), values)

    def _fold(self, item: Delta, ids: npt.NDArray[np.int64], groups: int) -> list[pa.Array[Any]]:
        columns: list[pa.Array[Any]] = []
        for accumulator in self.operation.layout.accumulators:
            if accumulator.multiset is not None:
                columns += accumulator.neutral(self.operation.input_types, groups)
            else:
                at = accumulator.argument
                values = None if at is None else item.batch.column(at)
                other = item.batch.column(accumulator.others[0]) if accumulator.others else None
                columns += accumulator.fold(ids, values, other, item.weights, groups)
        return columns

    def start_drain(self) -> bool:
        """The epoch's groups, then its multisets, each as one keyed run, or a few if there is no room for one.

        Groups that are folded once, and are only stored, are loose.
        """
        self._fold_waiting()
        folded, self._folded = self._folded, []
        once, self._folds = self._folds == 1, 0
        return bool(folded) and self._pending.put_all(_runs(folded, self.only_stored and once))


def _runs(folded: list[TableState], may_be_loose: bool) -> Iterator[Output]:
    """The rows of some tables as keyed output, one port a table; each table is closed at its end."""
    try:
        for port, held in enumerate(folded):
            loose = held.unordered() if may_be_loose else None
            if loose is not None:
                yield from (Output(Loose(rows), port) for rows in loose)
            else:
                yield from (Output(Keyed(rows), port) for rows in held.blocks())
            held.close()
    finally:
        for held in folded:
            held.close()
