"""A Python worker that dies in the middle of an epoch: Spark runs its task again, and nobody notices."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest

from job_status import failed_tasks, jobs_so_far
from python_workers import kill_workers, workers
from tidemill.mill import Mill


def kill_soon(mill: Mill, delay: float) -> threading.Thread:
    """Kill all workers once, a moment after an epoch has begun to run in them."""

    def kill() -> None:
        time.sleep(delay)
        kill_workers(mill.spark)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


@pytest.mark.slow
def test_killed_worker_changes_nothing(mill_factory, tmp_path: Path, seed: int) -> None:  # type: ignore[no-untyped-def]
    chance = random.Random(seed)
    data = tmp_path / "data"
    data.mkdir()
    expected: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    mill = mill_factory(split_bytes=100_000)
    mill.sql(f"CREATE TABLE t (k INT, v BIGINT, s STRING) USING csv OPTIONS (path '{data}')")
    mill.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS v FROM t GROUP BY k")
    mill.sql("CREATE MATERIALIZED VIEW few AS SELECT k, v FROM t WHERE v = 0")
    before, failed, killed, zeros = set(), 0, 0, []
    for number in range(25):
        lines = []
        for _ in range(8_000):
            k, v = chance.randrange(500), chance.randrange(1000)
            lines.append(f"{k},{v},some text to make the row longer\n")
            expected[k][0] += 1
            expected[k][1] += v
            zeros += [(k, v)] if v == 0 else []
        (data / f"{number}.csv").write_text("".join(lines))
        before |= set(workers(mill.spark))
        begun = jobs_so_far(mill.spark)
        killer = kill_soon(mill, chance.uniform(0.0, 0.15)) if number else None
        report = mill.advance()
        if killer is not None:
            killer.join()
            killed += 1
        assert report is not None
        assert (report.epoch, report.rows_in) == (number + 1, 8_000)
        failed += failed_tasks(mill.spark, begun)
        found = {r["k"]: [r["n"], r["v"]] for r in mill.read("sums").to_pylist()}
        assert found == expected, f"epoch {number + 1}"
        if failed >= 2:
            break
    assert failed >= 2, f"{killed} kills, and never was a task running"
    assert sorted((r["k"], r["v"]) for r in mill.read("few").to_pylist()) == sorted(zeros)
    assert set(workers(mill.spark)) - before, "there are new workers"
    mill.checkpoint()
    referenced = mill.snapshot().version.files()
    store = mill.snapshot().store
    present = {name for name, _ in (*store.buffered(), *store.durable())}
    assert referenced <= present


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError, ValueError])
def test_a_worker_that_java_has_left_says_nothing(error: type[Exception]) -> None:
    """What a mill that stops leaves behind is quiet; anything else is told."""
    code = (
        "from tidemill.runtime.workers.worker_daemon import quiet\n"
        "def worker(socket, authenticated):\n"
        f"    raise {error.__name__}('gone')\n"
        "quiet(worker)(None, True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert (done.stderr == "") == (error is not ValueError)


def test_an_epoch_is_tried_again_when_spark_has_given_its_job_up(mill_factory, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Spark gives up after four lost workers; whoever runs the mill in the background should not notice."""
    data, deaths = tmp_path / "data", tmp_path / "deaths"
    data.mkdir()
    deaths.mkdir()
    mill = mill_factory(mode="jobs", partitions=1)

    def deadly(value: int) -> int:
        if value == 13 and len(list(deaths.iterdir())) < 6:
            (deaths / str(os.getpid())).touch()
            os.kill(os.getpid(), 9)
        return value * 2

    mill.register_function("deadly", deadly, "BIGINT")
    mill.sql(f"CREATE TABLE t (v BIGINT) USING csv OPTIONS (path '{data}')")
    mill.sql("CREATE MATERIALIZED VIEW doubled AS SELECT deadly(v) AS d FROM t")
    (data / "0.csv").write_text("12\n13\n")
    report = mill.advance()
    assert report is not None
    assert len(list(deaths.iterdir())) == 6
    assert (report.epoch, report.rows_in) == (1, 2)
    assert [w[:6] for w in report.warnings] == ["TM1020"]
    assert sorted(r["d"] for r in mill.read("doubled").to_pylist()) == [24, 26]
