"""The reader and the merge iterator against a dictionary."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from table_model import (
    ABSENT,
    MULTISET,
    OPS,
    TYPES,
    Model,
    columns,
    distinct,
    key,
    keys_of,
    listed,
    prefixes,
    same,
    sorted_rows,
    tuples,
    weights,
    wide_values,
)

from tidemill.kernels.columns import numbers
from tidemill.state.lookup import merge_iterator
from tidemill.state.lookup.memtable import Memtable
from tidemill.state.lookup.reader import TableReader, TableState
from tidemill.state.memory import MemoryBudget
from tidemill.state.merge.merge import Rows
from tidemill.state.runs.sst import Part
from tidemill.state.store.store import RunStore
from tidemill.state.versions.objects import Objects


def check(reader: TableReader, model: Model, rng: random.Random) -> None:
    """All ways of reading."""
    probes = sorted({key(rng) for _ in range(20)})
    found, values = reader.get(keys_of(probes))
    expected = [model.rows.get(p, ABSENT) for p in probes]
    assert found.tolist() == [e[0] != 0 for e in expected]
    assert same(tuples(values), [e if e[0] else ABSENT for e in expected])
    chosen = sorted(rng.sample(prefixes(), 4))
    owners, rows = reader.scan(keys_of(chosen))
    each = [(i, row) for i, p in enumerate(chosen) for row in model.between(prefix=p)]
    assert same(list(zip(owners.tolist(), listed(rows), strict=True)), each)
    for reverse in (False, True):
        found, keys, _ = reader.first(keys_of(chosen), reverse, skip_null=True)
        for i, p in enumerate(chosen):
            live = [k for k, v in model.between(prefix=p) if v[0] > 0 and k[len(p) : len(p) + 1] != b"\0"]
            assert found[i] == bool(live)
            assert not live or keys[i] == live[-1 if reverse else 0]
        low, high = sorted([key(rng), key(rng)])
        bounds = rng.choice([{}, {"low": low}, {"high": high}, {"low": low, "high": high}])
        prefix = rng.choice([None, *prefixes()])
        zero = rng.random() < 0.3
        wanted = model.between(bounds.get("low", b""), bounds.get("high"), prefix or b"", zero)
        if reverse:
            wanted.reverse()
        blocks = reader.iterate(
            **bounds, prefix=prefix, reverse=reverse, drop_zero=not zero, block=rng.choice([1, 2, 7, 500])
        )
        enough = rng.choice([0, 5, 1000])
        seen: list[object] = []
        for block in blocks:
            assert len(block)
            seen += listed(block)
            if len(seen) >= enough:
                break
        assert len(seen) >= min(enough, len(wanted))
        assert same(seen, wanted[: len(seen)])


@pytest.mark.parametrize("limit", [0, 4000])
@pytest.mark.parametrize("sealed", [0, 1, 4])
def test_before_and_now(limit: int, sealed: int, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"{seed} {limit} {sealed}")
    store = RunStore(Objects(tmp_path), tmp_path / "buffer")
    before, now = Model(OPS), Model(OPS)
    runs = []
    for epoch in range(1, sealed + 1):
        written = distinct([(key(rng), wide_values(rng)) for _ in range(rng.randrange(1, 80))])
        before.write(written)
        now.write(written)
        (run,) = store.write(epoch, [Part("t", sorted_rows(written, TYPES), OPS)], "x")
        runs.append(run)
    memtable = Memtable(OPS, TYPES, False, MemoryBudget(limit), lambda r: store.spill(9, Part("t", r, OPS)))
    table = TableState(lambda: store.open_range(runs, 0, 1 << 16), OPS, TYPES, memtable)
    assert bool(table.before) == bool(table.now) == (sealed > 0)
    for _ in range(6):
        check(table.before, before, rng)
        check(table.now, now, rng)
        written = [(key(rng), wide_values(rng)) for _ in range(rng.randrange(1, 40))]
        table.write_unsorted(keys_of([k for k, _ in written]), columns([v for _, v in written], TYPES))
        now.write(written)
    check(table.now, now, rng)
    assert same(listed(table.before.rows(drop_zero=False)), before.between(zero=True))


def test_a_multiset_before_and_after(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        before, now, runs = Model(MULTISET), Model(MULTISET), []
        for _ in range(rng.randrange(3)):
            written = distinct(weights(rng, 30))
            before.write(written)
            now.write(written)
            runs.append(sorted_rows(written, TYPES[:1]))
        table = TableState(runs, MULTISET, TYPES[:1], Memtable(MULTISET, TYPES[:1], True))
        added = weights(rng, rng.randrange(30))
        table.write_unsorted(keys_of([k for k, _ in added]), columns([v for _, v in added], TYPES[:1]))
        now.write(added)
        chosen = sorted(rng.sample(prefixes(), 4))
        everything = [
            (k, (before.rows.get(k, (0,))[0], v[0]))
            for p in chosen
            for k, v in now.between(prefix=p, zero=True)
            if v[0] or before.rows.get(k, (0,))[0]
        ]

        def shown(rows: Rows) -> list[tuple[bytes, tuple[int, int]]]:
            pairs = ((k, (b, b + a)) for k, (b, a) in listed(rows))
            return [(k, v) for k, v in pairs if v != (0, 0)]

        assert shown(table.compare(keys_of(chosen))) == everything
        enough = rng.choice([0, 3, 100])

        def satisfied(owners: np.ndarray, rows: object, count: int, enough: int = enough) -> np.ndarray:
            return np.asarray(np.bincount(owners, minlength=count) >= enough)

        begun = shown(table.compare_beginnings(keys_of(chosen), 2, satisfied))
        for p in chosen:
            mine = [row for row in begun if row[0].startswith(p)]
            assert mine == [row for row in everything if row[0].startswith(p)][: len(mine)]


@pytest.mark.parametrize("reverse", [False, True])
def test_who_stops_early_reads_little(reverse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [sorted_rows([(n.to_bytes(4, "big"), (1,)) for n in range(at, 40_000, 4)], TYPES[:1]) for at in range(4)]
    read = 0
    true_merge = merge_iterator.merge

    def counting(parts: list[Rows], *rest: object) -> Rows:
        nonlocal read
        read += sum(map(len, parts))
        return true_merge(parts, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(merge_iterator, "merge", counting)
    reader = TableReader(runs, MULTISET, TYPES[:1])
    found = 0
    for block in reader.iterate(reverse=reverse, block=16):
        found += int(numbers(block.values[0]).sum())
        if found >= 100:
            break
    assert read <= 400
    read = 0
    assert sum(len(block) for block in reader.iterate(reverse=reverse)) == 40_000
    assert read == 40_000, "each row is merged once"


def test_nothing() -> None:
    reader = TableReader([], OPS, TYPES)
    assert not reader
    assert list(reader.iterate()) == []
    assert listed(reader.rows(drop_zero=True)) == []
    assert reader.rows(drop_zero=True).value_types() == list(TYPES)
    assert merge_iterator.after(b"a\xff\xff") == b"b"
    assert merge_iterator.after(b"\xff") is None
