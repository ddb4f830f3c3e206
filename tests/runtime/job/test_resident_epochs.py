"""Epochs in tasks that stay: the same answers as in jobs, also when tasks are lost or fail."""

from __future__ import annotations

import errno
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from resident_process import VIEWS

from job_status import jobs_so_far
from mill_factory import MillFactory
from python_workers import kill_workers
from resident_mill import stage_of, wait_for_tasks
from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.epoch import coordinator
from tidemill.runtime.job import resident_epochs
from tidemill.runtime.job.resident_epochs import SharedStage
from tidemill.runtime.job.resident_host import EpochHost
from tidemill.runtime.job.superstep import EpochPlan, TaskReport, Work
from tidemill.runtime.spark.messages import LostError
from tidemill.runtime.spark.resident_slots import ResidentSlots, resident_slots
from tidemill.runtime.spark.resident_stage import ResidentStage
from tidemill.runtime.spark.session import full_master, local_slots
from tidemill.testing import assert_same_rows

SMALL = {"mode": "resident", "small_epoch_bytes": 1 << 20}


@pytest.fixture(autouse=True)
def own_stage(spark: SparkSession) -> None:
    """Each test begins a stage: mills that tests before have left behind run jobs from now on."""
    shared = resident_epochs._stages.pop(spark.sparkContext, None)
    if shared is not None:
        for user in list(shared._looks):
            shared.leave(user)
        shared.close()


def opened(mill_factory: MillFactory, data: Path, name: str = "root", **settings: object) -> Mill:
    """A resident mill with a view that counts and sums by key."""
    data.mkdir(exist_ok=True)
    mill = mill_factory(name, **{**SMALL, **settings})
    mill.sql(f"CREATE TABLE t (k INT, v BIGINT) USING csv OPTIONS (path '{data}')")
    mill.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k")
    return mill


def write(data: Path, number: int, rows: list[tuple[int, int]]) -> None:
    """A file of rows."""
    (data / f"{number:04d}.csv").write_text("".join(f"{k},{v}\n" for k, v in rows))


def sums(mill: Mill) -> dict[int, tuple[int, int]]:
    """What the view has."""
    return {r["k"]: (r["n"], r["s"]) for r in mill.read("sums").to_pylist()}


def added(expected: dict[int, tuple[int, int]], rows: list[tuple[int, int]]) -> None:
    """The model: a dictionary."""
    for k, v in rows:
        n, s = expected.get(k, (0, 0))
        expected[k] = n + 1, s + v


def test_epochs_without_jobs(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    chance, data, expected = random.Random(seed), tmp_path / "data", dict[int, tuple[int, int]]()
    mill = opened(mill_factory, data, checkpoint_seconds=1000.0, compact_after=1000)
    wait_for_tasks(mill)
    jobs = jobs_so_far(mill.spark)
    for number in range(20):
        rows = [(chance.randrange(50), chance.randrange(-100, 100)) for _ in range(chance.choice((1, 10, 1000)))]
        write(data, number, rows)
        added(expected, rows)
        report = mill.advance()
        assert report is not None
        assert (report.resident, report.rows_in, report.warnings) == (True, len(rows), ())
        assert sums(mill) == expected, f"epoch {report.epoch}"
    assert jobs_so_far(mill.spark) == jobs, "an epoch is no job"


def test_a_view_that_comes_and_one_that_goes(mill_factory: MillFactory, tmp_path: Path) -> None:
    """The task is sent each new program once."""
    data = tmp_path / "data"
    mill = opened(mill_factory, data)
    wait_for_tasks(mill)
    for number in range(6):
        write(data, number, [(number, 1), (0, 2)])
        if number == 2:
            mill.sql("CREATE MATERIALIZED VIEW most AS SELECT MAX(k) AS k FROM t")
        if number == 4:
            mill.sql("DROP VIEW sums")
        while (report := mill.advance()) is not None:
            assert report.resident
        if number >= 2:
            assert mill.read("most").to_pylist() == [{"k": number}]


def test_a_lost_task(mill_factory: MillFactory, tmp_path: Path) -> None:
    data, expected = tmp_path / "data", dict[int, tuple[int, int]]()
    mill = opened(mill_factory, data)
    for number in range(4):
        wait_for_tasks(mill)
        if number % 2:
            kill_workers(mill.spark)
        rows = [(number % 3, number), (7, 1)]
        write(data, number, rows)
        added(expected, rows)
        report = mill.advance()
        assert report is not None
        assert report.resident or number % 2, "a task that is known to be lost is not asked"
        assert not report.warnings or (not report.resident and [w[:6] for w in report.warnings] == ["TM1042"])
        assert sums(mill) == expected


def test_a_task_that_kills_its_process_in_an_epoch(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Its epoch is run as a job, over the same input."""
    data, mark = tmp_path / "data", tmp_path / "killed"
    mill = opened(mill_factory, data)

    def deadly(value: int) -> int:
        if value == 13 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        return value * 2

    mill.register_function("deadly", deadly, "BIGINT")
    mill.sql("CREATE MATERIALIZED VIEW doubled AS SELECT deadly(v) AS d FROM t")
    wait_for_tasks(mill)
    write(data, 0, [(1, 12)])
    first = mill.advance()
    assert first is not None
    assert first.resident
    write(data, 1, [(1, 13), (1, 14)])
    report = mill.advance()
    assert report is not None
    assert (report.resident, report.rows_in, mark.exists()) == (False, 2, True)
    assert "the task was lost" in report.warnings[0]
    assert sorted(r["d"] for r in mill.read("doubled").to_pylist()) == [24, 26, 28]
    assert sums(mill) == {1: (3, 39)}


class OfThisModule:
    """Workers cannot import it."""


def test_an_error_without_a_number_is_told(
    mill_factory: MillFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job fails likewise here; nothing is sealed, and the task goes on."""
    data = tmp_path / "data"
    mill = opened(mill_factory, data)
    write(data, 0, [(1, 1)])
    jobs = mill._coordinator._jobs
    real = jobs.run

    def broken(plan: EpochPlan, supersteps: int, work: Sequence[Work]) -> list[TaskReport]:
        return real(replace(plan, memory_bytes=OfThisModule()), supersteps, work)  # type: ignore[arg-type]

    wait_for_tasks(mill)
    with monkeypatch.context() as patch, pytest.raises(TidemillError, match="TM1020"):
        patch.setattr(jobs, "run", broken)
        mill.advance()
    wait_for_tasks(mill)
    report = mill.advance()
    assert report is not None
    assert report.resident
    assert [w[:6] for w in report.warnings] == ["TM1042"]
    assert "No module named" in report.warnings[0]
    assert sums(mill) == {1: (1, 1)}


def test_errors_with_a_number_end_the_epoch_and_not_the_task(mill_factory: MillFactory, tmp_path: Path) -> None:
    data = tmp_path / "data"
    mill = opened(mill_factory, data)
    mill.sql("CREATE MATERIALIZED VIEW inverse AS SELECT 1 DIV v AS i FROM t")
    wait_for_tasks(mill)
    write(data, 0, [(1, 0)])
    report = mill.advance()
    assert report is not None
    assert report.resident
    assert list(report.failed) == ["inverse"]
    write(data, 1, [(1, 5)])
    report = mill.advance()
    assert report is not None
    assert report.resident
    assert sums(mill) == {1: (2, 5)}


def test_mills_share_the_stage_of_their_spark(mill_factory: MillFactory, tmp_path: Path) -> None:
    one = opened(mill_factory, tmp_path / "one", "first")
    two = opened(mill_factory, tmp_path / "two", "second")
    stage = stage_of(one)
    assert stage_of(two) is stage
    wait_for_tasks(one)
    one.close()
    assert not stage.closed
    write(tmp_path / "two", 0, [(1, 1)])
    report = two.advance()
    assert report is not None
    assert report.resident
    two.close()
    assert stage.closed
    three = opened(mill_factory, tmp_path / "three", "third")
    assert stage_of(three) is not stage
    wait_for_tasks(three)


def test_mills_share_the_stage_that_takes_over(mill_factory: MillFactory, tmp_path: Path) -> None:
    one = opened(mill_factory, tmp_path / "one", "first")
    two = opened(mill_factory, tmp_path / "two", "second")
    wait_for_tasks(one)
    before = stage_of(one)
    before._given = ()  # as if Spark gave tasks something else now
    for number, mill in enumerate((one, two, one, two)):
        write(tmp_path / ("one", "two")[number % 2], number, [(1, number)])
        assert mill.advance() is not None
        wait_for_tasks(mill)
    assert before.closed and stage_of(one) is stage_of(two) is not before
    assert sums(one) == {1: (2, 2)} and sums(two) == {1: (2, 4)}
    one.close()
    after = stage_of(two)
    assert not after.closed
    two.close()
    assert after.closed


def test_mills_share_a_stage_of_another_size(
    mill_factory: MillFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second mill finds more slots than the first: both go on in the tasks of a new stage, to its end."""
    slots = [1]
    monkeypatch.setattr(coordinator, "resident_slots", lambda *_: ResidentSlots(slots[0]))
    one = opened(mill_factory, tmp_path / "one", "first")
    wait_for_tasks(one)
    first = stage_of(one)
    slots[0] = 2
    two = opened(mill_factory, tmp_path / "two", "second")
    assert first.closed and stage_of(one) is stage_of(two) and stage_of(one).tasks == 2
    wait_for_tasks(two, 2)
    stage_of(two).failure = "as if Spark had sent both tasks to one executor"
    stage_of(two).close()
    end = time.monotonic() + 60
    told: list[tuple[str, ...]] = []
    while len(told) < 2 or one._coordinator._jobs._shared.missing_since() is not None:  # type: ignore[attr-defined]
        assert time.monotonic() < end
        for name, mill in (("one", one), ("two", two)):
            write(tmp_path / name, len(told), [(1, 1)])
            report = mill.advance()
            assert report is not None
            told.append(report.warnings)
        time.sleep(0.1)
    assert not any(told), "a stage that begins anew is no matter for a warning"
    wait_for_tasks(two, 2)
    for name, mill in (("one", one), ("two", two)):
        write(tmp_path / name, len(told), [(1, 1)])
        report = mill.advance()
        assert report is not None
        assert (report.resident, report.warnings) == (True, ())
        assert sums(mill) == {1: (len(told) // 2 + 1,) * 2}
    stage = stage_of(two)
    two.close()
    assert not stage.closed
    one.close()
    assert stage.closed


def test_the_kernel_ends_connections_to_hosts_that_are_gone(mill_factory: MillFactory, tmp_path: Path) -> None:
    """An epoch waits half a minute for a host without power, and not for ever."""
    mill = opened(mill_factory, tmp_path / "data")
    wait_for_tasks(mill)
    (task,) = stage_of(mill).take()
    assert task.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    idle, between, count = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    told = [task.getsockopt(socket.IPPROTO_TCP, option) for option in (idle, between, count)]
    assert told[0] + told[1] * told[2] <= 30
    assert task.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
    stage_of(mill).give_back([task])


def test_missing_tasks_are_told_once_each_time(
    mill_factory: MillFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, warnings = tmp_path / "data", []
    mill = opened(mill_factory, data)
    wait_for_tasks(mill)
    monkeypatch.setattr(resident_epochs, "_PATIENCE", 0.0)
    for number, since in enumerate((1.0, 1.0, 1.0, None, 2.0, 2.0)):
        monkeypatch.setattr(SharedStage, "missing_since", lambda _, since=since: since)
        write(data, number, [(1, 1)])
        report = mill.advance()
        assert report is not None
        warnings.append([w[:6] for w in report.warnings])
    assert warnings == [[], ["TM1043"], [], [], [], ["TM1043"]], "the first epoch without a task begins the time"


def test_a_stage_that_begins_anew_is_no_matter_for_a_warning(
    mill_factory: MillFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither after an idle time, nor when that happens within an epoch."""
    data = tmp_path / "data"
    mill = opened(mill_factory, data)
    wait_for_tasks(mill)
    monkeypatch.setattr(resident_epochs, "_PATIENCE", 0.2)
    time.sleep(0.5)
    stage_of(mill)._given = ()  # as if Spark gave tasks something else now
    write(data, 0, [(1, 1)])
    report = mill.advance()
    assert report is not None
    assert report.warnings == ()
    monkeypatch.undo()
    wait_for_tasks(mill)
    stage = stage_of(mill)

    def ended(*_: object) -> list[TaskReport]:
        stage.close()
        raise LostError

    monkeypatch.setattr(resident_epochs, "_run", ended)
    write(data, 1, [(1, 1)])
    report = mill.advance()
    assert report is not None
    assert (report.resident, report.warnings) == (False, ())
    assert sums(mill) == {1: (2, 2)}


def test_a_driver_that_cannot_listen_runs_jobs(
    mill_factory: MillFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it can."""

    def full(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    data = tmp_path / "data"
    with monkeypatch.context() as patch:
        patch.setattr(socket, "create_server", full)
        mill = opened(mill_factory, data)
        patch.setattr(resident_epochs, "_PATIENCE", 0.0)
        for number in range(2):
            write(data, number, [(1, 1)])
            report = mill.advance()
            assert report is not None and not report.resident
        assert len(report.warnings) == 1 and "Too many open files" in report.warnings[0]
    monkeypatch.setattr(resident_epochs, "_LOOK_SECONDS", 0.0)
    write(data, 2, [(1, 1)])
    mill.advance()
    wait_for_tasks(mill)
    write(data, 3, [(1, 1)])
    report = mill.advance()
    assert report is not None
    assert (report.resident, report.warnings) == (True, ())
    stage = stage_of(mill)
    mill.close()
    assert stage.closed and mill.spark.sparkContext not in resident_epochs._stages


def test_a_stage_whose_tasks_never_begin_ends_at_once(spark: SparkSession) -> None:
    """Also when it is closed before its job is there."""
    for _ in range(5):
        begin = time.monotonic()
        stage = ResidentStage(spark.sparkContext, EpochHost(), 10_000, "too many")
        stage.close()
        assert not any(thread.is_alive() for thread in stage._threads)
        assert time.monotonic() - begin < 30
    end = time.monotonic() + 60
    while spark.sparkContext.statusTracker().getActiveStageIds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_task_in_use_makes_an_epoch_a_job(mill_factory: MillFactory, tmp_path: Path) -> None:
    data = tmp_path / "data"
    mill = opened(mill_factory, data)
    taken = stage_of(mill).take(stage_of(mill).tasks, timeout=60)
    assert len(taken) == stage_of(mill).tasks
    write(data, 0, [(3, 4)])
    report = mill.advance()
    stage_of(mill).give_back(taken)
    assert report is not None
    assert (report.resident, report.warnings) == (False, ())
    assert sums(mill) == {3: (1, 4)}


def test_a_stranger_is_not_taken_for_a_task(mill_factory: MillFactory, tmp_path: Path) -> None:
    mill = opened(mill_factory, tmp_path / "data")
    wait_for_tasks(mill)
    stage = stage_of(mill)
    with socket.create_connection(stage.address) as connection:
        connection.sendall(bytes(32))
        connection.settimeout(10)
        assert connection.recv(1) == b""
    assert len(stage.take(stage.tasks, timeout=30)) == stage.tasks
    assert stage.take() == []


@pytest.mark.slow
@pytest.mark.parametrize("where", ["local", "hosts"])
def test_several_partitions_with_exchanges(spark: SparkSession, tmp_path: Path, seed: int, where: str) -> None:
    """In a process of its own, where Spark has slots for two tasks that stay; workers are killed.

    After every epoch views are what Spark says of the same files.
    """
    script, epochs = Path(__file__).with_name("resident_process.py"), 5 if "TIDEMILL_CHAOS" in os.environ else 3
    tests = script.parents[2]
    places = os.pathsep.join([str(tests), str(tests.parent), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(seed), str(epochs), where],
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    told = json.loads(run.stdout.strip().splitlines()[-1])
    assert len(told) == epochs
    assert all(t["resident"] and not t["warnings"] for t in told if not t["killed"]), told
    assert all(not t["warnings"] or (not t["resident"] and t["warnings"] == ["TM1042"]) for t in told), told
    assert told[-1]["killed"]
    for epoch in range(epochs):
        kept = tmp_path / "kept" / str(epoch)
        for name in ("t", "u"):
            rows = spark.read.schema("k INT, v BIGINT").csv(str(kept / name)).toArrow()
            spark.createDataFrame(rows).coalesce(1).createOrReplaceTempView(name)  # each file is read once
        for name, query in VIEWS.items():
            expected = spark.sql(query)
            expected.createOrReplaceTempView(name)
            assert_same_rows(pq.read_table(kept / f"{name}.parquet"), expected.toArrow(), f"{name}, epoch {epoch}")
    assert expected.count() > 0


# -- slots ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("master", "more", "full"),
    [
        ("local", 0, "local[1,4]"),
        ("local", 2, "local[3,4]"),
        ("local[2]", 0, "local[2,4]"),
        ("local[2]", 1, "local[3,4]"),
        ("local[2,7]", 3, "local[5,7]"),
        ("local[*]", 0, "local[*,4]"),
        ("local[*]", 2, f"local[{len(os.sched_getaffinity(0)) + 2},4]"),
        ("local-cluster[2,1,1024]", 2, "local-cluster[2,1,1024]"),
        ("spark://host:7077", 2, "spark://host:7077"),
    ],
)
def test_a_local_master_gets_slots_for_tasks_that_stay(master: str, more: int, full: str) -> None:
    assert full_master(master, more) == full
    assert (local_slots(master) is None) == (not master.startswith("local") or "cluster" in master)


def test_tasks_of_a_cluster_leave_a_slot_in_each_executor() -> None:
    """Executors as Spark's status store tells of them; the driver has no slot."""

    def slots(*cores: int, cpus: str = "1", **settings: Any) -> ResidentSlots:
        summaries = [SimpleNamespace(totalCores=lambda count=count: count) for count in cores]
        executors = SimpleNamespace(apply=summaries.__getitem__, size=lambda: len(summaries))
        scala = SimpleNamespace(statusStore=lambda: SimpleNamespace(executorList=lambda _: executors))
        context: Any = SimpleNamespace(
            _conf={"spark.task.cpus": cpus},
            master="spark://head:7077",
            _jsc=SimpleNamespace(sc=lambda: scala),
        )
        return resident_slots(context, Settings(**{"mode": "resident", **settings}))

    assert slots(0, 4, 4) == ResidentSlots(6, 3)
    assert slots(0, 4, 4, cpus="2") == ResidentSlots(2, 1)
    assert slots(0, 4, 2, 8) == ResidentSlots(3, 1), "Spark may send a task to any of them"
    assert slots(0, 4, 4, partitions=5) == ResidentSlots(5, 3)
    assert slots(0, 1, 1).tasks == slots(0).tasks == slots(0, 8, 1).tasks == 0
    assert slots(0, 4, 4, mode="auto").tasks == slots(0, 4, 4, mode="jobs").tasks == 0


def test_a_full_executor_ends_the_stage(spark: SparkSession) -> None:
    stage = ResidentStage(spark.sparkContext, EpochHost(), 2, "crowded", per_executor=1)
    end = time.monotonic() + 60
    while stage.failure is None:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert "no slot of it is left" in stage.failure
    assert stage.closed and stage.take() == []
    stage.close()


def test_more_partitions_than_tasks(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    """A task works on several partitions, one after the other."""
    chance, data, expected = random.Random(seed), tmp_path / "data", dict[int, tuple[int, int]]()
    mill = opened(mill_factory, data, partitions=5, small_epoch_bytes=0)
    mill.sql("CREATE MATERIALIZED VIEW sizes AS SELECT n, COUNT(*) AS c FROM sums GROUP BY n")
    assert stage_of(mill).tasks < 5
    wait_for_tasks(mill, stage_of(mill).tasks)
    for number in range(6):
        rows = [(chance.randrange(50), chance.randrange(-100, 100)) for _ in range(chance.choice((1, 10, 1000)))]
        write(data, number, rows)
        added(expected, rows)
        report = mill.advance()
        assert report is not None
        assert (report.resident, report.warnings) == (True, ()), f"seed {seed}"
        assert sums(mill) == expected
        sizes = {r["n"]: r["c"] for r in mill.read("sizes").to_pylist()}
        assert sizes == Counter(n for n, _ in expected.values())


def test_tasks_that_a_session_has_slots_for(spark: SparkSession) -> None:
    """That of the tests is Tidemill's own, with two slots and as many more."""
    context = spark.sparkContext
    more = 0 if os.environ.get("TIDEMILL_MODE") == "jobs" else 2
    assert context.defaultParallelism == 2 + more
    assert resident_slots(context, Settings(mode="jobs")).tasks == 0
    assert resident_slots(context, Settings(mode="resident")).tasks == (more or 1)
    assert resident_slots(context, Settings(mode="auto")).tasks == more


def test_what_spark_gives_to_tasks_that_begin_later(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Variables and packages that came after the stage: another one begins, with them."""
    data = tmp_path / "data"
    mill = opened(mill_factory, data)

    def told(value: int) -> str:
        return os.environ.get("TIDEMILL_TOLD", "nothing")

    mill.register_function("told", told, "STRING")
    mill.sql("CREATE MATERIALIZED VIEW said AS SELECT v, told(v) AS s FROM t")
    wait_for_tasks(mill)
    before = stage_of(mill)
    write(data, 1, [(1, 1)])
    assert mill.advance().resident  # type: ignore[union-attr]
    context = mill.spark.sparkContext
    context.environment["TIDEMILL_TOLD"] = "something"
    try:
        write(data, 2, [(1, 2)])
        mill.advance()
        wait_for_tasks(mill)
        assert stage_of(mill) is not before and before.closed
        write(data, 3, [(1, 3)])
        assert mill.advance().resident  # type: ignore[union-attr]
    finally:
        del context.environment["TIDEMILL_TOLD"]
    assert {r["v"]: r["s"] for r in mill.read("said").to_pylist()} == {1: "nothing", 2: "something", 3: "something"}
