"""Inputs that are sorted, merged in the order of their keys."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
from task_runs import INT, check_everywhere, files

from tidemill.plan.loading.plan import merge_sorted


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
