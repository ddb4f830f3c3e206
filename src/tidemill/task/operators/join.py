"""Incremental inner equi-join: ``d(L x R) = dL x (R + dR) + L x dR``."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.state.columns import column, numbers
from tidemill.state.keys import decode, group
from tidemill.state.lookup import scan_prefix
from tidemill.state.merge import Rows, merge
from tidemill.task.operator import HeldOutput, Operator, Output
from tidemill.task.operators.arrange import key_prefixes
from tidemill.task.program import Arrange, JoinChanges
from tidemill.task.streams import Delta, Item, Keyed, batch_of

_Int64s = npt.NDArray[np.int64]


class JoinOperator(Operator):
    """Keeps both inputs arranged by key; at the barrier joins the epoch's changes with them."""

    def __init__(self, step: int, operation: JoinChanges) -> None:
        super().__init__(step)
        self.operation = operation
        self._inputs: tuple[list[Rows], list[Rows]] = ([], [])
        self._held = HeldOutput()

    def add_input(self, item: Item, port: int) -> None:
        """Hold a sorted run of the left (0) or right (1) input."""
        assert isinstance(item, Keyed)
        self._inputs[port].append(item.rows)

    def start_drain(self) -> bool:
        """Join the changes; the steps that store them do so on their own."""
        left, right = self.operation.left, self.operation.right
        new_left = merge(self._inputs[0], left.table.ops, drop_zero=True) if self._inputs[0] else None
        new_right = merge(self._inputs[1], right.table.ops, drop_zero=True) if self._inputs[1] else None
        self._inputs = ([], [])
        outputs = []
        if new_left is not None and len(new_left.keys):
            others = self.context.runs(right.table, everywhere=self.operation.broadcast)
            others = others + ([] if new_right is None else [new_right])
            outputs += self._match(left, new_left, right, others, flipped=False)
        if new_right is not None and len(new_right.keys):
            outputs += self._match(right, new_right, left, self.context.runs(left.table), flipped=True)
        return self._held.put(outputs)

    def get_output(self) -> Output | None:
        """Joined rows."""
        return self._held.pop()

    def _match(self, side: Arrange, changes: Rows, other: Arrange, runs: list[Rows], flipped: bool) -> list[Output]:
        """Pairs of changed rows of one side with rows of the other."""
        if not runs:
            return []
        mine = decode(changes.keys, side.table.key)
        width = self.operation.key_width
        if width:
            prefixes = key_prefixes(mine[:width], side.table, len(changes.keys))
            ids, first = group(prefixes)  # sorted input: ids ascend
            found, matches = scan_prefix(runs, prefixes.take(first), other.table.ops, drop_zero=True)
        else:
            ids, first = np.zeros(len(changes.keys), np.int64), np.zeros(1, np.int64)
            matches = merge(runs, other.table.ops, drop_zero=True)
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
