"""Streaming aggregation beside DuckDB, with the last group forced out at every barrier."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from task_runs import check_everywhere, cut, files, run_fresh

from tidemill.errors import TidemillError
from tidemill.task.task import Task

RESULTS = {"rows": "count(*)", "some": "count(v)", "total": "sum(v)", "least": "min(s)", "mean": "avg(d)"}
CALLS = ", ".join(f"{text} AS {name}" for name, text in RESULTS.items())


def rows(rng: random.Random, count: int, keys: int) -> pa.Table:
    found = sorted((rng.choice((-1, *range(keys))), rng.random()) for _ in range(count))
    return pa.table(
        {
            "k": pa.array([None if k < 0 else k for k, _ in found], pa.int64()),
            "v": pa.array([rng.choice((None, rng.randrange(-9, 9))) for _ in found], pa.int64()),
            "s": pa.array([rng.choice((None, "a", "ö", "")) for _ in found], pa.string()),
            "d": pa.array([rng.choice((None, rng.randrange(8) / 4)) for _ in found], pa.float64()),
        }
    )


def test_random_rows(spark: SparkSession, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    made = [rows(rng, rng.choice((0, 1, 25)), rng.choice((1, 6))) for _ in range(9)]
    scan = files(tmp_path, made)
    by_path = dict(zip([s.path for s in scan.splits()], made, strict=True))
    by_key = scan.streaming_aggregate("k", **RESULTS)
    alone = scan.streaming_aggregate(**RESULTS)
    finished = scan.streaming_aggregate("k", twice="2 * sum(v) + count(*)")
    for _ in range(2):
        sets = [{"input": s["input"][:1]} for s in cut(rng, [scan])]  # one file is sorted, two are not
        for plan, query in (
            (by_key, f"SELECT k, {CALLS} FROM t GROUP BY k ORDER BY k NULLS FIRST"),
            (alone, f"SELECT {CALLS} FROM t"),
            (finished, "SELECT k, 2 * sum(v) + count(*) AS twice FROM t GROUP BY k ORDER BY k NULLS FIRST"),
        ):
            expected = []
            for splits in sets:
                connection = duckdb.connect()
                connection.register(
                    "t", pa.concat_tables([made[0].slice(0, 0), *(by_path[s.path] for s in splits["input"])])
                )
                expected.append(connection.sql(query).to_arrow_table().cast(plan.schema.to_arrow()).combine_chunks())
            check_everywhere(plan, sets, expected)


def keys(*values: int) -> pa.Table:
    return pa.table({"k": pa.array(values, pa.int64())})


def test_a_key_on_both_sides_of_files_and_of_barriers(spark: SparkSession, tmp_path: Path) -> None:
    scan = files(tmp_path, [keys(1, 2, 2), keys(2), keys(2, 3), keys(3)])
    plan = scan.streaming_aggregate("k", n="count(*)")
    first, second, third, fourth = scan.splits()
    assert run_fresh(plan, {"input": scan.splits()}).to_pydict() == {"k": [1, 2, 3], "n": [1, 4, 2]}
    with Task(plan) as task:
        taken = [b.to_pydict() for s in ((first, second), (third, fourth)) for b in task.run({"input": s})]
    assert [(k, n) for b in taken for k, n in zip(b["k"], b["n"], strict=True)] == [(1, 1), (2, 3), (2, 1), (3, 2)]


def test_groups_come_out_as_soon_as_they_are_complete(spark: SparkSession, tmp_path: Path) -> None:
    scan = files(tmp_path, [keys(1), keys(2), keys(3)])
    with Task(scan.streaming_aggregate("k", n="count(*)")) as task:
        for split in scan.splits():
            task.add_split(scan, split)
        task.request_barrier()
        assert task.next().to_pydict() == {"k": [1], "n": [1]}  # type: ignore[union-attr]
        assert task.stats().splits == {"input": 2}


def test_what_cannot_be_streamed(spark: SparkSession, tmp_path: Path) -> None:
    scan = files(tmp_path, [keys(2, 1)])
    with pytest.raises(TidemillError, match="TM9016"):
        scan.streaming_aggregate("k", n="count(DISTINCT k)")
    with pytest.raises(TidemillError, match="TM2004"):
        scan.streaming_aggregate("k", n="sum(x)")
    plan = scan.streaming_aggregate("k", n="count(*)")
    with pytest.raises(TidemillError, match="TM9020") as raised:
        run_fresh(plan, {"input": scan.splits()})
    assert "input of a streaming aggregation: (1) in row 1 behind (2)" in raised.value.got
    with pytest.raises(TidemillError, match="TM9010"):
        Task(plan, barrier="retain")
