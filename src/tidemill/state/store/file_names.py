"""What the names of run files say: the epoch or checkpoint, and the host."""

from __future__ import annotations

import hashlib
import os
import re
import socket

NAME = re.compile(r"e(\d{10,})-([0-9a-f]{8})-.+\.run")
_CHECKPOINT = re.compile(r"c(\d{10,})-")


def epoch_of(file: str) -> int:
    """The epoch in the name of a run file: no version before it names the file."""
    match = NAME.fullmatch(file)
    assert match is not None, file
    return int(match[1])


def checkpoint_of(file: str) -> int:
    """The number of the checkpoint, and so of its manifest, in the name of a durable file; 0 for that of a merge."""
    match = _CHECKPOINT.match(file)
    return int(match[1]) if match else 0


def host_of(file: str) -> str:
    """The host in the name of a run file."""
    match = NAME.fullmatch(file)
    assert match is not None, file
    return match[2]


def this_host() -> str:
    """Eight hex digits for the machine this process runs on; ``TIDEMILL_HOST`` names it otherwise."""
    name = os.environ.get("TIDEMILL_HOST") or socket.gethostname()
    return hashlib.sha256(name.encode()).hexdigest()[:8]
