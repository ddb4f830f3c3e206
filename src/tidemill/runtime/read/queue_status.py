"""SHOW QUEUES: what waits in the queue of each table, and how far each view has read it.

The queue of a table is the rows that have been found, by listing or over connections, and are not admitted yet. All
views that are maintained have all rows of the newest epoch. An initialising view reads rows that were admitted before
it was created beside the new ones; a paused view has the rows of the epoch of its pause.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa

from tidemill.options.tables import PRIORITY as TABLE_PRIORITY
from tidemill.options.views import PRIORITY, value_of
from tidemill.runtime.catalog.catalog import NEXT, Catalog, View
from tidemill.runtime.intake.queues import Depth, Queues
from tidemill.runtime.tables.table import Table

LIVE, INITIALISING, PAUSED, FAILED, UNREAD = "live", "initialising", "paused", "failed", "unread"

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


def queue_table(catalog: Catalog, epoch: int, initialising: Collection[str], queues: Queues | None) -> pa.Table:
    """The answer of SHOW QUEUES: a row for each table and view that reads it, in the order of their creation.

    Parameters
    ----------
    epoch : int
        The newest one.
    initialising : collection of str
        Views that do not have their whole history yet.
    queues : Queues or None
        What waits; None where the mill runs in another process.

    Returns
    -------
    pyarrow.Table
        Columns as :data:`QUEUES_SCHEMA`.
    """
    rows = [r for t in catalog.tables.values() for r in _rows(catalog, t, queues, initialising, epoch)]
    return pa.Table.from_pylist(rows, QUEUES_SCHEMA)


def _rows(
    catalog: Catalog, table: Table, queues: Queues | None, initialising: Collection[str], epoch: int
) -> Iterator[dict[str, Any]]:
    readers = [v for v in catalog.all_views.values() if table.name in catalog.tables_read_by(v.root)]
    depth = Depth() if queues is None else queues.depths.get(table.name, Depth())
    seconds = None if depth.oldest is None else max(0.0, time.time() - depth.oldest / 1000)
    common = {"table": table.name, "lag_seconds": seconds}
    if queues is not None:
        common |= {"waiting_files": depth.files, "waiting_bytes": depth.bytes}
    if not readers:
        priority = TABLE_PRIORITY.of(table.options)
        yield {**common, "view": None, "state": PAUSED if table.paused else UNREAD, "priority": priority}
    for view in readers:
        state = _state(table, view, initialising)
        behind = None if queues is None else depth.bytes + _behind(table, view, queues)
        at = _epoch(view, view.name in initialising, epoch)
        shown = {"view": view.name.removesuffix(NEXT), "state": state, "epoch": at}
        yield {**common, **shown, "lag_bytes": behind, "priority": value_of(PRIORITY, view.properties)}


def _state(table: Table, view: View, initialising: Collection[str]) -> str:
    if view.failure is not None:
        return FAILED
    if view.paused is not None or table.paused:
        return PAUSED
    return INITIALISING if view.name in initialising else LIVE


def _epoch(view: View, initialising: bool, newest: int) -> int | None:
    """The newest epoch whose rows of the table the view has; None while it is initialising."""
    if view.paused is not None:
        return view.paused.epoch
    if view.failure is not None:
        return None if view.failed_at is None else view.failed_at - 1
    return None if initialising else newest


def _behind(table: Table, view: View, queues: Queues) -> int:
    """The bytes of a table that were admitted and that a view has to read."""
    if view.paused is None:
        return queues.history.get((table.name, view.group), 0)
    admitted = queues.admitted.get(table.name, 0)
    return admitted - view.paused.admitted.get(table.name, admitted)
