"""Groups folded into state, with the change of each finished group."""

from __future__ import annotations

import random
import statistics
from collections import Counter

import pyarrow as pa
import pytest
from operator_runs import INT, changes, grouping, keyed, merged, pairs, run

from tidemill.task.aggregates.accumulators import Accumulator, Result
from tidemill.task.build import build
from tidemill.task.functions.columns import sizes
from tidemill.task.program import GroupChanges
from tidemill.testing import MemoryContext, weighted_rows

COUNT, SUM = Accumulator("count", 1), Accumulator("sum_i64", 1)
MAX, MIN = Accumulator("max", 1, recomputed=True), Accumulator("min", 1, recomputed=True)
DISTINCT = Accumulator("count", 1, distinct=True)
LIST = pa.list_(INT)
ROWS = Result("count", pa.null(), INT, 0, 0)
SUMS = grouping(COUNT, SUM, results=(ROWS, Result("sum", INT, INT, 2, 1)))
EXTREMES = grouping(
    MIN,
    MAX,
    DISTINCT,
    results=(Result("min", INT, INT, 1, 0), Result("max", INT, INT, 2, 0), Result("count", INT, INT, 3, 3)),
)
WHOLE = grouping(COUNT, SUM, results=(ROWS, Result("sum", INT, INT, 2, 1)), keys=0)


def test_old_row_out_new_row_in() -> None:
    operator, context = build(0, GroupChanges(SUMS, True)), MemoryContext()
    assert changes(run(operator, context, keyed(SUMS, pairs("+ 1 5 | + 2 3")))) == {(1, 1, 5): 1, (2, 1, 3): 1}
    found = changes(run(operator, context, keyed(SUMS, pairs("+ 1 NULL | - 2 3"))))
    assert found == {(1, 1, 5): -1, (1, 2, 5): 1, (2, 1, 3): -1}
    assert changes(run(operator, context, keyed(SUMS, pairs("+ 2 3")))) == {(2, 1, 3): 1}


def test_a_group_whose_row_stays_the_same_gives_nothing() -> None:
    operator, context = build(0, GroupChanges(SUMS, True)), MemoryContext()
    run(operator, context, keyed(SUMS, pairs("+ 1 5")))
    assert run(operator, context, keyed(SUMS, pairs("+ 1 2 | + 1 3 | - 1 5 | - 1 NULL"))) == []
    assert run(operator, context) == []


def test_a_sum_over_nulls_only_is_null() -> None:
    operator, context = build(0, GroupChanges(SUMS, True)), MemoryContext()
    assert changes(run(operator, context, keyed(SUMS, pairs("+ 1 NULL")))) == {(1, 1, None): 1}


def test_extremes_after_deletes() -> None:
    operator, context = build(0, GroupChanges(EXTREMES, True)), MemoryContext()
    assert changes(run(operator, context, keyed(EXTREMES, pairs("+2 1 5 | + 1 9 | + 1 NULL")))) == {(1, 5, 9, 2): 1}
    assert changes(run(operator, context, keyed(EXTREMES, pairs("- 1 9 | - 1 5")))) == {
        (1, 5, 9, 2): -1,
        (1, 5, 5, 1): 1,
    }
    assert changes(run(operator, context, keyed(EXTREMES, pairs("- 1 5")))) == {
        (1, 5, 5, 1): -1,
        (1, None, None, 0): 1,
    }
    assert changes(run(operator, context, keyed(EXTREMES, pairs("- 1 NULL")))) == {(1, None, None, 0): -1}
    assert merged(EXTREMES.multisets[0], context) == []


def test_lists_of_groups_that_vanish_and_come_back() -> None:
    several = Accumulator("count", 0, distinct=True, others=(1,))
    lists = grouping(
        Accumulator("collect_list", 1, recomputed=True),
        Accumulator("bit_xor", 1, True, True),
        several,
        Accumulator("max_by", 1, recomputed=True, others=(0,)),
        results=(
            Result("collect_list", INT, pa.list_(INT), 1, 0),
            Result("bit_xor", INT, INT, 2, 0),
            Result("count", INT, INT, 3, 3),
            Result("max_by", INT, INT, 4, 0),
        ),
    )
    operator, context = build(0, GroupChanges(lists, True)), MemoryContext()
    first = (1, (5, 5, 6), 3, 2, 1)
    assert changes(run(operator, context, keyed(lists, pairs("+2 1 5 | + 1 6 | + 1 NULL")))) == {first: 1}
    assert run(operator, context, keyed(lists, pairs("+ 1 7 | - 1 7"))) == []
    assert changes(run(operator, context, keyed(lists, pairs("-2 1 5 | - 1 6")))) == {
        first: -1,
        (1, (), None, 0, None): 1,
    }
    assert changes(run(operator, context, keyed(lists, pairs("- 1 NULL")))) == {(1, (), None, 0, None): -1}
    assert merged(lists.groups, context) == [] and merged(lists.multisets[0], context) == []
    assert changes(run(operator, context, keyed(lists, pairs("+ 1 5")))) == {(1, (5,), 5, 1, 1): 1}


def test_a_list_that_is_too_large_fails_until_its_group_is_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "_most", 1000)
    counted = Accumulator("count", 1)
    lists = grouping(
        Accumulator("collect_list", 1, recomputed=True), counted, results=(Result("collect_list", INT, LIST, 1, 2),)
    )
    silent, unread = build(0, GroupChanges(lists, False)), MemoryContext()
    assert run(silent, unread, keyed(lists, pairs("+80 2 6"))) == []
    assert [weight for _, weight, _ in unread.failing_rows] == [1]
    operator, context = build(0, GroupChanges(lists, True)), MemoryContext()
    both = keyed(lists, pairs("+2 1 5 | +40 2 6 | +40 3 7"))
    assert changes(run(operator, context, both)) == {(1, (5, 5)): 1, (2, (6,) * 40): 1, (3, (7,) * 40): 1}
    assert changes(run(operator, context, keyed(lists, pairs("+40 2 6 | + 1 5")))) == {
        (1, (5, 5)): -1,
        (1, (5, 5, 5)): 1,
        (2, (6,) * 40): -1,
    }
    ((_, weight, error),) = context.failing_rows
    assert weight == 1 and error is not None and error.number == "TM3020"
    context.failing_rows.clear()
    assert changes(run(operator, context, keyed(lists, pairs("-70 2 6")))) == {(2, (6,) * 10): 1}
    assert [(w, e) for _, w, e in context.failing_rows] == [(-1, None)]


def test_groups_cut_into_slices(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Large groups are read part by part, and small ones some at a time; blocks of groups are small, too."""
    for name in ("dataflow.matching", "operators.groups.group_changes"):
        monkeypatch.setattr(f"tidemill.task.{name}.SLICE_ROWS", 3)
    monkeypatch.setattr("tidemill.state.lookup.memtable.BLOCK_BYTES", 100)
    options = (("descending", False), ("many", False), ("percentages", (0.5,)))
    several = grouping(
        Accumulator("percentile", 1, False, True, (), options),
        Accumulator("collect_list", 1, recomputed=True),
        DISTINCT,
        Accumulator("count", 1),
        MAX,
        results=(
            Result("percentile", INT, pa.float64(), 1, 4),
            Result("collect_list", INT, LIST, 2, 4),
            Result("count", INT, INT, 3, 3),
            Result("max", INT, INT, 5, 4),
        ),
    )
    rng = random.Random(seed)
    operator, context = build(0, GroupChanges(several, True)), MemoryContext()
    rows: Counter[tuple[int, int]] = Counter()
    seen: Counter[tuple[object, ...]] = Counter()
    for _ in range(6):
        gone = rng.sample(sorted(rows.elements()), k=min(10, rows.total()))
        came = [(rng.choice((1, 1, *range(9))), rng.randrange(20)) for _ in range(20)]
        text = [f"- {k} {v}" for k, v in gone] + [f"+ {k} {v}" for k, v in came]
        rows.subtract(gone)
        rows.update(came)
        seen.update(changes(run(operator, context, keyed(several, pairs(" | ".join(text))))))
        expected = {}
        for key in {k for k, _ in rows.elements()}:
            values = sorted(v for k, v in rows.elements() if k == key)
            expected[(key, statistics.median(values), tuple(values), len(set(values)), max(values))] = 1
        assert {row: n for row, n in seen.items() if n} == expected


def test_nobody_reads_the_changes() -> None:
    operator, context = build(0, GroupChanges(EXTREMES, False)), MemoryContext()
    assert run(operator, context, keyed(EXTREMES, pairs("+ 1 5 | + 1 7"))) == []
    assert run(operator, context, keyed(EXTREMES, pairs("- 1 7"))) == []
    assert merged(EXTREMES.groups, context) == [(1, 1, 5, 5, 1)]


def test_the_one_group_of_an_aggregate_without_keys() -> None:
    operator, context = build(0, GroupChanges(WHOLE, True)), MemoryContext()
    assert changes(run(operator, context)) == {(0, None): 1}
    assert run(operator, context) == []
    assert changes(run(operator, context, keyed(WHOLE, pairs("+ 1 5")))) == {(0, None): -1, (1, 5): 1}
    assert changes(run(operator, context, keyed(WHOLE, pairs("- 1 5")))) == {(0, None): 1, (1, 5): -1}


def test_only_the_first_partition_has_the_one_group() -> None:
    operator, context = build(0, GroupChanges(WHOLE, True)), MemoryContext(partition=1, partitions=2)
    assert run(operator, context) == []


def test_random_changes(seed: int) -> None:
    rng = random.Random(seed)
    operator, context = build(0, GroupChanges(EXTREMES, True)), MemoryContext()
    rows: Counter[tuple[int, int | None]] = Counter()
    seen: Counter[tuple[object, ...]] = Counter()
    for _ in range(15):
        parts = []
        for _ in range(rng.randrange(1, 8)):
            live = list(rows.elements())
            if live and rng.random() < 0.5:
                key, value = rng.choice(live)
                parts.append(f"- {key} {'NULL' if value is None else value}")
            else:
                key, value = rng.randrange(3), rng.choice((None, *range(4)))
                parts.append(f"+ {key} {'NULL' if value is None else value}")
            rows.update(weighted_rows(pairs(parts[-1])))
        seen.update(changes(run(operator, context, keyed(EXTREMES, pairs(" | ".join(parts))))))
        expected = {}
        for key in {k for k, _ in rows.elements()}:
            values = [v for k, v in rows.elements() if k == key and v is not None]
            expected[(key, min(values, default=None), max(values, default=None), len(set(values)))] = 1
        assert {row: n for row, n in seen.items() if n} == expected
