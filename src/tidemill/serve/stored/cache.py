"""A cache of results, for requests that are repeated."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

import pyarrow as pa

T = TypeVar("T")


_ENTRY_BYTES = 700
"""What an entry takes besides its value: its key, which has some objects of its own, and its places in dictionaries."""

_COLUMN_BYTES = 700
"""What a column of an Arrow table takes besides its values."""


def table_bytes(table: pa.Table) -> int:
    """Memory of a table with the objects that it is made of, which are most of a small one."""
    return int(table.nbytes) + _COLUMN_BYTES * table.num_columns * max(1, table.column(0).num_chunks)


class Cache:
    """Values by key, the least recently used dropped first. Of several callers with one key, one makes the value.

    Parameters
    ----------
    most_bytes : int
        Memory for all entries together. A larger value is given, and not kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._making: dict[Hashable, Future[Any]] = {}
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """Memory of the entries that are kept."""
        return self._bytes

    def known(self, key: Hashable) -> bool:
        """Whether a value can be given without making it."""
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], T], size_of: Callable[[T], int]) -> T:
        """The value of a key. What ``make`` raises is raised to everybody who waits for it, and not kept."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
                return found[0]  # type: ignore[no-any-return]
            making = self._making.get(key)
            if making is None:
                future: Future[T] = Future()
                self._making[key] = future
        if making is not None:
            return making.result()  # type: ignore[no-any-return]
        try:
            value = make()
            size = size_of(value) + _ENTRY_BYTES
        except BaseException as error:
            with self._lock:
                del self._making[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._making[key]
            self._values[key] = value, size
            self._bytes += size
            while self._bytes > self._most:
                self._bytes -= self._values.popitem(last=False)[1][1]
        future.set_result(value)
        return value
