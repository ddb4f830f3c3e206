"""The steps of one view as a graph: what ``EXPLAIN INCREMENTAL`` says, for programs that draw it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tidemill.plan.explain.column_names import exchange_columns, input_columns, step_columns
from tidemill.plan.explain.texts import in_small, of_small, sent
from tidemill.task.program import Program, ScanStep


@dataclass(frozen=True)
class PlanInput:
    """Where rows of a step come from: a step before, one of its ports, and how they are spread over partitions.

    ``exchange`` is None where rows stay in their partition.
    """

    step: int
    port: int
    exchange: str | None


@dataclass(frozen=True)
class PlanStep:
    """One step of a view's plan, with its number in the program.

    ``written`` and ``read`` are the ids of the state tables that it appends to and looks up; those of errors of input
    tables are left out. ``views`` are all views that have the step.
    """

    step: int
    operation: str
    text: str
    superstep: int
    cost: str
    views: tuple[str, ...]
    inputs: tuple[PlanInput, ...]
    written: tuple[str, ...]
    read: tuple[str, ...]


def plan_steps(program: Program, view: str, small: Collection[str] = ()) -> tuple[PlanStep, ...]:
    """The steps of a program that a view depends on, in topological order; none when it is not in the program.

    Parameters
    ----------
    small : collection of str
        Ids of the state tables that are small sides of joins.
    """
    columns = step_columns(program)
    exchanged_by = exchange_columns(program, columns)
    found = []
    for number, step in enumerate(program.steps):
        if view not in step.views:
            continue
        operation = step.operation
        names = [input_columns(program, columns, i) for i in step.inputs]
        scan = isinstance(operation, ScanStep)
        found.append(
            PlanStep(
                number,
                type(operation).__name__,
                of_small(operation.text(names, columns[number]), in_small(operation, small)),
                step.depth,
                str(operation.cost),
                tuple(sorted(step.views)),
                tuple(PlanInput(i.step, i.port, sent(program, exchanged_by, number, i)) for i in step.inputs),
                () if scan else tuple(t.id for t in operation.written_tables),
                () if scan else tuple(t.id for t in operation.read_tables),
            )
        )
    return tuple(found)
