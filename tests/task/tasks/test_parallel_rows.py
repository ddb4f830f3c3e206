"""Rows parted for several pipelines, gathered, merged and concatenated; and the first rows of them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from task_runs import check_everywhere, cut, files, run_all, table_of

from tidemill.errors import TidemillError
from tidemill.plan.loading.plan import Plan, Scan, concatenate, merge_sorted
from tidemill.task.task import Task

INT = pa.int64()


@pytest.fixture
def rng() -> random.Random:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    return random.Random(seed)


def numbered(tmp_path: Path, rng: random.Random, name: str = "input") -> Scan:
    """Rows (n, k): n counts all rows."""
    made, first = [], 0
    for _ in range(10):
        count = rng.choice((0, 1, 30))
        ns = range(first, first + count)
        made.append(pa.table({"n": pa.array(ns, INT), "k": pa.array([rng.choice((None, *range(5))) for _ in ns], INT)}))
        first += count
    return files(tmp_path, made, name)


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


def test_sorted_inputs_in_order(tmp_path: Path, rng: random.Random) -> None:
    """Of equal keys those of the first input come first, in their order; also of many files, and descending."""
    for trial, descending in ((0, False), (1, True), (2, False)):
        rows: list[list[tuple[int | None, int]]] = []
        for number in range(3):
            keys = [rng.choice((None, *range(6))) for _ in range(rng.choice((0, 1, 40)))]
            keys.sort(key=lambda k: (k is not None, k or 0), reverse=descending)
            rows.append([(k, 1000 * number + i) for i, k in enumerate(keys)])
        directory = tmp_path / str(trial)
        directory.mkdir()
        scans = []
        for number, one in enumerate(rows):
            cuts = sorted(rng.randrange(len(one) + 1) for _ in range(3))
            pieces = [one[a:b] for a, b in zip([0, *cuts], [*cuts, len(one)], strict=True)]
            schema = pa.schema([("k", INT), ("i", INT)])
            tables = [pa.Table.from_pylist([{"k": k, "i": i} for k, i in p], schema=schema) for p in pieces]
            scans.append(files(directory, tables, f"in{number}"))
        plan = merge_sorted(*scans, on="k", descending=descending)
        every = [r for one in rows for r in one]
        every.sort(key=lambda r: (r[0] is not None, r[0] or 0) if not descending else (r[0] is None, -(r[0] or 0)))
        expected = pa.Table.from_pylist([{"k": k, "i": i} for k, i in every], schema=plan.schema.to_arrow())
        splits = {s.name: s.splits() for s in scans}
        check_everywhere(plan, [splits, splits], [expected, expected])


def test_one_node_after_the_other(tmp_path: Path, rng: random.Random) -> None:
    first, second = numbered(tmp_path, rng, "first"), numbered(tmp_path, rng, "second")
    plan = concatenate(first, second, first.select("n", "k"))
    for sets in (cut(rng, [first, second]) for _ in range(3)):
        expected = [
            pa.concat_tables([a, b, a]).combine_chunks()
            for a, b in zip(
                run_all(first, [{"first": s["first"]} for s in sets]),
                run_all(second, [{"second": s["second"]} for s in sets]),
                strict=True,
            )
        ]
        check_everywhere(plan, sets, expected)


@pytest.mark.parametrize(("rows", "offset"), [(0, 0), (1, 0), (25, 3), (1000, 50), (7, 10_000)])
def test_the_first_rows_of_each_set(rows: int, offset: int, tmp_path: Path, rng: random.Random) -> None:
    scan = numbered(tmp_path, rng)
    plan = scan.limit(rows, offset)
    for sets in (cut(rng, [scan]) for _ in range(3)):
        check_everywhere(plan, sets, [t.slice(offset, rows).combine_chunks() for t in run_all(scan, sets)])


def test_splits_behind_the_first_rows_are_not_read(tmp_path: Path) -> None:
    scan = files(tmp_path, [pa.table({"n": [1, 2, 3]})] * 30)
    with Task(scan.limit(4)) as task:
        assert sum(b.num_rows for b in task.run({"input": scan.splits()})) == 4
        stats = task.stats()
        assert stats.splits["input"] + stats.splits_left_out["input"] == 30 and stats.splits_left_out["input"] >= 20
        assert sum(b.num_rows for b in task.run({"input": scan.splits()[:1]})) == 3


def test_a_scan_that_is_read_twice(tmp_path: Path, rng: random.Random) -> None:
    """A diamond whose sides take turns as one of them fills up: it must not stand still."""
    scan = numbered(tmp_path, rng)
    plan = concatenate(scan.filter(pc.field("n") >= 0), scan.filter(pc.field("n") < 0), scan)
    joined = scan.merge_join(scan.select("n"), "n", "inner")
    for sets in (cut(rng, [scan]) for _ in range(3)):
        plain = run_all(scan, sets)
        check_everywhere(plan, sets, [pa.concat_tables([t, t]).combine_chunks() for t in plain])
        check_everywhere(joined, sets, [t.append_column("n_right", t.column("n")).combine_chunks() for t in plain])


def test_nodes_of_other_columns(tmp_path: Path, rng: random.Random) -> None:
    scan, other = numbered(tmp_path, rng), numbered(tmp_path, rng, "other")
    for wrong in (
        lambda: concatenate(scan, other.select("n")),
        lambda: merge_sorted(scan, other.select("n"), on="n"),
    ):
        with pytest.raises(TidemillError, match="TM9019"):
            wrong()
    with pytest.raises(TidemillError, match="TM9014"):
        concatenate(scan, numbered(tmp_path, rng)).program()
    for arguments in ((-1,), (True,), (1, -1)):
        with pytest.raises(TidemillError, match="TM4003"):
            scan.limit(*arguments)
