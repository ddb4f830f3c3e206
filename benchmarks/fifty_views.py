"""Fifty views on the tables of TPC-H in one mill, against fifty mills with one view each, over the same epochs.

The views are the 22 queries of TPC-H and 28 more (:mod:`benchmarks.tpch.more_views`). A first epoch loads all rows but
the last; epochs of inserts and deletes follow. The fifty mills run one after another in one process and session, and
each reads only the tables of its view; an epoch that changes none of them costs it nothing. Compared are the median
epoch of the one mill and the sum of the medians of the fifty; both must end with the same rows in every view.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tidemill as tm
from benchmarks.change_sides import appear
from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.tpch import queries
from benchmarks.tpch.changes import OPERATION, Changes, ddl, generate, stream
from benchmarks.tpch.more_views import MORE_VIEWS
from tidemill.runtime.epoch.report import EpochReport
from tidemill.runtime.spark.session import create_session

GOAL = 12.0
WARM_UP = 8
"""The load, and small epochs in which tasks are built, and it becomes known what steps take."""
_SETTINGS: dict[str, Any] = {"master": "local[2]", "epoch_bytes": 1 << 50, "listing_seconds": 0.0}
_SMALL = ("q01", "q03", "q06", "q15", "by_flag", "dearest_orders", "last_orders", "idle_customers", "segments", "modes")


def views() -> dict[str, str]:
    """All fifty, by name."""
    return {**{name: queries.query(name) for name in queries.NAMES}, **MORE_VIEWS}


def together(work: str, files: str, columns: dict[str, str], names: list[str], epochs: int) -> dict[str, Any]:
    """Milliseconds of each epoch of one mill with all views, digests of their rows, and the costly steps."""
    settings = tm.Settings(**_SETTINGS)
    spark = create_session(settings)
    with tm.Mill(Path(work) / "root", spark=spark, settings=settings) as mill:
        reports = _run(mill, Path(work), files, columns, {n: views()[n] for n in names}, epochs)
        counted = [r for r in reports[WARM_UP:] if r is not None]
        return {
            "milliseconds": [r.milliseconds["total"] for r in counted],
            "rows": statistics.median(r.rows_in for r in counted),
            "answers": {n: _digest(mill, n) for n in names},
            "steps": _steps(counted),
        }


def alone(work: str, files: str, columns: dict[str, str], names: list[str], epochs: int) -> dict[str, Any]:
    """For each view the milliseconds of each epoch of a mill of its own, and a digest of its rows."""
    settings = tm.Settings(**_SETTINGS)
    spark = create_session(settings)
    found: dict[str, Any] = {}
    for name in names:
        place = Path(work) / name
        with tm.Mill(place / "root", spark=spark, settings=settings) as mill:
            reports = _run(mill, place, files, columns, {name: views()[name]}, epochs)
            milliseconds = [0.0 if r is None else r.milliseconds["total"] for r in reports[WARM_UP:]]
            found[name] = {"milliseconds": milliseconds, "answer": _digest(mill, name)}
    return found


def _run(
    mill: tm.Mill, place: Path, files: str, columns: dict[str, str], sql: dict[str, str], epochs: int
) -> list[EpochReport | None]:
    used = [t for t in queries.KEYS if any(t in queries.tables(q) for q in sql.values())]
    reports = []
    for epoch in range(1, epochs + 1):
        appear(files, place / "in", used, epoch)
        if epoch == 1:
            for name in used:
                options = f"path '{place / 'in' / name}', header true, opColumn '{OPERATION}'"
                mill.sql(f"CREATE TABLE {name} ({columns[name]}) USING csv OPTIONS ({options})")
            for name, query in sql.items():
                mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        report = mill.advance()
        assert report is None or not report.failed, report.failed
        reports.append(report)
    return reports


def _digest(mill: tm.Mill, view: str) -> list[Any]:
    """Number of rows, and a hash of them in any order."""
    rows = sorted(str(list(row.values())) for row in mill.read(view).to_pylist())
    return [len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest()]


def _steps(reports: Sequence[EpochReport]) -> list[tuple[str, float]]:
    """Mean milliseconds of task time an epoch, by kind of step and number of such steps."""
    found: dict[str, float] = {}
    kinds = [s.operation for s in reports[0].operators]
    for report in reports:
        for step in report.operators:
            found[step.operation] = found.get(step.operation, 0.0) + step.milliseconds / len(reports)
    return sorted(((f"{kinds.count(k)} {k}", ms) for k, ms in found.items()), key=lambda s: -s[1])


def _write(changes: Changes, place: Path) -> dict[str, str]:
    for epoch in range(1, changes.epochs + 1):
        changes.write(place, epoch)
    return {name: ddl(t.schema) for name, t in changes.tables.items()}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="ten views, a minute or two; the ratio means little")
    options.add_argument("--scale", type=float, default=0.1, help="scale factor: 0.01, 0.1, 1")
    options.add_argument("--epoch-rows", type=int, default=1_000, help="changes an epoch, over all tables")
    options.add_argument("--epochs", type=int, default=12, help="epochs measured")
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--profile", action="store_true", help="the views and steps that cost most")
    given = options.parse_args()
    scale, epochs = (0.01, 4) if given.small else (given.scale, given.epochs)
    names = list(_SMALL) if given.small else list(views())
    with workspace() as place:
        (place / "data").mkdir()
        changes = stream(generate(place / "data", scale), 1, given.epoch_rows, epochs + WARM_UP - 1)
        columns = _write(changes, place / "changes")
        heading(
            f"fifty_views: {len(names)} views, scale factor {scale:g}, {changes.epochs - WARM_UP} epochs of "
            f"{given.epoch_rows:,} changes, {given.rounds} rounds"
        )
        common = {"files": str(place / "changes"), "columns": columns, "names": names, "epochs": changes.epochs}
        one, many = [], []
        for number in range(given.rounds):
            one.append(run_side("benchmarks.fifty_views", "together", work=str(place / f"one{number}"), **common))
            many.append(run_side("benchmarks.fifty_views", "alone", work=str(place / f"many{number}"), **common))
    differ = [n for n in names if one[0]["answers"][n] != many[0][n]["answer"]]
    if differ:
        raise SystemExit(f"fifty_views: the two sides have other rows in {', '.join(differ)}")
    empty = [n for n in names if one[0]["answers"][n][0] == 0]
    together_ms = statistics.median(ms for r in one for ms in r["milliseconds"])
    each = {n: statistics.median(ms for r in many for ms in r[n]["milliseconds"]) for n in names}
    rows = [
        (f"one mill, {len(names)} views", together_ms, max(ms for r in one for ms in r["milliseconds"])),
        (f"{len(names)} mills, sum of medians", sum(each.values()), max(each.values())),
    ]
    table(("", "epoch ms", "most ms"), rows)
    if empty:
        print(f"views without rows: {', '.join(empty)}")
    if given.profile:
        print("steps: " + ", ".join(f"{label} {ms:.1f}" for label, ms in one[0]["steps"][:12]))
        print("alone: " + ", ".join(f"{n} {ms:.0f}" for n, ms in sorted(each.items(), key=lambda e: -e[1])))
    verdict("fifty_views", sum(each.values()) / together_ms, GOAL)


if __name__ == "__main__":
    main()
