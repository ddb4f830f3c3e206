"""Which state tables a step of a program writes and reads."""

from __future__ import annotations

from tidemill.task.program import (
    ApplyBook,
    ApplyChangelog,
    ApplyFileVersions,
    GroupChanges,
    JoinChanges,
    LookupJoin,
    Operation,
    PairSums,
    RecursiveChanges,
    ScanStep,
    SemiChanges,
    StateTable,
    StoreKeyed,
    StoreRows,
    TopChanges,
    ViewSnapshot,
    WindowChanges,
)


def written_tables(operation: Operation) -> tuple[StateTable, ...]:
    """State tables that a step appends to."""
    if isinstance(operation, ScanStep):
        return (operation.source.errors,)
    if isinstance(operation, StoreKeyed | StoreRows):
        return (operation.table,)
    if isinstance(operation, GroupChanges):
        return (operation.partial.groups, *operation.partial.multisets)
    if isinstance(operation, ApplyChangelog):
        return (operation.table,)
    if isinstance(operation, ApplyBook):
        return (operation.orders, operation.contents)
    if isinstance(operation, ApplyFileVersions):
        return (operation.rows.table,)
    if isinstance(operation, WindowChanges):
        return (operation.failing,)
    if isinstance(operation, RecursiveChanges):
        return (operation.counted, *(join.rows.table for join in operation.joins))
    return ()


def read_tables(operation: Operation) -> tuple[StateTable, ...]:
    """State tables that a step looks up while it runs."""
    if isinstance(operation, ScanStep):
        return (operation.source.errors,) if operation.by_file else ()
    if isinstance(operation, GroupChanges):
        groups = (operation.partial.groups,) if operation.compares else ()
        return (*groups, *operation.partial.multisets)
    if isinstance(operation, JoinChanges | SemiChanges):
        return (operation.left.table, operation.right.table)
    if isinstance(operation, LookupJoin):
        return (operation.other.table,)
    if isinstance(operation, PairSums) and operation.complete is not None:
        return ((operation.left, operation.right)[operation.complete].groups,)
    if isinstance(operation, PairSums):
        return (operation.left.groups, operation.right.groups)
    if isinstance(operation, WindowChanges):
        return (operation.rows.table, operation.failing)
    if isinstance(operation, TopChanges):
        return (operation.rows.table,)
    if isinstance(operation, RecursiveChanges):
        kept = (join.rows.table for join in operation.joins)
        return (operation.counted, *kept, *(relation.table for relation in operation.relations))
    if isinstance(operation, ViewSnapshot):
        return (operation.plan.table,)
    if isinstance(operation, ApplyChangelog):
        return (operation.table,)
    if isinstance(operation, ApplyBook):
        return (operation.orders,)
    if isinstance(operation, ApplyFileVersions):
        return (operation.rows.table,)
    return ()
