"""Gives memory that was freed back to the system.

A server answers a large request now and then, on many threads. What that took stays with the allocators of Arrow
(mimalloc) and of C, each of which keeps it for its next request: over 100 MB were seen after ten minutes.
"""

from __future__ import annotations

import ctypes
import threading

import pyarrow as pa

_SECONDS = 30.0


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
