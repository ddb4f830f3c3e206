"""Tells who deletes files of a root whether another process reads it."""

from __future__ import annotations

import contextlib
import fcntl
from pathlib import Path
from typing import IO

READERS = "READERS"
"""A file of a root in a directory: readers hold a shared lock of it, for as long as they may open files."""


def make_readers_file(directory: Path | None) -> None:
    """Where readers find what to lock; made by who writes the root, since readers change nothing."""
    if directory is not None:
        with contextlib.suppress(OSError):
            (directory / READERS).touch()


class Lease:
    """A lock that is held until this object is gone.

    The kernel takes it back when the process dies. Where the file is not there, or may not be opened, nothing is held:
    the grace period of garbage collection is what such a reader has.

    Parameters
    ----------
    directory : Path or None
        The root, None where it is no directory: nothing is held then.
    """

    def __init__(self, directory: Path | None) -> None:
        self._file: IO[str] | None = None
        if directory is not None:
            with contextlib.suppress(OSError):
                self._file = (directory / READERS).open()
                fcntl.flock(self._file, fcntl.LOCK_SH)


def nobody_reads(directory: Path | None) -> bool:
    """Whether no :class:`Lease` of a root is held; False also where that cannot be told."""
    if directory is None:
        return False
    try:
        with (directory / READERS).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
