"""A cache of what a process has computed from the rows of run files: prefix sums, decoded columns.

Its keys have the origin of a run, so a compaction or a new run makes new entries and old ones age out. Rows without
an origin are in memory for one epoch only, and are not cached.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from tidemill.state.merge.merge import Origin, Rows

LIMIT = 256 << 20
"""Most bytes kept per process. The newest entry stays even when it alone is larger."""

Arrays = tuple[npt.NDArray[Any], ...]

_kept: OrderedDict[tuple[Origin, Hashable], Arrays] = OrderedDict()
_lock = threading.Lock()
_bytes = 0
_limit = LIMIT


def keep(most: int) -> None:
    """Limit the bytes kept in this process to ``most``, and to ``LIMIT``."""
    global _limit
    _limit = most


def derived(run: Rows, name: Hashable, make: Callable[[], Arrays]) -> Arrays:
    """The result of ``make`` for a run, from the cache if it is there.

    Parameters
    ----------
    name : hashable
        What is computed, apart from the run: ``make`` must depend on these two alone.
    make : callable
        Returns NumPy arrays, which must not be changed.
    """
    global _bytes
    if run.origin is None:
        return make()
    key = (run.origin, name)
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    arrays = make()
    with _lock:
        if key not in _kept:
            _kept[key] = arrays
            _bytes += _size(arrays)
        while _bytes > min(_limit, LIMIT) and len(_kept) > 1:
            _bytes -= _size(_kept.popitem(last=False)[1])
    return arrays


def forget_files(paths: Collection[str]) -> None:
    """Drop the entries of runs in some files: they may keep the files mapped."""
    global _bytes
    if not paths:
        return
    with _lock:
        for key in [k for k in _kept if k[0][0] in paths]:
            _bytes -= _size(_kept.pop(key))


def forget() -> None:
    """Drop all entries."""
    global _bytes
    with _lock:
        _kept.clear()
        _bytes = 0


def kept_bytes() -> int:
    """Bytes kept now."""
    return _bytes


def _size(arrays: Arrays) -> int:
    return sum(np.asarray(a).nbytes for a in arrays)
