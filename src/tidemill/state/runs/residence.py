"""Maps what the system has in memory of a file, at once: page faults, one for each few pages, take longer."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

_POPULATE_READ = 22
"""Linux 5.14 and later."""
_LEAST = 1 << 20
"""Fewer bytes are not worth a system call."""
_PART = 0.95
"""What part must be in memory: the rest is read from the disk."""


@cache
def _calls() -> tuple[Callable[..., int], Callable[..., int]] | None:
    """The system's ``mincore`` and ``madvise``; None where it does not have them."""
    library = ctypes.CDLL(None)
    try:
        mincore, madvise = library.mincore, library.madvise
    except AttributeError:
        return None
    mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return mincore, madvise


def map_resident(address: Any, size: int) -> bool:
    """Map the pages of a part of a mapped file if nearly all of them are in memory; returns whether that was done."""
    calls = _calls() if size >= _LEAST else None
    if calls is None:
        return False
    mincore, madvise = calls
    start = address - address % mmap.PAGESIZE
    size += address - start
    held = np.empty(-(-size // mmap.PAGESIZE), np.uint8)
    if mincore(start, size, held.ctypes.data) or np.count_nonzero(held & 1) < _PART * len(held):
        return False
    return madvise(start, size, _POPULATE_READ) == 0
