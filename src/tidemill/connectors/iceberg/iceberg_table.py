"""The snapshots of an Iceberg table: which files the newest one has, and which columns. ``pyiceberg`` reads them.

Facts are from Iceberg's table specification, https://iceberg.apache.org/spec/.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill.connectors.connector import FileInfo
from tidemill.connectors.iceberg.options import CREDENTIAL, ICEBERG_OPTIONS, NAME, TABLE, TOKEN, TYPE, URI, WAREHOUSE
from tidemill.connectors.versioned.data_file import Beside, etag_of
from tidemill.connectors.versioned.errors import failed, no_column, no_table, not_installed, not_readable
from tidemill.errors import TidemillError, nearest
from tidemill.objectstore.connection import (
    ACCESS_KEY,
    CONNECTION_OPTIONS,
    ENDPOINT,
    REGION,
    SECRET_KEY,
    SESSION_TOKEN,
    is_object_url,
)

_PROPERTIES = {
    TYPE.key: "type",
    URI.key: "uri",
    WAREHOUSE.key: "warehouse",
    CREDENTIAL.key: "credential",
    TOKEN.key: "token",
    ENDPOINT.key: "s3.endpoint",
    ACCESS_KEY.key: "s3.access-key-id",
    SECRET_KEY.key: "s3.secret-access-key",
    SESSION_TOKEN.key: "s3.session-token",
    REGION.key: "s3.region",
}
"""Options by what the library calls them."""


@dataclass(frozen=True)
class IcebergTable:
    """A table of a catalogue. See :class:`~tidemill.connectors.versioned.versioned_table.VersionedTable`.

    Parameters
    ----------
    given : tuple of (str, str)
        Options of catalogue and store, names in lower case.
    columns : tuple of str
        Those that it must have, in any case.
    """

    given: tuple[tuple[str, str], ...]
    columns: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"IcebergTable({self.shown!r})"

    @property
    def shown(self) -> str:
        """As messages name it."""
        return ".".join(TABLE.of(dict(self.given)) or ())

    def is_newest(self, version: Hashable) -> bool:
        """Whether the catalogue names the same metadata."""
        with self._numbered():
            return bool(self._table().metadata_location == version)

    def files(self) -> tuple[Hashable, list[FileInfo]]:
        """The files of the newest snapshot."""
        with self._numbered():
            table = self._table()
            names = [field.name for field in table.schema().fields]
            known = {name.lower() for name in names}
            for column in self.columns:
                if column.lower() not in known:
                    raise no_column(self.shown, column, nearest(column, names))
            self._check_names(table)
            asked = {name.lower() for name in self.columns}  # others may come and go, and files are the same
            beside = Beside({}, {f.name: f.field_id for f in table.schema().fields if f.name.lower() in asked})
            found = [self._file(task, beside) for task in table.scan().plan_files()]
            return table.metadata_location, sorted(found, key=lambda info: info.path)

    def schema(self) -> pa.Schema:
        """The columns of the newest snapshot."""
        with self._numbered():
            from pyiceberg.io.pyarrow import schema_to_pyarrow

            table = self._table()
            schema: pa.Schema = schema_to_pyarrow(table.schema())
            return schema

    def _file(self, task: Any, beside: Beside) -> FileInfo:
        file = task.file
        if task.delete_files:
            raise not_readable(self.shown, "rows that are deleted by position or equality", "rewrite its data files")
        if file.file_format.value != "PARQUET":
            raise not_readable(self.shown, f"files of {file.file_format.value}", "rewrite them as Parquet")
        path, written = str(file.file_path).removeprefix("file://"), 0
        if not is_object_url(path):
            with suppress(OSError):  # whoever reads it says so
                written = Path(path).stat().st_mtime_ns
        return FileInfo(path, file.file_size_in_bytes, written, etag_of(beside, written))

    def _check_names(self, table: Any) -> None:
        """TM5101 where a column within another one had another name before: files are read by these."""
        names: dict[int, str] = {}
        top = {field.field_id for field in table.schema().fields}
        for schema in table.metadata.schemas:
            for name in schema.column_names:
                id_, last = schema.find_field(name).field_id, name.rpartition(".")[2]
                if id_ not in top and names.setdefault(id_, last) != last:
                    raise not_readable(self.shown, f"{name} had another name before", "rewrite its data files")

    def _table(self) -> Any:
        try:
            from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
        except ImportError as error:
            raise not_installed(error, "iceberg") from error
        try:
            return catalogue_of(dict(self.given)).load_table(TABLE.of(dict(self.given)))
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise no_table(self.shown, "check table and catalog.name") from error

    @contextmanager
    def _numbered(self) -> Iterator[None]:
        """What the library raises as TM5102."""
        try:
            yield
        except TidemillError:
            raise
        except Exception as error:
            said = (str(error).splitlines() or [type(error).__name__])[0]
            for name, value in self.given:
                if name in (CREDENTIAL.key, TOKEN.key) and value:
                    said = said.replace(value, "***")
            raise failed(self.shown, said) from error


def catalogue_of(options: Mapping[str, str], made: bool = False) -> Any:
    """The catalogue that options name, with the errors of the library; names in lower case.

    Parameters
    ----------
    options : mapping
    made : bool
        Whether a database that has no catalogue gets one.
    """
    given = {name: options[name] for name in _PROPERTIES.keys() | {NAME.key} if name in options}
    return _catalogue(tuple(sorted(given.items())), made)


@lru_cache(maxsize=32)
def _catalogue(given: tuple[tuple[str, str], ...], made: bool) -> Any:
    from pyiceberg.catalog import load_catalog

    options = dict(given)
    properties = {name: options[key] for key, name in _PROPERTIES.items() if key in options}
    properties |= {"type": TYPE.of(options), "init_catalog_tables": str(made).lower()}
    return load_catalog(NAME.of(options), **properties)


def iceberg_table(options: Mapping[str, str], columns: Sequence[str] = ()) -> IcebergTable:
    """The table that options name, which must have some columns; names of options in lower case."""
    kept = ICEBERG_OPTIONS.keys | CONNECTION_OPTIONS.keys
    return IcebergTable(tuple(sorted((n, v) for n, v in options.items() if n in kept)), tuple(columns))
