"""Small epochs that tasks share by views: every view is Spark's answer, and counts are those of one task."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from oracle import Trial, usual_settings, usual_tables
from pyspark.sql import SparkSession
from test_sharing_views import SHARING

from mill_factory import MillFactory
from python_workers import kill_workers
from resident_mill import wait_for_tasks
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.epoch.report import EpochReport
from tidemill.runtime.job import divisions, resident_epochs
from tidemill.runtime.job.superstep import TaskReport
from tidemill.task.program import Program
from tidemill.testing import assert_same_rows

PAIRS = "SELECT a.k, a.i, b.i AS j FROM t a JOIN t b ON a.k = b.k WHERE a.i > 20"
VIEWS = {
    **SHARING,
    "pairs": PAIRS,
    "paired": f"SELECT k, count(*) AS c, max(j) AS m FROM ({PAIRS}) GROUP BY k",
    "least": "SELECT k, min(i) AS m, max(i) AS most FROM t GROUP BY k",
    "range": "SELECT count(*) AS c FROM (SELECT k, min(i) AS m, max(i) AS most FROM t GROUP BY k) WHERE most > m",
}
"""Some have state that others need, too."""
RESIDENT = {"mode": "resident", "small_epoch_bytes": 1 << 20}


@pytest.fixture
def divided(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, seed: int) -> list[int]:
    """Divides every program for which it knows costs, at random; gets the number of tasks of each epoch."""
    shared = resident_epochs._stages.pop(spark.sparkContext, None)  # of mills that tests before have left behind
    if shared is not None:
        for user in list(shared._looks):
            shared.leave(user)
        shared.close()
    monkeypatch.setattr(divisions, "_LEARNED", 1)
    monkeypatch.setattr(divisions, "_PART_COSTS", -1e6)
    chance = random.Random(seed)

    def at_random(needs: Sequence[Any], costs: Any, count: int) -> list[Any]:
        targets = [*range(count), *(chance.randrange(count) for _ in needs)][: len(needs)]
        chance.shuffle(targets)
        given = list(zip(needs, targets, strict=True))
        return [np.unique(np.concatenate([n for n, t in given if t == task])) for task in sorted({*targets})]

    monkeypatch.setattr(divisions, "_given_out", at_random)
    run, counts = resident_epochs._run, list[int]()

    def counted(tasks: Any, sent: Any, plan: Any, programs: Sequence[Program], *work: Any) -> list[TaskReport]:
        counts.append(len(programs))
        return run(tasks, sent, plan, programs, *work)

    monkeypatch.setattr(resident_epochs, "_run", counted)
    return counts


def test_views_that_share_steps(mill_factory: MillFactory, tmp_path: Path, divided: list[int], seed: int) -> None:
    """Also once some are dropped and others have come, when other steps are divided."""
    rng = random.Random(seed)
    tables = usual_tables(rng, tmp_path)
    trial = Trial(mill_factory(**{**usual_settings(rng, tables, epochs=12), **RESIDENT}), tables)
    later = dict(rng.sample([n for n in VIEWS.items() if n[0] not in ("same", "over", "sums")], 2))
    for name, query in VIEWS.items():
        if name not in later:
            trial.mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            trial.views[name] = query
    wait_for_tasks(trial.mill, 2)
    for _ in range(5):
        rng.choice(list(trial.tables.values())).release(1)
        trial.advance()
    trial.drop("over")
    for name, query in later.items():
        trial.mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        trial.views[name] = query
    trial.run(rng)
    trial.check_not_vacuous()
    trial.check_history("sums")
    assert divided.count(2) >= 3, divided


def opened(mill_factory: MillFactory, data: Path, name: str) -> Mill:
    """A mill with views in two parts at least, one of which fails for a row."""
    mill = mill_factory(name, **RESIDENT)
    mill.sql(f"CREATE TABLE t (k INT, v INT) USING csv OPTIONS (path '{data}', header true)")
    for n in range(4):
        mill.sql(f"CREATE MATERIALIZED VIEW v{n} AS SELECT k + {n} AS g, sum(v) AS s FROM t GROUP BY k + {n}")
    mill.sql("CREATE MATERIALIZED VIEW inverse AS SELECT k, 100 DIV v AS i FROM t")
    mill.sql("CREATE MATERIALIZED VIEW counts AS SELECT i, count(*) AS c FROM inverse GROUP BY i")
    return mill


def shown(report: EpochReport) -> dict[str, Any]:
    """What a report counts."""
    counted = (
        "rows_in",
        "bytes_in",
        "rows_out",
        "malformed",
        "dropped",
        "rows_malformed",
        "splits",
        "failed",
        "tables",
    )
    return {name: getattr(report, name) for name in (*counted, "read")}


def test_counts_are_those_of_one_task(
    mill_factory: MillFactory, tmp_path: Path, divided: list[int], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Malformed rows, failing rows and files that cannot be read are counted once, however many tasks see them."""
    rng, data = random.Random(seed), tmp_path / "data"
    data.mkdir()
    files = ["k,v\n1,0\n"]
    for _ in range(8):
        rows = [(rng.randrange(5), rng.choice((0, 1, 2, 3, "x", ""))) for _ in range(rng.randrange(1, 9))]
        files.append("k,v\n" + "".join(f"{k},{v}\n" for k, v in rows))
    found: list[list[dict[str, Any]]] = []
    answers: list[dict[str, pa.Table]] = []
    messages: dict[str, list[str]] = {"one": [], "two": []}
    steps: dict[str, Counter[tuple[str, int, int]]] = {}
    for name, learned in (("one", 10**9), ("two", 1)):
        monkeypatch.setattr(divisions, "_LEARNED", learned)
        divided.clear()
        mill = opened(mill_factory, data, name)
        wait_for_tasks(mill, 2)
        reports = []
        for number, text in enumerate(files):
            (data / f"{number}.csv").write_text(text)
            (data / f"{number}.csv.gz").write_bytes(b"not gzip" if number == 6 else gzip.compress(text.encode()))
            report = mill.advance()
            assert report is not None
            reports.append(shown(report))
        assert (2 in divided) == (name == "two"), divided
        found.append(reports)
        answers.append({view: mill.read(view) for view in ("v0", "v1", "v2", "v3", "t__errors")})
        for view in ("inverse", "counts"):
            with pytest.raises(TidemillError, match="TM1039") as failing:
                mill.read(view)
            messages[name].append(failing.value.message())
        steps[name] = Counter((o.operation, o.rows_in, o.rows_out) for o in report.operators)
        mill.close()
        for file in data.iterdir():
            file.unlink()
    assert found[0] == found[1]
    assert steps["one"] == steps["two"]
    assert messages["one"] == messages["two"]
    for view, rows in answers[0].items():
        assert_same_rows(answers[1][view], rows, view)


def test_a_failing_row_that_is_deleted_in_one_task(
    mill_factory: MillFactory, tmp_path: Path, divided: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came in two."""
    mill, data = mill_factory(**RESIDENT), tmp_path / "data"
    data.mkdir()
    mill.sql(f"CREATE TABLE t (op STRING, k INT, v INT) USING csv OPTIONS (path '{data}', opColumn 'op')")
    mill.sql("CREATE MATERIALIZED VIEW inverse AS SELECT k, 100 DIV v AS i FROM t")
    mill.sql("CREATE MATERIALIZED VIEW counts AS SELECT k, count(i) AS c FROM inverse GROUP BY k")
    mill.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, sum(i) AS s FROM inverse GROUP BY k")
    wait_for_tasks(mill, 2)
    for number, line in enumerate(("I,1,5", "I,1,4", "I,2,0", "D,2,0")):
        if number == 3:
            monkeypatch.setattr(divisions, "_LEARNED", 10**9)
        (data / f"{number}.csv").write_text(f"{line}\n")
        report = mill.advance()
        assert report is not None
        assert sorted(report.failed) == (["counts", "inverse", "sums"] if number == 2 else [])
    assert divided == [1, 2, 2, 1]
    assert mill.read("sums").to_pylist() == [{"k": 1, "s": 45}]


@pytest.mark.parametrize(("type_", "tasks"), [("INT", 2), ("DOUBLE", 1)])
def test_views_over_sums_of_doubles_are_not_divided(
    mill_factory: MillFactory, tmp_path: Path, divided: list[int], type_: str, tasks: int
) -> None:
    """Such a sum depends on how rows are batched, so that two tasks might have two of them."""
    mill, data = mill_factory(**RESIDENT), tmp_path / "data"
    data.mkdir()
    mill.sql(f"CREATE TABLE t (k INT, d {type_}) USING csv OPTIONS (path '{data}')")
    mill.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, sum(d) AS s FROM t GROUP BY k")
    mill.sql("CREATE MATERIALIZED VIEW over AS SELECT s, count(*) AS c FROM sums GROUP BY s")
    mill.sql("CREATE MATERIALIZED VIEW above AS SELECT s + 1 AS s, count(*) AS c FROM sums GROUP BY s + 1")
    wait_for_tasks(mill, 2)
    for number in range(3):
        (data / f"{number}.csv").write_text("1,5\n2,7\n")
        assert mill.advance() is not None
    assert divided == [1, tasks, tasks]
    assert sorted(r["s"] for r in mill.read("above").to_pylist()) == [16, 22]


def test_views_over_an_order_book_are_not_divided(
    mill_factory: MillFactory, tmp_path: Path, divided: list[int]
) -> None:
    """What is left of an order is what its messages have taken from a floating-point number."""
    mill, data = mill_factory(**RESIDENT), tmp_path / "data"
    data.mkdir()
    mill.sql(f"CREATE TABLE bids USING orderbook OPTIONS (path '{data}', book 'bids')")
    mill.sql("CREATE MATERIALIZED VIEW depth AS SELECT price, count(*) AS n FROM bids GROUP BY price")
    mill.sql("CREATE MATERIALIZED VIEW few AS SELECT price, volume FROM bids WHERE volume < 5")
    wait_for_tasks(mill, 2)
    for number, line in enumerate(("1,1,B,10,5", "2,1,E,4,0", "3,1,E,4,0")):
        (data / f"{number}").write_text(f"{line}\n")
        assert mill.advance() is not None
    assert divided == [1, 1, 1]
    assert mill.read("few").to_pylist() == [{"price": 5.0, "volume": 2.0}]


def test_a_lost_task(
    mill_factory: MillFactory, tmp_path: Path, divided: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its epoch runs as a job, with the whole program; soon they are divided again."""
    monkeypatch.setattr(divisions, "_PAUSE", 1)
    data = tmp_path / "data"
    data.mkdir()
    mill = opened(mill_factory, data, "root")
    sums: Counter[int] = Counter()
    for number in range(12):
        wait_for_tasks(mill, 2)
        if number in (4, 7):
            kill_workers(mill.spark)
        (data / f"{number}.csv").write_text(f"k,v\n{number % 3},{number + 1}\n")
        sums[number % 3] += number + 1
        report = mill.advance()
        assert report is not None
        assert report.resident or number in (4, 7)
        assert {r["g"] - 2: r["s"] for r in mill.read("v2").to_pylist()} == sums
    assert divided[1:4] == [2, 2, 2] and divided[-1] == 2
