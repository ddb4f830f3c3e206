"""One node behind the other, and one that is read twice."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from task_runs import check_everywhere, cut, numbered, run_all

from tidemill.errors import TidemillError
from tidemill.plan.loading.plan import concatenate, merge_sorted


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
