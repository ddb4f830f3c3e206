"""Memory does not grow with the file: 512 MB are enough for any. ``make memory`` reads 2 GB of each kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MEGABYTES = int(os.environ.get("TIDEMILL_MEMORY_MB", "256"))
LIMIT = 512
SCRIPT = Path(__file__).with_name("memory_limit.py")


def run(case: str, megabytes: int, limit: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), case, str(megabytes), str(limit)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["csv", "json", "csv-gzip", "csv-async", "sparse"])
def test_a_file_larger_than_memory(case: str) -> None:
    # A gzip file is decoded to five times its size.
    megabytes = MEGABYTES // 4 if case == "csv-gzip" else MEGABYTES
    done = run(case, megabytes, LIMIT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(case, found)
    assert found["bytes"] > megabytes * 0.9 * 2**20
    assert found["rows"] > found["bytes"] / 100
    # What the first 8 MB took is all that any size takes, but for the buffers of the asynchronous mode.
    assert found["peak"] < found["before"] + (120 << 20)
    assert found["peak"] < LIMIT << 20


def test_the_limit_is_one() -> None:
    """The same process fails where less is allowed than it needs."""
    done = run("csv", 16, 40)
    assert done.returncode != 0
    assert "MemoryError" in done.stderr or "ArrowMemoryError" in done.stderr or "malloc" in done.stderr
