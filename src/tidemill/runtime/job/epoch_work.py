"""The work and the results of an epoch in terms of its program: no state, no Spark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tidemill.runtime.job.superstep import Work
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
    """Source steps that give a view created at one of the epochs the rows of an older view."""
    return [
        i for i, s in enumerate(program.steps) if isinstance(s.operation, ViewSnapshot) and s.created_at_epoch in epochs
    ]


def must_begin(program: Program, not_begun: Collection[str]) -> bool:
    """Whether a new view has a row before any input: an aggregate without GROUP BY."""
    return any(
        isinstance(s.operation, GroupChanges)
        and s.operation.emit
        and not s.operation.partial.groups.key
        and not s.views.isdisjoint(not_begun)
        for s in program.steps
    )


def share_out(program: Program, splits: Sequence[Split], snapshots: Sequence[int], partitions: int) -> list[Work]:
    """Assign splits to partitions: the largest first, each to the partition with the fewest bytes."""
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
    """The splits that are known to begin inside or outside quotes. A new version of a file becomes one split."""
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


def tables_of(step: Step, failed: dict[str, str]) -> list[str]:
    """State tables of a step unless all its views have failed; errors of a table belong to no view."""
    if isinstance(step.operation, TABLE_STEPS) or step.views - failed.keys():
        return [t.id for t in step.operation.written_tables]
    return []
