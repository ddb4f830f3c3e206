"""Every step towards the disk can fail: the root is at a sealed epoch then, whole, and goes on to the same end."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from buffer_model import MULTISET, TABLES, UPSERT, Content, Key, Values, add, read_all, same, stored, to_rows
from buffer_under_test import GRACE, Buffer, Clock, Options, forget_open_files
from faults import MODES, FaultyPlace

from tidemill.errors import TidemillError
from tidemill.state.objects import UncertainError

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

    def with_a_fault(self, at: int, mode: str, goes_on: bool) -> str:
        """The whole story; what goes wrong is tried again by the same process, or by the next. Says what was hit."""
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
                number = error.number if isinstance(error, TidemillError) else ""
                if buffer is not None and (not goes_on or number in ("TM1003", "TM1015", "TM1010")):
                    buffer.close()
                    buffer = None
                elif buffer is not None:
                    self.check(buffer)
        self.check(buffer)
        buffer.close()
        last = self.open()
        assert last.version.epoch == EPOCHS
        last.close()
        return faults.steps[at] if at < len(faults.steps) else ""


@pytest.fixture(params=["directory", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FaultyPlace]:
    """Where nothing has gone wrong yet."""
    yield from places(request.param, tmp_path)


def places(kind: str, directory: Path) -> Iterator[FaultyPlace]:
    """One place, with its clock running."""
    url = directory / "root" if kind == "directory" else f"memory:///{uuid.uuid4().hex}"
    made = FaultyPlace(url, directory / "buffer", Clock())
    with made.clock.running(), made.faulty_files():
        yield made
    made.forget()


def steps_of(kind: str, directory: Path, story: Story) -> list[str]:
    """The steps of a story in which nothing goes wrong."""
    (found,) = ((Teller(p, story).with_a_fault(-1, "", False), p.faults.steps) for p in places(kind, directory))
    return found[1]


@pytest.mark.parametrize("goes_on", [False, True], ids=["dies", "goes on"])
@pytest.mark.parametrize("kind", ["directory", "memory"])
def test_whatever_fails(kind: str, goes_on: bool, tmp_path: Path, seed: int) -> None:
    """Each step in turn, in each way."""
    story = Story(seed)
    steps = steps_of(kind, tmp_path / "none", story)
    assert {"put", "list", "remove", "write", "evict"} <= set(steps)
    for at, step in enumerate(steps):
        for mode in MODES[step]:
            for place in places(kind, tmp_path / f"{at} {mode}"):
                print(f"{step} number {at} {mode}")
                Teller(place, story).with_a_fault(at, mode, goes_on)
