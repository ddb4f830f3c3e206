"""TPC-H over a stream of inserts and deletes, each query alone.

A first epoch loads all rows but the last; epochs of a given size follow and are measured, until the stream of the
scale factor ends. Tidemill updates the view; DuckDB applies the same changes and evaluates the query again; Spark
evaluates it again over Parquet that is kept up to date for free; Structured Streaming (RocksDB) gets the inserts
alone, because it has no deletes. Figures are medians over epochs and rounds.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.answers import unlike
from benchmarks.change_sides import WARM_UP
from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.tpch.changes import Changes, ddl, generate, stream
from benchmarks.tpch.queries import NAMES, query, tables

GOAL = 1.0
_SMALL = ("q01", "q03", "q06", "q13")
_SEED = 1


def _write(changes: Changes, place: Path) -> None:
    for epoch in range(1, changes.epochs + 1):
        changes.write(place / "changes", epoch)
        changes.write(place / "inserts", epoch, deletes=False)
    (place / "left").mkdir()
    for name in changes.tables:
        pq.write_table(changes.surviving(name, changes.epochs), place / "left" / f"{name}.parquet")


def _measure(place: Path, changes: Changes, names: list[str], peers: list[str], rounds: int) -> list[dict[str, Any]]:
    """What each side found, by round."""
    columns = {n: ddl(t.schema) for n, t in changes.tables.items()}
    queries = {name: (query(name), tables(query(name))) for name in names}
    common: dict[str, Any] = {"queries": queries, "epochs": changes.epochs}
    found = []
    for number in range(rounds):
        sides = {}
        for side in ("tidemill", *peers):
            if side == "spark":
                given = {"work": str(place / f"{side}{number}"), "parquet": str(place / "left")}
            else:
                files = place / ("inserts" if side == "streaming" else "changes")
                given = {"work": str(place / f"{side}{number}"), "files": str(files), "columns": columns}
            module = "benchmarks.tpch.sides" if side == "duckdb" else "benchmarks.change_sides"
            sides[side] = run_side(module, side, **given, **common)
        found.append(sides)
    return found


def _median(rounds: list[dict[str, Any]], side: str, name: str) -> float | None:
    seconds = [s for r in rounds if side in r for s in r[side][name].get("seconds", ())]
    return statistics.median(seconds) if seconds else None


def _report(rounds: list[dict[str, Any]], names: list[str], peers: list[str], profile: bool) -> list[float]:
    shown, ratios, notes = [], [], []
    for name in names:
        mine = rounds[0]["tidemill"][name]
        ours = _median(rounds, "tidemill", name)
        assert ours is not None
        row: list[object] = [name, mine["supersteps"], ours * 1e3, int(statistics.median(mine["rows"]) / ours)]
        row.append(int(mine["load"]))
        for side in peers:
            theirs = _median(rounds, side, name)
            if side in ("duckdb", "spark") and (found := unlike(mine["answer"], rounds[0][side][name]["answer"])):
                notes.append(f"{name}: no ratio to {side}, the answers differ: {found}")
                theirs = None
            row += ["-", "-"] if theirs is None else [theirs * 1e3, theirs / ours]
            if side == "duckdb" and theirs is not None:
                ratios.append(theirs / ours)
            if theirs is None and "error" in rounds[0][side][name]:
                notes.append(f"{name} in {side}: {rounds[0][side][name]['error']}")
        shown.append(row)
        if profile:
            steps = sorted(mine["steps"].items(), key=lambda s: -s[1])
            most = ", ".join(f"{label} {ms:.1f}" for label, ms in steps[:4])
            notes.append(f"{name}: tasks {sum(ms for _, ms in steps):.1f} ms in {len(steps)} steps: {most}")
    heads = [h for side in peers for h in (f"{side} ms", "ratio")]
    table(("", "supersteps", "epoch ms", "rows/s", "load rows/s", *heads), shown)
    for note in notes:
        print(note)
    return ratios


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.tpch", description=__doc__)
    options.add_argument("--small", action="store_true", help="four queries, a minute or two; the ratios mean little")
    options.add_argument("--scale", type=float, default=0.1, help="scale factor: 0.01, 0.1, 1")
    options.add_argument("--epoch-rows", type=int, nargs="+", default=[1_000, 100_000], help="changes an epoch")
    options.add_argument("--epochs", type=int, default=12, help="epochs measured of each size, as far as rows suffice")
    options.add_argument("--queries", nargs="+", default=list(NAMES), choices=NAMES, metavar="qNN")
    options.add_argument("--peers", nargs="*", default=["duckdb", "spark", "streaming"], metavar="PEER")
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--profile", action="store_true", help="the steps that cost most, by query")
    given = options.parse_args()
    scale, sizes, epochs = (0.01, [1_000], 4) if given.small else (given.scale, given.epoch_rows, given.epochs)
    names = list(_SMALL) if given.small else given.queries
    for size in sizes:
        with workspace() as place:
            (place / "data").mkdir()
            tables = generate(place / "data", scale)
            most = max(1, sum(t.num_rows for t in tables.values()) // (2 * size))
            changes = stream(tables, _SEED, size, min(epochs + WARM_UP - 1, most))
            _write(changes, place)
            counted = changes.epochs - WARM_UP
            if counted < 1:
                print(f"scale factor {scale:g} has too few rows for epochs of {size:,}")
                continue
            heading(f"tpch: scale factor {scale:g}, {counted} epochs of {size:,} changes, {given.rounds} rounds")
            rounds = _measure(place, changes, names, given.peers, given.rounds)
            ratios = _report(rounds, names, given.peers, given.profile)
            if ratios:
                verdict("tpch, median of the ratios to DuckDB", statistics.median(ratios), GOAL)


if __name__ == "__main__":
    main()
