"""Iceberg tables. The summary of each snapshot says the sink and the epoch, so that none is made twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from tidemill.connectors.iceberg.iceberg_table import catalogue_of
from tidemill.connectors.iceberg.options import ICEBERG_OPTIONS, TABLE, check_iceberg
from tidemill.errors import TidemillError
from tidemill.objectstore.connection import CONNECTION_OPTIONS
from tidemill.options.kinds import TEXT
from tidemill.options.option import Option, OptionGroup
from tidemill.schema import Schema
from tidemill.sinks.options import CHANGES, INITIAL_SNAPSHOT, MODE, SNAPSHOT
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

TARGET = Option(TABLE.name, TEXT, None, f"the table, which the sink makes: {TABLE.kind.wanted}")
_SINK, _EPOCH = "tidemill.sink", "tidemill.epoch"
"""Properties of the summary of a snapshot."""

_ROWS, _BYTES = 1 << 20, 1 << 28
"""Rows that are written together, or less where they are large: each part is a file and a manifest of its own."""


class IcebergTarget:
    """An Iceberg table that one sink makes and writes.

    In mode ``changes`` the weights of equal rows add up to how often the view has them. In mode ``snapshot`` each
    commit replaces all rows.
    """

    combines = True

    def __init__(self, sink: Identity, options: Mapping[str, str]) -> None:
        self._library = _library()
        self._sink, self._options = sink, dict(options)
        self._name = TABLE.of(self._options) or ()
        self._shown = ".".join(self._name)
        self._keeps_changes = MODE.of(options) == CHANGES
        self._begins_with_rows = not self._keeps_changes or INITIAL_SNAPSHOT.of(options)
        self._newest: int | None = None

    def position(self, begun: bool) -> int | None:
        """The epoch of the newest snapshot that this sink made.

        Raises
        ------
        TidemillError
            TM8213 for a table that it did not make, TM8218 when nothing is there of what was delivered, TM8223.
        """
        with self._numbered():
            table = self._table()
            empty = table is None or self._is_new(table)
            if empty and begun and self._begins_with_rows:  # else nothing may have changed yet
                raise gone(self._shown)
            self._newest = None if table is None or empty else self._newest_of(table)
        if self._newest is None and not empty:
            raise foreign(self._shown, "an Iceberg table that this sink did not make")
        return self._newest

    def _is_new(self, table: Any) -> bool:
        """Whether this sink made the table, and ended before its first commit."""
        return table.current_snapshot() is None and table.properties.get(_SINK) == self._sink.id

    def _newest_of(self, table: Any) -> int | None:
        """The epoch of the newest snapshot that this sink made, of those from which the table's rows come."""
        from pyiceberg.table.snapshots import ancestors_of

        for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
            given = {} if snapshot.summary is None else snapshot.summary.additional_properties
            if given.get(_SINK) == self._sink.id:
                return int(given[_EPOCH])
        return None

    def snapshot(self, epoch: int, parts: Iterable[pa.Table]) -> None:
        """Replace all rows, in one commit."""
        tables = _together(_plain(as_changes(epoch, p) if self._keeps_changes else p) for p in parts)
        first = next(tables)
        with self._numbered():
            table = self._table() or self._create(first.schema)
            if not self._is_new(table) and self._newest_of(table) is None:
                raise foreign(self._shown, "an Iceberg table that another sink made meanwhile")
            with table.transaction() as transaction:
                if not self._is_new(table):
                    _take_columns(transaction, table, first.schema)
                write = transaction.append if _is_empty(table) else transaction.overwrite
                write(first, snapshot_properties=self._properties(epoch))
                for part in tables:
                    transaction.append(part, snapshot_properties=self._properties(epoch))
        self._newest = epoch

    def changes(self, changes: Sequence[Changes]) -> None:
        """Append in one commit.

        Raises
        ------
        TidemillError
            TM8218 when the table is not as this sink left it: one of changes alone would not add up to the view. TM8213
            when it has other columns by now; TM8223.
        """
        rows = _plain(with_epoch(changes))
        with self._numbered():
            table = self._table()
            there = None if table is None else self._newest_of(table)
            if there != self._newest or (table is not None and there is None and not self._is_new(table)):
                raise gone(self._shown)
            table = table or self._create(rows.schema)
            self._check_columns(table, rows.schema)
            table.append(rows, snapshot_properties=self._properties(changes[-1].epoch))
        self._newest = changes[-1].epoch

    def _check_columns(self, table: Any, schema: pa.Schema) -> None:
        """TM8213 for a table that has other columns by now."""
        there = {field.name: field for field in table.schema().fields}
        missing = [name for name in schema.names if name not in there]
        wanted = [name for name, field in there.items() if field.required and name not in schema.names]
        if missing or wanted:
            said = f"it lacks {missing[0]}" if missing else f"{wanted[0]} must not be NULL"
            raise foreign(self._shown, f"the table has other columns than the sink: {said}")

    def _create(self, schema: pa.Schema) -> Any:
        catalogue = catalogue_of(self._options, made=True)
        try:
            catalogue.create_namespace_if_not_exists(self._name[:-1])
        except Exception:  # catalogues raise errors of their database when another sink creates it at the same time
            if not catalogue.namespace_exists(self._name[:-1]):
                raise
        return catalogue.create_table(self._name, schema, properties={_SINK: self._sink.id})

    def _table(self) -> Any:
        """The table; None when there is none."""
        missing = (self._library.NoSuchTableError, self._library.NoSuchNamespaceError)
        try:
            return catalogue_of(self._options, made=True).load_table(self._name)
        except missing:
            return None

    def _properties(self, epoch: int) -> dict[str, str]:
        return {_SINK: self._sink.id, _EPOCH: str(epoch)}

    def close(self) -> None:
        """Nothing is open."""

    def abort(self) -> None:
        """A commit that has begun is short; rows of a snapshot are stopped by their parts."""

    @contextmanager
    def _numbered(self) -> Iterator[None]:
        try:
            yield
        except TidemillError:
            raise
        except Exception as error:
            said = (str(error).splitlines() or [type(error).__name__])[0]
            if isinstance(error, ValueError) and said.startswith("Mismatch in fields"):
                raise foreign(self._shown, "a column of the table has another type than the sink's") from error
            raise TidemillError(
                "TM8223",
                "a commit to the Iceberg table failed",
                got=f"{self._shown}: {said}",
                hint="check the catalogue and the store; it is tried again, and made once",
            ) from error


def _together(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in fewer parts; at least one."""
    held: list[pa.Table] = []
    for part in parts:
        held.append(part)
        if sum(p.num_rows for p in held) >= _ROWS or sum(p.nbytes for p in held) >= _BYTES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _take_columns(transaction: Any, table: Any, schema: pa.Schema) -> None:
    """Give the table the columns of a view that was replaced, where they are others."""
    from pyiceberg.catalog import Catalog
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    wanted = Catalog._convert_schema_if_needed(schema)
    both = [schema_to_pyarrow(some, include_field_ids=False) for some in (table.schema(), wanted)]
    if both[0].equals(both[1]):
        return
    with transaction.update_schema(allow_incompatible_changes=True) as change:
        for field in table.schema().fields:
            change.delete_column(field.name)
    with transaction.update_schema(allow_incompatible_changes=True) as change:
        change.union_by_name(wanted)


def _is_empty(table: Any) -> bool:
    """Whether no snapshot has a row; to overwrite nothing makes the library warn."""
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return True
    return bool(snapshot.summary.additional_properties.get("total-records") == "0")


def _plain(rows: pa.Table) -> pa.Table:
    """Rows with types that Iceberg has: it has no integers of less than 32 bits."""
    fields = [
        f.with_type(pa.int32()) if pa.types.is_integer(f.type) and f.type.bit_width < 32 else f for f in rows.schema
    ]
    return rows.cast(pa.schema([f.with_nullable(True) for f in fields]))


def _library() -> Any:
    try:
        from pyiceberg import exceptions
    except ImportError as error:
        raise TidemillError(
            "TM8208",
            "a package that this target needs is not installed",
            got="pyiceberg",
            hint="pip install 'tidemill[iceberg]'",
        ) from error
    return exceptions


def _resolved(text: str) -> str:
    try:
        return ".".join(TABLE.kind.read(text) or ())
    except ValueError as error:
        raise bad_location("iceberg", TABLE.name, text, TABLE.kind.wanted) from error


def _check(options: Mapping[str, str], schema: Schema) -> None:
    check_iceberg(options)
    _library()
    check_lake_types(schema, "Iceberg")


ICEBERG = TargetKind(
    "iceberg",
    OptionGroup(
        "Sinks into Iceberg tables",
        "Sinks `INTO iceberg`; they need `tidemill[iceberg]`.",
        (TARGET, *(o for o in ICEBERG_OPTIONS.options if o is not TABLE), *CONNECTION_OPTIONS.options),
    ),
    TARGET,
    (CHANGES, SNAPSHOT),
    _check,
    _resolved,
    IcebergTarget,
    lambda _: EXACTLY_ONCE,
    library="pyiceberg",
    extra="iceberg",
    tried="a catalogue in SQLite; read by pyiceberg",
)
