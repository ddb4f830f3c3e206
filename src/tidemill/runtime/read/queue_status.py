"""SHOW QUEUES: what waits in the queue of each table, and how far each view has read it.

The queue of a table is what has been found of it, by listing or over connections, in the order in which it is admitted.
All views that are maintained have read it up to the newest epoch. One that is being filled reads what was admitted
before it was created beside the new rows; one that is paused stays where it was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemill.options.tables import PRIORITY as TABLE_PRIORITY
from tidemill.options.views import PRIORITY, value_of
from tidemill.runtime.catalog.catalog import NEXT, Catalog, View
from tidemill.runtime.intake.queues import Depth, Queues
from tidemill.runtime.tables.table import Table

if TYPE_CHECKING:
    from tidemill.runtime.read.snapshot import Snapshot

LIVE, FILLING, PAUSED, FAILED, UNREAD = "live", "filling", "paused", "failed", "unread"

_FIELDS: list[pa.Field[Any]] = [
    pa.field("table", pa.string(), False),
    pa.field("view", pa.string()),
    pa.field("state", pa.string(), False),
    pa.field("epoch", pa.int64()),
    pa.field("waiting_files", pa.int64()),
    pa.field("waiting_bytes", pa.int64()),
    pa.field("lag_bytes", pa.int64()),
    pa.field("lag_seconds", pa.float64()),
    pa.field("priority", pa.int64(), False),
]
QUEUES_SCHEMA = pa.schema(_FIELDS)
"""Columns of SHOW QUEUES."""


def queue_table(snapshot: Snapshot) -> pa.Table:
    """The answer of SHOW QUEUES: a row for each table and view that reads it, in the order of their creation.

    ``waiting_files`` and ``waiting_bytes`` are those of the table, ``lag_bytes`` those that the view has to read,
    ``lag_seconds`` how old the oldest file is that waits. They are NULL where the mill runs in another process.
    """
    queues = None if snapshot.queues is None else snapshot.queues()
    rows = [r for t in snapshot.catalog.tables.values() for r in _rows(snapshot, t, queues)]
    return pa.Table.from_pylist(rows, QUEUES_SCHEMA)


def _rows(snapshot: Snapshot, table: Table, queues: Queues | None) -> Iterator[dict[str, Any]]:
    readers = [v for v in snapshot.catalog.everything.values() if table.name in _read(snapshot.catalog, v)]
    depth = Depth() if queues is None else queues.depths.get(table.name, Depth())
    seconds = None if depth.oldest is None else max(0.0, time.time() - depth.oldest / 1000)
    common = {"table": table.name, "lag_seconds": seconds}
    if queues is not None:
        common |= {"waiting_files": depth.files, "waiting_bytes": depth.bytes}
    if not readers:
        priority = TABLE_PRIORITY.of(table.options)
        yield {**common, "view": None, "state": PAUSED if table.paused else UNREAD, "priority": priority}
    for view in readers:
        state = _state(snapshot, table, view)
        behind = None if queues is None else depth.bytes + _behind(table, view, queues)
        shown = {"view": view.name.removesuffix(NEXT), "state": state, "epoch": _epoch(snapshot, view, state)}
        yield {**common, **shown, "lag_bytes": behind, "priority": value_of(PRIORITY, view.properties)}


def _read(catalog: Catalog, view: View) -> set[str]:
    return catalog.tables_read_by(view.root)


def _state(snapshot: Snapshot, table: Table, view: View) -> str:
    if view.failure is not None:
        return FAILED
    if view.paused is not None or table.paused:
        return PAUSED
    return FILLING if view.name in snapshot.initialising else LIVE


def _epoch(snapshot: Snapshot, view: View, state: str) -> int | None:
    """The newest epoch whose rows of the table the view has; None while it is filled."""
    if view.paused is not None:
        return view.paused.epoch
    if state == FAILED:
        return None if view.failed_at is None else view.failed_at - 1
    return None if state == FILLING else snapshot.version.epoch


def _behind(table: Table, view: View, queues: Queues) -> int:
    """The bytes of a table that were admitted and that a view has to read."""
    if view.paused is None:
        return queues.history.get((table.name, view.group), 0)
    admitted = queues.admitted.get(table.name, 0)
    return admitted - view.paused.admitted.get(table.name, admitted)
