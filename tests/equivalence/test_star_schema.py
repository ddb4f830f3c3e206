"""Star joins in the manner of TPC-DS: after every epoch of inserts and deletes each view equals Spark's answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from change_trial import ChangeTrial
from queries import read_views
from star_tables import star_changes

from local_jobs import local
from tidemill.mill import Mill

VIEWS = read_views(Path(__file__).with_name("star_schema.sql"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_star_schema(mill_factory: Callable[..., Mill], tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    settings = {"split_bytes": rng.choice((3_000, 1 << 22)), "partitions": rng.randrange(1, 4), "epoch_bytes": 1 << 40}
    print(settings)
    changes = star_changes(seed, 900, 3)
    trial = ChangeTrial(local(mill_factory(**settings)), changes, tmp_path, sometimes=True)
    trial.create(VIEWS)
    while trial.advance():
        pass
    trial.check_not_vacuous()
    trial.check_changes()
