"""Delta tables. Each commit names the sink and the epoch as a transaction of the protocol, so none is made twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill.connectors.delta.storage import is_odd, storage_options
from tidemill.errors import TidemillError
from tidemill.objectstore.connection import CONNECTION_OPTIONS, is_object_url, parse_connection
from tidemill.options.kinds import TEXT, number
from tidemill.options.option import Option, OptionGroup
from tidemill.schema import Schema
from tidemill.sinks import folder
from tidemill.sinks.keyed_rows import DELETED, KEY_COLUMNS, key_columns, names_of, newest_rows
from tidemill.sinks.options import CHANGES, INITIAL_SNAPSHOT, MERGE, MODE, SNAPSHOT
from tidemill.sinks.target import (
    EXACTLY_ONCE,
    Changes,
    Identity,
    TargetKind,
    as_changes,
    bad_location,
    check_lake_types,
    foreign,
    gone,
    with_epoch,
)

COMPACT_EVERY = Option(
    "compactEvery", number(1, 100_000), None, "after how many commits small files are put together", alterable=True
)
PATH = Option("path", TEXT, None, "the directory, or prefix of an object store, of the table; the sink makes it")


class DeltaTarget:
    """A Delta table that one sink makes and writes.

    In mode ``changes`` the weights of equal rows add up to how often the view has them; all rows in place of those
    before are an overwrite. In mode ``snapshot`` each commit overwrites the table. In mode ``merge`` a commit has what
    changed, by key: rows are deleted, replaced and added.
    """

    combines = True

    def __init__(self, sink: Identity, options: Mapping[str, str]) -> None:
        self._deltalake = _library()
        self._missing = self._deltalake.exceptions.TableNotFoundError
        self._path = options[PATH.key]
        self._storage = storage_options(self._path, options)
        self._keeps_changes = MODE.of(options) == CHANGES
        self._keys = names_of(KEY_COLUMNS.of(options)) if MODE.of(options) == MERGE else []
        self._compact_every, self._commits = COMPACT_EVERY.of(options), 0
        self._begins_with_rows = not self._keeps_changes or INITIAL_SNAPSHOT.of(options)
        self._application = f"tidemill-{sink.id}"
        self._made = False
        """Whether the table is known to be there, with a commit of this sink."""

    def _table(self) -> Any:
        """The table; None when there is none. ``is_deltatable`` would let no other thread run meanwhile."""
        try:
            return self._deltalake.DeltaTable(self._path, storage_options=self._storage)
        except self._missing:
            return None

    def position(self, begun: bool) -> int | None:
        """The epoch of the newest commit."""
        with self._numbered():
            table = self._table()
            if table is None and begun and self._begins_with_rows:  # else nothing may have changed yet
                raise gone(self._path)
            if table is None:
                return None
            written = table.transaction_version(self._application)
        if written is None:
            raise foreign(self._path, "a Delta table that this sink did not make")
        self._made = True
        return int(written)

    def snapshot(self, epoch: int, parts: Iterable[pa.Table]) -> None:
        """Overwrite the table, and its columns."""
        tables = (as_changes(epoch, p) for p in parts) if self._keeps_changes else iter(parts)
        first = next(tables)
        rows = pa.RecordBatchReader.from_batches(first.schema, _batches(chain((first,), tables)))
        self._commit(epoch, rows, mode="overwrite", schema_mode="overwrite")

    def changes(self, changes: Sequence[Changes]) -> None:
        """Append in one commit. TM8214 when the table has gone: one of changes alone would not add up to the view."""
        if self._made:
            with self._numbered():
                table = self._table()
                if table is None or table.transaction_version(self._application) is None:
                    raise FileNotFoundError("the table was removed while the sink wrote")
        if self._keys:
            self._merge(changes)
        else:
            self._commit(changes[-1].epoch, with_epoch(changes), mode="append")
        self._commits += 1
        if self._compact_every and self._commits % self._compact_every == 0:
            with self._numbered():
                table = self._table()
                if table is not None:
                    table.optimize.compact()

    def _merge(self, changes: Sequence[Changes]) -> None:
        """Delete, replace and add rows by key, in one commit."""
        rows = newest_rows(changes, self._keys)
        columns = {f"`{name}`": f"s.`{name}`" for name in rows.column_names if name != DELETED}
        same = " AND ".join(f"t.`{key}` IS NOT DISTINCT FROM s.`{key}`" for key in self._keys)
        with self._numbered():
            table = self._table()
            if table is None:
                raise FileNotFoundError("there is no table to merge into")
            merger = table.merge(
                rows, same, source_alias="s", target_alias="t", commit_properties=self._properties(changes[-1].epoch)
            )
            merger = merger.when_matched_delete(f"s.{DELETED}").when_matched_update(columns)
            merger.when_not_matched_insert(columns, f"NOT s.{DELETED}").execute()
        self._made = True

    def _commit(self, epoch: int, rows: Any, **how: str) -> None:
        given = {"storage_options": self._storage, "commit_properties": self._properties(epoch)}
        with self._numbered():
            self._deltalake.write_deltalake(self._path, rows, **given, **how)
        self._made = True

    def _properties(self, epoch: int) -> Any:
        """Of a commit: which sink made it, and up to which epoch."""
        library = self._deltalake
        return library.CommitProperties(app_transactions=[library.Transaction(self._application, epoch)])

    def _numbered(self) -> _Numbered:
        return _Numbered(self._path, self._deltalake.exceptions.SchemaMismatchError)

    def close(self) -> None:
        """Nothing is open."""

    def abort(self) -> None:
        """A commit that has begun is short; rows of an overwrite are stopped by their parts."""


class _Numbered:
    """Gives errors of the library a number: TM8213 when the table has other columns by now, else TM8214."""

    def __init__(self, path: str, mismatch: type[Exception]) -> None:
        self._path, self._mismatch = path, mismatch

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, TidemillError):
            return
        said = str(error).splitlines()[0]
        if isinstance(error, self._mismatch) or said.startswith("Cast error"):  # the latter has no class of its own
            raise foreign(self._path, f"the table has other columns than the sink: {said}") from error
        raise TidemillError(
            "TM8214",
            "a commit to the Delta table failed",
            got=f"{self._path}: {said}",
            hint="free space, or check permissions and the store; it is tried again, and made once",
        ) from error


def _batches(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    for table in tables:
        yield from table.to_batches()


def _library() -> Any:
    try:
        import deltalake
    except ImportError as error:
        raise TidemillError(
            "TM8208",
            "a package that this target needs is not installed",
            got="deltalake",
            hint="pip install 'tidemill[delta]'",
        ) from error
    return deltalake


def _check(options: Mapping[str, str], schema: Schema) -> None:
    parse_connection(options, options[PATH.key])
    _library()
    if is_odd(options[PATH.key]):
        wanted = "a path without escapes such as %20, backslashes and control characters, which the library changes"
        raise bad_location("delta", PATH.name, options[PATH.key], wanted)
    keys = key_columns(KEY_COLUMNS.of(options), schema)
    if (MODE.of(options) == MERGE) != bool(keys):
        raise KEY_COLUMNS.bad(str(KEY_COLUMNS.of(options)), f"the key of a row, with mode '{MERGE}' and no other")
    if keys and not INITIAL_SNAPSHOT.of(options):
        raise INITIAL_SNAPSHOT.bad("false", "leave it out: the table is to be equal to the view")
    check_lake_types(schema, "Delta")


def _check_free(path: str) -> None:
    """TM8213 for a local directory with a Delta table."""
    if not is_object_url(path) and (Path(path) / "_delta_log").is_dir():
        raise foreign(path, "a Delta table that this sink did not make")


DELTA = TargetKind(
    "delta",
    OptionGroup(
        "Sinks into Delta tables",
        "Sinks `INTO delta`; they need `tidemill[delta]`.",
        (PATH, KEY_COLUMNS, COMPACT_EVERY, *CONNECTION_OPTIONS.options),
    ),
    PATH,
    (CHANGES, SNAPSHOT, MERGE),
    _check,
    folder.resolved,
    DeltaTarget,
    lambda _: EXACTLY_ONCE,
    check_free=_check_free,
    deletes="rows with a negative __weight, or by mode 'merge'",
    library="deltalake",
    extra="delta",
    tried="local disks and S3's API of moto; read by deltalake",
)
