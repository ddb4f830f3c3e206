"""What an epoch has to do and what became of it, read off the program: no state, no Spark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tidemill.runtime.job.superstep import TaskReport, Work
from tidemill.sources.split import Split
from tidemill.task.program import (
    TABLE_STEPS,
    GroupChanges,
    Program,
    ScanStep,
    Step,
    ViewSnapshot,
)


def snapshot_steps(program: Program, epochs: Collection[int]) -> list[int]:
    """Source steps that give a new reader, created at one of the epochs, the contents of an older view."""
    return [
        i for i, s in enumerate(program.steps) if isinstance(s.operation, ViewSnapshot) and s.created_at_epoch in epochs
    ]


def must_begin(program: Program, not_begun: Collection[str]) -> bool:
    """Whether a new view has a row to give before any input came: an aggregate without GROUP BY."""
    return any(
        isinstance(s.operation, GroupChanges)
        and s.operation.emit
        and not s.operation.partial.groups.key
        and not s.views.isdisjoint(not_begun)
        for s in program.steps
    )


def share_out(program: Program, splits: Sequence[Split], snapshots: Sequence[int], partitions: int) -> list[Work]:
    """Give splits to partitions, the largest first to the one with least."""
    scans = {s.operation.source.name: i for i, s in enumerate(program.steps) if isinstance(s.operation, ScanStep)}
    count = partitions if snapshots else max(1, min(partitions, len(splits)))
    shares: list[list[tuple[int, Split]]] = [[] for _ in range(count)]
    loads = [0] * count
    for split in sorted(splits, key=lambda s: -s.length):
        target = loads.index(min(loads))
        loads[target] += split.length
        shares[target].append((scans[split.table], split))
    return [Work(tuple(share), tuple(snapshots)) for share in shares]


def without_guesses(splits: Sequence[Split]) -> list[Split]:
    """Those that know whether they begin in quotes; the others wait. A new version of a file becomes one split."""
    ends: dict[tuple[str, str], int] = {}
    for split in splits:
        ends[split.table, split.path] = max(split.end, ends.get((split.table, split.path), 0))
    anew = {(s.table, s.path) for s in splits if s.replaces}
    found = []
    for split in splits:
        if split.replaces:
            found.append(replace(split, end=ends[split.table, split.path]))
        elif split.in_quotes is not None and split.base == 0 and (split.table, split.path) not in anew:
            found.append(split)
    return found


def failed_views(program: Program, reports: Sequence[TaskReport]) -> dict[str, str]:
    """Views that a row made fail, with the error."""
    failed: dict[str, str] = {}
    for report in reports:
        for step, error in report.failures.items():
            for view in program.steps[step].views:
                failed.setdefault(view, error.message())
    return failed


def tables_of(step: Step, failed: dict[str, str]) -> list[str]:
    """State tables of a step that has a view which goes on; errors of a table belong to no view."""
    if isinstance(step.operation, TABLE_STEPS) or step.views - failed.keys():
        return [t.id for t in step.operation.written_tables]
    return []
