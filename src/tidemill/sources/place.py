"""Where the files of a table are: a path or a URL of an object store, what is wanted of it, and how to get there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tidemill.errors import TidemillError
from tidemill.objectstore.connection import Connection, is_object_url, parse_connection, split_url
from tidemill.objectstore.object_file import find_object
from tidemill.sources import files
from tidemill.sources.file_info import FileInfo
from tidemill.sources.filters import Filters, parse_filters
from tidemill.sources.globs import parse_glob
from tidemill.sources.object_listing import object_pages
from tidemill.sources.object_reader import ObjectReader
from tidemill.sources.split import Split

SplitFile = files.FileReader | ObjectReader
"""What reads the bytes of a split: ``open``, ``fill``, ``read_at``, ``first_bytes``, ``close``."""

_UNREADABLE = frozenset({".xz", ".lzma", ".zip", ".snappy", ".sz", ".lzo", ".br", ".deflate", ".z", ".7z", ".rar"})


@dataclass(frozen=True)
class Place:
    """What a table's ``path`` and options say of its files. Two tables of one place have one listing.

    Parameters
    ----------
    pattern : str
        See :func:`pattern_of`.
    filters : Filters
    connection : Connection
    """

    pattern: str
    filters: Filters = field(default_factory=Filters)
    connection: Connection = field(default_factory=Connection)

    @property
    def objects(self) -> bool:
        """Whether the files are objects of a store."""
        return is_object_url(self.pattern)

    def listing(self) -> Iterator[FileInfo]:
        """All files that are wanted, by name.

        Raises
        ------
        TidemillError
            TM5001 when a path without wildcards does not exist, TM5006 for an archive that no codec reads, TM5030 to
            TM5036 as an object store answers, TM5035 for a glob that is not understood.
        """
        for info in self._found():
            if not self.filters.wants(info.path, info.modified):
                continue
            if PurePosixPath(info.path).suffix.lower() in _UNREADABLE:
                raise TidemillError(
                    "TM5006",
                    "files compressed in this way are not supported",
                    got=info.path,
                    hint="gzip, bzip2, zstd or lz4; or leave them out with a glob",
                )
            yield info

    def _found(self) -> Iterator[FileInfo]:
        if not self.objects:
            yield from files.listing(self.pattern, self.filters.recursive)
            return
        for page in object_pages(self.pattern, self.connection, self.filters.recursive):
            yield from page

    def beginning(self, path: str, count: int) -> bytes:
        """The first bytes of a file, at most so many; none when it has gone, which is for its reader to tell."""
        if not is_object_url(path):
            return files.beginning(path, count)
        try:
            found = find_object(path, self.connection)
            return found.read_at(0, min(count, found.size))
        except TidemillError as error:
            if error.number not in ("TM5001", "TM5003"):
                raise
            return b""


def pattern_of(path: str) -> str:
    """The ``path`` of a table made absolute: a path, directory or glob, or a URL of objects.

    Raises
    ------
    TidemillError
        TM5002 when the scheme names a connector that does not exist, TM5035 for a glob that is not understood.
    """
    if not is_object_url(path):
        return files.local_pattern(path)
    store, key = split_url(path)
    parse_glob(key)
    return f"{store}/{key}"


def place_of(path: str, options: Mapping[str, str]) -> Place:
    """The place of a table's files; names of options in lower case. Errors as parsing these and the path."""
    pattern = pattern_of(path)
    return Place(pattern, parse_filters(options), parse_connection(options, pattern))


def reader_of(
    split: Split,
    options: Mapping[str, str],
    buffer_bytes: int = files.BUFFER_BYTES,
    coming: Future[bytes] | None = None,
) -> SplitFile:
    """What reads the bytes of a split; names of options in lower case. ``coming`` as for :class:`ObjectReader`."""
    if not is_object_url(split.path):
        return files.FileReader(split, buffer_bytes)
    return ObjectReader(split, parse_connection(options, split.path), buffer_bytes, coming)
