"""Tables USING postgres: their columns and options. Their rows wait in a spool, as those of sockets do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote

from tidemill.connectors.postgres.errors import not_installed, unfit
from tidemill.connectors.postgres.options import POSTGRES_OPTIONS, PUBLICATION, RETAINED, SLOT, TABLE, URL, servers_of
from tidemill.formats.debezium.format import OPERATION
from tidemill.formats.postgres.format import POSTGRES
from tidemill.options.option import lowered
from tidemill.options.tables import METADATA_COLUMN, PATH, STATIC
from tidemill.plan.sql.statements import CreateTable
from tidemill.schema import Field, Schema


def with_postgres_columns(statement: CreateTable) -> CreateTable:
    """The statement with the columns of the table at the server, if it leaves them out; the server is always asked.

    Raises
    ------
    TidemillError
        TM4003 for options, TM5110 and TM5111 as the server answers, TM5112 for a table that cannot be followed, TM5115
        without the client.
    """
    if statement.format != POSTGRES:
        return statement
    options = lowered(statement.options)
    for option in POSTGRES_OPTIONS.options:
        option.of(options)
    for option, hint in (
        (PATH, "leave it out: url and dbtable name the table"),
        (STATIC, "leave it out: the table changes"),
        (METADATA_COLUMN, "leave it out: rows do not lie in files"),
    ):
        if option.key in options:
            raise option.bad(options[option.key], hint)
    for required in (URL, TABLE):
        if required.key not in options:
            raise required.bad("none", f"{required.kind.wanted}: a table USING postgres needs url and dbtable")
    try:
        from tidemill.connectors.postgres.server import place_of, wanted_columns
        from tidemill.connectors.postgres.slots import check_names
    except ImportError as error:
        raise not_installed(error) from error
    place = place_of(options)
    if statement.primary_key:
        raise unfit(place.shown, "a PRIMARY KEY", "leave it out: changes name whole rows")
    with place.connected() as connection:
        shape = place.shape(connection)
        check_names(connection, place, SLOT.of(options), PUBLICATION.of(options))
    there = shape.columns
    if any(column.name.lower() == OPERATION for column in there):
        raise unfit(place.shown, f"a column {OPERATION}", "rename it: this name is taken")
    if len(statement.schema):
        wanted_columns(place, there, statement.schema.names)
        return statement
    return replace(statement, schema=Schema(tuple(Field(c.name, c.type) for c in there)))


def path_of(options: Mapping[str, str]) -> str:
    """The path of a table, which names it; names of options in lower case."""
    schema, name = TABLE.of(options) or ("", "")
    return f"{servers_of(options)[0]}/{quote(schema)}.{quote(name)}"


def retained_bytes(options: Mapping[str, str]) -> int | None:
    """How much stays of what was read; None for all, also where nothing is said: the server has it no more."""
    return RETAINED.of(options)
