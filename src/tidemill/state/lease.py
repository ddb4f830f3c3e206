"""Tells who deletes files of a root whether another process reads it."""

from __future__ import annotations

import contextlib
import fcntl
from pathlib import Path
from typing import IO

READERS = "READERS"
"""A file of a root in a directory: readers hold a shared lock of it, for as long as they may open files."""


class Lease:
    """A lock that is held until this object is gone.

    The kernel takes it back when the process dies. A reader that may not open the file has none: the grace period of
    garbage collection is what it has.

    Parameters
    ----------
    directory : Path or None
        The root, None where it is no directory: nothing is held then.
    """

    def __init__(self, directory: Path | None) -> None:
        self._file: IO[str] | None = None
        if directory is None:
            return
        for mode in ("a", "r"):  # one who only reads the root may not append
            with contextlib.suppress(OSError):
                self._file = (directory / READERS).open(mode)
                fcntl.flock(self._file, fcntl.LOCK_SH)
                return


def nobody_reads(directory: Path | None) -> bool:
    """Whether no :class:`Lease` of a root is held; False also where that cannot be told."""
    if directory is None:
        return False
    try:
        with (directory / READERS).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
