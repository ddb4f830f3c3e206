"""Sort-merge join: both inputs are sorted by the keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.kernels.columns import column, nulls
from tidemill.state.keys.keys import Keys
from tidemill.state.merge.merge import segment_starts
from tidemill.state.runs.searching import locate_prefixes
from tidemill.task.dataflow.deltas import Delta, Item, batch_of, single_rows
from tidemill.task.dataflow.expanding import owners_of
from tidemill.task.dataflow.operator import Context, Operator, Output, carries_out
from tidemill.task.dataflow.sorted_rows import SortedRows
from tidemill.task.functions.columns.lists import offsets_of
from tidemill.task.program import MergeJoin

_Ints = npt.NDArray[np.int64]

_OUTPUT_ROWS = 1 << 16
"""Rows that come out at once."""

_LEFT, _RIGHT = 0, 1
_DROPS = {_LEFT: ("inner", "right", "semi"), _RIGHT: ("inner", "left", "semi", "anti")}
"""Kinds of joins in which rows of a side that match nothing are not in the output."""


@carries_out(MergeJoin)
class MergeJoinOperator(Operator):
    """Rows in the order of the keys; of equal keys in the order of the left rows, for each the right rows in theirs.

    Holds of each side the rows whose key may still come on the other: mostly the run of equal keys that is open. At a
    reset barrier all of it comes out, and nothing is known of keys before. It cannot keep its state: rows of later
    splits would have to be sorted behind those of earlier ones.

    A side is dropped once the other one has drained and no row of it waits for a match, which is known when this side
    has a greater key: then the open run of equal keys is complete. Rows that match nothing must not be in the output.
    """

    holds_state: ClassVar[bool] = False

    def __init__(self, step: int, operation: MergeJoin) -> None:
        super().__init__(step)
        self.operation = operation
        keys = (operation.left_keys, operation.right_keys)
        self._sides = tuple(
            SortedRows(f"{name} side of a merge join", columns, operation.keys)
            for name, columns in zip(("left", "right"), keys, strict=True)
        )
        self._drained = [False, False]

    def begin(self, context: Context) -> None:
        """Forget both sides."""
        super().begin(context)
        self._drained = [False, False]
        for side in self._sides:
            side.clear()

    def add_input(self, item: Item, port: int) -> None:
        """Hold rows of a side, and give what they complete."""
        assert isinstance(item, Delta)
        self._sides[port].append(single_rows(item))
        self._give()

    def wants(self, port: int) -> bool:
        """Whether this side is the one that keeps the other waiting: the one whose newest key is smaller."""
        other = self._sides[1 - port]
        if self._drained[1 - port]:
            return True
        mine, theirs = self._sides[port].newest, other.newest
        if mine is None:
            return theirs is not None or port == _LEFT
        if theirs is None:
            return False
        return mine < theirs or (mine == theirs and port == _LEFT)

    def input_drained(self, port: int) -> None:
        """Note that a side is complete."""
        self._drained[port] = True

    def drops(self, port: int) -> bool:
        """Whether no row of this side can match any more."""
        if not self.operation.drop_input or not self._drained[1 - port]:
            return False
        if self.operation.kind not in _DROPS[port]:
            return False
        waiting, last = self._sides[1 - port].newest, self._sides[port].last
        return waiting is None or (last is not None and last > waiting)

    def start_drain(self) -> bool:
        """Give all that is held."""
        return self._give()

    def _give(self) -> bool:
        """Join the rows whose keys cannot come again."""
        left, right = self._sides
        open_ = [s.last for s, drained in zip(self._sides, self._drained, strict=True) if not drained]
        if None in open_:
            return False  # a side may begin with any key
        if open_:
            frontier = min(key for key in open_ if key is not None)
            counts = left.before(frontier), right.before(frontier)
        else:
            counts = len(left), len(right)
        if not any(counts):
            return False
        return self._pending.put_all(self._joined(left.take(counts[0]), right.take(counts[1])))

    def _joined(self, left: tuple[pa.RecordBatch, Keys], right: tuple[pa.RecordBatch, Keys]) -> Iterator[Output]:
        """The output for rows whose keys are complete on both sides."""
        operation = self.operation
        lows, highs = _matches(left[1], right[1], _null_keys(left[0], operation.left_keys))
        found = highs - lows
        if operation.kind in ("semi", "anti"):
            rows = np.flatnonzero((found > 0) == (operation.kind == "semi"))
            if len(rows):
                yield Output(Delta(left[0].take(column(rows))))
            return
        alone = operation.kind in ("left", "full")
        counts = np.maximum(found, 1) if alone else found
        unmatched = np.zeros(0, np.int64)
        if operation.kind in ("right", "full"):
            unmatched = _unmatched(lows, highs, len(right[1]))
        # Places in the order of the output: left rows where their key would be among the right ones, unmatched right
        # rows behind the left ones that are there.
        order = np.arange(len(lows))
        if len(unmatched):
            order = np.argsort(np.concatenate([2 * lows, 2 * unmatched + 1]), kind="stable")
        counts = np.concatenate([counts, np.ones(len(unmatched), np.int64)])[order]
        offsets = offsets_of(counts)
        total = int(offsets[-1])
        for start in range(0, total, _OUTPUT_ROWS):
            places = np.arange(start, min(total, start + _OUTPUT_ROWS))
            entry = owners_of(offsets, start, start + len(places))
            within = places - offsets[entry]
            source = order[entry]
            of_left = source < len(found)
            left_rows = np.where(of_left, source, 0)
            matched = of_left & (found[left_rows] > 0) if len(found) else of_left
            right_rows = np.zeros(len(places), np.int64)
            right_rows[matched] = lows[left_rows[matched]] + within[matched]
            right_rows[~of_left] = unmatched[source[~of_left] - len(found)]
            columns = _taken(left[0], operation.left_types, left_rows, ~of_left)
            columns += _taken(right[0], operation.right_types, right_rows, of_left & ~matched)
            yield Output(Delta(batch_of(columns, len(places))))


def _matches(left: Keys, right: Keys, missing: npt.NDArray[np.bool_]) -> tuple[_Ints, _Ints]:
    """For each left row the first right row with its key, and the one behind the last; NULL equals nothing."""
    if not len(left):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = segment_starts(left.offsets, left.data)
    runs = left.take(starts[:-1])
    lows, highs = locate_prefixes(right.offsets, right.data, runs.offsets, runs.data)
    lengths = np.diff(starts)
    lows, highs = np.repeat(lows, lengths), np.repeat(highs, lengths)
    highs[missing] = lows[missing]
    return lows, highs


def _null_keys(rows: pa.RecordBatch, keys: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    missing = np.zeros(rows.num_rows, np.bool_)
    for key in keys if rows.num_rows else ():
        values = rows.column(key)
        if values.null_count:
            missing |= pc.is_null(values).to_numpy(zero_copy_only=False)
    return missing


def _unmatched(lows: _Ints, highs: _Ints, rows: int) -> _Ints:
    """Right rows that no left row has matched."""
    changes = np.zeros(rows + 1, np.int64)
    some = highs > lows
    np.add.at(changes, lows[some], 1)
    np.add.at(changes, highs[some], -1)
    return np.flatnonzero(np.cumsum(changes[:-1]) == 0)


def _taken(
    rows: pa.RecordBatch, types: tuple[pa.DataType, ...], index: _Ints, missing: npt.NDArray[np.bool_]
) -> list[pa.Array[Any]]:
    """The columns of some rows, NULL where ``missing``."""
    if not rows.num_rows:
        return [nulls(len(index), type_) for type_ in types]
    places = column(index, missing)
    return [c.take(places) for c in rows.columns]
