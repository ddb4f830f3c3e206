"""Every view equals Spark's answer over the rows admitted so far, after the epochs; and its plan is Spark's."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from compared_plans import Compared
from oracle import Trial, usual_settings, usual_tables
from queries import GROUPS

from local_jobs import local
from tidemill.mill import Mill
from tidemill.plan.catalyst import analyser


@pytest.fixture
def planners(monkeypatch: pytest.MonkeyPatch) -> list[Compared]:
    """The planners of mills that are opened."""
    found: list[Compared] = []
    planner = analyser.planner

    def compared(spark: Any) -> Compared:
        found.append(Compared(planner(spark)))
        return found[-1]

    monkeypatch.setattr(analyser, "planner", compared)
    return found


def half(views: Mapping[str, str], number: int) -> dict[str, str]:
    """Every second view, and the views that these read."""
    wanted = set(list(views)[number::2])
    for name, query in reversed(views.items()):
        if name in wanted:
            wanted |= views.keys() & set(re.findall(r"\w+", query))
    return {name: query for name, query in views.items() if name in wanted}


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.slow)], ids=["first", "second"])
@pytest.mark.parametrize("group", GROUPS)
def test_views_equal_spark(
    group: str, number: int, mill_factory: Callable[..., Mill], planners: list[Compared], tmp_path: Path, seed: int
) -> None:
    """Half of a group is in a mill; the second halves are of the slow tests."""
    rng = random.Random(f"{group} {number} {seed}")
    views = half(GROUPS[group], number)
    tables = usual_tables(rng, tmp_path)
    settings = usual_settings(rng, tables)
    print(settings)
    mill = mill_factory(**settings)
    trial = Trial(mill if rng.random() < 0.3 else local(mill), tables, sometimes=True)
    trial.create(views)
    assert sum(planner.plans for planner in planners) >= len(views)
    assert trial.run(rng) >= 3
    trial.check_not_vacuous()
    if group == "window_queries":
        check_running_sums(trial)
    for name in rng.sample(sorted(trial.views), min(4, len(trial.views))):
        trial.check_history(name)


LOOKED_UP = {
    *("w_last_sums", "w_first_sums", "w_nulls_last_sums", "w_ranks_of_some", "w_sums_by_text", "w_sums_of_joined"),
    *("w_sums_over_groups", "w_sums_in_time", "w_sums_of_doubles", "w_last_sums_of_doubles", "w_sums_by_doubles"),
    *("w_sums_of_decimals", "w_sums_by_decimals"),
}
NOT_LOOKED_UP = {"w_sums_of_wide_decimals", "w_sums_of_38_digits"}


def check_running_sums(trial: Trial) -> None:
    """Those of a few rows come from an index of sums, where that can hold them."""
    assert GROUPS["window_queries"].keys() >= LOOKED_UP | NOT_LOOKED_UP
    for name in (LOOKED_UP | NOT_LOOKED_UP) & trial.views.keys():
        (plan,) = trial.mill.query(f"EXPLAIN INCREMENTAL {trial.views[name]}").collect()[0]
        assert ("Pair sums" in plan, "Window [" in plan) == (name in LOOKED_UP, name in NOT_LOOKED_UP), name
