"""How commands end: by a signal, and when Java is killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import tidemill
from tidemill.runtime.read.snapshot import Snapshot


@pytest.mark.parametrize("to", [pytest.param("process", marks=pytest.mark.slow), "group"])
def test_sigterm_finishes_the_epoch_and_checkpoints(tmp_path: Path, to: str) -> None:
    """Also when Java gets it too, as from a shell or a service manager that stops a whole process group."""
    (tmp_path / "t").mkdir()
    for number in range(3):
        (tmp_path / "t" / f"{number}.csv").write_text(f"a,{number}\nb,1\n")
    script = tmp_path / "s.sql"
    script.write_text(
        f"CREATE TABLE prices (item STRING, n INT) USING csv OPTIONS (path '{tmp_path / 't'}', maxFilesPerTrigger 1);"
        "CREATE MATERIALIZED VIEW latest AS SELECT item, COUNT(*) AS c, SUM(n) AS n FROM prices GROUP BY item"
    )
    root = str(tmp_path / "root")
    command = [sys.executable, "-m", "tidemill", "run", str(script), "--root", root, "--master", "local[1]"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        deadline = time.monotonic() + 200
        while not _sealed(root, 3):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        beside = tidemill("query", "--root", root, "SELECT * FROM latest", "--format", "csv")
        assert sorted(beside.out.split()[1:]) == ['"a",3,3', '"b",3,3'], "a query works beside the running mill"
        assert len(_group(process.pid)) > 1, "Java is of the same group"
        if to == "group":
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    said = [line for line in err.decode().splitlines() if "incubator modules" not in line]
    assert process.returncode == 0
    started, *others = [line for line in said if not re.match(r"\d+ s: ", line)]  # without how far it is
    assert started.startswith("starting Spark")
    assert len(others) == 1 and others[0].startswith("added table prices, view latest")
    assert out.decode().startswith("sealed epoch 3 (durable: 3)")
    assert Snapshot.open(root).version.epoch == 3


_INTERRUPTED_AT = """
import os, runpy, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == place:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

place = sys.argv[1]
sys.meta_path.insert(0, Finder())
sys.argv = ["tidemill", *sys.argv[2:]]
runpy.run_module("tidemill", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("module", ["tidemill.cli.commands", "typer", "pyarrow", "tidemill.cli.query.local"])
@pytest.mark.parametrize("ignored", [False, True])
def test_sigint_while_modules_are_imported(tmp_path: Path, module: str, ignored: bool) -> None:
    """Those of all commands, and those of one; a shell lets commands with ``&`` behind them ignore SIGINT."""
    handler = "SIG_IGN" if ignored else "default_int_handler"  # whatever the suite was begun with
    script = f"import signal; signal.signal(signal.SIGINT, signal.{handler})\n{_INTERRUPTED_AT}"
    command = [sys.executable, "-c", script, module, "explain", "--root", str(tmp_path / "none"), "v"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.stdout == "" and "Traceback" not in done.stderr
    if ignored:
        assert done.returncode == 1 and done.stderr.startswith("TM"), done.stderr
    else:
        assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.slow
def test_java_is_killed(tmp_path: Path) -> None:
    """One numbered error, and no trace, whatever was under way."""
    (tmp_path / "s.sql").write_text(
        "CREATE TABLE t (k INT) USING generator OPTIONS (rowsPerSecond '2000');"
        "CREATE MATERIALIZED VIEW v AS SELECT k % 10 AS k, COUNT(*) AS n FROM t GROUP BY k % 10"
    )
    root = str(tmp_path / "root")
    command = [sys.executable, "-m", "tidemill", "run", str(tmp_path / "s.sql"), "--root", root, "--master", "local[1]"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        deadline = time.monotonic() + 200
        while not _sealed(root, 2):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        (java,) = [n for n in _group(process.pid) if _program(n) == "java"]
        os.kill(java, signal.SIGKILL)
        out, err = process.communicate(timeout=100)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    said = err.decode()
    assert (process.returncode, out) == (1, b""), said
    assert "Traceback" not in said and "Exception" not in said, said
    assert re.search(r"^(TM1020: the Spark job of an epoch failed|TM6003: Java has ended)$", said, re.MULTILINE), said


def _program(number: int) -> str:
    try:
        return Path(f"/proc/{number}/exe").readlink().name
    except FileNotFoundError:
        return ""


def _group(number: int) -> list[int]:
    """The processes of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(int(path.name)) == number:
                found.append(int(path.name))
    return found


def _sealed(root: str, epoch: int) -> bool:
    """Whether an epoch is durable."""
    return (
        (Path(root) / "manifest").is_dir()
        and any(Path(root, "manifest").glob("*.json"))
        and Snapshot.open(root).version.epoch >= epoch
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_stream_that_was_closed_before(closed: str) -> None:
    command = ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-m", "tidemill", "--version"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
