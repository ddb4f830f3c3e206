"""Views created over a table of millions of rows while small epochs go on, against a batch run of the same queries.

A mill has three views over the table; a file of 1,000 rows appears every so often. Then an aggregate, a join and an
aggregate over a join are created, one after another. Measured are the time until the rows of the new view have been
read, against ``spark.read.csv`` of the same files in the same session, warm; and what the other views notice: the
epochs that admit the small files, and the time from when a file appears until its epoch is sealed. At the end every
view is compared with the batch answer over all files.
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tidemill as tm
from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.number_files import DDL, write_files, write_numbers
from benchmarks.tidemill_side import create_table
from tidemill.runtime.epoch.report import EpochReport

GOAL_TIME = 1.3
GOAL_EPOCHS = 1.2
OLD = {
    "by_key": "SELECT k, COUNT(*) AS n, SUM(c) AS s FROM {t} GROUP BY k",
    "by_name": "SELECT e, AVG(a) AS x, MAX(c) AS m FROM {t} GROUP BY e",
    "large": "SELECT a % 100 AS d, COUNT(*) AS n, MIN(b) AS m FROM {t} WHERE c > 500000 GROUP BY a % 100",
}
NEW = {
    "aggregate": "SELECT a, COUNT(*) AS n, SUM(c) AS s, MAX(b) AS m FROM {t} GROUP BY a",
    "joined": "SELECT x.k, x.c, x.b, y.e, y.c AS d FROM {t} x JOIN {d} y ON x.k = y.k WHERE x.a < 100",
    "join_sums": "SELECT y.e, COUNT(*) AS n, SUM(x.c) AS s FROM {t} x JOIN {d} y ON x.k = y.k GROUP BY y.e",
}
_KEYS = 10_000


class SmallEpochs:
    """Lets small files appear and runs epochs, each on a thread of its own; a context manager.

    Attributes
    ----------
    epochs : list of (float, EpochReport)
        Every epoch with the time at which it was sealed.
    appeared : dict
        Path of a small file to the time when it was there.
    """

    def __init__(self, mill: tm.Mill, directory: Path, seconds: float) -> None:
        self.mill, self.directory, self.seconds = mill, directory, seconds
        self.epochs: list[tuple[float, EpochReport]] = []
        self.appeared: dict[str, float] = {}
        self.failure: Exception | None = None
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._advance)]

    def __enter__(self) -> SmallEpochs:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.failure is not None:
            raise self.failure

    def between(self, start: float, end: float) -> tuple[list[float], list[float]]:
        """Milliseconds of the epochs sealed in a time that admitted small files, and of the way of those files."""
        epochs, waits = [], []
        for sealed, report in list(self.epochs):
            small = [p for _, p, _, _ in report.read if p in self.appeared]
            if small and start <= sealed <= end:
                epochs.append(report.milliseconds["total"])
                waits += [(sealed - self.appeared[p]) * 1e3 for p in small]
        return epochs, waits

    def backfills(self, start: float, end: float) -> list[float]:
        """Milliseconds of the epochs sealed in a time that read history."""
        found = [(sealed, r.milliseconds["total"]) for sealed, r in list(self.epochs) if r.backfilled]
        return [ms for sealed, ms in found if start <= sealed <= end]

    def _write(self) -> None:
        random, number = np.random.default_rng(2), 0
        while not self._stop.wait(self.seconds):
            path = self.directory / f"small{number:06d}.csv"
            write_numbers(path, random.integers(0, _KEYS, 1_000), random)
            self.appeared[str(path)] = time.perf_counter()
            number += 1

    def _advance(self) -> None:
        try:
            while not self._stop.is_set():
                report = self.mill.advance()
                if report is None:
                    self._stop.wait(0.01)
                else:
                    self.epochs.append((time.perf_counter(), report))
        except Exception as error:  # told to whoever leaves the context
            self.failure = error


def measure(work: str, files: int, rows: int, seconds: float, quiet: float) -> dict[str, Any]:
    """All figures, by view.

    Parameters
    ----------
    files, rows : int
        Files of the table, rows of each.
    seconds : float
        Time between two small files.
    quiet : float
        Seconds for which small epochs are measured before each view is created.
    """
    place = Path(work)
    write_files(place / "t", files, rows, _KEYS)
    write_numbers(place / "d" / "d.csv", np.arange(_KEYS), np.random.default_rng(3))
    found: dict[str, Any] = {}
    with tm.Mill(place / "root", settings=tm.Settings(master="local[2]")) as mill:
        for name in ("t", "d"):
            create_table(mill, name, str(place / name), 1_000_000)
        for name, query in OLD.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query.format(t='t')}")
        mill.sql("CREATE MATERIALIZED VIEW sizes AS SELECT COUNT(*) AS n FROM d")  # so that d is admitted
        for _ in mill.drain():
            pass
        with SmallEpochs(mill, place / "t", seconds) as small:
            time.sleep(3)  # small epochs become warm
            for name, query in NEW.items():
                found[name] = _add(mill, small, name, query, quiet)
        for name, query in NEW.items():
            found[name]["batch"] = _batch_seconds(mill, place, query)
        for _ in mill.drain():
            pass
        for name, query in (OLD | NEW).items():
            mine, theirs = _sorted(mill.read(name)), _sorted(_batch(mill, place, query))
            assert mine.num_rows and mine.equals(theirs), f"{name} is not what the batch run gives"
    return found


def _add(mill: tm.Mill, small: SmallEpochs, name: str, query: str, quiet: float) -> dict[str, Any]:
    start = time.perf_counter()
    time.sleep(quiet)
    created = time.perf_counter()
    mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query.format(t='t', d='d')}")
    planned = time.perf_counter()
    while {n: s for n, s, _, _ in mill.status()}[name] == "initialising" and small.failure is None:
        time.sleep(0.005)
    whole = time.perf_counter()
    rows = mill.read(name).num_rows
    end = time.perf_counter()
    return {
        "create": planned - created,
        "whole": whole - created,
        "read": end - created,
        "rows": rows,
        "before": small.between(start, created),
        "during": small.between(created, whole),
        "backfills": small.backfills(created, whole),
        "load": os.getloadavg()[0],
    }


def _batch(mill: tm.Mill, place: Path, query: str) -> pa.Table:
    for name in ("t", "d"):
        mill.spark.read.schema(DDL).csv(str(place / name), header=True).createOrReplaceTempView(f"{name}_files")
    return mill.spark.sql(query.format(t="t_files", d="d_files")).toArrow()


def _batch_seconds(mill: tm.Mill, place: Path, query: str, runs: int = 3) -> float:
    """Median seconds of a batch run, after one that does not count."""
    seconds = []
    for _ in range(1 + runs):
        started = time.perf_counter()
        _batch(mill, place, query)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


def _sorted(rows: pa.Table) -> pa.Table:
    columns = [pa.chunked_array(rows.column(n)) for n in rows.column_names]
    plain = pa.table(columns, names=rows.column_names).combine_chunks()
    return plain.sort_by([(n, "ascending") for n in plain.column_names])


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else float("nan")


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="under a minute; the ratios mean little")
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--files", type=int, default=8, help="files of the table, of 500,000 rows each")
    options.add_argument("--every", type=float, default=0.25, help="seconds between small files")
    given = options.parse_args()
    files, rows, quiet = (2, 100_000, 3.0) if given.small else (given.files, 500_000, 15.0)
    heading(f"add_view: a table of {files * rows:,} rows, a small file every {given.every:g} s, {given.rounds} rounds")
    rounds = []
    for _ in range(given.rounds):
        with workspace() as place:
            parameters = {"files": files, "rows": rows, "seconds": given.every, "quiet": quiet}
            rounds.append(run_side("benchmarks.add_view", "measure", work=str(place), **parameters))
    times, disturbed, ratios, slower = [], [], [], []
    for name in NEW:
        runs = [r[name] for r in rounds]
        read, batch = _median([r["read"] for r in runs]), _median([r["batch"] for r in runs])
        create, whole = _median([r["create"] for r in runs]), _median([r["whole"] for r in runs])
        times.append((name, runs[0]["rows"], create, whole, read, batch, read / batch, runs[0]["load"]))
        ratios.append(read / batch)
        row: list[object] = [name, sum(len(r["during"][0]) for r in runs)]
        for kind in (0, 1):
            before = _median([ms for r in runs for ms in r["before"][kind]])
            during = _median([ms for r in runs for ms in r["during"][kind]])
            row += [before, during, during / before]
            if kind == 0 and during == during:  # there were some
                slower.append(during / before)
        disturbed.append([*row, _median([ms for r in runs for ms in r["backfills"]])])
    table(("", "rows", "create s", "whole s", "read s", "batch s", "ratio", "load"), times)
    heads = ("small", "epoch ms", "meanwhile", "ratio", "file to seal ms", "meanwhile", "ratio", "backfill epoch ms")
    table(("", *heads), disturbed)
    verdict("add_view, batch / new view, worst", 1 / max(ratios), 1 / GOAL_TIME)
    if slower:
        verdict("add_view, small epochs before / meanwhile, worst", 1 / max(slower), 1 / GOAL_EPOCHS)


if __name__ == "__main__":
    main()
