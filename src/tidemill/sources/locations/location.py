"""Where the files of a table are: a path or URL, filters, and how to connect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Union

from tidemill.connectors import connected_file
from tidemill.connectors.connected_file import ConnectedFile
from tidemill.connectors.generated import Pace, parse_pace
from tidemill.connectors.kafka.options import of_kafka
from tidemill.connectors.kafka.topics import Topics, partition_file
from tidemill.connectors.registry import (
    GENERATOR_SCHEME,
    ICEBERG_SCHEME,
    KAFKA_SCHEME,
    Offered,
    is_offered,
    lookup,
    scheme_of,
)
from tidemill.connectors.versioned.data_file import DataFile, beside_of, is_data_file
from tidemill.connectors.versioned.versioned_table import VersionedTable
from tidemill.errors import TidemillError
from tidemill.objectstore.connection import Connection, is_object_url, parse_connection, split_url
from tidemill.objectstore.object_file import find_object
from tidemill.objectstore.queue_options import Queue, parse_queue
from tidemill.sources import files
from tidemill.sources.file_info import FileInfo
from tidemill.sources.filters import FAIL_ON_MISSING, RECURSIVE, Filters, parse_filters
from tidemill.sources.generated import NoFile, generated_file
from tidemill.sources.globs import parse_glob
from tidemill.sources.objects.listing import meant_keys, missing_prefix, object_pages
from tidemill.sources.objects.reader import ObjectReader
from tidemill.sources.split import Split

if TYPE_CHECKING:
    from tidemill.connectors.kafka.messages import PartitionFile

SplitFile = Union[files.FileReader, ObjectReader, ConnectedFile, NoFile, DataFile, "PartitionFile"]
"""Reads the bytes of a split: ``open``, ``fill``, ``read_at``, ``first_bytes``, ``close``."""

_UNREADABLE = frozenset({".xz", ".lzma", ".zip", ".snappy", ".sz", ".lzo", ".br", ".deflate", ".z", ".7z", ".rar"})


@dataclass(frozen=True)
class Location:
    """What a table's ``path`` and options say of its files. Two tables of one location have one listing.

    Parameters
    ----------
    pattern : str
        See :func:`pattern_of`.
    filters : Filters
    connection : Connection
    offered : Offered, optional
        The connector of a package, for a path that has one, with its options.
    pace : Pace, optional
        For a path of generated rows, how many there are at which time.
    queue : Queue, optional
        A queue whose messages name new files.
    topics : Topics, optional
        For a path of partitions of Kafka, which ones.
    versions : VersionedTable, optional
        For a Delta or Iceberg table, where its versions are listed.
    """

    pattern: str
    filters: Filters = field(default_factory=Filters)
    connection: Connection = field(default_factory=Connection)
    offered: Offered | None = None
    pace: Pace | None = None
    queue: Queue | None = None
    topics: Topics | None = None
    versions: VersionedTable | None = None

    @property
    def objects(self) -> bool:
        """Whether the files are objects of a store, which lists them."""
        return is_object_url(self.pattern) and self.versions is None

    @property
    def local(self) -> bool:
        """Whether the files are those that a file system lists."""
        others = (self.offered, self.pace, self.topics, self.versions)
        return not self.objects and all(other is None for other in others)

    def listing(self) -> Iterator[FileInfo]:
        """All files that match, by name.

        Raises
        ------
        TidemillError
            TM5001 when a path without wildcards does not exist, TM5006 for an archive that no codec reads, TM5030 to
            TM5036 as an object store answers, TM5035 for a glob that is not understood, TM5051 to TM5053 as a
            connector does.
        """
        nothing = True
        for info in self._found():
            nothing = False
            if self.wants(info):
                yield info
        if nothing:
            self.check_there()

    def size(self, most: int, files: int) -> int | None:
        """The bytes of all files that match; None when these, or the files, are more, or it cannot be told."""
        total = 0
        try:
            for number, info in enumerate(self.listing()):
                total += info.size
                if total > most or number > files:
                    return None
        except TidemillError:
            return None
        return total

    def unread(self, unread: Callable[[list[str]], list[str]]) -> Iterator[list[FileInfo]]:
        """All matching files whose names ``unread`` returns, in batches, in no order, some perhaps twice.

        Other files are not touched. Errors as :meth:`listing`.
        """
        if self.local:
            for names in files.file_names(self.pattern, self.filters.recursive):
                found = (files.file_info(name) for name in unread(names))
                yield [info for info in found if info is not None and self.wants(info)]
            self.check_there()
            return
        objects = object_pages(self.pattern, self.connection, self.filters.recursive) if self.objects else self.pages()
        for page in objects:
            left = set(unread([info.path for info in page]))
            yield [info for info in page if info.path in left and self.wants(info)]

    def missing(self) -> TidemillError | None:
        """TM5047 when the directory of a glob does not exist; TM5001 with failOnMissing.

        An object store has no directories, and a prefix may be empty at first: without the option this is no error
        there. Errors of an object store as :meth:`listing`.
        """
        directory = None
        if self.objects and self.filters.fail_on_missing:
            directory = missing_prefix(self.pattern, self.connection)
        elif self.local:
            directory = files.missing_directory(self.pattern)
        if directory is None:
            return None
        if self.filters.fail_on_missing:
            return files.missing(f"{directory}, the directory of {self.pattern}")
        return TidemillError(
            "TM5047",
            "the directory of a glob does not exist",
            got=f"{directory}, of {self.pattern}",
            hint="files that come to be there are read; failOnMissing 'true' makes this an error",
        )

    def check_there(self) -> None:
        """TM5001 with failOnMissing when the directory of a glob does not exist. Called when no file was found."""
        found = self.missing() if self.filters.fail_on_missing else None
        if found is not None:
            raise found

    def wants(self, info: FileInfo) -> bool:
        """Whether a listed file passes the filters. TM5006 for an archive that no codec reads."""
        if not self.filters.wants(info.path, info.modified):
            return False
        if info.path[info.path.rfind(".") :].lower() in _UNREADABLE:
            raise TidemillError(
                "TM5006",
                "files compressed in this way are not supported",
                got=info.path,
                hint="gzip, bzip2, zstd or lz4; or leave them out with a glob",
            )
        return True

    def _found(self) -> Iterator[FileInfo]:
        if self.objects:
            for page in object_pages(self.pattern, self.connection, self.filters.recursive):
                yield from page
        elif self.local:
            yield from files.listing(self.pattern, self.filters.recursive)
        else:
            for page in self.pages():
                yield from page

    def pages(self) -> Iterator[list[FileInfo]]:
        """All files of a location that neither a file system nor a store lists. Errors as :meth:`listing`."""
        if self.offered is not None:
            yield from connected_file.pages(self.pattern, self.offered)
        elif self.pace is not None:
            yield [generated_file(self.pattern, self.pace)]
        elif self.topics is not None:
            yield self.topics.files()
        elif self.versions is not None:
            yield list(self.versions.files().files)

    def path_of(self, bucket: str, key: str) -> str | None:
        """The path of an object that the location may list, as far as names tell; None for any other."""
        store = split_url(self.pattern)[0]
        if store.partition("://")[2] != bucket:
            return None
        meant = meant_keys(self.pattern, self.filters.recursive)
        return f"{store}/{key}" if any(a.matches(key) and not a.hides(key) for a in meant) else None

    def now(self, path: str) -> FileInfo:
        """An object as it is now. TM5001 when there is none, TM5030 to TM5036 as the store answers."""
        found = find_object(path, self.connection)
        return FileInfo(path, found.size, found.modified, found.etag)

    def beginning(self, path: str, count: int) -> bytes:
        """The first bytes of a file, at most ``count``; empty when it cannot be read, which its reader reports."""
        if self.topics is not None:
            return b""
        if self.offered is None and not is_object_url(path):
            return files.beginning(path, count)
        try:
            if self.offered is not None:
                return _first_bytes(path, self.offered, count)
            found = find_object(path, self.connection)
            return found.read_at(0, min(count, found.size))
        except TidemillError:
            return b""


def _first_bytes(path: str, offered: Offered, count: int) -> bytes:
    file = ConnectedFile(connected_file.find_file(path, offered), offered)
    try:
        return file.first_bytes(count)
    finally:
        file.close()


def pattern_of(path: str) -> str:
    """The ``path`` of a table made absolute: a path, directory or glob, or a URL of objects.

    Raises
    ------
    TidemillError
        TM5002 when the scheme names a connector that does not exist, TM5050 for one that cannot be loaded, TM5035 for
        a glob that is not understood.
    """
    if is_offered(path):
        lookup(path)
        return path
    if not is_object_url(path):
        return files.local_pattern(path)
    store, key = split_url(path)
    parse_glob(key)
    return f"{store}/{key}"


def location_of(
    path: str, options: Mapping[str, str], bounds: str = "", versions: VersionedTable | None = None
) -> Location:
    """The location of a table's files; names of options in lower case. Errors as parsing these and the path.

    ``bounds`` says of partitions where they begin and end for this table; ``versions`` that a Delta or Iceberg
    table is there.
    """
    if scheme_of(path) == GENERATOR_SCHEME:
        return Location(path, pace=parse_pace(options))
    if scheme_of(path) == KAFKA_SCHEME:
        return Location(path, topics=Topics(of_kafka(options), bounds))
    if versions is not None:
        place = "s3://" if scheme_of(path) == ICEBERG_SCHEME else path  # the catalogue says where files are
        return Location(path, connection=parse_connection(options, place), versions=versions)
    pattern = pattern_of(path)
    if is_offered(pattern):
        for option in (RECURSIVE, FAIL_ON_MISSING):
            if option.key in options:
                raise option.bad(options[option.key], "leave it out: the connector has no directories")
        return Location(pattern, parse_filters(options), offered=lookup(pattern, options))
    connection, queue = parse_connection(options, pattern), parse_queue(options, pattern)
    return Location(pattern, parse_filters(options), connection, queue=queue)


def reader_of(
    split: Split,
    options: Mapping[str, str],
    buffer_bytes: int = files.BUFFER_BYTES,
    coming: Future[bytes] | None = None,
) -> SplitFile:
    """A reader of the bytes of a split; names of options in lower case. ``coming`` as for :class:`ObjectReader`."""
    if is_data_file(split.etag):
        beside = beside_of(split.etag)
        plain = replace(split, etag="", modified=0 if is_object_url(split.path) else split.modified)
        if is_object_url(split.path):
            return DataFile(ObjectReader(plain, parse_connection(options, split.path), buffer_bytes), beside)
        return DataFile(files.FileReader(plain, buffer_bytes), beside)
    if scheme_of(split.path) == GENERATOR_SCHEME:
        return NoFile()
    if scheme_of(split.path) == KAFKA_SCHEME:
        return partition_file(split.path, split.etag, options, split.backfill_target is not None)
    if is_offered(split.path):
        info = FileInfo(split.path, split.size, split.modified, split.etag)
        return ConnectedFile(info, lookup(split.path, options), buffer_bytes)
    if not is_object_url(split.path):
        return files.FileReader(split, buffer_bytes)
    return ObjectReader(split, parse_connection(options, split.path), buffer_bytes, coming)
