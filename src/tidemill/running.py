"""What the commands do, once their arguments are read."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tidemill import pipelines
from tidemill.command_settings import settings
from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.runtime.snapshot import Snapshot, first_rows
from tidemill.state.manifest import held_by
from tidemill.state.objects import local_directory

if TYPE_CHECKING:
    from tidemill.mill import Mill
    from tidemill.progress_display import Display

_POLL_SECONDS = 0.2


def open_mill(root: str, given: Settings) -> Mill:
    """A mill on a root."""
    from tidemill.mill import Mill

    return Mill(root, settings=given)


def run_mill(mill: Mill, display: Display, once: bool, seconds: float | None) -> None:
    """Run epochs until the input is at its end, the time is over, or a signal came; then print a summary.

    Raises
    ------
    TidemillError
        TM7007 with ``once`` when some files could not be read; whatever an epoch raises.

    With ``once`` the input is what is there at the beginning, and standard input to its end; while that is waited for,
    what else comes meanwhile is read, too.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    awaited = once and mill.awaits_input()
    display.begin(mill.backlog())
    advance = mill.advance_known if once else mill.advance
    try:
        while not display.stopped and (deadline is None or time.monotonic() < deadline):
            report = advance()
            if report is not None:
                display.add(report)
            elif awaited:
                time.sleep(_POLL_SECONDS)
                awaited = mill.awaits_input()
                mill.backlog()  # what came before the end is found by the listing behind it
            elif once:
                display.warn(mill.warnings())
                if not mill.wait_for_files():
                    break
            else:
                display.warn(mill.warnings())
                time.sleep(_POLL_SECONDS)
    finally:
        display.end()
    durable = mill.checkpoint()
    sizes = []
    for name, status, _, detail in mill.status():
        sizes.append((name, _size(mill, name) if status == "fresh" else f"{status}: {_one_line(detail)}"))
    sys.stdout.write(display.summary(mill.epoch, durable, sizes) + "\n")
    if once:
        _check_all_read(mill)


def _check_all_read(mill: Mill) -> None:
    """TM7007 when some of the files could not be read: rows of all others are in."""
    found = mill.snapshot().unreadable_files()
    if found:
        table, files = next(iter(found.items()))
        count = sum(map(len, found.values()))
        raise TidemillError(
            "TM7007",
            "not all files could be read",
            got=f"{count} file{'s' if count > 1 else ''}; {files[0].path} of table {table}: {files[0].error}",
            hint=f"the others are in; see SELECT path, error FROM {table}__files, mend them, run again",
        )


def _size(mill: Mill, view: str) -> str:
    """How many rows a view has, or why it cannot be read: a result may not be computable now."""
    try:
        rows = mill.count(view)
    except TidemillError as error:
        return f"cannot be read now: {_one_line(error.message())}"
    return f"{rows:,} row{'' if rows == 1 else 's'}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def query_with_spark(snapshot: Snapshot, statement: str, epoch: int | None, master: str | None) -> pa.Table:
    """Any Spark SQL over the views of a snapshot. Errors as :func:`~tidemill.runtime.view_frame.fetch`."""
    from tidemill.runtime.session import create_session
    from tidemill.runtime.view_frame import fetch, query_views

    spark = create_session(settings(master))
    try:
        return fetch(query_views(spark, snapshot, statement, epoch))
    finally:
        spark.stop()


def follow(root: str, view: str, from_epoch: int) -> Iterator[tuple[int, pa.Table]]:
    """Changes of a view from durable epochs, on and on while some mill writes the root."""
    snapshot = Snapshot.open(root)
    epoch = from_epoch
    if epoch == 0:
        epoch = snapshot.first_epoch(view)
        rows = first_rows(snapshot, view, epoch)
        if rows.num_rows:
            yield epoch, rows
    else:
        snapshot.check_readable(view, epoch)
    while True:
        alive = is_written(root)
        snapshot = Snapshot.open(root)
        while epoch < snapshot.version.epoch:
            epoch += 1
            for changes in snapshot.change_tables(view, epoch):
                yield epoch, changes
        if not alive:
            return
        time.sleep(_POLL_SECONDS)


def is_written(root: str) -> bool:
    """Whether a living process on this host holds the root for writing."""
    directory = local_directory(root)
    if directory is None:
        return True  # nobody can tell: whoever follows such a root goes on until stopped
    return held_by(directory) is not None


def create_from(mill: Mill, path: Path) -> None:
    """Create what a SQL script or a pipeline in Python declares, except what is there already."""
    if path.suffix == ".py":
        pipelines.apply(mill, path)
    else:
        mill.script(path.read_text())


def explain_script(path: Path, master: str | None) -> list[tuple[str, str]]:
    """View name and plan for each view of a script or pipeline, in a root that is thrown away."""
    with tempfile.TemporaryDirectory() as directory, open_mill(str(Path(directory) / "root"), settings(master)) as mill:
        create_from(mill, path)
        plans = mill.explain_views()
    if not plans:
        raise TidemillError("TM7004", "the script creates no view", hint="CREATE MATERIALIZED VIEW ...")
    return plans
