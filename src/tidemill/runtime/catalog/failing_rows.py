"""Views that are failing for as long as a row makes an expression of theirs fail.

Such a row is left out where it fails, and counted by its weight (``task/dataflow/failing_row.py``). Later steps go on
without it, so that the view is right again as soon as the count is back at 0. Views over a failing view are failing,
too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FailingRows:
    """How many rows of a view fail, from which epoch on, and an error; ``past`` has (since, until, error)."""

    weight: int = 0
    since: int | None = None
    error: str = ""
    past: tuple[tuple[int, int, str], ...] = ()

    def after(self, weight: int, error: str, epoch: int, horizon: int) -> FailingRows:
        """After an epoch that added ``weight``; what ended by ``horizon`` is dropped."""
        total = self.weight + weight
        past = tuple(p for p in self.past if p[1] > horizon)
        if total <= 0:
            if self.since is not None:
                past = (*past, (self.since, epoch, self.error))
            return FailingRows(total, None, "", past)
        return FailingRows(total, epoch if self.since is None else self.since, error or self.error, past)

    def at(self, epoch: int | None) -> tuple[int, str] | None:
        """Since when the view is failing at an epoch (None: now), and why; None when it is not."""
        if self.since is not None and (epoch is None or epoch >= self.since):
            return self.since, self.error
        if epoch is None:
            return None
        return next(((since, error) for since, until, error in self.past if since <= epoch < until), None)
