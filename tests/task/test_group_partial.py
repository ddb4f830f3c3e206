"""Partial groups of one task."""

from __future__ import annotations

import datetime
import decimal
import random
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from operator_runs import INT, grouping, pairs, run

from tidemill.state.keys.keys import KeyColumn
from tidemill.state.lookup import memtable
from tidemill.state.merge.merge import merge
from tidemill.task.aggregates.accumulators import Accumulator, AggregateLayout
from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Delta, Keyed, Loose, batch_of
from tidemill.task.operators.groups import group_partial
from tidemill.task.program import GroupPartial, StateTable
from tidemill.testing import MemoryContext, keyed_rows

COUNT = Accumulator("count", 1)
SUM = Accumulator("sum_i64", 1)
MAX = Accumulator("max", 1, recomputed=True)


def test_groups_are_consolidated_at_the_barrier() -> None:
    partial = grouping(COUNT, SUM, results=())
    operator, context = build(0, partial), MemoryContext()
    (output,) = run(operator, context, [(pairs("+ 1 5 | + 2 NULL | +2 1 1"), 0), (pairs("- 1 5 | + NULL 3"), 0)])
    assert isinstance(output.item, Keyed)
    found = sorted(keyed_rows(partial.groups, output.item), key=str)
    assert found == [(1, 2, 2, 2), (2, 1, 0, 0), (None, 1, 1, 3)]
    assert run(operator, context) == []


def test_a_group_that_cancels_out_is_still_told() -> None:
    partial = grouping(SUM, results=())
    (output,) = run(build(0, partial), MemoryContext(), [(pairs("+ 1 5 | - 1 5"), 0)])
    assert keyed_rows(partial.groups, output.item) == [(1, 0, 0)]  # type: ignore[arg-type]


def test_values_of_a_multiset_leave_on_a_port_of_their_own() -> None:
    partial = grouping(MAX, results=())
    outputs = run(build(0, partial), MemoryContext(), [(pairs("+ 1 5 | + 1 NULL | + 1 5 | - 2 6"), 0)])
    assert [o.port for o in outputs] == [0, 1]
    assert keyed_rows(partial.groups, outputs[0].item) == [(1, 3, None), (2, -1, None)]  # type: ignore[arg-type]
    assert keyed_rows(partial.multisets[0], outputs[1].item) == [(1, 5, 2), (2, 6, -1)]  # type: ignore[arg-type]


def test_without_keys_all_rows_are_one_group() -> None:
    partial = grouping(COUNT, results=(), keys=0)
    (output,) = run(build(0, partial), MemoryContext(), [(pairs("+ 1 5 | + 2 NULL"), 0), (pairs("+ 3 1"), 0)])
    assert keyed_rows(partial.groups, output.item) == [(3, 2)]  # type: ignore[arg-type]


DECIMAL = pa.decimal128(9, 2)
KEYS: dict[str, tuple[pa.DataType, ...]] = {
    "bigint": (INT,),
    "text": (pa.string(),),
    "decimal": (DECIMAL,),
    "double": (pa.float64(),),
    "text, date": (pa.string(), pa.date32()),
    "int, boolean, time": (pa.int32(), pa.bool_(), pa.timestamp("us")),
}


def some_value(chance: random.Random, kind: pa.DataType, most: int) -> Any:
    """One of so many values of a type, or NULL."""
    number = chance.randrange(-1, most)
    if number < 0:
        return None
    made: dict[pa.DataType, Any] = {
        pa.string(): "" if number == 3 else f"text {number}",
        DECIMAL: decimal.Decimal(number - 5) / 4,
        pa.float64(): number / 8,
        pa.date32(): datetime.date(2026, 1, 1) + datetime.timedelta(number),
        pa.timestamp("us"): datetime.datetime(2026, 1, 1) + datetime.timedelta(microseconds=number),
        pa.bool_(): number % 2 == 0,
    }
    return made.get(kind, number * (1 << 55) if kind == INT and number < 100 else number)


@pytest.mark.parametrize("most", [3, 60, 20_000])
@pytest.mark.parametrize("kinds", KEYS.values(), ids=KEYS)
def test_many_rows(kinds: tuple[pa.DataType, ...], most: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a few and of many groups, folded in parts of two sizes, beside a dictionary."""
    chance = random.Random(f"{seed} {kinds} {most}")
    monkeypatch.setattr(group_partial, "_FOLD_ROWS", 2000)
    monkeypatch.setattr(group_partial, "_MOST_ROWS", 7000)
    types = (*kinds, INT)
    accumulators = (Accumulator("rows"), Accumulator("count", len(kinds)), Accumulator("sum_i64", len(kinds)))
    layout = AggregateLayout(accumulators, (), ())
    key = tuple(KeyColumn(kind) for kind in kinds)
    groups = StateTable("groups", key, len(kinds), layout.value_types(types), layout.merge_ops())
    partial = GroupPartial(tuple(range(len(kinds))), layout, types, groups, ())
    operator, context = build(0, partial), MemoryContext()
    for _ in range(2):
        expected: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
        inputs = []
        for _ in range(chance.randrange(3, 9)):
            rows = chance.choice((10, 1500, 4000))
            columns = [[some_value(chance, kind, most) for _ in range(rows)] for kind in kinds]
            values = [chance.choice((None, 1, -7, 1 << 40)) for _ in range(rows)]
            weights = [chance.choice((1, 1, 1, -1, 3)) for _ in range(rows)]
            for *of_key, value, weight in zip(*columns, values, weights, strict=True):
                group = expected[tuple(of_key)]
                group[0] += weight
                if value is not None:
                    group[1] += weight
                    group[2] += weight * value
            arrays = [pa.array(c, kind) for c, kind in zip([*columns, values], types, strict=True)]
            inputs.append((Delta(batch_of(arrays, rows), np.array(weights)), 0))
        outputs = run(operator, context, inputs)
        items = [output.item for output in outputs]
        runs = [item.rows for item in items if isinstance(item, Keyed)]
        found = keyed_rows(groups, merge(runs, groups.ops, drop_zero=False))
        assert len(runs) == len(items)
        assert sorted(found, key=str) == sorted(((*k, *v) for k, v in expected.items()), key=str)


@pytest.mark.parametrize("folds", [1, 2])
def test_groups_that_are_only_stored(folds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are loose if no group can be there twice, in the order in which they appeared."""
    monkeypatch.setattr(memtable, "_UNORDERED_ROWS", 1)
    partial = grouping(COUNT, SUM, results=())
    operator, context = build(0, partial), MemoryContext()
    operator.only_stored = True
    assert isinstance(operator, group_partial.GroupPartialOperator)
    operator._fold_rows = 3 if folds == 1 else 1
    for _ in range(2):  # the second epoch is as the first
        (output,) = run(operator, context, [(pairs("+ 7 5"), 0), (pairs("+ 2 NULL | + 7 1"), 0)])
        item = output.item
        assert isinstance(item, Loose if folds == 1 else Keyed)
        if isinstance(item, Loose):
            assert item.rows.batches[0].column(0).to_pylist() == [7, 2]
        rows = item.rows.encoded() if isinstance(item, Loose) else item.rows
        assert sorted(keyed_rows(partial.groups, rows)) == [(2, 1, 0, 0), (7, 2, 2, 6)]
