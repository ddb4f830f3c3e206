"""What can be read of earlier epochs, and what state is kept for it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tidemill.mill import Mill
from tidemill.runtime.catalog.replacements import former_groups

_HISTORY = 6
_VIEWS = {
    "joined": "SELECT t.k, t.v, p.w FROM t JOIN p ON t.k = p.k",
    "sums": "SELECT k, sum(v) AS v, max(v) AS m FROM t GROUP BY k",
    "large": "SELECT * FROM sums WHERE v > 40",
    "ranked": "SELECT k, v FROM (SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM t) WHERE r < 3",
    "by_least": "SELECT v, count(*) AS n FROM (SELECT k, min(v) AS v FROM t GROUP BY k) GROUP BY v",
    "least": "SELECT k, min(v) AS v FROM t GROUP BY k",
}
_READ = (*_VIEWS, "p", "t__errors")


def _rows(mill: Mill, name: str, epoch: int | None = None) -> Counter[str]:
    rows = mill.read(name, epoch=epoch).drop_columns([] if name != "t__errors" else ["at"])
    return Counter(map(str, rows.to_pylist()))


def test_every_retained_epoch_reads_as_it_was(mill_factory: Callable[..., Mill], tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    settings = {"listing_seconds": 0.0, "history_epochs": _HISTORY, "compact_after": 3, "checkpoint_seconds": 0.0}
    mill = mill_factory(**settings)
    for name in "tp":
        (tmp_path / name).mkdir()
    mill.sql(f"CREATE TABLE t (k INT, v BIGINT) USING csv OPTIONS (path '{tmp_path / 't'}', mode 'DROPMALFORMED')")
    mill.sql(f"CREATE TABLE p (k INT, w INT, PRIMARY KEY (k)) USING csv OPTIONS (path '{tmp_path / 'p'}')")
    for name, query in _VIEWS.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    seen: dict[int, dict[str, Counter[str]]] = {}
    for number in range(24):
        if number == 12:  # `by_least` goes on with the state that `least` was read from
            mill.sql("CREATE OR REPLACE MATERIALIZED VIEW large AS SELECT k FROM sums WHERE v < 90")
            mill.sql("CREATE OR REPLACE MATERIALIZED VIEW least AS SELECT k, max(v) AS v FROM t GROUP BY k")
        if number == 18:
            mill.close()
            mill = mill_factory(**settings)
        lines = [f"{chance.randrange(9)},{chance.randrange(30)}\n" for _ in range(8)]
        (tmp_path / "t" / f"{number}.csv").write_text("".join([*lines, "bad,bad\n"]))
        (tmp_path / "p" / f"{number}.csv").write_text(f"{chance.randrange(9)},{number}\n")
        for report in mill.drain():
            seen[report.epoch] = {name: _rows(mill, name) for name in _READ}
            for epoch in range(max(1, report.epoch - _HISTORY), report.epoch + 1):
                for name, rows in seen[epoch].items():
                    assert _rows(mill, name, epoch) == rows, (seed, report.epoch, epoch, name)
    assert sum(1 for found in seen.values() if found["joined"]) > _HISTORY
    coordinator = mill._coordinator
    read_from = coordinator.catalog.read_from
    assert read_from is not None
    assert former_groups(coordinator.catalog) == [], "replaced so long ago that no epoch shows it"
    inner = coordinator._programs().usual.tables.keys() - read_from
    assert any(coordinator.version.runs(table) for table in inner), "there is state that nobody reads"
    assert not inner & coordinator.version.retired.keys()
    assert read_from & coordinator.version.retired.keys()
