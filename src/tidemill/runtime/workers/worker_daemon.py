"""The worker daemon: imports everything once; Spark's Python workers are forks of it.

Spark starts it as ``python -m tidemill.runtime.workers.worker_daemon`` instead of ``pyspark.daemon``; a command begins
it before Spark does (:mod:`tidemill.runtime.spark.early_daemon`). Each worker is a fork of it, so it has the usual
kernels from its first moment: importing and loading them takes more than a second, forking some milliseconds. A worker
loads other kernels when it first calls them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

from tidemill.runtime.spark.early_daemon import EARLY, hand_over, listen, take_over

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_COLLECT_AFTER = 10_000
"""New objects after which Python looks for garbage: after 700 it looked through all that a task keeps every few epochs,
which took 4 % of the time of many views."""


def keep_freed_memory() -> None:
    """Let glibc keep what kernels free: fresh pages cost more than the kernels that fill them."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_TRIM_THRESHOLD, 256 << 20)
        libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)


def preload(directory: Path | None = None) -> None:
    """Import what tasks need and run it once, with temporary files in a directory.

    Starts no thread: threads do not survive a fork.
    """
    gc.disable()  # imports make no garbage that is worth a search
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    from tidemill.errors import TidemillError
    from tidemill.runtime.workers.warm_up import compile_in_two, warm_up

    with contextlib.suppress(OSError, TidemillError):
        compile_in_two(directory)
        warm_up(directory)
    gc.collect()
    gc.set_threshold(_COLLECT_AFTER)
    gc.enable()
    gc.freeze()  # a collection in a worker would touch, and so copy, every page shared with this process


def quiet(worker: Callable[..., int]) -> Callable[..., int]:
    """A worker that ends without a traceback when Java has ended."""

    def run(*arguments: object) -> int:
        try:
            return worker(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(1)

    return run


def main(place: str | None) -> None:
    """Be the worker daemon; with a path, that of a command that begins before Spark does."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    keep_freed_memory()
    listening = None if place is None else listen(place)
    preload(None if place is None else Path(place).parent)
    if listening is not None:
        take_over(listening)
    from pyspark import daemon

    daemon.worker = quiet(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    if sys.argv[1:2] == [EARLY]:
        main(sys.argv[2])
    elif not hand_over():
        main(None)
