"""Nexmark q0 to q22, each alone, over epochs of events.

A first epoch loads half as many events as are measured then, in epochs of a given size. Tidemill updates the view;
Structured Streaming (RocksDB, the watermark of the benchmark, 4 seconds) does so where it can run the query, in the
first of update, append and complete mode that it accepts; Spark evaluates the query again over Parquet that is kept
up to date for free. Both get the usual form of a query that Tidemill refuses. Tidemill has no watermark and lets
nothing go. ``--expiring`` deletes auctions with their bids when they have ended; Structured Streaming then gets the
inserts alone, because it has no deletes. There is no ratio to Spark where the answers differ, and none to Structured
Streaming, whose answers go nowhere, where it was given fewer rows. Events are those of the tables that a query reads.
Figures are medians over epochs and rounds.
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
from benchmarks.nexmark.generator import Configuration, generate
from benchmarks.nexmark.queries import NAMES, REWRITTEN, query, standard, tables
from benchmarks.tpch.changes import Changes, ddl

GOAL = 10.0
_PEERS = ("streaming", "spark")
_SMALL = ["q01", "q04", "q12"]
_SEED = 1
_STATIC = ["side_input"]
_WATERMARKS = dict.fromkeys(("person", "auction", "bid"), ("dateTime", "4 seconds"))


def _changes(size: int, epochs: int, first: int, expiring: bool) -> Changes:
    """A first epoch as long as ``first``, then ``epochs`` of ``size``, one more for warming up included."""
    chosen, after = Configuration(), epochs + WARM_UP - 1
    stream = generate((first + after) * size, _SEED, chosen)
    return stream.expiring(size, chosen, after) if expiring else stream.changes(size, after)


def _write(changes: Changes, place: Path, expiring: bool) -> None:
    for epoch in range(1, changes.epochs + 1):
        changes.write(place / "inserts", epoch, deletes=False)
        if expiring:
            changes.write(place / "changes", epoch)
    (place / "left").mkdir()
    for name in changes.tables:
        pq.write_table(changes.surviving(name, changes.epochs), place / "left" / f"{name}.parquet")


def _measure(
    place: Path, number: int, changes: Changes, names: list[str], peers: list[str], expiring: bool
) -> dict[str, Any]:
    """What each side found in a round."""
    queries = {name: (query(name), tables(query(name))) for name in names}
    usual = {name: (standard(name) if name in REWRITTEN else sql, used) for name, (sql, used) in queries.items()}
    given: dict[str, Any] = {"queries": usual, "epochs": changes.epochs}
    streams = {**given, "columns": {n: ddl(t.schema) for n, t in changes.tables.items()}}
    sides: dict[str, dict[str, Any]] = {
        "tidemill": {
            **streams,
            "queries": queries,
            "files": str(place / ("changes" if expiring else "inserts")),
            "deletes": expiring,
        },
        "streaming": {
            **streams,
            "files": str(place / "inserts"),
            "watermarks": _WATERMARKS,
            "static": _STATIC,
        },
        "spark": {**given, "parquet": str(place / "left")},
    }
    found = {}
    for side in ("tidemill", *peers):
        found[side] = run_side("benchmarks.change_sides", side, **sides[side], work=str(place / f"{side}{number}"))
    for name, (_, used) in queries.items():  # Structured Streaming does not count those
        found["tidemill"][name]["given"] -= sum(changes.tables[table].num_rows for table in _STATIC if table in used)
    return found


def _median(rounds: list[dict[str, Any]], side: str, name: str) -> float | None:
    seconds = [s for r in rounds for s in r[side][name].get("seconds", ())]
    return statistics.median(seconds) if seconds else None


def _not_compared(mine: dict[str, Any], theirs: dict[str, Any], expiring: bool) -> str | None:
    """Why a side is not compared with Tidemill: it has no answer, another one, or was given other rows."""
    if "error" in theirs:
        return str(theirs["error"])
    if "answer" in theirs:
        return unlike(mine["answer"], theirs["answer"])
    given, own = theirs["given"], mine["given"]
    return f"it was given {given:,} rows, Tidemill {own:,}" if given < own and not expiring else None


def _report(
    rounds: list[dict[str, Any]], names: list[str], peers: list[str], profile: bool, expiring: bool
) -> list[float]:
    """Print what was found; returns the ratios to Structured Streaming."""
    shown, ratios, notes = [], [], []
    for name in names:
        mine = rounds[0]["tidemill"][name]
        ours = _median(rounds, "tidemill", name)
        assert ours is not None
        row: list[object] = [name, mine["supersteps"], ours * 1e3, int(statistics.median(mine["rows"]) / ours)]
        for side in peers:
            theirs, reason = _median(rounds, side, name), _not_compared(mine, rounds[0][side][name], expiring)
            if reason:
                notes.append(f"{name}: no ratio to {side}: {reason}")
                theirs = None
            row += ["-", "-"] if theirs is None else [theirs * 1e3, theirs / ours]
            if side == "streaming" and theirs is not None:
                ratios.append(theirs / ours)
                row.append(rounds[0][side][name]["mode"])
            elif side == "streaming":
                row.append("-")
        shown.append(row)
        if profile:
            steps = sorted(mine["steps"].items(), key=lambda s: -s[1])
            most = ", ".join(f"{label} {ms:.1f}" for label, ms in steps[:4])
            notes.append(f"{name}: tasks {sum(ms for _, ms in steps):.1f} ms in {len(steps)} steps: {most}")
    heads = [h for side in peers for h in (f"{side} ms", "ratio", *(["mode"] if side == "streaming" else []))]
    table(("", "supersteps", "epoch ms", "events/s", *heads), shown)
    for note in notes:
        print(note)
    return ratios


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.nexmark", description=__doc__)
    options.add_argument("--small", action="store_true", help="three queries, a minute or two; the ratios mean little")
    options.add_argument("--epoch-events", type=int, nargs="+", default=[100_000], help="events an epoch")
    options.add_argument("--epochs", type=int, default=6, help="epochs measured")
    options.add_argument("--queries", nargs="+", default=list(NAMES), choices=NAMES, metavar="qNN")
    options.add_argument("--peers", nargs="*", default=list(_PEERS), choices=_PEERS, metavar="PEER")
    options.add_argument("--expiring", action="store_true", help="auctions go with their bids when they have ended")
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--profile", action="store_true", help="the steps that cost most, by query")
    given = options.parse_args()
    sizes, epochs = ([5_000], 3) if given.small else (given.epoch_events, given.epochs)
    names = _SMALL if given.small else given.queries
    for size in sizes:
        kind = "changes" if given.expiring else "events"
        heading(f"nexmark: {epochs} epochs of {size:,} {kind}, {given.rounds} rounds")
        with workspace() as place:
            changes = _changes(size, epochs, max(1, epochs // 2), given.expiring)
            _write(changes, place, given.expiring)
            rounds = [
                _measure(place, number, changes, names, given.peers, given.expiring) for number in range(given.rounds)
            ]
            ratios = _report(rounds, names, given.peers, given.profile, given.expiring)
        if ratios:
            verdict("nexmark, median of the ratios to Structured Streaming", statistics.median(ratios), GOAL)


if __name__ == "__main__":
    main()
