"""No bytes make a reader read outside its buffer: forbidden pages lie around it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the script in a process that may die."""
    script = Path(__file__).with_name("guarded_memory.py")
    return subprocess.run(
        [sys.executable, script, *map(str, arguments)], capture_output=True, text=True, timeout=280, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["csv", "json", "native", "frames", "debezium"])
def test_random_bytes_stay_within(format_: str, seed: int) -> None:
    found = run(format_, seed, 250)
    assert (found.returncode, found.stdout.strip()) == (0, "250"), found.stderr[-2000:]


@pytest.mark.parametrize("place", ["before", "behind"])
def test_who_reads_outside_dies(place: str) -> None:
    assert run(place).returncode == -signal.SIGSEGV
