"""Runs one operator through one epoch, as a driver does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from tidemill.state.keys.keys import KeyColumn
from tidemill.state.merge.merge import merge
from tidemill.task.aggregates.accumulators import Accumulator, AggregateLayout, Result
from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Delta, Item, Keyed
from tidemill.task.dataflow.operator import Operator, Output
from tidemill.task.program import Arrange, GroupPartial, Operation, StateTable, multiset_table
from tidemill.testing import MemoryContext, Row, delta, keyed_rows, weighted_rows

INT, TEXT = pa.int64(), pa.string()


def run(operator: Operator, context: MemoryContext, inputs: Iterable[tuple[Item, int]] = ()) -> list[Output]:
    """One epoch: give the inputs, drain, seal; returns what came out in order."""
    outputs: list[Output] = []
    operator.begin(context)
    for item, port in inputs:
        operator.add_input(item, port)
        outputs += _all_of(operator)
    if operator.start_drain():
        outputs += _all_of(operator)
    assert operator.get_output() is None
    context.seal()
    return outputs


def run_stored(
    operator: Operator, context: MemoryContext, tables: Sequence[StateTable], inputs: Iterable[tuple[Item, int]] = ()
) -> list[Output]:
    """As :func:`run`, with the rows of each input port stored in its table beside, as a program does."""
    given = list(inputs)
    for item, port in given:
        assert isinstance(item, Keyed)
        context.write(tables[port], item.rows)
    return run(operator, context, given)


def _all_of(operator: Operator) -> list[Output]:
    found = []
    while (output := operator.get_output()) is not None:
        found.append(output)
    return found


def keyed(operation: Operation, *deltas: Delta) -> list[tuple[Keyed, int]]:
    """What an operation with keyed output makes of some rows: (item, port) as the next operator takes them."""
    outputs = run(build(0, operation), MemoryContext(), [(d, 0) for d in deltas])
    return [(o.item, o.port) for o in outputs if isinstance(o.item, Keyed)]


def changes(outputs: Iterable[Output]) -> dict[Row, int]:
    """All rows of some outputs with their net weights."""
    total: dict[Row, int] = {}
    for output in outputs:
        assert isinstance(output.item, Delta)
        for row, weight in weighted_rows(output.item).items():
            total[row] = total.get(row, 0) + weight
    return {row: weight for row, weight in total.items() if weight}


def merged(table: StateTable, context: MemoryContext) -> list[Row]:
    """The rows of a state table, as a reader sees them."""
    runs = context.runs(table)
    return keyed_rows(table, merge(runs, table.ops, drop_zero=True)) if runs else []


def arranged(name: str, columns: tuple[int, ...], types: tuple[pa.DataType, ...], keys: int = 1) -> Arrange:
    """Columns in this order, the first ``keys`` of them the join key, which must not be NULL."""
    return Arrange(columns, columns[:keys], multiset_table(name, tuple(types[c] for c in columns), keys))


def grouping(*accumulators: Accumulator, results: tuple[Result, ...], keys: int = 1) -> GroupPartial:
    """Groups rows (k bigint, v bigint) by k, or as a whole with ``keys=0``."""
    types = (INT, INT)
    multisets = tuple(dict.fromkeys(a.multiset for a in accumulators if a.multiset is not None))
    layout = AggregateLayout((Accumulator("rows"), *accumulators), results, multisets)
    groups = StateTable(
        "groups", tuple(KeyColumn(INT) for _ in range(keys)), keys, layout.value_types(types), layout.merge_ops()
    )
    tables = tuple(
        multiset_table(f"values{m.columns}", (INT,) * (keys + len(m.columns)), keys) for m in layout.multisets
    )
    return GroupPartial(tuple(range(keys)), layout, types, groups, tables)


def pairs(text: str) -> Delta:
    """Rows (bigint, bigint)."""
    return delta(text, INT, INT)
