"""A server for minutes, under readers and queries that come and go, and processes that are killed, beside DuckDB.

``python -m benchmarks soak`` takes half an hour, or ``TIDEMILL_SOAK_MINUTES``; ``TIDEMILL_SEED`` repeats the choices
of a run. It fails with the newest actions as soon as a result is not DuckDB's, a request has no answer or none with
a number, or the server's log has an error. Memory is that of the second half, in which the server is not killed.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.measuring import heading, table, workspace
from benchmarks.soak.error import SoakError
from benchmarks.soak.memory import KINDS, Sample, slope
from benchmarks.soak.soak import Plan, Result, new_seed, run


def report(result: Result) -> None:
    """Print what happened, and how memory and files went."""
    rows = [[name, count] for name, count in sorted(result.counts.items())]
    table(("what", "how often"), [["epochs", result.epoch], *rows])
    print("errors of requests: " + ", ".join(f"{n} {c}" for n, c in sorted(result.numbers.items())))
    if len(result.samples) > 2:
        _report_memory(result.samples)


def _report_memory(samples: list[Sample]) -> None:
    times = [s.at for s in samples]
    lines: list[tuple[str, list[float]]] = [(f"MB of {kind}", [s.megabytes[kind] for s in samples]) for kind in KINDS]
    lines += [
        ("open files of the server", [float(s.open_files) for s in samples]),
        ("threads of the server", [float(s.threads) for s in samples]),
        ("files below the root", [float(s.files) for s in samples]),
        ("MB below the root", [s.root_megabytes for s in samples]),
    ]
    print(f"the last process, {len(samples)} samples over {(times[-1] - times[0]) / 60:.1f} minutes:")
    head = ("what", "first", "most", "last", "an hour")
    table(head, [[name, v[0], max(v), v[-1], slope(times, v)] for name, v in lines])


def main() -> int:
    """Run it and print the figures; 1 when it fails."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = float(os.environ.get("TIDEMILL_SOAK_MINUTES", "30"))
    options.add_argument("--minutes", type=float, default=usual)
    options.add_argument("--small", action="store_true", help="half a minute")
    options.add_argument("--seed", type=int, default=int(os.environ.get("TIDEMILL_SEED") or new_seed()))
    options.add_argument(
        "--calm", type=float, default=0.5, help="the part at the end in which the server is not killed"
    )
    options.add_argument("--master", default="local[2]", help="of Spark; local-cluster[2,1,1024] kills executors, too")
    options.add_argument("--keep", help="a directory that is kept, for what went wrong")
    given = options.parse_args()
    minutes = 0.5 if given.small else given.minutes
    heading(f"soak: {minutes:g} minutes, seed {given.seed}, master {given.master}")
    seconds = 60 * minutes
    plan = Plan(seconds, kill_seconds=max(10.0, min(75.0, seconds / 4)), warm_up_seconds=min(120.0, seconds / 8),
                master=given.master, calm=given.calm)  # fmt: skip
    try:
        if given.keep:
            place = Path(given.keep)
            place.mkdir(parents=True)
            report(run(place, given.seed, plan))
        else:
            with workspace() as place:
                report(run(place, given.seed, plan))
    except SoakError as error:
        if len(error.samples) > 2:
            _report_memory(error.samples)
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    print("all results were those of DuckDB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
