"""What of a snapshot the catalogue shows: views, tables, and the tables about tables."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from tidemill.errors import TidemillError
from tidemill.runtime.read.file_status import FILES_SCHEMA
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.runtime.tables.suffixes import ERRORS_SUFFIX
from tidemill.schema import Field

PUBLIC, ABOUT = "public", "tidemill"
"""Views and tables are in ``public``; tables about tables (``t__files`` and so on) are in ``tidemill``."""
FIRST_OID = 16_384
HIDDEN_OID = 1 << 30
"""From here on relations are in ``tidemill``, which is not listed by default."""


@dataclass(frozen=True)
class Relation:
    """One relation that clients can name.

    Attributes
    ----------
    oid : int
        Stays the same for as long as the relation is there.
    kind : str
        ``v`` for views and tables about tables, ``r`` for tables.
    definition : str
        The query of a view in Spark SQL; empty for others.
    readable : bool
        Whether its rows can be selected.
    """

    oid: int
    schema: str
    name: str
    kind: str
    columns: tuple[Field, ...]
    definition: str = ""
    readable: bool = True


def relations_of(snapshot: Snapshot) -> dict[str, Relation]:
    """What can be named in a query, by name."""
    catalog = snapshot.catalog
    found: dict[str, Relation] = {}
    for view in catalog.views.values():
        columns = tuple(view.root.schema)
        found[view.name] = Relation(_oid(view.uid), PUBLIC, view.name, "v", columns, view.query)
    for table in catalog.tables.values():
        oid, columns = _oid(table.uid), tuple(table.schema)
        found[table.name] = Relation(oid, PUBLIC, table.name, "r", columns, readable=table.readable)
    about = [t + ERRORS_SUFFIX for t in catalog.tables]
    for name in (*about, *snapshot.socket_names(), *snapshot.file_names()):
        found[name] = Relation(
            HIDDEN_OID + zlib.crc32(name.encode()) // 4, ABOUT, name, "v", columns_of(snapshot, name)
        )
    return found


def _oid(uid: str) -> int:
    return FIRST_OID + int(uid.rpartition("#")[2])


def columns_of(snapshot: Snapshot, name: str) -> tuple[Field, ...]:
    """The columns of whatever can be named in a query. TM2012 when there is nothing of this name."""
    if name in snapshot.socket_names():
        return tuple(Field(f.name, f.type, f.nullable) for f in snapshot.connections(name).schema)
    if name in snapshot.file_names():
        return tuple(FILES_SCHEMA)
    if not snapshot.readable(name):
        raise snapshot.catalog.unknown(name)
    return tuple(snapshot.schema(name))


def size(snapshot: Snapshot, name: str) -> tuple[int, int]:
    """Rows and bytes of the runs behind a view or table, known without reading them; 0 for what has none.

    Rows are those of all runs: a row that has changed since the last merge counts once for each of its runs.
    """
    if name in snapshot.socket_names() or name in snapshot.file_names():
        return 0, 0
    try:
        runs = snapshot.runs(snapshot.plan(name))
    except TidemillError as error:
        if error.number not in ("TM2036", "TM2012"):
            raise
        return 0, 0
    return sum(r.rows for r in runs), sum(r.bytes for r in runs)
