"""Deciding a merge of sorted runs, against sorting in plain Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.state.keys.keys import Keys
from tidemill.state.keys.run_table import run_table
from tidemill.state.merge.interleaving import interleave
from tidemill.state.merge.merge import MergeOp, Rows, merge
from tidemill.state.merge.merging import locate_near

shape = st.tuples(st.binary(max_size=6), st.integers(0, 3), st.binary(max_size=12), st.integers(0, 9))


def keys_of(items: list[bytes], spare: int) -> Keys:
    """Offsets that do not begin at 0, and bytes behind the last key."""
    offsets = np.concatenate([[3], 3 + np.cumsum([len(item) for item in items], dtype=np.int64)]).astype(np.int64)
    return Keys(offsets, np.frombuffer(b"abc" + b"".join(items) + b"\xff" * spare, np.uint8))


def decided(runs: list[Keys]) -> tuple[list[tuple[int, bool]], int]:
    sources, segments = interleave(run_table(runs))
    return [(int(s) & 0x7FFF, bool(s >> 15)) for s in sources], segments


def twin(runs: list[list[bytes]]) -> tuple[list[tuple[int, bool]], int]:
    """What :func:`interleave` gives, the slow way."""
    rows = sorted((key, run) for run, keys in enumerate(runs) for key in keys)
    before: list[bytes | None] = [None, *(key for key, _ in rows)]
    found = [(run, key == previous) for (key, run), previous in zip(rows, before)]
    return found, sum(not same for _, same in found)


@settings(max_examples=300, deadline=None)
@given(
    shape=shape,
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    spare=st.integers(0, 60),
    even=st.booleans(),
    values=st.integers(2, 256),
    seed=st.integers(0, 2**32),
)
def test_small(
    shape: tuple[bytes, int, bytes, int], counts: list[int], spare: int, even: bool, values: int, seed: int
) -> None:
    """Keys of one length or of several, constant and varying bytes, with and without bytes behind them."""
    head, first, middle, second = shape
    random = np.random.default_rng(seed)

    def some(length: int) -> bytes:
        return random.integers(0, values, length, np.uint8).tobytes()

    runs = []
    for count in counts:
        tails = [second if even else int(random.integers(0, second + 1)) for _ in range(count)]
        runs.append(sorted({head + some(first) + middle + some(tail) for tail in tails}))
    assert decided([keys_of(run, spare) for run in runs]) == twin(runs)


@pytest.mark.parametrize("seed", range(12))
def test_many_blocks(seed: int) -> None:
    """More rows than a block has; runs of one size and of very different ones, keys near one another and far."""
    random = np.random.default_rng(seed)
    counts = [[30_000, 30_000], [50_000, 10, 300, 1], [2_000] * 30, [200] * 600][seed % 4]
    width = (4, 10, 23, 41)[seed // 4 + seed % 2]
    keep = int(random.integers(1, 4))
    runs = []
    for i, count in enumerate(counts):
        numbers = random.integers(0, [300, 100_000, 1 << 40][seed // 4], count)
        if seed % 3 == 0:
            numbers += i * 40_000  # runs that hardly overlap
        rows = {int(n).to_bytes(width + 6, "big")[-max(width, 6) :] for n in numbers}
        runs.append(sorted(rows if keep > 1 else {row[: 4 + row[-1] % 5] for row in rows}))
    assert decided([keys_of(run, seed) for run in runs]) == twin(runs), seed


def test_more_runs_than_a_merge_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are merged first."""
    monkeypatch.setattr("tidemill.state.merge.merge.MOST_RUNS", 3)
    runs = [Rows(keys_of([b"a", b"b%d" % i], 0), (pa.array([1, 1]), pa.array([i, i]))) for i in range(8)]
    merged = merge(runs, [MergeOp.SUM, MergeOp.LAST], True)
    assert merged.keys.to_arrow().to_pylist() == [b"a", *(b"b%d" % i for i in range(8))]
    assert merged.values[0].to_pylist() == [8, *[1] * 8]
    assert merged.values[1].to_pylist() == [7, *range(8)]


def test_reads_nothing_behind_the_keys() -> None:
    """Words are cut at the end of a key: what follows it in memory does not matter."""
    items = [bytes([i]) * 5 for i in range(50)]
    plain = decided([keys_of(items[::2], 0), keys_of(items[1::2], 0)])
    assert plain == decided([keys_of(items[::2], 64), keys_of(items[1::2], 64)]) == twin([items[::2], items[1::2]])


@pytest.mark.parametrize("seed", range(6))
def test_probes_near_one_another(seed: int) -> None:
    """Found rows are those of a dictionary; keys of one length and of several."""
    random = np.random.default_rng(seed)
    width = int(random.integers(3, 20))
    pool = [
        random.integers(0, 4 + 60 * (seed % 2), width if seed % 3 else width - n % 3, np.uint8).tobytes()
        for n in range(9_000)
    ]
    run = sorted({pool[i] for i in random.integers(0, len(pool), 6_000)})
    probes = sorted({pool[i] for i in random.integers(0, len(pool), 3_000)})
    row_of = {key: row for row, key in enumerate(run)}
    keys, wanted = keys_of(run, 3), keys_of(probes, 0)
    found = locate_near(keys.offsets, keys.data, wanted.offsets, wanted.data)
    assert found.tolist() == [row_of.get(key, -1) for key in probes], seed
