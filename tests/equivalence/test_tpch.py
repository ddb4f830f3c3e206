"""The 22 queries of TPC-H in one mill: after epochs of inserts and deletes each equals Spark's answer.

``TIDEMILL_TPCH=0.01`` runs the long form: that scale factor, twelve epochs in Spark jobs, each of which is compared,
the specification's parameters.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from benchmarks.tpch.changes import Changes, generate, stream
from benchmarks.tpch.queries import NAMES, TINY, query
from change_trial import ChangeTrial

from local_jobs import local
from tidemill.mill import Mill

_SCALE = float(os.environ.get("TIDEMILL_TPCH", "0"))


def _emptied_and_refilled(changes: Changes, random_: np.random.Generator) -> Changes:
    """In one more epoch all rows go, in another half of them come back."""
    left = {name: changes.alive(name) for name in changes.tables}
    half = {name: random_.permutation(rows)[: (len(rows) + 1) // 2] for name, rows in left.items()}
    gone = {name: (rows, -1) for name, rows in left.items()}
    return changes.then([gone, {name: (rows, 1) for name, rows in half.items()}])


@pytest.mark.slow
@pytest.mark.timeout(7200 if _SCALE else 900)
def test_tpch(mill_factory: Callable[..., Mill], tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    epochs, parameters = (12, {}) if _SCALE else (3, TINY)
    tables = generate(tmp_path, _SCALE or 0.002)
    total = sum(t.num_rows for t in tables.values())
    settings = {"split_bytes": rng.choice((20_000, 1 << 22)), "partitions": rng.randrange(1, 4), "epoch_bytes": 1 << 40}
    print(settings)
    changes = stream(tables, seed, 11 * total // 10 // epochs)
    last = changes.epochs
    changes = _emptied_and_refilled(changes, np.random.default_rng(seed))
    mill = mill_factory(**settings)
    trial = ChangeTrial(mill if _SCALE else local(mill), changes, tmp_path, sometimes=not _SCALE)
    views = {name: query(name, parameters) for name in NAMES}
    late = rng.sample(NAMES, 4)
    trial.create({name: views[name] for name in NAMES if name not in late})
    trial.advance()
    trial.create({name: views[name] for name in late})
    more = True
    while more:
        at = trial.epoch
        more = trial.advance()
        if at == last:
            trial.check_not_vacuous()
    trial.check_duckdb()
    trial.check_changes()
