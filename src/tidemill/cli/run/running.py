"""Mills that commands open: scripts are declared, run, planned and explained in them."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill import pipelines
from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.plan.sql.statement_words import check_script
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.read.snapshot import Snapshot

if TYPE_CHECKING:
    from tidemill.cli.run.progress_display import Display
    from tidemill.mill import Mill
    from tidemill.runtime.catalog.changes.declaration import Change, Declaration

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
        With ``once`` TM7007 when some files could not be read, and as :meth:`Mill.check_listed`; whatever an epoch
        raises.

    With ``once`` the input is what is listed at the beginning, and standard input to its end; other input that arrives
    before that end is read, too.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    awaited, more = once and mill.awaits_input(), False
    display.working("looking for input")
    display.begin(mill.backlog())
    display.working("reading")
    advance = mill.advance_known if once else mill.advance
    try:
        while not display.stopped and (deadline is None or time.monotonic() < deadline):
            report = advance()
            display.working("" if report is None else "reading")
            if report is not None:
                display.add(report)
                more = mill.spool_was_full
            elif awaited:
                time.sleep(_POLL_SECONDS)
                awaited = mill.awaits_input()
                mill.backlog()  # a listing after the end finds what arrived before it
            elif once and more:
                mill.backlog()
                more = False
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
        mill.check_listed()
        _check_all_read(mill)


def _check_all_read(mill: Mill) -> None:
    """TM7007 when some of the files could not be read; the rows of all others were."""
    found = mill.snapshot().unreadable_files()
    if found:
        table, files = next(iter(found.items()))
        count = sum(map(len, found.values()))
        raise TidemillError(
            "TM7007",
            "not all files could be read",
            got=f"{count} file{'s' if count > 1 else ''}; {files[0].path} of table {table}: {files[0].error}",
            hint=f"the others were read; see SELECT path, error FROM {table}__files, repair the files and run again",
        )


def _size(mill: Mill, view: str) -> str:
    """How many rows a view has, or why it cannot be read: an expression may fail for the present rows."""
    try:
        rows = mill.count(view)
    except TidemillError as error:
        return f"cannot be read now: {_one_line(error.message())}"
    return f"{rows:,} row{'' if rows == 1 else 's'}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def create_from(mill: Mill, path: Path, *, may_replace: bool = False, may_drop: bool = False) -> list[Change]:
    """Apply a SQL script or a pipeline in Python to a mill: all of its changes, or none.

    Parameters
    ----------
    may_replace : bool
        Views with another query are replaced.
    may_drop : bool
        Views that are not declared are dropped.

    Raises
    ------
    TidemillError
        TM2010 for views with another query that may not be replaced; errors of the script.
    """
    with mill.declaring() as declaration:
        _declare(declaration, path, may_replace, may_drop)
        declaration.check()
    return declaration.changes


def _declare(declaration: Declaration, path: Path, may_replace: bool, may_drop: bool) -> None:
    if path.suffix == ".py":
        pipelines.declare(declaration, path, may_replace=may_replace)
    else:
        declaration.add_script(check_script(path.read_text()), may_replace=may_replace)
    declaration.prune(may_drop=may_drop)


def plan_script(root: str, path: Path, given: Settings, *, may_replace: bool, may_drop: bool) -> list[str]:
    """The changes that a script would make, a line each. The root need not exist, and may be in use."""
    from tidemill.runtime.catalog.changes.declaration import Declaration
    from tidemill.runtime.spark.session import session
    from tidemill.sources.locations.allowed_paths import AllowedPaths
    from tidemill.state.versions.objects import Objects

    catalog, epoch = Catalog(), 0
    try:
        snapshot = Snapshot.open(root)
        catalog, epoch = snapshot.catalog, snapshot.version.epoch
    except TidemillError as error:
        if error.number != "TM1001":
            raise
    catalog = catalog.in_zone(given.time_zone)
    with session(replace(given, time_zone=catalog.time_zone)) as spark:
        declaration = Declaration(spark, catalog, epoch, AllowedPaths(given.allowed_paths, Objects(root).url))
        _declare(declaration, path, may_replace, may_drop)
    lines = [f"{c.action:8}{c.kind:6}{c.name}{_needs(c, declaration.changed)}" for c in declaration.changes]
    return lines or ["nothing changes"]


def _needs(change: Change, refused: list[str]) -> str:
    if change.action == "keep":
        return "  (not in the script; --prune drops it)"
    return "  (only with --replace)" if change.action == "replace" and change.name in refused else ""


def summary_of(changes: list[Change]) -> str:
    """The changes of a script in one line; empty when there are none."""
    verbs = {"add": "added", "change": "changed", "replace": "replaced", "drop": "dropped"}
    parts = []
    for action, word in verbs.items():
        names = [f"{c.kind} {c.name}" for c in changes if c.action == action]
        if names:
            parts.append(f"{word} {', '.join(names)}")
    kept = [c.name for c in changes if c.action == "keep"]
    if kept:
        parts.append(f"not in the script, and kept without --prune: {', '.join(kept)}")
    return "; ".join(parts)


def explain_script(path: Path, given: Settings) -> list[tuple[str, str]]:
    """View name and plan for each view of a script or pipeline, in a temporary root."""
    with tempfile.TemporaryDirectory() as directory, open_mill(str(Path(directory) / "root"), given) as mill:
        create_from(mill, path)
        plans = mill.explain_views()
    if not plans:
        raise TidemillError("TM7004", "the script creates no view", hint="CREATE MATERIALIZED VIEW ...")
    return plans
