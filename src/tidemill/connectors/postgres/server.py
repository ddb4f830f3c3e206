"""Asks a server about a table, and whether it can be followed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import errors as pg_errors
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tidemill.connectors.postgres.errors import no_answer, refused, unfit
from tidemill.connectors.postgres.options import TABLE, URL, USER
from tidemill.connectors.postgres.pgoutput import BOOLEAN, PLAIN, ZONED
from tidemill.connectors.shared_options import PASSWORD
from tidemill.errors import nearest
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ

_TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP_NTZ,
    "timestamptz": TIMESTAMP,
}
"""Columns of tables that declare none; all other types are STRING, as PostgreSQL writes their values."""

_SESSION = (
    "-c TimeZone=UTC -c DateStyle=ISO -c extra_float_digits=3 -c bytea_output=hex -c statement_timeout=0 "
    "-c row_security=off"
)
_UNCONSTRAINED = pa.decimal128(38, 18)
"""Of NUMERIC without a precision, as in Spark."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name : str
    type : pyarrow.DataType
        That of a table which declares none.
    kind : int
        How its values are written: :mod:`tidemill.connectors.postgres.pgoutput`.
    number, type_id : int
        Its place in the table, and its type, at the server.
    """

    name: str
    type: pa.DataType
    kind: int
    number: int
    type_id: int


@dataclass(frozen=True)
class Shape:
    """A table at a server: its identifier, which another one of the same name does not have, and its columns."""

    oid: int
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Place:
    """A table of a database, and how it is reached; names of options in lower case."""

    options: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return f"Place({self.shown})"

    @property
    def shown(self) -> str:
        """As messages name it."""
        server = URL.of(dict(self.options))
        host = "" if server is None else f"{server.host}:{server.port}/{server.database} "
        return f"{host}{'.'.join(self.table)}"

    @property
    def table(self) -> tuple[str, str]:
        """Schema and name."""
        return TABLE.of(dict(self.options)) or ("", "")

    @property
    def identifier(self) -> sql.Identifier:
        """The table in a statement."""
        return sql.Identifier(*self.table)

    @contextmanager
    def connected(self, replication: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """A connection, which is closed at the end; each statement is a transaction unless one is begun.

        Raises
        ------
        TidemillError
            TM5110 and TM5111 as the server answers, also within.
        """
        with self.numbered(), closing(self.opened(replication)) as connection:
            yield connection

    def opened(self, replication: bool = False) -> psycopg.Connection[Any]:
        """As :meth:`connected`, to be closed by the caller, with the errors of the client."""
        options = dict(self.options)
        server = URL.of(options)
        assert server is not None, "checked before"
        given = {"application_name": "tidemill", "connect_timeout": "10", **dict(server.parameters)}
        given |= {"host": server.host, "port": server.port, "dbname": server.database}
        given |= {"user": USER.of(options) or server.user, "password": PASSWORD.of(options)}
        given |= {"options": _SESSION, "client_encoding": "UTF8", "keepalives_idle": "10"}
        if replication:
            given["replication"] = "database"
        conninfo = make_conninfo(**{name: value for name, value in given.items() if value})
        return psycopg.connect(conninfo, autocommit=True)

    @contextmanager
    def numbered(self) -> Iterator[None]:
        """What the client raises, as numbered errors."""
        try:
            yield
        except psycopg.Error as error:
            said = _without_addresses(str(error))
            codes = (pg_errors.InsufficientPrivilege, pg_errors.InvalidAuthorizationSpecification)
            denied = isinstance(error, codes) or any(part in said for part in _DENIED)
            raise (refused if denied else no_answer)(self.shown, said) from error

    def shape(self, connection: psycopg.Connection[Any]) -> Shape:
        """The table as it is now.

        Raises
        ------
        TidemillError
            TM5112 when there is no such table, or it cannot be followed.
        """
        schema, name = self.table
        found = connection.execute(
            "SELECT c.oid, c.relkind, c.relreplident, c.relpersistence FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relname = %s",
            (schema, name),
        ).fetchone()
        if found is None:
            raise unfit(
                self.shown, "there is no such table", "create it, or check dbtable: names keep their case in quotes"
            )
        oid, kind, identity, persistence = found
        if kind != "r":
            raise unfit(self.shown, "it is no plain table", "dbtable names a table, of a partitioned one a partition")
        if persistence != "p":
            raise unfit(self.shown, "it is UNLOGGED or TEMPORARY", "its changes are not in the log: a plain table")
        if identity != "f":
            hint = (
                f"ALTER TABLE {self.identifier.as_string()} REPLICA IDENTITY FULL: changes say the whole old row then"
            )
            raise unfit(self.shown, "its changes do not say the whole old row", hint)
        level = connection.execute("SHOW wal_level").fetchone()
        if level != ("logical",):
            raise unfit(
                self.shown,
                f"wal_level is {'' if level is None else level[0]}",
                "wal_level = logical in postgresql.conf",
            )
        rows = connection.execute(
            "SELECT a.attname, CASE WHEN n.nspname = 'pg_catalog' THEN b.typname ELSE '' END, b.modifier, a.attnum, "
            "a.atttypid FROM pg_attribute a CROSS JOIN LATERAL (WITH RECURSIVE down AS ("
            "SELECT t.*, a.atttypmod AS modifier FROM pg_type t WHERE t.oid = a.atttypid UNION ALL "
            "SELECT t.*, d.typtypmod FROM down d JOIN pg_type t ON t.oid = d.typbasetype WHERE d.typtype = 'd') "
            "SELECT * FROM down WHERE typtype <> 'd') b JOIN pg_namespace n ON n.oid = b.typnamespace "
            "WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum",
            (oid,),
        )
        columns = [
            Column(name, _type(type_, modifier), _KINDS.get(type_, PLAIN), number, type_id)
            for name, type_, modifier, number, type_id in rows
        ]
        return Shape(oid, tuple(columns))


def wanted_columns(place: Place, there: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """The columns of some names, in any case. TM5112 for one that a table lacks."""
    found = {column.name.lower(): column for column in there}
    for name in names:
        if name.lower() not in found:
            raise unfit(place.shown, f"it has no column {name}", nearest(name, [c.name for c in there]))
    return [next((c for c in there if c.name == name), found[name.lower()]) for name in names]


_KINDS = {"bool": BOOLEAN, "timestamptz": ZONED}
_DENIED = ("password", "no pg_hba.conf entry", "permission denied", "must be ", "authentication", 'role "')


def _type(name: str, modifier: int) -> pa.DataType:
    if name != "numeric":
        return _TYPES.get(name, pa.string())
    if modifier < 4:
        return _UNCONSTRAINED
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    return pa.decimal128(precision, scale) if precision <= 38 and scale <= precision else pa.string()


def _without_addresses(text: str) -> str:
    """The first line of what the client says, without which addresses it has tried."""
    first = (text.strip().splitlines() or ["no reason given"])[0]
    return re.sub(r"connection to server at .*? failed: ", "", first)


def place_of(options: Mapping[str, str]) -> Place:
    """The table that options name."""
    kept = {name: options[name] for name in (URL.key, TABLE.key, USER.key, PASSWORD.key) if name in options}
    return Place(tuple(sorted(kept.items())))
