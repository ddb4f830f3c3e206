"""Time of an epoch of 1,000 changed keys as state grows from 10^5 to 10^7 keys; it should be flat within 1.5 x.

``extremes`` is a view with MIN and MAX by key and a view over it, so that every changed group is looked up; ``keyed``
is a table with a PRIMARY KEY whose rows are replaced, and a view with sums over it, so that old rows are looked up.
Large epochs load the state; then constant small ones are timed, the median of each size: right after the load, while
what it wrote is merged, and again when merges have ended. The goal is for the latter.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import time
from pathlib import Path

import numpy as np

from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.number_files import DDL, write_numbers
from benchmarks.processes import descendants, processor_seconds
from benchmarks.tidemill_side import create_table, open_mill

LOAD = 1_000_000
GOAL = 1.5
_MOST_SECONDS, _EVERY, _IDLE = 120.0, 2.0, 0.05
KINDS = {
    "extremes": (
        "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n, MIN(c) AS low, MAX(b) AS high FROM t GROUP BY k",
        "CREATE MATERIALIZED VIEW w AS SELECT n, COUNT(*) AS groups, SUM(low) AS s FROM v GROUP BY n",
    ),
    "keyed": ("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n, SUM(c) AS s FROM t GROUP BY a",),
}


def tidemill(
    work: str, kind: str, sizes: list[int], changes: int, epochs: int, warm_up: int
) -> list[tuple[list[float], list[float]]]:
    """For each size milliseconds of the timed epochs, right after the load and when merges have ended."""
    random, place = np.random.default_rng(1), Path(work)
    (place / "in").mkdir(parents=True)
    found: list[tuple[list[float], list[float]]] = []
    number = loaded = 0
    with open_mill(place / "root", history_epochs=8, garbage_grace_seconds=5.0) as mill:
        if kind == "keyed":
            options = f"path '{place / 'in'}', header true, maxFilesPerTrigger 1"
            mill.sql(f"CREATE TABLE t ({DDL}, PRIMARY KEY (k)) USING csv OPTIONS ({options})")
        else:
            create_table(mill, "t", str(place / "in"))
        for view in KINDS[kind]:
            mill.sql(view)

        def epoch(keys: np.ndarray) -> float:
            nonlocal number
            path = place / "in" / f"f{number:06d}.csv"
            number += 1
            write_numbers(path, keys, random)
            report = mill.advance()
            assert report is not None and report.rows_in == len(keys), report
            path.unlink()
            return report.milliseconds["total"]

        for size in sizes:
            while loaded < size:
                upto = min(size, loaded + LOAD)
                epoch(random.permutation(np.arange(loaded, upto)))
                loaded = upto
            timed = []
            for busy in (True, False):
                if not busy:
                    _wait_for_merges()
                milliseconds = []
                for _ in range(warm_up + epochs):
                    milliseconds.append(epoch(random.choice(size, changes, replace=False)))
                    time.sleep(0.05)
                timed.append(milliseconds[warm_up:])
            found.append((timed[0], timed[1]))
    return found


def _wait_for_merges() -> None:
    """Wait until this process and those below it do nearly nothing."""
    until = time.monotonic() + _MOST_SECONDS
    before = -1.0
    while time.monotonic() < until:
        now = 0.0
        for pid in (os.getpid(), *descendants(os.getpid())):
            with contextlib.suppress(OSError):  # it has gone
                now += processor_seconds(pid)
        if before >= 0 and now - before < _IDLE * _EVERY:
            return
        before = now
        time.sleep(_EVERY)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="up to 10^5 keys; the ratio means little")
    options.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    options.add_argument("--epochs", type=int, default=25)
    given = options.parse_args()
    sizes, epochs = ([10_000, 100_000], 6) if given.small else (given.sizes, given.epochs)
    heading(f"flat_epochs: 1,000 changed keys an epoch, {epochs} epochs at each size")
    lines, grown = [], {}
    for kind in KINDS:
        with workspace() as place:
            found = run_side(
                "benchmarks.flat_epochs",
                "tidemill",
                work=str(place),
                kind=kind,
                sizes=sizes,
                changes=1000,
                epochs=epochs,
                warm_up=8,
            )
        for at, when in enumerate(("", ", merged")):
            medians = [statistics.median(times[at]) for times in found]
            grown[kind] = max(medians) / medians[0]
            lines.append((f"{kind}{when}, median ms", *medians, grown[kind]))
            lines.append((f"{kind}{when}, most", *(max(times[at]) for times in found), ""))
    table(("", *(f"{size:,}" for size in sizes), "growth"), lines)
    for kind, growth in grown.items():
        verdict(f"{kind}: flat within {GOAL} x (1 or more is)", GOAL / growth, 1.0)


if __name__ == "__main__":
    main()
