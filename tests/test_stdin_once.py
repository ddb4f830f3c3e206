"""``tidemill run --once`` over standard input that is a pipe, in a process of its own and in this: to the end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import Finished
from tidemill.runtime.read.snapshot import Snapshot

SCRIPT = """
CREATE TABLE t (k INT, v INT) USING csv OPTIONS (path 'stdin://', maxSpoolBytes '1m');
CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n, SUM(v) AS v FROM t;
"""


def arguments(tmp_path: Path) -> list[str]:
    (tmp_path / "p.sql").write_text(SCRIPT)
    return ["run", str(tmp_path / "p.sql"), "--root", str(tmp_path / "root"), "--once", "--master", "local[1]"]


def start(tmp_path: Path) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "tidemill", *arguments(tmp_path)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)


def here(command: Callable[..., Finished], tmp_path: Path, data: bytes = b"") -> Finished:
    """The command in this process, whose standard input is a pipe with some bytes that has been closed."""
    before, (read, write) = os.dup(0), os.pipe()
    os.dup2(read, 0)
    os.close(read)
    try:
        os.write(write, data)
        os.close(write)
        return command(*arguments(tmp_path))
    finally:
        os.dup2(before, 0)
        os.close(before)


def ends(process: subprocess.Popen[bytes], rest: bytes = b"") -> None:
    _, said = process.communicate(rest, timeout=200)
    assert process.returncode == 0, said.decode()


def result(tmp_path: Path) -> dict[str, int]:
    (row,) = Snapshot.open(str(tmp_path / "root")).read("v").to_pylist()
    return row


def rows(tmp_path: Path) -> int:
    """How many rows the view is of; none before there is a view."""
    if not any((tmp_path / "root" / "manifest").glob("*.json")):
        return 0
    snapshot = Snapshot.open(str(tmp_path / "root"))
    return result(tmp_path)["n"] if "v" in snapshot.catalog.views and "v" not in snapshot.initialising else 0


def until(reached: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait for something, while the process waits for the end of its pipe."""
    while not reached():
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)


def lines(begin: int, end: int) -> bytes:
    return b"".join(b"%d,%d\n" % (i, i % 7) for i in range(begin, end))


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_a_slow_writer_and_a_second_run(command: Callable[..., Finished], tmp_path: Path) -> None:
    """Pauses are longer than an epoch, and there is more than the spool holds; the last line has no newline."""
    process = start(tmp_path)
    assert process.stdin is not None
    process.stdin.write(lines(0, 10))
    process.stdin.flush()
    until(lambda: rows(tmp_path) == 10, process)
    process.stdin.write(lines(10, 300_000))
    process.stdin.flush()
    until(lambda: rows(tmp_path) > 10, process)
    ends(process, lines(300_000, 300_001).rstrip(b"\n"))
    assert result(tmp_path) == {"n": 300_001, "v": sum(i % 7 for i in range(300_001))}
    assert here(command, tmp_path, lines(0, 5)).code == 0
    assert result(tmp_path) == {"n": 300_006, "v": sum(i % 7 for i in range(300_001)) + 10}


def test_an_empty_pipe(command: Callable[..., Finished], tmp_path: Path) -> None:
    assert here(command, tmp_path).code == 0
    assert result(tmp_path) == {"n": 0, "v": None}
