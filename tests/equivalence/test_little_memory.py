"""Tasks that may hold a few kilobytes give what tasks with room give: everything spills."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from oracle import Trial, usual_settings, usual_tables
from queries import GROUPS

from local_jobs import local
from tidemill.errors import TidemillError
from tidemill.mill import Mill

_GROUPS = ("aggregates", "joins", "pairs", "subqueries", "top_rows", "windows")


def _over_tables(group: str) -> list[tuple[str, str]]:
    """The views of a group that read no other view."""
    views = GROUPS[group]
    return sorted((name, query) for name, query in views.items() if not views.keys() & set(re.findall(r"\w+", query)))


def test_views_equal_spark_though_everything_spills(
    mill_factory: Callable[..., Mill], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(f"little memory {seed}")
    monkeypatch.setattr("tidemill.state.lookup.memtable.BLOCK_BYTES", rng.choice([300, 3000]))
    monkeypatch.setattr("tidemill.task.dataflow.read_view._ROWS", rng.choice([1, 8]))
    monkeypatch.setattr("tidemill.runtime.read.snapshot._PART_ROWS", rng.choice([1, 3]))
    tables = usual_tables(rng, tmp_path)
    settings = {**usual_settings(rng, tables), "memory_bytes": rng.choice([1, 500, 3000])}
    print(settings)
    trial = Trial(local(mill_factory(**settings)), tables)
    trial.create({name: query for g in _GROUPS for name, query in rng.sample(_over_tables(g), 1)})
    spilled, peak, before = 0, 0, trial.mill.advance

    def advance() -> object:
        nonlocal spilled, peak
        report = before()
        if report is not None:
            spilled += report.spilled_bytes
            peak = max(peak, report.peak_memory_bytes)
        return report

    monkeypatch.setattr(trial.mill, "advance", advance)
    assert trial.run(rng) >= 3
    assert spilled > 0
    assert peak > 0
    trial.check_not_vacuous()
    for name in rng.sample(sorted(trial.views), 3):
        trial.check_history(name)
    assert not list((tmp_path).rglob("*-spill-*")), "spilled files have no names"


def test_a_list_that_is_too_large_until_its_group_is_smaller(mill_factory: Callable[..., Mill], tmp_path: Path) -> None:
    """The view is made of the stored groups when it is read: nothing reads their changes."""
    (tmp_path / "t").mkdir()
    mill = local(mill_factory(memory_bytes=8 << 20))
    mill.sql(f"CREATE TABLE t (g INT, s STRING) USING csv OPTIONS (path '{tmp_path / 't'}', opColumn 'op')")
    mill.sql("CREATE MATERIALIZED VIEW sizes AS SELECT g, size(collect_list(s)) AS n FROM t GROUP BY g")
    rows = [f"{0 if i % 2 == 0 else i % 10},{'x' * 120}{i}," for i in range(20_000)]
    (tmp_path / "t" / "1.csv").write_text("".join(f"{row}I\n" for row in rows))
    list(mill.drain())
    assert [(name, state) for name, state, _, _ in mill.status()] == [("sizes", "failing")]
    with pytest.raises(TidemillError, match="TM1039"):
        mill.read("sizes")
    (tmp_path / "t" / "2.csv").write_text("".join(f"{row}D\n" for row in rows[::2]) + "0,abc,I\n")
    list(mill.drain())
    assert [(name, state) for name, state, _, _ in mill.status()] == [("sizes", "fresh")]
    expected = [{"g": 0, "n": 1}, *({"g": g, "n": 2000} for g in (1, 3, 5, 7, 9))]
    assert sorted(mill.read("sizes").to_pylist(), key=lambda row: row["g"]) == expected
