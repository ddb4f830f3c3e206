"""A data file of a table with versions, as it is listed and read: its bytes, and what is not in them.

That are the values of partition columns (Delta), and which column of the table each identifier stands for (Iceberg).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Protocol

_MARK = "version "


@dataclass(frozen=True)
class Beside:
    """What a file does not say itself.

    Attributes
    ----------
    partition : mapping
        The values of partition columns as texts; names as the table has them.
    ids : mapping
        By the name of a column, the identifier of the file's column that it is; empty where names tell.
    names : mapping
        By the name of a column, its names in files whose columns have no identifiers, where these are others.
    """

    partition: Mapping[str, str | None] = field(default_factory=dict)
    ids: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, list[str]] = field(default_factory=dict)


def etag_of(beside: Beside, modified: int = 0) -> str:
    """What stands for the version of a file: what is beside it, and when it was written, if a file system says so."""
    given = [beside.partition, modified, beside.ids, beside.names]
    return _MARK + json.dumps(given, sort_keys=True, separators=(",", ":"))


def is_data_file(etag: str) -> bool:
    """Whether this was listed by :func:`etag_of`."""
    return etag.startswith(_MARK)


def beside_of(etag: str) -> Beside:
    """What an ETag says."""
    partition, _, ids, names = json.loads(etag[len(_MARK) :])
    return Beside(partition, ids, names)


class OfFile(Protocol):
    """The bytes of the file, as :class:`tidemill.sources.files.FileReader` has them."""

    def open(self, position: int) -> IO[bytes]: ...

    def fill(self) -> Any: ...

    def read_at(self, position: int, length: int) -> bytes: ...

    def first_bytes(self, count: int) -> bytes: ...

    def close(self) -> None: ...


class DataFile:
    """The bytes of a data file, and what is beside them.

    Parameters
    ----------
    file : OfFile
    beside : Beside

    Attributes
    ----------
    stream : IO
        The bytes, once it has been opened.
    """

    stream: IO[bytes]

    def __init__(self, file: OfFile, beside: Beside) -> None:
        self.beside = beside
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
