"""CREATE OR REPLACE: the old rows until the swap, Spark's answer at every epoch, one consistent change."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from oracle import LaterTrial, Trial, usual_settings, usual_tables

from mill_factory import MillFactory
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.plan.sql.statements import Source
from tidemill.testing import weighted_rows

OLD = {
    "base": "SELECT k, count(*) AS c, count(i) AS s FROM t GROUP BY k",
    "rows": "SELECT k, c FROM base WHERE c > 1",
    "over": "SELECT c, count(*) AS n FROM rows GROUP BY c",
    "mixed": "SELECT base.k, base.s, u.name FROM base JOIN u ON base.k = u.k",
    "other": "SELECT g, sum(i) AS s FROM t GROUP BY g",
}
NEW_BASE = "SELECT k, count(d) AS c, count(DISTINCT i) AS s FROM t WHERE k > 1 GROUP BY k"


class ReplacingTrial(LaterTrial):
    """A trial whose views change their queries when the mill says that they did."""

    def begin(self) -> None:
        """Some epochs, with something left to come."""
        for table in self.tables.values():
            table.release(len(table.waiting) - 1)
        for _ in range(3):
            assert self.advance() is not None

    def replace(self, name: str, query: str) -> None:
        self.mill.sql(f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {query}")


def make_trial(mill_factory: MillFactory, directory: Path, rng: random.Random, **settings: Any) -> ReplacingTrial:
    tables = usual_tables(rng, directory)
    chosen = {**usual_settings(rng, tables, epochs=9), **settings}
    print(chosen)
    return ReplacingTrial(mill_factory(**chosen), tables)


def queries(trial: Trial) -> dict[str, str]:
    return {n: v.query for n, v in trial.mill.snapshot().catalog.views.items()}


def test_old_rows_until_the_swap_and_new_ones_after(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"replace {seed}")
    trial = make_trial(mill_factory, tmp_path, rng)
    trial.create(OLD)
    trial.begin()
    began = trial.mill.epoch
    trial.replace("base", NEW_BASE)
    swaps = []
    while trial.mill.snapshot().catalog.pending:
        assert queries(trial)["base"] == OLD["base"]
        assert "is being replaced" in {n: d for n, _, _, d in trial.mill.status()}["base"]
        assert trial.advance() is not None
        if not trial.mill.snapshot().catalog.pending:
            swaps.append(trial.mill.epoch)
    assert len(swaps) == 1 and swaps[0] > began
    assert queries(trial) == {**OLD, "base": NEW_BASE}
    trial.run(rng)
    trial.check_not_vacuous()
    for name in OLD:
        trial.check_history(name)
    for name in ("base", "rows", "over", "mixed"):
        for epoch in (swaps[0] - 1, swaps[0]):
            seen, right = trial.mill.read(name, epoch), trial.answers[epoch][name]
            assert weighted_rows(seen) == weighted_rows(right), f"{name} at {epoch}"
            assert trial.mill.table(name, epoch).count() == right.num_rows


def test_other_columns_when_nobody_reads_the_view(mill_factory: MillFactory, tmp_path: Path) -> None:
    rng = random.Random(5)
    trial = make_trial(mill_factory, tmp_path, rng)
    trial.create({"v": OLD["base"], "other": OLD["other"]})
    trial.begin()
    changes = trial.mill.subscribe("v", timeout=0)
    first = weighted_rows(next(changes)[1])
    trial.replace("v", OLD["other"])
    trial.run(rng)
    assert queries(trial)["v"] == OLD["other"]
    old, new = first, {}
    swap = trial.mill.snapshot().catalog.former[0].until
    twice = []
    for epoch, delta in changes:
        target = old if "c" in delta.column_names else new
        if epoch == swap:
            twice.append(delta.column_names[:-1])
        for row, weight in weighted_rows(delta).items():
            target[row] = target.get(row, 0) + weight
    assert twice == [["k", "c", "s"], ["g", "s"]]
    assert not any(old.values())
    assert {r: w for r, w in new.items() if w} == weighted_rows(trial.mill.read("v"))
    with pytest.raises(TidemillError, match="TM1035"):
        trial.mill.snapshot().changes("v", swap)


def test_replacing_what_is_being_replaced_and_taking_it_back(mill_factory: MillFactory, tmp_path: Path) -> None:
    rng = random.Random(6)
    trial = make_trial(mill_factory, tmp_path, rng)
    trial.create(OLD)
    trial.begin()
    trial.replace("base", NEW_BASE)
    first = trial.mill.snapshot().catalog
    assert first.pending.keys() == {"base", "rows", "over", "mixed"}
    trial.replace("base", NEW_BASE)
    assert trial.mill.snapshot().catalog is first, "the same again is nothing new"
    trial.replace("rows", "SELECT k, c FROM base WHERE c > 2")
    second = trial.mill.snapshot().catalog
    assert second.pending["base"] == first.pending["base"] and second.pending["rows"] != first.pending["rows"]
    trial.replace("base", OLD["base"])
    third = trial.mill.snapshot().catalog
    assert third.pending.keys() == {"rows", "over"}
    before = set(trial.mill.snapshot().version.tables)
    trial.replace("rows", OLD["rows"])
    assert not trial.mill.snapshot().catalog.pending
    assert set(trial.mill.snapshot().version.tables) <= before
    trial.replace("rows", "SELECT k, c FROM base WHERE c > 3 OR k = 2")
    trial.run(rng)
    assert queries(trial)["rows"] == "SELECT k, c FROM base WHERE c > 3 OR k = 2"
    trial.check_history("rows")


def test_a_reader_that_comes_while_its_view_is_replaced(mill_factory: MillFactory, tmp_path: Path) -> None:
    rng = random.Random(9)
    trial = make_trial(mill_factory, tmp_path, rng)
    trial.create({"base": OLD["base"], "other": OLD["other"]})
    trial.begin()
    trial.replace("base", NEW_BASE)
    trial.create({"late": "SELECT c, count(*) AS n FROM base GROUP BY c"})
    assert trial.mill.snapshot().catalog.pending.keys() == {"base", "late"}
    trial.run(rng)
    assert queries(trial)["base"] == NEW_BASE
    trial.check_not_vacuous()
    trial.replace("other", "SELECT g FROM t")
    with pytest.raises(TidemillError, match="TM2018"):
        trial.create({"no": "SELECT s FROM other"})
    trial.mill.sql("DROP VIEW other")
    assert not trial.mill.snapshot().catalog.pending


def test_a_restart_in_between(mill_factory: MillFactory, tmp_path: Path) -> None:
    rng = random.Random(11)
    trial = make_trial(mill_factory, tmp_path, rng, checkpoint_seconds=0.0)
    trial.create(OLD)
    trial.begin()
    trial.replace("base", NEW_BASE)
    trial.advance()
    pending = trial.mill.snapshot().catalog.pending
    settings = trial.mill.settings
    trial.mill.close()
    trial.mill = mill_factory(
        epoch_bytes=settings.epoch_bytes, split_bytes=settings.split_bytes, partitions=settings.partitions
    )
    assert trial.mill.snapshot().catalog.pending == pending
    trial.run(rng)
    assert queries(trial)["base"] == NEW_BASE
    swap = trial.mill.snapshot().catalog.former[0].until
    trial.mill.close()
    trial.mill = mill_factory(history_epochs=1000)
    for name in ("base", "over"):
        assert weighted_rows(trial.mill.read(name, swap - 1)) == weighted_rows(trial.answers[swap - 1][name])


@pytest.fixture
def small(mill_factory: MillFactory, tmp_path: Path) -> Mill:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "1.csv").write_text("1,1\n2,2\n2,0\n")
    mill = mill_factory(history_epochs=2)
    mill.sql(f"CREATE TABLE t (k INT, i INT) USING csv OPTIONS (path '{tmp_path / 't'}')")
    return mill


def rows(mill: Mill, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(r.values()) for r in mill.read(name).to_pylist())


def test_a_replacement_that_fails_leaves_the_old_view(small: Mill, tmp_path: Path) -> None:
    small.sql("CREATE MATERIALIZED VIEW v AS SELECT k, i FROM t")
    small.sql("CREATE MATERIALIZED VIEW w AS SELECT sum(i) AS s FROM v")
    list(small.drain())
    before = small.snapshot().version.tables.keys()
    small.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k, cast(6 / i AS INT) AS i FROM t")
    list(small.drain())
    assert rows(small, "v") == [(1, 1), (2, 0), (2, 2)]
    assert not small.snapshot().catalog.pending
    name, status, _, detail = small.status()[0]
    assert (name, status) == ("v", "fresh") and "TM3001" in detail
    assert small.snapshot().version.tables.keys() <= before
    (tmp_path / "t" / "2.csv").write_text("3,3\n")
    list(small.drain())
    assert rows(small, "w") == [(6,)]
    small.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k, cast(try_divide(6, i) AS INT) AS i FROM t")
    list(small.drain())
    assert rows(small, "w") == [(6 + 3 + 2,)]
    assert small.status()[0][3] == ""


def test_a_failed_view_is_mended(small: Mill) -> None:
    small.sql("CREATE MATERIALIZED VIEW v AS SELECT k, cast(6 / i AS INT) AS i FROM t")
    small.sql("CREATE MATERIALIZED VIEW w AS SELECT sum(i) AS s FROM v")
    list(small.drain())
    assert [s for _, s, _, _ in small.status()] == ["failing", "failing"]
    assert "in the row (2, 0)" in small.status()[0][3]
    with pytest.raises(TidemillError, match=r"TM1039[^$]*in the row \(2, 0\)"):
        small.sql("SELECT max(s) FROM w")
    with pytest.raises(TidemillError, match=r"TM2036[^$]*views that read it: v"):
        small.sql("SELECT * FROM t")
    small.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k, cast(try_divide(6, i) AS INT) AS i FROM t")
    list(small.drain())
    assert [s for _, s, _, _ in small.status()] == ["fresh", "fresh"]
    assert rows(small, "w") == [(9,)]


def test_state_of_the_old_view_is_freed(small: Mill, tmp_path: Path) -> None:
    small.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS c FROM t GROUP BY k")
    list(small.drain())
    old = {t for t in small.snapshot().version.tables if t.startswith("group:")}
    small.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k, count(i) + 1 AS c FROM t GROUP BY k")
    list(small.drain())
    swap = small.epoch
    assert old <= small.snapshot().version.tables.keys()
    assert weighted_rows(small.snapshot().changes("v", swap)) == {(1, 1): -1, (1, 2): 1, (2, 2): -1, (2, 3): 1}
    for number in range(2, 5):
        (tmp_path / "t" / f"{number}.csv").write_text("3,3\n")
        list(small.drain())
    assert not small.snapshot().catalog.former
    assert not old & small.snapshot().version.tables.keys()
    assert rows(small, "v") == [(1, 2), (2, 3), (3, 4)]


def test_views_that_did_not_exist_or_never_ran(small: Mill) -> None:
    small.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k FROM t")
    small.sql("CREATE OR REPLACE\nMATERIALIZED VIEW v AS SELECT i FROM t")
    list(small.drain())
    assert rows(small, "v") == [(0,), (1,), (2,)]
    epoch = small.epoch
    small.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT  i  FROM t")
    assert list(small.drain()) == [] and small.epoch == epoch


def test_dataframes_replace_too(small: Mill) -> None:
    small.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
    list(small.drain())
    old = small.table("v").select("k")
    small.create_view("v", small.table("t").where("i > 0").select("k"), replace=True)
    small.create_view("w", old)
    list(small.drain())
    assert rows(small, "v") == rows(small, "w") == [(1,), (2,)]
    with pytest.raises(TidemillError, match="TM2006"):
        small.create_view("x", old)
    assert sorted(map(tuple, old.collect())) == [(1,), (2,), (2,)]


def test_a_view_that_is_stated_again_forgets_a_failed_replacement(mill_factory: MillFactory, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("1\n0\n")
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{tmp_path}/t.csv')")
    right, wrong = "SELECT k FROM t", "SELECT 1 / k AS k FROM t"
    for query, detail in ((right, ""), (wrong, "its replacement failed in epoch"), (right, "")):
        mill.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}")
        while mill.advance() is not None:
            pass
        ((_, status, _, found),) = mill.status()
        assert status == "fresh" and found.startswith(detail) and bool(found) == bool(detail)
    mill.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {wrong}")
    while mill.advance() is not None:
        pass
    with mill.declaring() as declaration:
        declaration.add_script([Source(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {right}")], may_replace=False)
    assert declaration.changes == [] and mill.status()[0][3] == ""
