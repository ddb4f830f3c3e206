"""Views of every kind of operator over several times what tasks may hold, in Python workers whose memory is limited."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from limited_workers import FOR_GOOD, LARGE, MEMORY_BYTES, VIEWS


@pytest.mark.timeout(900)
def test_views_equal_spark_or_say_that_they_need_more_memory(tmp_path: Path) -> None:
    """Of the two changes the first makes large groups, and the second takes them away again."""
    script = Path(__file__).with_name("limited_workers.py")
    path = os.pathsep.join([str(script.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(found)
    assert found["spilled"] > MEMORY_BYTES
    assert found["wrong 0"].keys() == LARGE.keys()
    assert found["wrong 1"] == dict.fromkeys(FOR_GOOD, "failed")
    for error in (*found["errors 0"].values(), *found["errors 1"].values()):
        assert "TM3020" in error
    assert not VIEWS.keys() & found["errors 0"].keys()
