"""Views of every kind of operator over several times what tasks may hold, in Python workers whose memory is limited."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from limited_workers import LARGE, MEMORY_BYTES


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_views_equal_spark_or_say_that_they_need_more_memory(tmp_path: Path) -> None:
    """Of the two changes the first makes large groups, and the second takes them away again."""
    script = Path(__file__).with_name("limited_workers.py")
    path = os.pathsep.join([str(script.parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(found)
    assert found["wrong 0"] == dict.fromkeys(LARGE, "failing")
    assert all("TM3020" in error for error in found["errors 0"].values())
    assert not found["wrong 1"]
    assert not found["errors 1"]
    assert found["spilled"] > 4 * MEMORY_BYTES
    assert not found["failed tasks"], "no worker was killed, and none ran out of memory"
