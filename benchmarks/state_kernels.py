"""Kernels of the state store against the nearest PyArrow call: ``python -m benchmarks.state_kernels``.

Prints medians in milliseconds, and how many times faster than PyArrow (ratio above 1) or slower (below). It stops where
both do not give the same.
``--small`` takes seconds.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.state.folds import accumulate
from tidemill.state.keys.keys import KeyColumn, Keys, decode, encode, group, hash64, prefix, sort
from tidemill.state.lookup import lookup
from tidemill.state.merge.merge import MergeOp, Rows, consolidate, merge

SMALL = "--small" in sys.argv
ROWS, RUN_ROWS, REPEATS = (20_000, 10_000, 2) if SMALL else (500_000, 250_000, 9)


def median_ms(function: Callable[[], Any]) -> float:
    """Median of the repeats, after one that warms up (compiles, faults pages in)."""
    function()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def show(name: str, ours: Callable[[], Any]) -> None:
    """Print one line."""
    print(f"{name:52} {median_ms(ours):8.1f}")


def compare(name: str, ours: Callable[[], Any], theirs: Callable[[], Any], same: Callable[[Any, Any], bool]) -> None:
    """Print one line with a ratio, if both give the same."""
    if not same(ours(), theirs()):
        raise SystemExit(f"{name}: the answers differ, so there is no ratio")
    mine, other = median_ms(ours), median_ms(theirs)
    print(f"{name:52} {mine:8.1f} {other:8.1f} {other / mine:7.1f}x")


def bench_keys(name: str, column: pa.Array) -> None:
    """Encoding, sorting and grouping of one column with its vnode."""
    layout = [KeyColumn(column.type)]
    keys = encode([column], layout, 1)
    order = sort(keys)
    binary = keys.to_arrow()
    show(f"encode {name}", lambda: encode([column], layout, 1))
    show(f"decode {name}", lambda: decode(keys, layout))
    compare(
        f"sort keys {name} / array_sort_indices",
        lambda: sort(keys),
        lambda: pc.array_sort_indices(binary),
        lambda mine, other: binary.take(pa.array(mine)).equals(binary.take(other)),
    )
    compare(
        f"group keys {name} / dictionary_encode",
        lambda: group(keys),
        binary.dictionary_encode,
        lambda mine, other: bool((mine[0] == other.indices.to_numpy()).all()),
    )
    show(f"hash keys {name}", lambda: hash64(keys))
    compare(
        f"take keys {name} / take",
        lambda: keys.take(order),
        lambda: binary.take(pa.array(order)),
        lambda mine, other: bool(mine.to_arrow().equals(other)),
    )


def bench_merge(name: str, column: Callable[[int], pa.Array]) -> None:
    """Four runs of one size, and a small run on a big one; values are a weight and a float sum."""
    ops = [MergeOp.SUM, MergeOp.SUM]

    def run(rows: int) -> Rows:
        values = column(rows)
        ones = [pa.array(np.ones(rows, np.int64)), pa.array(np.ones(rows))]
        return consolidate(encode([values], [KeyColumn(values.type)], 1), ones, ops, True)

    runs = [run(RUN_ROWS) for _ in range(4)]
    binary = Keys.concat([r.keys for r in runs]).to_arrow()
    table = pa.table(
        {"k": binary, **{f"v{i}": pa.concat_arrays(v) for i, v in enumerate(zip(*(r.values for r in runs)))}}
    )
    compare(
        f"merge 4 runs {name} / sort_by + group_by ordered",
        lambda: merge(runs, ops, True),
        lambda: table.sort_by("k").group_by("k", use_threads=False).aggregate([("v0", "sum"), ("v1", "sum")]),
        lambda mine, other: pa.table([mine.keys.to_arrow(), *mine.values], other.column_names).equals(other),
    )
    big, small = merge(runs, ops, True), run(1000)
    show(f"merge 1000 rows into {len(big)} {name}", lambda: merge([big, small], ops, True))
    probes = small.keys
    show(
        f"get 1000 keys of 5 runs {name}",
        lambda: lookup.get([*runs, small], probes, ops, [pa.int64(), pa.float64()]),
    )


def bench_prefixes(random: np.random.Generator) -> None:
    """Groups of about 100 rows in three runs."""
    layout = [KeyColumn(pa.int64()), KeyColumn(pa.float64())]
    runs = []
    for rows in (RUN_ROWS, 20_000, 1000):
        columns = [pa.array(random.integers(0, RUN_ROWS // 100, rows)), pa.array(random.normal(size=rows))]
        weights = [pa.array(np.ones(rows, np.int64))]
        runs.append(consolidate(encode(columns, layout, 1), weights, [MergeOp.SUM], True))
    names = prefix([pa.array(range(1000))], layout, 1)
    prefixes = names.take(sort(names))
    show("scan 1000 prefixes of 3 runs, 100k rows", lambda: lookup.scan_prefix(runs, prefixes, [MergeOp.SUM]))
    for reverse in (False, True):
        show(
            f"{'last' if reverse else 'first'} of 1000 prefixes of 3 runs",
            lambda reverse=reverse: lookup.first_with_prefix(runs, prefixes, reverse, [MergeOp.SUM]),
        )


def bench_folds(random: np.random.Generator) -> None:
    """Folds into 1000 groups."""
    ids = random.integers(0, 1000, ROWS)
    ints, floats = pa.array(random.integers(-1000, 1000, ROWS)), pa.array(random.normal(size=ROWS))
    ones = np.ones(ROWS, np.int64)
    table = pa.table({"g": ids, "i": ints, "f": floats})

    def arrow(column: str, fold: str) -> Callable[[], Any]:
        return lambda: table.group_by("g", use_threads=False).aggregate([(column, fold)])

    def same(mine: Any, other: pa.Table) -> bool:
        return bool(np.allclose(np.asarray(mine), other.sort_by("g").column(1).to_numpy(), rtol=1e-9, atol=1e-9))

    def exactly(mine: Any, other: pa.Table) -> bool:
        return bool((np.asarray(mine) == other.sort_by("g").column(1).to_numpy()).all())

    sums, whole = accumulate.sum_float, accumulate.sum_int64
    compare("sum_int64 / group_by sum", lambda: whole(ids, ints, ones, 1000), arrow("i", "sum"), exactly)
    show("sum_i128", lambda: accumulate.sum_i128(ids, ints, ones, 1000))
    compare("sum_float / group_by sum", lambda: sums(ids, floats, ones, 1000), arrow("f", "sum"), same)
    show("sum_dd", lambda: accumulate.sum_dd(ids, floats, ones, 1000))
    largest = partial(accumulate.extreme, ids, floats, 1000, True)
    compare("extreme float / group_by max", largest, arrow("f", "max"), exactly)


def main() -> None:
    """Print all timings."""
    random = np.random.default_rng(0)
    print(f"{ROWS} rows; runs of {RUN_ROWS} rows; median of {REPEATS}")
    print(f"{'kernel / PyArrow call':52} {'ms':>8} {'pyarrow':>8} {'ratio':>8}")
    bench_keys("int64 random", pa.array(random.integers(-(2**62), 2**62, ROWS)))
    bench_keys("int64 0..n", pa.array(random.permutation(ROWS)))
    bench_keys("int64 1000 values", pa.array(random.integers(0, 1000, ROWS)))
    bench_keys("string", pa.array([f"user-{i}" for i in random.integers(0, ROWS, ROWS)]))
    bench_merge("int64", lambda n: pa.array(random.integers(-(2**62), 2**62, n)))
    bench_merge("string", lambda n: pa.array([f"user-{i}" for i in random.integers(0, 10 * ROWS, n)]))
    bench_prefixes(random)
    bench_folds(random)


if __name__ == "__main__":
    main()
