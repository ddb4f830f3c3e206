"""Incremental window functions: changed partitions are computed before and after the change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column, numbers
from tidemill.state.folds.accumulate import sum_int64
from tidemill.state.folds.sliding import runs_of_equal
from tidemill.state.keys.keys import KeyColumn, Keys, decode, encode, group
from tidemill.state.lookup.levels import counts_with
from tidemill.state.lookup.reader import TableState
from tidemill.state.merge.merge import Rows
from tidemill.task.aggregates.accumulators import AggregateLayout
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.dataflow.failing_row import MOST_FAILING, with_row
from tidemill.task.dataflow.holding_operator import HoldingOperator
from tidemill.task.dataflow.matching import slice_rows
from tidemill.task.dataflow.operator import Context, Output, carries_out
from tidemill.task.expressions import Expression, references
from tidemill.task.functions.columns.sizes import TooLargeError, out_of_memory, partition_too_large
from tidemill.task.functions.evaluate import evaluate
from tidemill.task.operators.joins.arrange import key_prefixes
from tidemill.task.operators.joins.join import restore, slices
from tidemill.task.program import WindowChanges
from tidemill.task.program.window_calls import RANKINGS, Bound
from tidemill.task.windows.frames import OrderedRows, RangeOrder, frame_bounds, ordered_rows
from tidemill.task.windows.functions import aggregated, ranking, shifted, valued
from tidemill.task.windows.rows import Sides, joined, partition_rows, present_rows, row_bytes, rows_together, weights_of
from tidemill.task.windows.slices import Carry, boundaries, first_kept, in_slices, last_ready, reach

Ints = npt.NDArray[np.int64]


@carries_out(WindowChanges)
class WindowOperator(HoldingOperator):
    """Rows are arranged by partition and order; at the barrier every changed partition is read.

    The old row is emitted with -1 and the new one with +1; rows whose window functions did not change are left out. A
    partition that fails, by an expression or because it is too large, has no rows in the output as long as it fails;
    the state table ``failing`` holds these partitions.
    """

    def __init__(self, step: int, operation: WindowChanges) -> None:
        super().__init__(step, operation.rows.table)
        self.operation = operation
        self._newly_failing = 0

    def begin(self, context: Context) -> None:
        """Start an epoch."""
        super().begin(context)
        self._newly_failing = 0

    def changes(self, *inputs: TableState) -> Iterator[Output]:
        """The changes of some partitions at a time; the rows are stored by a step of their own."""
        (held,) = inputs
        table, width = self.operation.rows.table, self.operation.partition
        try:
            found: list[Keys] = []
            for changes in held.blocks():
                prefixes = key_prefixes(decode(changes.keys, table.key[:width]), table, len(changes.keys))
                _, first = group(prefixes)
                partitions = prefixes.take(first)
                again = int(bool(found) and partitions[0] == found[-1][len(found[-1]) - 1])
                if again < len(partitions):
                    found.append(partitions.slice(again, len(partitions)))
            if not found:
                return
            for part in self._groups(held, Keys.concat(found)):
                yield from self._changes_of(part, held)
        finally:
            held.close()

    def _changes_of(self, partitions: Keys, held: TableState) -> Iterator[Output]:
        """The changes of some partitions, of fewer at a time where they are too large together or one of them fails."""
        failing = self._failing(partitions)
        for row in np.flatnonzero(failing).tolist():
            yield from self._recovered(partitions.slice(row, row + 1), held)
        partitions = partitions.take(np.flatnonzero(~failing))
        if not len(partitions):
            return
        outputs = None
        with contextlib.suppress(EvaluationError, MemoryError):
            outputs = self._compared(partitions, held, Sides.BOTH)
        if outputs is not None:
            yield from outputs
            return
        if len(partitions) == 1:
            yield from self._before_then_after(partitions, held)
            return
        middle = len(partitions) // 2
        for start, stop in ((0, middle), (middle, len(partitions))):
            yield from self._changes_of(partitions.slice(start, stop), held)

    def _compared(self, partitions: Keys, held: TableState, sides: Sides) -> Iterable[Output]:
        """The changes of some partitions; an error is raised before the first output."""
        rows = None
        try:
            rows = self._read(held, partitions, sides)
        except TooLargeError:
            if not in_slices(self.operation):
                raise
        if rows is None:
            for _ in self._sliced(partitions[0], held, sides):
                pass
            return self._sliced(partitions[0], held, sides)
        affected = self._affected(rows, sides)
        before, after = (self._windowed(affected, weights) for weights in (affected.before, affected.after))
        return self._difference(affected, before, after)

    def _sliced(self, partition: bytes, held: TableState, sides: Sides) -> Iterator[Output]:
        """The changes of a large partition, slice by slice."""
        back, ahead = reach(self.operation)
        most = rows_together(held.now.parts(), self.context.budget.limit)
        slice_ = max(1, min(most // 4, slice_rows(held.now.parts())))
        left = [0, 0]
        for rows in held.compare_blocks(partition, slice_) if ahead else ():
            left = [n + int(w.sum()) for n, w in zip(left, weights_of(rows, sides), strict=True)]
        carries = Carry(), Carry()
        waiting, done = present_rows(held.compare(Keys.empty()), sides), 0
        for piece in chain(self._pieces(held.compare_blocks(partition, slice_), sides, slice_), (None,)):
            if piece is not None:
                left = [n - int(w.sum()) for n, w in zip(left, weights_of(piece, sides), strict=True)]
                waiting = joined([waiting, piece])
            affected = self._affected(waiting, sides)
            weights = affected.before, affected.after
            if max(len(waiting), *(int(w.sum()) for w in weights)) > most:
                raise partition_too_large(most, most * row_bytes(held.now.parts()))
            ends = boundaries(affected.peers)
            stop = len(waiting) if piece is None else last_ready(ends, list(zip(weights, left, strict=True)), ahead)
            if stop <= done:
                continue
            windowed = [
                self._windowed(affected, w, c).within(done, stop) for w, c in zip(weights, carries, strict=True)
            ]
            yield from self._difference(affected, *windowed)
            before = [(w, c.rows) for w, c in zip(weights, carries, strict=True)]
            drop = first_kept(ends, stop, before, back)
            for weight, carry in zip(weights, carries, strict=True):
                self._carry_on(affected, weight, carry, drop)
            waiting, done = waiting.take(np.arange(drop, len(waiting))), stop - drop

    def _pieces(self, blocks: Iterator[Rows], sides: Sides, most: int) -> Iterator[Rows]:
        """The rows that are present on a side, some at a time."""
        for block in blocks:
            rows = present_rows(block, sides)
            for start in range(0, len(rows), most):
                yield rows.slice(start, min(start + most, len(rows)))

    def _carry_on(self, affected: _Affected, weights: Ints, carry: Carry, drop: int) -> None:
        """Add the first ``drop`` rows in memory to the totals, before they are dropped."""
        which = np.repeat(np.arange(drop), weights[:drop])
        if not len(which):
            return
        for i, (call, layout) in enumerate(zip(self.operation.calls, self.operation.layouts, strict=True)):
            if layout is not None and call.frame.lower is None:
                values = [affected.evaluated[argument].take(column(which)) for argument in call.arguments]
                carry.add(i, layout, values, _accumulated(layout, values, len(which)), len(which))
        carry.rows += len(which)
        carry.peers += len(np.unique(affected.peers[which]))

    def _failing(self, partitions: Keys) -> npt.NDArray[np.bool_]:
        """Which partitions had no rows in the output before this epoch because they fail."""
        found, values = self.context.state(self.operation.failing).before.get(partitions)
        failing: npt.NDArray[np.bool_] = found & (numbers(values[0]) > 0)
        return failing

    def _recovered(self, partition: Keys, held: TableState) -> Iterable[Output]:
        """The rows of a partition that failed before; none while it still fails."""
        try:
            outputs = self._compared(partition, held, Sides.AFTER)
        except (EvaluationError, MemoryError):
            return ()
        self._mark(partition, -1, None)
        return outputs

    def _before_then_after(self, partition: Keys, held: TableState) -> Iterator[Output]:
        """Retracts the old rows of a partition, then emits its new ones; if these fail it is marked as failing.

        Raises
        ------
        EvaluationError
            Once more partitions fail than a step reports in an epoch.
        """
        yield from self._compared(partition, held, Sides.BEFORE)
        outputs: Iterable[Output] = ()
        try:
            outputs = self._compared(partition, held, Sides.AFTER)
        except (EvaluationError, MemoryError) as error:
            self._newly_failing += 1
            if self._newly_failing > MOST_FAILING:
                raise
            self._mark(partition, 1, out_of_memory(f"a window: {error}") if isinstance(error, MemoryError) else error)
        yield from outputs

    def _mark(self, partition: Keys, weight: int, error: EvaluationError | None) -> None:
        """Note that a partition fails (weight 1), or no longer does (-1)."""
        self.context.state(self.operation.failing).write(Rows(partition, (column(np.array([weight], np.int64)),)))
        self.context.failing(self.step, weight, error)

    def _groups(self, held: TableState, partitions: Keys) -> Iterator[Keys]:
        """The partitions cut into groups that fit into memory; one that does not is alone."""
        parts = held.now.parts()
        most = rows_together(parts, self.context.budget.limit)
        if sum(map(len, parts)) <= most:
            yield partitions
            return
        counts = counts_with(parts, partitions)
        if self.operation.limit is not None:
            counts = np.minimum(counts, len(parts) * (2 * self.operation.limit + 16))
        large = np.flatnonzero(counts > most).tolist()
        alone = {edge for at in large for edge in (at, at + 1)}
        for start, stop in pairwise(sorted({*alone, *(edge for cut in slices(counts, most) for edge in cut)})):
            yield partitions.slice(start, stop)

    def _affected(self, rows: Rows, sides: Sides) -> _Affected:
        """Rows of some partitions, in their order, with the arguments of the functions."""
        operation, table = self.operation, self.operation.rows.table
        width = operation.partition
        before, after = weights_of(rows, sides)
        columns = decode(rows.keys, table.key)
        owners = runs_of_equal(columns[:width], len(rows.keys))
        peers = runs_of_equal(columns[: width + operation.order], len(rows.keys))
        restored = restore(operation.rows, columns, np.arange(len(rows.keys)))
        affected = _Affected(restored, owners, peers, before, after, {})
        for call in operation.calls:
            for expression in (*call.arguments, call.frame.lower, call.frame.upper):
                if expression is not None and not isinstance(expression, int):
                    affected.evaluated[expression] = _evaluate(expression, restored, len(rows.keys))
        return affected

    def _read(self, table: TableState, prefixes: Keys, sides: Sides) -> Rows:
        """Rows of some partitions with two weights each: that of before, and what the epoch adds to it.

        Old rows that can only be read together are read whatever their size: an earlier epoch could hold them.
        """
        limit = self.operation.limit
        if limit is None:
            answered = sides is Sides.BEFORE and not in_slices(self.operation)
            return partition_rows(table, prefixes, sides, 0 if answered else self.context.budget.limit)

        def enough(owners: Ints, rows: Rows, prefixes: int) -> npt.NDArray[np.bool_]:
            before, added = (numbers(v) for v in rows.values)
            weights = [np.maximum(w, 0) for w in (before, before + added)]
            if self.operation.limited != "row_number":
                weights = self._of_whole_peers(owners, rows, weights)
            counts = [np.bincount(owners, w, prefixes) for w in weights]
            found: npt.NDArray[np.bool_] = np.minimum(*counts) >= limit
            return found

        return present_rows(table.compare_beginnings(prefixes, 2 * limit + 16, enough), sides)

    def _of_whole_peers(self, owners: Ints, rows: Rows, weights: list[Ints]) -> list[Ints]:
        """What rows add to the rank of those behind the last peers read of their partition.

        More rows may belong to these last peers. A rank grows by the rows of a group of peers, ``dense_rank`` by one.
        """
        operation = self.operation
        width = operation.partition + operation.order
        peers = runs_of_equal(decode(rows.keys, operation.rows.table.key[:width]), len(rows))
        last = np.zeros(1 + int(owners[-1]) if len(owners) else 0, np.int64)
        last[owners] = peers
        whole = peers < last[owners]
        if operation.limited == "rank":
            return [np.where(whole, w, 0) for w in weights]
        found = []
        for w in weights:
            there = np.flatnonzero(whole & (w > 0))
            _, first = np.unique(peers[there], return_index=True)
            counted = np.zeros(len(w), np.int64)
            counted[there[first]] = 1
            found.append(counted)
        return found

    def _windowed(self, affected: _Affected, weights: Ints, carry: Carry | None = None) -> _Windowed:
        """The window functions over the rows with some weights; a row of weight 2 is two rows."""
        which = np.repeat(np.arange(len(weights)), weights)
        rows = ordered_rows(affected.partitions[which], affected.peers[which])
        if self.operation.limit is not None:
            which = which[_before(rows, self.operation.limited) < self.operation.limit]
            rows = ordered_rows(affected.partitions[which], affected.peers[which])
        calls = range(len(self.operation.calls))
        return _Windowed(which, [self._column(affected, which, rows, call, carry or Carry()) for call in calls])

    def _column(self, affected: _Affected, which: Ints, rows: OrderedRows, number: int, carry: Carry) -> pa.Array[Any]:
        """One window function."""
        call, layout = self.operation.calls[number], self.operation.layouts[number]
        if call.function in RANKINGS:
            found = ranking(call, rows)
            before = carry.peers if call.function == "dense_rank" else carry.rows
            return pc.add(found, pa.scalar(before, found.type)) if before else found
        index = column(which)
        values = [affected.evaluated[argument].take(index) for argument in call.arguments]
        if call.function == "shift":
            return shifted(call, rows, values[0], values[1])

        def bound(end: Bound) -> pa.Array[Any] | None:
            return None if end is None or isinstance(end, int) else affected.evaluated[end].take(index)

        lower, upper = bound(call.frame.lower), bound(call.frame.upper)
        order = None
        if self.operation.range_order is not None and (lower is not None or upper is not None):
            at, key = self.operation.range_order
            order = RangeOrder(affected.columns[at].take(index), key)
        starts, ends = frame_bounds(call.frame, rows, order, lower, upper)
        if layout is None:
            return valued(call, values[0], starts, ends)
        accumulated = _accumulated(layout, values, len(which))
        if number in carry.totals:
            values, accumulated = carry.joined(number, values, accumulated)
            ends = ends + 1  # the first row stands for all before, and every frame begins with it
        return aggregated(layout, values, accumulated, starts, ends)

    def _difference(self, affected: _Affected, before: _Windowed, after: _Windowed) -> list[Output]:
        """The rows of one that are not in the other."""
        # Rows that occur as often as before lie side by side: most of them did not change.
        counts = [np.bincount(side.which, minlength=len(affected.before)) for side in (before, after)]
        same = counts[0] == counts[1]
        kept = [np.flatnonzero(same[side.which]) for side in (before, after)]
        changed = np.zeros(len(kept[0]), np.bool_)
        for old, new in zip(before.columns, after.columns, strict=True):
            changed |= _differ(old.take(column(kept[0])), new.take(column(kept[1])))
        which, results = [], []
        for side, stays in zip((before, after), kept, strict=True):
            rows = np.concatenate([np.flatnonzero(~same[side.which]), stays[changed]])
            which.append(side.which[rows])
            results.append([c.take(column(rows)) for c in side.columns])
        return _consolidated(affected, which, results)


def _accumulated(layout: AggregateLayout, values: list[pa.Array[Any]], rows: int) -> list[list[pa.Array[Any]]]:
    """The columns of each accumulator, every row being a group of its own; none where it is recomputed."""
    alone = np.arange(rows)
    return [
        []
        if a.recomputed
        else a.fold(
            alone,
            None if a.argument is None else values[a.argument],
            values[a.others[0]] if a.others else None,
            None,
            rows,
        )
        for a in layout.accumulators
    ]


def _before(rows: OrderedRows, limited: str) -> Ints:
    """The rank of each row less one."""
    match limited:
        case "row_number":
            places: Ints = np.arange(len(rows)) - rows.first
            return places
        case "rank":
            return rows.peer_first - rows.first
        case "dense_rank":
            return rows.peers - rows.peers[rows.first]
    raise ValueError(limited)


def _consolidated(affected: _Affected, which: list[Ints], results: list[list[pa.Array[Any]]]) -> list[Output]:
    """The rows of before with -1 and those of now with +1; what is in both is left out."""
    signs = np.concatenate([np.full(len(which[0]), -1, np.int64), np.ones(len(which[1]), np.int64)])
    rows = np.concatenate(which)
    columns = [pa.concat_arrays(both) for both in zip(*results, strict=True)]
    layout = [KeyColumn(pa.int64()), *(KeyColumn(c.type) for c in columns)]
    ids, first = group(encode([column(rows), *columns], layout, 0))
    net = sum_int64(ids, column(signs), None, len(first))
    kept = np.flatnonzero(net)
    if not len(kept):
        return []
    index = column(first[kept])
    inputs = column(rows[first[kept]])
    output = [c.take(inputs) for c in affected.columns] + [c.take(index) for c in columns]
    return [Output(Delta(batch_of(output, len(kept)), net[kept]))]


def _differ(old: pa.Array[Any], new: pa.Array[Any]) -> npt.NDArray[np.bool_]:
    """Where two columns are not the same; NULL is the same as NULL, a float as one of equal bits."""
    if pa.types.is_null(old.type):
        return np.zeros(len(old), np.bool_)
    if pa.types.is_nested(old.type):
        ids, _ = group(encode([pa.concat_arrays([old, new])], [KeyColumn(old.type)], 0))
        unlike: npt.NDArray[np.bool_] = ids[: len(old)] != ids[len(old) :]
        return unlike
    if pa.types.is_floating(old.type):
        bits = pa.int64() if pa.types.is_float64(old.type) else pa.int32()
        old, new = old.view(bits), new.view(bits)
    other: Any = pc.not_equal(old, new).fill_null(False)
    nulls = pc.xor(old.is_null(), new.is_null())
    found: npt.NDArray[np.bool_] = pc.or_(other, nulls).to_numpy(zero_copy_only=False)
    return found


@dataclass(frozen=True, eq=False)
class _Affected:
    """Rows of some partitions in the order of the window, each once, with how often it was there and is there."""

    columns: list[pa.Array[Any]]
    partitions: Ints
    peers: Ints
    before: Ints
    after: Ints
    evaluated: dict[Expression, pa.Array[Any]]


@dataclass(frozen=True, eq=False)
class _Windowed:
    """For each row the affected row that it is (int64), and one column per window function."""

    which: Ints
    columns: list[pa.Array[Any]]

    def within(self, start: int, stop: int) -> _Windowed:
        """The affected rows ``start`` to ``stop - 1``."""
        first, last = np.searchsorted(self.which, [start, stop]).tolist()
        return _Windowed(self.which[first:last], [c.slice(first, last - first) for c in self.columns])


def _evaluate(expression: Expression, columns: list[pa.Array[Any]], rows: int) -> pa.Array[Any]:
    used = references(expression)
    narrow = [c if i in used else pa.nulls(rows) for i, c in enumerate(columns)]
    try:
        return evaluate(expression, batch_of(narrow, rows))
    except EvaluationError as error:
        compute = partial(_evaluate_rows, expression)
        raise with_row(error, compute, Delta(batch_of(columns, rows))) from error


def _evaluate_rows(expression: Expression, delta: Delta) -> pa.Array[Any]:
    return evaluate(expression, delta.batch)
