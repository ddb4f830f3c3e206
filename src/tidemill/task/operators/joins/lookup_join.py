"""Joins with a side that does not change in the epoch: each row is looked up in the runs of all its vnodes.

With no change of the other side ``d(L x R) = dL x R``: the rows need no exchange. With a complete side they need no
state either; with a small one a step of its own stores them, for epochs in which that side changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column, numbers
from tidemill.state.keys.keys import decode, group, sort
from tidemill.task.dataflow.deltas import Delta, Item, batch_of
from tidemill.task.dataflow.failing_row import with_row
from tidemill.task.dataflow.matching import Matches, all_rows, matches, slice_bytes
from tidemill.task.dataflow.operator import Operator, Output, carries_out
from tidemill.task.functions.columns.sizes import TooLargeError
from tidemill.task.functions.evaluate import filter_mask
from tidemill.task.operators.joins.arrange import key_prefixes
from tidemill.task.operators.joins.join import pairs, restore, slices
from tidemill.task.program import LookupJoin

_Int64s = npt.NDArray[np.int64]


@carries_out(LookupJoin)
class LookupJoinOperator(Operator):
    """Joins each batch as it comes; nothing is held at a barrier."""

    def __init__(self, step: int, operation: LookupJoin) -> None:
        super().__init__(step)
        self.operation = operation

    def add_input(self, item: Item, port: int) -> None:
        """Join one batch."""
        assert isinstance(item, Delta)
        operation = self.operation
        joinable = item
        for required in operation.required:
            values = joinable.batch.column(required)
            if operation.kind != "anti" and values.null_count:
                joinable = joinable.filter(pc.is_valid(values))
        if not len(joinable):
            return
        if operation.kind == "inner":
            self._pending.put_all(self._joined(joinable))
            return
        chosen = np.flatnonzero(self._matched(joinable) != (operation.kind == "anti"))
        if len(chosen):
            self._pending.put(Output(joinable if len(chosen) == len(joinable) else joinable.take(chosen)))

    def _look_up(self, delta: Delta) -> tuple[_Int64s, int, Iterator[Matches]]:
        """For each row the number of its key, how many keys there are, and the other side's rows by key."""
        table = self.operation.other.table
        other = self.context.state(table, everywhere=True).before
        if not other:
            return np.zeros(len(delta), np.int64), 1, iter(())
        if not self.operation.keys:
            return np.zeros(len(delta), np.int64), 1, all_rows(other)
        columns = [delta.batch.column(k) for k in self.operation.keys]
        prefixes = key_prefixes(columns, table, len(delta))
        ids, first = group(prefixes)
        probes = prefixes.take(first)
        order = sort(probes)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank[ids], len(order), matches(other, probes.take(order))

    def _pairs(
        self, delta: Delta, ids: _Int64s, found: Iterable[Matches]
    ) -> Iterator[tuple[_Int64s, list[pa.Array[Any]], _Int64s, _Int64s]]:
        """Rows that match a row of the other side, that side's columns, the partner of each, and all weights there."""
        order = np.argsort(ids, kind="stable")
        ascending = ids[order]
        most, own = slice_bytes(self.context.budget), 16 + delta.batch.nbytes // len(delta)
        for match in found:
            if not len(match.rows):
                continue
            begin, end = np.searchsorted(ascending, [match.start, match.stop]).tolist()
            meeting, groups = ascending[begin:end] - match.start, match.stop - match.start
            theirs = decode(match.rows.keys, self.operation.other.table.key)
            counts = np.bincount(match.found, minlength=groups)[meeting]
            each = own + 16 + match.rows.nbytes // len(match.rows)
            for start, stop in slices(counts, max(1, most // each)):
                rows, partners = pairs(meeting[start:stop], match.found, groups)
                if len(rows):
                    yield order[begin + start + rows], theirs, partners, numbers(match.rows.values[0])

    def _joined(self, delta: Delta) -> Iterator[Output]:
        ids, _, found = self._look_up(delta)
        for rows, theirs, partners, their_weights in self._pairs(delta, ids, found):
            weights = delta.explicit_weights()[rows] * their_weights[partners]
            mine = [c.take(column(rows)) for c in delta.batch.columns]
            other = restore(self.operation.other, theirs, partners)
            columns = other + mine if self.operation.other_first else mine + other
            yield Output(Delta(batch_of(columns, len(rows)), weights))

    def _matched(self, delta: Delta) -> npt.NDArray[np.bool_]:
        """Whether each row matches rows of the other side whose multiplicities are positive together."""
        ids, groups, found = self._look_up(delta)
        joinable = np.ones(len(delta), np.bool_)
        for required in self.operation.required:
            joinable &= pc.is_valid(delta.batch.column(required)).to_numpy(zero_copy_only=False)
        if self.operation.residual is None:
            totals = np.zeros(groups, np.int64)
            for match in found:
                np.add.at(totals, match.start + match.found, numbers(match.rows.values[0]))
            return joinable & (totals[ids] > 0)
        joinable_rows = np.flatnonzero(joinable)
        totals = np.zeros(len(delta), np.int64)
        if len(joinable_rows):
            asked = delta.take(joinable_rows)
            for rows, theirs, partners, weights in self._pairs(asked, ids[joinable_rows], found):
                holds = self._holds(asked, rows, theirs, partners)
                np.add.at(totals, joinable_rows[rows[holds]], weights[partners[holds]])
        met: npt.NDArray[np.bool_] = totals > 0
        return met

    def _holds(
        self, delta: Delta, rows: _Int64s, theirs: list[pa.Array[Any]], partners: _Int64s
    ) -> npt.NDArray[np.bool_]:
        """For which pairs the residual condition is true."""
        mine = [c.take(column(rows)) for c in delta.batch.columns]
        both = Delta(batch_of(mine + restore(self.operation.other, theirs, partners), len(rows)))
        ask = partial(_ask, self.operation)
        try:
            return ask(both)
        except TooLargeError:
            if len(rows) == 1:
                raise
            middle = len(rows) // 2
            halves = (slice(0, middle), slice(middle, None))
            return np.concatenate([self._holds(delta, rows[half], theirs, partners[half]) for half in halves])
        except EvaluationError as error:
            raise with_row(error, ask, both) from error


def _ask(operation: LookupJoin, delta: Delta) -> npt.NDArray[np.bool_]:
    assert operation.residual is not None
    mask: npt.NDArray[np.bool_] = filter_mask(operation.residual, delta.batch).to_numpy(zero_copy_only=False)
    return mask
