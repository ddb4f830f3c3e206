"""A full disk: an error says so, the last epoch stays, and the mill goes on when there is space and loses nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from full_disk import Disk
from local_jobs import local
from state_root import contents
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.durability.uploads import buffered
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.runtime.read.state_check import verify
from tidemill.state.store.durable_runs import make_durable
from tidemill.state.store.store import RunStore
from tidemill.state.versions.version import Run, Swap, Version
from waiting import wait_until

Opener = Callable[..., Mill]
FILES = 6


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk")
    yield made
    made.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    for number in range(FILES):
        (directory / f"{number}.csv").write_text(f"0,{number}\n{number},1\n")
    return directory


def upload_here(store: RunStore, version: Version, number: int, moved: Sequence[Run]) -> list[Swap]:
    """What :class:`Uploads` does in Spark's workers, in this process."""
    [groups] = buffered(version).values() or [[]]
    return make_durable(store, groups, number, 1 << 28, (), moved if groups else ())


def begin(mill: Mill, data: Path) -> Mill:
    """A mill that has read two files, all in this process: a limit of the size of files must reach it."""
    local(mill)
    checkpoints, store = mill._coordinator._checkpoints, mill._coordinator.store
    checkpoints._upload = partial(upload_here, store)
    mill.sql(f"CREATE TABLE t (k INT, v INT) USING csv OPTIONS (path '{data}', maxFilesPerTrigger 1)")
    mill.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS v FROM t GROUP BY k")
    mill.advance()
    mill.advance()
    mill.checkpoint()
    return mill


def sums(source: Mill | Snapshot) -> dict[int, tuple[int, int]]:
    return {r["k"]: (r["n"], r["v"]) for r in source.read("sums").to_pylist()}


def after(files: int) -> dict[int, tuple[int, int]]:
    return {**dict.fromkeys(range(files), (1, 1)), 0: (files + 1, sum(range(files)) + 1)}


def assert_goes_on(mill: Mill, root: str) -> None:
    list(mill.drain())
    assert sums(mill) == after(FILES)
    mill.checkpoint()
    assert sums(Snapshot.open(root)) == after(FILES)
    assert verify(root).intact


def test_buffer_is_full_during_an_epoch(mill_factory: Opener, disk: Disk, data: Path, tmp_path: Path) -> None:
    mill = begin(mill_factory(checkpoint_seconds=1e9, buffer_directory=str(disk.path / "buffer")), data)
    root = tmp_path / "root"
    before, buffer = contents(root), contents(disk.path / "buffer")
    with disk.full():
        for _ in range(3):
            with pytest.raises(TidemillError, match="TM1012") as caught:
                mill.advance()
        assert "the previous epoch is intact" in caught.value.hint
        assert (mill.epoch, sums(mill), sums(Snapshot.open(root))) == (2, after(2), after(2))
    assert contents(root) == before
    assert contents(disk.path / "buffer") == buffer, "nothing half-written is left"
    assert_goes_on(mill, str(root))


def test_root_is_full_during_a_checkpoint(mill_factory: Opener, disk: Disk, data: Path, tmp_path: Path) -> None:
    settings = {"checkpoint_seconds": 1e9, "buffer_directory": str(tmp_path / "buffer")}
    mill = begin(mill_factory("disk/root", **settings), data)
    root = disk.path / "root"
    before = contents(root)
    with disk.full():
        assert mill.advance() is not None, "sealing does not wait for the disk"
        for _ in range(2):
            with pytest.raises(TidemillError, match="TM1014") as caught:
                mill.checkpoint()
        assert "the last checkpoint is intact" in caught.value.hint
        assert mill.advance() is not None, "and goes on without it"
        assert sums(mill) == after(4)
        assert sums(Snapshot.open(root)) == after(2)
    assert contents(root) == before, "nothing half-written is left"
    assert_goes_on(mill, str(root))


def test_buffer_is_full_during_a_checkpoint(mill_factory: Opener, disk: Disk, data: Path, tmp_path: Path) -> None:
    """The file that goes to the root is first put together in the buffer."""
    mill = begin(mill_factory(checkpoint_seconds=1e9, buffer_directory=str(disk.path / "buffer")), data)
    mill.advance()
    root = tmp_path / "root"
    wait_until(lambda: json.loads((disk.path / "buffer" / "sealed.json").read_text())["epoch"] == 3)
    before, buffer = contents(root), contents(disk.path / "buffer")
    with disk.full(), pytest.raises(TidemillError, match=r"TM101[24]"):
        mill.checkpoint()
    assert contents(root) == before
    assert contents(disk.path / "buffer") == buffer
    assert_goes_on(mill, str(root))


def test_checkpoints_in_the_background_wait_for_space(
    mill_factory: Opener, disk: Disk, data: Path, tmp_path: Path
) -> None:
    """Nobody has to do anything but make space: it is told as a warning and tried again."""
    settings = {"checkpoint_seconds": 0.0, "buffer_directory": str(tmp_path / "buffer")}
    mill = begin(mill_factory("disk/root", **settings), data)
    with disk.full():
        mill.advance()
        deadline = time.monotonic() + 120
        while not (told := mill.warnings()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert [w.split(":")[0] for w in told] == ["TM1014"], "also a mill with nothing to do tells it"
        failures = mill._coordinator._checkpoints._failures
        while mill._coordinator._checkpoints._failures == failures:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        report = mill.advance()
        assert report is not None and any("TM1014" in w for w in report.warnings)
        assert mill.durable_epoch == 2
    deadline = time.monotonic() + 120
    while mill.durable_epoch < 4:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert sums(Snapshot.open(disk.path / "root")) == after(4)
    assert_goes_on(mill, str(disk.path / "root"))
