"""One version of an object, read by ranges."""

from __future__ import annotations

import io
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import obstore
from obstore.exceptions import BaseError

from tidemill.objectstore.connection import Connection, split_url
from tidemill.objectstore.faults import changed, numbered

_BLOCK_BYTES = 1 << 20
_MOST_BLOCKS = 48


@dataclass(frozen=True)
class ObjectFile:
    """Exactly the object that was listed; safe to use from several threads.

    Parameters
    ----------
    url : str
    size : int
        Bytes.
    etag : str
        As listed. Where a store has none (empty), size and time tell.
    modified : int
        Nanoseconds since 1970; 0 for an object that is never written again.
    connection : Connection
    """

    url: str
    size: int
    etag: str
    modified: int
    connection: Connection

    def read_at(self, position: int, length: int) -> bytes:
        """The bytes there, all of them. An answer that breaks off is asked for again, after a pause.

        Raises
        ------
        TidemillError
            TM5001 when the object is gone, TM5003 when it is another one, TM5030 to TM5033 as the store answers.
        """
        if length <= 0:
            return b""
        store, key = split_url(self.url)
        options: dict[str, Any] = {"range": (position, position + length)}
        if self.etag:
            options["if_match"] = self.etag
        attempt = 0
        while True:
            try:
                opened = self.connection.store(store)
                result = obstore.get(opened, key, options=options)
            except (BaseError, OSError, ValueError) as error:
                raise numbered(error, self.url) from None
            self._check(result.meta)
            try:
                data: bytes = result.bytes().to_bytes()
                failure: Exception = OSError(f"{len(data)} of {length} bytes came")
            except (BaseError, OSError) as error:
                data, failure = b"", error
            if len(data) == length:
                return data
            if attempt >= self.connection.retries:
                raise numbered(failure, self.url) from None
            time.sleep(self.connection.pause(attempt))
            attempt += 1

    def _check(self, meta: Any) -> None:
        if meta["size"] != self.size:
            raise changed(self.url, f"{meta['size']} bytes, {self.size} when listed")
        found = meta.get("e_tag") or ""
        if self.etag and found:
            if found.strip('"') != self.etag.strip('"'):
                raise changed(self.url, "written again since")
        elif self.modified and int(meta["last_modified"].timestamp()) != self.modified // 10**9:
            raise changed(self.url, "written again since")


def find_object(url: str, connection: Connection) -> ObjectFile:
    """The object as it is now. TM5001 when there is none, others as :meth:`ObjectFile.read_at`."""
    store, key = split_url(url)
    try:
        meta = obstore.head(connection.store(store), key)
    except (BaseError, OSError, ValueError) as error:
        raise numbered(error, url) from None
    return ObjectFile(url, meta["size"], meta.get("e_tag") or "", nanoseconds(meta["last_modified"]), connection)


def nanoseconds(time_: Any) -> int:
    """A time of a store as nanoseconds since 1970."""
    microseconds: int = round(time_.timestamp() * 10**6)
    return microseconds * 1000


class RangedFile(Protocol):
    """Bytes of which any range can be read."""

    @property
    def size(self) -> int: ...

    def read_at(self, position: int, length: int) -> bytes: ...


class ObjectIO(io.RawIOBase):
    """An object as a file that can seek, for readers that choose what they read. Used by one thread.

    Blocks of 1 MiB are kept, at most 48 of them, so that columns that are read side by side are fetched once.
    """

    def __init__(self, file: RangedFile, read_at: Callable[[int, int], bytes] | None = None) -> None:
        super().__init__()
        self.file = file
        self._read_at = file.read_at if read_at is None else read_at
        self._position = 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """The position of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        """As for any file."""
        beginning: int = (0, self._position, self.file.size)[whence]
        self._position = max(0, beginning + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, but for the end of the object. Errors as :meth:`ObjectFile.read_at`."""
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view) and self._position < self.file.size:
            number, offset = divmod(self._position, _BLOCK_BYTES)
            piece = self._block(number)[offset : offset + len(view) - done]
            view[done : done + len(piece)] = piece
            done += len(piece)
            self._position += len(piece)
        return done

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            begin = number * _BLOCK_BYTES
            self._blocks[number] = self._read_at(begin, min(_BLOCK_BYTES, self.file.size - begin))
            if len(self._blocks) > _MOST_BLOCKS:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(number)
        return self._blocks[number]
