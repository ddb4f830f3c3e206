"""A table of PostgreSQL. An epoch, or several, are one transaction, which also notes the number of the last one."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from pyarrow import csv

from tidemill.connectors.postgres.options import TABLE, URL, USER
from tidemill.connectors.shared_options import PASSWORD
from tidemill.errors import TidemillError
from tidemill.options.kinds import TEXT
from tidemill.options.option import Option, OptionGroup
from tidemill.schema import Schema, type_to_ddl
from tidemill.sinks import json_lines
from tidemill.sinks.keyed_rows import DELETED, KEY_COLUMNS, key_columns, names_of, newest_rows
from tidemill.sinks.options import CHANGES, INITIAL_SNAPSHOT, MERGE, MODE, SNAPSHOT
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
_EPOCHS = "tidemill_epochs"
"""The table, beside those of sinks, with the newest epoch of each sink."""

_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
}
_OPTIONS = csv.WriteOptions(include_header=False, quoting_style="all_valid")


class PostgresTarget:
    """A table that one sink makes and writes.

    In mode ``changes`` rows are added, with ``__weight`` and ``__epoch``. In mode ``merge`` the table is kept equal to
    the view: rows of keys that changed are deleted and added. In mode ``snapshot`` all rows are replaced.
    """

    combines = True

    def __init__(self, sink: Identity, options: Mapping[str, str]) -> None:
        library, place_of = _library()
        self._library = library
        self._sink = sink
        self._place = place_of(options)
        self._keeps_changes = MODE.of(options) == CHANGES
        self._keys = names_of(KEY_COLUMNS.of(options)) if MODE.of(options) == MERGE else []
        self._connection: Any = None

    def position(self, begun: bool) -> int | None:
        """The newest epoch that the table has.

        Raises
        ------
        TidemillError
            TM8213 for a table with rows of others, TM8218 when something was delivered and there is no table, TM8222.
        """
        with self._numbered():
            connection = self._opened()
            there = self._exists(self._place.table[1])
            noted = (
                self._exists(_EPOCHS)
                and connection.execute(
                    self._sql("SELECT epoch FROM {epochs} WHERE sink = %s"), (self._sink.id,)
                ).fetchone()
            )
            if (noted and not there) or (begun and not noted and there):
                raise gone(self._place.shown)
            if there and not noted and connection.execute(self._sql("SELECT 1 FROM {table} LIMIT 1")).fetchone():
                raise foreign(self._place.shown, "a table with rows that this sink did not write")
            return int(noted[0]) if noted else None

    def snapshot(self, epoch: int, parts: Iterable[pa.Table]) -> None:
        """Replace all rows."""
        with self._numbered(), self._opened().transaction():
            made = False
            for part in parts:
                rows = as_changes(epoch, part) if self._keeps_changes else part
                if not made:
                    self._make(rows.schema)
                    self._execute("DELETE FROM {table}")
                    made = True
                self._copy("{table}", rows)
            self._note(epoch)

    def changes(self, changes: Sequence[Changes]) -> None:
        """Add the changes, or make the table equal to the view after the last one."""
        with self._numbered(), self._opened().transaction():
            if not self._keys:
                rows = with_epoch(changes)
                self._make(rows.schema)
                self._copy("{table}", rows)
            else:
                self._merge(newest_rows(changes, self._keys))
            self._note(changes[-1].epoch)

    def _merge(self, rows: pa.Table) -> None:
        """Put one row for each key that changed in the place of the row that there is."""
        self._make(rows.drop_columns([DELETED]).schema)
        self._execute("CREATE TEMPORARY TABLE {changed} ({columns}) ON COMMIT DROP", columns=self._columns(rows.schema))
        self._copy("{changed}", rows)
        sql = self._library.sql
        names = [sql.Identifier(key) for key in self._keys]
        equal = sql.SQL(" AND ").join(sql.SQL("t.{0} = c.{0}").format(name) for name in names)
        self._execute("DELETE FROM {table} t USING {changed} c WHERE {equal}", equal=equal)
        if any(rows.column(key).null_count for key in self._keys):  # compared one by one: no index has these
            same = sql.SQL(" AND ").join(sql.SQL("t.{0} IS NOT DISTINCT FROM c.{0}").format(n) for n in names)
            without = sql.SQL(" OR ").join(sql.SQL("c.{0} IS NULL").format(n) for n in names)
            statement = "DELETE FROM {table} t USING {changed} c WHERE {same} AND ({without})"
            self._execute(statement, same=same, without=without)
        columns = sql.SQL(", ").join(sql.Identifier(n) for n in rows.column_names if n != DELETED)
        statement = "INSERT INTO {table} ({columns}) SELECT {columns} FROM {changed} WHERE NOT {deleted}"
        self._execute(statement, columns=columns, deleted=sql.Identifier(DELETED))

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def abort(self) -> None:
        """Cancel the statement that runs."""
        connection = self._connection
        if connection is not None:
            with suppress(self._library.OperationalError):  # it has just ended, and its statement with it
                connection.cancel_safe(timeout=5.0)

    # -- statements ---------------------------------------------------------------------------------

    def _opened(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = self._place.opened()
        return self._connection

    def _sql(self, text: str, **parts: Any) -> Any:
        sql, schema = self._library.sql, self._place.table[0]
        known = {
            "table": self._place.identifier,
            "epochs": sql.Identifier(schema, _EPOCHS),
            "changed": sql.Identifier("tidemill_changed"),
        }
        return sql.SQL(text).format(**known, **parts)

    def _execute(self, text: str, **parts: Any) -> None:
        self._connection.execute(self._sql(text, **parts))

    def _exists(self, name: str) -> bool:
        found = self._connection.execute(
            "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relname = %s",
            (self._place.table[0], name),
        ).fetchone()
        return found is not None

    def _make(self, schema: pa.Schema) -> None:
        """Create the table, and an index of its key, unless it is there."""
        if self._exists(self._place.table[1]):
            return
        self._execute("CREATE TABLE {table} ({columns})", columns=self._columns(schema))
        if self._keys:
            sql = self._library.sql
            self._execute("CREATE INDEX ON {table} ({keys})", keys=sql.SQL(", ").join(map(sql.Identifier, self._keys)))

    def _columns(self, schema: pa.Schema) -> Any:
        sql = self._library.sql
        return sql.SQL(", ").join(sql.Identifier(f.name) + sql.SQL(f" {_type(f.type)}") for f in schema)

    def _copy(self, target: str, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        sql = self._library.sql
        names = sql.SQL(", ").join(map(sql.Identifier, rows.column_names))
        statement = self._sql(f"COPY {target} ({{names}}) FROM STDIN (FORMAT csv)", names=names)
        with self._connection.cursor() as cursor, cursor.copy(statement) as copied:
            for batch in rows.to_batches(max_chunksize=1 << 16):
                copied.write(self._lines(batch))

    def _lines(self, batch: pa.RecordBatch) -> bytes:
        """Rows as CSV, in which a NULL is empty and all else is quoted."""
        columns = [self._texts(batch.schema.field(i), batch.column(i)) for i in range(batch.num_columns)]
        out = io.BytesIO()
        csv.write_csv(pa.Table.from_arrays(columns, names=list(map(str, range(len(columns))))), out, _OPTIONS)
        return out.getvalue()

    def _texts(self, field: pa.Field[Any], array: pa.Array[Any]) -> pa.Array[Any]:
        """A column as one that CSV has, with the texts that PostgreSQL reads."""
        types = pa.types
        if types.is_binary(field.type):
            return pa.array([None if v is None else "\\x" + v.hex() for v in array.to_pylist()], pa.string())
        if not types.is_nested(field.type):
            return array
        lines = json_lines.objects(pa.RecordBatch.from_arrays([array], names=["v"]), self._sink.time_zone, "\n")
        values = [line[line.index(b":") + 1 : -1].decode() for line in lines.split(b"\n")[: len(array)]]
        valid = array.is_valid().to_pylist()
        return pa.array([v if ok else None for v, ok in zip(values, valid, strict=True)], pa.string())

    def _note(self, epoch: int) -> None:
        """Note the newest epoch, in the same transaction."""
        if not self._exists(_EPOCHS):
            self._execute("CREATE TABLE IF NOT EXISTS {epochs} (sink text PRIMARY KEY, epoch bigint NOT NULL)")
        statement = "INSERT INTO {epochs} VALUES (%s, %s) ON CONFLICT (sink) DO UPDATE SET epoch = excluded.epoch"
        self._connection.execute(self._sql(statement), (self._sink.id, epoch))

    @contextmanager
    def _numbered(self) -> Iterator[None]:
        """Errors of the client as TM8222."""
        try:
            yield
        except self._library.Error as error:
            said = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise TidemillError(
                "TM8222",
                "PostgreSQL did not take an epoch",
                got=f"{self._place.shown}: {said}",
                hint="it is written again after a pause; see got",
            ) from error


def _type(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"numeric({type_.precision}, {type_.scale})"
    if pa.types.is_timestamp(type_):
        return "timestamp" if type_.tz is None else "timestamptz"
    return "jsonb" if pa.types.is_nested(type_) else _TYPES[type_]


def _library() -> tuple[Any, Any]:
    try:
        import psycopg

        from tidemill.connectors.postgres.server import place_of
    except ImportError as error:
        raise TidemillError(
            "TM8208",
            "a package that this target needs is not installed",
            got="psycopg",
            hint="pip install 'tidemill[postgres]'",
        ) from error
    return psycopg, place_of


def _resolved(text: str) -> str:
    try:
        TABLE.kind.read(text)
    except ValueError as error:
        raise bad_location("postgres", TABLE.name, text, TABLE.kind.wanted) from error
    return text.strip()


def _check(options: Mapping[str, str], schema: Schema) -> None:
    _library()
    if URL.of(options) is None:
        raise URL.bad("none", URL.kind.wanted)
    keys = key_columns(KEY_COLUMNS.of(options), schema)
    if (MODE.of(options) == MERGE) != bool(keys):
        raise KEY_COLUMNS.bad(str(KEY_COLUMNS.of(options)), f"the key of a row, with mode '{MERGE}' and no other")
    if keys and not INITIAL_SNAPSHOT.of(options):
        raise INITIAL_SNAPSHOT.bad("false", "leave it out: the table is to be equal to the view")
    for field in schema:
        plain = field.type in _TYPES or pa.types.is_decimal(field.type) or pa.types.is_timestamp(field.type)
        if not plain and not pa.types.is_nested(field.type):
            raise TidemillError(
                "TM8209",
                "a column of the view cannot be written to this target",
                got=f"{field.name} {type_to_ddl(field.type)}",
                hint="PostgreSQL has no such type: cast it in the view",
            )


POSTGRES = TargetKind(
    "postgres",
    OptionGroup(
        "Sinks into PostgreSQL",
        "Sinks `INTO postgres`; they need `tidemill[postgres]`.",
        (URL, TARGET, USER, PASSWORD, KEY_COLUMNS),
    ),
    TARGET,
    (CHANGES, MERGE, SNAPSHOT),
    _check,
    _resolved,
    PostgresTarget,
    lambda _: EXACTLY_ONCE,
    deletes="rows with a negative __weight, or by mode 'merge'",
    library="psycopg",
    extra="postgres",
    tried="PostgreSQL 15, also stopped and started",
)
