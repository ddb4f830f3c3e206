"""Local exchange: rows parted for several pipelines, in turn or by hash, and gathered."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from task_runs import INT, check_everywhere, cut, files, numbered, run_all, table_of

from tidemill.plan.loading.plan import Plan, merge_sorted
from tidemill.task.task import Task


@pytest.mark.parametrize("by", [(), ("k",), ("k", "n")])
def test_parallel_pipelines_give_what_one_does(by: tuple[str, ...], tmp_path: Path, rng: random.Random) -> None:
    """In turn even the order is that of one pipeline; by hash the rows of a batch come by pipeline."""
    scan = numbered(tmp_path, rng)

    def work(rows: Plan) -> Plan:
        return rows.filter(pc.field("n") != 7).select("n", twice=pc.multiply(pc.field("n"), 2))

    for parts in (1, 2, 5):
        plan = scan.parallel(parts, work, by)
        for _ in range(2):
            sets = cut(rng, [scan])
            alone = run_all(work(scan), sets)
            found = run_all(plan, sets)
            check_everywhere(plan, sets, found)
            for one, several in zip(alone, found, strict=True):
                assert (several if by == () else several.sort_by("n")).equals(one)


@pytest.mark.parametrize("by", [(), ("k",)])
def test_pipelines_within_pipelines(by: tuple[str, ...], tmp_path: Path, rng: random.Random) -> None:
    """Rows still come in the order of the batches that they come from."""
    scan = numbered(tmp_path, rng)

    def inner(rows: Plan) -> Plan:
        return rows.parallel(2, lambda part: part.limit(1 << 40))

    plan = scan.parallel(3, inner, by)
    for _ in range(3):
        sets = cut(rng, [scan])
        found = run_all(plan, sets)
        check_everywhere(plan, sets, found)
        for splits, table in zip(sets, found, strict=True):
            with Task(scan) as task:
                batches = [b.column("n").to_pylist() for b in task.run(splits)]
            numbers, at = table.column("n").to_pylist(), 0
            for batch in batches:
                rows = numbers[at : at + len(batch)]
                assert (sorted(rows) if by else rows) == batch
                at += len(batch)


@pytest.mark.slow
def test_held_groups_come_by_pipeline(tmp_path: Path, rng: random.Random, spark: SparkSession) -> None:
    """Each pipeline has the groups of its keys, and gives the last of them at the barrier."""
    rows = sorted(rng.choices(range(40), k=300))
    scan = files(tmp_path, [pa.table({"k": pa.array(rows[i : i + 20], INT)}) for i in range(0, 300, 20)])
    plan = scan.parallel(3, lambda part: part.streaming_aggregate("k", n="count(*)"), by="k")
    sets = [{"input": scan.splits()}] * 2
    found = run_all(plan, sets)
    for _ in range(10):
        check_everywhere(plan, sets, found)
    assert Counter(dict(zip(*found[0].to_pydict().values(), strict=True))) == Counter(rows)


@pytest.mark.parametrize("threads", [0, 2])
def test_a_pipeline_without_rows_does_not_hold_up_the_others(threads: int, tmp_path: Path) -> None:
    """All rows have one key, so all other pipelines get none: rows come out long before all splits are read."""
    scan = files(tmp_path, [pa.table({"k": pa.array([5, 5, 5], INT)})] * 100)
    plan = scan.parallel(3, lambda part: part.filter(pc.field("k") > 0), by="k")
    with Task(plan, threads=threads) as task:
        for split in scan.splits():
            task.add_split(scan, split)
        task.request_barrier()
        rows = 0
        while rows < 12:
            batch = task.next()
            if batch is None:
                assert task.pending is not None
                task.pending.result(timeout=30)
            else:
                rows += batch.num_rows
        assert task.stats().splits["input"] < 70


def test_groups_by_pipeline(tmp_path: Path, rng: random.Random) -> None:
    parts = [
        files(tmp_path, [pa.table({"k": pa.array(sorted(rng.choices(range(9), k=20)), INT)})], f"in{i}")
        for i in range(3)
    ]
    plan = merge_sorted(*parts, on="k")
    splits = {p.name: p.splits() for p in parts}
    expected = sorted(k for p in parts for k in table_of(p, Task(p).run({p.name: p.splits()})).column("k").to_pylist())
    found = run_all(plan, [splits, splits])
    assert found[0].column("k").to_pylist() == expected
    check_everywhere(plan, [splits, splits], found)
