"""Incremental inner equi-join: ``d(L x R) = dL x (R + dR) + L x dR``."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.state.columns import column, numbers
from tidemill.state.keys import decode, group
from tidemill.state.merge import Rows
from tidemill.state.reader import TableReader, TableState
from tidemill.task.operator import HeldOutput, Operator, Output
from tidemill.task.operators.arrange import key_prefixes
from tidemill.task.program import Arrange, JoinChanges
from tidemill.task.streams import Delta, Item, Keyed, batch_of

_Int64s = npt.NDArray[np.int64]


class JoinOperator(Operator):
    """Holds both inputs arranged by key; at the barrier joins the epoch's changes with what came before."""

    def __init__(self, step: int, operation: JoinChanges) -> None:
        super().__init__(step)
        self.operation = operation
        self._sides: tuple[TableState, TableState] | None = None
        self._held = HeldOutput()

    def add_input(self, item: Item, port: int) -> None:
        """Hold a sorted run of the left (0) or right (1) input."""
        assert isinstance(item, Keyed)
        if self._sides is None:
            left, right = self.operation.left.table, self.operation.right.table
            self._sides = self.context.hold(left), self.context.hold(right, everywhere=self.operation.broadcast)
        self._sides[port].write(item.rows)

    def start_drain(self) -> bool:
        """Join the changes; the steps that store them do so on their own."""
        if self._sides is None:
            return False
        (new_left, new_right), self._sides = self._sides, None
        left, right = self.operation.left, self.operation.right
        outputs = []
        for changes in new_left.blocks():
            outputs += self._match(left, changes, right, new_right.now, flipped=False)
        for changes in new_right.blocks():
            outputs += self._match(right, changes, left, new_left.before, flipped=True)
        new_left.close()
        new_right.close()
        return self._held.put(outputs)

    def get_output(self) -> Output | None:
        """Joined rows."""
        return self._held.pop()

    def _match(self, side: Arrange, changes: Rows, other: Arrange, table: TableReader, flipped: bool) -> list[Output]:
        """Pairs of changed rows of one side with rows of the other."""
        if not table:
            return []
        mine = decode(changes.keys, side.table.key)
        width = self.operation.key_width
        if width:
            prefixes = key_prefixes(mine[:width], side.table, len(changes.keys))
            ids, first = group(prefixes)  # sorted input: ids ascend
            found, matches = table.scan(prefixes.take(first))
        else:
            ids, first = np.zeros(len(changes.keys), np.int64), np.zeros(1, np.int64)
            matches = table.rows(drop_zero=True)
            found = np.zeros(len(matches.keys), np.int64)
        if not len(matches.keys):
            return []
        rows, partners = pairs(ids, found, len(first))
        weights = _weights(changes)[rows] * _weights(matches)[partners]
        theirs = decode(matches.keys, other.table.key)
        left = restore(side, mine, rows)
        right = restore(other, theirs, partners)
        columns = right + left if flipped else left + right
        return [Output(Delta(batch_of(columns, len(rows)), weights))]


def pairs(ids: _Int64s, found: _Int64s, groups: int) -> tuple[_Int64s, _Int64s]:
    """All pairs (i, j) with ``ids[i] == found[j]``, ordered by i then j.

    Parameters
    ----------
    ids, found : int64 arrays, ascending
        Group of each row of either side.
    groups : int
        Groups are ``0 .. groups-1``.
    """
    counts = np.bincount(found, minlength=groups)
    starts = np.cumsum(counts) - counts
    repeats = counts[ids]
    rows = np.repeat(np.arange(len(ids)), repeats)
    ends = np.cumsum(repeats)
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - repeats, repeats)
    return rows, np.repeat(starts[ids], repeats) + within


def slices(counts: _Int64s, most: int) -> list[tuple[int, int]]:
    """Cuts rows so that each part has about ``most`` partners, at least one row; ``counts`` are those of each row."""
    ends = np.cumsum(counts)
    if not len(ends) or ends[-1] <= most:
        return [(0, len(counts))]
    cuts = np.searchsorted(ends, np.arange(most, int(ends[-1]), most))
    bounds = sorted({0, *cuts.tolist(), len(counts)})
    return list(pairwise(bounds))


def _weights(rows: Rows) -> _Int64s:
    weights: _Int64s = numbers(rows.values[0])
    return weights


def restore(side: Arrange, columns: list[pa.Array], rows: _Int64s) -> list[pa.Array]:
    """Columns in the order of the join's input, at the given rows."""
    indices = column(rows)
    width = 1 + max(side.columns, default=-1)
    return [columns[side.columns.index(i)].take(indices) for i in range(width)]
