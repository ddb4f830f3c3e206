"""WITH RECURSIVE: the step of a recursion over its own rows, level by level, until nothing more changes.

Each row has a level: those of the anchor are of level 1, those that the step makes of level k are of level k + 1. A
change of a row of level k changes rows of level k + 1 only, so what an epoch changes is found in one loop over the
levels, and deletions need nothing of their own, also where the relations have cycles::

    dR[1]     =  dA
    dR[k + 1] =  dR[k] x E(new)  +  R[k](old) x dE

Where the step has several joins, each keeps the rows that meet its relation, with their level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import EvaluationError
from tidemill.kernels.columns import column, numbers
from tidemill.state.keys.keys import decode, encode
from tidemill.state.lookup.reader import TableState
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.dataflow.holding_operator import HoldingOperator
from tidemill.task.dataflow.matching import SLICE_ROWS, slice_bytes
from tidemill.task.dataflow.operator import Context, Operator, Output, carries_out
from tidemill.task.expressions import Ref
from tidemill.task.operators.joins.arrange import empty_keys
from tidemill.task.operators.joins.join import matched
from tidemill.task.operators.rows.calculate import CalculateOperator
from tidemill.task.operators.rows.explode import ExplodeOperator
from tidemill.task.program import (
    Arrange,
    Calculate,
    Explode,
    RecursionJoin,
    RecursionPath,
    RecursiveChanges,
    StateTable,
)

_MOST = 10
"""A view is failing while a recursion has more rows than it may have; with so many times as many it ends."""


@carries_out(RecursiveChanges)
class RecursionOperator(HoldingOperator):
    """Holds the changes of the anchor and of the relations; at the barrier it goes through the levels."""

    def __init__(self, step: int, operation: RecursiveChanges) -> None:
        super().__init__(step, *(arranged.table for arranged in (operation.anchor, *operation.relations)))
        self.operation = operation
        self._paths: tuple[_Path, ...] = ()

    def begin(self, context: Context) -> None:
        """Start an epoch."""
        super().begin(context)
        operation = self.operation
        self._paths = tuple(_Path(self.step, path, operation.relations, context) for path in operation.paths)

    def changes(self, *inputs: TableState) -> Iterator[Output]:
        """Go through the levels; the steps that store the relations do so on their own."""
        anchor, *relations = inputs
        operation, table = self.operation, self.operation.anchor.table
        most_bytes = slice_bytes(self.context.budget)
        counted = _Counted(self.context, self.step, operation)
        rows, level = anchor, 1
        try:
            last_pending = max((path.meet_changes(relations, most_bytes) for path in self._paths), default=0)
            while True:
                beyond = operation.levels is not None and level > operation.levels
                change = 0
                for delta in _deltas(rows, table, most_bytes):
                    change += int(delta.explicit_weights().sum())
                    if not beyond:
                        yield Output(delta)
                if beyond:
                    self._too_deep(change)
                    break
                counted.add(change)
                if level == operation.last:
                    break
                following = self._following(level, rows, relations, counted)
                rows.close()
                rows, level = following, level + 1
                if level > last_pending and not rows.memtable.runs():
                    break
            counted.store()
        finally:
            rows.close()
            for state in (anchor, *relations):
                state.close()
            for path in self._paths:
                path.close()

    def _following(self, level: int, rows: TableState, relations: list[TableState], counted: _Counted) -> TableState:
        """What the changes of a level, and those of the relations, change of the next one."""
        table, most_bytes = self.operation.anchor.table, slice_bytes(self.context.budget)
        following, reached = self.context.hold(table), 0
        try:
            for path in self._paths:
                for delta in path.next_level(level, _deltas(rows, table, most_bytes), relations, most_bytes):
                    reached += int(delta.explicit_weights().sum())
                    counted.check(reached)
                    _write(following, table, delta)
        except BaseException:
            following.close()
            raise
        return following

    def _too_deep(self, change: int) -> None:
        """Rows behind the last level: the view is failing while there are any."""
        if not change:
            return
        error = EvaluationError(
            "TM3021",
            "a recursion has more levels than it may have",
            got=f"rows beyond level {self.operation.levels}",
            hint="end it by a condition, remove cycles from the data, or write MAX RECURSION LEVEL n behind its name",
        )
        self.context.failing(self.step, change, error if change > 0 else None)


class _Path:
    """What the step does with rows in an epoch; its joins keep the rows that meet their relation."""

    def __init__(self, step: int, path: RecursionPath, arranged: tuple[Arrange, ...], context: Context) -> None:
        self._step, self._sign, self._arranged, self._context = step, path.sign, arranged, context
        self._parts = tuple(
            part if isinstance(part, RecursionJoin) else _operator(step, part, context) for part in path.parts
        )
        self._pending: dict[str, TableState] = {}

    def close(self) -> None:
        """Nothing more is read of what was pending."""
        for state in self._pending.values():
            state.close()
        self._pending = {}

    def meet_changes(self, relations: list[TableState], most_bytes: int) -> int:
        """Join what changes of the relations with the rows of before; tells the greatest level of these."""
        greatest = 0
        for join in self._parts:
            if not isinstance(join, RecursionJoin):
                continue
            pending = self._pending[join.pending.id] = self._context.hold(join.pending)
            before, relation = self._context.state(join.rows.table).before, relations[join.relation]
            width = max(join.rows.columns)
            for changes in relation.blocks():
                found = matched(
                    self._arranged[join.relation], changes, join.rows, before, join.key_width, True, most_bytes
                )
                rows = (_with_level_last(delta, width) for delta in found)
                for delta in self._computed(self._then_with_level(join), rows):
                    *columns, level = delta.batch.columns
                    greatest = max(greatest, pc.max(level).as_py())
                    keys = encode([level, *columns], join.pending.key, 0)
                    pending.write_unsorted(keys, [column(delta.explicit_weights())])
        return greatest

    def _computed(self, parts: Iterable[Calculate], rows: Iterator[Delta]) -> Iterator[Delta]:
        for part in parts:
            rows = _calculated(_operator(self._step, part, self._context), rows)
        return rows

    def _then_with_level(self, join: RecursionJoin) -> Iterator[Calculate]:
        """What is computed of joined rows that have their level behind their columns; it stays there."""
        width = max(join.rows.columns) + 1 + max(self._arranged[join.relation].columns, default=-1)
        for part in join.then:
            if part.expressions is None:
                yield part
            else:
                yield Calculate(part.condition, (*part.expressions, Ref(width, pa.int32())))
                width = len(part.expressions)

    def next_level(
        self, level: int, rows: Iterator[Delta], relations: list[TableState], most_bytes: int
    ) -> Iterator[Delta]:
        """Changes of the next level, from those of a level."""
        for part in self._parts:
            if isinstance(part, RecursionJoin):
                joined = self._joined(part, level, rows, relations[part.relation], most_bytes)
                rows = chain(self._computed(part.then, joined), self._waiting(part, level))
            else:
                rows = _calculated(part, rows)
        for delta in rows:
            yield Delta(delta.batch, self._sign * delta.explicit_weights())

    def _joined(
        self, join: RecursionJoin, level: int, rows: Iterator[Delta], relation: TableState, most_bytes: int
    ) -> Iterator[Delta]:
        """Rows of a level joined with the relation as it is now."""
        table = join.rows.table
        held, state = self._context.hold(table), self._context.state(table)
        width = max(join.rows.columns)
        for delta in rows:
            for required in join.rows.required:
                if delta.batch.column(required).null_count:
                    delta = delta.filter(pc.is_valid(delta.batch.column(required)))
            levels = pa.array(np.full(len(delta), level, np.int32))
            columns = [*delta.batch.columns, levels]
            keys = encode([columns[c] for c in join.rows.columns], table.key, 0)
            held.write_unsorted(keys, [column(delta.explicit_weights())])
        try:
            for changes in held.blocks():
                state.write(changes)
                for delta in matched(
                    join.rows, changes, self._arranged[join.relation], relation.now, join.key_width, False, most_bytes
                ):
                    columns = _with_level_last(delta, width).batch.columns[:-1]
                    yield Delta(batch_of(columns, len(delta)), delta.weights)
        finally:
            held.close()

    def _waiting(self, join: RecursionJoin, level: int) -> Iterator[Delta]:
        """What changes of the relation make of the rows of before, of a level."""
        prefix = encode([pa.array([level], pa.int32())], join.pending.key[:1], 0)[0]
        for found in self._pending[join.pending.id].now.iterate(prefix=prefix, block=SLICE_ROWS):
            columns = decode(found.keys, join.pending.key)[1:]
            yield Delta(batch_of(columns, len(found.keys)), numbers(found.values[0]))


class _Counted:
    """The number of rows of a recursion; while it is greater than it may be the view is failing."""

    def __init__(self, context: Context, step: int, operation: RecursiveChanges) -> None:
        self._context, self._step = context, step
        self._table, self._limit = operation.counted, operation.rows
        rows = context.state(self._table).before.rows(drop_zero=True)
        self._before = int(numbers(rows.values[0]).sum())
        self._total = self._before

    def add(self, change: int) -> None:
        """A level has so many rows more."""
        self._total += change
        self.check(0)

    def check(self, more: int) -> None:
        """Refuse to go on where there are far too many rows; ``more`` come with the next level.

        Raises
        ------
        EvaluationError
            TM3022.
        """
        if self._limit is not None and self._total + more > _MOST * self._limit:
            raise self._error(self._total + more)

    def store(self) -> None:
        """Note the number, and whether it is too great."""
        change = self._total - self._before
        if change:
            keys = encode([pa.array([0], pa.int32())], self._table.key, 0)
            self._context.state(self._table).write_unsorted(keys, [pa.array([change], pa.int64())])
        if self._limit is not None:
            too_many = [max(0, total - self._limit) for total in (self._before, self._total)]
            change = too_many[1] - too_many[0]
            if change:
                self._context.failing(self._step, change, self._error(self._total) if change > 0 else None)

    def _error(self, rows: int) -> EvaluationError:
        return EvaluationError(
            "TM3022",
            "a recursion has more rows than it may have",
            got=f"{rows:,} rows, at most {self._limit:,}",
            hint="end it by a condition, or create the view with a greater spark.sql.cteRecursionRowLimit",
        )


def _operator(step: int, part: Calculate | Explode, context: Context) -> Operator:
    operator = ExplodeOperator(step, part) if isinstance(part, Explode) else CalculateOperator(step, part)
    operator.begin(context)
    return operator


def _calculated(operator: Operator, rows: Iterator[Delta]) -> Iterator[Delta]:
    """What an operator that holds nothing makes of rows."""
    for delta in rows:
        operator.add_input(delta, 0)
        while (output := operator.get_output()) is not None:
            assert isinstance(output.item, Delta)
            yield output.item


def _with_level_last(delta: Delta, width: int) -> Delta:
    """Joined rows with their level, which is behind ``width`` columns, behind all."""
    columns = list(delta.batch.columns)
    columns.append(columns.pop(width))
    return Delta(batch_of(columns, len(delta)), delta.weights)


def _deltas(rows: TableState, table: StateTable, most_bytes: int) -> Iterator[Delta]:
    """What is held, in slices of about so many bytes."""
    for block in rows.blocks():
        most = max(1, most_bytes // (16 + block.nbytes // len(block)))
        for start in range(0, len(block), most):
            stop = min(start + most, len(block))
            columns = decode(block.keys.slice(start, stop), table.key)
            yield Delta(batch_of(columns, stop - start), numbers(block.values[0])[start:stop])


def _write(state: TableState, table: StateTable, delta: Delta) -> None:
    columns = list(delta.batch.columns)
    keys = encode(columns, table.key, 0) if columns else empty_keys(len(delta))
    state.write_unsorted(keys, [column(delta.explicit_weights())])
