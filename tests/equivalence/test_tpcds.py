"""The queries of TPC-DS as views: each equals Spark's answer after every epoch of inserts and deletes, and DuckDB's.

In the suite a few of them in one mill. ``TIDEMILL_TPCDS=2`` runs all 99 with that many times the facts, in mills of
some views each; ``TIDEMILL_TPCDS_ONLY=q14,q39`` these.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.tpcds.queries import NAMES, query
from change_trial import ChangeTrial
from tpcds_tables import tpcds_changes

from tidemill.mill import Mill

_LONG = float(os.environ.get("TIDEMILL_TPCDS", "0"))
_ONLY = tuple(filter(None, os.environ.get("TIDEMILL_TPCDS_ONLY", "").split(",")))
_A_MILL = 11
_SHORT = ("q51", "q52", "q53", "q57", "q59", "q62", "q63", "q65")
_FALLIBLE = ("q75",)
"""Those that raise at an epoch: a year in which everything is returned is a divisor of zero."""
_EPOCHS = 4 if _LONG else 2


def _groups() -> list[tuple[str, ...]]:
    if _ONLY:
        return [_ONLY]
    if _LONG:
        return [NAMES[i::_A_MILL] for i in range(_A_MILL)]
    return [_SHORT]


@pytest.mark.slow
@pytest.mark.timeout(7200 if _LONG else 900)
@pytest.mark.parametrize("names", _groups(), ids=lambda names: names[0])
def test_tpcds(names: tuple[str, ...], mill_factory: Callable[..., Mill], tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    settings = {"split_bytes": rng.choice((20_000, 1 << 22)), "partitions": rng.randrange(1, 4), "epoch_bytes": 1 << 40}
    print(settings, names)
    changes = tpcds_changes(seed, _EPOCHS, _LONG or 1.0)
    trial = ChangeTrial(mill_factory(**settings), changes, tmp_path, fallible=_FALLIBLE)
    trial.create({name: query(name) for name in names})
    while trial.advance():
        pass
    assert trial.now == set(names), f"without rows in the last epoch: {sorted(set(names) - trial.now)}"
    assert trial.raised == set(names) & set(_FALLIBLE)
    trial.check_duckdb(named=False)
