"""Opening 1 GB of state: ``python -m benchmarks.recovery [MEGABYTES]``.

State of several tables as checkpoints leave it. Each round is a new process: how long until the footers of all files
are read, then until 1,000 keys of each table are looked up, then until every byte is read and checked; in turn with a
process that reads the same files with Python's ``open`` and does nothing with them. All from the page cache: what is
measured is the work, not the disk. ``--small`` takes seconds.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.measuring import heading, run_side, table, verdict, workspace
from tidemill.state.keys.keys import KeyColumn, encode
from tidemill.state.lookup import lookup
from tidemill.state.merge.merge import MergeOp, consolidate
from tidemill.state.runs import sst
from tidemill.state.runs.sst import RunFile

TABLES = 5
SECTION_ROWS = 500_000
PROBES = 1000
LAYOUT = (KeyColumn(pa.int64()),)
OPS = (MergeOp.SUM, MergeOp.LAST, MergeOp.LAST)
GOAL_SECONDS = 2.0


def build(directory: str, megabytes: int) -> dict[str, int]:
    """Write the files: tables of orders, 8-byte keys, a weight, a price and a note of 16 bytes."""
    written = number = 0
    while written < megabytes << 20:
        rows = min(SECTION_ROWS, max(2000, (megabytes << 20) // (60 * TABLES)))
        parts = []
        for name in range(TABLES):
            ids = np.arange(rows) + number * rows
            notes = pa.array(np.char.add("note of row ", np.char.zfill((ids % 10_000).astype(str), 4)))
            values = [pa.array(np.ones(rows, np.int64)), pa.array(ids * 0.25), notes]
            keys = encode([pa.array(ids)], LAYOUT, 1)
            parts.append((f"t{name}", consolidate(keys, values, OPS, False), OPS))
        path = Path(directory) / f"c{number:010d}.sst"
        sst.write(path, parts)
        written += path.stat().st_size
        number += 1
    return {"bytes": written, "files": number, "rows": rows * number}


def ours(directory: str, rows: int) -> dict[str, float]:
    """Open, look up, verify; seconds."""
    _warm(directory)
    probes = encode([pa.array(np.random.default_rng(1).choice(rows, PROBES, replace=False))], LAYOUT, 1)
    probes = consolidate(probes, [pa.array(np.ones(PROBES, np.int64))], [MergeOp.SUM], False).keys
    types = [pa.int64(), pa.float64(), pa.string()]
    _compile(probes, types)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    start = time.perf_counter()
    files = [RunFile(path) for path in sorted(Path(directory).iterdir())]
    opened = time.perf_counter() - start
    runs = [[file.rows(i) for file in files] for i in range(TABLES)]
    start = time.perf_counter()
    for table_runs in runs:
        found, _ = lookup.get(table_runs, probes, OPS, types)
        assert found.all()
    first = time.perf_counter() - start
    checked = sum(file.checked_bytes() for file in files)
    start = time.perf_counter()
    for table_runs in runs:
        lookup.get(table_runs, probes, OPS, types)
    again = time.perf_counter() - start
    start = time.perf_counter()
    for file in files:
        file.verify()
    verified = time.perf_counter() - start
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    return {"open": opened, "first": first, "again": again, "verify": verified, "checked": checked, "faults": faults}


def _compile(probes: object, types: object) -> None:
    """Load the kernels, as a worker does when it starts."""
    run = consolidate(probes, [pa.array(np.ones(PROBES, np.int64))], [MergeOp.SUM], False)  # type: ignore[arg-type]
    lookup.get([run], run.keys, [MergeOp.SUM], [pa.int64()])


def plain(directory: str) -> dict[str, float]:
    """Read the files; seconds."""
    _warm(directory)
    start = time.perf_counter()
    for path in sorted(Path(directory).iterdir()):
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
    return {"read": time.perf_counter() - start}


def _warm(directory: str) -> None:
    for path in Path(directory).iterdir():
        path.read_bytes()


def main() -> None:
    """Print the medians."""
    small = "--small" in sys.argv
    given = [a for a in sys.argv[1:] if a.isdigit()]
    megabytes, rounds = int(given[0]) if given else 50 if small else 1000, 2 if small else 5
    with workspace() as directory:
        made = run_side("benchmarks.recovery", "build", directory=str(directory), megabytes=megabytes)
        size = made["bytes"]
        what = f"{size / 2**20:,.0f} MB in {made['files']} files, {TABLES} tables, {made['rows']:,} rows each"
        heading(f"Recovery: {what}, medians of {rounds} processes")
        mine, theirs = [], []
        for _ in range(rounds):
            mine.append(run_side("benchmarks.recovery", "ours", directory=str(directory), rows=made["rows"]))
            theirs.append(run_side("benchmarks.recovery", "plain", directory=str(directory)))
    median = {name: statistics.median(m[name] for m in mine) for name in mine[0]}
    read = statistics.median(t["read"] for t in theirs)
    table(
        ["", "seconds", "of plain reads", "GB/s"],
        [
            ["open (footers)", f"{median['open']:.4f}", f"{median['open'] / read:.3f}", ""],
            [f"first {PROBES:,} keys x {TABLES} tables", f"{median['first']:.4f}", f"{median['first'] / read:.3f}", ""],
            ["the same again", f"{median['again']:.4f}", f"{median['again'] / read:.3f}", ""],
            ["verify all", f"{median['verify']:.4f}", f"{median['verify'] / read:.3f}", size / median["verify"] / 1e9],
            ["plain reads", f"{read:.4f}", "1", size / read / 1e9],
        ],
    )
    print(f"checked by the first lookups: {median['checked'] / 2**20:,.1f} MB of {size / 2**20:,.0f} MB")
    verdict("time to open against the goal of 2 s", GOAL_SECONDS / (median["open"] + median["first"]), 1)


if __name__ == "__main__":
    main()
