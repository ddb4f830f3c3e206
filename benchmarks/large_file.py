"""A view over a CSV file of 20,000,000 rows, until it is sealed, beside DuckDB's and Polars' batch over the same file.

The sum of a product and a count by one of 100,000 keys. Tidemill runs as ``tidemill run --once`` does by default, in
epochs, from the beginning of the first to the last seal: Spark's start and CREATE come before, as the imports of the
other two do. Sides take turns, and the answers of all must be equal.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import tidemill as tm
from benchmarks.answers import digest, equal
from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.number_files import DDL, write_numbers

GOAL = 0.5
"""A peer's time over Tidemill's: Tidemill takes at most twice as long."""
_QUERY = "SELECT k, SUM(a * c) AS s, COUNT(*) AS n FROM {} GROUP BY k"
_SIDES = ("tidemill", "duckdb", "polars")


def tidemill(file: str, work: str) -> dict[str, Any]:
    """Seconds of all epochs, the shares of the steps in the time of tasks, and the answer."""
    with tm.Mill(Path(work)) as mill:
        mill.sql(f"CREATE TABLE t ({DDL}) USING csv OPTIONS (path '{file}', header true)")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {_QUERY.format('t')}")
        start = time.perf_counter()
        reports = list(mill.drain())
        seconds = time.perf_counter() - start
        steps: dict[str, float] = {}
        for step in (step for report in reports for step in report.operators):
            steps[step.operation] = steps.get(step.operation, 0.0) + step.milliseconds
        shares = {name: milliseconds / sum(steps.values()) for name, milliseconds in steps.items()}
        return {"seconds": seconds, "epochs": len(reports), "shares": shares, "answer": digest(mill.read("v"))}


def duckdb(file: str, work: str) -> dict[str, Any]:
    """Seconds of the query, and the answer."""
    import duckdb as peer

    with peer.connect() as connection:
        columns = ", ".join("'{}': '{}'".format(*column.split()) for column in DDL.split(", "))
        read = f"read_csv('{file}', header = true, columns = {{{columns}}})"
        start = time.perf_counter()
        answer = connection.sql(_QUERY.format(read).replace("SUM(a * c)", "SUM(a * c)::BIGINT")).to_arrow_table()
        return {"seconds": time.perf_counter() - start, "answer": digest(answer)}


def polars(file: str, work: str) -> dict[str, Any]:
    """Seconds of the query in the streaming engine, and the answer."""
    import polars as peer

    types = {"BIGINT": peer.Int64, "INT": peer.Int32, "DOUBLE": peer.Float64, "STRING": peer.String}
    schema = {name: types[kind] for name, kind in (column.split() for column in DDL.split(", "))}
    start = time.perf_counter()
    product = peer.col("a").cast(peer.Int64) * peer.col("c")
    found = peer.scan_csv(file, schema=schema).group_by("k").agg(product.sum().alias("s"), peer.len().alias("n"))
    answer = found.collect(engine="streaming")
    return {"seconds": time.perf_counter() - start, "answer": digest(answer.to_arrow())}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="under a minute; the ratio means little")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--rows", type=int, default=20_000_000)
    options.add_argument("--groups", type=int, default=100_000)
    given = options.parse_args()
    rows, rounds = (500_000, 1) if given.small else (given.rows, given.rounds)
    with workspace() as place:
        file, random = place / "in.csv", np.random.default_rng(1)
        write_numbers(file, random.integers(0, given.groups, rows), random)
        size = file.stat().st_size / 1e6
        heading(f"large_file: {_QUERY.format('t')}; {rows:,} rows, {size:,.0f} MB, {rounds} rounds")
        found: dict[str, list[dict[str, Any]]] = {side: [] for side in _SIDES}
        for number in range(rounds):
            for side in _SIDES:
                work = str(place / f"{side}{number}")
                found[side].append(run_side("benchmarks.large_file", side, file=str(file), work=work))
    same = equal(run["answer"] for runs in found.values() for run in runs)
    middle = {side: statistics.median(run["seconds"] for run in runs) for side, runs in found.items()}
    ours = found["tidemill"]
    shown = []
    for side in _SIDES:
        all_runs = ", ".join(f"{run['seconds']:.2f}" for run in found[side])
        ratio = middle[side] / middle["tidemill"] if same and side != "tidemill" else "-"
        shown.append((side, middle[side], all_runs, int(rows / middle[side]), ratio))
    table(("", "seconds", "of each run", "rows/s", "ratio"), shown)
    share = {name: statistics.median(run["shares"][name] for run in ours) for name in ours[0]["shares"]}
    parts = ", ".join(f"{name} {part:.0%}" for name, part in sorted(share.items(), key=lambda item: -item[1]))
    print(f"tidemill: {ours[0]['epochs']} epochs; of the time of tasks {parts}", flush=True)
    if same:
        verdict("large_file, least of the ratios", min(middle[s] / middle["tidemill"] for s in _SIDES[1:]), GOAL)


if __name__ == "__main__":
    main()
