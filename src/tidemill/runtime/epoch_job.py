"""One Spark job for one epoch of all views."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from py4j.protocol import Py4JError
from pyspark import Broadcast, SparkContext
from pyspark.errors import PySparkException

from tidemill.errors import TidemillError
from tidemill.runtime.superstep import EpochPlan, Record, TaskReport, Work, first_superstep, later_superstep
from tidemill.task.program import Program


def run_epoch(context: SparkContext, plan: EpochPlan, supersteps: int, work: Sequence[Work]) -> list[TaskReport]:
    """Run all supersteps and return the reports of the attempts that counted.

    A new chain of RDDs is made for every call: collecting the same RDD twice would give the shuffle
    files of the first time.

    Raises
    ------
    TidemillError
        The first numbered error of any task, by superstep and partition; TM1020 when Spark gave up.
    """
    try:
        rdd = context.parallelize(work, len(work)).mapPartitionsWithIndex(partial(_first, plan))
        for depth in range(1, supersteps):
            rdd = rdd.partitionBy(plan.partitions, _itself).mapPartitionsWithIndex(partial(_later, plan, depth))
        records = rdd.collect()
    except (Py4JError, PySparkException) as error:
        text = str(error)
        cause = next((line for line in text.splitlines() if "Error" in line or "Exception" in line), text[:200])
        raise TidemillError(
            "TM1020",
            "the Spark job of an epoch failed",
            got=cause.strip(),
            hint="nothing was sealed: the previous epoch is intact, and the same input is read again next time",
        ) from error
    reports = [pickle.loads(data) for _, data in records]
    found = sorted((r for r in reports if isinstance(r, TaskReport)), key=lambda r: (r.depth, r.partition))
    for report in found:
        if report.error is not None:
            raise report.error
    return found


def broadcast_program(context: SparkContext, program: Program) -> Broadcast[Program]:
    """Send a program to the workers once, for as many epochs as it lasts."""
    return context.broadcast(program)


def _first(plan: EpochPlan, index: int, work: Iterable[Work]) -> Iterator[Record]:
    return first_superstep(plan, index, work)


def _later(plan: EpochPlan, depth: int, index: int, records: Iterable[Record]) -> Iterator[Record]:
    return later_superstep(plan, depth, index, records)


def _itself(partition: int) -> int:
    return partition
