"""What views may take in a task: ``maxTaskTime`` and ``maxTaskMemory``.

A step that several views share counts for each of them in equal parts. A step is stopped when that stops no views but
those that have reached a limit and the views that read these. The memory of a step is that of its memtables, or of the
largest batch that it has given, whichever is more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tidemill.errors import EvaluationError
from tidemill.state.memory import MemoryBudget
from tidemill.task.dataflow.deltas import Delta
from tidemill.task.dataflow.operator import Output
from tidemill.task.functions.interruption import InterruptedCallError, within
from tidemill.task.program import TABLE_STEPS, Program, Step, ViewLimit

TIME, MEMORY = "TM3910", "TM3911"
LIMITS = (TIME, MEMORY)
"""Errors of views that exceeded a limit."""

_T = TypeVar("_T")


class ViewLimits:
    """Watches the steps of a program, in one task and epoch.

    Parameters
    ----------
    program : Program
        Its ``limits`` are not empty.
    """

    def __init__(self, program: Program) -> None:
        self._limits = {limit.view: limit for limit in program.limits}
        self._limited = [self._limited_views(step) for step in program.steps]
        self._sharers = [self._sharing(step) for step in program.steps]
        self._stoppers = [self._stopping(step) for step in program.steps]
        self.begin()

    def _limited_views(self, step: Step) -> tuple[str, ...]:
        """Views with limits that depend on a step; none for those of tables, which go on whatever happens to views."""
        if isinstance(step.operation, TABLE_STEPS):
            return ()
        return tuple(sorted(step.views & self._limits.keys()))

    def _sharing(self, step: Step) -> int:
        """How many views a step is for, without those that read others of them."""
        readers = {r for v in step.views & self._limits.keys() for r in self._limits[v].readers}
        return max(1, len(step.views - readers))

    def _stopping(self, step: Step) -> list[list[ViewLimit]]:
        """For each view of a step, the limits that stop it; none where a view cannot be stopped."""
        limits = [self._limits[v] for v in step.views & self._limits.keys()]
        found = [[n for n in limits if v == n.view or v in n.readers] for v in sorted(step.views)]
        return found if all(found) else []

    def begin(self) -> None:
        """Start an epoch."""
        self._seconds = dict.fromkeys(self._limits, 0.0)
        self._held = [0] * len(self._limited)
        self._most = [0] * len(self._limited)

    def watches(self, step: int) -> bool:
        """Whether a limited view depends on a step; operators without a step are numbered -1."""
        return step >= 0 and bool(self._limited[step])

    def call(self, step: int, budget: MemoryBudget, function: Callable[[], _T]) -> _T:
        """Call an operator of a step.

        Raises
        ------
        EvaluationError
            TM3910 or TM3911 when a limit is exceeded.
        """
        started, used = time.perf_counter(), budget.used
        left = self._left(step)
        try:
            if left is None:
                result = function()
            else:
                with within(left):
                    result = function()
        except InterruptedCallError:
            raise self._exceeded_time(step) from None
        finally:
            share = (time.perf_counter() - started) / self._sharers[step]
            for view in self._limited[step]:
                self._seconds[view] += share
            self._held[step] = max(0, self._held[step] + budget.used - used)
            self._most[step] = max(self._most[step], self._held[step])
        left = self._left(step)
        if left is not None and left < 0:
            raise self._exceeded_time(step)
        if isinstance(result, Output) and isinstance(result.item, Delta):
            self._most[step] = max(self._most[step], result.item.batch.nbytes)
        stoppers = self._stoppers[step]
        if stoppers and all(any(n.bytes is not None and self._most[step] > n.bytes for n in own) for own in stoppers):
            raise self._exceeded_memory(step)
        return result

    def _left(self, step: int) -> float | None:
        """The seconds until a step is stopped; None when it is not."""
        most: float | None = None
        for own in self._stoppers[step]:
            left = [n.seconds - self._seconds[n.view] for n in own if n.seconds is not None]
            if not left:
                return None
            most = min(left) if most is None else max(most, min(left))
        return most

    def _exceeded_time(self, step: int) -> EvaluationError:
        limits = (self._limits[v] for v in self._limited[step])
        shown = ", ".join(f"{n.view} may take {n.seconds:g} s" for n in limits if n.seconds is not None)
        return EvaluationError(
            TIME,
            "a view took more time in a task than it may",
            got=shown,
            hint="the view is paused and tried again later; raise maxTaskTime, make the view cheaper, or lower "
            "maxBytesPerTrigger of its tables",
        )

    def _exceeded_memory(self, step: int) -> EvaluationError:
        limits = (self._limits[v] for v in self._limited[step])
        shown = ", ".join(f"{n.view} may hold {n.bytes:,} bytes" for n in limits if n.bytes is not None)
        return EvaluationError(
            MEMORY,
            "a view held more memory in a task than it may",
            got=f"{self._most[step]:,} bytes in one operator; {shown}",
            hint="the view is paused and tried again later; raise maxTaskMemory, make groups and joins smaller, or "
            "lower maxBytesPerTrigger of its tables",
        )
