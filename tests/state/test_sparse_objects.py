"""Objects that are kept for a few of their bytes: which runs a checkpoint writes again, and how."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tidemill.state.keys.keys import KeyColumn, decode, encode
from tidemill.state.merge.merge import MergeOp, consolidate
from tidemill.state.merge.unordered import unordered
from tidemill.state.runs.sst import Part
from tidemill.state.store import sparse_objects
from tidemill.state.store.durable_runs import make_durable
from tidemill.state.store.sparse_objects import to_move
from tidemill.state.store.store import RunStore
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Run, Span, Version
from tidemill.task.program import multiset_table

SUM = (MergeOp.SUM,)
KEY = (KeyColumn(pa.int64()),)


def part(table: str, numbers: range) -> Part:
    """A row of weight 1 for each number."""
    keys = encode([pa.array(numbers, pa.int64())], KEY, 1)
    return Part(table, consolidate(keys, [pa.array([1] * len(numbers), pa.int64())], SUM, drop_zero=False), SUM)


def numbers_of(store: RunStore, run: Run) -> list[int]:
    return sorted(decode(store.open(run).keys, KEY)[0].to_pylist())


def run(file: str, section: int, size: int, removed: int | None = None) -> Run:
    return Run(f"t{section}", file, section, 1, size, 1, 1, 1, removed)


def version_of(runs: list[Run]) -> Version:
    live: dict[str, tuple[Run, ...]] = {}
    gone: dict[str, tuple[Run, ...]] = {}
    for each in runs:
        kept = live if each.removed is None else gone
        kept[each.table] = (*kept.get(each.table, ()), each)
    return Version(9, live, 1, gone)


def test_the_emptiest_objects_are_moved_until_half_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_objects, "LEAST_BYTES", 0)
    runs = [run("a.sst", 0, 10), run("b.sst", 1, 100), run("c.sst", 0, 300), run("d.sst", 2, 900)]
    sizes = {"a.sst": 1000, "b.sst": 1000, "c.sst": 1000, "d.sst": 1000, "garbage.sst": 9999}
    assert to_move(version_of(runs), sizes) == runs[:2], "then 2,600 bytes are there, of which 1,310 are needed"
    assert to_move(version_of(runs[:3]), sizes) == runs[:2], "c.sst has more than a quarter"
    assert to_move(version_of(runs), {**sizes, "a.sst": 20}) == runs[1:2]
    assert to_move(version_of(runs[2:]), sizes) == [], "more than half is needed"
    assert to_move(version_of(runs), {}) == [], "sizes are not known"


def test_runs_that_history_needs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [run("a.sst", 0, 10), run("a.sst", 1, 10, removed=5), run("b.sst", 0, 10)]
    sizes = {"a.sst": 1000, "b.sst": 1000}
    assert to_move(version_of(runs), sizes) == [], "little can be gained"
    monkeypatch.setattr(sparse_objects, "LEAST_BYTES", 0)
    assert to_move(version_of(runs), sizes) == runs[2:]
    monkeypatch.setattr(sparse_objects, "MOST_BYTES", 9)
    assert to_move(version_of(runs), sizes) == [], "one checkpoint does not write so much"


def test_runs_of_levels_and_what_is_settled_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction may move a run to another level while a checkpoint writes it again."""
    monkeypatch.setattr(sparse_objects, "LEAST_BYTES", 0)
    runs = [run("a.sst", 0, 10), replace(run("b.sst", 1, 10), level=5), run("c.sst", 2, 10)]
    sizes = {"a.sst": 1000, "b.sst": 1000, "c.sst": 1000}
    assert to_move(version_of(runs), sizes) == [runs[0], runs[2]]
    assert to_move(version_of(runs), sizes, {"a.sst"}) == [runs[2]]


def test_random_versions_are_half_full_or_have_no_sparse_object(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_objects, "LEAST_BYTES", 0)
    chance = random.Random(seed)
    moves = 0
    for _ in range(300):
        runs, sizes = [], {}
        for number in range(chance.randrange(1, 12)):
            name = f"{number}.sst"
            here = [run(name, i, chance.randrange(1, 100)) for i in range(chance.randrange(1, 4))]
            runs += here
            sizes[name] = sum(r.bytes for r in here) * chance.choice((1, 2, 3, 5, 20, 500))
        found = to_move(version_of(runs), sizes)
        moves += bool(found)
        files = Counter(r.file for r in found)
        assert all(n == sum(r.file == f for r in runs) for f, n in files.items()), "all runs of an object, or none"
        needed = {f: sum(r.bytes for r in runs if r.file == f) for f in sizes}
        assert all(4 * needed[f] <= sizes[f] for f in files)
        kept = sum(size for f, size in sizes.items() if f not in files) + sum(needed[f] for f in files)
        sparse = [f for f in sizes if 4 * needed[f] <= sizes[f] and f not in files]
        assert not sparse or kept <= 2 * sum(needed.values()), seed
        assert sum(needed[f] for f in files) * 3 <= sum(sizes[f] - needed[f] for f in files)
    assert moves > 100


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    made = RunStore(Objects(tmp_path / "root"), tmp_path / "buffer")
    made.buffer.mkdir()
    return made


def durable(store: RunStore, *parts: Part) -> list[Run]:
    written = store.write(1, list(parts), "0-0")
    return [new for swap in make_durable(store, [[r] for r in written], 1, 1 << 20) for new in swap.new]


def test_moved_runs_have_the_same_rows_and_place_in_the_version(store: RunStore) -> None:
    table = multiset_table("loose", (pa.int64(),), 1)
    loose = unordered([pa.array([5, 3, 5, 4], pa.int64())], [pa.array([1] * 4, pa.int64())], table.key, 1)
    assert loose is not None
    small, large, last = durable(
        store, part("small", range(3)), part("large", range(20_000)), Part("loose", loose, SUM)
    )
    assert not store.section(last).ordered
    levelled = replace(large, level=6, low=b"\0\0", high=b"\1\0", epoch_high=4, added=4, spans=(Span(0, None, 1, 2),))
    fresh = store.write(7, [part("small", range(3, 5))], "0-0")
    swaps = make_durable(store, [fresh], 7, 1 << 20, (), [replace(small, removed=9), levelled, last])
    new = {swap.old[0]: swap.new for swap in swaps}
    assert len({r.file for runs in new.values() for r in runs}) == 1
    for old, rows in ((replace(small, removed=9), range(3)), (levelled, range(20_000)), (last, [3, 4, 5])):
        (moved,) = new[old]
        assert numbers_of(store, moved) == list(rows)
        assert replace(moved, file=old.file, section=old.section, bytes=old.bytes) == old
    assert not store.section(new[last][0]).ordered
    store.remove({small.file})
    assert store.open(new[last][0]).values[0].to_pylist() == [1, 1, 2]
    assert len(numbers_of(store, new[levelled][0])) == 20_000


@pytest.mark.parametrize("fault", ["damaged", "missing", "footer"])
def test_what_cannot_be_read_stays_where_it_is(store: RunStore, fault: str) -> None:
    small, large = durable(store, part("small", range(3)), part("large", range(20_000)))
    path = store.path(small.file)
    content = bytearray(path.read_bytes())
    content[store.section(large).offset + 5_000 if fault == "damaged" else -20] ^= 1
    path.unlink()
    store.evict([small.file])
    if fault != "missing":
        path.write_bytes(content)
    fresh = store.write(7, [part("small", range(3, 5))], "0-0")
    swaps = make_durable(store, [fresh], 7, 1 << 20, (), [small, large])
    moved = [swap.old[0] for swap in swaps if swap.old[0].is_durable]
    assert moved == [], "an object is kept for one of its runs as for all"
    (written,) = (swap.new for swap in swaps if not swap.old[0].is_durable)
    assert numbers_of(store, written[0]) == [3, 4]


def test_copies_are_moved_and_nothing_is_fetched(tmp_path: Path) -> None:
    """Objects of an object store are read from copies."""
    objects = Objects(f"memory:///{tmp_path.name}-sparse")
    store = RunStore(objects, tmp_path / "buffer")
    store.buffer.mkdir()
    one, other = (durable(store, part(name, range(3)))[0] for name in ("one", "other"))
    store.path(other.file).unlink()
    store.evict([other.file])
    assert store.path(one.file).exists()
    fresh = store.write(7, [part("fresh", range(1))], "0-0")
    swaps = make_durable(store, [fresh], 7, 1 << 20, (), [one, other])
    assert [swap.old[0] for swap in swaps if swap.old[0].is_durable] == [one]
    assert not store.path(other.file).exists()
