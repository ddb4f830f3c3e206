"""Threads that do not keep a process from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

_T = TypeVar("_T")


class DaemonPool:
    """As ``concurrent.futures.ThreadPoolExecutor``, for calls that may never return: at its end the interpreter waits
    for the threads of an executor, and not for these.

    Parameters
    ----------
    threads : int
        Calls that are under way at a time.
    name : str
        Of the threads.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._most, self._name = threads, name
        self._lock = threading.Lock()
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads = 0

    def submit(self, call: Callable[[], _T]) -> Future[_T]:
        """Call it on one of the threads."""
        future: Future[_T] = Future()
        with self._lock:
            if self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
        self._calls.put((future, call))
        return future

    def _run(self) -> None:
        while (taken := self._calls.get()) is not None:
            future, call = taken
            if future.set_running_or_notify_cancel():
                try:
                    found = call()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(found)
            del taken, future, call
        self._calls.put(None)  # for the next thread

    def close(self) -> None:
        """Have the threads end, after calls that wait have been left out."""
        with suppress(Empty):
            while (taken := self._calls.get_nowait()) is not None:
                taken[0].cancel()
        self._calls.put(None)
