"""Sums over pairs of an inequality join as state grows from 1,000 to 1,000,000 rows a side.

The query is ``SELECT l.k, COUNT(*), SUM(l.x - r.x) FROM l JOIN r ON l.k = r.k AND r.y > l.y GROUP BY l.k`` with ten
keys; per epoch some rows are added to either side, and only the change of the result is computed, as
``dL x (R + dR) + L x dR``. ``tidemill`` is the operator alone, without Spark, its tables in run files; the peers have
their rows in memory: PyArrow joins on the key, filters and groups, DuckDB runs the two joins as SQL on one thread.
The first epoch after loading, in which prefix sums of the loaded run are computed, is shown apart.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measuring import heading, run_side, table, verdict, workspace

KEYS = 10
MOST_PAIRS = 20_000_000
GOAL = 300.0


def numbers(random: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    """Rows (k, y, x) with distinct y, as good as surely."""
    return {"k": random.integers(0, KEYS, rows), "y": random.random(rows), "x": random.normal(size=rows)}


@dataclass(frozen=True)
class Side:
    """How a side takes rows in (not timed), computes a change of the result (timed), and keeps its rows (not timed)."""

    prepare: Callable[[dict[str, np.ndarray]], Any]
    change: Callable[[Any, Any], tuple[int, float]]
    keep: Callable[[Any, Any], None]


def epochs(size: int, changes: int, count: int, side: Side) -> dict[str, Any]:
    """Feed a side; returns milliseconds per epoch (of the wall, of the processor) and sums of all that came out."""
    random = np.random.default_rng(1)
    side.keep(side.prepare(numbers(random, size)), side.prepare(numbers(random, size)))
    times, busy, pairs, total = [], [], 0, 0.0
    for _ in range(count):
        left, right = side.prepare(numbers(random, changes)), side.prepare(numbers(random, changes))
        start = time.perf_counter(), time.process_time()
        n, x = side.change(left, right)
        times.append((time.perf_counter() - start[0]) * 1e3)
        busy.append((time.process_time() - start[1]) * 1e3)
        side.keep(left, right)
        pairs, total = pairs + n, total + x
    return {"ms": times, "busy": busy, "pairs": pairs, "total": total}


def tidemill(work: str, size: int, changes: int, count: int) -> dict[str, Any]:
    """The operator over run files: one of the loaded rows, and one more per epoch."""
    from tidemill.state.keys.keys import KeyColumn, encode
    from tidemill.state.merge.merge import Rows, consolidate
    from tidemill.state.store.store import RunStore
    from tidemill.state.versions.objects import Objects
    from tidemill.task.aggregates.accumulators import Accumulator, AggregateLayout
    from tidemill.task.build import build
    from tidemill.task.dataflow.deltas import Keyed
    from tidemill.task.program import Comparison, GroupPartial, PairSums, StateTable, Term
    from tidemill.testing import MemoryContext

    store = RunStore(Objects(Path(work)), Path(work) / "buffer")
    store.check_buffer()
    int64, float64 = pa.int64(), pa.float64()

    def partial(name: str, width: int) -> GroupPartial:
        types = (int64, float64, float64)
        layout = AggregateLayout((Accumulator("rows"), Accumulator("sum_exact", 2)), (), ())
        key = (KeyColumn(int64), KeyColumn(float64))[:width]
        groups = StateTable(name, key, 1, layout.value_types(types), layout.merge_ops())
        return GroupPartial(tuple(range(width)), layout, types, groups, ())

    sides = partial("left", 2), partial("right", 2)
    terms = (Term(1.0, 0, 0),), (Term(1.0, 1, 0), Term(-1.0, 0, 1))
    operation = PairSums(*sides, 1, (Comparison("value", "gt", 1),), False, (0,), terms, partial("out", 1))
    files: dict[str, list[Any]] = {"left": [], "right": []}

    class Context(MemoryContext):
        def runs(self, table: StateTable, everywhere: bool = False) -> list[Rows]:
            return store.open_range(files[table.id], 0, 256)

    def run(rows: dict[str, np.ndarray]) -> Rows:
        n = len(rows["k"])
        none, no = np.zeros(n), np.zeros(n, np.int64)
        values = [np.ones(n, np.int64), rows["x"], none, none, none, no, no, no]
        keys = encode([pa.array(rows["k"]), pa.array(rows["y"])], sides[0].groups.key, 1)
        return consolidate(keys, [pa.array(v) for v in values], sides[0].groups.ops, drop_zero=False)

    operator, context = build(0, operation), Context()

    def keep(left: Rows, right: Rows) -> None:
        for name, rows in (("left", left), ("right", right)):
            files[name] += store.write(1, [(name, rows, sides[0].groups.ops)], name)

    def step(left: Rows, right: Rows) -> tuple[int, float]:
        operator.begin(context)
        operator.add_input(Keyed(left), 0)
        operator.add_input(Keyed(right), 1)
        operator.start_drain()
        pairs, total = 0, 0.0
        while (output := operator.get_output()) is not None:
            assert isinstance(output.item, Keyed)
            values = output.item.rows.values
            pairs, total = pairs + pc.sum(values[0]).as_py(), total + pc.sum(values[1]).as_py()
        return pairs, total

    return epochs(size, changes, count, Side(run, step, keep))


def arrow(size: int, changes: int, count: int) -> dict[str, Any]:
    """All pairs of equal keys, filtered, grouped."""
    kept: list[pa.Table] = []

    def joined(left: pa.Table, right: pa.Table) -> tuple[int, float]:
        pairs = left.join(right, "k", join_type="inner", right_suffix="_r", use_threads=False)
        pairs = pairs.filter(pc.greater(pairs["y_r"], pairs["y"]))
        pairs = pairs.append_column("d", pc.subtract(pairs["x"], pairs["x_r"]))
        sums = pairs.group_by("k", use_threads=False).aggregate([("d", "count"), ("d", "sum")])
        return pc.sum(sums["d_count"]).as_py() or 0, pc.sum(sums["d_sum"]).as_py() or 0.0

    def change(left: pa.Table, right: pa.Table) -> tuple[int, float]:
        first, second = joined(left, pa.concat_tables([kept[1], right])), joined(kept[0], right)
        return first[0] + second[0], first[1] + second[1]

    def keep(left: pa.Table, right: pa.Table) -> None:
        kept[:] = [pa.concat_tables([*kept[i : i + 1], t]).combine_chunks() for i, t in enumerate((left, right))]

    return epochs(size, changes, count, Side(pa.table, change, keep))


def duckdb(size: int, changes: int, count: int) -> dict[str, Any]:
    """The two joins as SQL."""
    import duckdb as engine

    connection = engine.connect()
    connection.execute("SET threads = 1")
    join = "SELECT l.k, count(*) AS n, sum(l.x - r.x) AS s FROM {} l JOIN {} r ON l.k = r.k AND r.y > l.y GROUP BY l.k"

    connection.execute("CREATE TABLE old_l(k BIGINT, y DOUBLE, x DOUBLE); CREATE TABLE old_r AS FROM old_l")

    def change(left: pa.Table, right: pa.Table) -> tuple[int, float]:
        connection.register("new_l", left)
        connection.register("new_r", right)
        found = [(0, 0.0)]
        for sides in (("new_l", "old_r"), ("old_l", "new_r"), ("new_l", "new_r")):
            row = connection.execute(f"SELECT sum(n)::bigint, sum(s) FROM ({join.format(*sides)})").fetchall()[0]
            found.append((row[0] or 0, row[1] or 0.0))
        return sum(n for n, _ in found), sum(s for _, s in found)

    def keep(left: pa.Table, right: pa.Table) -> None:
        for name, rows in (("old_l", left), ("old_r", right)):
            connection.register("given", rows)
            connection.execute(f"INSERT INTO {name} SELECT * FROM given")

    return epochs(size, changes, count, Side(pa.table, change, keep))


def main() -> None:
    """Measure and print; fails when the sides disagree."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="under a minute")
    given = options.parse_args()
    sizes = [1_000, 10_000] if given.small else [1_000, 10_000, 100_000, 1_000_000]
    changes, count = (100, 3) if given.small else (1_000, 5)
    heading(f"ordered_index: {changes:,} new rows a side and epoch, {KEYS} keys, {count} epochs at each size")
    shown = []
    for size in sizes:
        asked = {"size": size, "changes": changes, "count": count}
        with workspace() as place:
            ours = run_side("benchmarks.ordered_index", "tidemill", work=str(place), **asked)
        peers: dict[str, Any] = {"duckdb": run_side("benchmarks.ordered_index", "duckdb", **asked)}
        if 2 * size * changes // KEYS <= MOST_PAIRS:
            peers["arrow"] = run_side("benchmarks.ordered_index", "arrow", **asked)
        for name, peer in peers.items():
            same = ours["pairs"] == peer["pairs"] and abs(ours["total"] - peer["total"]) <= 1e-9 * ours["pairs"]
            assert same, f"{name} found {peer['pairs']} pairs of {peer['total']}, tidemill {ours}"
        middle = {name: statistics.median(side["ms"][1:]) for name, side in {"tidemill": ours, **peers}.items()}
        arrow_ms = middle.get("arrow", "-")
        shown.append((f"{size:,}", ours["ms"][0], middle["tidemill"], arrow_ms, middle["duckdb"]))
    table(("rows a side", "first epoch ms", "tidemill ms", "PyArrow ms", "DuckDB ms"), shown)
    verdict("ordered_index (DuckDB / tidemill at the largest size)", shown[-1][4] / shown[-1][2], 10.0)
    changes = changes if given.small else 50_000
    with workspace() as place:
        many = run_side(
            "benchmarks.ordered_index", "tidemill", work=str(place), size=sizes[-1], changes=changes, count=8
        )
    middle_ms = statistics.median(many["busy"][1:])
    print(
        f"{changes:,} changed groups a side at {sizes[-1]:,}: {middle_ms:,.0f} ms of a core, goal {GOAL:.0f} ms",
        flush=True,
    )
    verdict("ordered_index (goal / many changes)", GOAL / middle_ms, 1.0)


if __name__ == "__main__":
    main()
