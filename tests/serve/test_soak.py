"""The short form of ``python -m benchmarks soak``: a server process under random actions and a kill, beside DuckDB."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.soak.soak import Plan, run


@pytest.mark.slow
def test_random_actions_and_a_killed_server_change_no_result(tmp_path: Path, seed: int) -> None:
    found = run(tmp_path, seed, Plan(seconds=5.0, checkpoint_seconds=100.0, kill_seconds=5.0, observe=False))
    assert found.counts["servers killed"] == 1 and found.counts["actions"] > 0
    assert found.counts["views compared"] > 0 and found.counts["checkpoints"] > 0
