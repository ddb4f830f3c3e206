"""An aggregate without GROUP BY has its row from its first epoch on, whatever checkpoints and merges do meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tidemill.mill import Mill


def test_a_count_of_nothing_outlives_checkpoints_and_merges(mill_factory: Callable[..., Mill], tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    mill = mill_factory(compact_after=2, checkpoint_seconds=1e9)
    mill.sql(f"CREATE TABLE t (v INT) USING csv OPTIONS (path '{data}')")
    mill.sql("CREATE MATERIALIZED VIEW few AS SELECT count(*) AS n FROM t WHERE v > 100")
    mill.sql("CREATE MATERIALIZED VIEW counts AS SELECT n, count(*) AS times FROM few GROUP BY n")
    for number in range(8):
        (data / f"{number}.csv").write_text(f"{number}\n")
        mill.advance()
        if number % 2:
            mill.checkpoint()
        mill._coordinator._compactor.wait()
        assert mill.read("counts").to_pylist() == [{"n": 0, "times": 1}]
    (data / "8.csv").write_text("101\n102\n")
    mill.advance()
    assert mill.read("few").to_pylist() == [{"n": 2}]
    assert mill.read("counts").to_pylist() == [{"n": 2, "times": 1}]
