"""Which views failing rows and errors of an epoch concern, by the reports of its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.runtime.catalog.catalog import View
from tidemill.runtime.job.superstep import TaskReport
from tidemill.task.program import Program


@dataclass(frozen=True)
class Failures:
    """Views that rows made fail in an epoch.

    ``ended`` has views that failed for good, with the error; ``failing`` has for other views the change of the weight
    of their failing rows, and the error of a new one.
    """

    ended: dict[str, str]
    failing: dict[str, tuple[int, str]]

    @staticmethod
    def of(program: Program, reports: Sequence[TaskReport], views: Mapping[str, View]) -> Failures:
        """Collect them from the reports of an epoch.

        A step counts for the views that were created with it. A view over an older view begins with the rows of that
        one, whose failing rows are not its own.
        """
        ended: dict[str, str] = {}
        failing: dict[str, tuple[int, str]] = {}
        for report in reports:
            for number, failure in report.failures.items():
                for name in program.steps[number].views:
                    ended.setdefault(name, failure.message())
            for number, (weight, error) in report.failing.items():
                step = program.steps[number]
                for name in step.views:
                    if name in views and views[name].created_at_epoch == step.created_at_epoch:
                        before, first = failing.get(name, (0, ""))
                        failing[name] = (before + weight, first or (error.message() if error is not None else ""))
        return Failures(ended, failing)
