"""Processes of adaptors that wait for work, so that one serves many splits of this process."""

from __future__ import annotations

import atexit
import os
import threading

from tidemill.formats.adaptor.process import Process, Task

_MOST_IDLE = 4

_lock = threading.Lock()
_idle: list[tuple[int, Task, Process]] = []


def take(task: Task) -> Process:
    """A process that no other caller uses. Errors as :class:`Process`."""
    with _lock:
        for place, (owner, known, process) in enumerate(_idle):
            if owner == os.getpid() and known == task:
                del _idle[place]
                return process
    return Process(task)


def give_back(task: Task, process: Process) -> None:
    """Let others use it."""
    with _lock:
        _idle.append((os.getpid(), task, process))
        gone = [_idle.pop(0) for _ in range(len(_idle) - _MOST_IDLE)]
    for owner, _, old in gone:
        if owner == os.getpid():
            old.close()


def close_all() -> None:
    """End those that wait."""
    with _lock:
        found = list(_idle)
        _idle.clear()
    for owner, _, process in found:
        if owner == os.getpid():
            process.close()


atexit.register(close_all)
