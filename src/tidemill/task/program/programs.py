"""What a task runs: steps, the state tables they own, and where each stands in the epoch's job.

A program serves all views of a mill together. Its steps are numbered in topological order; step s
runs in superstep ``depth``, after every step it reads from. Rows between steps of one depth are in
an in-process queue; between depths they go through Spark's shuffle, routed by vnode. Only keyed rows
(:class:`~tidemill.state.merge.merge.Rows`) cross depths.

Program objects are immutable and picklable: plain data, no Spark, no open files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tidemill.state.tables import StateTable
from tidemill.task.expressions.texts import Names
from tidemill.task.program.costs import Cost, CostClass
from tidemill.task.program.operation import Operation, TableNames
from tidemill.task.program.read_plan import ReadPlan
from tidemill.task.program.row_steps import ScanStep
from tidemill.task.program.table_steps import ApplyBook, ApplyChangelog, ApplyFileVersions


@dataclass(frozen=True)
class ViewSnapshot(Operation):
    """The contents of another view when the reader was added: emitted once, in its first epoch."""

    view: str
    plan: ReadPlan

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        return (self.plan.table,)

    @property
    def cost(self) -> Cost:
        return Cost(CostClass.CHANGES, "once O(n)")

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return self.plan.schema.names

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Snapshot of {self.view}"


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

    ``created_at_epoch`` is the epoch after which the step began to exist: rows of splits older than that reach it only
    through its own backfill. ``views`` are those that fail when it fails.
    """

    operation: Operation
    inputs: tuple[Input, ...]
    depth: int
    created_at_epoch: int
    views: frozenset[str]


@dataclass(frozen=True)
class ViewLimit:
    """What a view may take in a task: seconds and bytes, None for no limit. ``readers`` stop with it."""

    view: str
    seconds: float | None
    bytes: int | None
    readers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ProgramPart:
    """What one of several tasks carries out of a program, each for some of the views.

    Attributes
    ----------
    number : int
        Its place among the parts.
    steps : frozenset of int
        The steps that it carries out. A step that views of several parts need is in each of these.
    owned : frozenset of int
        Those that no other part owns: only their rows are counted and their state is written.
    tables : frozenset of str
        State tables that the steps it owns write.
    reads : frozenset of str
        State tables that its steps look up.
    """

    number: int
    steps: frozenset[int]
    owned: frozenset[int]
    tables: frozenset[str]
    reads: frozenset[str]


@dataclass(frozen=True)
class Program:
    """All steps of a mill, and a name that changes whenever they do.

    ``limits`` are those of views that have any. With a ``part`` a task carries out some of the steps.
    """

    steps: tuple[Step, ...]
    fingerprint: str
    limits: tuple[ViewLimit, ...] = ()
    part: ProgramPart | None = None

    @property
    def supersteps(self) -> int:
        """Number of Spark stages an epoch takes."""
        return 1 + max((s.depth for s in self.steps), default=0)

    @cached_property
    def looked_up(self) -> frozenset[str]:
        """State tables that any step looks up, whoever carries it out."""
        return frozenset(table.id for step in self.steps for table in step.operation.read_tables)

    @property
    def carried_out(self) -> dict[int, Step]:
        """The steps that a task carries out, by number, in their order."""
        numbers = range(len(self.steps)) if self.part is None else sorted(self.part.steps)
        return {number: self.steps[number] for number in numbers}


def consumers_of(steps: Mapping[int, Step]) -> dict[int, list[tuple[int, int, int]]]:
    """The consumers of each step among some: their number, their input port, and the output port that they read."""
    found: dict[int, list[tuple[int, int, int]]] = {number: [] for number in steps}
    for number, step in steps.items():
        for port, source in enumerate(step.inputs):
            if source.step in steps:
                found[source.step].append((number, port, source.port))
    return found
