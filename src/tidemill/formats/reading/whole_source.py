"""Bytes, or a file by its path, as formats read them without a mill."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, cast

from tidemill.connectors.connected_file import ConnectedFile, find_file
from tidemill.connectors.registry import is_offered, lookup
from tidemill.objectstore.connection import is_object_url, parse_connection
from tidemill.objectstore.object_file import ObjectIO, find_object
from tidemill.options.option import bad_option

Source = bytes | bytearray | memoryview | str | Path
"""The bytes themselves, or where the file is."""


def seekable(source: Source, options: Mapping[str, str]) -> IO[bytes]:
    """The bytes as a file that can seek; of an object by its URL, reached as options with names in lower case say.

    TM4003 for what is neither bytes nor a path; for an object as :func:`find_object`, for a file of a connector as
    :func:`find_file`.
    """
    if isinstance(source, str) and is_object_url(source):
        return cast(IO[bytes], ObjectIO(find_object(source, parse_connection(options, source))))
    if isinstance(source, str) and is_offered(source):
        offered = lookup(source, options)
        return ConnectedFile(find_file(source, offered), offered).seekable()
    if isinstance(source, str | Path):
        return Path(source).open("rb")
    if not isinstance(source, bytes | bytearray | memoryview):
        raise bad_option("source", type(source).__name__, "bytes, or the path of a file")
    return io.BytesIO(source)


class WholeSource:
    """A source as :class:`tidemill.formats.reading.range_reads.RangeFile`, in pieces of at most ``buffer_bytes``.

    Pieces of a ``bytes`` object are not copied.
    """

    def __init__(self, source: Source, buffer_bytes: int, options: Mapping[str, str]) -> None:
        self._file = seekable(source, options)
        self._bytes = None if isinstance(source, str | Path) else memoryview(source).cast("B")
        self._piece = buffer_bytes
        self.size = self._file.seek(0, 2)

    def open(self, position: int) -> IO[bytes]:
        """Begin at a byte; gives the file, for readers that seek."""
        self._file.seek(position)
        return self._file

    def fill(self) -> bytes | memoryview:
        """The next bytes; empty at the end. OSError for a file that became shorter."""
        at = self._file.tell()
        if self._bytes is not None and isinstance(self._bytes.obj, bytes):
            self._file.seek(min(at + self._piece, self.size))
            return self._bytes[at : at + self._piece]
        left = self.size - at
        piece = self._file.read(min(self._piece, left))
        if len(piece) < min(1, left):
            raise OSError("the file became shorter while it was read")
        return piece

    def read_at(self, position: int, length: int) -> bytes:
        """The bytes there, as many as there are; several threads may call it."""
        if self._bytes is not None:
            return bytes(self._bytes[position : position + length])
        if isinstance(self._file, ObjectIO):
            return self._file.file.read_at(position, min(length, self.size - position))
        return os.pread(self._file.fileno(), length, position)

    def first_bytes(self, count: int) -> bytes:
        """The first bytes, at most so many."""
        self._file.seek(0)
        return self._file.read(count)

    def close(self) -> None:
        """Do nothing, as the source may be opened again; :meth:`end` closes it."""

    def end(self) -> None:
        """Close the file for good."""
        self._file.close()
