"""Reads the bytes of one split of an object, with ranges requested ahead."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import IO, cast

from tidemill.objectstore.connection import Connection
from tidemill.objectstore.object_file import ObjectFile, ObjectIO
from tidemill.sources.split import Split

AHEAD = 4
"""Most ranges that are requested before they are needed."""

_TAIL_BYTES = 64 << 10


class ObjectReader:
    """As :class:`tidemill.sources.files.FileReader`; every request is for the version that was listed.

    An object of at most ``buffer_bytes`` is fetched with one request. For a larger one up to four ranges are requested
    concurrently within the split, and smaller ones one by one after its end.

    Parameters
    ----------
    split : Split
    connection : Connection
    buffer_bytes : int
        Most bytes of one range.
    coming : Future of bytes, optional
        The whole object, of at most ``buffer_bytes``, if it has been requested already.
    """

    def __init__(
        self, split: Split, connection: Connection, buffer_bytes: int, coming: Future[bytes] | None = None
    ) -> None:
        self.split = split
        self._file = ObjectFile(split.path, split.size, split.etag, split.modified, connection)
        self._buffer_bytes = buffer_bytes
        self._whole: bytes | None = None
        self._coming_whole = coming
        self._lock = Lock()
        self._position = 0
        self._asked = 0
        self._pool: ThreadPoolExecutor | None = None
        self._coming: deque[Future[bytes]] = deque()

    def open(self, position: int) -> IO[bytes]:
        """Begin at a byte position; nothing is requested yet."""
        self._forget()
        self._position = self._asked = position
        return cast(IO[bytes], ObjectIO(self._file, self.read_at))

    def fill(self) -> bytes:
        """The next bytes; empty at the end. Errors as :meth:`ObjectFile.read_at`."""
        if self._position >= self.split.size:
            return b""
        if self.split.size <= self._buffer_bytes:
            data = self.read_at(self._position, self.split.size - self._position)
        else:
            self._ask()
            data = self._coming.popleft().result()
        self._position += len(data)
        return data

    def read_at(self, position: int, length: int) -> bytes:
        """Exactly ``length`` bytes at a position; several threads may call it. Errors as :meth:`ObjectFile.read_at`."""
        if self.split.size > self._buffer_bytes:
            return self._file.read_at(position, length)
        with self._lock:
            if self._whole is None:
                coming = self._coming_whole
                self._whole = self._file.read_at(0, self.split.size) if coming is None else coming.result()
        return self._whole[position : position + length]

    def first_bytes(self, count: int) -> bytes:
        """The first bytes of the object, at most ``count``."""
        return self.read_at(0, min(count, self.split.size))

    def close(self) -> None:
        """Drop pending requests; may be called twice."""
        self._forget()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _ask(self) -> None:
        """Request ranges up to the window; after the end of the split only the one that is needed now."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(AHEAD, "tidemill-object")
        while not self._coming or (self._asked < self.split.end and len(self._coming) < AHEAD):
            within = self.split.end - self._asked
            most = min(self._buffer_bytes, within) if within > 0 else min(self._buffer_bytes, _TAIL_BYTES)
            length = min(most, self.split.size - self._asked)
            self._coming.append(self._pool.submit(self._file.read_at, self._asked, length))
            self._asked += length

    def _forget(self) -> None:
        for future in self._coming:
            future.cancel()
        self._coming.clear()
