"""Incremental inner equi-join: ``d(L x R) = dL x (R + dR) + L x dR``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import column, numbers
from tidemill.state.keys.keys import decode, group
from tidemill.state.lookup.reader import TableReader, TableState
from tidemill.state.merge.merge import Rows
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.dataflow.holding_operator import HoldingOperator
from tidemill.task.dataflow.matching import all_rows, matches, slice_bytes
from tidemill.task.dataflow.operator import Output, carries_out
from tidemill.task.operators.joins.arrange import key_prefixes
from tidemill.task.program import Arrange, JoinChanges

_Int64s = npt.NDArray[np.int64]


@carries_out(JoinChanges)
class JoinOperator(HoldingOperator):
    """Holds both inputs arranged by key; at the barrier joins the epoch's changes with what came before."""

    def __init__(self, step: int, operation: JoinChanges) -> None:
        everywhere = (1,) if operation.broadcast else ()
        super().__init__(step, operation.left.table, operation.right.table, everywhere=everywhere)
        self.operation = operation

    def changes(self, *inputs: TableState) -> Iterator[Output]:
        """Join the changes of the left (0) and right (1) input; the steps that store them do so on their own."""
        new_left, new_right = inputs
        left, right = self.operation.left, self.operation.right
        width, most = self.operation.key_width, slice_bytes(self.context.budget)
        try:
            for changes in new_left.blocks():
                yield from map(Output, matched(left, changes, right, new_right.now, width, False, most))
            for changes in new_right.blocks():
                yield from map(Output, matched(right, changes, left, new_left.before, width, True, most))
        finally:
            new_left.close()
            new_right.close()


def matched(
    side: Arrange, changes: Rows, other: Arrange, table: TableReader, width: int, flipped: bool, most_bytes: int
) -> Iterator[Delta]:
    """Pairs of changed rows of one side with rows of the other that have the same first ``width`` key columns.

    They come in slices of about ``most_bytes``; with ``flipped`` the columns of the other side are first.
    """
    if not table:
        return
    mine = decode(changes.keys, side.table.key)
    if width:
        prefixes = key_prefixes(mine[:width], side.table, len(changes.keys))
        ids, first = group(prefixes)  # sorted input: ids ascend
        found = matches(table, prefixes.take(first))
    else:
        ids, found = np.zeros(len(changes.keys), np.int64), all_rows(table)
    own = _row_bytes(changes)
    for match in found:
        if not len(match.rows):
            continue
        begin, end = np.searchsorted(ids, [match.start, match.stop]).tolist()
        meeting = ids[begin:end] - match.start
        groups = match.stop - match.start
        theirs = decode(match.rows.keys, other.table.key)
        counts = np.bincount(match.found, minlength=groups)[meeting]
        for start, stop in slices(counts, max(1, most_bytes // (own + _row_bytes(match.rows)))):
            rows, partners = pairs(meeting[start:stop], match.found, groups)
            if not len(rows):
                continue
            rows += begin + start
            weights = _weights(changes)[rows] * _weights(match.rows)[partners]
            left, right = restore(side, mine, rows), restore(other, theirs, partners)
            columns = right + left if flipped else left + right
            yield Delta(batch_of(columns, len(rows)), weights)


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


def _row_bytes(rows: Rows) -> int:
    """About how many bytes a row has when it is decoded."""
    return 16 + rows.nbytes // max(1, len(rows))


def _weights(rows: Rows) -> _Int64s:
    weights: _Int64s = numbers(rows.values[0])
    return weights


def restore(side: Arrange, columns: list[pa.Array[Any]], rows: _Int64s) -> list[pa.Array[Any]]:
    """Columns in the order of the join's input, at the given rows."""
    indices = column(rows)
    width = 1 + max(side.columns, default=-1)
    return [columns[side.columns.index(i)].take(indices) for i in range(width)]
