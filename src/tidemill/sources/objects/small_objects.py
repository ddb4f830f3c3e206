"""Prefetches small objects: each costs a round trip, and these run concurrently."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from tidemill.connectors.versioned.data_file import is_data_file
from tidemill.objectstore.connection import is_object_url, parse_connection
from tidemill.objectstore.object_file import ObjectFile
from tidemill.sources.split import Split

MOST_BYTES = 256 << 10
"""Largest object in bytes that is prefetched; larger ones are read in concurrent ranges."""

AT_ONCE = 16
"""Concurrent requests of a process."""

AHEAD = 32
"""Objects that a task prefetches at a time: 8 MB at most."""

_pools: dict[int, ThreadPoolExecutor] = {}


class SmallObjects:
    """The objects that a task will read, in order. Used by one thread.

    Parameters
    ----------
    options : mapping
        Those of the table, with names in lower case.
    most_bytes : int
        Largest object that is prefetched, if that is less than 256 KiB.
    """

    def __init__(self, options: Mapping[str, str], most_bytes: int = MOST_BYTES) -> None:
        self._options = options
        self._most = min(most_bytes, MOST_BYTES)
        self._waiting: deque[Split] = deque()
        self._coming: dict[Split, Future[bytes]] = {}

    def expect(self, split: Split) -> None:
        """Add a split that will be read after those added before; only objects that the store lists count."""
        if is_object_url(split.path) and 0 < split.size <= self._most and not is_data_file(split.etag):
            self._waiting.append(split)

    def take(self, split: Split) -> Future[bytes] | None:
        """The whole object of the next split if it is small; requests the ones after it."""
        while self._waiting and len(self._coming) < AHEAD:
            following = self._waiting.popleft()
            connection = parse_connection(self._options, following.path)
            file = ObjectFile(following.path, following.size, following.etag, following.modified, connection)
            self._coming[following] = _pool().submit(file.read_at, 0, file.size)
        return self._coming.pop(split, None)


def _pool() -> ThreadPoolExecutor:
    """The thread pool of this process; threads do not survive a fork."""
    if os.getpid() not in _pools:
        _pools.clear()
        _pools[os.getpid()] = ThreadPoolExecutor(AT_ONCE, "tidemill-small")
    return _pools[os.getpid()]
