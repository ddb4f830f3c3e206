"""A keyed table against a dictionary: the last message of a key is its row."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from operator_runs import INT, TEXT, changes, keyed, run

from tidemill.plan.lowering.kept.keyed_tables import contents_plan, message_steps
from tidemill.schema import Field, Schema
from tidemill.state.merge.merge import merge
from tidemill.task.build import build
from tidemill.task.dataflow.changed_rows import changed_rows
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.dataflow.read_view import read_view
from tidemill.task.program import ApplyChangelog, Changelog, ReadPlan, TableSource, multiset_table
from tidemill.testing import MemoryContext, Row, weighted_rows

ROWS = Schema(
    (
        Field("v", pa.float64()),
        Field("k", INT, False),
        Field("s", TEXT),
        Field("g", TEXT, False),
        Field("m", pa.decimal128(9, 2)),
        Field("b", pa.bool_()),
    )
)
"""The key (g, k) is neither first nor in the order of the columns."""

Message = tuple[int, tuple[Any, ...]]


def source(rows: Schema = ROWS, key: tuple[int, ...] = (3, 1)) -> TableSource:
    errors = multiset_table("errors", (TEXT,), 1)
    return TableSource("t", "t#1", "csv", rows, (), None, ("I", "D"), errors, Changelog(rows, key, 0))


def messages(rows: Schema, items: list[tuple[int, Message]]) -> Delta:
    """Rows as a sequenced scan gives them: columns, sign, place."""
    columns = [pa.array([row[i] for _, (_, row) in items], f.type) for i, f in enumerate(rows)]
    columns.append(pa.array([sign for _, (sign, _) in items], INT))
    columns.append(pa.array([place for place, _ in items], INT))
    return Delta(batch_of(columns, len(items)))


class Table:
    """One keyed table in memory, epoch after epoch."""

    def __init__(self, source: TableSource) -> None:
        _, self.arrange, apply = message_steps(source)
        assert isinstance(apply, ApplyChangelog)
        self.rows = source.schema
        self.apply = apply
        self.plan: ReadPlan = contents_plan(source)
        self.operator = build(0, apply)
        self.context = MemoryContext()

    def epoch(self, batches: list[list[tuple[int, Message]]]) -> dict[Row, int]:
        """Apply batches of (place, message), each arranged by a task of its own; returns the changes."""
        inputs = [item for b in batches for item in keyed(self.arrange, messages(self.rows, b)) if b]
        before = self.context.runs(self.plan.table)
        found = changes(run(self.operator, self.context, inputs))
        written = self.context.runs(self.plan.table)[len(before) :]
        assert weighted_rows(changed_rows(self.plan, before, written)) == found, "as a reader of changes sees it"
        return found

    def contents(self) -> dict[Row, int]:
        return weighted_rows(read_view(self.plan, self.context.state(self.plan.table).before, single_row=False))

    def merge_runs(self) -> None:
        """What a compaction of all runs does."""
        runs = self.context.tables.get(self.plan.table.id)
        if runs:
            self.context.tables[self.plan.table.id] = [merge(runs, self.plan.table.ops, drop_zero=True)]


def as_row(values: tuple[Any, ...]) -> Row:
    return tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in values)


def random_message(rng: random.Random) -> Message:
    sign = 1 if rng.random() < 0.65 else -1
    value = rng.choice((None, 1.5, -0.0, 0.0, math.nan, math.inf, 2.0))
    other = (rng.choice((None, "", "x", "é")), rng.choice((None, 1, 2)), rng.choice((None, True, False)))
    return sign, (value, rng.randrange(3), other[0], rng.choice(("", "a")), other[1], other[2])


def test_random_messages_in_random_epochs(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        table = Table(source())
        model: dict[tuple[Any, Any], tuple[Any, ...]] = {}
        for _ in range(rng.randrange(1, 7)):
            before = {as_row(row): 1 for row in model.values()}
            batches: list[list[tuple[int, Message]]] = [[] for _ in range(rng.randrange(1, 4))]
            for place in range(rng.randrange(0, 30)):
                sign, row = random_message(rng)
                rng.choice(batches).append((place, (sign, row)))
                model.pop((row[3], row[1]), None)
                if sign > 0:
                    model[row[3], row[1]] = row
            found = table.epoch(batches)
            after = {as_row(row): 1 for row in model.values()}
            assert table.contents() == after
            expected = {row: after.get(row, 0) - before.get(row, 0) for row in {**before, **after}}
            assert found == {row: w for row, w in expected.items() if w}
            if rng.random() < 0.3:
                table.merge_runs()
                assert table.contents() == after


def upsert(place: int, k: int, v: float | None) -> tuple[int, Message]:
    return place, (1, (v, k, None, "g", None, None))


def delete(place: int, k: int) -> tuple[int, Message]:
    return place, (-1, (None, k, "garbage", "g", None, True))


def test_messages_that_change_nothing_write_nothing() -> None:
    table = Table(source())
    assert table.epoch([[delete(5, 1)]]) == {}
    table.epoch([[upsert(0, 1, math.nan)]])
    runs = len(table.context.runs(table.plan.table))
    assert table.epoch([[upsert(0, 1, math.nan)]]) == {}
    assert table.epoch([[upsert(0, 1, 2.0), delete(1, 1), upsert(2, 1, math.nan)]]) == {}
    assert table.epoch([[upsert(0, 2, 2.0), delete(1, 2)]]) == {}
    assert table.epoch([]) == {}
    assert len(table.context.runs(table.plan.table)) == runs


def test_minus_zero_is_kept_bit_by_bit() -> None:
    """Else a view over text of the number would see another row go than came."""

    table = Table(source())
    seen: list[tuple[float, int]] = []
    for value in (0.0, -0.0, 0.0):
        inputs = keyed(table.arrange, messages(ROWS, [upsert(0, 1, value)]))
        for output in run(table.operator, table.context, inputs):
            assert isinstance(output.item, Delta)
            column = output.item.batch.column(0).to_pylist()
            seen += zip(column, output.item.explicit_weights().tolist(), strict=True)
    assert [(math.copysign(1, v), w) for v, w in seen] == [(1, 1), (1, -1), (-1, 1), (-1, -1), (1, 1)]


NESTED = (
    pa.list_(pa.float64()),
    pa.map_(TEXT, pa.int32()),
    pa.struct([("a", pa.list_(TEXT)), ("b", pa.float32())]),
    pa.list_(pa.struct([("x", pa.int8())])),
    pa.list_(pa.list_(pa.int32())),
)


def random_value(rng: random.Random, type_: pa.DataType) -> Any:
    """NULL, or a small value of a type."""
    if rng.random() < 0.2:
        return None
    if pa.types.is_map(type_):
        return [(key, random_value(rng, type_.item_type)) for key in rng.sample("abc", rng.randrange(3))]
    if pa.types.is_list(type_):
        return [random_value(rng, type_.value_type) for _ in range(rng.randrange(3))]
    if pa.types.is_struct(type_):
        return {f.name: random_value(rng, f.type) for f in type_}
    return rng.choice(("x", "y") if type_ == TEXT else (0.0, -0.0, 1.0) if pa.types.is_floating(type_) else (0, 1))


@pytest.mark.parametrize("type_", NESTED, ids=str)
def test_nested_columns(type_: pa.DataType, seed: int) -> None:
    """Rows whose nested values are what they were do not change; the others do."""
    rng = random.Random(seed)
    rows = Schema((Field("k", INT, False), Field("n", type_)))
    table = Table(source(rows, (0,)))
    before = [random_value(rng, type_) for _ in range(200)]
    after = [old if rng.random() < 0.5 else random_value(rng, type_) for old in before]
    for values in (before, after):
        batch = [(k, (1, (k, value))) for k, value in enumerate(values)]
        outputs = run(table.operator, table.context, keyed(table.arrange, messages(rows, batch)))
    came: dict[int, str] = {}
    for output in outputs:
        assert isinstance(output.item, Delta)
        columns = (c.to_pylist() for c in output.item.batch.columns)
        for k, new, weight in zip(*columns, output.item.explicit_weights(), strict=True):
            if weight > 0:
                came[k] = repr(new)
    changed = {k: repr(new) for k, (old, new) in enumerate(zip(before, after, strict=True)) if repr(old) != repr(new)}
    assert came == changed != {}


def test_batches_may_come_in_any_order() -> None:
    table = Table(source())
    found = table.epoch([[upsert(30, 1, 3.0)], [upsert(10, 1, 1.0), delete(40, 2)], [upsert(20, 2, 2.0)]])
    assert found == {(3.0, 1, None, "g", None, None): 1}


def test_all_keys_vanish_and_come_back() -> None:
    table = Table(source())
    table.epoch([[upsert(i, i, float(i)) for i in range(100)]])
    table.epoch([[delete(i, i) for i in range(100)]])
    assert table.contents() == {}
    table.merge_runs()
    assert sum(len(r) for r in table.context.runs(table.plan.table)) == 0, "nothing is left of dead keys"
    table.epoch([[upsert(i, i, 1.0) for i in range(100)]])
    assert len(table.contents()) == 100


@pytest.mark.parametrize("key", [(0,), (0, 1), (1, 0)])
def test_a_table_that_is_all_or_mostly_key(key: tuple[int, ...]) -> None:
    rows = Schema((Field("k", INT, False), Field("l", INT, len(key) == 1)))
    table = Table(source(rows, key))
    assert table.epoch([[(0, (1, (1, 2))), (1, (1, (1, 3)))]]) == (
        {(1, 3): 1} if len(key) == 1 else {(1, 2): 1, (1, 3): 1}
    )
    assert table.epoch([[(0, (1, (1, 3)))]]) == {}
    assert table.epoch([[(0, (-1, (1, 3)))]]) == {(1, 3): -1}
    assert weights(table) == ([] if len(key) == 1 else [1])


def weights(table: Table) -> list[int]:
    delta = read_view(table.plan, table.context.state(table.plan.table).before, single_row=False)
    return np.asarray(delta.explicit_weights()).tolist()
