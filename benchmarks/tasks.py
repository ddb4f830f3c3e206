"""One task for many sets of splits, and what its operators make of rows in order.

Sets of splits: files of 1,000 rows, filtered, expanded, joined with names by a merge join and summed by a streaming
aggregation; by one task that is reused, by a new task for each set, and by a Spark job for each set. Each side takes as
many sets as it is given and says how long one took; the sums over the sets that all have taken must be equal.

Rows: scan, filter, unnest and merge join over larger files, by a task with threads, by DuckDB and by Spark, over the
same files; numbers of rows and sums must be equal.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tidemill as tm
from benchmarks.measuring import heading, run_side, table, verdict, workspace
from tidemill.plan.loading.plan import Plan, Scan

_FILES, _KEYS = 100, 50


def write(directory: Path, files: int, rows: int, keys: int) -> None:
    """``facts``: (k, v, a) sorted by k; ``names``: (k, weight), of the keys of the file of the same number."""
    rng = np.random.default_rng(3)
    for name in ("facts", "names"):
        (directory / name).mkdir(parents=True)
    for number in range(files):
        first = number * keys
        k = np.sort(rng.integers(first, first + keys, rows))
        lengths = rng.integers(0, 4, rows)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        values = rng.integers(0, 1000, int(offsets[-1]))
        facts = {"k": k, "v": rng.integers(0, 100, rows), "a": pa.ListArray.from_arrays(offsets, values)}
        pq.write_table(pa.table(facts), directory / "facts" / f"{number:05}.parquet", row_group_size=131_072)
        named = {"k": np.arange(first, first + keys, 2), "weight": rng.integers(0, 9, (keys + 1) // 2)}
        pq.write_table(pa.table(named), directory / "names" / f"{number:05}.parquet")


def joined(directory: str) -> tuple[Plan, Scan, Scan]:
    """The plan up to the merge join."""
    facts = tm.plan.scan(f"{directory}/facts", name="facts", format="parquet", split_bytes=1 << 40)
    names = tm.plan.scan(f"{directory}/names", name="names", format="parquet", split_bytes=1 << 40)
    return facts.filter(pc.field("v") >= 20).unnest("a").merge_join(names, "k"), facts, names


# -- sets of splits ---------------------------------------------------------------------------------------


def _sets(facts: Scan, names: Scan, count: int) -> list[dict[str, Any]]:
    pairs = zip(facts.splits(), names.splits(), strict=True)
    return list(islice(cycle([{"facts": [f], "names": [n]} for f, n in pairs]), count))


def _summed(plan: Plan) -> Plan:
    return plan.streaming_aggregate("k", n="count(*)", t="sum(a * weight)")


def _told(milliseconds: list[float], sums: list[list[int]]) -> dict[str, Any]:
    return {"ms": statistics.median(milliseconds), "mean": statistics.fmean(milliseconds), "sums": sums[:_FILES]}


def _sums(batches: Any) -> list[int]:
    n = t = 0
    for batch in batches:
        n += pc.sum(batch.column("n")).as_py()
        t += pc.sum(batch.column("t")).as_py()
    return [n, t]


def reused(directory: str, sets: int) -> dict[str, Any]:
    """One task."""
    plan, facts, names = joined(directory)
    milliseconds, sums = [], []
    with tm.Task(_summed(plan)) as task:
        for splits in _sets(facts, names, sets):
            began = time.perf_counter()
            found = _sums(task.run(splits))
            milliseconds.append((time.perf_counter() - began) * 1e3)
            sums.append(found)
    return _told(milliseconds[10:], sums)


def fresh(directory: str, sets: int) -> dict[str, Any]:
    """A new task for each set, of a plan that is there already."""
    plan, facts, names = joined(directory)
    plan = _summed(plan)
    milliseconds, sums = [], []
    for splits in _sets(facts, names, sets):
        began = time.perf_counter()
        with tm.Task(plan) as task:
            found = _sums(task.run(splits))
        milliseconds.append((time.perf_counter() - began) * 1e3)
        sums.append(found)
    return _told(milliseconds[10:], sums)


def jobs(directory: str, sets: int) -> dict[str, Any]:
    """A Spark job for each set."""
    spark = _spark()
    _, facts, names = joined(directory)
    milliseconds, sums = [], []
    for splits in _sets(facts, names, sets):
        began = time.perf_counter()
        spark.read.parquet(splits["facts"][0].path).createOrReplaceTempView("facts")
        spark.read.parquet(splits["names"][0].path).createOrReplaceTempView("names")
        rows = spark.sql(
            "SELECT k, count(*) AS n, sum(x * weight) AS t FROM (SELECT k, explode(a) AS x FROM facts WHERE v >= 20) "
            "JOIN names USING (k) GROUP BY k"
        ).collect()
        milliseconds.append((time.perf_counter() - began) * 1e3)
        sums.append([sum(r.n for r in rows), sum(r.t for r in rows)])
    return _told(milliseconds[3:], sums)


def _spark() -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "2g")
    return builder.config("spark.log.level", "ERROR").getOrCreate()


# -- rows -------------------------------------------------------------------------------------------------


def task_rows(directory: str, threads: int) -> dict[str, Any]:
    """A task with so many threads, over all files in order; the second time."""
    plan, facts, names = joined(directory)
    with tm.Task(plan, threads=threads) as task:
        for _ in range(2):
            gc.collect()
            began, n, t = time.perf_counter(), 0, 0
            for batch in task.run({"facts": facts.splits(), "names": names.splits()}):
                n += batch.num_rows
                t += pc.sum(pc.multiply(batch.column("a"), batch.column("weight"))).as_py() or 0
            seconds = time.perf_counter() - began
    return {"seconds": seconds, "answer": [n, t]}


_QUERY = (
    "SELECT count(*) AS n, sum(x * weight) AS t FROM (SELECT k, {explode}(a) AS x FROM {facts} WHERE v >= 20) AS e "
    "JOIN {names} AS names ON e.k = names.k"
)


def duckdb_rows(directory: str, threads: int) -> dict[str, Any]:
    """DuckDB, which joins as it likes; the second time."""
    connection = duckdb.connect(config={"threads": threads})
    files = {name: f"read_parquet('{directory}/{name}/*.parquet')" for name in ("facts", "names")}
    for _ in range(2):
        began = time.perf_counter()
        (row,) = connection.sql(_QUERY.format(explode="unnest", **files)).fetchall()
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "answer": [int(row[0]), int(row[1])]}


def spark_rows(directory: str) -> dict[str, Any]:
    """Spark on two cores; the second time."""
    spark = _spark()
    files = {name: f"parquet.`{directory}/{name}`" for name in ("facts", "names")}
    for _ in range(2):
        began = time.perf_counter()
        (row,) = spark.sql(_QUERY.format(explode="explode", **files)).collect()
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "answer": [row.n, row.t]}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sets", type=int, default=10_000)
    options.add_argument("--rows", type=int, default=4_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--small", action="store_true")
    given = options.parse_args()
    sets, rows, rounds = (1_000, 200_000, 1) if given.small else (given.sets, given.rows, given.rounds)
    with workspace() as place:
        _measure_sets(place / "sets", sets, rounds)
        _measure_rows(place / "rows", rows, rounds)


def _measure_sets(directory: Path, sets: int, rounds: int) -> None:
    heading(f"tasks: sets of splits of 1,000 rows; {sets:,} by one task, {rounds} rounds in turn")
    write(directory, _FILES, 1_000, _KEYS)
    taken = {"reused": sets, "fresh": max(_FILES, sets // 10), "jobs": _FILES}
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in taken}
    for _ in range(rounds):
        for side, count in taken.items():
            found[side].append(run_side("benchmarks.tasks", side, directory=str(directory), sets=count))
    times = {side: statistics.median(f["ms"] for f in each) for side, each in found.items()}
    table(("ms for a set", "sets", "median", "mean"), [
        [side, taken[side], times[side], statistics.median(f["mean"] for f in each)] for side, each in found.items()
    ])  # fmt: skip
    if len({str(f["sums"]) for each in found.values() for f in each}) != 1:
        print("the sides' answers differ: no ratio")
        return
    verdict("one task against a new one for each set", times["fresh"] / times["reused"], 20)
    verdict("one task against a Spark job for each set", times["jobs"] / times["reused"], 100)


def _measure_rows(directory: Path, rows: int, rounds: int) -> None:
    heading(f"tasks: scan, filter, unnest and merge join of {rows:,} rows, {rounds} rounds in turn")
    write(directory, 16, rows // 16, 5_000)
    found: dict[str, list[dict[str, Any]]] = {"task": [], "DuckDB": [], "Spark": []}
    for _ in range(rounds):
        found["task"].append(run_side("benchmarks.tasks", "task_rows", directory=str(directory), threads=2))
        found["DuckDB"].append(run_side("benchmarks.tasks", "duckdb_rows", directory=str(directory), threads=2))
        found["Spark"].append(run_side("benchmarks.tasks", "spark_rows", directory=str(directory)))
    seconds = {side: statistics.median(f["seconds"] for f in each) for side, each in found.items()}
    table(("side", "s", "rows/s"), [[side, s, round(rows / s)] for side, s in seconds.items()])
    if len({str(f["answer"]) for each in found.values() for f in each}) != 1:
        print("the sides' answers differ: no ratio")
        return
    verdict("against Spark", seconds["Spark"] / seconds["task"], 2)
    verdict("against DuckDB", seconds["DuckDB"] / seconds["task"], 1)


if __name__ == "__main__":
    main()
