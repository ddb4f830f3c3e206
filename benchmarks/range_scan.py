"""Scans of key ranges over several runs against RocksDB and LMDB, one core: ``python -m benchmarks.range_scan``.

Keys are random; a range is what starts with given bytes. Few long ranges, and many short ones at once. The state table
answers a batch of ranges with one call (:func:`tidemill.state.lookup.lookup.scan_prefix`) whose result is Arrow
columns; the others walk an iterator or cursor and keep the values in a list. Stores take turns as in ``state_store``;
answers must be equal. Load, then overwritten rows in several batches, so that there are several runs to merge.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from benchmarks.measuring import heading, table, verdict, workspace
from benchmarks.turns import Contestant

GOAL = 5.0
STORES = (
    ("tidemill", "StateTable", {}),
    ("rocksdb tuned", "RocksDB", {"tuned": True}),
    ("lmdb", "Lmdb", {}),
)
RANGES = ((1, 4), (1, 64), (2, 1000))


def cell(place: Path, core: int, rows: int, rounds: int) -> list[list[object]]:
    """A line for each kind of range and store: rows per second and how much slower than Tidemill."""
    sides = [
        Contestant(
            name,
            core,
            "benchmarks.key_value_stores",
            kind,
            place=str(place / name),
            key_size=8,
            value_size=8,
            ordered=True,
            **given,
        )
        for name, kind, given in STORES
    ]
    try:
        for side in sides:
            side.call("load", rows=rows, batch=min(rows, 1_000_000))
            for seed in range(5):
                side.call("upsert", rows=rows, batch=rows // 50, seed=100 + seed)
            side.call("scan", length=2, ranges=10, seed=1)
        lines: list[list[object]] = []
        for length, ranges in RANGES:
            times: list[list[float]] = [[] for _ in sides]
            for turn in range(rounds):
                answers = [side.call("scan", length=length, ranges=ranges, seed=turn) for side in sides]
                if len({tuple(answer[2:]) for answer in answers}) != 1:
                    raise SystemExit(f"answers differ: {answers}")
                for answer, seen in zip(answers, times):
                    seen.append(answer[2] / answer[1])
            speeds = [statistics.median(seen) for seen in times]
            for side, speed in zip(sides, speeds):
                name = f"{side.name}, {rows // 1000:,}k rows, {ranges:,} ranges of about {rows >> (8 * length):,}"
                lines.append([name, int(speed / 1e3), speeds[0] / speed, side.call("runs")])
        return lines
    finally:
        for side in sides:
            side.close()


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="under a minute; the ratios mean little")
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--core", type=int, default=0)
    given = options.parse_args()
    if given.small:
        given.rows, given.rounds = 100_000, 3
    heading("range_scan: thousand rows/s of processor time, one core")
    with workspace() as place:
        lines = cell(place, given.core, given.rows, given.rounds)
    table(["", "k rows/s", "ratio", "runs"], lines)
    verdict("the worst", min(float(str(line[2])) for line in lines if line[2] != 1.0), GOAL)


if __name__ == "__main__":
    main()
