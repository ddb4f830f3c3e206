"""What a checkpoint adds to an epoch: none, asynchronous ones and synchronous ones, to S3 with 50 ms latency.

The endpoint is a server on loopback that waits before each request (:mod:`benchmarks.slow_s3`). The mill has two views
and gets a file an epoch. ``none`` never makes a checkpoint after the first, ``asynchronous`` one after every epoch, as
far as uploads keep up, ``synchronous`` calls ``checkpoint()`` after every epoch and waits for it: that counts as part
of the epoch. Sides alternate. The goal is that asynchronous ones add no visible pause: at most a tenth.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.number_files import write_numbers
from benchmarks.slow_s3 import slow_s3
from benchmarks.tidemill_side import create_table, open_mill

VIEWS = (
    "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n, SUM(a) AS s, MAX(b) AS m FROM t GROUP BY k",
    "CREATE MATERIALIZED VIEW w AS SELECT n, COUNT(*) AS groups, MIN(m) AS m FROM v GROUP BY n",
)
SECONDS = {"none": 1e9, "asynchronous": 0.0, "synchronous": 1e9}
GOAL = 1.0


def tidemill(work: str, root: str, mode: str, epochs: int, rows: int, warm_up: int) -> tuple[list[float], int]:
    """Milliseconds of each epoch, with the wait for a checkpoint, and the newest epoch that was durable at the end."""
    random, place = np.random.default_rng(1), Path(work)
    found, durable = [], 0
    (place / "in").mkdir(parents=True)
    with open_mill(root, checkpoint_seconds=SECONDS[mode], buffer_directory=str(place / "buffer")) as mill:
        create_table(mill, "t", str(place / "in"))
        for view in VIEWS:
            mill.sql(view)
        for number in range(warm_up + epochs):
            write_numbers(place / "in" / f"f{number:05d}.csv", random.integers(0, 20_000, rows), random)
            time.sleep(0.1)
            start = time.perf_counter()
            report = mill.advance()
            assert report is not None and report.rows_in == rows
            if mode == "synchronous":
                mill.checkpoint()
            if number >= warm_up:
                found.append((time.perf_counter() - start) * 1e3)
            durable = mill._open().durable_epoch
    return found, durable


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="few epochs; the ratio means little")
    options.add_argument("--epochs", type=int, default=30)
    options.add_argument("--rows", type=int, default=10_000, help="in each epoch")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--latency", type=float, default=50.0, help="of a request, in milliseconds")
    given = options.parse_args()
    epochs, rounds = (6, 1) if given.small else (given.epochs, given.rounds)
    heading(f"async_checkpoint: {given.rows:,} rows an epoch, {epochs} epochs, {given.latency:g} ms a request")
    found: dict[str, list[float]] = {mode: [] for mode in SECONDS}
    durable: dict[str, int] = {}
    with workspace() as place, slow_s3(given.latency, "mill") as environment:
        os.environ.update(environment)
        for number in range(rounds):
            for mode in SECONDS:
                milliseconds, durable[mode] = run_side(
                    "benchmarks.async_checkpoint",
                    "tidemill",
                    work=str(place / f"{mode}{number}"),
                    root=f"s3://mill/{mode}{number}",
                    mode=mode,
                    epochs=epochs,
                    rows=given.rows,
                    warm_up=6,
                )
                found[mode] += milliseconds
    lines = []
    for mode, times in found.items():
        lines.append((mode, *map(float, np.percentile(times, [50, 95, 100])), durable[mode]))
    table(("checkpoints", "p50 ms", "p95 ms", "most", "durable at the end"), lines)
    p50 = {line[0]: line[1] for line in lines}
    verdict("synchronous / asynchronous", p50["synchronous"] / p50["asynchronous"], GOAL)
    verdict("none / asynchronous (1 is no pause)", p50["none"] / p50["asynchronous"], 0.9)


if __name__ == "__main__":
    main()
