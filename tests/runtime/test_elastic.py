"""A root opened again with another number of partitions, on another host: the same files, read by ranges of vnodes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tidemill.mill import Mill
from tidemill.runtime.snapshot import Snapshot

_SCRIPT = """
CREATE TABLE t (k INT, v INT) USING csv OPTIONS (path '{data}');
CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS v, MAX(v) AS most FROM t GROUP BY k;
CREATE MATERIALIZED VIEW sizes AS SELECT n, COUNT(*) AS groups FROM sums GROUP BY n;
CREATE MATERIALIZED VIEW pairs AS SELECT a.k, a.v, b.most FROM t a JOIN sums b ON a.k = b.k WHERE a.v >= b.most;
"""


def check(mill: Mill, rows: list[tuple[int, int]]) -> None:
    counts = Counter(k for k, _ in rows)
    totals: Counter[int] = Counter()
    most: dict[int, int] = {}
    for k, v in rows:
        totals[k] += v
        most[k] = max(v, most.get(k, v))
    found = {r["k"]: (r["n"], r["v"], r["most"]) for r in mill.read("sums").to_pylist()}
    assert found == {k: (n, totals[k], most[k]) for k, n in counts.items()}
    assert {r["n"]: r["groups"] for r in mill.read("sizes").to_pylist()} == Counter(counts.values())
    assert Counter((r["k"], r["v"], r["most"]) for r in mill.read("pairs").to_pylist()) == Counter(
        (k, v, most[k]) for k, v in rows if v >= most[k]
    )


@pytest.mark.parametrize("order", [(3, 5, 2), (1, 7, 4)])
def test_another_number_of_partitions_rewrites_nothing(
    mill_factory: Callable[..., Mill],
    tmp_path: Path,
    seed: int,
    order: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(seed)
    data = tmp_path / "data"
    data.mkdir()
    rows: list[tuple[int, int]] = []
    kept: frozenset[str] = frozenset()
    for number, partitions in enumerate(order):
        monkeypatch.setenv("TIDEMILL_HOST", f"host {number}")
        mill = mill_factory(
            partitions=partitions, small_epoch_bytes=0, checkpoint_seconds=1e9, compact_after=100, history_epochs=100
        )
        if not rows:
            mill.script(_SCRIPT.format(data=data))
        assert mill.snapshot().version.files() == kept
        check(mill, rows)
        for part in range(2):
            new = [(chance.randrange(40), chance.randrange(1000)) for _ in range(100)]
            (data / f"{number}-{part}.csv").write_text("".join(f"{k},{v}\n" for k, v in new))
            rows += new
            mill.advance()
            check(mill, rows)
        mill.checkpoint()
        mill.advance()
        assert kept <= mill.snapshot().version.files(), "what was there is read as it is"
        mill.close()
        kept = Snapshot.open(tmp_path / "root").version.files()
