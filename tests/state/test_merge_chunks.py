"""Merging by chunks gives what merging at once gives, in parts of a size."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidemill.state.keys.keys import KeyColumn, encode
from tidemill.state.lookup.merge_chunks import merge_chunks
from tidemill.state.merge.merge import MergeOp, Rows, consolidate, merge
from tidemill.state.runs import sst
from tidemill.state.runs.mapped import Mapped
from tidemill.state.store import durable_runs
from tidemill.state.store.durable_runs import make_durable
from tidemill.state.store.store import RunStore
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Version

OPS = (MergeOp.SUM, MergeOp.LAST)


def rows_of(items: list[tuple[int, int, str]]) -> Rows:
    keys = encode([pa.array([i[0] for i in items], pa.int64())], [KeyColumn(pa.int64())], 1)
    columns = [pa.array([i[1] for i in items], pa.int64()), pa.array([i[2] for i in items], pa.string())]
    return consolidate(keys, columns, OPS, False)


def content(parts: list[Rows]) -> list[tuple[Any, ...]]:
    return [r for p in parts for r in zip(p.keys.to_arrow().to_pylist(), *(v.to_pylist() for v in p.values))]


def some(chance: random.Random, count: int, keys: int, longest: int) -> Rows:
    return rows_of(
        [
            (chance.randrange(keys), chance.randrange(-1, 2), "x" * chance.choice([0, 3, longest]))
            for _ in range(chance.randrange(count + 1))
        ]
    )


@pytest.mark.parametrize("where", ["memory", "file"])
def test_chunks_add_up(where: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sst, "WHOLE", 200)
    monkeypatch.setattr(sst, "BLOCK", 4)
    for case in range(60):
        chance = random.Random(seed + case)
        runs = [some(chance, chance.choice([0, 3, 300]), chance.choice([4, 500]), 40) for _ in range(4)]
        if where == "file":
            path = tmp_path / f"{case}.run"
            sst.write(path, [("t", run, OPS) for run in runs])
            file = sst.RunFile(path)
            runs = [file.rows(i) for i in range(len(runs))]
        drop, target = chance.random() < 0.5, chance.choice([1, 100, 3000, 1 << 30])
        expected = merge(runs, OPS, drop)
        parts = list(merge_chunks(runs, OPS, drop, target))
        assert content(parts) == content([expected]), f"case {case}"
        assert all(len(part) for part in parts)
        for before, behind in itertools.pairwise(parts):
            assert before.keys[len(before) - 1] < behind.keys[0]
        for part in parts:
            assert part.nbytes <= target or len(part) == 1
        if target == 1 << 30:
            assert len(parts) <= 1
        if target == 3000 and not drop:
            assert len(parts) <= 1 + 4 * sum(run.nbytes for run in runs) // target


def test_one_large_row_among_small_ones() -> None:
    rows = rows_of([(i, 1, "x" * (100_000 if i == 50 else 1)) for i in range(100)])
    parts = list(merge_chunks([rows, rows], OPS, False, 2000))
    assert content(parts) == content([merge([rows, rows], OPS, False)])
    assert max(part.nbytes for part in parts if part.nbytes < 100_000) <= 2000


def test_a_large_group_becomes_several_runs(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint of much state: sections and objects of a size, disjoint, in place of the runs of the buffer."""
    monkeypatch.setattr(durable_runs, "_CHUNK", 5000)
    chance = random.Random(seed)
    kept = RunStore(Objects(tmp_path / "root"), tmp_path / "buffer")
    many = rows_of([(5 * i, 1, "x" * 30) for i in range(900)])
    big = [some(chance, 0, 1, 0), many, *(some(chance, 900, 5000, 30) for _ in range(2))]
    small = rows_of([(1, 1, "a")])
    gone = rows_of([(1, 1, "a")]), rows_of([(1, -1, "a")])
    counted = [Rows(r.keys, r.values[:1]) for r in gone]
    runs = [kept.write(4, [("big", rows, OPS)], "0-0") for rows in big]
    groups = [
        [r for rs in runs for r in rs],
        kept.write(4, [("small", small, OPS)], "0-0"),
        [kept.write(4, [("gone", rows, (MergeOp.SUM,))], "0-0")[0] for rows in counted],
    ]
    version = Version.empty().seal(4, [run for group in groups for run in group])
    swaps = make_durable(kept, groups, 1, 12_000)
    assert [swap.old for swap in swaps] == [tuple(g) for g in groups]
    new = swaps[0].new
    assert len(new) > 3
    assert len({r.file for r in new}) > 1, "an object has a size too"
    assert content([kept.open(r) for r in new]) == content([merge(big, OPS, False)])
    assert all((r.epoch_low, r.epoch_high, r.added, r.removed) == (4, 4, 4, None) for r in new)
    for run in new:
        rows = kept.open(run)
        ends = rows.keys[0], rows.keys[len(rows) - 1]
        assert (run.vnode_low, run.vnode_high) == (ends[0][0] * 256 + ends[0][1], ends[1][0] * 256 + ends[1][1] + 1)
    assert len(swaps[1].new) == 1
    assert swaps[2].new == (), "nothing is left of rows that came and went"
    version = version.swapped(swaps)
    assert version.tables.keys() == {"big", "small"}
    assert version.runs("big") == new
    assert len(version.changes("big", 4)) == len(new)
    assert Version.from_json(version.to_json()).runs("big") == new
    assert all(kept.verify(r.file) for r in new)


def test_a_file_that_is_mended_can_be_read_again(tmp_path: Path) -> None:
    kept = RunStore(Objects(tmp_path / "root"), tmp_path / "buffer")
    (run,) = kept.write(1, [("t", rows_of([(i, 1, "abc") for i in range(20_000)]), OPS)], "0-0")
    path = kept.path(run.file)
    whole = path.read_bytes()
    path.write_bytes(whole[:100_000] + bytes([whole[100_000] ^ 1]) + whole[100_001:])
    rows = kept.open(run)
    assert isinstance(rows, Mapped)
    with pytest.raises(sst.TidemillError, match="TM1018"):
        content([rows])
    path.unlink()
    path.write_bytes(whole)
    assert len(content([kept.open(run)])) == 20_000
