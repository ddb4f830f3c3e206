"""The first rows of each set of splits."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from task_runs import check_everywhere, cut, files, numbered, run_all

from tidemill.task.task import Task


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
