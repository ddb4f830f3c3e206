"""Tasks that may hold a few kilobytes give what tasks with room give: everything spills."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from oracle import Trial, usual_settings, usual_tables
from queries import GROUPS

from local_jobs import local
from tidemill.mill import Mill

_GROUPS = ("aggregates", "joins", "pairs", "subqueries", "top_rows", "windows")


def test_views_equal_spark_though_everything_spills(
    mill_factory: Callable[..., Mill], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(f"little memory {seed}")
    monkeypatch.setattr("tidemill.state.memtable.BLOCK_BYTES", rng.choice([300, 3000]))
    tables = usual_tables(rng, tmp_path)
    settings = {**usual_settings(rng, tables), "memory_bytes": rng.choice([1, 500, 3000])}
    print(settings)
    trial = Trial(local(mill_factory(**settings)), tables)
    trial.create({name: query for g in _GROUPS for name, query in rng.sample(sorted(GROUPS[g].items()), 1)})
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
