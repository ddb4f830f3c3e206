"""Lookups of many keys in many runs, in memory and in files, against plain dictionaries and the merge of the runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidemill.state.keys.keys import Keys
from tidemill.state.lookup.lookup import get
from tidemill.state.merge.merge import MergeOp, Rows, consolidate, merge
from tidemill.state.runs import sst

Make = Callable[[np.random.Generator, int], list[bytes]]


def _even(random: np.random.Generator, count: int) -> list[bytes]:
    return [int(n).to_bytes(10, "big") for n in random.integers(0, 1 << 62, count)]


def _crowded(random: np.random.Generator, count: int) -> list[bytes]:
    """A common beginning, few first words and one far away."""
    heads, tails = random.integers(0, 3, count) ** 20, random.integers(0, 1 << 40, count)
    return [b"same for all" + int(h).to_bytes(8, "big") + int(t).to_bytes(12, "big") for h, t in zip(heads, tails)]


def _uneven(random: np.random.Generator, count: int) -> list[bytes]:
    return [bytes(random.integers(0, 256, n % 7 + 2, np.uint8)) for n in range(count)]


def _short(random: np.random.Generator, count: int) -> list[bytes]:
    return [int(n).to_bytes(3, "big") for n in random.integers(0, 1 << 18, count)]


def _keys(items: list[bytes]) -> Keys:
    return Keys.from_arrow(pa.array(items, pa.large_binary()))


@pytest.mark.parametrize("make", [_even, _crowded, _uneven, _short])
@pytest.mark.parametrize("count", [40, 1500, 5000])
def test_newest_of_many_runs(make: Make, count: int, tmp_path: Path) -> None:
    """Sparse and dense probes, with and without an index, where newer runs have some of the keys of older ones."""
    random = np.random.default_rng(count)
    ops, types = [MergeOp.LAST, MergeOp.LAST], [pa.int64(), pa.string()]
    pool = make(random, 90_000)
    runs, newest = [], {}
    for number, size in enumerate((80_000, 4_000, 3_000, 2_000, 10)):
        chosen = sorted({pool[i] for i in random.integers(0, len(pool), size)})
        numbers = random.integers(0, 1 << 40, len(chosen))
        texts = [None if n % 5 == 0 else f"{number}:{n}" for n in numbers.tolist()]
        runs.append(Rows(_keys(chosen), (pa.array(numbers), pa.array(texts, pa.string()))))
        newest.update(zip(chosen, zip(numbers.tolist(), texts), strict=True))
    sst.write(tmp_path / "a.run", [("t", run, ops) for run in runs])
    file = sst.RunFile(tmp_path / "a.run")
    mapped = [file.rows(i) for i in range(len(runs))]
    for attempt in range(3):
        wanted = sorted({*make(random, count // 4), *(pool[i] for i in random.integers(0, len(pool), count))})
        expected = [newest.get(key, (None, None)) for key in wanted]
        for given in (runs, mapped):
            found, values = get(given, _keys(wanted), ops, types, False)
            assert found.tolist() == [key in newest for key in wanted], attempt
            assert list(zip(*(v.to_pylist() for v in values), strict=True)) == expected


@pytest.mark.parametrize("runs", [1, 2, 7])
def test_sums_are_those_of_a_merge(runs: int) -> None:
    """Every operation, bit by bit, with -0.0, NaN and infinities; weights that cancel hide their key."""
    random = np.random.default_rng(runs)
    ops = [MergeOp.SUM, MergeOp.SUM, MergeOp.SUM_DD, MergeOp.SUM_I128, MergeOp.SUM_QD, MergeOp.MIN, MergeOp.LAST]
    special = np.array([-0.0, 0.0, 1e300, -1e300, np.inf, -np.inf, np.nan, 0.1, 3.0])
    written = []
    for _ in range(runs):
        n = 400
        keys = _keys([int(k).to_bytes(4, "big") for k in random.integers(0, 700, n)])
        single, double, quad = (pa.array(random.choice(special, n)) for _ in range(3))
        none = pa.array(np.zeros(n))
        wide = [pa.array(random.integers(-(1 << 62), 1 << 62, n)) for _ in range(2)]
        extreme = pa.array(random.choice(special, n), mask=random.random(n) < 0.2)
        last = pa.array(random.integers(0, 9, n), mask=random.random(n) < 0.2)
        weight = pa.array(random.integers(-1, 2, n))
        columns = [weight, single, double, none, *wide, quad, none, none, none, extreme, last]
        written.append(consolidate(keys, columns, ops, False))
    types = written[0].value_types()
    probes = _keys([k.to_bytes(4, "big") for k in range(800)])
    for drop_zero in (False, True):
        whole = merge(written, ops, drop_zero)
        place = {key: i for i, key in enumerate(whole.keys.to_arrow().to_pylist())}
        rows = [place.get(probes[p], -1) for p in range(len(probes))]
        found, values = get(written, probes, ops, types, drop_zero)
        assert found.tolist() == [row >= 0 for row in rows]
        for number, (value, merged) in enumerate(zip(values, whole.values, strict=True)):
            assert value.type == merged.type
            absent = 0 if number < 10 else None
            expected = [absent if row < 0 else merged[row].as_py() for row in rows]
            assert list(map(_bits, value.to_pylist())) == list(map(_bits, expected)), number


def _bits(value: object) -> object:
    """Tells -0.0 from 0.0, and takes all NaN as one."""
    return repr(float(value)) if isinstance(value, (int, float)) else value


def test_a_key_that_is_dropped_has_no_value() -> None:
    """Also where the weights come with a bitmap: those of a slice of a column with NULLs."""
    ops, types = [MergeOp.SUM, MergeOp.LAST], [pa.int64(), pa.string()]
    older = Rows(_keys([b"a", b"b"]), (pa.array([1, 1, None]).slice(0, 2), pa.array(["x", "y"])))
    newer = Rows(_keys([b"a"]), (pa.array([-1]), pa.array(["gone"])))
    found, (weights, texts) = get([older, newer], _keys([b"a", b"b"]), ops, types)
    assert found.tolist() == [False, True]
    assert (weights.to_pylist(), texts.to_pylist()) == ([0, 1], [None, "y"])
    missing = Rows(_keys([b"a"]), (pa.array([None], pa.int64()), pa.array(["x"])))
    with pytest.raises(ValueError, match="NULLs"):
        get([missing, newer], _keys([b"a"]), ops, types)
