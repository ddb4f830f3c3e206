"""The status of a table's connections: as a table, and as a file for other processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.runtime.spools.spools import SPOOLS, folder_of
from tidemill.runtime.tables.table import Table
from tidemill.schema import Field, Schema
from tidemill.sources.sockets.connections import ConnectionStatus
from tidemill.state.versions.manifest import held_by

STATUS_SCHEMA = Schema(
    (
        Field("endpoint", pa.string()),
        Field("peer", pa.string()),
        Field("state", pa.string()),
        Field("bytes", pa.int64()),
        Field("messages", pa.int64()),
        Field("errors", pa.int64()),
        Field("since", pa.timestamp("us", "UTC")),
        Field("last_error", pa.string()),
    )
).to_arrow()
"""See :class:`~tidemill.sources.sockets.connections.ConnectionStatus`."""

_FILE = "status.arrow"


def status_table(rows: Sequence[ConnectionStatus]) -> pa.Table:
    """Rows as :data:`STATUS_SCHEMA`."""
    columns = [pa.array([getattr(r, f.name) for r in rows], f.type) for f in STATUS_SCHEMA]
    return pa.Table.from_arrays(columns, schema=STATUS_SCHEMA)


def write_status(directory: Path, status: pa.Table) -> None:
    """Write it into the directory of a spool, atomically. OSError as of files."""
    staged = directory / f"{_FILE}.new"
    with pa.ipc.new_file(str(staged), STATUS_SCHEMA) as writer:
        writer.write_table(status)
    staged.replace(directory / _FILE)


def read_status(root: Path, table: Table) -> pa.Table:
    """The status that a running mill wrote last, about a second ago; without a mill the state is ``stopped``."""
    try:
        with pa.ipc.open_file(str(root / SPOOLS / folder_of(table) / _FILE)) as reader:
            found = reader.read_all()
    except FileNotFoundError:
        return STATUS_SCHEMA.empty_table()
    if held_by(root) is not None:
        return found
    place = STATUS_SCHEMA.get_field_index("state")
    stopped = pc.if_else(pc.equal(found["state"], pa.scalar("closed")), found["state"], "stopped")
    return found.set_column(place, STATUS_SCHEMA.field(place), stopped)
