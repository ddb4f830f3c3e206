"""What a task runs: steps, the state tables they own, and where each stands in the epoch's job.

A program serves all views of a mill together. Its steps are numbered in topological order; step s
runs in superstep ``depth``, after every step it reads from. A stream between steps of one depth is
an in-process queue; between depths it is Spark's shuffle, routed by vnode. Only keyed streams
(:class:`~tidemill.state.merge.Rows`) cross depths.

Program objects are immutable and picklable: plain data, no Spark, no open files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from tidemill.schema import Schema
from tidemill.state.keys import KeyColumn
from tidemill.state.merge import MergeOp
from tidemill.task.accumulators import AggregateLayout
from tidemill.task.expressions import Expression


@dataclass(frozen=True)
class StateTable:
    """The layout of one state table.

    ``key`` columns are encoded in this order; the first ``distribution`` of them choose the vnode.
    ``value_types`` has one entry per Arrow column, ``ops`` one per logical value.
    """

    id: str
    key: tuple[KeyColumn, ...]
    distribution: int
    value_types: tuple[pa.DataType, ...]
    ops: tuple[MergeOp, ...]

    @property
    def is_multiset(self) -> bool:
        """Whether a row is its key and a weight, nothing else."""
        return self.ops == (MergeOp.SUM,) and self.value_types == (pa.int64(),)


def multiset_table(id_: str, types: tuple[pa.DataType, ...], distribution: int) -> StateTable:
    """A table of rows with multiplicities: all columns are key, the one value is the weight."""
    return StateTable(id_, tuple(KeyColumn(t) for t in types), distribution, (pa.int64(),), (MergeOp.SUM,))


@dataclass(frozen=True)
class TableSource:
    """How the rows of a table are read: everything ``formats/`` and a scan need.

    ``op_column`` names the column that says insert or delete, with its values in ``op_values``.
    """

    name: str
    uid: str
    format: str
    schema: Schema
    options: tuple[tuple[str, str], ...]
    op_column: str | None
    op_values: tuple[str, str]
    errors: StateTable
    watermark: str | None = None
    """The column of event times, for tables that leave out late rows."""


@dataclass(frozen=True)
class ScanStep:
    """Rows of a table: ``columns`` by name. Serves every step of every view on the table."""

    source: TableSource
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Calculate:
    """Filter by ``condition`` (None keeps all), then one output column per expression (None keeps the columns)."""

    condition: Expression | None
    expressions: tuple[Expression, ...] | None


@dataclass(frozen=True)
class Explode:
    """One row per element of an array or map: the ``kept`` columns, then position, element or its fields."""

    argument: Expression
    kept: tuple[int, ...]
    position: bool
    spread: bool
    outer: bool


@dataclass(frozen=True)
class Concatenate:
    """All rows of all inputs."""


@dataclass(frozen=True)
class GroupPartial:
    """Accumulators per group of this task's rows; keyed output, ports: groups, then one per multiset."""

    keys: tuple[int, ...]
    layout: AggregateLayout
    input_types: tuple[pa.DataType, ...]
    groups: StateTable
    multisets: tuple[StateTable, ...]


@dataclass(frozen=True)
class StoreKeyed:
    """Writes a keyed stream into its table; nothing comes out. Needs no exchange: merging is done by readers."""

    table: StateTable


@dataclass(frozen=True)
class GroupChanges:
    """Folds partial groups into state and emits each changed group: its old row with -1, its new row with +1."""

    partial: GroupPartial
    emit: bool
    """Whether anything reads the changes; else it only writes its tables."""


@dataclass(frozen=True)
class Arrange:
    """Rows keyed by ``keys`` first, then all other columns: what a join needs on either side."""

    columns: tuple[int, ...]
    """Columns of the input in key order: join keys first. All of them, or for counting only the keys."""
    required: tuple[int, ...]
    """Join keys that cannot match when NULL; such rows are left out."""
    table: StateTable


@dataclass(frozen=True)
class JoinChanges:
    """Changes of an inner equi-join: dL x R(new) + L(old) x dR. Inputs: arranged left, arranged right.

    Output columns are the left input's original order, then the right's. The tables are written by steps
    of their own, so joins that arrange a stream alike share its state.
    """

    left: Arrange
    right: Arrange
    key_width: int


@dataclass(frozen=True)
class SemiChanges:
    """Changes of a semi or anti join. Inputs: arranged left, right keys only (its table counts them)."""

    left: Arrange
    right: Arrange
    key_width: int
    anti: bool


@dataclass(frozen=True)
class TopChanges:
    """Changes of the first rows in an order. The input is arranged by that order, all in one vnode."""

    rows: Arrange
    limit: int | None
    offset: int


@dataclass(frozen=True)
class StoreRows:
    """Writes rows with their weights into a multiset table keyed by the whole row."""

    table: StateTable


@dataclass(frozen=True)
class ViewSnapshot:
    """The contents of another view when the reader was added: emitted once, in its first epoch."""

    view: str
    plan: ReadPlan


@dataclass(frozen=True)
class ReadPlan:
    """How a view's rows are read from its state table, without any engine.

    With ``groups`` the table holds accumulators and each live group is finished into a row (group columns,
    then results); without, rows are keys with multiplicities. ``steps`` are applied to that, in order.
    ``single`` marks an aggregate without GROUP BY: one row even over nothing.
    """

    table: StateTable
    layout: AggregateLayout | None
    input_types: tuple[pa.DataType, ...]
    steps: tuple[Calculate, ...]
    schema: Schema

    @property
    def single(self) -> bool:
        """Whether there is exactly one group."""
        return self.layout is not None and not self.table.key


Operation: TypeAlias = (
    ScanStep
    | Calculate
    | Explode
    | Concatenate
    | GroupPartial
    | StoreKeyed
    | GroupChanges
    | Arrange
    | JoinChanges
    | SemiChanges
    | TopChanges
    | StoreRows
    | ViewSnapshot
)


@dataclass(frozen=True)
class Input:
    """Output ``port`` of step ``step``."""

    step: int
    port: int = 0


@dataclass(frozen=True)
class Step:
    """One operation of the program.

    ``born`` is the epoch after which the step began to exist: rows of splits older than that reach it only
    through its own backfill. ``views`` are those that fail when it fails.
    """

    operation: Operation
    inputs: tuple[Input, ...]
    depth: int
    born: int
    views: frozenset[str]


@dataclass(frozen=True)
class Program:
    """All steps of a mill, and a name that changes whenever they do."""

    steps: tuple[Step, ...]
    fingerprint: str

    @property
    def supersteps(self) -> int:
        """Number of Spark stages an epoch takes."""
        return 1 + max((s.depth for s in self.steps), default=0)


def written_tables(operation: Operation) -> tuple[StateTable, ...]:
    """State tables that a step appends to."""
    if isinstance(operation, ScanStep):
        return (operation.source.errors,)
    if isinstance(operation, StoreKeyed | StoreRows):
        return (operation.table,)
    if isinstance(operation, GroupChanges):
        return (operation.partial.groups, *operation.partial.multisets)
    return ()


def read_tables(operation: Operation) -> tuple[StateTable, ...]:
    """State tables that a step looks up while it runs."""
    if isinstance(operation, GroupChanges):
        groups = (operation.partial.groups,) if operation.emit else ()
        return (*groups, *operation.partial.multisets)
    if isinstance(operation, JoinChanges | SemiChanges):
        return (operation.left.table, operation.right.table)
    if isinstance(operation, TopChanges):
        return (operation.rows.table,)
    if isinstance(operation, ViewSnapshot):
        return (operation.plan.table,)
    return ()
