"""Lookups across runs against a plain dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.state.keys.keys import KeyColumn, Keys, decode, encode, prefix
from tidemill.state.lookup.lookup import first_with_prefix, get, scan_prefix, vnode_range
from tidemill.state.merge.merge import MergeOp, Rows, consolidate
from tidemill.state.runs import mapped, pages, sst

OPS = [MergeOp.SUM, MergeOp.SUM_I128, MergeOp.MAX, MergeOp.LAST]
TYPES = [pa.int64(), pa.int64(), pa.int64(), pa.string(), pa.float64()]
ABSENT = (0, 0, 0, None, None)
Values = tuple[Any, ...]

# Group, then a value as encoded ascending with NULLs first: 0x00, or 0x01 and a body.
groups = st.sampled_from([b"", b"\0", b"\1", b"ga", b"gb", b"gb1", b"h" * 9]).map(lambda g: bytes([len(g)]) + g)
tails = st.sampled_from([b"\0", b"\1\0", b"\1\1", b"\1\1\1", b"\1aaaaaaaaaa", b"\1\xff"])
row = st.tuples(
    groups,
    tails,
    st.integers(-2, 2),
    st.none() | st.text("xyz", max_size=3),
    st.none() | st.sampled_from([0.5, 1.5]),
)
batches = st.lists(st.lists(row, max_size=25), max_size=4)


def keys_of(items: list[bytes]) -> Keys:
    return Keys.from_arrow(pa.array(items, pa.large_binary()))


def build(batches: list[list[Any]]) -> tuple[list[Rows], dict[bytes, Values]]:
    """Runs, and all keys with their combined values, zero weights included."""
    runs: list[Rows] = []
    combined: dict[bytes, Values] = {}
    for batch in batches:
        low = pa.array([r[2] for r in batch], pa.int64())
        high = pa.array([r[2] >> 63 for r in batch], pa.int64())
        columns = [low, low, high, pa.array([r[3] for r in batch], pa.string())]
        columns.append(pa.array([r[4] for r in batch], pa.float64()))
        run = consolidate(keys_of([r[0] + r[1] for r in batch]), columns, OPS, False)
        for key, *values in zip(run.keys.to_arrow().to_pylist(), *(v.to_pylist() for v in run.values)):
            w, lo, hi, top, last = values
            if key in combined:
                old = combined[key]
                wide = ((old[2] << 64) + old[1] % 2**64) + ((hi << 64) + lo % 2**64)
                tops = [t for t in (old[3], top) if t is not None]
                values = [old[0] + w, wide - (wide >> 64 << 64), wide >> 64, max(tops, default=None), last]
                values[1] -= 2**64 if values[1] >= 2**63 else 0
            combined[key] = tuple(values)
        runs.append(run)
    return runs, combined


def tuples(columns: tuple[pa.Array, ...]) -> list[Values]:
    assert [c.type for c in columns] == TYPES
    return list(zip(*(c.to_pylist() for c in columns)))


@contextmanager
def placed(runs: list[Rows], where: str) -> Iterator[list[Rows]]:
    """The same runs in memory, or in a file with an index of tiny blocks and pages, with or without filters."""
    if where == "memory":
        yield runs
        return
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sst, "WHOLE", 0)
        patch.setattr(sst, "BLOCK", 4)
        patch.setattr(sst, "FILTERED", 1 if where == "filtered" else 1 << 40)
        patch.setattr(pages, "PAGE", 64)
        patch.setattr(mapped, "_DENSE", 0)
        path = Path(directory) / "a.run"
        sst.write(path, [("t", run, OPS) for run in runs])
        file = sst.RunFile(path)
        yield [file.rows(i) for i in range(len(runs))]


everywhere = pytest.mark.parametrize("where", ["memory", "file", "filtered"])


@everywhere
@settings(max_examples=200, deadline=None)
@given(batches=batches, probes=st.sets(st.tuples(groups, tails).map(b"".join), max_size=20))
def test_get(where: str, batches: list[list[Any]], probes: set[bytes]) -> None:
    runs, combined = build(batches)
    wanted = sorted(probes)
    with placed(runs, where) as placed_runs:
        found, values = get(placed_runs, keys_of(wanted), OPS, TYPES)
    expected = [combined.get(p, ABSENT) for p in wanted]
    assert found.tolist() == [e[0] != 0 for e in expected]
    assert tuples(values) == [e if e[0] else ABSENT for e in expected]


@everywhere
@settings(max_examples=200, deadline=None)
@given(batches=batches, prefixes=st.sets(groups, max_size=6), drop_zero=st.booleans())
def test_scan_prefix(where: str, batches: list[list[Any]], prefixes: set[bytes], drop_zero: bool) -> None:
    runs, combined = build(batches)
    wanted = sorted(prefixes)
    with placed(runs, where) as placed_runs:
        probes, rows = scan_prefix(placed_runs, keys_of(wanted), OPS, drop_zero, TYPES)
    expected = [
        (i, key, combined[key])
        for i, p in enumerate(wanted)
        for key in sorted(combined)
        if key.startswith(p) and (combined[key][0] or not drop_zero)
    ]
    assert list(zip(probes.tolist(), rows.keys.to_arrow().to_pylist(), tuples(rows.values))) == expected


@everywhere
@settings(max_examples=200, deadline=None)
@given(batches=batches, prefixes=st.sets(groups, max_size=6), reverse=st.booleans(), skip_null=st.booleans())
def test_first_with_prefix(
    where: str, batches: list[list[Any]], prefixes: set[bytes], reverse: bool, skip_null: bool
) -> None:
    runs, combined = build(batches)
    wanted = sorted(prefixes)
    with placed(runs, where) as placed_runs:
        found, keys, values = first_with_prefix(placed_runs, keys_of(wanted), reverse, OPS, skip_null, TYPES)
    got = list(zip(found.tolist(), keys.to_arrow().to_pylist(), tuples(values)))
    expected = []
    for p in wanted:
        start = p + b"\1" if skip_null else p
        candidates = [k for k, v in combined.items() if k.startswith(p) and k >= start and v[0] > 0]
        winner = (max if reverse else min)(candidates, default=None)
        expected.append((False, b"", ABSENT) if winner is None else (True, winner, combined[winner]))
    assert got == expected


def many_runs() -> tuple[list[Rows], dict[tuple[int, int], int]]:
    random = np.random.default_rng(7)
    layout = [KeyColumn(pa.int64()), KeyColumn(pa.int64())]
    runs, weights = [], {}
    for size in (50_000, 2_000, 300):
        a, b, w = random.integers(0, 900, size), random.integers(0, 200, size), random.integers(-1, 2, size)
        keys = encode([pa.array(a), pa.array(b)], layout, 1)
        runs.append(consolidate(keys, [pa.array(w)], [MergeOp.SUM], True))
        for pair in zip(a.tolist(), b.tolist(), w.tolist()):
            weights[pair[:2]] = weights.get(pair[:2], 0) + pair[2]
    return runs, weights


def test_large_runs_read_from_a_file(tmp_path: Path) -> None:
    """Memory mapped runs, many probes and few."""
    runs, weights = many_runs()
    path = tmp_path / "a.run"
    sst.write(path, [("t", run, [MergeOp.SUM]) for run in runs])
    file = sst.RunFile(path)
    mapped = [file.rows(i) for i in range(len(runs))]
    layout = [KeyColumn(pa.int64()), KeyColumn(pa.int64())]
    for count in (3, 1000):
        wanted = range(0, 1000, 1000 // count)
        names = prefix([pa.array(wanted)], layout, 1)
        order = sorted(range(len(names)), key=lambda i: names[i])
        prefixes = names.take(np.array(order))
        probes, rows = scan_prefix(mapped, prefixes, [MergeOp.SUM])
        expected = sorted((a, b, w) for (a, b), w in weights.items() if w and a in wanted)
        groups_ = [wanted[order[p]] for p in probes.tolist()]
        a, b = decode(rows.keys, layout)
        assert a.to_pylist() == groups_
        assert sorted(zip(groups_, b.to_pylist(), rows.values[0].to_pylist())) == expected
        found, values = get(mapped, rows.keys, [MergeOp.SUM], [pa.int64()])
        assert found.all() and values[0].equals(rows.values[0])
        for reverse, pick in ((False, min), (True, max)):
            found, keys, _ = first_with_prefix(mapped, prefixes, reverse, [MergeOp.SUM])
            [_, firsts] = decode(keys.take(np.flatnonzero(found)), layout)
            best = {}
            for x, y, w in sorted(expected):
                if w > 0:
                    best[x] = pick(best.get(x, y), y)
            assert firsts.to_pylist() == [best[wanted[i]] for i in order if wanted[i] in best]


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_vnode_range(count: int) -> None:
    keys = encode([pa.array(range(count), pa.int64())], [KeyColumn(pa.int64())], 1)
    run = Rows(keys, (pa.array(np.ones(count, np.int64)),))
    run = consolidate(run.keys, run.values, [MergeOp.SUM], True)
    owners = [int.from_bytes(run.keys[i][:2], "big") for i in range(count)]
    for low, high in ((0, 256), (0, 0), (10, 11), (128, 256), (255, 256)):
        expected = [i for i, v in enumerate(owners) if low <= v < high]
        start, stop = vnode_range(run.keys, low, high)
        assert list(range(start, stop)) == expected


def test_without_runs_types_are_needed() -> None:
    prefixes = keys_of([b"a"])
    with pytest.raises(ValueError, match="types"):
        scan_prefix([], prefixes, OPS)
    with pytest.raises(ValueError, match="types"):
        first_with_prefix([], prefixes, False, OPS)


def test_weight_must_be_int64() -> None:
    run = Rows(keys_of([b"a"]), (pa.array([1.0]),))
    with pytest.raises(TypeError, match="double"):
        first_with_prefix([run], keys_of([b"a"]), False, [MergeOp.SUM])
