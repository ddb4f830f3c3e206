"""Names for the key columns of the state tables of a program, for people."""

from __future__ import annotations

from tidemill.plan.explain.step_columns import FILE, Names, step_columns
from tidemill.task.program import (
    ApplyChangelog,
    ApplyFileVersions,
    Arrange,
    GroupChanges,
    GroupPartial,
    Program,
    StateTable,
    Step,
    StoreKeyed,
    StoreRows,
    WindowChanges,
)


def table_columns(program: Program) -> dict[str, Names]:
    """For each state table that a program writes, by id, the names of its key columns, as far as they are known."""
    columns = step_columns(program)
    found: dict[str, Names] = {}
    for step in program.steps:
        for table in step.operation.written_tables:
            names = _key_columns(program, columns, step, table)
            if len(names) == len(table.key):
                found[table.id] = names
    return found


def _key_columns(program: Program, columns: list[Names], step: Step, table: StateTable) -> Names:
    match step.operation:
        case StoreRows():
            return columns[step.inputs[0].step]
        case ApplyChangelog(changelog=changelog):
            return tuple(changelog.rows.names[i] for i in changelog.key)
        case ApplyFileVersions(versions=versions):
            return (FILE, *versions.rows.names)
        case StoreKeyed() | GroupChanges():
            return _written(program, columns, step.inputs[0].step, table)
        case WindowChanges():
            return _written(program, columns, step.inputs[0].step, table)[: len(table.key)]
    return ()


def _written(program: Program, columns: list[Names], step: int, table: StateTable) -> Names:
    """The key columns of what a step gives for a table."""
    operation = program.steps[step].operation
    if isinstance(operation, Arrange):
        return tuple(columns[step][c] for c in operation.columns if c < len(columns[step]))
    if isinstance(operation, GroupPartial) and table in operation.multisets:
        multiset = operation.layout.multisets[operation.multisets.index(table)]
        rows = columns[program.steps[step].inputs[0].step]
        return tuple(rows[c] for c in (*operation.keys, *multiset.columns) if c < len(rows))
    return columns[step][: len(table.key)]
