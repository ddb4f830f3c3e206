"""Bytes, or a file by its path, as formats read them without a mill."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import IO

from tidemill.formats.options import bad_option

Source = bytes | bytearray | memoryview | str | Path
"""The bytes themselves, or where the file is."""


def seekable(source: Source) -> IO[bytes]:
    """The bytes as a file that can seek. TM4003 for what is neither bytes nor a path."""
    if isinstance(source, str | Path):
        return Path(source).open("rb")
    if not isinstance(source, bytes | bytearray | memoryview):
        raise bad_option("source", type(source).__name__, "bytes, or the path of a file")
    return io.BytesIO(source)


class WholeSource:
    """A source as :class:`tidemill.formats.range_reads.RangeFile`, in pieces of at most ``buffer_bytes``.

    Pieces of a ``bytes`` object are not copied.
    """

    def __init__(self, source: Source, buffer_bytes: int) -> None:
        self._file = seekable(source)
        self._bytes = None if isinstance(source, str | Path) else memoryview(source).cast("B")
        self._piece = buffer_bytes
        self.size = self._file.seek(0, 2)

    def open(self, position: int) -> None:
        """Begin at a byte."""
        self._file.seek(position)

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
        return os.pread(self._file.fileno(), length, position)

    def first_bytes(self, count: int) -> bytes:
        """The first bytes, at most so many."""
        self._file.seek(0)
        return self._file.read(count)

    def close(self) -> None:
        """Nothing: it may be opened again. It is closed by :meth:`end`."""

    def end(self) -> None:
        """Close the file for good."""
        self._file.close()
