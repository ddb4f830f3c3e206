"""Many small epochs: the root holds what is needed, and workers map no files that are gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from python_workers import workers
from tidemill.mill import Mill
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.state.versions.manifest import ManifestLog
from tidemill.state.versions.objects import Objects

_EPOCHS = 40


def deleted_mappings(pid: int, root: Path) -> int:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return len({line.split(None, 5)[5] for line in lines if str(root) in line and line.endswith("(deleted)")})


def named(root: Path) -> set[str]:
    """Files that any manifest names."""
    log = ManifestLog(Objects(root), create=False)
    return {file for number in log.numbers() for file in log.read(number).version.files()}


def state_files(root: Path) -> set[str]:
    return {p.name for p in root.rglob("*") if p.suffix in (".run", ".sst")}


def test_root_and_mappings_stay_bounded(spark: SparkSession, mill_factory: Callable[..., Mill], tmp_path: Path) -> None:
    settings = {"checkpoint_seconds": 0.0, "garbage_grace_seconds": 0.0, "history_epochs": 4, "compact_after": 3}
    mill = mill_factory(partitions=2, listing_seconds=0.0, **settings)
    root = tmp_path / "root"
    (tmp_path / "in").mkdir()
    mill.sql(f"CREATE TABLE t (k INT, v BIGINT) USING csv OPTIONS (path '{tmp_path / 'in'}')")
    mill.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v) AS v, max(v) AS m FROM t GROUP BY k")
    mill.sql("CREATE MATERIALIZED VIEW rows AS SELECT t.k, t.v, sums.v AS s FROM t JOIN sums ON t.k = sums.k")
    most = 0
    for epoch in range(_EPOCHS):
        (tmp_path / "in" / f"{epoch}.csv").write_text("".join(f"{i % 7},{epoch * 10 + i}\n" for i in range(10)))
        assert list(mill.drain())
        mill.checkpoint()
        mill._coordinator._checkpoints.collect_garbage()
        most = max(most, len(state_files(root)))
    assert most < 8 * _EPOCHS, "files of a few versions, not of all epochs"
    end = time.monotonic() + 30
    while not all(deleted_mappings(pid, root) < _EPOCHS for pid in workers(spark)):
        assert time.monotonic() < end, "of a few epochs; a task that stays looks when it has nothing to do"
        time.sleep(0.1)
    reader = Snapshot.open(root)
    rows = reader.read("rows").num_rows
    mill.close()
    assert state_files(root) >= reader.version.files(), "it is read elsewhere"
    assert reader.read("rows").num_rows == rows
    assert named(root) <= state_files(root)


def test_a_root_that_was_closed_holds_what_its_manifests_name(
    mill_factory: Callable[..., Mill], tmp_path: Path
) -> None:
    mill = mill_factory(listing_seconds=0.0, garbage_grace_seconds=3600.0, history_epochs=2, compact_after=2)
    root = tmp_path / "root"
    (tmp_path / "in").mkdir()
    mill.sql(f"CREATE TABLE t (k INT, v BIGINT) USING csv OPTIONS (path '{tmp_path / 'in'}')")
    mill.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v) AS v, max(v) AS m FROM t GROUP BY k")
    for epoch in range(12):
        (tmp_path / "in" / f"{epoch}.csv").write_text("".join(f"{i % 7},{epoch * 10 + i}\n" for i in range(10)))
        assert list(mill.drain())
    assert not state_files(root) <= named(root)
    mill.close()
    assert state_files(root) == named(root)
    assert Snapshot.open(root).read("sums").num_rows == 7
