"""An epoch of many rows joined with a small table that stands still: looked up in place, or shuffled.

Both sides read the same files: the small table and a few rows first, a few more to warm up, then all other rows in one
epoch, which is timed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from benchmarks.measuring import heading, run_side, table, workspace
from benchmarks.tidemill_side import open_mill

QUERIES = {
    "rows": "SELECT f.id, f.x, d.name FROM f JOIN d ON f.k = d.k WHERE d.g < 10",
    "left outer": "SELECT f.id, f.x, d.name FROM f LEFT JOIN d ON f.k = d.k",
    "max by group": "SELECT d.g, max(f.x) AS m, count(DISTINCT f.k) AS n FROM f JOIN d ON f.k = d.k GROUP BY d.g",
    "sums": "SELECT d.name, sum(f.x) AS s, count(*) AS n FROM f JOIN d ON f.k = d.k GROUP BY d.name",
}


def write(directory: Path, rows: int, keys: int) -> None:
    """Files of both tables: ``f/0.csv`` and ``f/1.csv`` have few rows, ``f/2.csv`` the others."""
    rng = np.random.default_rng(7)
    header = csv.WriteOptions(include_header=False)
    for name in ("f", "d"):
        (directory / name).mkdir(parents=True)
    k = np.arange(keys)
    csv.write_csv(pa.table({"k": k, "name": [f"name {i}" for i in k], "g": k % 100}), directory / "d/0.csv", header)
    for name, count in (("0", 1000), ("1", 1000), ("2", rows)):
        columns = {"id": np.arange(count), "k": rng.integers(0, keys, count), "x": rng.random(count)}
        csv.write_csv(pa.table(columns), directory / f"f/.{name}.csv", header)


def epoch(work: str, files: str, broadcast: bool) -> dict[str, Any]:
    """Seconds, supersteps and state bytes of the large epoch, for each query alone."""
    found = {}
    for number, (name, query) in enumerate(QUERIES.items()):
        for shown in Path(files).glob("f/[0-9].csv"):
            shown.unlink()
        with open_mill(Path(work) / str(number), epoch_bytes=1 << 40, listing_seconds=0.0, small_epoch_bytes=0) as mill:
            told = str(broadcast).lower()
            mill.sql(
                f"CREATE TABLE f (id BIGINT, k INT, x DOUBLE) USING csv OPTIONS (path '{files}/f', broadcast 'false')"
            )
            mill.sql(
                f"CREATE TABLE d (k INT, name STRING, g INT) USING csv OPTIONS (path '{files}/d', broadcast '{told}')"
            )
            mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
            for file in ("0.csv", "1.csv", "2.csv"):
                (Path(files) / "f" / file).hardlink_to(Path(files) / "f" / f".{file}")
                *_, report = mill.drain()
            found[name] = {
                "seconds": report.milliseconds["total"] / 1e3,
                "supersteps": 1 + max(o.depth for o in report.operators),
                "rows": mill.read("v").num_rows,
            }
    return found


def main() -> None:
    """Both sides, in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    rows, rounds = (20_000, 1) if given.small else (given.rows, given.rounds)
    heading(f"An epoch of {rows:,} rows joined with {given.keys:,} rows that stand still: best of {rounds}")
    with workspace() as work:
        write(work / "files", rows, given.keys)
        best: dict[tuple[str, bool], dict[str, Any]] = {}
        for number in range(rounds):
            for told in (True, False):
                place = str(work / f"{number}{told}")
                side = run_side("benchmarks.small_side", "epoch", work=place, files=str(work / "files"), broadcast=told)
                for query, figures in side.items():
                    known = best.setdefault((query, told), figures)
                    best[query, told] = min(known, figures, key=lambda f: f["seconds"])
    lines = []
    for query in QUERIES:
        still, moved = best[query, True], best[query, False]
        assert still["rows"] == moved["rows"] > 0
        steps = f"{still['supersteps']} / {moved['supersteps']}"
        ratio = moved["seconds"] / still["seconds"]
        lines.append([query, still["seconds"], moved["seconds"], f"{ratio:.2f} x", steps])
    table(["query", "looked up (s)", "shuffled (s)", "ratio", "supersteps"], lines)


if __name__ == "__main__":
    main()
