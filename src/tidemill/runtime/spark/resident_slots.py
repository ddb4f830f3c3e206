"""How many tasks may stay in a Spark context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyspark import SparkContext

from tidemill.config import AUTO, JOBS, RESIDENT, Settings
from tidemill.runtime.spark.session import RESIDENT_TASKS, TASK_CPUS, local_slots

Look = Callable[[], "ResidentSlots"]
"""Looks at what there is now."""


@dataclass(frozen=True)
class ResidentSlots:
    """Slots of Spark that tasks may keep.

    ``per_executor`` is how many of them may be in one executor of a cluster, 0 where that is no matter: a task that
    keeps the last slot of an executor would keep checkpoints from the buffer of its host.
    """

    tasks: int
    per_executor: int = 0


def resident_slots(context: SparkContext, settings: Settings) -> ResidentSlots:
    """The slots for tasks that stay, by the executors that Spark has now.

    On a local master they are those that :func:`~tidemill.runtime.spark.session.create_session` made for them. In a
    session that was made elsewhere it is one, if that is what ``mode`` says; at least one slot is left for other jobs.
    On a cluster, if that is what ``mode`` says, all slots but one of each executor, at most one for each partition.
    """
    local = local_slots(str(context.master)) is not None
    if settings.mode == JOBS or (settings.mode != RESIDENT and not local):
        return ResidentSlots(0)
    made, slots = _local_facts(context) if local else _facts(context)
    if settings.mode == AUTO and not made:
        return ResidentSlots(0)
    if local:
        return ResidentSlots(max(0, min(made or 1, sum(slots) - 1)))
    each = min((count for count in slots if count), default=1) - 1  # the driver has none
    most = each * sum(count > 0 for count in slots)
    return ResidentSlots(min(most, settings.partitions or most), each)


def _facts(context: SparkContext) -> tuple[int, list[int]]:
    """How many slots the session was made with for tasks that stay, and the slots of each executor that it has now."""
    conf = context._conf  # getConf() would copy it, entry by entry
    cpus = int(conf.get(TASK_CPUS) or 1)
    found = context._jsc.sc().statusStore().executorList(True)  # of a local master it is the driver
    slots = [int(found.apply(i).totalCores()) // cpus for i in range(found.size())]
    return int(conf.get(RESIDENT_TASKS) or 0), slots


_local: WeakKeyDictionary[SparkContext, tuple[int, list[int]]] = WeakKeyDictionary()


def _local_facts(context: SparkContext) -> tuple[int, list[int]]:
    """As :func:`_facts`; on a local master they stay the same."""
    found = _local.get(context)
    if found is None:
        found = _local[context] = _facts(context)
    return found
