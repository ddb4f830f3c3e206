"""The log of a Delta table: which version is the newest, which files it has, and which columns.

Facts of the protocol are from Delta's own description of it (``PROTOCOL.md``); ``deltalake`` reads the log.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.connectors.connector import FileInfo
from tidemill.connectors.delta.commits import Commits
from tidemill.connectors.delta.storage import is_odd, storage_options
from tidemill.connectors.versioned.data_file import Beside, etag_of
from tidemill.connectors.versioned.errors import failed, no_column, no_table, not_installed, not_readable
from tidemill.connectors.versioned.versioned_table import Commit, Listed
from tidemill.errors import TidemillError, nearest
from tidemill.objectstore.connection import CONNECTION_OPTIONS, is_object_url, parse_connection
from tidemill.objectstore.object_file import ObjectFile, ObjectIO, find_object


@dataclass(frozen=True)
class Version:
    """A version of a table that was found: its number, and which file of the log made it."""

    number: int
    commit: str


@dataclass(frozen=True)
class DeltaLog:
    """The log of the table at a path.

    Parameters
    ----------
    path : str
        A directory, or a URL of an object store.
    given : tuple of (str, str)
        Options of how to connect, names in lower case.
    columns : tuple of str
        Those that it must have, in any case.
    by_file : bool
        Whether rows are kept by the file that they came from, also where the table has a change data feed.
    required : tuple of str
        Those that have a value in each row that is kept.
    """

    path: str
    given: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    by_file: bool = False
    required: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"DeltaLog({self.path!r})"

    def is_newest(self, version: Hashable) -> bool:
        """See :class:`~tidemill.connectors.versioned.versioned_table.VersionedTable`."""
        assert isinstance(version, Version)
        with _numbered(self.path):
            return self._is_newest(version)

    def _is_newest(self, version: Version) -> bool:
        return (
            bool(version.commit)
            and self._commit(version.number) == version.commit
            and not self._commit(version.number + 1)
        )

    def files(self) -> Listed:
        """The files of the newest version.

        The rows of those that are new are kept together where the table has a change data feed: what the feed says
        then is the difference, whichever file a row was in.

        Files of a file system have the time that the system gives, so that readers find what they expect; those of
        object stores that of the log.

        Raises
        ------
        TidemillError
            TM5100 when there is no table, TM5101 for one whose rows are not just those of its files, TM5102 when the
            log cannot be read, TM5103 without the library, TM5104 when a column is missing.
        """
        with _numbered(self.path):
            table = self._table()
            _check_readable(self.path, table)
            self._check_columns(pa.schema(table.schema().to_arrow()).names)
            actions = pa.table(table.get_add_actions()).select(
                ["path", "size_bytes", "modification_time", *_partition(table)]
            )
            found = [
                self._file(row["path"], row["size_bytes"], row["modification_time"], partition)
                for row, partition in zip(actions.to_pylist(), _partitions(actions), strict=True)
            ]
            version = Version(table.version(), self._commit(table.version()))
            follows = not self.by_file and self._follows_feed(table)
            return Listed(version, sorted(found, key=lambda info: info.path), self._pool if follows else "")

    def commits(self, version: Hashable) -> Iterator[Commit]:
        """See :class:`~tidemill.connectors.versioned.versioned_table.VersionedTable`."""
        assert isinstance(version, Version)
        with _numbered(self.path):
            yield from Commits(self._read_commit, self._place, self._rows, self._file, self._pool).until(version.number)

    def _follows_feed(self, table: Any) -> bool:
        """Whether commits say which rows change.

        Not where a partition is a time, which the log writes in several ways; nor where files have rows that are left
        out and counted, since nobody could say later which of these are gone.
        """
        fields = pa.schema(table.schema().to_arrow())
        partitions = table.metadata().partition_columns
        asked = {name.lower() for name in self.required}
        if any(pa.types.is_timestamp(fields.field(name).type) for name in partitions):
            return False
        if any(field.nullable and field.name.lower() in asked for field in fields):
            return False
        return str(table.metadata().configuration.get("delta.enableChangeDataFeed")).lower() == "true"

    @property
    def _pool(self) -> str:
        return f"{self.path.rstrip('/')}/"  # comes before the names of all files

    def schema(self) -> pa.Schema:
        """The columns of the newest version. Errors as :meth:`files`."""
        with _numbered(self.path):
            table = self._table()
            _check_readable(self.path, table)
            return pa.schema(table.schema().to_arrow())

    def _check_columns(self, there: list[str]) -> None:
        known = {name.lower() for name in there}
        missing = [name for name in self.columns if name.lower() not in known]
        if missing:
            raise no_column(self.path, missing[0], nearest(missing[0], there))

    def _table(self) -> Any:
        try:
            from deltalake import DeltaTable
            from deltalake.exceptions import TableNotFoundError
        except ImportError as error:
            raise not_installed(error, "delta") from error
        if is_odd(self.path):
            hint = "the library takes other paths for such ones: rename the directory"
            raise not_readable(self.path, "a path with an escape such as %20, a backslash or a control character", hint)
        storage = storage_options(self.path, dict(self.given))
        if storage is None and not (Path(self.path) / "_delta_log").is_dir():
            raise no_table(self.path, _NO_TABLE)
        try:
            return DeltaTable(self.path, storage_options=storage)
        except TableNotFoundError as error:
            raise no_table(self.path, _NO_TABLE) from error

    def _commit(self, number: int) -> str:
        """What tells the file of the log that made a version from others; empty where it is not there."""
        if not is_object_url(self.path):
            with suppress(FileNotFoundError, NotADirectoryError):
                status = Path(self._commit_name(number)).stat()
                return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
            return ""
        found = self._commit_object(number)
        return "" if found is None else f"{found.etag} {found.modified}"

    def _read_commit(self, number: int) -> bytes | None:
        """The file of the log that made a version; None where it is not there, or not any more."""
        if not is_object_url(self.path):
            with suppress(FileNotFoundError, NotADirectoryError):
                return Path(self._commit_name(number)).read_bytes()
            return None
        found = self._commit_object(number)
        return None if found is None else found.read_at(0, found.size)

    def _commit_name(self, number: int) -> str:
        return f"{self.path.rstrip('/')}/_delta_log/{number:020}.json"

    def _commit_object(self, number: int) -> ObjectFile | None:
        try:
            return find_object(self._commit_name(number), parse_connection(dict(self.given), self.path))
        except TidemillError as error:
            if error.number != "TM5001":
                raise
            return None

    def _place(self, written: str) -> str:
        """Where a file is whose path the log has in this way."""
        name = unquote(written)
        if name.startswith(("file://", "/")):
            return name.removeprefix("file://")
        return name if "://" in name else f"{self.path.rstrip('/')}/{name}"

    def _rows(self, path: str) -> int | None:
        """How many rows a file has; None if it cannot be read, which its reader reports."""
        try:
            if not is_object_url(path):
                return pq.ParquetFile(path).metadata.num_rows
            found = find_object(path, parse_connection(dict(self.given), path))
            return pq.ParquetFile(cast("IO[bytes]", ObjectIO(found))).metadata.num_rows
        except (OSError, pa.ArrowException, TidemillError):
            return None

    def _file(self, name: str, size: int, time: int, partition: Mapping[str, str | None]) -> FileInfo:
        """A file, by its path as the log has it, size in bytes, time in milliseconds since 1970, and partition."""
        path, modified, written = self._place(name), time * 10**6, 0
        if not is_object_url(path):
            with suppress(OSError):  # a missing file is reported when it is read
                modified = written = Path(path).stat().st_mtime_ns
        return FileInfo(path, size, modified, etag_of(Beside(partition), written))


def delta_log(
    path: str,
    options: Mapping[str, str],
    columns: Sequence[str] = (),
    by_file: bool = False,
    required: Sequence[str] = (),
) -> DeltaLog:
    """The log of the table at an absolute path; names of options in lower case. It must have some columns."""
    given = {name: value for name, value in options.items() if name in CONNECTION_OPTIONS.keys}
    return DeltaLog(path, tuple(sorted(given.items())), tuple(columns), by_file, tuple(required))


def _check_readable(path: str, table: Any) -> None:
    """TM5101 for a table whose rows are not just those of its files."""
    configuration = table.metadata().configuration
    mapping = configuration.get("delta.columnMapping.mode", "none")
    if mapping != "none":
        hint = "write it anew without the property delta.columnMapping.mode"
        raise not_readable(path, f"column mapping by {mapping}", hint)
    features = set(table.protocol().reader_features or ())
    others = features - _SUPPORTED
    if "deletionVectors" in others and not _deletes_by_vector(table):
        others.discard("deletionVectors")
    if others:
        hint = "delta.enableDeletionVectors 'false', and REORG TABLE ... APPLY (PURGE), write files without them"
        raise not_readable(path, ", ".join(sorted(others)), hint if "deletionVectors" in others else "write it anew")
    fields = table.schema().to_arrow()
    for name in table.metadata().partition_columns:
        if pa.types.is_binary(pa.schema(fields).field(name).type):
            raise not_readable(path, f"the partition column {name} is BINARY", "write it anew, partitioned otherwise")


def _deletes_by_vector(table: Any) -> bool:
    """Whether a file of the table has a deletion vector; also one that the library cannot read."""
    from deltalake.exceptions import DeltaError

    try:
        return any(some.num_rows for some in pa.RecordBatchReader.from_stream(table.deletion_vectors()))
    except DeltaError:
        return True


_NO_TABLE = "the path is that of the directory that has _delta_log in it"
_SUPPORTED = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "columnMapping"}
"""Features of readers that leave rows as they are in files."""


def _partition(table: Any) -> list[str]:
    return ["partition"] if table.metadata().partition_columns else []


def _partitions(actions: pa.Table) -> list[dict[str, str | None]]:
    """The partition of each file, as texts."""
    if "partition" not in actions.column_names:
        return [{}] * actions.num_rows
    partition: Any = actions.column("partition").combine_chunks()
    names = [field.name for field in partition.type]
    texts = [pc.cast(partition.field(name), pa.string()).to_pylist() for name in names]
    return [dict(zip(names, values, strict=True)) for values in zip(*texts, strict=True)]


@contextmanager
def _numbered(path: str) -> Iterator[None]:
    """What the library raises as TM5102."""
    try:
        yield
    except TidemillError:
        raise
    except Exception as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        if "feature" in said.lower():  # the library knows it, and has no class for this
            raise not_readable(path, said, "write it anew without this feature") from error
        raise failed(path, said) from error
