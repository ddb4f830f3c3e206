"""A root keeps one contract wherever it lies: what is sealed, combined, swapped, published, pruned, opened again."""

from __future__ import annotations

from pathlib import Path

import pytest
from buffer_under_test import GRACE, Buffer, Clock, Options, Place, forget_open_files
from model_tables import MULTISET, TABLES, UPSERT, Content, Key, Values, add, read_all, same, stored, to_rows

from tidemill.errors import TidemillError
from tidemill.state.versions.manifest import ManifestLog
from tidemill.state.versions.objects import Objects

OPTIONS = Options(partitions=3, hosts=2, history=2, most=3)


class Root:
    """A place with a writer, and what its tables are."""

    def __init__(self, objects: Objects, buffer: Path) -> None:
        self.place = Place(objects.url, buffer, Clock())
        self.buffer = Buffer(self.place, OPTIONS, TABLES)
        self.contents: list[dict[str, Content]] = [{UPSERT.id: {}, MULTISET.id: {}}]

    def epoch(self, checkpoint: bool = True) -> None:
        """Seal one: 20 more rows in the bag, some rows by key written, updated, deleted."""
        epoch = self.buffer.version.epoch + 1
        now = {t: dict(c) for t, c in self.contents[-1].items()}
        rows = {}
        for table in (UPSERT, MULTISET):
            writes: list[tuple[Key, Values]] = []
            for i in range(20):
                key: Key = (i % 7, f"{(i * epoch) % 5}")
                there = key in now[table.id]
                values: Values = (0 if there else 1, epoch, "x") if table is UPSERT else (1,)
                if there and (i + epoch) % 3 == 0:
                    values = (-1, None, None) if table is UPSERT else (-now[table.id][key][0],)
                writes.append((key, stored(table, values)))
                add(table, now[table.id], key, values)
            rows[table.id] = to_rows(writes, table)
        self.contents.append(now)
        self.buffer.seal(self.buffer.write(rows, OPTIONS.partitions), {"epoch": epoch})
        if checkpoint:
            self.buffer.checkpoint()

    def check(self, buffer: Buffer) -> None:
        """Every epoch remembered is as it was sealed."""
        version = buffer.version
        for epoch in range(version.horizon, version.epoch + 1):
            for table in (UPSERT, MULTISET):
                same(read_all(buffer.store, version, table, epoch), self.contents[epoch][table.id], table)

    def reopened(self, lost: bool = False) -> Buffer:
        """The next process, maybe on another host."""
        self.buffer.close()
        if lost:
            self.place.lose_buffer()
        forget_open_files()
        self.buffer = Buffer(self.place, OPTIONS, TABLES)
        return self.buffer


@pytest.fixture
def root(objects: Objects, tmp_path: Path) -> Root:
    """An empty root in each of the places."""
    return Root(objects, tmp_path / "host")


def test_a_checkpoint_is_all_that_is_needed(root: Root) -> None:
    for _ in range(3):
        root.epoch()
    root.epoch(checkpoint=False)
    assert root.reopened(lost=True).version.epoch == 3
    root.check(root.buffer)


def test_one_object_a_host_and_checkpoint(root: Root) -> None:
    for _ in range(2):
        root.epoch(checkpoint=False)
    root.buffer.checkpoint()
    assert len(root.buffer.store.durable()) == OPTIONS.hosts
    root.buffer.evict()
    assert {f[-4:] for f in root.buffer.version.files()} == {".sst"}
    root.check(root.buffer)


def test_swaps_change_no_epoch(root: Root) -> None:
    for _ in range(4):
        root.epoch(checkpoint=False)
        root.check(root.buffer)
    root.buffer.checkpoint()
    root.check(root.buffer)
    root.buffer.evict()
    root.check(root.buffer)
    forget_open_files()
    root.check(root.buffer)


def test_merges_change_no_epoch(root: Root) -> None:
    for number in range(12):
        root.epoch(checkpoint=number % 3 == 0)
        root.buffer.compact()
        root.check(root.buffer)
    root.buffer.checkpoint()
    assert root.reopened(lost=True).version.epoch == 12
    root.check(root.buffer)
    assert len(root.buffer.version.runs(MULTISET.id)) < 12


def test_old_manifests_and_their_files_go(root: Root) -> None:
    for _ in range(24):
        root.epoch()
        root.buffer.compact()
    root.epoch()  # seals what the last merges made: until then it is in flight, and stays
    for _ in range(3):
        root.buffer.collect_garbage()
        root.place.clock.offset += 2 * GRACE
        with root.place.clock.running():
            root.buffer.collect_garbage()
    numbers = root.buffer.log.numbers()
    assert numbers == list(range(numbers[-1] - 15, numbers[-1] + 1))
    named = {f for n in numbers for f in root.buffer.log.read(n).version.files()}
    assert {n for n, _ in root.buffer.store.durable()} == named
    root.reopened(lost=True)
    root.check(root.buffer)


def test_a_second_writer_is_found_out(root: Root, objects: Objects) -> None:
    root.epoch()
    if objects.directory is not None:
        with pytest.raises(TidemillError, match="TM1003"):
            Buffer(root.place, OPTIONS, TABLES)
        root.buffer.lose_lock()
    second = Buffer(root.place, OPTIONS, TABLES)
    assert second.version.epoch == 1
    second.checkpoint()
    root.epoch(checkpoint=False)
    with pytest.raises(TidemillError, match="TM1003"):
        root.buffer.checkpoint()
    assert second.log.read(second.log.numbers()[-1]).writer == second.log.writer
    second.checkpoint()
    second.close()
    assert root.reopened(lost=True).version.epoch == 1


def test_a_manifest_is_written_once(objects: Objects) -> None:
    first, second = ManifestLog(objects, create=True), ManifestLog(objects, create=True)
    root = first.publish(1, Buffer(Place(objects.url, Path("/nowhere"), Clock()), OPTIONS, {}).version, {"a": 1})
    with pytest.raises(TidemillError, match="TM1003"):
        second.publish(1, root.version, {"a": 2})
    assert first.publish(1, root.version, {"a": 3}).number == 2, "its own, which it had been told failed"
    with pytest.raises(TidemillError, match="TM1003"):
        second.publish(2, root.version, {"a": 2})
    assert [first.read(n).catalog for n in first.numbers()] == [{"a": 1}, {"a": 3}]


def test_missing_objects_are_told(root: Root) -> None:
    root.epoch()
    root.buffer.evict()
    root.buffer.objects.remove(f"sst/{name}" for name, _ in root.buffer.store.durable())
    root.reopened(lost=True)
    with pytest.raises(TidemillError, match="TM1010"):
        root.check(root.buffer)
    root.buffer.close()
