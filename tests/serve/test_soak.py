"""The short form of ``python -m benchmarks soak``: a server process under random actions and a kill, beside DuckDB."""

from __future__ import annotations

from pathlib import Path

from benchmarks.soak.soak import Plan, run

from tidemill.runtime.spark.java_process import BRIEF, JAVA_OPTIONS


def test_random_actions_and_a_killed_server_change_no_result(tmp_path: Path, seed: int) -> None:
    brief = (f"spark_conf.{JAVA_OPTIONS}={BRIEF}",)
    plan = Plan(seconds=5.0, checkpoint_seconds=100.0, kill_seconds=5.0, observe=False, settings=brief)
    found = run(tmp_path, seed, plan)
    assert found.counts["servers killed"] == 1 and found.counts["actions"] > 0
    assert found.counts["views compared"] > 0 and found.counts["checkpoints"] > 0
