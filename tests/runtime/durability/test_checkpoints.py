"""Making versions durable in the background: order, failures, garbage."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidemill.errors import TidemillError
from tidemill.runtime.durability import checkpoints as checkpoints_module
from tidemill.runtime.durability.checkpoints import Checkpoints, Sealed
from tidemill.runtime.durability.collector import InUse
from tidemill.runtime.durability.uploads import buffered
from tidemill.state.keys.keys import KeyColumn, decode, encode
from tidemill.state.merge.merge import MergeOp, consolidate
from tidemill.state.runs.sst import Part
from tidemill.state.store.durable_runs import make_durable
from tidemill.state.store.store import RunStore
from tidemill.state.versions.lease import Lease, make_readers_file
from tidemill.state.versions.manifest import ManifestLog
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Run, Swap, Version
from waiting import wait_until

SUM = (MergeOp.SUM,)
Opener = Callable[..., Checkpoints]


class Root:
    """A root directory and a version that grows by one run an epoch."""

    def __init__(self, path: Path) -> None:
        self.log = ManifestLog(Objects(path), create=True)
        make_readers_file(path)
        self.store = RunStore(Objects(path), path / "buffer")
        self.version = Version.empty()
        self.path = path
        self.pinned: list[frozenset[str]] = []
        self.in_flight: set[str] = set()

    def seal(self, forget: bool = False) -> Sealed:
        """One more epoch; with ``forget`` nothing older is part of it."""
        epoch = self.version.epoch + 1
        keys = encode([pa.array([epoch], pa.int64())], (KeyColumn(pa.int64()),), 1)
        rows = consolidate(keys, [pa.array([1], pa.int64())], [MergeOp.SUM], drop_zero=False)
        before = Version(epoch - 1, {}) if forget else self.version
        self.version = before.seal(epoch, self.store.write(epoch, [("t", rows, SUM)], "0-0"))
        return Sealed(self.version, {})

    def upload(self, version: Version, number: int, moved: Sequence[Run] = ()) -> list[Swap]:
        """In this process, without Spark."""
        [groups] = buffered(version).values() or [[]]
        return make_durable(self.store, groups, number, 1 << 20, (), moved if groups else ())

    def files(self) -> set[str]:
        """All files of the buffer, and all objects."""
        return {name for name, _ in (*self.store.buffered(), *self.store.durable())}

    def durable(self, number: int) -> frozenset[str]:
        """The files that a manifest names."""
        return self.log.read(number).version.files()


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "root")


@pytest.fixture
def open_checkpoints(root: Root) -> Iterator[Opener]:
    opened: list[Checkpoints] = []

    def opener(seconds: float = 0.0, epochs: int = 0, grace: float = 0.0) -> Checkpoints:
        def in_use() -> InUse:
            return InUse(root.version.files(), tuple(root.pinned), frozenset(root.in_flight))

        last = root.log.latest()
        opened.append(Checkpoints(root.log, root.store, last, seconds, epochs, grace, root.upload, in_use))
        return opened[-1]

    yield opener
    for each in opened:
        each.close()


def no_space(path: str, raw: bytes) -> None:
    """Writes as on a full disk."""
    raise OSError(28, "No space left on device")


def test_flush_is_durable_when_it_returns(root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints(seconds=1000.0)
    for _ in range(3):
        checkpoints.flush(root.seal())
    assert checkpoints.durable_epoch == 3
    latest = root.log.latest()
    assert latest is not None
    assert latest.number == 3
    assert latest.version == root.version.swapped(checkpoints.take_swaps())
    assert {name[-4:] for name in latest.version.files()} == {".sst"}


def test_submitted_becomes_durable_soon_and_in_order(root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints()
    for _ in range(20):
        checkpoints.submit(root.seal())
    wait_until(lambda: checkpoints.durable_epoch == 20)
    epochs = [root.log.read(n).version.epoch for n in root.log.numbers()]
    assert epochs == sorted(set(epochs))


def test_a_pause_between_checkpoints_joins_epochs(root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints(seconds=1000.0)
    checkpoints.submit(root.seal())
    wait_until(lambda: checkpoints.durable_epoch == 1)
    for _ in range(5):
        checkpoints.submit(root.seal())
    assert checkpoints.durable_epoch == 1
    checkpoints.flush(root.seal())
    assert [root.log.read(n).version.epoch for n in root.log.numbers()] == [1, 7]


def test_epochs_make_a_checkpoint_due(root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints(seconds=1000.0, epochs=3)
    checkpoints.flush(root.seal())
    for _ in range(2):
        checkpoints.submit(root.seal())
    checkpoints.submit(root.seal())
    wait_until(lambda: checkpoints.durable_epoch == 4)
    assert [root.log.read(n).version.epoch for n in root.log.numbers()] == [1, 4]


def test_hurry_ends_a_pause(root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints(seconds=1000.0)
    checkpoints.flush(root.seal())
    checkpoints.submit(root.seal())
    checkpoints.hurry()
    wait_until(lambda: checkpoints.durable_epoch == 2)


def test_a_costly_checkpoint_is_followed_by_a_longer_pause(
    root: Root, open_checkpoints: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = iter(range(0, 1 << 20, 3600))
    monkeypatch.setattr(checkpoints_module.time, "thread_time", lambda: float(next(hours)))
    checkpoints = open_checkpoints(seconds=1e-9)
    checkpoints.submit(root.seal())
    wait_until(lambda: checkpoints._rest > 0)
    assert checkpoints.durable_epoch == 1
    for _ in range(3):
        checkpoints.submit(root.seal())
        assert 1 < checkpoints._pause() < math.inf
    assert checkpoints.durable_epoch == 1
    checkpoints.hurry()
    wait_until(lambda: checkpoints.durable_epoch == 4)
    assert [root.log.read(n).version.epoch for n in root.log.numbers()] == [1, 4]


def test_swaps_of_young_epochs_can_be_left(root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints(seconds=1000.0)
    for _ in range(3):
        checkpoints.flush(root.seal())
    assert [s.old[0].epoch_high for s in checkpoints.take_swaps(until=2)] == [1, 2]
    assert [s.old[0].epoch_high for s in checkpoints.take_swaps()] == [3]
    assert checkpoints.take_swaps() == []


def test_another_writer_stops_it_for_good(root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints()
    checkpoints.flush(root.seal())
    ManifestLog(root.log.objects, create=False).publish(2, Version.empty(), {})
    for _ in range(2):
        with pytest.raises(TidemillError, match="TM1003"):
            checkpoints.flush(root.seal())
    with pytest.raises(TidemillError, match="TM1003"):
        checkpoints.check()
    assert checkpoints.durable_epoch == 1
    latest = root.log.latest()
    assert latest is not None
    assert latest.version == Version.empty()


def test_a_flush_that_fails_is_tried_once(
    root: Root, open_checkpoints: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However late who waits for it wakes: the thread would have time for more attempts."""
    attempts: list[int] = []

    def upload(version: Version, number: int, moved: Sequence[Run]) -> list[Swap]:
        attempts.append(number)
        raise TidemillError("TM1017", "the Spark job of a checkpoint failed", got="a test", hint="-")

    monkeypatch.setattr("tidemill.runtime.durability.checkpoints._RETRY_SECONDS", 0.0)
    monkeypatch.setattr(root, "upload", upload)
    checkpoints = open_checkpoints()
    condition = checkpoints._condition
    wait_for = condition.wait_for

    def wakes_late(predicate: Callable[[], object]) -> object:
        found = wait_for(predicate)
        condition.wait(0.2)
        return found

    monkeypatch.setattr(condition, "wait_for", wakes_late)
    with pytest.raises(TidemillError, match="TM1017"):
        checkpoints.flush(root.seal())
    assert attempts == [1]


def test_lost_run_file_is_never_referenced(root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints()
    checkpoints.flush(root.seal())
    sealed = root.seal()
    for name in sealed.version.files() - root.log.read(1).version.files():
        root.store.path(name).unlink()
    with pytest.raises(TidemillError, match="TM1018"):
        checkpoints.flush(sealed)
    assert root.log.numbers() == [1]


def test_manifest_that_cannot_be_written_is_tried_again(
    root: Root, open_checkpoints: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = open_checkpoints()
    checkpoints.flush(root.seal())
    put = root.log.objects.put
    monkeypatch.setattr("tidemill.runtime.durability.checkpoints._RETRY_SECONDS", 0.01)
    monkeypatch.setattr(root.log.objects, "put", no_space)
    checkpoints.submit(root.seal())
    told: list[str] = []
    checkpoints.check()
    wait_until(lambda: not told.extend(checkpoints.warnings()) and len(told) >= 5)
    assert {message.split(":")[0] for message in told} == {"TM1014"}
    with pytest.raises(TidemillError, match="TM1014"):
        wait_until(checkpoints.check)  # which raises in the end
    with pytest.raises(TidemillError, match="TM1014"):
        checkpoints.flush(root.seal())
    assert root.log.numbers() == [1]
    monkeypatch.setattr(root.log.objects, "put", put)
    checkpoints.flush(root.seal())
    assert checkpoints.durable_epoch == 4
    assert root.log.numbers() == [1, 2], "nothing half-written took a number"


def test_failed_checkpoint_is_repeated_without_a_new_epoch(
    root: Root, open_checkpoints: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.runtime.durability.checkpoints._RETRY_SECONDS", 0.01)
    failures = iter([True, True, True])
    put = root.log.objects.put

    def failing(path: str, raw: bytes) -> None:
        if next(failures, False):
            no_space(path, raw)
        put(path, raw)

    monkeypatch.setattr(root.log.objects, "put", failing)
    checkpoints = open_checkpoints()
    checkpoints.submit(root.seal())
    wait_until(lambda: checkpoints.durable_epoch == 1)
    checkpoints.check()


def test_only_failures_in_a_row_stop_epochs(
    root: Root, open_checkpoints: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.runtime.durability.checkpoints._RETRY_SECONDS", 0.001)
    put, failures = root.log.objects.put, iter([True] * 4 + [False] + [True] * 4)
    checked: list[bool] = []

    def failing(path: str, raw: bytes) -> None:
        if next(failures, False):
            no_space(path, raw)
        put(path, raw)

    write = Checkpoints._write

    def checking(self: Checkpoints, sealed: Sealed) -> TidemillError | None:
        self.check()  # as an epoch would: it raises from the fifth failure in a row on
        checked.append(True)
        return write(self, sealed)

    monkeypatch.setattr(root.log.objects, "put", failing)
    monkeypatch.setattr(Checkpoints, "_write", checking)
    checkpoints = open_checkpoints()
    for epoch in (1, 2):
        checkpoints.submit(root.seal())
        wait_until(lambda: checkpoints.durable_epoch == epoch)  # noqa: B023
    assert len(checked) == 10


def test_a_disk_that_may_have_lost_bytes_stops_it(
    root: Root, open_checkpoints: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After fsync failed, a second fsync may succeed though the bytes are gone."""
    checkpoints = open_checkpoints()
    checkpoints.flush(root.seal())

    def fsync(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(TidemillError, match="TM1015"):
        checkpoints.flush(root.seal())
    monkeypatch.undo()
    with pytest.raises(TidemillError, match="TM1015"):
        checkpoints.flush(root.seal())
    assert root.log.numbers() == [1]


def test_garbage_goes_and_what_is_needed_stays(root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints(seconds=1000.0)
    checkpoints.flush(root.seal())
    checkpoints.close()  # its thread collects too
    orphan = root.store.write(1, [("t", root.store.open(root.version.runs("t")[0]), SUM)], "failed attempt")[0].file
    later = root.store.write(9, [("t", root.store.open(root.version.runs("t")[0]), SUM)], "attempt in flight")[0].file
    assert checkpoints.collect_garbage() == 1
    assert root.files() == {*root.version.files(), *root.durable(1), later}
    assert orphan not in root.files()


def test_garbage_is_collected_by_bytes_when_idle_and_at_the_end(
    root: Root, open_checkpoints: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = open_checkpoints()
    checkpoints.flush(root.seal())
    wait_until(lambda: checkpoints._collector.wait() > 1e9)  # the first time, after the first checkpoint
    monkeypatch.setattr(
        "tidemill.runtime.durability.collector._COLLECT_BYTES", 3 * sum(r.bytes for r in root.version.every())
    )

    def orphan() -> str:
        rows = root.store.open(root.version.runs("t")[0])
        return root.store.write(1, [("t", rows, SUM)], "failed attempt")[0].file

    first = orphan()
    checkpoints.flush(root.seal())
    assert first in root.files()
    for _ in range(2):
        checkpoints.flush(root.seal(forget=True))
    wait_until(lambda: first not in root.files())
    wait_until(lambda: checkpoints._collector.wait() > 1e9)
    monkeypatch.setattr("tidemill.runtime.durability.collector._COLLECT_BYTES", 1 << 40)
    monkeypatch.setattr("tidemill.runtime.durability.collector._IDLE_SECONDS", 0.02)
    second = orphan()
    checkpoints.flush(root.seal())
    wait_until(lambda: second not in root.files())


def test_what_was_too_young_goes_when_it_is_old_enough(root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints(grace=0.2)
    rows = root.store.open(root.seal().version.runs("t")[0])
    orphan = root.store.write(1, [("t", rows, SUM)], "failed attempt")[0].file
    checkpoints.flush(root.seal())
    wait_until(lambda: orphan not in root.files())
    assert root.version.files() <= root.files()


@pytest.mark.parametrize("read_elsewhere", [False, True])
def test_at_the_end_all_goes_that_nobody_reads(read_elsewhere: bool, root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints(grace=3600.0)
    checkpoints.flush(root.seal())
    rows = root.store.open(root.version.runs("t")[0])
    orphan = root.store.write(1, [("t", rows, SUM)], "failed attempt")[0].file
    earlier = root.store.write(1, [("t", rows, SUM)], "of an earlier process")[0].file
    os.utime(root.store.path(earlier), (time.time() - 1000,) * 2)
    lease = Lease(root.path if read_elsewhere else None)
    checkpoints.close(collect=True)
    assert (orphan in root.files()) == read_elsewhere
    assert earlier in root.files(), "it may be of a manifest that somebody moved away"
    assert root.version.files() <= root.files()
    del lease


def test_young_files_are_left_alone(root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints(seconds=1000.0, grace=3600.0)
    checkpoints.flush(root.seal())
    root.store.write(1, [("t", root.store.open(root.version.runs("t")[0]), SUM)], "x")
    assert checkpoints.collect_garbage() == 0


def test_older_manifests_keep_their_files(root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints()
    for _ in range(16):
        checkpoints.flush(root.seal(forget=True))
    checkpoints.collect_garbage()
    assert len(root.store.durable()) == 16
    assert {name for name, _ in root.store.buffered()} == root.version.files(), "what is durable and old is evicted"
    checkpoints.flush(root.seal(forget=True))
    checkpoints.collect_garbage()
    assert len(root.store.durable()) == 16, "the seventeenth manifest back is forgotten"
    assert root.durable(2) <= root.files()


def test_garbage_of_an_earlier_process_is_found(root: Root, open_checkpoints: Opener) -> None:
    first = open_checkpoints(grace=3600.0)
    first.flush(root.seal())
    first.close()
    orphan = root.store.write(1, [("t", root.store.open(root.version.runs("t")[0]), SUM)], "killed")[0].file
    second = open_checkpoints()
    second.flush(root.seal())
    wait_until(lambda: orphan not in root.files())
    assert root.version.files() <= root.files()


def test_damaged_older_manifest_keeps_everything(root: Root, open_checkpoints: Opener) -> None:
    first = open_checkpoints(grace=3600.0)
    for _ in range(2):
        first.flush(root.seal())
    first.close()
    (root.path / "manifest" / f"{1:020d}.json").write_text("damaged")
    root.store.write(1, [("t", root.store.open(root.version.runs("t")[0]), SUM)], "x")
    second = open_checkpoints()
    second.flush(root.seal())
    assert second.collect_garbage() == 0
    assert second.durable_epoch == 3


def test_merged_files_that_wait_to_be_sealed_stay(root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints(seconds=1000.0)
    checkpoints.flush(root.seal())
    root.in_flight.add("m-job")
    rows = root.store.open(root.version.runs("t")[0])
    merged = {
        root.store.write(1, [("t", rows, SUM)], "m-job")[0].file,
        root.store.write_object(1, Part("t", rows, SUM, (1, 1)), "m-job").file,
    }
    other = root.store.write_object(1, Part("t", rows, SUM, (1, 1)), "m-of a mill that died").file
    checkpoints.collect_garbage()  # unless the thread of the checkpoint has done so
    assert merged <= root.files()
    assert other not in root.files()
    root.in_flight.clear()
    checkpoints.collect_garbage()
    assert not merged & root.files()


def test_what_a_reader_has_pinned_stays(root: Root, open_checkpoints: Opener) -> None:
    checkpoints = open_checkpoints(seconds=1000.0)
    sealed = root.seal()
    old = sealed.version
    root.pinned.append(old.files())
    checkpoints.flush(sealed)
    for _ in range(20):
        checkpoints.flush(root.seal(forget=True))
    checkpoints.collect_garbage()
    assert old.files() <= root.files()
    root.store.open(old.runs("t")[0])
    root.pinned.clear()
    checkpoints.collect_garbage()
    assert not old.files() & root.files()


def test_an_object_store_that_fails_while_garbage_is_collected_stops_nothing(
    root: Root, open_checkpoints: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = open_checkpoints()

    def failing(_: str) -> None:
        raise OSError("no answer")

    monkeypatch.setattr(root.store, "stored", lambda: failing(""))
    for _ in range(3):
        checkpoints.flush(root.seal())
    assert checkpoints.durable_epoch == 3


def test_objects_stay_until_the_mill_knows_them(tmp_path: Path) -> None:
    """A merge that was made durable is forgotten before the mill reads it from there: manifests need its inputs."""
    root, epochs_in_buffer = Root(tmp_path / "root"), 40
    checkpoints = Checkpoints(
        root.log, root.store, None, 0.0, 0, 0.0, root.upload, lambda: InUse(root.version.files(), (), frozenset())
    )

    def epoch(merge: int = 0, left_out: int = 1 << 20) -> None:
        """One more, with a merge of all epochs up to one, and a checkpoint."""
        before, number = root.version, root.version.epoch + 1
        gone = [r for r in before.runs("t") if r.epoch_high <= merge]
        new = list(root.seal().version.changes("t", number))
        if gone:
            low, high = min(r.epoch_low for r in gone), max(r.epoch_high for r in gone)
            keys = encode([pa.array(range(low, high + 1), pa.int64())], (KeyColumn(pa.int64()),), 1)
            rows = consolidate(keys, [pa.array([1] * (high - low + 1), pa.int64())], SUM, drop_zero=False)
            written = root.store.write(number, [Part("t", rows, SUM, (low, high))], "m")
            new += [replace(r, epoch_low=low, epoch_high=high) for r in written]
        version = before.seal(number, new, gone).forget(number)
        root.version = version.swapped(checkpoints.take_swaps(number - epochs_in_buffer))
        checkpoints.flush(Sealed(root.version, {}, left_out))

    epoch()
    epoch()
    epoch(merge=2, left_out=0)  # others take what may be left out: the merge becomes durable
    for _ in range(18):  # more than the manifests that are kept
        epoch()
    checkpoints.collect_garbage()
    epoch(merge=root.version.epoch)
    epoch()
    checkpoints.collect_garbage()
    newest = root.log.latest()
    assert newest is not None and newest.version.epoch == root.version.epoch
    root.store.check_present(newest.version.files())
    checkpoints.close()


class Moves:
    """A table ``t`` of which each epoch replaces all rows, one that is written in the first epoch, and what moves."""

    asked: list[list[tuple[str, str]]]
    """Runs that each checkpoint was asked to move."""

    def __init__(self, root: Root, open_checkpoints: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.asked = root, []
        monkeypatch.setattr("tidemill.state.store.sparse_objects.LEAST_BYTES", 0)
        upload = root.upload

        def noting(version: Version, number: int, moved: Sequence[Run]) -> list[Swap]:
            self.asked.append([(run.table, run.file) for run in moved])
            return upload(version, number, moved)

        monkeypatch.setattr(root, "upload", noting)
        self.checkpoints = open_checkpoints()
        self.go_on(1)
        (self.first,) = {run.file for run in root.version.runs("small")}

    def epoch(self) -> Sealed:
        root, epoch = self.root, self.root.version.epoch + 1
        keys = encode([pa.array(range(5000), pa.int64())], (KeyColumn(pa.int64()),), 1)
        rows = consolidate(keys, [pa.array(np.arange(5000) * epoch, pa.int64())], SUM, drop_zero=False)
        parts = [Part("t", rows, SUM), *([Part("small", rows.slice(0, 10), SUM)] if epoch == 1 else [])]
        gone = root.version.runs("t")
        root.version = root.version.seal(epoch, root.store.write(epoch, parts, "0-0"), gone).forget(epoch)
        return Sealed(root.version, {})

    def go_on(self, epochs: int) -> None:
        for _ in range(epochs):
            self.checkpoints.flush(self.epoch())
            self.root.version = self.root.version.swapped(self.checkpoints.take_swaps(self.root.version.epoch))
            self.checkpoints.collect_garbage()

    def is_intact(self) -> bool:
        """Whether the rows of the first epoch are there."""
        (run,) = self.root.version.runs("small")
        rows = self.root.store.open(run)
        return rows.values[0].to_pylist() == decode(rows.keys, (KeyColumn(pa.int64()),))[0].to_pylist() != []


@pytest.fixture
def moves(root: Root, open_checkpoints: Opener, monkeypatch: pytest.MonkeyPatch) -> Moves:
    return Moves(root, open_checkpoints, monkeypatch)


def test_an_object_is_not_kept_for_a_few_of_its_bytes(root: Root, moves: Moves) -> None:
    moves.go_on(30)
    (run,) = root.version.runs("small")
    assert moves.first not in root.files() and run.is_durable
    assert (run.epoch_low, run.epoch_high, run.added) == (1, 1, 1)
    assert moves.is_intact()
    asked = [files for files in moves.asked if files]
    assert asked[0] == [("small", moves.first)]
    assert len(set(map(tuple, asked))) == len(asked), "what has been moved is not moved again from there"
    latest = root.log.latest()
    assert latest is not None and latest.version.runs("small") == root.version.runs("small")


def test_what_cannot_be_moved_is_tried_once(root: Root, moves: Moves, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(root.store, "has", lambda file: file != moves.first)
        moves.go_on(10)
    assert [files for files in moves.asked if files] == [[("small", moves.first)]]
    assert moves.is_intact() and moves.checkpoints.durable_epoch == 11


def test_what_has_moved_waits_until_the_mill_knows(root: Root, moves: Moves) -> None:
    """Two moves of one run would be two swaps, of which the second names a run that the mill does not have."""
    for _ in range(10):
        moves.checkpoints.flush(moves.epoch())
        moves.checkpoints.collect_garbage()
    assert len([files for files in moves.asked if files]) == 1
    root.version = root.version.swapped(moves.checkpoints.take_swaps())
    assert moves.is_intact()
    moves.go_on(10)
    assert len([files for files in moves.asked if files]) > 1
    assert moves.is_intact()
