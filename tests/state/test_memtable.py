"""Memtables against a dictionary, with and without room."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from table_model import (
    MULTISET,
    OPS,
    TYPES,
    UPSERT,
    UPSERT_TYPES,
    Model,
    columns,
    distinct,
    key,
    keys_of,
    listed,
    same,
    sorted_rows,
    weights,
    wide_values,
)

from tidemill.errors import TidemillError
from tidemill.state.lookup.memtable import Memtable, Spill
from tidemill.state.lookup.reader import TableReader, TableState
from tidemill.state.memory import MemoryBudget, share_of_task
from tidemill.state.merge.merge import Rows
from tidemill.state.runs.sst import Part
from tidemill.state.store.store import RunStore
from tidemill.state.versions.objects import Objects


@pytest.fixture
def spill(tmp_path: Path) -> Spill:
    store = RunStore(Objects(tmp_path), tmp_path / "buffer")
    return lambda rows: store.spill(7, Part("t", rows, ()))


@pytest.mark.parametrize("limit", [0, 1, 3000, 20_000])
def test_reads_see_all_writes(limit: int, spill: Spill, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"{seed} {limit}")
    budget = MemoryBudget(limit)
    memtable, model = Memtable(OPS, TYPES, False, budget, spill), Model(OPS)
    for _ in range(60):
        written = [(key(rng), wide_values(rng)) for _ in range(rng.choice([0, 1, 3, 40]))]
        if rng.random() < 0.5:
            written = distinct(written)
            memtable.append(sorted_rows(written, TYPES))
        else:
            memtable.append_unsorted(keys_of([k for k, _ in written]), columns([v for _, v in written], TYPES))
        model.write(written)
        assert budget.used == memtable.bytes >= 0
        assert not limit or budget.used <= limit
        asked = rng.random()
        if asked < 0.2:
            assert same(listed(memtable.rows()), model.between(zero=True))
        elif asked < 0.4:
            reader = TableReader(memtable.runs(), OPS, TYPES)
            assert same(listed(reader.rows(drop_zero=False)), model.between(zero=True))
    parts = list(memtable.blocks())
    assert same([row for part in parts for row in listed(part)], model.between(zero=True))
    assert (budget.spilled > 0) == (limit > 0)
    assert budget.peak > 0
    assert not list((tmp_path / "buffer").glob("*")), "spilled files have no names"
    memtable.close()
    assert budget.used == 0


def test_sealed_in_parts(spill: Spill, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr("tidemill.state.lookup.memtable.BLOCK_BYTES", 500)
    rng = random.Random(seed)
    memtable, model = Memtable(MULTISET, TYPES[:1], True, MemoryBudget(1000), spill), Model(MULTISET)
    for _ in range(40):
        written = weights(rng, 30)
        memtable.append_unsorted(keys_of([k for k, _ in written]), columns([v for _, v in written], TYPES[:1]))
        model.write(written)
    parts = list(memtable.blocks())
    assert len(parts) > 3
    assert [row for part in parts for row in listed(part)] == model.between()


@pytest.mark.parametrize("limit", [0, 1])
@pytest.mark.parametrize("older", [True, False])
def test_deleted_stays_deleted(limit: int, older: bool, spill: Spill) -> None:
    """An update has weight 0, and so has what came and went again: neither may vanish from memory or a file."""
    before = [sorted_rows([(b"k", (1, "old"))], UPSERT_TYPES)] if older else []
    table = TableState(before, UPSERT, UPSERT_TYPES, Memtable(UPSERT, UPSERT_TYPES, False, MemoryBudget(limit), spill))

    def write(weight: int, value: str | None) -> None:
        table.write(sorted_rows([(b"k", (weight, value))], UPSERT_TYPES))

    def seen() -> list[object]:
        found, values = table.now.get(keys_of([b"k"]))
        scanned = [v for block in table.now.iterate() for v in block.values[1].to_pylist()]
        assert scanned == (values[1].to_pylist() if found[0] else [])
        return scanned

    write(0 if older else 1, "new")
    assert seen() == ["new"]
    write(-1, None)
    assert seen() == []
    assert not table.now.get(keys_of([b"k"]))[0][0]
    write(1, "again")
    write(-1, None)
    assert seen() == []
    write(1, "last")
    assert seen() == ["last"]
    write(0, "very last")
    assert seen() == ["very last"]
    sealed = table.changes()
    assert listed(sealed) == [(b"k", (0 if older else 1, "very last"))]
    assert listed(TableReader([*before, sealed], UPSERT, UPSERT_TYPES).rows(drop_zero=True)) == [
        (b"k", (1, "very last"))
    ]


def test_the_largest_spills_first(spill: Spill) -> None:
    budget = MemoryBudget(10_000)
    tables = [Memtable(MULTISET, TYPES[:1], True, budget, spill) for _ in range(3)]
    sizes: Callable[[], list[int]] = lambda: [t.bytes for t in tables]  # noqa: E731
    rows = sorted_rows([(b"%04d" % i, (1,)) for i in range(200)], TYPES[:1])
    assert rows.nbytes == 4000
    tables[1].append(rows)
    tables[0].append(rows.slice(0, 50))
    tables[1].append(rows)
    assert sizes() == [1000, 8000, 0]
    tables[2].append(rows)
    assert sizes() == [1000, 0, 4000]
    assert budget.used == 5000
    assert budget.peak == 13_000
    tables[0].close()
    assert budget.used == 4000
    assert listed(tables[1].rows())[0] == (b"0000", (2,))


def test_alternating_reads_merge_little(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read after each of n writes costs O(n log n) merged rows, not O(n * n)."""
    from tidemill.state.lookup import memtable as module

    merged = 0
    true_merge = module.merge

    def counting(runs: list[Rows], ops: tuple[object, ...], drop_zero: bool) -> Rows:
        nonlocal merged
        merged += sum(map(len, runs)) if len(runs) > 1 else 0
        return true_merge(runs, ops, drop_zero)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "merge", counting)
    table = Memtable(MULTISET, TYPES[:1], True)
    numbers = list(range(1000))
    random.Random(seed).shuffle(numbers)
    for n in numbers:
        table.append(sorted_rows([(n.to_bytes(4, "big"), (1,))], TYPES[:1]))
        assert len(table.runs()) <= 12
    assert merged < 1000 * 12
    assert len(table.rows()) == 1000


def test_multisets_forget_what_cancels_out() -> None:
    budget = MemoryBudget()
    table = Memtable(MULTISET, TYPES[:1], True, budget)
    for weight in (1, -1):
        table.append(sorted_rows([(b"k", (weight,))], TYPES[:1]))
    assert table.runs() == []
    assert list(table.blocks()) == []
    assert budget.used == 0


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    blocked = tmp_path / "buffer"
    blocked.write_text("not a directory")
    store = RunStore(Objects(tmp_path), blocked)
    table = Memtable(MULTISET, TYPES[:1], True, MemoryBudget(1), lambda rows: store.spill(7, Part("t", rows, MULTISET)))
    with pytest.raises(TidemillError, match="TM1012"):
        table.append(sorted_rows([(b"k", (1,))], TYPES[:1]))


def test_tasks_share_what_their_host_has() -> None:
    assert 0 < share_of_task(0, 4) * 4 <= share_of_task(0, 1)
    assert share_of_task(1000, 4) == 250
    assert share_of_task(1, 4) == 1, "0 would be no limit"
