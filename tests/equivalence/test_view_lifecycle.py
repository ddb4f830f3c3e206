"""Views that come, go, and are read at other times than now: always Spark's answer of that epoch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from oracle import Trial, usual_settings, usual_tables
from pyspark.sql import functions as sf
from queries import ALL, GROUPS

from mill_factory import MillFactory
from tidemill.errors import TidemillError
from tidemill.plan.lowering.assemble import Assembler
from tidemill.task.program import Program
from tidemill.testing import assert_same_rows, weighted_rows

OLD = {
    "rows": "SELECT k, g, i, d FROM t WHERE i > -45",
    "agg": "SELECT k, count(*) AS c, sum(i) AS s, max(i) AS x FROM t GROUP BY k",
    "joined": "SELECT t.k, t.i, u.name FROM t JOIN u ON t.k = u.k",
    "everything": "SELECT count(*) AS c, sum(i) AS s FROM t",
    "inserts": "SELECT k, min(i) AS m, sum(d) AS s FROM a GROUP BY k",
}
YOUNG = {
    "y_rows": "SELECT k, s FROM t WHERE b",
    "y_agg": ALL["g_minmax"],
    "y_same": OLD["agg"],
    "y_joined": ALL["j_agg"],
    "y_inserts": ALL["a_distinct"],
    "y_of_rows": "SELECT g, count(*) AS c, sum(d) AS s FROM rows GROUP BY g",
    "y_of_agg": "SELECT c, count(*) AS n, max(x) AS x FROM agg GROUP BY c",
    "y_mixed": "SELECT agg.k, agg.c, t.i FROM agg JOIN t ON agg.k = t.k",
    "y_of_joined": "SELECT name, count(*) AS n FROM joined GROUP BY name",
    "y_of_everything": "SELECT c + 1 AS more, s FROM everything",
    "y_of_young": "SELECT max(c) AS c, count(*) AS n FROM y_of_rows",
    "y_running": ALL["w_running"],
    "y_top_n": ALL["w_top_n"],
    "y_window_of_agg": "SELECT k, s, lag(s) OVER (ORDER BY c, k) AS l FROM agg",
}


def make_trial(mill_factory: MillFactory, directory: Path, rng: random.Random, **settings: Any) -> Trial:
    tables = usual_tables(rng, directory)
    chosen = {**usual_settings(rng, tables, epochs=7), **settings}
    print(chosen)
    return Trial(mill_factory(**chosen), tables)


def test_views_created_while_data_flows(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"young {seed}")
    trial = make_trial(mill_factory, tmp_path, rng)
    trial.create(OLD)
    assert trial.advance() is not None
    trial.advance()
    trial.create(dict(list(YOUNG.items())[:6]))
    assert "y_rows" in trial.mill.snapshot().initialising
    with pytest.raises(TidemillError, match="TM1030"):
        trial.mill.read("y_rows")
    with pytest.raises(TidemillError, match="TM1030"):
        trial.mill.table("y_rows")
    assert trial.advance() is not None
    trial.create(dict(list(YOUNG.items())[6:]))
    trial.run(rng)
    assert not trial.mill.snapshot().initialising
    assert {s for _, s, _, _ in trial.mill.status()} == {"fresh"}
    trial.check_not_vacuous()


def test_a_view_over_an_older_view_has_its_rows_in_the_next_epoch(mill_factory: MillFactory, tmp_path: Path) -> None:
    rng = random.Random(7)
    trial = make_trial(mill_factory, tmp_path, rng)
    trial.create({"agg": OLD["agg"]})
    trial.advance()
    trial.create({"over": "SELECT c, count(*) AS n FROM agg GROUP BY c"})
    with pytest.raises(TidemillError, match="TM1030"):
        trial.mill.read("over")
    assert trial.advance() is not None
    assert trial.mill.snapshot().initialising == {}
    assert "over" in trial.ever


@pytest.mark.parametrize("last", ["DROP VIEW xs", "CREATE OR REPLACE MATERIALIZED VIEW xs AS SELECT j FROM y"])
def test_history_of_a_table_that_no_view_reads_any_more(mill_factory: MillFactory, tmp_path: Path, last: str) -> None:
    """Beside a view over another table that was created in the same epoch."""
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.csv").write_text("1\n2\n")
    mill = mill_factory()
    for name, column in (("x", "i"), ("y", "j")):
        mill.sql(f"CREATE TABLE {name} ({column} INT) USING csv OPTIONS (path '{tmp_path / name}')")
        mill.sql(f"CREATE MATERIALIZED VIEW first_{name} AS SELECT {column} FROM {name}")
    list(mill.drain())
    for name in ("x", "y"):
        mill.sql(f"DROP VIEW first_{name}")
    mill.sql("CREATE MATERIALIZED VIEW xs AS SELECT i FROM x")
    mill.sql("CREATE MATERIALIZED VIEW ys AS SELECT sum(j) AS s FROM y")
    mill.sql(last)
    list(mill.drain())
    assert mill.read("ys").to_pylist() == [{"s": 3}]
    mill.sql("CREATE OR REPLACE MATERIALIZED VIEW xs AS SELECT count(*) AS c FROM x")
    list(mill.drain())
    assert mill.read("xs").to_pylist() == [{"c": 2}]


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("read_before", [False, True])
def test_a_view_over_an_older_global_aggregate_without_rows(
    mill_factory: MillFactory, tmp_path: Path, partitions: int, read_before: bool
) -> None:
    """Also when a view of its own age reads it, so that it has begun to give changes."""
    rng = random.Random(8)
    trial = make_trial(mill_factory, tmp_path, rng, partitions=partitions)
    trial.create({"never": "SELECT count(*) AS c, sum(i) AS s FROM t WHERE i > 1000", "rows": "SELECT k FROM a"})
    if read_before:
        trial.create({"at_once": "SELECT c + 2 AS c FROM never"})
    trial.advance()
    trial.create(
        {"over": "SELECT c + 1 AS c, s FROM never", "agg_over": "SELECT count(*) AS n, sum(c) AS s FROM never"}
    )
    trial.advance()
    trial.run(rng)
    trial.check_not_vacuous()


def test_a_view_over_an_older_global_aggregate_of_a_table_without_files(
    mill_factory: MillFactory, tmp_path: Path
) -> None:
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
    mill = mill_factory()
    mill.sql(f"CREATE TABLE x (i INT) USING csv OPTIONS (path '{tmp_path / 'x'}')")
    mill.sql(f"CREATE TABLE y (i INT) USING csv OPTIONS (path '{tmp_path / 'y'}')")
    mill.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS c FROM x")
    mill.sql("CREATE MATERIALIZED VIEW other AS SELECT i FROM y")
    (tmp_path / "y" / "1.csv").write_text("5\n")
    list(mill.drain())
    mill.sql("CREATE MATERIALIZED VIEW over AS SELECT c FROM n")
    list(mill.drain())
    assert mill.read("over").to_pylist() == [{"c": 0}]
    (tmp_path / "x" / "1.csv").write_text("1\n2\n")
    list(mill.drain())
    assert mill.read("over").to_pylist() == [{"c": 2}]


@pytest.mark.parametrize("compact_after", [2, 12])
def test_a_view_over_an_older_global_aggregate_whose_rows_have_gone(
    mill_factory: MillFactory, tmp_path: Path, compact_after: int
) -> None:
    (tmp_path / "x").mkdir()
    mill = mill_factory(compact_after=compact_after)
    mill.sql(f"CREATE TABLE x (i INT, o STRING) USING csv OPTIONS (path '{tmp_path / 'x'}', opColumn 'o')")
    mill.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS c, max(i) AS m FROM x")
    for number, row in enumerate(("5,I", "6,I", "5,D", "6,D")):
        (tmp_path / "x" / f"{number}.csv").write_text(row + "\n")
        mill.advance()
    mill.sql("CREATE MATERIALIZED VIEW over AS SELECT c, m FROM n")
    list(mill.drain())
    assert mill.read("over").to_pylist() == [{"c": 0, "m": None}]
    (tmp_path / "x" / "9.csv").write_text("7,I\n")
    list(mill.drain())
    assert mill.read("over").to_pylist() == [{"c": 1, "m": 7}]


def test_dropping_and_creating_again(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"drop {seed}")
    trial = make_trial(mill_factory, tmp_path, rng)
    views = {**OLD, "y_of_agg": YOUNG["y_of_agg"]}
    trial.create(views)
    trial.advance()
    with pytest.raises(TidemillError, match="TM2013"):
        trial.drop("agg")
    assert "agg" in trial.views
    trial.drop("joined")
    with pytest.raises(TidemillError, match="TM2012"):
        trial.mill.read("joined")
    trial.advance()
    trial.create({"joined": OLD["joined"]})
    trial.drop("y_of_agg")
    trial.drop("agg")
    trial.create({"agg": "SELECT g, count(*) AS c, max(d) AS x FROM t GROUP BY g"})
    trial.advance()
    trial.create({"y_of_agg": YOUNG["y_of_agg"]})
    trial.run(rng)
    trial.check_not_vacuous()
    for name in list(trial.views)[::-1]:
        if name != "agg":
            trial.drop(name)
    trial.drop("agg")
    stored = sorted(trial.mill.snapshot().version.tables)
    owned = [t for t in stored if not t.startswith(("list:", "fetch:", "errors:"))]
    assert owned == []


@pytest.mark.slow
def test_older_epochs_and_dataframes(
    mill_factory: MillFactory, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"old {seed}")
    trial = make_trial(mill_factory, tmp_path, rng)
    views = {**OLD, "of_agg": YOUNG["y_of_agg"], "having": ALL["g_having"], "extremes": ALL["g_minmax"]}
    trial.create(views)
    frames = []
    for _ in range(4):
        trial.advance()
        frames.append((trial.mill.epoch, trial.mill.table("extremes")))
    trial.run(rng)
    for name in views:
        for epoch, answers in trial.answers.items():
            assert_same_rows(trial.mill.read(name, epoch=epoch), answers[name], f"{name} at {epoch}")
        assert_same_rows(trial.mill.table(name).toArrow(), trial.mill.read(name), name)
        for most in (1 << 30, 0):  # counted in this process, and by Spark
            monkeypatch.setattr("tidemill.mill._ROWS_COUNTED_HERE", most)
            assert trial.mill.count(name) == answers[name].num_rows, name
    middle = sorted(trial.answers)[1]
    assert_same_rows(trial.mill.table("agg", middle).toArrow(), trial.answers[middle]["agg"])
    epoch, frame = frames[1]
    assert_same_rows(frame.toArrow(), trial.answers[epoch]["extremes"], "a DataFrame stays on its epoch")
    failing = trial.mill.query("SELECT 1 / (count(*) - count(*)) AS r FROM agg")
    for action in ("collect", "first", "show", "toArrow", "toPandas"):
        with pytest.raises(TidemillError, match="TM2016") as caught:
            getattr(failing, action)()
        assert "DIVIDE_BY_ZERO" in str(caught.value)
    with pytest.raises(TidemillError, match="TM2016"):
        trial.mill.query("SELECT array() AS a FROM agg").toArrow()  # PySpark does not convert it
    other = trial.mill.table("agg")
    with pytest.raises(TidemillError, match=r"TM2016.*\n.*ZeroDivisionError: "):
        other.select(sf.udf(lambda k: 1 // 0, "int")("k")).collect()
    derived = {
        "filter": failing.filter("r > 0"),
        "join": other.crossJoin(failing.withColumn("s", sf.col("r") + 1)),
        "groups": failing.groupBy("r").agg(sf.count("*")).orderBy("r"),
        "function": failing.na.fill(0),
        "split": failing.randomSplit([1.0])[0],
    }
    for way, made in derived.items():
        with pytest.raises(TidemillError, match="TM2016"):
            made.collect()
        assert vars(failing)["_tidemill_kept"][0] in vars(made)["_tidemill_kept"], f"{way} keeps the files it reads"
    assert vars(other)["_tidemill_kept"][0] in vars(derived["join"])["_tidemill_kept"]
    answer = trial.mill.query("SELECT count(*) AS n FROM agg JOIN having USING (k)").toArrow()
    assert answer.column("n").to_pylist() == [trial.mill.read("having").filter(_known_keys(trial)).num_rows]
    with pytest.raises(TidemillError, match="TM1031"):
        trial.mill.read("agg", epoch=trial.mill.epoch + 1)
    for name in ("rows", "of_agg", "having"):
        trial.check_history(name)


def _known_keys(trial: Trial) -> Any:
    return pc.field("k").is_valid()


@pytest.mark.slow
def test_compaction_and_short_history(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"compaction {seed}")
    tables = usual_tables(rng, tmp_path, rows=200)
    settings = {**usual_settings(rng, tables, epochs=14), "compact_after": 2, "history_epochs": 3}
    settings["compact_bytes"] = rng.choice((1500, 32 << 20))  # with levels, or without
    trial = Trial(mill_factory(**settings, garbage_grace_seconds=0.0), tables)
    views = {
        **OLD,
        "of_agg": YOUNG["y_of_agg"],
        "extremes": ALL["g_minmax"],
        "set": ALL["g_distinct_rows"],
        "running": ALL["w_running"],
        "top_n": ALL["w_top_n"],
    }
    trial.create(views)
    assert trial.run(rng) >= 8
    trial.check_not_vacuous()
    newest = trial.mill.epoch
    for name in views:
        for epoch in range(newest - 3, newest + 1):
            assert_same_rows(trial.mill.read(name, epoch=epoch), trial.answers[epoch][name], f"{name} at {epoch}")
        total: dict[Any, int] = {}
        for _, delta in trial.mill.subscribe(name, timeout=0):
            for row, weight in weighted_rows(delta).items():
                total[row] = total.get(row, 0) + weight
        seen = sum(abs(w) for w in total.values())
        assert seen == trial.mill.read(name).num_rows
    with pytest.raises(TidemillError, match="TM1031"):
        trial.mill.read("agg", epoch=newest - 4)
    with pytest.raises(TidemillError, match="TM1031"):
        list(trial.mill.subscribe("agg", from_epoch=1, timeout=0))
    tables_at_end = trial.mill.snapshot().version.tables
    most = max(len({r.epoch_high for r in runs if not r.level}) for runs in tables_at_end.values())
    assert most < newest


def test_merged_runs_of_steps_behind_an_exchange(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    """What is stored behind an exchange has keys of all vnodes in every partition's file."""
    rng = random.Random(f"merged {seed}")
    tables = usual_tables(rng, tmp_path, rows=200)
    settings = {**usual_settings(rng, tables, epochs=12), "compact_after": 2, "partitions": 3, "small_epoch_bytes": 0}
    settings["compact_bytes"] = rng.choice((1500, 32 << 20))
    trial = Trial(mill_factory(**settings), tables)
    trial.create(GROUPS["shared_steps"])
    assert trial.run(rng) >= 6
    trial.check_not_vacuous()
    version = trial.mill.snapshot().version
    assert any(r.epoch_low < r.epoch_high for runs in version.tables.values() for r in runs), "nothing was merged"


@pytest.mark.slow
def test_reopening_goes_on_where_it_stopped(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"reopen {seed}")
    trial = make_trial(mill_factory, tmp_path, rng, partitions=2)
    trial.create({**OLD, "of_agg": YOUNG["y_of_agg"]})
    for partitions in (3, 1, 4):
        trial.advance()
        before = {name: trial.mill.read(name) for name in trial.views}
        trial.mill.close()
        trial.mill = mill_factory(**{**vars(trial.mill.settings), "partitions": partitions})
        for name, rows in before.items():
            assert_same_rows(trial.mill.read(name), rows, name)
    trial.run(rng)
    trial.check_not_vacuous()


def test_changes_of_a_view_created_late(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    """Reading the changes from the start gives the view, and never a partly filled view as if it were whole."""
    rng = random.Random(f"late {seed}")
    trial = make_trial(mill_factory, tmp_path, rng)
    trial.create({"agg": OLD["agg"]})
    for _ in range(4):
        trial.advance()
    trial.create({"late": ALL["g_two_keys"]})
    created_at_epoch = trial.mill.epoch
    trial.run(rng)
    filled = [e for e, v in trial.answers.items() if e > created_at_epoch]
    total: dict[Any, int] = {}
    for _, delta in trial.mill.subscribe("late", timeout=0):
        for row, weight in weighted_rows(delta).items():
            total[row] = total.get(row, 0) + weight
    assert {r: w for r, w in total.items() if w} == weighted_rows(trial.mill.read("late"))
    for epoch in filled:
        try:
            rows = trial.mill.read("late", epoch=epoch)
        except TidemillError as error:
            assert error.number in ("TM1030", "TM1031")
            continue
        assert_same_rows(rows, trial.answers[epoch]["late"], f"late at {epoch}, born at {created_at_epoch}")


def test_a_whole_chain_of_views_at_once(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    """A chain of views created late over a chain created early."""
    rng = random.Random(f"chain {seed}")
    trial = make_trial(mill_factory, tmp_path, rng)
    chain = {n: q for n, q in GROUPS["unions_and_views"].items() if n.startswith("v_")}
    early = dict(list(chain.items())[:3])
    trial.create(early)
    trial.advance()
    trial.advance()
    trial.create({n: q for n, q in chain.items() if n not in early})
    trial.run(rng)
    trial.check_not_vacuous()


def test_deletions_that_history_gives_before_what_they_delete(mill_factory: MillFactory, tmp_path: Path) -> None:
    """A group that counts no rows for a while keeps its sums: two halves of a pair come in two epochs."""
    (tmp_path / "t").mkdir()
    mill = mill_factory(epoch_bytes=10, split_bytes=10, compact_after=2)
    mill.sql(f"CREATE TABLE t (k INT, i INT, o STRING) USING csv OPTIONS (path '{tmp_path / 't'}', opColumn 'o')")
    mill.sql("CREATE MATERIALIZED VIEW all AS SELECT * FROM t")
    rows = ["1,7,I\n", "1,5,I\n", "1,3,I\n"]
    (tmp_path / "t" / "1.csv").write_text("".join(rows))
    list(mill.drain())
    mill.sql("CREATE MATERIALIZED VIEW g AS SELECT k, sum(i) AS s, count(DISTINCT i) AS d FROM t GROUP BY k")
    mill.sql("CREATE MATERIALIZED VIEW over AS SELECT s, d FROM g")
    (tmp_path / "t" / "2.csv").write_text("1,3,D\n1,5,D\n1,4,I\n1,9,I\n")
    list(mill.drain())
    assert mill.read("g").to_pylist() == [{"k": 1, "s": 20, "d": 3}]
    assert mill.read("over").to_pylist() == [{"s": 20, "d": 3}]


def test_a_statement_assembles_one_program(
    mill_factory: MillFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many views there are, and in however many places it is needed; the program of before may be kept."""
    (tmp_path / "t").mkdir()
    made: list[int] = []
    assembled = Assembler._assembled

    def counted(self: Assembler) -> Program:
        made.append(len(self.views))
        return assembled(self)

    monkeypatch.setattr(Assembler, "_assembled", counted)
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t (k INT, v INT) USING csv OPTIONS (path '{tmp_path / 't'}')")
    for number in range(3):
        made.clear()
        mill.sql(f"CREATE MATERIALIZED VIEW v{number} AS SELECT k, sum(v + {number}) AS s FROM t GROUP BY k")
        assert made == [number + 1]
    made.clear()
    mill.sql("DROP VIEW v2")
    assert made == []
    mill.sql("CREATE MATERIALIZED VIEW last AS SELECT k FROM t")
    assert made == [3]
