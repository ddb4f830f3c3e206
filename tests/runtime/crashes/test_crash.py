"""``kill -9`` at random moments: after any number of restarts the views are those of an undisturbed run."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from commands import Finished
from flights_pipeline import (
    VIEWS,
    assert_same,
    check_readable,
    contents,
    kill,
    kill_after_epochs,
    repr_key,
    start,
    write_input,
)
from tidemill.config import Settings
from tidemill.mill import Mill

EPOCH_BYTES = 6000

KILLS = int(os.environ.get("TIDEMILL_CHAOS", "1"))
"""``make chaos`` sets a larger number."""


def undisturbed(script: Path, root: Path, spark: SparkSession) -> None:
    """The same pipeline in one go."""
    with Mill(root, spark=spark, settings=Settings(epoch_bytes=1 << 20)) as mill:
        mill.script(script.read_text())
        assert sum(r.rows_in for r in mill.drain()) > 0


@pytest.mark.timeout(200 + 60 * KILLS)
def test_killed_and_restarted(command: Callable[..., Finished], tmp_path: Path, spark: SparkSession, seed: int) -> None:
    """Some kills take the JVM with them, some leave it behind as an orphan whose tasks go on for a moment.

    The last run is the same command in this process.
    """
    script = write_input(tmp_path / "data", seed, rows=3000 * KILLS)
    chance, root, epochs = random.Random(seed), tmp_path / "root", [0]
    for number in range(KILLS):
        process, spark_too = start(script, root, EPOCH_BYTES, "--once"), number % 2 == 0
        if number > 1 and chance.random() < 0.3:
            time.sleep(chance.uniform(0, 8))  # while Java starts or views are created
            kill(process, spark_too)
        elif not kill_after_epochs(process, chance.randrange(1, 5), chance.uniform(0, 0.5), spark_too):
            break
        epochs.append(check_readable(root))
    assert len(epochs) > min(2, KILLS), "the run ended before it was killed"
    assert epochs == sorted(epochs), "a durable epoch never goes back"
    last = ["run", str(script), "--root", str(root), "--master", "local[2]", "--epoch-bytes", str(EPOCH_BYTES)]
    done = command(*last, "--log", "--once")
    assert done.code == 0, done.err[-3000:]
    assert "sealed epoch" in done.out
    undisturbed(script, tmp_path / "calm", spark)
    expected = contents(tmp_path / "calm")
    assert all(expected.values())
    assert_same(contents(root), expected)


def test_sealed_but_not_durable_epochs_are_replayed(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    script = write_input(tmp_path / "data", seed, rows=900)
    settings = Settings(epoch_bytes=3000, checkpoint_seconds=10_000.0)
    mill = Mill(tmp_path / "root", spark=spark, settings=settings)
    mill.script(script.read_text())
    mill.advance()
    mill.checkpoint()
    durable, rows = mill.epoch, mill.read("totals").to_pylist()
    lost = [mill.advance() for _ in range(3)]
    assert all(lost)
    assert mill.read("totals").to_pylist() != rows
    mill._coordinator.close(checkpoint=False)

    with Mill(tmp_path / "root", spark=spark, settings=settings) as again:
        assert again.epoch == durable
        assert again.read("totals").to_pylist() == rows
        replayed = again.advance()
        assert replayed is not None
        assert lost[0] is not None
        assert (replayed.epoch, replayed.read) == (lost[0].epoch, lost[0].read), "same splits, same rows"
        list(again.drain())
    undisturbed(script, tmp_path / "calm", spark)
    assert_same(contents(tmp_path / "root"), contents(tmp_path / "calm"))


def test_restart_after_every_epoch(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    """Each process seals one epoch; compactions and history go on across them."""
    script = write_input(tmp_path / "data", seed, rows=600)
    settings = Settings(epoch_bytes=1500, compact_after=3, history_epochs=4)
    reports = []
    while not reports or reports[-1] is not None:
        with Mill(tmp_path / "root", spark=spark, settings=settings) as mill:
            mill.script(script.read_text())
            reports.append(mill.advance())
            mill._coordinator._compactor.wait()
            epoch = mill.epoch
    assert epoch == len(reports) - 1 >= 6
    undisturbed(script, tmp_path / "calm", spark)
    assert_same(contents(tmp_path / "root"), contents(tmp_path / "calm"))
    spans = [span for r in reports if r is not None for span in r.read]
    assert len(spans) == len(set(spans)), "nothing was admitted twice"


def test_merges_do_not_change_views(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    script = write_input(tmp_path / "data", seed, rows=900)
    settings = Settings(epoch_bytes=1500, compact_after=3, history_epochs=6, checkpoint_seconds=0.0)
    seen: dict[int, dict[str, list[tuple[object, ...]]]] = {}
    with Mill(tmp_path / "root", spark=spark, settings=settings) as mill:
        mill.script(script.read_text())
        for report in mill.drain():
            assert report.warnings == ()
            seen[report.epoch] = {v: rows_at(mill, v, None) for v in VIEWS}
            mill._coordinator._compactor.wait()
            for epoch in range(max(1, report.epoch - 6), report.epoch + 1):
                assert_same({v: rows_at(mill, v, epoch) for v in VIEWS}, seen[epoch])
        tables = mill.snapshot().version.tables
        merged = [r for runs in tables.values() for r in runs if r.epoch_low < r.epoch_high]
        assert {r.table.split(":")[0] for r in merged} >= {"fetch"}, "positions are merged too"
        assert len(merged) > 5


def rows_at(mill: Mill, view: str, epoch: int | None) -> list[tuple[object, ...]]:
    """A view, rows sorted."""
    return sorted((tuple(r.values()) for r in mill.read(view, epoch).to_pylist()), key=repr_key)
