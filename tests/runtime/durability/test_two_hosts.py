"""Hosts that cannot read each other's buffers: two executors with a directory of their own, in a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest


@pytest.mark.slow
def test_hosts_that_share_nothing_but_the_root(tmp_path: Path) -> None:
    script = Path(__file__).with_name("two_hosts.py")
    places = os.pathsep.join([str(script.parents[3]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    counts, totals = Counter[int](), Counter[int]()
    for k, v in found["rows"]:
        counts[k] += 1
        totals[k] += v
    assert found["sums"] == [[k, counts[k], totals[k]] for k in sorted(counts)]
    assert found["sizes"] == sorted([n, groups] for n, groups in Counter(counts.values()).items())
    assert found["hosts"] >= 2, "both executors sealed state"
    writers = {name.split("-")[1] for name in found["objects"]}
    assert len(writers) >= 2, "each host uploaded its own"
    assert found["durable"]
