"""A small pipeline run by the real command, to be killed and started again."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tidemill.errors import TidemillError
from tidemill.runtime.read.snapshot import Snapshot

VIEWS = ("by_key", "named", "totals", "big")

_SCRIPT = """
CREATE TABLE facts (k INT, x DOUBLE, s STRING) USING csv
  OPTIONS (path '{data}/facts*.csv', header true, opColumn 'op', maxFilesPerTrigger 2);
CREATE TABLE names (k INT, name STRING) USING csv OPTIONS (path '{data}/names.csv', header true);
CREATE MATERIALIZED VIEW by_key AS
  SELECT k, COUNT(*) AS n, SUM(x) AS total, MIN(x) AS low, MAX(s) AS high, COUNT(DISTINCT s) AS kinds
  FROM facts GROUP BY k;
CREATE MATERIALIZED VIEW named AS SELECT f.k, f.x, n.name FROM facts f JOIN names n ON f.k = n.k WHERE f.x > 90;
CREATE MATERIALIZED VIEW totals AS SELECT COUNT(*) AS n, AVG(x) AS mean FROM facts;
CREATE MATERIALIZED VIEW big AS
  SELECT n.name, SUM(b.n) AS n FROM by_key b JOIN names n ON b.k = n.k GROUP BY n.name HAVING SUM(b.n) > 100;
"""


def write_input(data: Path, seed: int, rows: int) -> Path:
    """Write three files of changes (inserts, and deletes of earlier rows) and the script; returns the script."""
    chance = random.Random(seed)
    data.mkdir(parents=True)
    present: list[str] = []
    for number in range(3):
        lines = ["k,x,s,op"]
        for _ in range(rows // 3):
            if present and chance.random() < 0.15:
                lines.append(present.pop(chance.randrange(len(present))) + ",D")
                continue
            x = "" if chance.random() < 0.05 else f"{chance.uniform(0, 100):.3f}"
            text = f'"{chance.randrange(40)}\nlines"' if chance.random() < 0.02 else f"s{chance.randrange(40)}"
            present.append(f"{chance.randrange(30)},{x},{text}")
            lines.append(present[-1] + ",I")
        (data / f"facts{number}.csv").write_text("\n".join(lines) + "\n")
    names = [f"{k},n{k % 7}" for k in range(25)]
    (data / "names.csv").write_text("\n".join(["k,name", *names]) + "\n")
    script = data / "pipeline.sql"
    script.write_text(_SCRIPT.format(data=data))
    return script


def start(script: Path, root: Path, epoch_bytes: int, *more: str) -> subprocess.Popen[str]:
    """``tidemill run`` in a process group of its own; its standard error has a line of JSON an epoch."""
    command = [sys.executable, "-m", "tidemill", "run", str(script), "--root", str(root), "--master", "local[2]"]
    options = ["--epoch-bytes", str(epoch_bytes), "--log", *more]
    return subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def kill(process: subprocess.Popen[str], spark_too: bool) -> None:
    """``kill -9`` of the driver, with its JVM or without; an orphaned JVM and its workers end by themselves."""
    if spark_too:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()


def kill_after_epochs(process: subprocess.Popen[str], epochs: int, seconds: float, spark_too: bool) -> bool:
    """Kill once some epochs were sealed and some time went by; False when the run had ended before."""
    assert process.stderr is not None
    seen = 0
    while seen < epochs and (line := process.stderr.readline()):
        seen += line.startswith('{"epoch"')
    time.sleep(seconds)
    if process.poll() is not None:
        return False
    kill(process, spark_too)
    return True


def contents(root: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All views at the newest durable epoch, rows sorted."""
    snapshot = Snapshot.open(root)
    return {v: sorted((tuple(r.values()) for r in snapshot.read(v).to_pylist()), key=repr_key) for v in VIEWS}


def repr_key(row: tuple[Any, ...]) -> tuple[str, ...]:
    """Order rows without looking at the last digits of floats."""
    return tuple(f"{v:.6f}" if isinstance(v, float) else repr(v) for v in row)


def assert_same(found: dict[str, list[tuple[Any, ...]]], expected: dict[str, list[tuple[Any, ...]]]) -> None:
    """Equal rows; floats to 1e-9, because sums may be taken in another order."""
    for view, rows in expected.items():
        assert len(found[view]) == len(rows), view
        for got, want in zip(found[view], rows, strict=True):
            for a, b in zip(got, want, strict=True):
                same = math.isclose(a, b, rel_tol=1e-9) if isinstance(b, float) and a is not None else a == b
                assert same, f"{view}: {got} instead of {want}"


def check_readable(root: Path) -> int:
    """Whatever was durable before a crash can be read after it; returns the epoch, 0 before the first manifest."""
    try:
        snapshot = Snapshot.open(root)
    except TidemillError as error:
        assert error.number == "TM1001", error
        return 0
    for view in snapshot.catalog.views:
        if view not in snapshot.initialising:
            snapshot.read(view)
    return snapshot.version.epoch
