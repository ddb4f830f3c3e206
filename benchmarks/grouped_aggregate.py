"""Rows per second of a grouped aggregate over CSV, against Spark Structured Streaming.

One file of 500,000 rows per epoch and per batch; the first is warm-up on both sides and not counted. The
same query, the same files, 10 to 2,000,000 groups. The peer runs with both of its state stores, and the
ratio is to the faster one. Answers are compared: the view with the state of the query.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from benchmarks import streaming_peer as peer
from benchmarks.answers import digest, equal
from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.number_files import write_files
from benchmarks.tidemill_side import create_table, open_mill

QUERY = peer.GROUPED
GOAL = 15.0


def tidemill(files: str, work: str) -> dict[str, Any]:
    """Seconds of each epoch, and the answer."""
    with open_mill(Path(work)) as mill:
        create_table(mill, "t", files)
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
        seconds = [report.milliseconds["total"] / 1e3 for report in mill.drain()]
        return {"seconds": seconds, "answer": digest(mill.read("v"))}


def spark(files: str, work: str, store: str) -> dict[str, Any]:
    """Seconds of each batch, and the answer."""
    session = peer.session(store)
    peer.read_files(session, files).createOrReplaceTempView("t")
    query = peer.start(session.sql(QUERY), Path(work), available_now=True)
    query.awaitTermination()
    return {"seconds": peer.batch_seconds(query), "answer": digest(peer.grouped(session, Path(work)))}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="under a minute; the ratio means little")
    options.add_argument("--rounds", type=int, default=2)
    given = options.parse_args()
    rows, files, rounds = (20_000, 3, 1) if given.small else (500_000, 5, given.rounds)
    sizes = (10,) if given.small else (10, 100_000, 2_000_000)
    stores = ("default",) if given.small else tuple(peer.STORES)
    heading(f"grouped_aggregate: {QUERY}; {files - 1} x {rows:,} rows after warm-up, {rounds} rounds")
    shown: list[tuple[object, ...]] = []
    ratios, right = [], True
    for groups in sizes:
        with workspace() as place:
            write_files(place / "in", files, rows, groups)
            seconds: dict[str, list[float]] = {"tidemill": [], **{s: [] for s in stores}}
            answers = []
            for number in range(rounds):
                common = {"files": str(place / "in")}
                mine = run_side("benchmarks.grouped_aggregate", "tidemill", work=str(place / f"m{number}"), **common)
                seconds["tidemill"] += mine["seconds"][1:]
                answers.append(mine["answer"])
                for store in stores:
                    work = str(place / f"{store}{number}")
                    theirs = run_side("benchmarks.grouped_aggregate", "spark", work=work, store=store, **common)
                    seconds[store] += theirs["seconds"][1:]
                    answers.append(theirs["answer"])
        best = min(stores, key=lambda s: statistics.median(seconds[s]))
        ours, other = statistics.median(seconds["tidemill"]), statistics.median(seconds[best])
        right &= (same := equal(answers))
        ratios.append(other / ours)
        ratio = other / ours if same else "-"
        shown.append((f"{groups:,} groups", rows / ours, rows / other, best, ours * 1e3, other * 1e3, ratio))
    table(("", "rows/s", "Spark rows/s", "its store", "epoch ms", "batch ms", "ratio"), shown)
    if right:
        verdict("grouped_aggregate, least of the ratios", min(ratios), GOAL)


if __name__ == "__main__":
    main()
