"""The same three jobs in Tidemill and in its peers: ``python -m benchmarks peers``.

``groups``: ten CSV files grouped by 1,000 keys. ``top``: ten files of JSON lines joined with one of 20,000, summed by
customer, and the ten largest of each region. ``windows``: ten files of JSON lines that arrive one at a time, counted
and summed by minute of event time and 100 keys.

Every side is a process that starts cold. ``answer s`` is from the engine having started to the answer; for ``windows``
it is from the arrival of the last file. ``process s`` is from the start of the process to its end. DuckDB reads all
files once, after the last has arrived: it keeps nothing up to date, and its answers are what the others must equal.
Above a ratio of 1 Tidemill is faster. Peers that are not in the project's environment are installed at their first use.
"""

from __future__ import annotations

import argparse

from benchmarks.measuring import heading, table, workspace
from benchmarks.peers.comparison import COLUMNS, ORACLE, OWN, SIDES, measure, report
from benchmarks.peers.data import write
from benchmarks.peers.jobs import JOBS


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--small", action="store_true", help="few rows, one round: two minutes; ratios mean little")
    options.add_argument("--rows", type=int, default=2_000_000, help="rows of the largest table of each job")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--pace", type=float, default=1.0, help="seconds between two files of windows")
    options.add_argument("--peers", default=",".join(SIDES), help="of " + ",".join(SIDES))
    options.add_argument("--jobs", default=",".join(JOBS), help="of " + ",".join(JOBS))
    given = options.parse_args()
    rows, rounds, pace = (50_000, 1, 0.2) if given.small else (given.rows, given.rounds, given.pace)
    peers, jobs = given.peers.split(","), given.jobs.split(",")
    for name, known in [*((peer, SIDES) for peer in peers), *((job, JOBS) for job in jobs)]:
        if name not in known:
            options.error(f"no {name!r}; there are {', '.join(known)}")
    sides = [side for side in SIDES if side in (*peers, OWN, ORACLE)]
    heading(f"peers: {rows:,} rows a job, medians of {rounds}, a file every {pace:g} s in windows")
    with workspace() as work:
        sizes = write(work / "input", rows)
        found = measure(sides, jobs, work / "input", work / "sides", sizes, rounds, pace)
    table(COLUMNS, [row for job in jobs for row in report(job, found[job])])


if __name__ == "__main__":
    main()
