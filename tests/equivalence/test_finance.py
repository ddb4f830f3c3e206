"""The finance example over a small generated trace, each view checked against Spark after every epoch."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from change_tables import KeyedTrial, books

from tidemill.mill import Mill
from tidemill.plan.sql.statements import split_script

_EXAMPLE = Path(__file__).parents[2] / "examples" / "finance.sql"
_NAMES = ("vwap", "axfinder", "brokerspread", "brokervariance", "pricespread", "missedtrades", "chrissedtrades")


@pytest.mark.timeout(600)
def test_finance(mill_factory: Callable[..., Mill], tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"finance {seed}")
    tables = {t.name: t for t in books(rng, tmp_path / "trace", 300, files=2, strange=0.02, brokers=10)}
    statements = [s.text for s in split_script(_EXAMPLE.read_text())]
    for statement in statements[:2]:
        name = statement.split()[2]
        tables[name].create = statement.replace("var/trace.csv", str(tmp_path / "trace"))
    mill = mill_factory(epoch_bytes=5000)
    trial = KeyedTrial(mill, list(tables.values()))
    views = {s.split()[3]: s.split(" AS\n", 1)[1] for s in statements[2:]}
    assert tuple(views) == _NAMES
    trial.create(views)
    assert trial.run(rng) >= 3
    trial.check_not_vacuous()
    bids, asks = (tables[n].table().num_rows for n in ("bids", "asks"))
    assert bids + asks > 5
