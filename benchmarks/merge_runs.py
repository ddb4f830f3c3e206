"""Merging four sorted runs against PyArrow's sort of the same rows, one core: ``python -m benchmarks.merge_runs``.

Runs have a million rows each, a key of 11 or 40 bytes (an encoded number of 8 bytes, a string of 32) and two values,
a weight and a number. ``unique`` keys are in one run each, ``overlapping`` ones in all four. PyArrow concatenates the
runs as tables, sorts by key and takes; where keys overlap it also sums by key, ordered (``group_by`` without
threads, then sort). Answers are compared. Rounds alternate; the ratio is of median processor time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.key_value_stores import key_bytes, key_words
from benchmarks.measuring import heading, table, verdict
from tidemill.state.keys.keys import KeyColumn, encode
from tidemill.state.merge.merge import MergeOp, Rows, consolidate, merge

GOAL = 3.0
OPS = [MergeOp.SUM, MergeOp.SUM]


def make_runs(rows: int, key: int, overlapping: bool) -> list[Rows]:
    """Four runs of ``rows`` rows."""
    runs = []
    for number in range(4):
        ids = np.arange(rows) if overlapping else np.arange(rows) * 4 + number
        if key == 8:
            column = pa.array(key_words(ids).view(np.int64))
        else:
            column = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(key), rows, [None, pa.py_buffer(key_bytes(ids, key).tobytes())]
            ).cast(pa.binary())
        values = [pa.array(np.ones(rows, np.int64)), pa.array(ids + number)]
        runs.append(consolidate(encode([column], [KeyColumn(column.type)], 1), values, OPS, False))
    return runs


def as_table(rows: Rows) -> pa.Table:
    """Keys as a binary column, as a PyArrow user would have them, and the values."""
    return pa.table({"k": rows.keys.to_arrow(), "n": rows.values[0], "v": rows.values[1]})


def arrow_sort(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate, sort, take."""
    together = pa.concat_tables(tables).combine_chunks()
    return together.take(pc.sort_indices(together, sort_keys=[("k", "ascending")]))


def arrow_sum(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate, sum by key, sort."""
    together = pa.concat_tables(tables).combine_chunks()
    summed = together.group_by("k", use_threads=False).aggregate([("n", "sum"), ("v", "sum")])
    return summed.sort_by("k")


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds, and the answer."""
    start = time.process_time()
    answer = work()
    return time.process_time() - start, answer


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="under a minute; the ratios mean little")
    options.add_argument("--rows", type=int, default=1_000_000, help="of each run")
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    if given.small:
        given.rows, given.rounds = 50_000, 2
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {0})
    pa.set_cpu_count(1)
    heading(f"merge_runs: four runs of {given.rows:,} rows, one core, milliseconds")
    lines, ratios = [], []
    for key in (8, 32):
        for overlapping in (False, True):
            runs = make_runs(given.rows, key, overlapping)
            tables = [as_table(run) for run in runs]
            theirs = arrow_sum if overlapping else arrow_sort
            merge([run.slice(0, 1000) for run in runs], OPS, False)
            pairs = []
            for _ in range(given.rounds):
                mine, merged = timed(lambda runs=runs: merge(runs, OPS, False))
                other, answer = timed(lambda tables=tables, theirs=theirs: theirs(tables))
                pairs.append((mine, other))
            for ours, column in zip(as_table(merged).columns, answer.columns):
                if not ours.combine_chunks().equals(column.combine_chunks()):
                    raise SystemExit("answers differ")
            mine, other = (statistics.median(side) * 1e3 for side in zip(*pairs))
            kind = "overlapping" if overlapping else "unique"
            lines.append([f"key {key}, {kind}", mine, other, other / mine])
            ratios.append(other / mine)
    table(["", "merge", "pyarrow", "ratio"], lines)
    verdict("the worst", min(ratios), GOAL)


if __name__ == "__main__":
    main()
