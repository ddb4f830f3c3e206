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
from tidemill.schema import Schema, type_to_ddl
from tidemill.sinks.options import CHANGES, INITIAL_SNAPSHOT, MODE, SNAPSHOT
from tidemill.sinks.target import (
    EXACTLY_ONCE,
    Changes,
    Identity,
    TargetKind,
    as_changes,
    bad_location,
    foreign,
    gone,
    with_epoch,
)

TARGET = Option(TABLE.name, TEXT, None, f"the table, which the sink makes: {TABLE.kind.wanted}")
_SINK, _EPOCH = "tidemill.sink", "tidemill.epoch"
"""Properties of the summary of a snapshot."""

_ROWS = 1 << 20
"""Rows of a snapshot that are written together."""


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
        self._made = False

    def position(self, begun: bool) -> int | None:
        """The epoch of the newest snapshot that this sink made."""
        with self._numbered():
            table = self._table()
            if table is None and begun and self._begins_with_rows:  # else nothing may have changed yet
                raise gone(self._shown)
            if table is None:
                return None
            found = self._newest(table)
        if found is None:
            raise foreign(self._shown, "an Iceberg table that this sink did not make")
        self._made = True
        return found

    def _newest(self, table: Any) -> int | None:
        """The greatest epoch in the summaries of snapshots."""
        summaries = [s.summary.additional_properties for s in table.metadata.snapshots if s.summary is not None]
        found = [int(given[_EPOCH]) for given in summaries if given.get(_SINK) == self._sink.id]
        return max(found, default=None)

    def snapshot(self, epoch: int, parts: Iterable[pa.Table]) -> None:
        """Replace all rows, in one commit."""
        tables = (_plain(as_changes(epoch, p) if self._keeps_changes else p) for p in parts)
        first = next(tables)
        with self._numbered():
            table = self._table() or self._create(first.schema)
            with table.transaction() as transaction:
                transaction.overwrite(first, snapshot_properties=self._properties(epoch))
                for part in tables:
                    transaction.append(part, snapshot_properties=self._properties(epoch))
        self._made = True

    def changes(self, changes: Sequence[Changes]) -> None:
        """Append in one commit. TM8223 when the table has gone: one of changes alone would not add up to the view."""
        rows = _plain(with_epoch(changes))
        with self._numbered():
            table = self._table()
            if table is None and self._made:
                raise FileNotFoundError("the table was removed while the sink wrote")
            table = table or self._create(rows.schema)
            table.append(rows, snapshot_properties=self._properties(changes[-1].epoch))
        self._made = True

    def _create(self, schema: pa.Schema) -> Any:
        catalogue = catalogue_of(self._options, made=True)
        catalogue.create_namespace_if_not_exists(self._name[:-1])
        return catalogue.create_table(self._name, schema)

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
            raise TidemillError(
                "TM8223",
                "a commit to the Iceberg table failed",
                got=f"{self._shown}: {said}",
                hint="check the catalogue and the store; it is tried again, and made once",
            ) from error


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
    for field in schema:
        if _has(field.type, pa.types.is_duration) or _has(field.type, pa.types.is_null):
            raise TidemillError(
                "TM8209",
                "a column of the view cannot be written to this target",
                got=f"{field.name} {type_to_ddl(field.type)}",
                hint="Iceberg tables have neither intervals nor columns of NULL alone: cast it in the view",
            )


def _has(type_: pa.DataType, what: Any) -> bool:
    return bool(what(type_)) or any(_has(type_.field(i).type, what) for i in range(type_.num_fields))


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
