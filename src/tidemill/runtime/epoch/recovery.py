"""Remedies for errors of an epoch, applied before it is run again.

The policy is a list of remedies, in one place (:meth:`Coordinator._remedies`); this is the loop that applies them.
A job whose results are wrong although nothing failed is run again by :mod:`~tidemill.runtime.job.epoch_run`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tidemill.errors import TidemillError

_T = TypeVar("_T")


@dataclass(frozen=True)
class Remedy:
    """What to do about some errors.

    Parameters
    ----------
    errors : type or collection of str
        A class of errors, or their numbers.
    apply : callable
        Removes the cause of the error. An error that it raises replaces the first one.
    most : int, optional
        How often it may be applied in one attempt; any number of times by default.
    """

    errors: type[TidemillError] | Collection[str]
    apply: Callable[[Any], None]
    most: int | None = None

    def helps(self, error: TidemillError) -> bool:
        """Whether this is the remedy for an error."""
        if isinstance(self.errors, type):
            return isinstance(error, self.errors)
        return error.number in self.errors


def recovering(attempt: Callable[[], _T], remedies: Sequence[Remedy]) -> _T:
    """The result of an attempt, which is repeated after each error that has a remedy.

    Raises
    ------
    TidemillError
        One without a remedy, or whose remedy has been applied as often as it may be, or raised it again.
    """
    applied = Counter[int]()
    error: TidemillError | None = None
    while True:
        try:
            if error is not None:
                remedies[_which(error, remedies)].apply(error)
            return attempt()
        except TidemillError as raised:
            found = _which(raised, remedies)
            if raised is error or found < 0 or applied[found] == remedies[found].most:
                raise
            applied[found] += 1
            error = raised


def _which(error: TidemillError, remedies: Sequence[Remedy]) -> int:
    return next((n for n, remedy in enumerate(remedies) if remedy.helps(error)), -1)
