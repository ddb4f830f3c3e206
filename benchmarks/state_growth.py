"""Time of an epoch with constant input as state grows from 10,000 to 10,000,000 groups.

Large epochs load the state, then constant ones of 100,000 rows are timed. ``stored`` is a view that only appends
to its state; ``read`` is the same view with a view over it, so that every changed group is looked up. Of the keys
either 10,000 are drawn for each epoch (``ten thousand``: as many groups change at every size) or every row draws
one (``any``: more distinct groups change as there are more).
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.number_files import write_numbers
from benchmarks.tidemill_side import create_table, open_mill

VIEW = "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n, SUM(a) AS s, AVG(b) AS x FROM t GROUP BY k"
READER = "CREATE MATERIALIZED VIEW u AS SELECT n, COUNT(*) AS groups, SUM(s) AS s FROM v GROUP BY n"
LOAD = 1_000_000
GOAL = 1.5


def tidemill(
    work: str, sizes: list[int], rows: int, epochs: int, warm_up: int, reader: bool, hot: int
) -> list[list[float]]:
    """For each size milliseconds of the timed epochs; ``hot`` keys per epoch, 0 for any."""
    random, place = np.random.default_rng(1), Path(work)
    (place / "in").mkdir(parents=True)
    found: list[list[float]] = []
    number = loaded = 0
    with open_mill(place / "root", history_epochs=8, garbage_grace_seconds=5.0) as mill:
        create_table(mill, "t", str(place / "in"), 1)
        mill.sql(VIEW)
        if reader:
            mill.sql(READER)

        def epoch(keys: np.ndarray) -> float:
            nonlocal number
            path = place / "in" / f"f{number:06d}.csv"
            number += 1
            write_numbers(path, keys, random)
            report = mill.advance()
            assert report is not None and report.rows_in == len(keys), report
            path.write_bytes(b"")  # the rows are in the mill; keep the name, free the space
            path.unlink()
            return report.milliseconds["total"]

        for size in sizes:
            while loaded < size:
                upto = min(size, loaded + LOAD)
                epoch(random.permutation(np.arange(loaded, upto)))
                loaded = upto
            found.append([])
            for at in range(warm_up + epochs):
                among = random.choice(size, hot, replace=False) if hot else np.arange(size)
                milliseconds = epoch(random.choice(among, rows))
                if at >= warm_up:
                    found[-1].append(milliseconds)
                time.sleep(0.05)
    return found


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="under a minute; the ratio means little")
    given = options.parse_args()
    sizes = [1_000, 10_000] if given.small else [10_000, 100_000, 1_000_000, 10_000_000]
    rows, epochs, warm_up = (10_000, 4, 2) if given.small else (100_000, 20, 6)
    heading(f"state_growth: {rows:,} rows an epoch, {epochs} epochs at each size")
    shown, grown = [], []
    for hot in (sizes[0],) if given.small else (sizes[0], 0):
        for reader in (False, True):
            with workspace() as place:
                found = run_side(
                    "benchmarks.state_growth",
                    "tidemill",
                    work=str(place),
                    sizes=sizes,
                    rows=rows,
                    epochs=epochs,
                    warm_up=warm_up,
                    reader=reader,
                    hot=hot,
                )
            medians = [statistics.median(ms) for ms in found]
            name = f"{'read' if reader else 'stored'}, keys {f'{hot:,} an epoch' if hot else 'any'}"
            shown += [
                (f"{name}, {size:,} groups", middle, max(ms), middle / medians[0])
                for size, ms, middle in zip(sizes, found, medians)
            ]
            if hot:
                grown.append(max(medians) / min(medians))
    table(("", "median ms", "most ms", "to first"), shown)
    print(f"state_growth, same number of keys an epoch: grew {max(grown):.2f} x, goal at most {GOAL:g} x", flush=True)
    verdict("state_growth (goal / growth)", GOAL / max(grown), 1.0)


if __name__ == "__main__":
    main()
