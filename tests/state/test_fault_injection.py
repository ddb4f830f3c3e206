"""Every step towards the disk can fail: the root is at a sealed epoch then, whole, and goes on to the same end."""

from __future__ import annotations

import os
import random
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from buffer_under_test import GRACE, Buffer, Clock, LocalContext, Options, forget_open_files
from faults import MODES, FaultyPlace
from model_tables import MULTISET, TABLES, UPSERT, Content, Key, Values, add, read_all, same, stored, to_rows

from tidemill.errors import TidemillError
from tidemill.state.store import durable_runs

EPOCHS = 7
OPTIONS = Options(partitions=2, hosts=2, history=2, most=2)


class Story:
    """What each of some epochs writes, and what the tables are then."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.batches: list[dict[str, list[tuple[Key, Values]]]] = [{}]
        self.contents: list[dict[str, Content]] = [{t: {} for t in TABLES}]
        for _ in range(EPOCHS):
            now = {t: dict(c) for t, c in self.contents[-1].items()}
            batch: dict[str, list[tuple[Key, Values]]] = {UPSERT.id: [], MULTISET.id: []}
            for _ in range(25):
                table = rng.choice((UPSERT, MULTISET))
                key: Key = (rng.randrange(6), rng.choice(("", "a", "b")))
                present = now[table.id].get(key)
                values: Values = (1, rng.randrange(9), None)
                if present is not None:
                    values = rng.choice(((0, rng.randrange(9), "x"), (-1, None, None)))
                if table is MULTISET:
                    values = (-present[0],) if present is not None and rng.random() < 0.5 else (1,)
                batch[table.id].append((key, stored(table, values)))
                add(table, now[table.id], key, values)
            self.batches.append(batch)
            self.contents.append(now)


class Teller:
    """Processes that carry a root through a story, one after the other."""

    def __init__(self, place: FaultyPlace, story: Story) -> None:
        self.place, self.story = place, story
        self.acknowledged = 0

    def open(self) -> Buffer:
        """A process; what it finds is an epoch of the story, none before the last that was told to be durable."""
        forget_open_files()
        buffer = Buffer(self.place, OPTIONS, TABLES)
        self.check(buffer)
        assert buffer.version.epoch >= self.acknowledged
        return buffer

    def check(self, buffer: Buffer) -> None:
        """All tables, at all epochs remembered."""
        version = buffer.version
        assert buffer.catalog["epoch"] == version.epoch
        for epoch in range(version.horizon, version.epoch + 1):
            for table in (UPSERT, MULTISET):
                found = read_all(buffer.store, version, table, epoch)
                same(found, self.story.contents[epoch][table.id], table)

    def step(self, buffer: Buffer) -> None:
        """One epoch and what follows it."""
        epoch = buffer.version.epoch + 1
        rows = {t: to_rows(w, TABLES[t]) for t, w in self.story.batches[epoch].items()}
        buffer.seal(buffer.write(rows, 1 + epoch % 2), {"epoch": epoch, "token": 0})
        self.follow(buffer)

    def follow(self, buffer: Buffer) -> None:
        """What follows an epoch."""
        epoch = buffer.version.epoch
        buffer.compact()
        if epoch % 2 == 0 or epoch == EPOCHS:
            buffer.checkpoint()
            self.acknowledged = epoch
        if epoch % 3 == 0:
            buffer.collect_garbage()
            self.place.clock.offset += 2 * GRACE
            buffer.collect_garbage()

    def to_the_end(self, buffer: Buffer) -> None:
        """All epochs that are left."""
        while buffer.version.epoch < EPOCHS:
            self.step(buffer)

    def with_a_fault(self, at: int, mode: str, goes_on: bool) -> None:
        """The whole story; what goes wrong is tried again by the same process, or by the next."""
        faults = self.place.faults
        faults.arm(at, mode)
        buffer: Buffer | None = None
        attempts = 0
        while buffer is None or self.acknowledged < EPOCHS:
            attempts += 1
            assert attempts < 12, "it does not get on"
            try:
                if buffer is None:
                    buffer = self.open()
                if not self.acknowledged:
                    buffer.checkpoint()
                if buffer.version.epoch == EPOCHS:
                    self.follow(buffer)
                self.to_the_end(buffer)
            except (TidemillError, OSError) as error:
                assert faults.happened, error
                if buffer is not None and (not goes_on or buffer.stopped):
                    assert not buffer.stopped or mode.endswith("uncertain"), "nothing was lost: it can try again"
                    buffer.close()
                    buffer = None
                elif buffer is not None:
                    self.check(buffer)
        self.check(buffer)
        buffer.close()
        faults.arm(-1, "")
        last = self.open()
        assert last.version.epoch == EPOCHS
        last.close()


def places(kind: str, directory: Path) -> Iterator[FaultyPlace]:
    """One place, with its clock running."""
    url = directory / "root" if kind == "directory" else f"memory:///{uuid.uuid4().hex}"
    made = FaultyPlace(url, directory / "buffer", Clock())
    with made.clock.running(), made.faulty_files():
        yield made
    made.forget()


def steps_of(directory: Path, story: Story) -> list[str]:
    """The steps of a story in which nothing goes wrong."""
    for place in places("directory", directory):
        place.faults.arm(-1, "")
        teller = Teller(place, story)
        buffer = teller.open()
        buffer.checkpoint()
        teller.to_the_end(buffer)
        buffer.close()
        steps = place.faults.steps
    return steps


def opening(directory: Path) -> int:
    """How many steps it takes to open a root and to claim it."""
    for place in places("memory", directory):
        buffer = Buffer(place, OPTIONS, TABLES)
        buffer.checkpoint()
        buffer.close()
        steps = len(place.faults.steps)
    return steps


@pytest.mark.parametrize("method", ["setLocalProperty", "parallelize"])
def test_a_merge_that_spark_refuses_is_told_and_tried_again(
    method: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when Java has ended: the thread of merges says it, and does not end in an error of its own."""
    story = Story(seed)

    def refuse(*_: object) -> None:
        raise ConnectionRefusedError("Java has ended")

    for place in places("memory", tmp_path):
        teller = Teller(place, story)
        buffer = teller.open()
        buffer.checkpoint()
        with monkeypatch.context() as patches:
            patches.setattr(LocalContext, method, refuse)
            for _ in range(EPOCHS - 1):
                epoch = buffer.version.epoch + 1
                rows = {t: to_rows(w, TABLES[t]) for t, w in story.batches[epoch].items()}
                buffer.seal(buffer.write(rows, 1), {"epoch": epoch, "token": 0})
                buffer.compact()
            (told,) = buffer.failures_of_merges()
            assert told.startswith("TM1021") and "Java has ended" in told
            assert buffer.compactor.idle
        before = sum(len(runs) for runs in buffer.version.tables.values())
        teller.to_the_end(buffer)
        buffer.compact()
        buffer.seal([], {"epoch": EPOCHS + 1, "token": 0})
        assert buffer.failures_of_merges() == ()
        assert sum(len(runs) for runs in buffer.version.tables.values()) < before
        buffer.close()


CHANCE = 1.0 if os.environ.get("TIDEMILL_FAULTS") else 0.2
"""How much of all faults is tried."""


@pytest.mark.parametrize("goes_on", [False, True], ids=["dies", "goes on"])
@pytest.mark.parametrize("kind", ["directory", pytest.param("memory", marks=pytest.mark.slow)])
def test_whatever_fails(kind: str, goes_on: bool, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step in each way; a part of these by chance, all with TIDEMILL_FAULTS=1. Every other time checkpoints keep
    files of the buffer as they are, where these lie beside the root.
    """
    story, rng = Story(seed), random.Random(seed)
    steps = steps_of(tmp_path / "none", story)
    assert set(steps) == MODES.keys() - {"download", "get"}, "all kinds of steps"
    faults = [(at, mode) for at, step in enumerate(steps) for mode in MODES[step] if rng.random() < CHANCE]
    usual = durable_runs._KEPT_BYTES
    for number, (at, mode) in enumerate(faults):
        monkeypatch.setattr(durable_runs, "_KEPT_BYTES", 1 if number % 2 else usual)
        for place in places(kind, tmp_path / f"{at} {mode}"):
            print(f"{steps[at]} number {at} {mode}")
            Teller(place, story).with_a_fault(at, mode, goes_on)


@pytest.mark.slow
def test_a_writer_that_hangs(tmp_path: Path, seed: int) -> None:
    """A process hangs at a step, another takes over and goes on; when the first wakes, nothing changes any more."""
    story = Story(seed)
    steps = steps_of(tmp_path / "none", story)
    for at in range(opening(tmp_path / "opened"), len(steps)):
        for place in places("memory", tmp_path / str(at)):
            print(f"{steps[at]} number {at}")
            hang(place, story, at)


def hang(place: FaultyPlace, story: Story, at: int) -> None:
    """One process hangs at a step of the story."""
    first = Teller(place, story)
    errors: list[Exception] = []
    place.faults.arm(at, "hangs")

    def tell() -> None:
        try:
            buffer = first.open()
            buffer.checkpoint()
            first.to_the_end(buffer)
            buffer.close()
        except (TidemillError, OSError) as error:
            errors.append(error)
            buffer.close()

    process = threading.Thread(target=tell)
    process.start()
    assert place.faults.reached.wait(60)
    second = Teller(place, story)
    second.acknowledged = first.acknowledged
    buffer = second.open()
    buffer.checkpoint()
    second.to_the_end(buffer)
    for _ in range(20):  # more than the manifests that are kept
        buffer.checkpoint()
        buffer.evict()
        buffer.collect_garbage()
    newest = buffer.log.numbers()[-1]
    place.faults.release.set()
    process.join(60)
    assert not process.is_alive()
    for error in errors:
        assert isinstance(error, TidemillError), error
        gone = error.number == "TM1014" and "No such file" in error.got  # what it was to upload has been collected
        assert gone or error.number in ("TM1003", "TM1018"), error
    buffer.checkpoint()
    assert buffer.log.numbers()[-1] == newest + 1
    second.check(buffer)
    buffer.close()
    assert second.open().version.epoch == EPOCHS


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["directory", "memory"])
def test_collecting_garbage_fails(kind: str, tmp_path: Path) -> None:
    """The thread of checkpoints survives it, and tries again."""
    for place in places(kind, tmp_path):
        buffer = Buffer(place, OPTIONS, TABLES)
        for number, step in ((2, "list"), (0, "remove"), (0, "staged")):
            place.faults.arm(number, "fails", step)
            while not place.faults.happened:  # the thread may still be at the end of the collection before
                buffer.checkpoints._collect_in = 0
                buffer.checkpoint()
        buffer.close()


def test_every_wrong_bit_is_found_or_does_no_harm(tmp_path: Path, seed: int) -> None:
    """In any file of a root, durable or not; a part of the bytes by chance, all with TIDEMILL_FAULTS=1."""
    rng, story = random.Random(seed), Story(seed)
    for place in places("directory", tmp_path):
        teller = Teller(place, story)
        place.faults.arm(-1, "")
        buffer = teller.open()
        buffer.checkpoint()
        while buffer.version.epoch < 5:
            teller.step(buffer)
        sealed = buffer.version
        found: dict[str, set[str]] = {}
        for path in sorted(p for p in tmp_path.rglob("*") if p.is_file()):
            whole = path.read_bytes()
            needed = path.name in sealed.files() or path.name == f"{buffer.log.numbers()[-1]:020d}.json"
            for at in range(len(whole)):
                if rng.random() > CHANCE * 200 / len(whole):
                    continue
                path.unlink()
                path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])
                outcome = read_again(teller, buffer)
                assert needed or outcome == "same", f"{path.name} is not even read"
                found.setdefault(path.suffix, set()).add(outcome)
            path.unlink()
            path.write_bytes(whole)
            assert read_again(teller, buffer) == "same"
        assert "TM1004" in found[".json"]
        assert found[".sst"] & {"TM1010", "TM1011"}
        assert found[".run"] & {"TM1018"}, found
        buffer.close()


def read_again(teller: Teller, buffer: Buffer) -> str:
    """What a reader of the sealed version, and one of the newest manifest, find."""
    forget_open_files()
    try:
        teller.check(buffer)
        last = buffer.log.latest()
        assert last is not None
        for table in (UPSERT, MULTISET):
            expected = teller.story.contents[last.version.epoch][table.id]
            same(read_all(buffer.store, last.version, table), expected, table)
    except TidemillError as error:
        return error.number
    return "same"
