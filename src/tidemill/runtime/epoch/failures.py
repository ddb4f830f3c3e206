"""Which views failing rows and errors of an epoch concern, by the reports of its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.runtime.catalog.catalog import View
from tidemill.runtime.job.superstep import TaskReport
from tidemill.task.program import Program
from tidemill.task.view_limits import LIMITS


@dataclass(frozen=True)
class Failures:
    """Views that failed in an epoch.

    ``ended`` has views that failed for good, with the error, and ``exceeded`` those that exceeded a limit of theirs;
    ``failing`` has for other views the change of the weight of their failing rows, and the error of a new one.
    """

    ended: dict[str, str]
    exceeded: dict[str, str]
    failing: dict[str, tuple[int, str]]

    @property
    def stopped(self) -> dict[str, str]:
        """Views of which the epoch seals nothing."""
        return {**self.exceeded, **self.ended}

    @staticmethod
    def of(program: Program, reports: Sequence[TaskReport], views: Mapping[str, View]) -> Failures:
        """Collect them from the reports of an epoch.

        A step counts for the views that were created with it. A view over an older view begins with the rows of that
        one, whose failing rows are not its own.
        """
        ended: dict[str, str] = {}
        exceeded: dict[str, str] = {}
        failing: dict[str, tuple[int, str]] = {}
        for report in reports:
            for number, failure in report.failures.items():
                found = exceeded if failure.number in LIMITS else ended
                for name in program.steps[number].views:
                    found.setdefault(name, failure.message())
            for number, (weight, error) in report.failing.items():
                step = program.steps[number]
                for name in step.views:
                    if name in views and views[name].group == step.created_at_epoch:
                        before, first = failing.get(name, (0, ""))
                        failing[name] = (before + weight, first or (error.message() if error is not None else ""))
        return Failures(ended, {n: e for n, e in exceeded.items() if n not in ended}, failing)
