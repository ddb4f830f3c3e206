"""Replication slots and publications: what there is, and what becomes of it."""

from __future__ import annotations

import time
from typing import Any

import psycopg
from psycopg import sql

from tidemill.connectors.postgres.errors import changes_gone, unfit
from tidemill.connectors.postgres.replication import parse_position, shown_position
from tidemill.connectors.postgres.server import Place

Connection = psycopg.Connection[Any]
_IN_USE_SECONDS = 10.0


def slot_exists(connection: Connection, slot: str) -> bool:
    """Whether there is a slot of a name."""
    return connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (slot,)).fetchone() is not None


def publication_exists(connection: Connection, name: str) -> bool:
    """Whether there is a publication of a name."""
    return connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (name,)).fetchone() is not None


def check_names(connection: Connection, place: Place, slot: str, publication: str) -> None:
    """TM5112 where the slot of an option is there already, or a publication of its name; empty for those left out."""
    if slot and slot_exists(connection, slot):
        hint = f"another name; or SELECT pg_drop_replication_slot('{slot}') if nobody needs it"
        raise unfit(place.shown, f"there is a slot {slot} already", hint)
    if publication:
        check_publication(connection, place, publication)
    elif slot and publication_exists(connection, slot):
        hint = f"another slot; or the option publication '{slot}' if it has the whole table"
        raise unfit(place.shown, f"there is a publication {slot} already", hint)


def drop_slot(connection: Connection, slot: str) -> None:
    """Drop a slot, if it is there.

    The server may need a moment to notice that a connection which followed it has ended.
    """
    until = time.monotonic() + _IN_USE_SECONDS
    while True:
        try:
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (slot,)
            )
        except psycopg.errors.ObjectInUse:
            if time.monotonic() >= until:
                raise
            time.sleep(0.05)
        else:
            return


def check_slot(connection: Connection, place: Place, slot: str, position: int) -> None:
    """TM5113 unless a slot still has all changes behind a position."""
    found = connection.execute(
        "SELECT confirmed_flush_lsn::text, wal_status FROM pg_replication_slots WHERE slot_name = %s", (slot,)
    ).fetchone()
    if found is None:
        raise changes_gone(place.shown, f"the slot {slot} was dropped")
    confirmed, status = found
    if status == "lost":
        raise changes_gone(place.shown, f"the slot {slot} was behind by more than max_slot_wal_keep_size")
    if confirmed is not None and parse_position(confirmed) > position:
        got = f"the slot {slot} begins at {confirmed}, and {shown_position(position)} was read"
        raise changes_gone(place.shown, got)


def create_publication(connection: Connection, place: Place, name: str) -> None:
    """Create a publication of a table, in place of one of that name."""
    drop_publication(connection, name)
    statement = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}")
    connection.execute(statement.format(sql.Identifier(name), place.identifier))


def drop_publication(connection: Connection, name: str) -> None:
    """Drop a publication, if it is there."""
    connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name)))


def check_publication(connection: Connection, place: Place, name: str) -> None:
    """TM5112 unless a publication has all changes of a table."""
    schema, table = place.table
    found = connection.execute(
        "SELECT p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate FROM pg_publication p "
        "JOIN pg_publication_tables t ON t.pubname = p.pubname "
        "WHERE p.pubname = %s AND t.schemaname = %s AND t.tablename = %s AND t.rowfilter IS NULL",
        (name, schema, table),
    ).fetchone()
    if found != (True,):
        hint = "a publication that has the whole table, with insert, update, delete and truncate; or leave it out"
        raise unfit(place.shown, f"the publication {name} does not have all of its changes", hint)
