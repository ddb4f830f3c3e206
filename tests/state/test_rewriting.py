"""Compactions of real files: what is read afterwards is what was written, wherever it lies."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidemill.errors import TidemillError
from tidemill.schema import TIMESTAMP
from tidemill.state.keys.keys import KeyColumn, decode, encode
from tidemill.state.lookup import merge_chunks
from tidemill.state.merge.merge import MergeOp, Rows, consolidate, merge
from tidemill.state.store.compaction import HIGHEST, LOWEST, Compaction, Policy, Slice, choose, conflict
from tidemill.state.store.durable_runs import make_durable
from tidemill.state.store.rewriting import rewrite, rewrites
from tidemill.state.store.store import RunStore
from tidemill.state.versions.expiry import Expiry
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Run, Version

KEY = (KeyColumn(pa.int64()), KeyColumn(pa.string()))
LAST = (MergeOp.SUM, MergeOp.LAST)
SUM = (MergeOp.SUM,)


@pytest.fixture(params=["directory", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RunStore:
    root = str(tmp_path / "root") if request.param == "directory" else f"memory://{tmp_path}"
    return RunStore(Objects(root), tmp_path / "buffer")


def compact(
    store: RunStore, runs: tuple[Run, ...], chosen: Compaction, ops: tuple[MergeOp, ...], size: int
) -> list[Run]:
    """The runs after one compaction."""
    slices = rewrites(chosen, ops, KEY, ops == SUM)
    new = [replace(r, level=chosen.level) for r in chosen.runs] if chosen.moved else []
    new += [run for part in slices for found in rewrite(store, [part], "m-test", size) for run in found]
    gone = {r.file for r in chosen.runs}
    after = [*(r for r in runs if r.file not in gone), *new]
    assert conflict(after) is None
    return new


@pytest.mark.parametrize("distribution", [0, 1])
@pytest.mark.parametrize("ops", [LAST, SUM])
def test_random_upserts_and_deletes_through_all_levels(
    store: RunStore, seed: int, ops: tuple[MergeOp, ...], distribution: int
) -> None:
    chance = random.Random(f"{seed} {ops} {distribution}")
    policy = Policy(4, 4000, 3, 20_000)
    model: dict[tuple[int, str], int | None] = {}
    version = Version.empty()
    for epoch in range(1, 70):
        changes: dict[tuple[int, str], tuple[int, int | None]] = {}
        for _ in range(chance.randrange(1, 120)):
            key = (chance.randrange(300), chance.choice(("", "a", "long " * 5)))
            if key in model and chance.random() < 0.4:
                del model[key]
                changes[key] = (changes[key][0] - 1 if key in changes else -1, None)
            elif key in model:
                model[key] = chance.choice((None, epoch))
                changes[key] = (changes[key][0] if key in changes else 0, model[key])
            else:
                model[key] = chance.choice((None, epoch))
                changes[key] = (changes[key][0] + 1 if key in changes else 1, model[key])
        keys = encode([pa.array(c, k.type) for c, k in zip(zip(*changes), KEY, strict=True)], KEY, distribution)
        weights = pa.array([w for w, _ in changes.values()], pa.int64())
        values = [weights, pa.array([v for _, v in changes.values()], pa.int64())][: len(ops)]
        rows = consolidate(keys, values, ops, drop_zero=ops == SUM)
        new, gone = store.write(epoch, [("t", rows, ops)], "0-0"), []
        for chosen in choose("t", version.runs("t"), policy):
            new += (replace(r, added=epoch) for r in compact(store, version.runs("t"), chosen, ops, 4000))
            gone += chosen.runs
        version = version.seal(epoch, new, gone).forget(epoch - 3)
        assert conflict(version.runs("t")) is None
        if epoch % 10 == 0 or epoch > 66:
            found = merge([store.open(r) for r in version.runs("t")], ops, drop_zero=True)
            columns = [c.to_pylist() for c in (*decode(found.keys, KEY), *found.values)]
            assert all(w == 1 for w in columns[2])
            assert set(zip(*columns[:2], strict=True)) == model.keys()
            if ops == LAST:
                assert dict(zip(zip(*columns[:2], strict=True), columns[3], strict=True)) == model
            for low in (0, 100, 200):
                part = store.open_range(version.runs("t"), low, low + 56)
                assert sum(len(r) for r in part) <= sum(r.rows for r in version.runs("t"))
    levels = {r.level for r in version.runs("t")}
    assert max(levels) == 6, "something went down"
    assert all(r.file.endswith(".sst") for r in version.runs("t") if r.level)


def test_a_merge_takes_no_more_memory_than_a_task_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, count = 16 << 20, 40_000
    store = RunStore(Objects(tmp_path / "root"), tmp_path / "buffer")
    texts = pc.utf8_lpad(pa.array(range(4 * count)).cast(pa.string()), 100, "x")
    columns = [[pa.array(range(i, 4 * count, 4)), texts.take(pa.array(range(i, 4 * count, 4)))] for i in range(4)]
    written = [consolidate(encode(c, KEY, 0), [pa.array([1] * count)], SUM, drop_zero=True) for c in columns]
    runs = [store.write(e, [("t", rows, SUM)], "0-0")[0] for e, rows in enumerate(written, 1)]
    policy = Policy(2, 32 << 20).within(memory)
    (chosen,) = choose("t", runs, policy)
    together = []

    def counted(parts: list[Rows], ops: tuple[MergeOp, ...], drop_zero: bool) -> Rows:
        together.append(sum(rows.nbytes for rows in parts))
        return merge(parts, ops, drop_zero)

    monkeypatch.setattr(merge_chunks, "merge", counted)
    new = compact(store, tuple(runs), chosen, SUM, policy.run_bytes)
    assert max(together) <= memory // 4 < memory < sum(rows.nbytes for rows in written)
    assert {r.level for r in new} == {6}
    found = pa.concat_arrays(decode(store.open(r).keys, KEY)[0] for r in sorted(new, key=lambda r: r.low))
    assert found.equals(pa.array(range(4 * count)))


def rows_at(*seconds: int) -> Rows:
    """A row of each time."""
    keys = encode([pa.array([s * 1_000_000 for s in seconds]).cast(TIMESTAMP)], (KeyColumn(TIMESTAMP),), 1)
    return consolidate(keys, [pa.array([1] * len(seconds))], SUM, drop_zero=True)


def test_expired_rows_go_and_what_is_left_is_noted(store: RunStore) -> None:
    runs = [store.write(e, [("t", rows_at(e, e + 10), SUM)], "0-0")[0] for e in (1, 2)]
    chosen = Compaction("t", tuple(runs), 0, (Slice(LOWEST, HIGHEST, tuple(runs), True, 10),))
    work = rewrites(chosen, SUM, (KeyColumn(TIMESTAMP),), True, (Expiry(0, None, 2_000_000),))
    ((merged,),) = rewrite(store, work, "m-test", 1000)
    assert merged.rows == 3
    assert [tuple(s) for s in merged.spans] == [(0, None, 2_000_000, 12_000_000)]
    assert (merged.epoch_low, merged.epoch_high) == (1, 2)
    (swap,) = make_durable(store, [[merged]], 1, 1 << 20)
    assert [r.spans for r in swap.new] == [merged.spans]


def test_large_merges_of_young_runs_are_durable_at_once(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.state.store.rewriting.DIRECT_BYTES", 100)
    runs = [store.write(e, [("t", rows_at(*range(e, e + 50)), SUM)], "0-0")[0] for e in (1, 2)]
    small = store.write(2, [("u", rows_at(1), SUM)], "0-0")[0]
    work = [
        part
        for held in (tuple(runs), (small,))
        for part in rewrites(
            Compaction(held[0].table, held, 0, (Slice(LOWEST, HIGHEST, held, True, 10),)), SUM, (), True
        )
    ]
    (large,), (other,) = rewrite(store, work, "m-test", 1000)
    assert (large.file[0], large.file[-4:], large.level) == ("m", ".sst", 0)
    assert other.file.endswith(".run")
    assert [name for name, _ in store.durable()] == [large.file]
    assert "m-test" in large.file
    assert "m-test" in other.file
    assert len(store.open(large)) == 51


def test_a_run_that_is_missing_leaves_nothing_behind_that_counts(store: RunStore) -> None:
    runs = tuple(store.write(e, [("t", rows_at(e), SUM)], "0-0")[0] for e in (1, 2))
    store.evict([runs[1].file])
    chosen = Compaction("t", runs, 6, (Slice(LOWEST, HIGHEST, runs, True, 10),))
    with pytest.raises(TidemillError, match="TM1018"):
        rewrite(store, rewrites(chosen, SUM, (KeyColumn(TIMESTAMP),), True), "m-test", 1000)
    assert store.durable() == []
