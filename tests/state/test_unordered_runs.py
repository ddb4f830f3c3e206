"""Rows that a task leaves in any order: written, damaged, joined by checkpoints, and read as a run in order."""

from __future__ import annotations

import errno
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from key_values import KEY_VALUES, MODES

from tidemill.errors import TidemillError
from tidemill.state.keys.keys import KeyColumn, decode, encode
from tidemill.state.lookup import memtable as memtable_module
from tidemill.state.lookup.memtable import Memtable
from tidemill.state.memory import MemoryBudget
from tidemill.state.merge.merge import MergeOp, Rows, consolidate
from tidemill.state.merge.unordered import Unordered, concatenated, repeated, unordered
from tidemill.state.runs import sst
from tidemill.state.runs.mapped import Mapped
from tidemill.state.runs.sst import Part, RunFile
from tidemill.state.store import durable_runs
from tidemill.state.store.durable_runs import make_durable
from tidemill.state.store.store import RunStore
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Run
from tidemill.task.program import StateTable, multiset_table

KEY = (KeyColumn(pa.int64()), KeyColumn(pa.string()))
TABLE = multiset_table("t", (pa.int64(), pa.string()), 1)
SUM = (MergeOp.SUM,)
INTS = [pa.int64()]


def columns_of(numbers: list[int]) -> list[pa.Array]:
    """The key of each number."""
    texts = [None if n % 7 == 0 else "é" * (n % 5) for n in numbers]
    return [pa.array(numbers, pa.int64()), pa.array(texts, pa.string())]


def as_written(numbers: list[int], weights: list[int] | None = None, table: StateTable = TABLE) -> Unordered:
    """A row for each number, in the order given."""
    rows = unordered(
        columns_of(numbers), [pa.array(weights or [1] * len(numbers), pa.int64())], table.key, table.distribution
    )
    assert rows is not None
    return rows


def encoded(numbers: list[int]) -> Rows:
    """The same with keys as bytes, in the same order."""
    return Rows(encode(columns_of(numbers), KEY, 1), (pa.array([1] * len(numbers), pa.int64()),))


def in_order(numbers: list[int]) -> Rows:
    """A run."""
    rows = encoded(numbers)
    return rows.take(np.array(sorted(range(len(rows)), key=lambda i: rows.keys[i]), np.int64))


def numbers_of(rows: Unordered) -> list[int]:
    """In their order."""
    return [n for batch in rows.batches for n in batch.column(0).to_pylist()]


def counted(rows: Rows) -> dict[int, int]:
    """How often each number is there; the keys of a run must be in order."""
    keys = [rows.keys[i] for i in range(len(rows))]
    assert keys == sorted(set(keys))
    found = decode(rows.keys, KEY)
    assert all(text == (None if n % 7 == 0 else "é" * (n % 5)) for n, text in zip(*(c.to_pylist() for c in found)))
    return dict(zip(found[0].to_pylist(), rows.values[0].to_pylist(), strict=True))


def tally(*parts: list[int]) -> dict[int, int]:
    model: dict[int, int] = {}
    for n in (n for part in parts for n in part):
        model[n] = model.get(n, 0) + 1
    return model


def some_numbers(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(-count, count) for _ in range(count)]


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(Objects(tmp_path / "root"), tmp_path / "buffer")


@pytest.mark.parametrize("count", [1, 50, 1024, 20_000])
def test_an_unordered_section_is_read_in_order(count: int, tmp_path: Path, seed: int) -> None:
    numbers = some_numbers(random.Random(f"{seed} {count}"), count)
    rows = as_written(numbers)
    [section] = sst.write(tmp_path / "one.sst", [Part("t", rows, SUM)])
    file = RunFile(tmp_path / "one.sst")
    assert file.sections == (section,)
    assert not section.ordered
    assert section.rows == count
    assert section.vnodes == (0, 256)
    stored = file.unordered(0)
    assert numbers_of(stored) == numbers
    assert (stored.key, stored.distribution) == (KEY, 1)
    assert counted(file.rows(0)) == tally(numbers)
    file.verify()


def test_rows_of_a_multiset_that_cancel_out_are_not_read(tmp_path: Path) -> None:
    numbers = [3, 1, 2, 3, 1]
    sst.write(tmp_path / "one.sst", [Part("t", as_written(numbers, [1, 2, 1, -1, 1]), SUM)])
    assert counted(RunFile(tmp_path / "one.sst").rows(0)) == {1: 3, 2: 1}


def test_values_of_any_kind_are_combined_in_the_order_of_rows(tmp_path: Path) -> None:
    values = [pa.array([1] * 5), pa.array(["b", None, "a", None, None]), pa.array([0.5, 1.0, 0.25, -2.0, 4.0])]
    ops = (MergeOp.SUM, MergeOp.MIN, MergeOp.SUM)
    rows = unordered(columns_of([5, 4, 5, 4, 5]), values, KEY, 1)
    assert rows is not None
    sst.write(tmp_path / "one.sst", [Part("t", rows, ops)])
    run = RunFile(tmp_path / "one.sst").rows(0)
    found = dict(zip(decode(run.keys, KEY)[0].to_pylist(), zip(*(v.to_pylist() for v in run.values)), strict=True))
    assert found == {4: (2, None, -1.0), 5: (3, "a", 4.75)}


@pytest.mark.parametrize("count", [200, 20_000])
def test_damage_anywhere_is_noticed(count: int, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"{seed} {count}")
    numbers = some_numbers(rng, count)
    path = tmp_path / "one.sst"
    sst.write(path, [Part("t", as_written(numbers), SUM)])
    whole = path.read_bytes()
    for _ in range(40):
        at = rng.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            found = counted(RunFile(path).rows(0))
        except TidemillError as error:
            assert error.number in ("TM1011", "TM1002")
        else:
            assert found == tally(numbers), "only what is between sections may be damaged"
            assert at < 64 or whole[at] == 0


def no_room(path: Path) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("case", ["small", "large", "no room on disk"])
def test_a_process_keeps_a_run_in_order(case: str, store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one in a file that has no name, so that it takes no memory of its own; where that is possible."""
    numbers = list(range(100 if case == "small" else 30_000)) * 2
    runs = store.write(1, [Part("t", as_written(numbers), SUM)], "0-0")
    if case == "no room on disk":
        monkeypatch.setattr(sst, "_created", no_room)
    first = store.open(runs[0])
    assert isinstance(first, Mapped) == (case == "large")
    assert counted(first) == tally(numbers)
    assert store.open(runs[0]) is first
    assert [name for name, _ in store.buffered()] == [runs[0].file]
    store.evict([runs[0].file])
    assert counted(first) == tally(numbers), "who has it can go on reading"
    with pytest.raises(TidemillError, match="TM1018"):
        store.open(runs[0])


def test_threads_wait_for_a_run_that_one_sorts(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = store.write(1, [Part("t", as_written(list(range(20_000))), SUM)], "0-0")
    sorted_ = []
    run = Unordered.run

    def counted_run(rows: Unordered, ops: Sequence[MergeOp]) -> Rows:
        sorted_.append(rows)
        return run(rows, ops)

    monkeypatch.setattr(Unordered, "run", counted_run)
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda _: store.open(runs[0]), range(12)))
    assert len(sorted_) == 1
    assert all(rows is found[0] for rows in found)


def test_a_checkpoint_joins_what_tasks_left_unordered(store: RunStore, seed: int) -> None:
    rng = random.Random(seed)
    parts = [some_numbers(rng, 3000) for _ in range(3)]
    runs = [store.write(1, [Part("t", as_written(p), SUM)], f"0-{i}")[0] for i, p in enumerate(parts)]
    [swap] = make_durable(store, [runs], 1, 64 << 20)
    [joined] = swap.new
    assert joined.is_durable
    assert joined.rows == 9000, "equal keys stay"
    assert not store.sections(joined.file)[0].ordered
    assert counted(store.open(joined)) == tally(*parts)


@pytest.mark.parametrize("case", ["one is in order", "there is no room"])
def test_a_checkpoint_merges_what_it_cannot_join(
    case: str, store: RunStore, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"{seed} {case}")
    first, second = some_numbers(rng, 3000), list(range(5000))
    parts = [Part("t", as_written(first), SUM)]
    if case == "one is in order":
        parts.append(Part("t", in_order(second), SUM))
    else:
        parts.append(Part("t", as_written(second), SUM))
        monkeypatch.setattr(durable_runs, "UNORDERED_BYTES", 1 << 16)
    runs = [store.write(1, [part], f"0-{i}")[0] for i, part in enumerate(parts)]
    [swap] = make_durable(store, [runs], 1, 64 << 20)
    assert all(store.sections(run.file)[run.section].ordered for run in swap.new)
    found: dict[int, int] = {}
    for run in swap.new:
        found |= counted(store.open(run))
    assert found == tally(first, second)


def test_a_large_file_of_many_unordered_runs_becomes_an_object_as_it_is(
    store: RunStore, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_runs, "_KEPT_BYTES", 1 << 10)
    store.objects.make()
    rng = random.Random(seed)
    numbers = [some_numbers(rng, 2000) for _ in range(6)]
    runs = store.write(1, [Part("t", as_written(n), SUM) for n in numbers], "0-0")
    swaps = make_durable(store, [runs], 1, 64 << 20)
    kept = [run for swap in swaps for run in swap.new]
    assert [(run.section, run.rows) for run in kept] == [(i, 2000) for i in range(6)]
    assert [counted(store.open(run)) for run in kept] == [tally(n) for n in numbers]


def test_a_slice_of_a_merge_takes_its_keys_only(store: RunStore, seed: int) -> None:
    rng = random.Random(seed)
    parts = [some_numbers(rng, 2000) for _ in range(4)]
    runs: list[Run] = store.write(1, [Part("t", in_order(sorted(set(parts[0]))), SUM)], "0-0")
    for epoch, part in enumerate(parts[1:], 2):
        runs += store.write(epoch, [Part("t", as_written(part), SUM)], "0-0")
    model = tally(sorted(set(parts[0])), *parts[1:])
    keys = dict(zip(model, (encoded([n]).keys[0] for n in model), strict=True))
    low, high = sorted(rng.sample(sorted(keys.values()), 2))
    found = store.open_between(runs, low, high)
    read: dict[int, int] = {}
    for run in found:
        for n, weight in counted(run).items():
            read[n] = read.get(n, 0) + weight
    assert read == {n: weight for n, weight in model.items() if low <= keys[n] < high}


def a_memtable(ops: tuple[MergeOp, ...] = SUM, types: list[pa.DataType] | None = None, limit: int = 0) -> Memtable:
    return Memtable(ops, types or INTS, ops == SUM, MemoryBudget(limit))


def test_a_memtable_gives_many_rows_as_they_came(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(memtable_module, "UNORDERED_BYTES", 200_000)
    rng = random.Random(seed)
    batches = [[rng.randrange(10**6) for _ in range(1500)] for _ in range(8)]
    held = a_memtable()
    for batch in batches:
        held.append_unordered(as_written(batch))
    parts = held.unordered()
    assert parts is not None
    assert len(parts) > 1, "in parts of so many bytes"
    assert all(part.nbytes <= 200_000 for part in parts)
    assert [n for part in parts for n in numbers_of(part)] == [n for batch in batches for n in batch]
    assert counted(held.rows()) == tally(*batches), "they can still be read in order"
    assert held.unordered() is None, "and have been sorted then"


@pytest.mark.parametrize(
    "case", ["few", "a deletion", "in order", "encoded", "the newest counts", "no room", "few keys", "keys thrice"]
)
def test_a_memtable_gives_a_run_in_order_where_that_is_better(case: str) -> None:
    ops, types = (SUM, INTS) if case != "the newest counts" else ((MergeOp.SUM, MergeOp.LAST), [*INTS, pa.int64()])
    held = a_memtable(ops, types, 1 << 20 if case == "no room" else 0)
    numbers = list(range(100 if case == "few" else 50_000))
    if case in ("few keys", "keys thrice"):
        numbers = [n % (5 if case == "few keys" else 16_000) for n in numbers]
    weights = [1] * len(numbers)
    if case == "a deletion":
        weights[777] = -1
    if case == "in order":
        held.append(in_order(numbers))
    elif case == "encoded":
        rows = encoded(numbers)
        held.append_unsorted(rows.keys, rows.values)
    elif case == "the newest counts":
        loose = unordered(columns_of(numbers), [pa.array(weights), pa.array(weights)], KEY, 1)
        assert loose is not None
        held.append_unordered(loose)
    else:
        held._to_file = lambda part: (part, part.nbytes)
        held.append_unordered(as_written(numbers, weights))
    assert held.unordered() is None
    assert sum(len(block) for block in held.blocks()) == len(set(numbers))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", KEY_VALUES)
def test_keys_of_every_type_and_order(name: str, mode: str, tmp_path: Path) -> None:
    """The run is what encoding the keys at once gives."""
    type_, values = KEY_VALUES[name]
    key = (KeyColumn(type_, *MODES[mode]), KeyColumn(pa.int32(), descending=True))
    given = [pa.array(values * 3, type_), pa.array([i % 2 for i in range(3 * len(values))], pa.int32())]
    weights = [pa.array(range(3 * len(values)), pa.int64())]
    rows = unordered(given, weights, key, 2)
    assert rows is not None
    sst.write(tmp_path / "one.sst", [Part("t", rows, SUM)])
    expected = consolidate(encode(given, key, 2), weights, SUM, True)
    run = RunFile(tmp_path / "one.sst").rows(0)
    assert [run.keys[i] for i in range(len(run))] == [expected.keys[i] for i in range(len(expected))]
    assert run.values[0].to_pylist() == expected.values[0].to_pylist()


def test_batches_of_any_sizes(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(20):
        sizes = [rng.choice((0, 1, 5, 1000, 5000)) for _ in range(rng.randrange(1, 12))] + [1]
        batches = [some_numbers(rng, size) for size in sizes]
        weights = [rng.choice((1, 1, 1, 2)) for _ in sizes] if number % 2 else [1] * len(sizes)
        parts = [as_written(b, [w] * len(b)) for b, w in zip(batches, weights, strict=True)]
        path = tmp_path / f"{number}.sst"
        [section] = sst.write(path, [Part("t", concatenated(parts), SUM)])
        read = RunFile(path).unordered(0)
        assert section.rows == len(read) == sum(sizes)
        assert numbers_of(read) == [n for batch in batches for n in batch]
        assert [w for v in read.values(0) for w in v.to_pylist()] == [
            w for w, n in zip(weights, sizes) for _ in range(n)
        ]
        assert len(read.batches) == 1 or min(batch.num_rows for batch in read.batches) >= 4096


def test_weights_of_one_take_no_space(tmp_path: Path) -> None:
    numbers = list(range(20_000))
    ones, twos = as_written(numbers), as_written(numbers, [2] * 20_000)
    [small] = sst.write(tmp_path / "ones.sst", [Part("t", ones, SUM)])
    [large] = sst.write(tmp_path / "twos.sst", [Part("t", twos, SUM)])
    assert large.length - small.length > 7 * 20_000


def test_a_table_without_a_vnode_of_its_own(tmp_path: Path) -> None:
    table = multiset_table("t", (pa.int64(), pa.string()), 0)
    [section] = sst.write(tmp_path / "one.sst", [Part("t", as_written([3, 1, 3], table=table), SUM)])
    assert section.vnodes == (0, 1)
    assert counted(RunFile(tmp_path / "one.sst").rows(0)) == {1: 1, 3: 2}


@pytest.mark.parametrize("large", [False, True])
def test_a_checkpoint_puts_small_tables_in_order(
    large: bool, store: RunStore, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.objects.make()
    if large:
        monkeypatch.setattr(durable_runs, "_KEPT_BYTES", 1 << 10)
    rng = random.Random(seed)
    numbers = some_numbers(rng, 5000)
    runs = store.write(1, [Part("t", as_written(numbers), SUM)], "0-0")
    [swap] = make_durable(store, [runs], 1, 64 << 20, ["t"])
    [run] = swap.new
    assert store.sections(run.file)[run.section].ordered
    assert counted(store.open(run)) == tally(numbers)


def test_rows_that_keep_much_memory_are_encoded_at_once() -> None:
    long = pa.array(["x" * 1000] * 10_000)
    assert unordered([pa.array(range(5)), long.slice(0, 5)], [pa.array([1] * 5)], KEY, 1) is None
    assert unordered([pa.array(range(5)), pa.array(["x"] * 5)], [pa.array([1] * 5)], KEY, 1) is not None


def test_columns_of_another_type_are_encoded_at_once() -> None:
    assert unordered([pa.array([1]), pa.array(["x"], pa.large_string())], [pa.array([1])], KEY, 1) is None


@pytest.mark.parametrize("times", [1, 4, 10])
@pytest.mark.parametrize("differ", ["numbers", "texts", "both"])
def test_rows_that_are_there_several_times_are_noticed(times: int, differ: str, seed: int) -> None:
    """Rows that have the same numbers, or the same texts, are other rows all the same."""
    chance, rows = random.Random(seed), 60_000
    numbers = [i // times for i in range(rows)]
    chance.shuffle(numbers)
    texts = [f"text {n}" if differ != "numbers" else "same" for n in numbers]
    numbers = numbers if differ != "texts" else [7] * rows
    parts = []
    for low, high in ((0, 100), (100, 45_000), (45_000, rows)):
        cut = [pa.array(numbers[low:high], pa.int64()), pa.array(texts[low:high], pa.string())]
        part = unordered(cut, [pa.array([1] * (high - low), pa.int64())], TABLE.key, TABLE.distribution)
        assert part is not None
        parts.append(part)
    assert repeated(parts) == (times > 2), seed
