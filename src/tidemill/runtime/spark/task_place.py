"""Where a task of Spark runs."""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = Path("/proc/self/ns/pid")


@dataclass(frozen=True, order=True)
class Place:
    """Attributes
    ----------
    host : str
        Processes of the same user that see one another in ``/proc`` have the same: containers are hosts of their own.
        ``TIDEMILL_HOST`` divides them further.
    executor : int
        The process that Spark's tasks of this executor are forked from.
    """

    host: str
    executor: int


def this_place() -> Place:
    """That of this process."""
    parts = (
        os.environ.get("TIDEMILL_HOST", ""),
        socket.gethostname(),
        _BOOT.read_text() if _BOOT.exists() else "",
        str(_PROCESSES.readlink()) if _PROCESSES.exists() else "",
        str(os.getuid()),
    )
    return Place(hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16], os.getppid())
