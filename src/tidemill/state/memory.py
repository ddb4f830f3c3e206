"""One budget of memory for everything that a task holds of an epoch."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

_SHARE = 4
_CGROUP = Path("/sys/fs/cgroup/memory.max")


class Holder(Protocol):
    """What holds memory and can put it into a file."""

    bytes: int

    def spill(self) -> int:
        """Put all that is in memory into a file and tell the budget; returns the bytes written."""


class MemoryBudget:
    """Bytes that the memtables of a task may hold together; above it the largest goes into a file first.

    Parameters
    ----------
    limit : int
        Bytes; 0 for as many as it takes.

    Attributes
    ----------
    used, peak : int
        Bytes held now, and most at any time; a batch is counted before anything is spilled for it.
    spilled : int
        Bytes written to files.
    """

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.used = 0
        self.peak = 0
        self.spilled = 0
        self._holders: list[Holder] = []

    def join(self, holder: Holder) -> None:
        """Note who can be asked to spill; before it holds anything."""
        self._holders.append(holder)

    def leave(self, holder: Holder) -> None:
        """It holds nothing any more."""
        self.used -= holder.bytes
        self._holders.remove(holder)

    def resized(self, change: int) -> None:
        """A holder has so many bytes more, or less. It may be asked to spill before this returns."""
        self.used += change
        if change <= 0:
            return
        self.peak = max(self.peak, self.used)
        while self.limit and self.used > self.limit:
            largest = max(self._holders, key=lambda holder: holder.bytes)
            if not largest.bytes:
                return
            self.spilled += largest.spill()


def default_limit(slots: int) -> int:
    """A quarter of the machine's memory, shared by the tasks that run at the same time; bytes."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # no limit, or none that can be seen
        memory = min(memory, int(_CGROUP.read_text()))
    return memory // _SHARE // max(1, slots)
