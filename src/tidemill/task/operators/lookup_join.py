"""Joins with a side that is still: each row looks it up where it is, in the runs of all vnodes.

Because the other side has no change in the epoch, ``d(L x R) = dL x R``: the rows need no exchange. With a side that is
complete they need no state either; with a small one a step of its own stores them, for epochs in which it changes.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import EvaluationError
from tidemill.state.columns import column, numbers
from tidemill.state.keys import decode, group, sort
from tidemill.state.merge import Rows
from tidemill.task.failing_row import with_row
from tidemill.task.functions.evaluate import filter_mask
from tidemill.task.operator import HeldOutput, Operator, Output
from tidemill.task.operators.arrange import key_prefixes
from tidemill.task.operators.join import pairs, restore, slices
from tidemill.task.program import LookupJoin
from tidemill.task.streams import Delta, Item, batch_of

_Int64s = npt.NDArray[np.int64]

_PAIRS = 1 << 20
"""Pairs made at once, at least one row's: bounds memory."""


class LookupJoinOperator(Operator):
    """What comes in goes out joined at once; nothing is held at a barrier."""

    def __init__(self, step: int, operation: LookupJoin) -> None:
        super().__init__(step)
        self.operation = operation
        self._held = HeldOutput()

    def add_input(self, item: Item, port: int) -> None:
        """Join one batch."""
        assert isinstance(item, Delta)
        operation = self.operation
        able = item
        for required in operation.required:
            values = able.batch.column(required)
            if operation.kind != "anti" and values.null_count:
                able = able.filter(pc.is_valid(values))
        if not len(able):
            return
        if operation.kind == "inner":
            self._held.put(self._joined(able))
            return
        chosen = np.flatnonzero(self._matched(able) != (operation.kind == "anti"))
        if len(chosen):
            self._held.put([Output(able if len(chosen) == len(able) else able.take(chosen))])

    def get_output(self) -> Output | None:
        """Joined rows."""
        return self._held.pop()

    def _look_up(self, delta: Delta) -> tuple[_Int64s, _Int64s, int, Rows | None]:
        """For each row the number of its key, for each match the number of the key it has, and the matches."""
        table = self.operation.other.table
        other = self.context.state(table, everywhere=True).before
        if not other:
            return np.zeros(len(delta), np.int64), np.zeros(0, np.int64), 1, None
        if not self.operation.keys:
            matches = other.rows(drop_zero=True)
            return np.zeros(len(delta), np.int64), np.zeros(len(matches), np.int64), 1, matches
        columns = [delta.batch.column(k) for k in self.operation.keys]
        prefixes = key_prefixes(columns, table, len(delta))
        ids, first = group(prefixes)
        probes = prefixes.take(first)
        order = sort(probes)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        found, matches = other.scan(probes.take(order))
        return rank[ids], found, len(order), matches

    def _joined(self, delta: Delta) -> list[Output]:
        ids, found, groups, matches = self._look_up(delta)
        if matches is None or not len(matches):
            return []
        theirs = decode(matches.keys, self.operation.other.table.key)
        their_weights = numbers(matches.values[0])
        outputs = []
        for start, stop in slices(np.bincount(found, minlength=groups)[ids], _PAIRS):
            rows, partners = pairs(ids[start:stop], found, groups)
            if not len(rows):
                continue
            rows += start
            weights = delta.explicit_weights()[rows] * their_weights[partners]
            mine = [c.take(column(rows)) for c in delta.batch.columns]
            other = restore(self.operation.other, theirs, partners)
            columns = other + mine if self.operation.other_first else mine + other
            outputs.append(Output(Delta(batch_of(columns, len(rows)), weights)))
        return outputs

    def _matched(self, delta: Delta) -> npt.NDArray[np.bool_]:
        """Whether each row meets more rows of the other side than are owed there (deleted before they came)."""
        ids, found, groups, matches = self._look_up(delta)
        if matches is None or not len(matches):
            return np.zeros(len(delta), np.bool_)
        weights = numbers(matches.values[0])
        counts = np.bincount(found, minlength=groups)
        met: npt.NDArray[np.bool_] = counts[ids] > 0
        if self.operation.residual is None:
            met = np.bincount(found, weights, minlength=groups)[ids] > 0
        for required in self.operation.required:
            met &= pc.is_valid(delta.batch.column(required)).to_numpy(zero_copy_only=False)
        if self.operation.residual is None:
            return met
        asked = np.flatnonzero(met)
        met[:] = False
        theirs = decode(matches.keys, self.operation.other.table.key)
        for start, stop in slices(counts[ids[asked]], _PAIRS):
            rows, partners = pairs(ids[asked[start:stop]], found, groups)
            rows = asked[start:stop][rows]
            holds = self._holds(delta, rows, theirs, partners)
            totals = np.bincount(rows[holds], weights[partners[holds]], minlength=len(met))
            met[totals > 0] = True
        return met

    def _holds(self, delta: Delta, rows: _Int64s, theirs: list[pa.Array], partners: _Int64s) -> npt.NDArray[np.bool_]:
        """For which pairs the residual condition is true."""
        mine = [c.take(column(rows)) for c in delta.batch.columns]
        both = Delta(batch_of(mine + restore(self.operation.other, theirs, partners), len(rows)))
        ask = partial(_ask, self.operation)
        try:
            return ask(both)
        except EvaluationError as error:
            raise with_row(error, ask, both) from error


def _ask(operation: LookupJoin, delta: Delta) -> npt.NDArray[np.bool_]:
    assert operation.residual is not None
    mask: npt.NDArray[np.bool_] = filter_mask(operation.residual, delta.batch).to_numpy(zero_copy_only=False)
    return mask
