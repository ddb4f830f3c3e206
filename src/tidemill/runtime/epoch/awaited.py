"""Whether finite input has not come to its end: standard input, or generated rows."""

from __future__ import annotations

import time

from tidemill.connectors.generated import parse_generated_place, parse_pace
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.sockets.sockets import Sockets
from tidemill.runtime.tables.table import Table


def is_awaited(catalog: Catalog, arrivals: Sockets) -> bool:
    """Whether a view reads standard input that is still open, or generated rows not all of which have come."""
    read = set(catalog.kept_tables)
    for view in catalog.active_views():
        read |= catalog.tables_read_by(view.root)
    return any(arrivals.awaits_end(name) or _grows(catalog.tables[name]) for name in read)


def _grows(table: Table) -> bool:
    """Whether generated rows with an end have not come to it."""
    if not table.generated:
        return False
    pace = parse_pace(table.options)
    return pace.rows is not None and parse_generated_place(table.path).rows(pace, time.time()) < pace.rows
