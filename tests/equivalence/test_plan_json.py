"""Plans as ``planner.java`` writes them are those that Spark writes, with more in them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oracle import Trial, usual_tables
from queries import GROUPS

from tidemill.mill import Mill
from tidemill.plan.catalyst import analyser

ADDED = {"rddId", "rddName", "keptIds", "evalMode", "escapeChar", "metadata", "projections"}


class Compared:
    """The planner, which compares each plan that it writes with Spark's."""

    def __init__(self, java: Any) -> None:
        self._java = java
        self.plans = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._java, name)

    def json(self, plan: Any) -> str:
        written = str(self._java.json(plan))
        for ours, sparks in zip(json.loads(written), json.loads(plan.toJSON()), strict=True):
            assert comparable(ours) == comparable(sparks)
        self.plans += 1
        return written


def comparable(value: Any) -> Any:
    """Without what is added, and without the rows of grouping sets, of which Spark writes only some."""
    if isinstance(value, list):
        return [comparable(inner) for inner in value]
    if isinstance(value, dict):
        return {name: comparable(inner) for name, inner in value.items() if name not in ADDED}
    return value


@pytest.mark.parametrize("group", GROUPS)
def test_plans_are_those_of_spark(
    group: str, mill_factory: Callable[..., Mill], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Compared] = []

    def compared(spark: Any) -> Compared:
        found.append(Compared(planner(spark)))
        return found[-1]

    planner = analyser.planner
    monkeypatch.setattr(analyser, "planner", compared)
    trial = Trial(mill_factory(), usual_tables(random.Random(group), tmp_path))
    trial.create(GROUPS[group])
    assert sum(planned.plans for planned in found) >= len(GROUPS[group])
