"""Locks by which readers of a root tell garbage collection that they read it."""

from __future__ import annotations

import contextlib
import fcntl
from pathlib import Path
from typing import IO

READERS = "READERS"
"""A file of a root in a directory: readers hold a shared lock on it while they may open files."""


def make_readers_file(directory: Path | None) -> None:
    """Create the file that readers lock; the writer of the root does, since readers change nothing."""
    if directory is not None:
        with contextlib.suppress(OSError):
            (directory / READERS).touch()


class Lease:
    """A lock that is held until this object is deleted.

    The kernel releases it when the process dies. If the file is missing or cannot be opened, nothing is locked: such a
    reader relies on the grace period of garbage collection.

    Parameters
    ----------
    directory : Path or None
        The root; None for a root in an object store, where nothing is locked.
    """

    def __init__(self, directory: Path | None) -> None:
        self._file: IO[str] | None = None
        if directory is not None:
            with contextlib.suppress(OSError):
                self._file = (directory / READERS).open()
                fcntl.flock(self._file, fcntl.LOCK_SH)


def is_unread(directory: Path | None) -> bool:
    """Whether no process holds a :class:`Lease` of a root; False if that is not known."""
    if directory is None:
        return False
    try:
        with (directory / READERS).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
