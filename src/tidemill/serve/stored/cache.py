"""A cache of results, for requests that are repeated."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Cache:
    """Values by key, the least recently used dropped first. Of several callers with one key, one makes the value.

    Parameters
    ----------
    most_bytes : int
        Memory for all values together. A larger value is given, and not kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, tuple[Future[Any], int]] = OrderedDict()
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """Memory of the values that are kept."""
        return self._bytes

    def known(self, key: Hashable) -> bool:
        """Whether a value can be given without making it."""
        found = self._values.get(key)
        return found is not None and found[0].done()

    def get(self, key: Hashable, make: Callable[[], T], size_of: Callable[[T], int]) -> T:
        """The value of a key. What ``make`` raises is raised to everybody who waits for it, and not kept."""
        with self._lock:
            found = self._values.get(key)
            mine = found is None
            future: Future[T] = Future() if found is None else found[0]
            if mine:
                self._values[key] = (future, 0)
            else:
                self._values.move_to_end(key)
        if not mine:
            return future.result()
        try:
            value = make()
        except BaseException as error:
            with self._lock:
                self._values.pop(key, None)
            future.set_exception(error)
            raise
        future.set_result(value)
        self._keep(key, future, size_of(value))
        return value

    def _keep(self, key: Hashable, future: Future[Any], size: int) -> None:
        with self._lock:
            if key in self._values:
                self._values[key] = (future, size)
                self._bytes += size
            while self._bytes > self._most:
                for oldest, (made, held) in self._values.items():
                    if made.done():
                        del self._values[oldest]
                        self._bytes -= held
                        break
                else:
                    return
