"""Files of connectors that packages offer, as formats read them; errors of such a connector become numbered errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import IO, cast

from tidemill.connectors.connector import FileInfo, Reading, changed
from tidemill.connectors.registry import Offered, lookup, scheme_of
from tidemill.errors import TidemillError
from tidemill.objectstore.object_file import ObjectIO

_MOST_IDLE = 4


def check_url(url: str, offered: Offered) -> None:
    """TM5051 when a connector refuses a URL or its options."""
    try:
        offered.connector.check(url, offered.options)
    except ValueError as error:
        hint = offered.without_secrets(str(error)) or type(error).__name__
        raise TidemillError("TM5051", "a connector refuses a path or its options", got=url, hint=hint) from error


def pages(url: str, offered: Offered, after: str = "") -> Iterator[list[FileInfo]]:
    """The files that a URL names, page by page; ``after`` as for :meth:`Connector.files`.

    Raises
    ------
    TidemillError
        TM5001 when it names nothing, TM5051 to TM5053 as the connector does.
    """
    check_url(url, offered)
    with _failing(url, offered):
        listed = iter(offered.connector.files(url, offered.options, after))
    while True:
        with _failing(url, offered):
            page = next(listed, None)
        if page is None:
            return
        for info in page:
            if scheme_of(info.path) != offered.scheme or info.size < 0:
                raise _broken(url, f"it lists {info.path!r} with {info.size} bytes", f"{offered.scheme}://… and a size")
        yield [info for info in page if info.path > after]


def find_file(url: str, offered: Offered) -> FileInfo:
    """The one file that a URL names. TM5001 when there is none, TM4003 for several, others as :func:`pages`."""
    found = [info for page in pages(url, offered) for info in page]
    exactly = [info for info in found if info.path == url] or found
    if not exactly:
        raise _missing(url)
    if len(exactly) > 1:
        name = "source"
        got = f"{url}: {len(exactly)} files"
        raise TidemillError("TM4003", f"bad value of option {name}", got=got, hint="the URL of one of them")
    return exactly[0]


class ConnectedFile:
    """One file of a connector: ``open``, ``fill`` until it gives nothing or ``read_at``, ``close``.

    Parameters
    ----------
    info : FileInfo
        As it was listed; no byte behind its size is read.
    offered : Offered, optional
        Its connector with options, else that of the path without any.
    buffer_bytes : int
        Most bytes of one ``fill``.
    """

    def __init__(self, info: FileInfo, offered: Offered | None = None, buffer_bytes: int = 1 << 20) -> None:
        self.size = info.size
        self._info = info
        self._offered = lookup(info.path) if offered is None else offered
        self._buffer_bytes = buffer_bytes
        self._lock = Lock()
        self._idle: list[tuple[int, Reading]] = []
        self._at = 0

    def open(self, position: int) -> IO[bytes]:
        """Begin at a byte, and return the file for who reads elsewhere too. Nothing is asked for yet."""
        self._at = position
        return self.seekable()

    def seekable(self) -> IO[bytes]:
        """A file of its own position, in the same bytes."""
        return cast(IO[bytes], ObjectIO(self, self.read_at))

    def fill(self) -> memoryview:
        """The next bytes, none at the end.

        Raises
        ------
        TidemillError
            TM5001 when the file is gone, TM5003 when it ends before its size, TM5052 and TM5053 as the connector does.
        """
        found = self._read(self._at, min(self._buffer_bytes, self.size - self._at), whole=False)
        self._at += len(found)
        return found

    def read_at(self, position: int, length: int) -> bytes:
        """The bytes there, all of them; several threads may call it. Errors as :meth:`fill`."""
        return bytes(self._read(position, length, whole=True))

    def first_bytes(self, count: int) -> bytes:
        """The first bytes of the file, at most so many. Errors as :meth:`fill`."""
        return self.read_at(0, min(count, self.size))

    def close(self) -> None:
        """Let go of what is open; may be called twice."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, reading in idle:
            with _failing(self._info.path, self._offered):
                reading.close()

    def _read(self, position: int, length: int, whole: bool) -> memoryview:
        """So many bytes, or as many as one call of the connector gives."""
        if length <= 0:
            return memoryview(b"")
        buffer, done = memoryview(bytearray(length)), 0
        reading = self._taken(position)
        try:
            while done < length and (whole or not done):
                with _failing(self._info.path, self._offered):
                    count = reading.fill(buffer[done:])
                if count == 0:
                    raise changed(self._info.path, f"{position + done} bytes, {self.size} when listed")
                if not 0 < count <= length - done:
                    raise _broken(self._info.path, f"fill gave {count}", f"a number from 0 to {length - done}")
                done += count
        except BaseException:
            reading.close()
            raise
        with self._lock:
            self._idle.append((position + done, reading))
            dropped = [self._idle.pop(0)] if len(self._idle) > _MOST_IDLE else []
        for _, old in dropped:
            with _failing(self._info.path, self._offered):
                old.close()
        return buffer[:done]

    def _taken(self, position: int) -> Reading:
        """What has been read up to there, else a new one."""
        with self._lock:
            for number, (at, _) in enumerate(self._idle):
                if at == position:
                    return self._idle.pop(number)[1]
        with _failing(self._info.path, self._offered):
            return self._offered.connector.open(self._info, self._offered.options, position)


@contextmanager
def _failing(url: str, offered: Offered) -> Iterator[None]:
    """What a connector raises, as numbered errors."""
    try:
        yield
    except TidemillError:
        raise
    except FileNotFoundError as error:
        raise _missing(url) from error
    except Exception as error:
        raise TidemillError(
            "TM5052",
            "a connector failed",
            got=f"{url}: {type(error).__name__}: {offered.without_secrets(str(error))}",
            hint="nothing was lost: it is read again when the mill continues; see the connector's own documentation",
        ) from error


def _broken(url: str, found: str, expected: str) -> TidemillError:
    return TidemillError(
        "TM5053", "a connector does not do what connectors promise", got=f"{url}: {found}", hint=f"expected: {expected}"
    )


def _missing(url: str) -> TidemillError:
    return TidemillError(
        "TM5001",
        "a file or directory does not exist",
        got=url,
        hint="check the table's path, or put back what was there",
    )
