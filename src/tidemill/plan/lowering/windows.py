"""The program step of a window node: how its rows are arranged, and what its aggregates are made of."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from tidemill.plan.algebra.aggregates import layout
from tidemill.plan.algebra.nodes import Aggregate, AggregateCall, Project, Window
from tidemill.plan.algebra.window_names import partition_and_keys
from tidemill.state.keys.keys import KeyColumn
from tidemill.state.merge.merge import MergeOp
from tidemill.task.aggregates.accumulators import AggregateLayout
from tidemill.task.aggregates.functions import lookup
from tidemill.task.program import Arrange, StateTable, WindowChanges
from tidemill.task.program.window_calls import WindowCall


def window_changes(node: Window, names: tuple[str, str], created_at_epoch: int) -> WindowChanges:
    """The step that computes a node; the table of its rows is shared by all that order the same rows alike.

    Parameters
    ----------
    child : str
        Names the input.

    Raises
    ------
    TidemillError
        TM2102 for an aggregate of a type that is not supported.
    """
    fields = node.child.schema.fields
    partition, keys = partition_and_keys(node)
    head = (*partition, *(k.column for k in keys))
    columns = (*head, *(i for i in range(len(fields)) if i not in head))
    layouts = tuple(window_layout(node, call) if call.aggregates else None for call in node.calls)
    key = (
        *(KeyColumn(fields[c].type) for c in partition),
        *(KeyColumn(fields[k.column].type, k.descending, k.nulls_first) for k in keys),
        *(KeyColumn(fields[c].type) for c in columns[len(head) :]),
    )
    name, same = names
    table = StateTable(f"window:{name}:{created_at_epoch}", key, len(partition), (pa.int64(),), (MergeOp.SUM,))
    failing = replace(table, id=f"window_failing:{same}:{created_at_epoch}", key=table.key[: len(partition)])
    range_order = None
    if len(node.order) == 1:
        (only,) = node.order
        range_order = (only.column, KeyColumn(fields[only.column].type, only.descending, only.nulls_first))
    return WindowChanges(
        Arrange(columns, (), table),
        len(partition),
        len(keys),
        range_order,
        node.calls,
        layouts,
        failing,
        node.limit,
        node.limited,
    )


def window_layout(node: Window, call: WindowCall) -> AggregateLayout:
    """The accumulators of an aggregate function; its argument, if any, is column 0, the second one the last.

    Raises
    ------
    TidemillError
        TM2102 for an argument type that is not supported.
    """
    argument = 0 if call.arguments else None
    names = tuple(f"argument{i}" for i in range(len(call.arguments)))
    values = Project(node.child, call.arguments, names)
    others = (len(call.arguments) - 1,) if lookup(call.function).of_two else ()
    plain = AggregateCall(call.function, argument, call.type, call.nullable, False, others, call.options)
    return layout(Aggregate(values, (), (plain,), (call.function,)), append_only=False)
