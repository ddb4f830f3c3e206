"""The memory budget of a task's memtables."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

_SHARE = 4
_CGROUP = Path("/sys/fs/cgroup/memory.max")


class Holder(Protocol):
    """An owner of memory that can spill it to a file."""

    bytes: int

    def spill(self) -> int:
        """Write everything in memory to a file and report that to the budget; returns the bytes written."""


class MemoryBudget:
    """Limits the bytes of all memtables of a task; above the limit the largest one is spilled first.

    Parameters
    ----------
    limit : int
        Bytes; 0 for no limit.

    Attributes
    ----------
    used, peak : int
        Bytes in memory now, and the most so far; a batch is counted before anything is spilled for it.
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
        """Add a holder, before it has any memory."""
        self._holders.append(holder)

    def leave(self, holder: Holder) -> None:
        """Remove a holder and its bytes."""
        self.used -= holder.bytes
        self._holders.remove(holder)

    def resized(self, change: int) -> None:
        """Report that a holder has grown or shrunk by ``change`` bytes. It may be spilled before this returns."""
        self.used += change
        if change <= 0:
            return
        self.peak = max(self.peak, self.used)
        while self.limit and self.used > self.limit:
            largest = max(self._holders, key=lambda holder: holder.bytes)
            if not largest.bytes:
                return
            self.spilled += largest.spill()


def share_of_task(host: int, slots: int) -> int:
    """The memory budget of one task in bytes.

    Parameters
    ----------
    host : int
        The budget of all tasks of a host; 0 for a quarter of the machine's memory.
    slots : int
        Tasks that run at the same time.
    """
    if host:
        return max(1, host // max(1, slots))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # no limit, or none that can be seen
        memory = min(memory, int(_CGROUP.read_text()))
    return memory // _SHARE // max(1, slots)
