"""Epochs in tasks that stay, beside epochs as Spark jobs: nothing new, files of 10 and of 10,000 rows.

A grouped aggregate over 1,000 groups: in one partition, in two with an exchange through files in memory, in two between
executors of a cluster, and between executors that take themselves for hosts of their own, which exchange by Flight.
Times are those of ``advance()`` as its caller sees them, which includes listing. No ratio is printed when the views of
the sides differ.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import tidemill as tm
from benchmarks import own_host_daemon
from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.number_files import write_numbers
from benchmarks.tidemill_side import create_table, open_mill

QUERY = "SELECT k, COUNT(*) AS n, SUM(c) AS s, MAX(a) AS m FROM t GROUP BY k"
WARM_UP = 20
ROWS = (0, 10, 10_000)
PLACES: dict[str, dict[str, Any]] = {
    "one partition": {"small_epoch_bytes": 1 << 20},
    "two partitions": {"small_epoch_bytes": 0},
    "two executors": {"small_epoch_bytes": 0, "master": own_host_daemon.MASTER},
    "two hosts": {"small_epoch_bytes": 0, "master": own_host_daemon.MASTER, "spark_conf": own_host_daemon.spark_conf()},
}
"""Settings."""
_BEGIN_SECONDS = 90.0
"""Within which tasks that stay begin on a cluster."""
GOAL_MS = 4.0
"""Of the median with ten rows."""


def side(work: str, mode: str, settings: dict[str, Any], epochs: int) -> dict[str, Any]:
    """Milliseconds of each ``advance()`` by the number of new rows, and a hash of the view at the end."""
    random, place = np.random.default_rng(1), Path(work)
    found: dict[str, Any] = {}
    (place / "in").mkdir(parents=True)
    with open_mill(place / "root", mode=mode, partitions=2, listing_seconds=0.0, **settings) as mill:
        create_table(mill, "t", str(place / "in"))
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
        _begin(mill, place / "in", mode == "resident")
        for rows in ROWS:
            times, ran = [], 0
            for number in range(WARM_UP + epochs):
                if rows:
                    path = place / "in" / f"f{rows:05d}{number:05d}.csv"
                    write_numbers(path, random.integers(0, 1000, rows), random)
                time.sleep(0.02)
                begin = time.perf_counter()
                report = mill.advance()
                times.append((time.perf_counter() - begin) * 1e3)
                assert (report is None) == (not rows) and (report is None or report.rows_in == rows)
                ran += report is not None and report.resident and number >= WARM_UP
            assert ran == (epochs if rows and mode == "resident" else 0)
            found[str(rows)] = times[WARM_UP:]
        view = sorted(map(tuple, mill.read("v").to_pandas().itertuples(index=False)))
        found["view"] = hashlib.sha256(repr(view).encode()).hexdigest()
    return found


def _begin(mill: tm.Mill, directory: Path, resident: bool) -> None:
    """Run epochs without rows until the tasks that stay have begun."""
    end, number = time.monotonic() + _BEGIN_SECONDS, 0
    while time.monotonic() < end:
        write_numbers(directory / f"empty{number:05d}.csv", np.zeros(0, np.int64), np.random.default_rng(1))
        report = mill.advance()
        if not resident or (report is not None and report.resident):
            return
        number += 1
        time.sleep(0.2)
    raise RuntimeError(f"no task has begun within {_BEGIN_SECONDS:g} s")


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="under a minute; the ratios mean little")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--places", nargs="*", default=list(PLACES), choices=list(PLACES), metavar="PLACE")
    given = options.parse_args()
    epochs, rounds = (5, 1) if given.small else (60, given.rounds)
    heading(f"resident_epochs: {epochs} epochs after {WARM_UP} of warm-up, {rounds} rounds in turn")
    for name in given.places[:2] if given.small else given.places:
        sides: dict[str, list[dict[str, Any]]] = {"jobs": [], "resident": []}
        with workspace() as place:
            for number in range(rounds):
                for mode, runs in sides.items():
                    work = str(place / f"{mode}{number}")
                    given_ = {"mode": mode, "settings": PLACES[name], "epochs": epochs}
                    runs.append(run_side("benchmarks.resident_epochs", "side", work=work, **given_))
        if len({run["view"] for runs in sides.values() for run in runs}) > 1:
            print(f"{name}: the views differ: no ratio")
            continue
        shown, medians = [], {}
        for rows in ROWS:
            for mode, runs in sides.items():
                times = [ms for run in runs for ms in run[str(rows)]]
                medians[mode, rows] = statistics.median(times)
                shown.append((f"{name}, {mode}, {rows:,} rows", medians[mode, rows], float(np.percentile(times, 99))))
        table(("", "p50 ms", "p99 ms"), shown)
        for rows in ROWS[1:]:
            verdict(f"{name}, {rows:,} rows, to jobs", medians["jobs", rows] / medians["resident", rows], 1)
        verdict(f"{name}, {GOAL_MS:g} ms for ten rows", GOAL_MS / medians["resident", 10], 1)


if __name__ == "__main__":
    main()
