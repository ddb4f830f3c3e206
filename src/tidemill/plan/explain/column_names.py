"""Names for the columns of the steps and of the state tables of a program, as EXPLAIN shows them."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.task.expressions.texts import Names
from tidemill.task.program import Input, Program, StateTable, StoreKeyed


def step_columns(program: Program) -> list[Names]:
    """For each step the names of the columns that go out; of arranged rows in the order of the rows arranged.

    A computed column is named by its expression, shortened.
    """
    found: list[Names] = []
    stored = {s.operation.table.id: s.inputs[0].step for s in program.steps if isinstance(s.operation, StoreKeyed)}

    def arranged_in(table: StateTable) -> Names:
        return found[stored[table.id]] if stored.get(table.id, len(found)) < len(found) else ()

    for step in program.steps:
        inputs = [input_columns(program, found, i) for i in step.inputs]
        found.append(step.operation.column_names(inputs, arranged_in))
    return found


def input_columns(program: Program, columns: Sequence[Names], source: Input) -> Names:
    """The names of the columns that a step reads from another."""
    return program.steps[source.step].operation.port_names(source.port, columns[source.step])


def exchange_columns(program: Program, columns: Sequence[Names]) -> list[Names | None]:
    """For each step by which columns its rows are sent to other partitions; None where they stay in theirs."""
    found: list[Names | None] = []
    for step, names in zip(program.steps, columns, strict=True):
        first = found[step.inputs[0].step] if step.inputs else None
        found.append(step.operation.exchange_names(names, first))
    return found


def table_columns(program: Program) -> dict[str, Names]:
    """For each state table that a program writes, by id, the names of its key columns, as far as they are known."""
    columns = step_columns(program)
    found: dict[str, Names] = {}
    for step in program.steps:
        first = step.inputs[0].step if step.inputs else None
        for table in step.operation.written_tables:
            rows, keyed = ((), ()) if first is None else (columns[first], _keyed_names(program, columns, first, table))
            names = step.operation.table_names(table, rows, keyed)
            if len(names) == len(table.key):
                found[table.id] = names
    return found


def _keyed_names(program: Program, columns: Sequence[Names], number: int, table: StateTable) -> Names:
    """The key columns of the rows that a step gives for a table."""
    step = program.steps[number]
    rows = columns[step.inputs[0].step] if step.inputs else ()
    return step.operation.keyed_names(table, rows, columns[number])
