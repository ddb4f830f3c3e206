"""The first rows of prefixes against sorting everything."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tidemill.kernels.columns import column, numbers
from tidemill.state.keys.keys import KeyColumn, decode, encode, prefix, sort
from tidemill.state.lookup.beginnings import scan_beginnings
from tidemill.state.merge.merge import MergeOp, Rows, consolidate

INT = pa.int64()
LAYOUT = (KeyColumn(INT), KeyColumn(INT))


def run(rows: list[tuple[int, int, int]]) -> Rows:
    columns = [pa.array([r[i] for r in rows], INT) for i in range(2)]
    weights = column(np.array([r[2] for r in rows], np.int64))
    return consolidate(encode(columns, LAYOUT, 1), [weights], [MergeOp.SUM], drop_zero=True)


@pytest.mark.parametrize("wanted", [0, 1, 5, 1000])
@pytest.mark.parametrize("reach", [1, 4])
def test_beginnings_hold_what_is_wanted(wanted: int, reach: int, seed: int) -> None:
    rng = random.Random(f"{seed} {wanted} {reach}")
    for _ in range(30):
        total: Counter[tuple[int, int]] = Counter()
        runs = []
        for _ in range(rng.randrange(1, 5)):
            rows = [(rng.randrange(4), rng.randrange(30), 1) for _ in range(rng.randrange(40))]
            rows += [(k, v, -n) for (k, v), n in total.items() if n > 0 and rng.random() < 0.4]
            for k, v, n in rows:
                total[k, v] += n
            runs.append(run(rows))
        chosen = pa.array(sorted(rng.sample(range(6), rng.randrange(1, 6))), INT)
        prefixes = prefix([chosen], LAYOUT, 1)
        prefixes = prefixes.take(sort(prefixes))
        order = decode(prefixes, LAYOUT[:1])[0].to_pylist()

        def enough(owners: np.ndarray, rows: Rows, count: int) -> np.ndarray:
            return np.asarray(np.bincount(owners, np.maximum(numbers(rows.values[0]), 0), count) >= wanted)

        found = scan_beginnings(runs, prefixes, [MergeOp.SUM], reach, enough)
        columns = zip(*(c.to_pylist() for c in (*decode(found.keys, LAYOUT), found.values[0])), strict=True)
        got: dict[int, list[tuple[int, int]]] = {k: [] for k in order}
        for k, v, n in columns:
            got[k].append((v, n))
        for k in order:
            everything = sorted((v, n) for (key, v), n in total.items() if key == k and n)
            shown = [(v, n) for v, n in got[k] if n]
            assert shown == everything[: len(shown)]
            assert len(shown) == len(everything) or sum(n for _, n in shown) >= wanted
