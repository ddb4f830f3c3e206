"""Sealed state that is lost before it is durable: the mill goes back by itself, and every row counts once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from python_workers import kill_workers
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.epoch import coordinator
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.state.store import store as run_store

_SCRIPT = """
CREATE TABLE t (k INT, v INT) USING csv OPTIONS (path '{data}', maxFilesPerTrigger 1);
CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS v FROM t GROUP BY k;
CREATE MATERIALIZED VIEW sizes AS SELECT n, COUNT(*) AS groups FROM sums GROUP BY n;
"""

Opener = Callable[..., Mill]


class Input:
    """Files of a directory, one more at a time: file i has the rows (0, i) and (i, 1)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = 0
        directory.mkdir()

    def grow(self, files: int = 1) -> None:
        for _ in range(files):
            (self.directory / f"{self.files:03d}.csv").write_text(f"0,{self.files}\n{self.files},1\n")
            self.files += 1

    def sums(self, files: int | None = None) -> dict[int, tuple[int, int]]:
        """The view ``sums`` over the first files."""
        count = self.files if files is None else files
        return {**dict.fromkeys(range(count), (1, 1)), 0: (count + 1, sum(range(count)) + 1)}

    def sizes(self) -> dict[int, int]:
        """The view ``sizes`` over all files."""
        return {1: self.files - 1, self.files + 1: 1}


def sums(source: Mill | Snapshot) -> dict[int, tuple[int, int]]:
    return {r["k"]: (r["n"], r["v"]) for r in source.read("sums").to_pylist()}


def sizes(source: Mill | Snapshot) -> dict[int, int]:
    return {r["n"]: r["groups"] for r in source.read("sizes").to_pylist()}


@pytest.fixture
def given(tmp_path: Path) -> Input:
    return Input(tmp_path / "data")


@pytest.fixture
def mill(mill_factory: Opener, given: Input) -> Mill:
    """Four epochs, of which two are durable."""
    opened = mill_factory(checkpoint_seconds=1e9)
    opened.script(_SCRIPT.format(data=given.directory))
    given.grow(4)
    opened.advance()
    opened.advance()
    opened.checkpoint()
    opened.advance()
    opened.advance()
    assert (opened.epoch, opened.durable_epoch) == (4, 2)
    return opened


def buffer_files(mill: Mill) -> list[Path]:
    store = mill.snapshot().store
    return [store.path(name) for name in mill.snapshot().version.files() if name.endswith(".run")]


def lose(mill: Mill) -> None:
    """The host is gone, with what it had mapped."""
    for path in buffer_files(mill):
        path.unlink()
    forget(mill)


def forget(mill: Mill) -> None:
    run_store._open.clear()
    kill_workers(mill.spark)


def damage(mill: Mill) -> None:
    """One bit in every file."""
    for path in buffer_files(mill):
        data = bytearray(path.read_bytes())
        data[len(data) // 3] ^= 4
        path.write_bytes(data)
    forget(mill)


@pytest.mark.parametrize("harm", [lose, damage])
def test_epoch_after_a_loss_goes_back_and_reads_again(mill: Mill, given: Input, harm: Callable[[Mill], None]) -> None:
    harm(mill)
    given.grow()
    report = mill.advance()
    assert report is not None
    assert report.epoch == 3
    assert "TM1018" in report.warnings[0]
    assert "went back from epoch 4 to epoch 2" in report.warnings[0]
    list(mill.drain())
    assert (mill.epoch, sums(mill), sizes(mill)) == (5, given.sums(), given.sizes())
    mill.checkpoint()
    durable = Snapshot.open(mill._coordinator.objects.url)
    assert (sums(durable), sizes(durable)) == (given.sums(), given.sizes())


@pytest.mark.parametrize("durable", [True, False])
def test_a_mill_without_work_goes_back_too(
    mill: Mill, given: Input, durable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merges stay in the buffer behind a checkpoint, so readers need it when nothing arrives any more."""
    monkeypatch.setattr(coordinator, "_LOOK_SECONDS", 0.0)
    given.grow(8)
    list(mill.drain())
    if durable:
        mill.checkpoint()
    assert buffer_files(mill)
    lose(mill)
    with pytest.raises(TidemillError, match="TM1018"):
        sums(mill)
    reports = list(mill.drain())
    warnings = [*mill.warnings(), *(warning for report in reports for warning in report.warnings)]
    went_back = f"went back from epoch 12 to epoch {12 if durable else 2}"
    assert [went_back in warning for warning in warnings if "TM1018" in warning] == [True]
    assert (mill.epoch, len(reports)) == (12, 0 if durable else 10)
    assert (sums(mill), sizes(mill)) == (given.sums(), given.sizes())


def test_checkpoint_that_finds_a_loss(mill: Mill, given: Input) -> None:
    lose(mill)
    with pytest.raises(TidemillError, match="TM1018"):
        mill.checkpoint()
    assert mill.durable_epoch == 2
    list(mill.drain())
    mill.checkpoint()
    assert (mill.durable_epoch, sums(mill), sizes(mill)) == (4, given.sums(), given.sizes())


def test_statement_that_finds_a_loss_can_be_repeated(mill: Mill, given: Input) -> None:
    lose(mill)
    statement = "CREATE MATERIALIZED VIEW most AS SELECT MAX(v) AS v FROM t"
    with pytest.raises(TidemillError, match="TM1018"):
        mill.sql(statement)
    assert "most" not in mill.snapshot().catalog.views
    mill.sql(statement)
    list(mill.drain())
    assert mill.read("most").to_pylist() == [{"v": 3}]
    assert (sums(mill), sizes(mill)) == (given.sums(), given.sizes())


def test_closing_after_a_loss_keeps_what_is_durable(mill: Mill, mill_factory: Opener, given: Input) -> None:
    lose(mill)
    with pytest.raises(TidemillError, match="TM1018"):
        mill.close()
    again = mill_factory(checkpoint_seconds=1e9)
    assert (again.epoch, sums(again)) == (2, given.sums(2))
    list(again.drain())
    assert (again.epoch, sums(again), sizes(again)) == (4, given.sums(), given.sizes())


def test_a_second_loss_is_as_the_first(mill: Mill, given: Input) -> None:
    for _ in range(2):
        assert buffer_files(mill)
        lose(mill)
        given.grow()
        mill.advance()
        mill.advance()
    list(mill.drain())
    assert (sums(mill), sizes(mill)) == (given.sums(), given.sizes())


def test_durable_reads(mill: Mill, given: Input) -> None:
    def rows(table: pa.Table) -> dict[int, tuple[int, int]]:
        return {r["k"]: (r["n"], r["v"]) for r in table.to_pylist()}

    assert rows(mill.read("sums")) == given.sums(4)
    assert rows(mill.read("sums", durable=True)) == given.sums(2)
    assert mill.snapshot(durable=True).version.epoch == 2
    asked = mill.query("SELECT SUM(n) AS n FROM sums", durable=True).collect()
    assert asked[0]["n"] == 4
    assert mill.table("sums", durable=True).count() == 2
    mill.checkpoint()
    assert rows(mill.read("sums", durable=True)) == given.sums(4)


def test_subscribers_hear_of_a_loss(mill: Mill, given: Input) -> None:
    given_out = mill.subscribe("sums", timeout=0.0)
    assert [next(given_out)[0] for _ in range(4)] == [1, 2, 3, 4]
    assert [e for e, _ in mill.subscribe("sums", timeout=0.2, durable=True)] == [1, 2]
    lose(mill)
    given.grow()
    mill.advance()
    with pytest.raises(TidemillError, match="TM1036"):
        next(given_out)
    list(mill.drain())
    mill.checkpoint()
    again = list(mill.subscribe("sums", from_epoch=2, timeout=0, durable=True))
    assert [e for e, _ in again] == [3, 4, 5]
    total = pa.concat_tables([t for _, t in mill.subscribe("sums", timeout=0, durable=True)])
    weighted = pc.sum(pc.multiply(total["n"], total["__weight"])).as_py()
    assert weighted == sum(n for n, _ in given.sums().values())


def test_buffered_epochs_are_kept_as_asked(mill_factory: Opener, given: Input) -> None:
    mill = mill_factory(checkpoint_seconds=1e9, buffer_epochs=2)
    mill.script(_SCRIPT.format(data=given.directory))
    for _ in range(6):
        given.grow()
        mill.advance()
        mill.checkpoint()
    snapshot = mill.snapshot()
    runs = snapshot.runs(snapshot.plan("sums"))
    assert mill.durable_epoch == 6
    assert {r.epoch_high for r in runs if r.file.endswith(".run")} == {5, 6}
    assert {r.epoch_high for r in runs if r.file.endswith(".sst")} == {1, 2, 3, 4}
    assert sums(mill) == given.sums()


def test_full_buffer_holds_admission_until_a_checkpoint(mill_factory: Opener, given: Input) -> None:
    mill = mill_factory(checkpoint_seconds=1e9, buffer_bytes=1)
    mill.script(_SCRIPT.format(data=given.directory))
    given.grow(5)
    for epoch in range(1, 6):
        mill.advance()
        assert mill.durable_epoch >= epoch - 1, "an epoch begins only when the one before is durable"
    assert sums(mill) == given.sums()
