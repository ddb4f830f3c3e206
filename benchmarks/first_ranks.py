"""Time of an epoch of 100 rows under filters on ranks and numbers, as a table grows from 2,000 to 200,000 rows.

The answer stays small, so the time should not grow: a change is looked up in the order of the rows, of which the
beginning is read. ``whole table`` has no PARTITION BY; ``partitions`` has ten of them; ``all ranks`` has no filter, so
all rows of the table are an answer that changes, and is there for comparison.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import numpy as np

from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.number_files import write_numbers
from benchmarks.tidemill_side import create_table, open_mill

GOAL = 1.5
KINDS = {
    "whole table": "SELECT a, b FROM t QUALIFY rank() OVER (ORDER BY a DESC) <= 10",
    "whole table, dense": "SELECT a, b FROM t QUALIFY dense_rank() OVER (ORDER BY a DESC) <= 10",
    "whole table, rows": "SELECT a, b FROM t QUALIFY row_number() OVER (ORDER BY a DESC, k) <= 10",
    "partitions": "SELECT a, b FROM t QUALIFY rank() OVER (PARTITION BY k % 10 ORDER BY a DESC) <= 10",
    "running sums, last ten": "SELECT * FROM (SELECT a, k, sum(b) OVER (ORDER BY k) AS s FROM t) "
    "ORDER BY k DESC LIMIT 10",
    "ranks of ten rows": "SELECT * FROM (SELECT a, k, rank() OVER (ORDER BY a DESC) AS r FROM t) WHERE k IN "
    "(1, 20, 300, 400, 500, 600, 700, 800, 900, 1000)",
    "all ranks": "SELECT a, b, rank() OVER (ORDER BY a DESC) AS r FROM t",
}


def tidemill(work: str, query: str, sizes: list[int], epochs: int, warm_up: int) -> list[list[float]]:
    """For each size milliseconds of the timed epochs."""
    random, place = np.random.default_rng(1), Path(work)
    (place / "in").mkdir(parents=True)
    found: list[list[float]] = []
    loaded = number = 0
    with open_mill(place / "root") as mill:
        create_table(mill, "t", str(place / "in"))
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")

        def epoch(rows: int) -> float:
            nonlocal loaded, number
            write_numbers(place / "in" / f"f{number:06d}.csv", np.arange(loaded, loaded + rows), random)
            number, loaded = number + 1, loaded + rows
            report = mill.advance()
            assert report is not None and report.rows_in == rows, report
            return report.milliseconds["total"]

        for size in sizes:
            if loaded < size:
                epoch(size - loaded)
            times = [epoch(100) for _ in range(warm_up + epochs)]
            found.append(times[warm_up:])
    return found


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="up to 20,000 rows; the ratio means little")
    options.add_argument("--sizes", type=int, nargs="+", default=[2_000, 200_000])
    options.add_argument("--epochs", type=int, default=15)
    given = options.parse_args()
    sizes, epochs = ([2_000, 20_000], 5) if given.small else (given.sizes, given.epochs)
    heading(f"first_ranks: 100 new rows an epoch, {epochs} epochs at each size")
    lines, grown = [], {}
    for kind, query in KINDS.items():
        with workspace() as place:
            found = run_side(
                "benchmarks.first_ranks",
                "tidemill",
                work=str(place),
                query=query,
                sizes=sizes,
                epochs=epochs,
                warm_up=4,
            )
        medians = [statistics.median(times) for times in found]
        grown[kind] = medians[-1] / medians[0]
        lines.append((f"{kind}, median ms", *medians, grown[kind]))
    table(("", *(f"{size:,}" for size in sizes), "growth"), lines)
    for kind, growth in grown.items():
        if kind != "all ranks":
            verdict(f"{kind}: flat within {GOAL} x (1 or more is)", GOAL / growth, 1.0)


if __name__ == "__main__":
    main()
