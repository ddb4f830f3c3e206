"""The worker daemon begins before Spark asks for it, and is Spark's from then on."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tidemill.runtime.spark import early_daemon

SPARKS = [sys.executable, "-m", "tidemill.runtime.workers.worker_daemon", "pyspark.worker"]


@pytest.fixture
def early(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    (tmp_path / "private").mkdir()
    process = early_daemon.begin(tmp_path / "private" / "daemon", dict(os.environ))
    yield process
    process.kill()
    process.wait()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def listening(early: subprocess.Popen[bytes], tmp_path: Path) -> Path:
    """Its path, when it is there."""
    place = tmp_path / "private" / "daemon"
    while not place.exists():
        assert early.poll() is None
        time.sleep(0.01)
    return place


def group(leader: int) -> list[int]:
    """The processes of a group that have not ended."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, its_group = (place / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == leader and state not in "ZX":
                found.append(int(place.name))
    return found


class Sparks:
    """What Spark starts, and asks for workers."""

    def __init__(self, place: Path, command: int | None = None) -> None:
        variables = early_daemon.variables(place) if command is None else {early_daemon.PLACE: f"{command} {place}"}
        environment = {**os.environ, **variables}
        self.process = subprocess.Popen(SPARKS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._port: int | None = None

    def parent_of_a_worker(self) -> int:
        """The process that forks workers."""
        if self._port is None:
            assert self.process.stdout is not None
            (self._port,) = struct.unpack("!i", self.process.stdout.read(4))
        address = ("127.0.0.1", self._port)
        with socket.create_connection(address, timeout=60) as connection, connection.makefile("rb") as answer:
            return parent_of(struct.unpack("!i", answer.read(4))[0])

    def end(self) -> None:
        """Spark ends, and so does the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def test_spark_is_given_the_process_that_was_begun(early: subprocess.Popen[bytes], tmp_path: Path) -> None:
    place = listening(early, tmp_path)
    spark = Sparks(place)
    assert spark.parent_of_a_worker() == early.pid
    assert not place.exists()
    assert early.stdin is not None
    early.stdin.close()  # it does not last by that any more
    assert spark.parent_of_a_worker() == early.pid
    spark.end()
    early.wait(60)


def test_one_of_two_is_given_it_and_the_other_has_its_own(early: subprocess.Popen[bytes], tmp_path: Path) -> None:
    place = listening(early, tmp_path)
    early.send_signal(signal.SIGINT)  # Java ignores it, and so does what Java starts
    both = [Sparks(place), Sparks(place)]
    parents = {spark.parent_of_a_worker(): spark for spark in both}
    (other,) = parents.keys() - {early.pid}
    assert len(parents) == 2 and parents[other].process.pid == other
    for spark in both:
        spark.end()
    early.wait(60)


def test_it_ends_with_the_command(early: subprocess.Popen[bytes], tmp_path: Path) -> None:
    place = listening(early, tmp_path)
    assert early.stdin is not None
    early.stdin.close()
    assert early.wait(60) in (0, -signal.SIGKILL)
    assert not place.parent.exists()


def test_it_ends_with_the_command_while_it_compiles(tmp_path: Path) -> None:
    """At once, as does its fork, although there is half a minute of work left."""
    (tmp_path / "private").mkdir()
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with early_daemon.begin(tmp_path / "private" / "daemon", environment) as process:
        while len(group(process.pid)) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == -signal.SIGKILL
    while group(process.pid):
        time.sleep(0.05)
    assert not (tmp_path / "private").exists()


def test_what_waits_for_it_ends_with_it(early: subprocess.Popen[bytes], tmp_path: Path) -> None:
    place = listening(early, tmp_path)
    early.send_signal(signal.SIGSTOP)  # it is still importing, so to speak
    waiting = Sparks(place)
    while Path("/proc/net/unix").read_text().count(f" {place}\n") < 2:  # that of the listener, and a connection to it
        time.sleep(0.01)
    early_daemon.end(early, place)
    assert early.poll() == -signal.SIGKILL
    assert waiting.process.wait(60) == 0
    assert Sparks(place).process.wait(60) == 0, "of another task"
    early_daemon.needed_again(place)
    spark = Sparks(place)
    assert spark.parent_of_a_worker() == spark.process.pid
    spark.end()


def test_without_a_command_none_is_needed(tmp_path: Path) -> None:
    """Where its directory is missing, that may be, or a program has deleted it."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert Sparks(tmp_path / "nothing" / "daemon", ended.pid).process.wait(60) == 0


def test_it_is_not_ended_when_spark_has_it(early: subprocess.Popen[bytes], tmp_path: Path) -> None:
    place = listening(early, tmp_path)
    spark = Sparks(place)
    assert spark.parent_of_a_worker() == early.pid
    early_daemon.end(early, place)
    assert spark.parent_of_a_worker() == early.pid
    spark.end()
    early.wait(60)


def test_it_ends_where_it_cannot_listen(tmp_path: Path) -> None:
    with early_daemon.begin(tmp_path / "nothing" / "daemon", dict(os.environ)) as process:
        assert process.wait(60) == 0


def test_without_it_spark_has_its_own(tmp_path: Path) -> None:
    spark = Sparks(tmp_path / "nothing")
    assert spark.parent_of_a_worker() == spark.process.pid
    spark.end()


@pytest.mark.parametrize("conf", [{"spark.python.daemon.module": "pyspark.daemon"}, {"spark.executorEnv.A": "1"}])
def test_it_is_not_begun_for_workers_of_others(conf: dict[str, str]) -> None:
    assert not early_daemon.is_usual(conf)
    assert early_daemon.is_usual({"spark.driver.memory": "1g"})


SESSION = """
import os, signal, sys, time
from tidemill.config import Settings
from tidemill.runtime.spark.session import create_session, stop_session

def told(_):
    with open(f"/proc/{os.getppid()}/cmdline") as file:
        early = "--early" in file.read()
    return os.getpid(), os.getppid(), early, (os.environ["SPARK_REUSE_WORKER"], hash("a"), sys.argv[1:])

def runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False

conf = {"spark.driver.memory": "512m", "spark.ui.enabled": "false"}
spark = create_session(Settings(master="local[1]", spark_conf=conf), workers=True)
ask = spark.sparkContext.parallelize((0,), 1).map(told)
((worker, parent, *first),) = ask.collect()
for pid in (parent, worker):
    os.kill(pid, signal.SIGKILL)
while runs(parent) or runs(worker):
    time.sleep(0.01)
((_, other, *second),) = ask.collect()
expected = "1", hash("a"), ["pyspark.worker"]
print(first == [True, expected], second == [False, expected], other != parent)
server = spark.sparkContext._accumulatorServer.server_address
stop_session(spark)
print(os.path.exists(str(server)))
"""
TWO_SESSIONS = """
from tidemill.config import Settings
from tidemill.runtime.spark.session import create_session, stop_session

settings = Settings(master="local[1]", spark_conf={"spark.driver.memory": "512m", "spark.ui.enabled": "false"})
stop_session(create_session(settings, workers=True))
spark = create_session(settings, workers=True)
print(spark.sparkContext.parallelize((1, 2), 1).map(lambda x: 2 * x).collect())
stop_session(spark)
"""


@pytest.mark.slow
def test_a_session_uses_it_and_outlives_it() -> None:
    given = {**os.environ, "PYTHONHASHSEED": "5"}
    done = subprocess.run([sys.executable, "-c", SESSION], capture_output=True, text=True, timeout=120, env=given)
    assert done.stdout == "True True True\nFalse\n", (done.stdout, done.stderr)


@pytest.mark.slow
def test_a_session_after_one_that_never_used_it() -> None:
    done = subprocess.run([sys.executable, "-c", TWO_SESSIONS], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[2, 4]\n", (done.stdout, done.stderr)
