"""Contestants in processes of their own that work in turns on one core; who has no turn is stopped.

A contestant is a class; its methods are called by name with keywords and return plain data. All processes are bound
to the same core, with one thread for each library that asks how many. Between turns a process is stopped (SIGSTOP),
threads in the background included: what they do is paid for in the contestant's own turns, never in those of others.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

_ON_PARENTS_DEATH = 1
_ONE_THREAD = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "ARROW_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Clock:
    """Seconds of the work between ``start`` and ``stop``: on the wall and of processor time, all threads."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self._from = (0.0, 0.0)

    def start(self) -> None:
        """Begin to count."""
        self._from = (time.perf_counter(), time.process_time())

    def stop(self) -> None:
        """Add what has passed."""
        self.wall += time.perf_counter() - self._from[0]
        self.cpu += time.process_time() - self._from[1]

    def timed(self, work: Callable[[], Any]) -> Any:
        """What ``work`` returns; its time is added."""
        self.start()
        try:
            return work()
        finally:
            self.stop()


class Contestant:
    """One side: an object of ``module.kind(**parameters)`` in a process of its own."""

    def __init__(self, name: str, core: int, module: str, kind: str, **parameters: Any) -> None:
        self.name = name
        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=_serve, args=(far, core, module, kind, parameters), daemon=True)
        self._process.start()
        far.close()
        self._answer()
        self._stop()

    def call(self, method: str, **parameters: Any) -> Any:
        """Have a turn. Raises RuntimeError with the other side's traceback."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)
        self._pipe.send((method, parameters))
        answer = self._answer()
        self._stop()
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()

    def _stop(self) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def _answer(self) -> Any:
        try:
            failed, answer = self._pipe.recv()
        except EOFError:
            raise RuntimeError(f"{self.name} died") from None
        if failed:
            raise RuntimeError(f"{self.name}:\n{answer}")
        return answer


def _serve(pipe: Connection, core: int, module: str, kind: str, parameters: dict[str, Any]) -> None:
    with contextlib.suppress(OSError, AttributeError):  # where processes cannot be bound they share all cores
        os.sched_setaffinity(0, {core})
    with contextlib.suppress(OSError, AttributeError):  # a stopped process would outlive who is killed
        ctypes.CDLL(None).prctl(_ON_PARENTS_DEATH, signal.SIGKILL)
    for name in _ONE_THREAD:
        os.environ[name] = "1"
    try:
        import pyarrow as pa

        pa.set_cpu_count(1)
        one = getattr(importlib.import_module(module), kind)(**parameters)
        gc.collect()
        gc.freeze()
        gc.disable()
        pipe.send((False, None))
        while True:
            method, given = pipe.recv()
            pipe.send((False, getattr(one, method)(**given)))
    except EOFError:
        return
    except Exception:
        pipe.send((True, traceback.format_exc()))
