"""Runs plans as tasks: over sets of splits with barriers in between, by fresh tasks, and with several threads."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.plan.loading.plan import Plan, Scan, scan
from tidemill.sources.split import Split
from tidemill.task.task import Task

INT = pa.int64()
SplitSet = Mapping[str, Sequence[Split]]


def table_of(plan: Plan, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """All rows as one table."""
    return pa.Table.from_batches(list(batches), schema=plan.schema.to_arrow()).combine_chunks()


def run_fresh(plan: Plan, splits: SplitSet, threads: int = 0) -> pa.Table:
    """One set of splits by a task of its own."""
    with Task(plan, threads=threads) as task:
        return table_of(plan, task.run(splits))


def run_all(plan: Plan, sets: Sequence[SplitSet], threads: int = 0) -> list[pa.Table]:
    """Sets of splits by one task, with a barrier behind each."""
    with Task(plan, threads=threads) as task:
        found = [table_of(plan, task.run(splits)) for splits in sets]
        assert task.stats().barriers == len(sets)
        return found


def files(directory: Path, tables: Sequence[pa.Table], name: str = "input", **options: Any) -> Scan:
    """A scan of Parquet files, one a table, which is one split."""
    directory = directory / name
    directory.mkdir(exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(table, directory / f"{number:04}.parquet", row_group_size=max(1, table.num_rows // 3))
    return scan(str(directory), name=name, format="parquet", **options)


def cut(rng: random.Random, scans: Sequence[Scan]) -> list[SplitSet]:
    """The splits of scans in their order, cut into sets at random places; sets may lack splits of some."""
    sets: list[dict[str, list[Split]]] = [{s.name: [] for s in scans} for _ in range(rng.randint(1, 5))]
    for one in scans:
        places = sorted(rng.randrange(len(sets)) for _ in one.splits())
        for place, split in zip(places, one.splits(), strict=True):
            sets[place][one.name].append(split)
    return sets


def check_everywhere(plan: Plan, sets: Sequence[SplitSet], expected: Sequence[pa.Table]) -> None:
    """One task with barriers, fresh tasks and tasks with threads give exactly these rows in this order."""
    for threads in (0, 1, 3):
        for number, (found, wanted) in enumerate(zip(run_all(plan, sets, threads), expected, strict=True)):
            assert found.equals(wanted), f"set {number}, {threads} threads: {found.to_pylist()} != {wanted.to_pylist()}"
    for splits, wanted in zip(sets, expected, strict=True):
        assert run_fresh(plan, splits).equals(wanted)


def numbered(tmp_path: Path, rng: random.Random, name: str = "input") -> Scan:
    """Rows (n, k): n counts all rows."""
    made, first = [], 0
    for _ in range(10):
        count = rng.choice((0, 1, 30))
        ns = range(first, first + count)
        made.append(pa.table({"n": pa.array(ns, INT), "k": pa.array([rng.choice((None, *range(5))) for _ in ns], INT)}))
        first += count
    return files(tmp_path, made, name)
