"""Random queries equal Spark after every epoch. TIDEMILL_QUERIES says how many, TIDEMILL_SEED which."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

from oracle import Trial, usual_settings, usual_tables
from random_queries import QueryMaker

from tidemill.mill import Mill


def test_random_queries(mill_factory: Callable[..., Mill], tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"queries {seed}")
    tables = usual_tables(rng, tmp_path)
    trial = Trial(mill_factory(**usual_settings(rng, tables, epochs=3)), tables)
    maker = QueryMaker(rng)
    trial.create({f"q{number}": maker.query() for number in range(int(os.environ.get("TIDEMILL_QUERIES", "16")))})
    assert trial.run(rng) >= 2
    assert len(trial.ever) > len(trial.views) / 2, "most queries have rows"
