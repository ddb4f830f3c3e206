"""The snapshots of an Iceberg table: which files the newest one has, and which columns. ``pyiceberg`` reads them.

Facts are from Iceberg's table specification, https://iceberg.apache.org/spec/.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from tidemill.connectors.connector import FileInfo
from tidemill.connectors.iceberg.options import (
    CREDENTIAL,
    ICEBERG_OPTIONS,
    NAME,
    PASSWORD,
    TABLE,
    TOKEN,
    TYPE,
    URI,
    WAREHOUSE,
    database_file,
)
from tidemill.connectors.versioned.data_file import Beside, etag_of
from tidemill.connectors.versioned.errors import failed, no_column, no_table, not_installed, not_readable
from tidemill.connectors.versioned.versioned_table import Commit, Listed
from tidemill.errors import TidemillError, nearest
from tidemill.objectstore.connection import (
    ACCESS_KEY,
    CONNECTION_OPTIONS,
    ENDPOINT,
    REGION,
    SECRET_KEY,
    SESSION_TOKEN,
    TIMEOUT,
    configured_endpoint,
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

    def files(self) -> Listed:
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
            fields = [field for field in table.schema().fields if field.name.lower() in asked]
            self._check_defaults(fields)
            specs = {id_: _identities(spec, fields) for id_, spec in table.metadata.specs().items()}
            ids, others = {f.name: f.field_id for f in fields}, _names(table, fields)
            found = []
            for task in table.scan().plan_files():
                beside = Beside(_partition(task.file, specs[task.file.spec_id]), ids, others)
                found.append(self._file(task, beside))
            return Listed(table.metadata_location, sorted(found, key=lambda info: info.path))

    def commits(self, version: Hashable) -> Iterator[Commit]:
        """None: the rows of a file are kept by themselves."""
        return iter(())

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
        path, written = re.sub("^file:/+", "/", str(file.file_path)), 0
        if not is_object_url(path):
            with suppress(OSError):  # a missing file is an error when it is read
                written = Path(path).stat().st_mtime_ns
        return FileInfo(path, file.file_size_in_bytes, written, etag_of(beside, written))

    def _check_names(self, table: Any) -> None:
        """TM5101 where a field within a column had another name before, or its name another field: files are read by
        these."""
        names: dict[int, str] = {}
        ids: dict[tuple[int, str], int] = {}
        for schema in table.metadata.schemas:
            for name in schema.column_names:
                above, _, last = name.rpartition(".")
                if not above:
                    continue
                id_, parent = schema.find_field(name).field_id, schema.find_field(above).field_id
                if names.setdefault(id_, last) != last or ids.setdefault((parent, last), id_) != id_:
                    raise not_readable(self.shown, f"{name} was renamed or replaced", "rewrite its data files")

    def _check_defaults(self, fields: Sequence[Any]) -> None:
        """TM5101 for a column that has a value in files without it."""
        for field in fields:
            if field.initial_default is not None:
                raise not_readable(self.shown, f"{field.name} has an initial default", "rewrite its data files")

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
                if name in (CREDENTIAL.key, TOKEN.key, PASSWORD.key) and value:
                    said = said.replace(value, "***")
            raise failed(self.shown, said) from error


def _identities(spec: Any, fields: Sequence[Any]) -> list[tuple[int, Any]]:
    """Of a way to partition, the places of values that columns have as they are, each with its column."""
    by_id = {field.field_id: field for field in fields}
    return [
        (place, by_id[part.source_id])
        for place, part in enumerate(spec.fields)
        if part.source_id in by_id and str(part.transform) == "identity"
    ]


def _partition(file: Any, places: Sequence[tuple[int, Any]]) -> dict[str, str | None]:
    """What columns have in a file that may lack them, as texts."""
    from pyiceberg.transforms import IdentityTransform

    found: dict[str, str | None] = {}
    for place, field in places:
        value = file.partition[place]
        binary = str(field.field_type).startswith(("binary", "fixed", "uuid"))  # shown in another way
        if not binary:
            text = IdentityTransform().to_human_string(field.field_type, value)
            found[field.name] = None if value is None else text
    return found


def _names(table: Any, fields: Sequence[Any]) -> dict[str, list[str]]:
    """What columns are called in files without identifiers, where the table says so."""
    mapping = table.metadata.name_mapping()
    by_id = {field.field_id: field.name for field in fields}
    known = [] if mapping is None else mapping.root
    return {by_id[m.field_id]: sorted(m.names) for m in known if m.field_id in by_id}


def catalogue_of(options: Mapping[str, str], made: bool = False) -> Any:
    """The catalogue that options name, with the errors of the library; names in lower case.

    Parameters
    ----------
    options : mapping
    made : bool
        Whether a database that has no catalogue gets one.
    """
    kept = _PROPERTIES.keys() | {NAME.key, PASSWORD.key, TIMEOUT.key}
    given = {name: options[name] for name in kept if name in options}
    file = database_file(given)
    if file and not made and not Path(file).is_file():
        raise FileNotFoundError(f"there is no file {file}")
    # a database that was put in the place of another one is another one
    identity = Path(file).stat() if file and Path(file).is_file() else None
    return _catalogue(tuple(sorted(given.items())), made, identity and (identity.st_dev, identity.st_ino))


@lru_cache(maxsize=32)
def _catalogue(given: tuple[tuple[str, str], ...], made: bool, identity: tuple[int, int] | None) -> Any:
    from pyiceberg.catalog import load_catalog

    options = dict(given)
    properties = {name: options[key] for key, name in _PROPERTIES.items() if key in options}
    properties |= {"type": TYPE.of(options), "init_catalog_tables": str(made).lower()}
    if ENDPOINT.key not in options and configured_endpoint():
        properties["s3.endpoint"] = configured_endpoint()
    if password := PASSWORD.of(options):
        scheme, _, rest = URI.of(options).partition("://")
        user, _, host = rest.rpartition("@")
        properties["uri"] = f"{scheme}://{user}:{quote(password, safe='')}@{host}"
    seconds = TIMEOUT.of(options)
    properties |= {"s3.connect-timeout": f"{seconds:g}", "s3.request-timeout": f"{seconds:g}"}
    if TYPE.of(options) == "sql":
        return load_catalog(NAME.of(options), **properties)
    from pyiceberg.catalog.rest import RestCatalog

    class Limited(RestCatalog):
        """The library waits for an answer for ever."""

        def _config_headers(self, session: Any) -> None:
            """A session that has just been made; what makes it may ask for a token next."""
            super()._config_headers(session)
            vars(session)["request"] = partial(session.request, timeout=seconds)

    return Limited(NAME.of(options), **properties)


def iceberg_table(options: Mapping[str, str], columns: Sequence[str] = ()) -> IcebergTable:
    """The table that options name, which must have some columns; names of options in lower case."""
    kept = ICEBERG_OPTIONS.keys | CONNECTION_OPTIONS.keys
    return IcebergTable(tuple(sorted((n, v) for n, v in options.items() if n in kept)), tuple(columns))
