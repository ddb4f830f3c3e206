"""Every view equals Spark's answer over the rows admitted so far, after the epochs."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from oracle import Trial, usual_settings, usual_tables
from queries import GROUPS

from local_jobs import local
from tidemill.mill import Mill


@pytest.mark.parametrize("group", GROUPS)
def test_views_equal_spark(group: str, mill_factory: Callable[..., Mill], tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"{group} {seed}")
    tables = usual_tables(rng, tmp_path)
    settings = usual_settings(rng, tables)
    print(settings)
    mill = mill_factory(**settings)
    trial = Trial(mill if rng.random() < 0.3 else local(mill), tables, sometimes=True)
    trial.create(GROUPS[group])
    assert trial.run(rng) >= 3
    trial.check_not_vacuous()
    for name in rng.sample(sorted(trial.views), min(4, len(trial.views))):
        trial.check_history(name)
