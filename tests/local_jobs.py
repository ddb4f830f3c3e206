"""Runs the supersteps of an epoch in this process, for tests of plans and operators that need no cluster."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tidemill.mill import Mill
from tidemill.runtime.job.epoch_job import EpochJobs
from tidemill.runtime.job.superstep import (
    EpochPlan,
    Record,
    TaskReport,
    Work,
    all_supersteps,
    first_superstep,
    later_superstep,
)


class LocalJobs(EpochJobs):
    """Has the interface of :class:`EpochJobs`; set it as the coordinator's ``_jobs``."""

    def __init__(self) -> None:
        """Needs no Spark context."""
        self._numbers = {}

    def run(self, plan: EpochPlan, supersteps: int, work: Sequence[Work]) -> list[TaskReport]:
        """All supersteps, partition by partition."""
        records: list[Record]
        if plan.partitions == 1:
            records, supersteps = list(all_supersteps(plan, supersteps, work[0])), 1
        else:
            records = [r for i, share in enumerate(work) for r in first_superstep(plan, i, share)]
        for depth in range(1, supersteps):
            shares: list[list[Record]] = [[] for _ in range(plan.partitions)]
            for target, data in records:
                shares[target % plan.partitions].append((target, data))
            records = [r for i, share in enumerate(shares) for r in later_superstep(plan, depth, i, share)]
        reports = [pickle.loads(data) for _, data in records]
        found = sorted((r for r in reports if isinstance(r, TaskReport)), key=lambda r: (r.depth, r.partition))
        for report in found:
            if report.error is not None:
                raise report.error
        return found


def local(mill: Mill) -> Mill:
    """The mill, with its epochs in this process from now on."""
    mill._coordinator._jobs = LocalJobs()
    return mill


class LocalRdd:
    """Numbers, one a partition, and what is done with each."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = list(numbers)

    def mapPartitionsWithIndex(self, function: Callable[[int, Iterator[int]], Iterator[Any]]) -> LocalRdd:  # noqa: N802
        """One function a job."""
        self._function = function
        return self

    def collect(self) -> list[Any]:
        """Run it."""
        return [found for i, number in enumerate(self._numbers) for found in self._function(i, iter([number]))]


class LocalContext:
    """What merges and checkpoints need of a Spark context: their jobs run on the thread that asks."""

    defaultParallelism = 1  # noqa: N815

    def setLocalProperty(self, key: str, value: str) -> None:  # noqa: N802, as in Spark
        """Nothing has priorities here."""

    def parallelize(self, numbers: Iterable[int], _: int) -> LocalRdd:
        """One number a partition."""
        return LocalRdd(numbers)


def all_local(mill: Mill) -> Mill:
    """The mill, with its epochs, merges and checkpoints in this process from now on."""
    coordinator, context = local(mill)._coordinator, LocalContext()
    compactor: Any = coordinator._compactor
    compactor._context = context
    upload: Any = coordinator._checkpoints._upload
    upload.args[0].__self__._context = context
    return mill
