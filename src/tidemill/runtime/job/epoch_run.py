"""Runs the job of an epoch until its results are right.

A job may have to be run again although no task failed for good: splits begin in the middle of a file and guess whether
that is within quotes, and a program that takes small tables to be unchanged may meet one that changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tidemill.errors import TidemillError
from tidemill.runtime.job.epoch_programs import EpochPrograms, Prepared
from tidemill.runtime.job.epoch_work import without_guesses
from tidemill.runtime.job.superstep import TaskReport
from tidemill.sources.split import Split, SplitResult

_MAY_BE_GUESSED = ("TM4020", "TM4074")
"""Numbers of errors that a wrong guess about quotes can lead to: rows that are too long, and unknown columns."""


@dataclass(frozen=True)
class EpochRun:
    """A job with right results. ``redone`` is how often it was run again."""

    prepared: Prepared
    reports: Sequence[TaskReport]
    redone: int

    @property
    def results(self) -> list[SplitResult]:
        """What was read of each split."""
        return [result for report in self.reports for result in report.splits]


def run_until_right(
    run: Callable[[Prepared, Sequence[Split]], Sequence[TaskReport]],
    prepared: Prepared,
    splits: Sequence[Split],
    programs: EpochPrograms,
    wrong_guesses: Callable[[Iterable[SplitResult]], dict[Split, bool] | None],
) -> EpochRun:
    """Run the job of an epoch, again while guesses turn out wrong.

    Parameters
    ----------
    run : callable
        Runs a program over splits.
    prepared : Prepared
        The program to begin with.
    programs : EpochPrograms
        With the one that serves every epoch.
    wrong_guesses : callable
        The truth about quotes at the beginning of splits, None when it was guessed right.

    Raises
    ------
    TidemillError
        As ``run``.
    """
    redone = 0
    while True:
        try:
            found = EpochRun(prepared, run(prepared, splits), redone)
        except TidemillError as error:
            certain = without_guesses(splits)
            if error.number not in _MAY_BE_GUESSED or len(certain) == len(splits):
                raise
            splits = certain  # fewer bytes, without guesses
        else:
            truth = wrong_guesses(found.results)
            if truth is not None:
                splits = [replace(s, in_quotes=truth[s]) for s in splits]
            elif prepared.fits(r for report in found.reports for r in report.runs):
                return found
            else:
                prepared = programs.usual
        redone += 1
