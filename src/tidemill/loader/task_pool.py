"""Tasks of one plan, each used for one set of splits after the other."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pyarrow as pa

from tidemill.loader.split_sets import SplitSet
from tidemill.plan.loading.plan import Plan
from tidemill.task.task import Task


class TaskPool:
    """Reads sets of splits, in as many threads as call it; a thread takes a task that is free, or makes one.

    It can be pickled and used behind a fork: tasks stay where they are.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._start()

    def _start(self) -> None:
        self._free: list[Task] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def read(self, splits: SplitSet, stopping: threading.Event | None = None) -> Iterator[pa.RecordBatch]:
        """The rows that the plan gives for a set of splits; nothing is waited for. Errors as :meth:`Task.next`."""
        task = self._take()
        reached = False
        try:
            yield from task.run(splits)
            reached = True
        finally:
            if reached:
                with self._lock:
                    self._free.append(task)
            else:
                task.close()  # it holds rows that nobody takes

    def _take(self) -> Task:
        if self._process != os.getpid():
            self._start()
        with self._lock:
            if self._free:
                return self._free.pop()
        return Task(self._plan)

    def close(self) -> None:
        """Close the tasks that are free."""
        with self._lock:
            free, self._free = self._free, []
        for task in free:
            task.close()

    def __getstate__(self) -> Plan:
        return self._plan

    def __setstate__(self, plan: Plan) -> None:
        self.__init__(plan)  # type: ignore[misc]
