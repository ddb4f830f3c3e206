"""Views that share steps, created one by one: each is Spark's answer, also once others are dropped or have come."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from oracle import Trial, usual_settings, usual_tables
from py4j.clientserver import JavaClient

from mill_factory import MillFactory

GROUPED = "SELECT k, count(*) AS c, sum(i) AS s FROM t WHERE i > {} GROUP BY k"
SHARING = {
    "sums": GROUPED.format(-10),
    "same": GROUPED.format(-10),
    "counts": "SELECT k, count(*) AS c FROM t WHERE i > -10 GROUP BY k",
    "largest": "SELECT k, max(i) AS m FROM t WHERE i > -10 GROUP BY k",
    "rows": "SELECT k, i FROM t WHERE i > -10",
    "few": GROUPED.format(30),
    "joined": "SELECT t.k, t.i, u.name FROM t JOIN u ON t.k = u.k WHERE t.i > -10",
    "names": "SELECT u.name, count(*) AS c FROM t JOIN u ON t.k = u.k WHERE t.i > -10 GROUP BY u.name",
    "first": "SELECT k, i FROM t WHERE i > -10 ORDER BY i DESC, k LIMIT 4",
    "over": "SELECT c, count(*) AS n FROM same GROUP BY c",
}
MOST_CALLS = 12
"""For a view over one relation that queries know already."""


def test_dropped_created_and_replaced(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    tables = usual_tables(rng, tmp_path)
    trial = Trial(mill_factory(**usual_settings(rng, tables, epochs=8)), tables)

    def create(name: str, query: str) -> None:
        trial.mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        trial.views[name] = query

    later = dict(rng.sample([n for n in SHARING.items() if n[0] not in ("same", "over")], 3))
    for name, query in SHARING.items():
        if name not in later:
            create(name, query)
    for table in trial.tables.values():
        table.release(len(table.waiting) // 2)
    assert trial.advance() is not None
    trial.drop(rng.choice([name for name in trial.views if name not in ("same", "over")]))
    for name, query in later.items():
        create(name, query)
    assert trial.advance() is not None
    trial.drop("over")
    trial.drop("same")
    create("same", GROUPED.format(-10))
    assert trial.run(rng) >= 1
    trial.check_not_vacuous()


def test_a_view_takes_few_calls_of_java(
    mill_factory: MillFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t (k INT, i INT, s STRING) USING csv OPTIONS (path '{tmp_path}/*.csv')")
    mill.sql("CREATE MATERIALIZED VIEW first AS SELECT k, i FROM t")
    sent: list[str] = []
    send = JavaClient.send_command

    def counted(self: JavaClient, command: str, *args: Any, **kwargs: Any) -> Any:
        if not command.startswith("m\nd\n"):  # an object that Python has let go
            sent.append(command)
        return send(self, command, *args, **kwargs)

    monkeypatch.setattr(JavaClient, "send_command", counted)
    mill.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT k + 1 AS k1, sum(i / 2) AS x FROM t WHERE s LIKE 'a%' GROUP BY k + 1"
    )
    assert 0 < len(sent) <= MOST_CALLS
    sent.clear()
    mill.sql("CREATE MATERIALIZED VIEW w AS SELECT k, count(*) AS c, max(i) AS m FROM t GROUP BY k HAVING max(i) > 3")
    assert 0 < len(sent) <= MOST_CALLS
