"""A data file of a Delta table, as it is listed and read: its bytes, and the values of its partition columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any, Protocol

_MARK = "delta "


def etag_of(partition: Mapping[str, str | None], modified: int = 0) -> str:
    """What stands for the version of a file: its partition, and when it was written, where a file system says so."""
    return _MARK + json.dumps([partition, modified], sort_keys=True, separators=(",", ":"))


def is_data_file(etag: str) -> bool:
    """Whether this was listed by :func:`etag_of`."""
    return etag.startswith(_MARK)


def partition_of(etag: str) -> dict[str, str | None]:
    """The values of partition columns that an ETag has, as texts; names as the Delta table has them."""
    found: dict[str, str | None] = json.loads(etag[len(_MARK) :])[0]
    return found


class OfFile(Protocol):
    """The bytes of the file, as :class:`tidemill.sources.files.FileReader` has them."""

    def open(self, position: int) -> IO[bytes]: ...

    def fill(self) -> Any: ...

    def read_at(self, position: int, length: int) -> bytes: ...

    def first_bytes(self, count: int) -> bytes: ...

    def close(self) -> None: ...


class DataFile:
    """The bytes of a data file, and its partition.

    Parameters
    ----------
    file : OfFile
    partition : mapping
        As :func:`partition_of` gives it.

    Attributes
    ----------
    stream : IO
        The bytes, once it has been opened.
    """

    stream: IO[bytes]

    def __init__(self, file: OfFile, partition: Mapping[str, str | None]) -> None:
        self.partition = partition
        self._file = file

    def open(self, position: int) -> DataFile:
        """Open the file at a byte. Errors as its reader."""
        self.stream = self._file.open(position)
        return self

    def fill(self) -> Any:
        """The next bytes."""
        return self._file.fill()

    def read_at(self, position: int, length: int) -> bytes:
        """The bytes there."""
        return self._file.read_at(position, length)

    def first_bytes(self, count: int) -> bytes:
        """The first bytes, at most so many."""
        return self._file.first_bytes(count)

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._file.close()
