"""Gives memory that was freed back to the system.

A server answers a large request now and then, on many threads. What that took stays with the allocators of Arrow
(mimalloc) and of C, each of which keeps it for its next request: over 100 MB were seen after ten minutes.
"""

from __future__ import annotations

import ctypes
import os
import threading

import pyarrow as pa

_SECONDS = 30.0
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Parameters of ``mallopt``, from glibc's ``malloc.h``."""
_MAPPED_BYTES = 128 << 10


def use_one_allocator() -> None:
    """Have all memory of this process come from the allocator of C, and what is large go back to the system at once.

    For a process that serves for weeks, before it has many threads. Arrow's allocator keeps for each thread what the
    thread freed: 88 MB were seen for 4 MB in use, and growing. glibc has up to eight arenas for each core, and raises
    the size from which blocks are mapped, up to 32 MB, with each such block that is freed, so that results of requests
    leave holes between what stays.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    change = getattr(ctypes.CDLL(None), "mallopt", None)  # of glibc
    if change is not None:
        change(_M_ARENA_MAX, len(os.sched_getaffinity(0)))
        change(_M_MMAP_THRESHOLD, _MAPPED_BYTES)


class FreedMemory:
    """A thread that gives freed memory back every half minute, until it is closed."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None)
        self._trim = getattr(libc, "malloc_trim", None)  # of glibc
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="serve-memory", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closed.wait(_SECONDS):
            self.give_back()

    def give_back(self) -> None:
        """Give it back now."""
        pa.default_memory_pool().release_unused()
        if self._trim is not None:
            self._trim(0)

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._thread.join()
