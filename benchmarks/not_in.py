"""NOT IN over columns that may be NULL: small epochs against the whole answer computed anew by Spark.

Both sides read the same CSV files: 200,000 rows of ``t`` and 10,000 of ``u`` first, then epochs of a few rows of both,
the last two of which bring a NULL into ``u`` and take it away. The peer runs the batch query after each of them,
into a sink that keeps nothing. Memory is the most that any Python process of the mill ever had resident.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from benchmarks.measuring import heading, run_side, table, workspace
from benchmarks.streaming_peer import session
from benchmarks.tidemill_side import open_mill

QUERY = "SELECT id, k FROM t WHERE k NOT IN (SELECT k FROM u)"
_OP = ", op STRING"
_T, _U = f"id BIGINT, k BIGINT{_OP}", f"k BIGINT{_OP}"


def write(directory: Path, rows: int, keys: int, epochs: int) -> None:
    """Files of both tables, hidden until their epoch."""
    rng = np.random.default_rng(7)
    header = csv.WriteOptions(include_header=False)
    for name in ("t", "u"):
        (directory / name).mkdir(parents=True)
    for number in range(epochs + 3):
        left, right = (rows, keys) if number == 0 else (100, 20)
        ids = np.arange(left) + 10_000_000 * number
        t = {"id": ids, "k": rng.integers(0, 20 * keys, left), "op": np.full(left, "I")}
        u = {"k": rng.integers(0, 20 * keys, right), "op": np.full(right, "I")}
        csv.write_csv(pa.table(t), directory / f"t/.{number}.csv", header)
        csv.write_csv(pa.table(u), directory / f"u/.{number}.csv", header)
    (directory / f"u/.{epochs + 1}.csv").write_text(",I\n")
    (directory / f"u/.{epochs + 2}.csv").write_text(",D\n")


def _released(files: Path, epochs: int) -> Iterator[int]:
    """Lets the files of one epoch after the other appear."""
    for shown in files.glob("*/[0-9]*.csv"):
        shown.unlink()
    for number in range(epochs + 3):
        for name in ("t", "u"):
            (files / name / f"{number}.csv").hardlink_to(files / name / f".{number}.csv")
        yield number


def _peak() -> int:
    """Most megabytes that a Python process below this one has had resident."""
    parents, peaks = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        parents[int(fields["Pid"])] = int(fields["PPid"])
        if fields["Name"].startswith("python") and "VmHWM" in fields:
            peaks[int(fields["Pid"])] = int(fields["VmHWM"].split()[0]) // 1024
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return max((peaks[pid] for pid in below - {os.getpid()} if pid in peaks), default=0)


def views(work: str, files: str, epochs: int) -> dict[str, Any]:
    """Seconds of each epoch of a mill, and its workers' memory."""
    with open_mill(Path(work), listing_seconds=0.0, small_epoch_bytes=0) as mill:
        mill.sql(f"CREATE TABLE t ({_T.removesuffix(_OP)}) USING csv OPTIONS (path '{files}/t', opColumn 'op')")
        mill.sql(f"CREATE TABLE u ({_U.removesuffix(_OP)}) USING csv OPTIONS (path '{files}/u', opColumn 'op')")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
        seconds, rows = [], []
        for _ in _released(Path(files), epochs):
            reports = mill.drain()
            seconds.append(sum(r.milliseconds["total"] for r in reports) / 1e3)
            rows.append(mill.read("v").num_rows)
        return {"seconds": seconds, "rows": rows, "megabytes": _peak()}


def batches(work: str, files: str, epochs: int) -> dict[str, Any]:
    """Seconds of the batch query after each epoch."""
    spark = session("default")
    seconds, rows = [], []
    for _ in _released(Path(files), epochs):
        for name, ddl in (("t", _T), ("u", _U)):
            read = spark.read.schema(ddl).csv(f"{files}/{name}")
            columns = [c for c in read.columns if c != "op"]
            gone = read.where("op = 'D'").select(columns)
            (read.where("op = 'I'").select(columns).exceptAll(gone) if gone.count() else read).createOrReplaceTempView(
                name
            )
        began = time.perf_counter()
        spark.sql(QUERY).write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - began)
        rows.append(spark.sql(QUERY).count())
    spark.stop()
    return {"seconds": seconds, "rows": rows}


def main() -> None:
    """Both sides, in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    rows, keys, epochs = (20_000, 1_000, 5) if given.small else (given.rows, given.keys, given.epochs)
    heading(f"{QUERY}: {rows:,} and {keys:,} rows, then {epochs} epochs of 120 rows")
    with workspace() as work:
        write(work / "files", rows, keys, epochs)
        ours, theirs = (
            run_side("benchmarks.not_in", side, work=str(work / side), files=str(work / "files"), epochs=epochs)
            for side in ("views", "batches")
        )
    assert ours["rows"] == theirs["rows"], (ours["rows"], theirs["rows"])
    lines: list[list[object]] = []
    parts = [("first epoch", 0, 1), ("small epochs, median", 2, epochs + 1), ("a NULL comes", epochs + 1, epochs + 2)]
    for name, start, stop in [*parts, ("the NULL goes", epochs + 2, epochs + 3)]:
        mine, peer = (statistics.median(side["seconds"][start:stop]) for side in (ours, theirs))
        lines.append([name, mine, peer, f"{peer / mine:.2f} x"])
    table(["", "Tidemill (s)", "Spark batch (s)", "ratio"], lines)
    print(f"most memory of a worker: {ours['megabytes']:,} MB")


if __name__ == "__main__":
    main()
