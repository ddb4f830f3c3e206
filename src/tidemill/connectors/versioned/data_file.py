"""A data file of a table with versions, as it is listed and read: its bytes, and what is not in them.

That are the values of partition columns (Delta), which column of the table each identifier stands for (Iceberg), and
what the rows of the file mean for those of the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import IO, Any, Protocol

from tidemill.connectors.connector import FileInfo

_MARK = "version "


class Reading(StrEnum):
    """What is read of a file, and what that is for the rows of the table."""

    ROWS = ""
    """Its rows are in the table, as long as it is."""
    NOTHING = "nothing"
    """Its rows are in the table already: they came from other files."""
    ONCE = "once"
    """Its rows come into the table, but it is not in the version that is read."""
    REMOVED = "removed"
    """Its rows go from the table."""
    CHANGES = "changes"
    """It says which rows come and go."""

    @property
    def passes(self) -> bool:
        """Whether the file is not in the table once it has been read."""
        return self in (Reading.ONCE, Reading.REMOVED, Reading.CHANGES)


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
    pool : str
        The name under which its rows are kept together with those of other files; empty where they are kept by file.
    reading : Reading
    """

    partition: Mapping[str, str | None] = field(default_factory=dict)
    ids: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, list[str]] = field(default_factory=dict)
    pool: str = ""
    reading: Reading = Reading.ROWS


def etag_of(beside: Beside, modified: int = 0) -> str:
    """What stands for the version of a file: what is beside it, and when it was written, if a file system says so."""
    given = [beside.partition, modified, beside.ids, beside.names]
    if beside.pool:
        given += [beside.pool, beside.reading]
    return _MARK + json.dumps(given, sort_keys=True, separators=(",", ":"))


def is_data_file(etag: str) -> bool:
    """Whether this was listed by :func:`etag_of`."""
    return etag.startswith(_MARK)


def beside_of(etag: str) -> Beside:
    """What an ETag says."""
    partition, _, ids, names, *rest = json.loads(etag[len(_MARK) :])
    return Beside(partition, ids, names, rest[0], Reading(rest[1])) if rest else Beside(partition, ids, names)


def pool_of(etag: str) -> str:
    """The pool of a file, by its ETag; empty for any other file, too."""
    return beside_of(etag).pool if is_data_file(etag) else ""


def reading_of(etag: str) -> Reading:
    """What is read of a file, by its ETag."""
    return beside_of(etag).reading if is_data_file(etag) else Reading.ROWS


def pooled(info: FileInfo, pool: str, reading: Reading = Reading.ROWS) -> FileInfo:
    """A file that was listed, with its rows in a pool; in none if ``pool`` is empty."""
    modified = json.loads(info.etag[len(_MARK) :])[1]
    return replace(info, etag=etag_of(replace(beside_of(info.etag), pool=pool, reading=reading), modified))


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
