"""How long `mill.read` takes while epochs run, beside the same reads while none does.

A view of 1,000 groups is read again and again: with nothing else going on, with epochs of 10 rows one after the other,
and with epochs of a million rows. Phases alternate in one process. Every answer must be that of a sealed epoch; if one
is not, no ratio is printed.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

import tidemill as tm
from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.number_files import write_numbers
from benchmarks.tidemill_side import create_table, open_mill

QUERY = "SELECT k, COUNT(*) AS n, SUM(c) AS s FROM t GROUP BY k"
GROUPS = 1000
SMALL, LARGE = 10, 1_000_000
WARM_UP = 20
GOAL = 0.5
"""Readers beside epochs take at most twice as long."""


def readers(work: str, seconds: float, rounds: int) -> dict[str, Any]:
    """Milliseconds of each read by phase, the epochs that ran beside them, and whether all answers were right."""
    place, random = Path(work), np.random.default_rng(1)
    number = 0

    def write(rows: int) -> None:
        nonlocal number
        write_numbers(place / "in" / f"f{number:05d}.csv", random.integers(0, GROUPS, rows), random)
        number += 1

    write(LARGE)
    found: dict[str, list[float]] = {"none": [], "small": [], "large": []}
    epochs = {"small": 0, "large": 0}
    sealed, seen = {0}, set[int]()
    with open_mill(place / "root", listing_seconds=0.0) as mill:
        create_table(mill, "t", str(place / "in"))
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
        total = 0

        def advance() -> bool:
            nonlocal total
            report = mill.advance()
            if report is None:
                return False
            total += report.rows_in
            sealed.add(total)
            return True

        advance()
        for _ in range(WARM_UP):
            write(SMALL)
            advance()
            mill.read("v")
        for _ in range(rounds):
            found["none"] += _read(mill, seconds / 2, seen)
            for phase, rows in (("small", SMALL), ("large", LARGE)):
                for _ in range(4 if rows == LARGE else 0):
                    write(rows)
                done = threading.Event()
                thread = threading.Thread(target=_run, args=(phase, done, advance, write, epochs))
                thread.start()
                found[phase] += _read(mill, seconds, seen)
                done.set()
                thread.join()
                while advance():
                    pass
            found["none"] += _read(mill, seconds / 2, seen)
    return {"found": found, "epochs": epochs, "right": seen <= sealed, "answers": len(seen)}


def _run(
    phase: str, done: threading.Event, advance: Callable[[], bool], write: Callable[[int], None], epochs: dict[str, int]
) -> None:
    """Run epochs until told to end."""
    while not done.is_set():
        if phase == "small":
            write(SMALL)
        if advance():
            epochs[phase] += 1
        elif phase == "large":
            write(LARGE)


def _read(mill: tm.Mill, seconds: float, seen: set[int]) -> list[float]:
    """Milliseconds of reads, one after the other, for some seconds; ``seen`` takes the rows that each answer counts."""
    found = []
    until = time.perf_counter() + seconds
    while (started := time.perf_counter()) < until:
        rows = mill.read("v")
        found.append((time.perf_counter() - started) * 1e3)
        assert rows.num_rows == GROUPS
        seen.add(pc.sum(rows["n"]).as_py())
        time.sleep(0.002)  # as a reader who does something with the answer
    return found


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="under a minute; the ratio means little")
    given = options.parse_args()
    seconds, rounds = (4.0, 1) if given.small else (15.0, 3)
    heading(f"readers: mill.read of {GROUPS} groups for {seconds:g} seconds a phase, {rounds} rounds")
    with workspace() as place:
        said = run_side("benchmarks.readers", "readers", work=str(place), seconds=seconds, rounds=rounds)
    found, epochs = said["found"], said["epochs"]
    names = {"none": "no epochs", "small": f"epochs of {SMALL} rows", "large": f"epochs of {LARGE:,} rows"}
    shown = [
        (names[p], len(ms), epochs.get(p, 0), statistics.median(ms), float(np.percentile(ms, 99)), max(ms))
        for p, ms in found.items()
    ]
    table(("beside", "reads", "epochs", "p50 ms", "p99 ms", "most"), shown)
    if not said["right"]:
        print("readers: an answer was that of no sealed epoch, so there is no ratio")
        return
    p99 = {phase: float(np.percentile(ms, 99)) for phase, ms in found.items()}
    for phase in ("small", "large"):
        verdict(f"readers: p99 without epochs to p99 beside {names[phase]}", p99["none"] / p99[phase], GOAL)


if __name__ == "__main__":
    main()
