"""How a table treats files that change, and files that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class FilePolicy:
    """How one table treats files that change, and files that cannot be read.

    Parameters
    ----------
    overwrites : bool
        A file that was rewritten is read again, and its new rows replace the old ones.
    appends : bool
        A file that has grown is read from its previous end; only complete lines are read.
    attempts : int
        How often a file is tried before it is set aside.
    ordered : bool
        Rows and files have an order: no file is set aside, and the files after it wait.
    must : bool
        A file that cannot be read fails the epoch.
    cleans : bool
        A file that was read to its end is to be cleaned.
    forgets : bool
        It is cleaned as soon as its rows are durable, so that views created later do not read it.
    versioned : bool
        The listed files are those of the newest version of a table. The rows of a file that is not among them any more
        are taken back, and changes from one version to the next are not divided.
    """

    overwrites: bool = False
    appends: bool = False
    attempts: int = 5
    ordered: bool = False
    must: bool = False
    grows: Callable[[str], bool] = lambda _: True
    """Whether a file of this name can be read beyond its previous end; a compressed one cannot."""
    cleans: bool = False
    forgets: bool = False
    versioned: bool = False

    @property
    def by_name(self) -> bool:
        """Whether a name that was read need not be looked at again."""
        return not self.overwrites and not self.appends
