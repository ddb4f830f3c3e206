"""Views that are in error for as long as a row makes an expression of theirs fail.

Such a row is left out where it fails, and counted by its weight (``task/failing_row.py``). What lies behind is kept
up to date without it, so that the view is right again as soon as the count is back at 0. A view that reads one that is
in error is so too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.runtime.epoch.epoch_work import failed_views
from tidemill.runtime.epoch.superstep import TaskReport
from tidemill.task.program import Program

if TYPE_CHECKING:
    from tidemill.runtime.catalog.catalog import View


@dataclass(frozen=True)
class FailingRows:
    """How many rows of a view fail, from which epoch on, and an error; ``past`` has (since, until, error)."""

    weight: int = 0
    since: int | None = None
    error: str = ""
    past: tuple[tuple[int, int, str], ...] = ()

    def after(self, weight: int, error: str, epoch: int, horizon: int) -> FailingRows:
        """After an epoch that added ``weight``; what ended by ``horizon`` is forgotten."""
        total = self.weight + weight
        past = tuple(p for p in self.past if p[1] > horizon)
        if total <= 0:
            if self.since is not None:
                past = (*past, (self.since, epoch, self.error))
            return FailingRows(total, None, "", past)
        return FailingRows(total, epoch if self.since is None else self.since, error or self.error, past)

    def at(self, epoch: int | None) -> tuple[int, str] | None:
        """Since when the view is in error at an epoch (None: now), and why; None when it is not."""
        if self.since is not None and (epoch is None or epoch >= self.since):
            return self.since, self.error
        if epoch is None:
            return None
        return next(((since, error) for since, until, error in self.past if since <= epoch < until), None)


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
                    if name in views and views[name].born == step.born:
                        before, first = failing.get(name, (0, ""))
                        failing[name] = (before + weight, first or (error.message() if error is not None else ""))
        return Failures(failed_views(program, reports), failing)
