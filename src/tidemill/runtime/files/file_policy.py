"""What becomes of files that change, and of those that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class FilePolicy:
    """What becomes of the files of one table that change, and of those that cannot be read.

    Parameters
    ----------
    overwrites : bool
        A file that was written anew is read anew, in the place of what it was.
    appends : bool
        A file that has grown is read on from where it ended; as long as it grows, only whole lines.
    attempts : int
        How often a file is tried before it is set aside.
    ordered : bool
        Rows have an order, that of files included: none is set aside, those behind it wait.
    must : bool
        A file that cannot be read fails the epoch.
    cleans : bool
        A file that was read to its end is to be cleaned.
    forgets : bool
        It is, as soon as that is durable, so that no view which is created later reads it again.
    """

    overwrites: bool = False
    appends: bool = False
    attempts: int = 5
    ordered: bool = False
    must: bool = False
    grows: Callable[[str], bool] = lambda _: True
    """Whether a file of this name can be read on behind its end; a compressed one cannot."""
    cleans: bool = False
    forgets: bool = False

    @property
    def by_name(self) -> bool:
        """Whether a name that was read need not be looked at again."""
        return not self.overwrites and not self.appends
