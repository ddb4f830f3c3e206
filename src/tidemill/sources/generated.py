"""The location of a table of generated rows: one file that grows with time and is never opened."""

from __future__ import annotations

import io
import time
from typing import IO

from tidemill.connectors.generated import Pace, parse_generated_place
from tidemill.sources.file_info import FileInfo
from tidemill.sources.split import GROWING


def generated_file(path: str, pace: Pace) -> FileInfo:
    """The file; its size in bytes is the number of rows generated so far."""
    place = parse_generated_place(path)
    return FileInfo(path, place.rows(pace, time.time()) * place.row_bytes, GROWING)


class NoFile:
    """Reads the file of generated rows: it has no bytes."""

    def open(self, position: int) -> IO[bytes]:
        """An empty file."""
        return io.BytesIO()

    def fill(self) -> bytes:
        """Nothing."""
        return b""

    def read_at(self, position: int, length: int) -> bytes:
        """Nothing."""
        return b""

    def first_bytes(self, count: int) -> bytes:
        """Nothing."""
        return b""

    def close(self) -> None:
        """Nothing; may be called twice."""
