"""Batch upserts and lookups in a state table against RocksDB and LMDB, one core: ``python -m benchmarks.state_store``.

All stores live at once in processes of their own, bound to one core, and take turns batch by batch (see
:mod:`benchmarks.turns`); background threads run in their store's turns only. Each store is loaded with ``--rows`` rows,
then random rows are overwritten, and between the batches keys are looked up, nine of ten of which exist; all answers
must be equal. Upserts are compared by the sum of their times, since merging runs is paid by some batches for all;
lookups by the median. A ratio is of processor seconds (all threads): on the wall it is shown beside.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Collection
from pathlib import Path

from benchmarks.measuring import heading, table, verdict, workspace
from benchmarks.turns import Contestant

GOAL = 5.0
STORES = (
    ("tidemill", "StateTable", {}),
    ("rocksdb", "RocksDB", {}),
    ("rocksdb tuned", "RocksDB", {"tuned": True}),
    ("lmdb", "Lmdb", {}),
)


def cell(
    place: Path, core: int, stores: Collection[str], rows: int, key: int, value: int, batch: int, turns: int
) -> list[list[object]]:
    """One line a store: thousand rows per second of upserts and lookups, and how much slower than Tidemill it is."""
    sides = [
        Contestant(
            n, core, "benchmarks.key_value_stores", kind, place=str(place / n), key_size=key, value_size=value, **o
        )
        for n, kind, o in STORES
        if n in stores
    ]
    try:
        loads = [side.call("load", rows=rows, batch=min(rows, 1_000_000)) for side in sides]
        for side in sides:  # compiles, opens, fills caches
            side.call("lookup", rows=rows, batch=batch, seed=1)
        upserts: list[list[tuple[float, float]]] = [[] for _ in sides]
        lookups: list[list[tuple[float, float]]] = [[] for _ in sides]
        for turn in range(turns):
            for side, times in zip(sides, upserts):
                times.append(tuple(side.call("upsert", rows=rows, batch=batch, seed=100 + turn)))
            if turn % max(1, turns // 15):
                continue
            answers = [side.call("lookup", rows=rows, batch=batch, seed=10_000 + turn) for side in sides]
            for times, answer in zip(lookups, answers):
                times.append((answer[0], answer[1]))
            if len({tuple(answer[2:]) for answer in answers}) != 1:
                raise SystemExit(f"answers differ: {answers}")
        found: list[list[object]] = []
        lines: list[list[float]] = []
        for load, written, read in zip(loads, upserts, lookups):
            lines.append(
                [
                    rows / load[1],
                    batch * turns / sum(cpu for _, cpu in written),
                    batch * turns / sum(wall for wall, _ in written),
                    batch / statistics.median(cpu for _, cpu in read),
                    batch / statistics.median(wall for wall, _ in read),
                ]
            )
        for side, line in zip(sides, lines):
            mine = lines[0]
            found.append(
                [
                    f"{side.name} {rows // 1000:,}k rows, key {key}, value {value}, batch {batch // 1000}k",
                    int(line[0] / 1e3),
                    int(line[1] / 1e3),
                    mine[1] / line[1],
                    mine[2] / line[2],
                    int(line[3] / 1e3),
                    mine[3] / line[3],
                    mine[4] / line[4],
                    side.call("size") >> 20,
                    side.call("runs"),
                ]
            )
        return found
    finally:
        for side in sides:
            side.close()


def main() -> None:
    """Measure every cell and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="under a minute; the ratios mean little")
    options.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    options.add_argument("--keys", type=int, nargs="+", default=[8, 32], help="bytes")
    options.add_argument("--values", type=int, nargs="+", default=[8], help="bytes")
    options.add_argument("--batches", type=int, nargs="+", default=[10_000, 100_000])
    options.add_argument("--turns", type=int, default=60, help="batches written in each cell")
    options.add_argument("--core", type=int, default=0)
    names = [name for name, *_ in STORES]
    options.add_argument("--stores", nargs="+", default=names, choices=names, help="the first is always there")
    given = options.parse_args()
    if given.small:
        given.rows, given.keys, given.batches, given.turns = [100_000], [8], [10_000], 20
    heading("state_store: thousand rows/s, one core; ratios above 1: Tidemill is so many times faster")
    lines: list[list[object]] = []
    stores = {STORES[0][0], *given.stores}
    names = ["", "load", "upsert", "ratio", "(wall)", "lookup", "ratio", "(wall)", "MB", "runs"]
    for rows in given.rows:
        for key in given.keys:
            for value in given.values:
                for batch in given.batches:
                    with workspace() as place:
                        found = cell(place, given.core, stores, rows, key, value, batch, given.turns)
                    table(names, found)
                    lines += found
    for kind, at in (("upsert", 3), ("lookup", 6)):
        for name, *_ in STORES[1:]:
            ratios = [float(str(line[at])) for line in lines if str(line[0]).rsplit(" ", 8)[0] == name]
            if ratios:
                verdict(f"{kind}, the worst cell against {name}", min(ratios), GOAL)


if __name__ == "__main__":
    main()
