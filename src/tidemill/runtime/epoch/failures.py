"""What failing rows and errors of an epoch mean for its views, read off the reports of its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.runtime.catalog.catalog import View
from tidemill.runtime.job.epoch_work import failed_views
from tidemill.runtime.job.superstep import TaskReport
from tidemill.task.program import Program


@dataclass(frozen=True)
class Failures:
    """What rows did to the views in an epoch.

    ``ended`` are views that stop for good, with the error; ``failing`` has for others what was added to the weight of
    their failing rows, with the error of a new one.
    """

    ended: dict[str, str]
    failing: dict[str, tuple[int, str]]

    @staticmethod
    def of(program: Program, reports: Sequence[TaskReport], views: Mapping[str, View]) -> Failures:
        """Read off the reports of an epoch.

        A step belongs to the views that began with it. One that reads an older view began with the rows of that,
        whose failing rows are not its own.
        """
        failing: dict[str, tuple[int, str]] = {}
        for report in reports:
            for number, (weight, error) in report.failing.items():
                step = program.steps[number]
                for name in step.views:
                    if name in views and views[name].created_at_epoch == step.created_at_epoch:
                        before, first = failing.get(name, (0, ""))
                        failing[name] = (before + weight, first or (error.message() if error is not None else ""))
        return Failures(failed_views(program, reports), failing)
