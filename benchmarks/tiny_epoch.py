"""How long an epoch takes that has almost nothing to do: a file with 10 rows appears.

A grouped aggregate over 1,000 groups, once as a view, once as a streaming query with a trigger that fires at
once. Times are those each system reports for the epoch or batch; neither contains waiting for the file. Answers are
compared: the view with the state of the query.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import streaming_peer as peer
from benchmarks.answers import digest, equal
from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.number_files import write_numbers
from benchmarks.tidemill_side import create_table, open_mill

WARM_UP = 8
GOALS = {"jobs": 4.0, "resident": 50.0}
"""By the setting ``mode``."""


def _files(directory: Path, random: np.random.Generator, count: int) -> None:
    for number in range(count):
        write_numbers(directory / f"f{number:05d}.csv", random.integers(0, 1000, 10), random)


def tidemill(work: str, epochs: int, mode: str) -> dict[str, Any]:
    """Milliseconds of each epoch, and the answer."""
    random, place = np.random.default_rng(1), Path(work)
    _files(place / "in", random, 1)
    with open_mill(place / "root", mode=mode) as mill:
        create_table(mill, "t", str(place / "in"))
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {peer.GROUPED}")
        mill.advance()
        found = []
        for number in range(1, WARM_UP + epochs):
            write_numbers(place / "in" / f"f{number:05d}.csv", random.integers(0, 1000, 10), random)
            time.sleep(0.05)  # the peer also has a moment between batches, in which the file is noticed
            report = mill.advance()
            assert report is not None and report.rows_in == 10
            assert number < WARM_UP or report.resident == (mode == "resident")
            found.append(report.milliseconds["total"])
        return {"milliseconds": found[WARM_UP - 1 :], "answer": digest(mill.read("v"))}


def spark(work: str, epochs: int, store: str) -> dict[str, Any]:
    """Milliseconds of each batch, and the answer."""
    random, place = np.random.default_rng(1), Path(work)
    _files(place / "in", random, 1)
    session = peer.session(store)
    peer.read_files(session, str(place / "in")).createOrReplaceTempView("t")
    query = peer.start(session.sql(peer.GROUPED), place / "checkpoint", available_now=False)
    query.processAllAvailable()
    for number in range(1, WARM_UP + epochs):
        write_numbers(place / "in" / f"f{number:05d}.csv", random.integers(0, 1000, 10), random)
        query.processAllAvailable()
    found = [s * 1e3 for s in peer.batch_seconds(query)]
    query.stop()
    return {"milliseconds": found[WARM_UP:], "answer": digest(peer.grouped(session, place / "checkpoint"))}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="under a minute; the ratio means little")
    options.add_argument("--rounds", type=int, default=2)
    given = options.parse_args()
    epochs, rounds = (5, 1) if given.small else (20, given.rounds)
    stores = ("default",) if given.small else tuple(peer.STORES)
    heading(f"tiny_epoch: 10 rows a file, {epochs} epochs after {WARM_UP} of warm-up, {rounds} rounds")
    found: dict[str, list[float]] = {name: [] for name in (*GOALS, *stores)}
    answers = []

    def run(name: str, side: str, **parameters: Any) -> None:
        one = run_side("benchmarks.tiny_epoch", side, epochs=epochs, **parameters)
        found[name] += one["milliseconds"]
        answers.append(one["answer"])

    with workspace() as place:
        for number in range(rounds):
            for mode in GOALS:
                run(mode, "tidemill", work=str(place / f"{mode}{number}"), mode=mode)
            for store in stores:
                run(store, "spark", work=str(place / f"{store}{number}"), store=store)
    shown = [(name, statistics.median(ms), min(ms), max(ms)) for name, ms in found.items()]
    table(("", "median ms", "least", "most"), shown)
    if not equal(answers):
        return
    best = min(statistics.median(found[s]) for s in stores)
    for mode, goal in GOALS.items():
        verdict(f"tiny_epoch, {mode}", best / statistics.median(found[mode]), goal)


if __name__ == "__main__":
    main()
