"""The parent of workers begins before Spark asks for it, and is Spark's from then on."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
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


class Sparks:
    """What Spark starts, and asks for workers."""

    def __init__(self, place: Path) -> None:
        environment = {**os.environ, early_daemon.PLACE: str(place)}
        self.process = subprocess.Popen(SPARKS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert self.process.stdout is not None
        (self._port,) = struct.unpack("!i", self.process.stdout.read(4))

    def parent_of_a_worker(self) -> int:
        """The process that forks workers."""
        address = ("127.0.0.1", self._port)
        with socket.create_connection(address, timeout=60) as connection, connection.makefile("rb") as answer:
            return parent_of(struct.unpack("!i", answer.read(4))[0])

    def end(self) -> None:
        """Spark ends, and so does the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def test_spark_is_given_the_process_that_was_begun(early: subprocess.Popen[bytes], tmp_path: Path) -> None:
    place = tmp_path / "private" / "daemon"
    while not place.exists():
        assert early.poll() is None
    spark = Sparks(place)
    assert spark.parent_of_a_worker() == early.pid
    assert not place.parent.exists()
    assert early.stdin is not None
    early.stdin.close()  # it does not last by that any more
    assert spark.parent_of_a_worker() == early.pid
    spark.end()
    early.wait(60)


def test_it_ends_with_the_command(early: subprocess.Popen[bytes]) -> None:
    assert early.stdin is not None
    early.stdin.close()
    assert early.wait(60) == 0


def test_without_it_spark_has_its_own(tmp_path: Path) -> None:
    spark = Sparks(tmp_path / "nothing")
    assert spark.parent_of_a_worker() == spark.process.pid
    spark.end()


@pytest.mark.parametrize("conf", [{"spark.python.daemon.module": "pyspark.daemon"}, {"spark.executorEnv.A": "1"}])
def test_it_is_not_begun_for_workers_of_others(conf: dict[str, str]) -> None:
    assert not early_daemon.is_usual(conf)
    assert early_daemon.is_usual({"spark.driver.memory": "1g"})


SESSION = """
import os, signal, sys
from tidemill.config import Settings
from tidemill.runtime.spark.session import create_session, stop_session

def told(_):
    with open(f"/proc/{os.getppid()}/cmdline") as file:
        return os.getppid(), os.environ["SPARK_REUSE_WORKER"], "--early" in file.read()

conf = {"spark.driver.memory": "512m", "spark.ui.enabled": "false"}
spark = create_session(Settings(master="local[1]", spark_conf=conf), workers=True)
ask = spark.sparkContext.parallelize((0,), 1).map(told)
(first,) = ask.collect()
os.kill(first[0], signal.SIGKILL)
(second,) = ask.collect()
print(first[1:], second[1:], first[0] != second[0])
stop_session(spark)
"""


def test_a_session_uses_it_and_outlives_it() -> None:
    done = subprocess.run([sys.executable, "-c", SESSION], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "('1', True) ('1', False) True\n", done.stderr
