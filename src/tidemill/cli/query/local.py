"""What the commands ``query``, ``sql`` and ``tail`` do with the files of a root, where no server answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from tidemill.cli.query.output import shown_in
from tidemill.plan.sql.numbered import numbered
from tidemill.plan.sql.simple_select import SimpleSelect, apply_select, parse_select
from tidemill.runtime.read.snapshot import Snapshot, first_rows
from tidemill.state.versions.manifest import held_by
from tidemill.state.versions.objects import local_directory

_POLL_SECONDS = 0.2


@numbered()
def answer(root: str, text: str, epoch: int | None, master: str | None) -> Iterator[pa.Table] | str:
    """The answer to a statement that reads: rows, or the text of a plan. Most statements need Spark.

    Rows of one view are read in parts, on demand; an answer of Spark is held in memory.

    Raises
    ------
    TidemillError
        TM1001 when there is no root; TM2024 for a statement that does not read; as
        :func:`~tidemill.runtime.read.view_frame.query_views` and :func:`~tidemill.runtime.read.view_frame.fetch`.
    """
    select = parse_select(text)
    rows = None if select is None else _selected(Snapshot.open(root), select, epoch)
    if rows is not None:
        return rows
    from tidemill.plan.sql.statement_words import parse_reading
    from tidemill.plan.sql.statements import Describe, Explain, Query, Show

    statement = parse_reading(text)
    snapshot = Snapshot.open(root)
    match statement:
        case Show(kind):
            return iter((snapshot.show(kind),))
        case Describe(name):
            return iter((snapshot.describe(name),))
        case Explain(query):
            from tidemill.cli.run.settings import settings
            from tidemill.config import Settings
            from tidemill.runtime.catalog.changes.explained import explain_query
            from tidemill.runtime.root import look_at
            from tidemill.runtime.spark.session import session
            from tidemill.sources.locations.allowed_paths import AllowedPaths

            with session(settings(master)) as spark:
                found = look_at(root, AllowedPaths())
                size_of = partial(found.intake.size, most=Settings().broadcast_bytes)
                return explain_query(spark, found.catalog, found.version.epoch, size_of, query)
        case Query(query):
            return _computed(snapshot, query, epoch, master)


def execute(root: str, statement: str, master: str | None) -> Iterator[pa.Table] | str | None:
    """Execute a statement in a root that no mill has open: rows, the text of a plan, or None.

    Raises
    ------
    TidemillError
        TM1001 when there is no root, TM1003 when a mill has it open; as :meth:`Mill.sql`.
    """
    from tidemill.cli.run.running import open_mill
    from tidemill.cli.run.settings import settings
    from tidemill.runtime.read.view_frame import fetch

    Snapshot.open(root)  # no root is made by a statement
    with open_mill(root, settings(master)) as mill:
        found = mill.sql(statement)
        return found if found is None or isinstance(found, str) else iter((fetch(found),))


def _selected(snapshot: Snapshot, select: SimpleSelect, epoch: int | None) -> Iterator[pa.Table] | None:
    """Rows of one view; None where Spark must decide."""
    if not snapshot.readable(select.view):
        return None
    parts = apply_select(select, snapshot.read_parts(select.view, epoch))
    return None if parts is None else _shown(parts, snapshot.catalog.time_zone)


def _computed(snapshot: Snapshot, query: str, epoch: int | None, master: str | None) -> Iterator[pa.Table] | str:
    """The answer of Spark."""
    from tidemill.cli.run.settings import settings
    from tidemill.runtime.read.view_frame import fetch, query_views
    from tidemill.runtime.spark.session import session

    with session(settings(master)) as spark:
        table = fetch(query_views(spark, snapshot, query, epoch))
    is_plan = table.column_names == ["plan"] and table.num_rows == 1 and query.lstrip()[:7].upper() == "EXPLAIN"
    zone = snapshot.catalog.time_zone
    return str(table["plan"][0].as_py()) if is_plan else iter((shown_in(table, zone),))


def _shown(parts: Iterator[pa.Table], zone: str) -> Iterator[pa.Table]:
    with numbered():
        for part in parts:
            yield shown_in(part, zone)


def follow(root: str, view: str, from_epoch: int) -> Iterator[tuple[int, pa.Table]]:
    """Changes of a view, one durable epoch after the other, for as long as a mill writes the root."""
    snapshot = Snapshot.open(root)
    epoch = from_epoch
    if epoch == 0:
        epoch = snapshot.first_epoch(view)
        rows = first_rows(snapshot, view, epoch)
        if rows.num_rows:
            yield epoch, shown_in(rows, snapshot.catalog.time_zone)
    else:
        snapshot.check_readable(view, epoch)
    while True:
        alive = is_written(root)
        snapshot = Snapshot.open(root)
        while epoch < snapshot.version.epoch:
            epoch += 1
            for changes in snapshot.change_tables(view, epoch):
                yield epoch, shown_in(changes, snapshot.catalog.time_zone)
        if not alive:
            return
        time.sleep(_POLL_SECONDS)


def is_written(root: str) -> bool:
    """Whether a living process on this host holds the root for writing."""
    directory = local_directory(root)
    if directory is None:
        return True  # unknown for an object store: `tail` goes on until it is stopped
    return held_by(directory) is not None
