"""What a task runs: steps, the state tables they own, and where each stands in the epoch's job.

A program serves all views of a mill together. Its steps are numbered in topological order; step s
runs in superstep ``depth``, after every step it reads from. A stream between steps of one depth is
an in-process queue; between depths it is Spark's shuffle, routed by vnode. Only keyed streams
(:class:`~tidemill.state.merge.merge.Rows`) cross depths.

Program objects are immutable and picklable: plain data, no Spark, no open files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from tidemill.formats.orderbook.rules import BookRules
from tidemill.schema import Schema
from tidemill.state.keys.keys import KeyColumn
from tidemill.state.merge.merge import MergeOp
from tidemill.task.aggregates.accumulators import AggregateLayout
from tidemill.task.expressions import Expression
from tidemill.task.windows.calls import WindowCall


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

    @property
    def drops_zero(self) -> bool:
        """Whether a key of weight 0 need not be stored. That of an aggregate without GROUP BY tells that it began."""
        return self.is_multiset and bool(self.key)


def multiset_table(id_: str, types: tuple[pa.DataType, ...], distribution: int) -> StateTable:
    """A table of rows with multiplicities: all columns are key, the one value is the weight."""
    return StateTable(id_, tuple(KeyColumn(t) for t in types), distribution, (pa.int64(),), (MergeOp.SUM,))


@dataclass(frozen=True)
class Changelog:
    """How the rows of a keyed table follow from its messages in their order.

    ``rows`` are the columns of the table, ``key`` those of its primary key by position; ``born`` is the epoch
    sealed last when the table was created. ``book`` are the rules of an order book; without them the last
    message of a key decides: an insertion is the row from then on, a deletion ends it.
    """

    rows: Schema
    key: tuple[int, ...]
    born: int
    book: BookRules | None = None


@dataclass(frozen=True)
class FileVersions:
    """What a table whose files may be overwritten keeps: every row by the file it came from.

    ``rows`` are the columns of the table; ``born`` is the epoch sealed last when the table was created.
    """

    rows: Schema
    born: int


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
    changelog: Changelog | None = None
    watermark: str | None = None
    """The column of event times, for tables that leave out late rows."""
    metadata: str | None = None
    """The column that says which file a row comes from; files do not have it."""
    static: bool = False
    """Whether the table is complete before anything that is joined with it begins."""
    versions: FileVersions | None = None
    pushed: bool = False
    """Whether its files are segments of a spool."""

    @property
    def kept(self) -> Changelog | FileVersions | None:
        """How its rows are kept from its creation on, whatever views there are; None for what is only read."""
        return self.versions if self.changelog is None else self.changelog

    @property
    def file_schema(self) -> Schema:
        """The columns that files have."""
        return Schema(tuple(f for f in self.schema if f.name != self.metadata))


@dataclass(frozen=True)
class ScanStep:
    """Rows of a table: ``columns`` by name. Serves every step of every view on the table.

    With ``sequenced`` the rows are messages: two int64 columns follow, 1 or -1 by the operation, and the row's
    place in the epoch. With ``by_file`` a binary column follows, the name of the row's file as
    :func:`tidemill.sources.split.file_digest` shortens it, and port 1 gives the names of files of which all that was
    read before is withdrawn.

    A row of which ``condition``, over ``columns``, is not true may be left out: no reader wants it.
    """

    source: TableSource
    columns: tuple[str, ...]
    sequenced: bool = False
    condition: Expression | None = None
    by_file: bool = False


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
class Comparison:
    """A condition on a value ``y`` of the right side for a row of the left: monotone in ``y``.

    ``form`` is ``value`` (``y op bound``), ``value_minus_bound`` (``y - bound op limit``) or
    ``bound_minus_value`` (``bound - y op limit``). The last two are for doubles and are evaluated as written, with
    the rounding of the subtraction. ``op`` is ``lt``, ``le``, ``gt`` or ``ge`` in Spark's order, where NaN is the
    greatest number. ``bound`` is a position among the key columns of the left side.
    """

    form: str
    op: str
    bound: int
    limit: float | None = None


@dataclass(frozen=True)
class Term:
    """``coefficient * left * right``: products of one accumulator of either side, by position in their layouts.

    Of a product of two sums of doubles ``left_signs`` and ``right_signs`` are the accumulators that count values above
    zero (NaN among them) and below zero: they decide what infinities become.
    """

    coefficient: float
    left: int
    right: int
    left_signs: tuple[int, int] | None = None
    right_signs: tuple[int, int] | None = None


@dataclass(frozen=True)
class PairSums:
    """Partial groups of an aggregate over pairs of rows, from sums per key of either side.

    Inputs: partial groups of the left (0) and of the right side (1); a step of its own stores either. A left group
    meets a right one when their first ``key_width`` key columns are equal and, with ``comparisons``, when these
    hold for the right side's next key column, which then is its last: all of them, or with ``any_of`` any. Without
    comparisons it is a join by equality. A NULL key meets NULL; whoever wants SQL's equality leaves such rows out.

    ``output`` describes what comes out: for accumulator i of its layout the sum of ``terms[i]`` over all pairs.
    ``keys`` are its key columns, by position in the left key columns followed by the right ones; with comparisons
    only left ones.

    The vnode of either table is that of the same columns, at most ``key_width`` of them. A sum that is multiplied with
    a sum and whose argument may be NULL has a ``count`` of that argument beside it (``task/pair_terms.py``).
    """

    left: GroupPartial
    right: GroupPartial
    key_width: int
    comparisons: tuple[Comparison, ...]
    any_of: bool
    keys: tuple[int, ...]
    terms: tuple[tuple[Term, ...], ...]
    output: GroupPartial
    complete: int | None = None
    """The side that has no change in the epoch: it is complete before the other has any group, or small and still. Then
    the other one is the only input and is summed up where it is."""


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

    @property
    def compares(self) -> bool:
        """Whether groups are compared with what they were: lists that are too large are always reported."""
        return self.emit or any(a.declared.is_list for a in self.partial.layout.accumulators)


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
    of their own, so joins that arrange a stream alike share its state. With ``broadcast``, which has no keys,
    every partition has all right rows and left rows of its own.
    """

    left: Arrange
    right: Arrange
    key_width: int
    broadcast: bool = False


@dataclass(frozen=True)
class LookupJoin:
    """Rows joined where they are with a side that has no change in the epoch: it is complete, or small and still.

    ``kind`` is ``inner``, ``semi`` or ``anti``. ``keys`` are columns of the input, equal to the first ones of the
    ``other`` side's table; a row with NULL in one of ``required`` meets nothing. An inner join gives the input's
    columns and the other side's in their original order, with ``other_first`` the other way round. ``residual``, only
    of a semi or anti join, is asked of the input's columns followed by the other side's.
    """

    kind: str
    keys: tuple[int, ...]
    required: tuple[int, ...]
    other: Arrange
    other_first: bool = False
    residual: Expression | None = None


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
class WindowChanges:
    """Changes of rows with window functions. The input is arranged by partition, then by ORDER BY.

    Output columns are the input's in their original order, then one per call.
    """

    rows: Arrange
    partition: int
    """Columns of the key that make a partition."""
    order: int
    """Columns of the key behind those that ORDER BY has."""
    range_order: tuple[int, KeyColumn] | None
    """The only column of ORDER BY, by its position in the input, where a RANGE frame has an offset."""
    calls: tuple[WindowCall, ...]
    layouts: tuple[AggregateLayout | None, ...]
    """For each call that aggregates what it is made of."""
    failing: StateTable
    """Partitions that fail, and have no rows in the output as long as they do; the value is 1."""
    limit: int | None
    """The first rows of each partition that come out; None for all."""
    limited: str = "row_number"
    """What ``limit`` is the greatest value of: ``row_number``, ``rank`` or ``dense_rank``."""


@dataclass(frozen=True)
class RecursionJoin:
    """Rows of a recursion meet those of a relation, by its position among the relations of the step.

    ``then`` is what is computed of the joined rows: columns of the rows, then those of the relation.
    ``rows`` is how the rows that meet it are kept: by key, with the level, which is the column behind theirs. What
    changes of the relation make of the rows of earlier epochs waits in ``pending``, by level, until the loop gets
    there; nothing of it is stored.
    """

    relation: int
    rows: Arrange
    key_width: int
    then: tuple[Calculate, ...]
    pending: StateTable


@dataclass(frozen=True)
class RecursionPath:
    """What the step of a recursion does with its rows; ``sign`` as in the algebra."""

    parts: tuple[Calculate | Explode | RecursionJoin, ...]
    sign: int


@dataclass(frozen=True)
class RecursiveChanges:
    """Changes of the rows of a recursion. Inputs: the anchor, then the relations, all with vnode 0.

    ``anchor`` says how rows of any level are keyed while they are on their way; nothing of it is stored. ``counted``
    has the number of rows.
    """

    anchor: Arrange
    relations: tuple[Arrange, ...]
    paths: tuple[RecursionPath, ...]
    counted: StateTable
    levels: int | None
    """The greatest level; rows beyond it are an error."""
    rows: int | None
    """How many rows there may be."""
    last: int | None
    """The level behind which no rows are computed."""

    @property
    def joins(self) -> tuple[RecursionJoin, ...]:
        """The joins of all paths."""
        return tuple(part for path in self.paths for part in path.parts if isinstance(part, RecursionJoin))


@dataclass(frozen=True)
class ArrangeMessages:
    """Messages by (key, place in the epoch): what :class:`ApplyChangelog` and :class:`ApplyBook` read.

    ``key`` and ``values`` are columns of the input. ``table`` is the layout of the stream; nothing is stored.
    """

    key: tuple[int, ...]
    values: tuple[int, ...]
    table: StateTable


@dataclass(frozen=True)
class ApplyChangelog:
    """Applies messages to a keyed table: writes its rows, and emits old ones with -1 and new ones with +1.

    ``table`` has the primary key as key, and as values a weight, then the other columns.
    """

    messages: ArrangeMessages
    changelog: Changelog
    table: StateTable


@dataclass(frozen=True)
class ApplyBook:
    """Applies the messages of an exchange to one side of its order book.

    ``orders`` holds the live orders by id: a weight, then t, volume and price. ``contents`` is the multiset of
    the table's rows, id first: what is read. ``row_order`` says for each column of the table which of (t, id,
    broker, volume, price) it is.
    """

    messages: ArrangeMessages
    changelog: Changelog
    orders: StateTable
    contents: StateTable
    row_order: tuple[int, ...]


@dataclass(frozen=True)
class ApplyFileVersions:
    """Keeps the rows of a table by file, and emits what an epoch changes of them.

    Inputs: new rows (0), arranged as ``rows`` has it, and the files whose earlier rows are withdrawn (1), arranged as
    ``withdrawn`` has it, all of them for every partition. ``rows.table`` is what is stored: file, then all columns, of
    which every one chooses the vnode.
    """

    rows: Arrange
    withdrawn: Arrange
    versions: FileVersions


@dataclass(frozen=True)
class RepeatRows:
    """Every row as often as ``column`` says; that column does not come out."""

    column: int


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
    then results); without, rows are keys with multiplicities, followed by the values after the first if the
    table has any. ``steps`` are applied to that, in order.
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
    | PairSums
    | Arrange
    | JoinChanges
    | LookupJoin
    | SemiChanges
    | TopChanges
    | WindowChanges
    | RecursiveChanges
    | RepeatRows
    | StoreRows
    | ViewSnapshot
    | ArrangeMessages
    | ApplyChangelog
    | ApplyBook
    | ApplyFileVersions
)

TABLE_STEPS = (ScanStep, ApplyChangelog, ApplyBook, ApplyFileVersions)
"""Operations that belong to a table rather than to views: they go on whatever happens to the views."""


@dataclass(frozen=True)
class Input:
    """Output ``port`` of step ``step``; with ``broadcast`` every partition gets all of it."""

    step: int
    port: int = 0
    broadcast: bool = False


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


def changes_probe_left(operation: PairSums) -> bool:
    """Whether a changed right group finds its left ones by search, as left ones find right ones.

    So it is where the left table is sorted by the one bound and the output needs only the shared keys; else all
    left groups of the shared key are read.
    """
    width = operation.key_width
    return all(c.bound == width for c in operation.comparisons) and all(k < width for k in operation.keys)
