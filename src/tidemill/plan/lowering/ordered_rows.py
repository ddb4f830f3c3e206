"""The steps of rows in an order: ORDER BY with LIMIT, and windows."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from tidemill.plan.algebra.aggregates import layout
from tidemill.plan.algebra.nodes import Aggregate, AggregateCall, Project, TopRows, Window
from tidemill.plan.algebra.window_names import partition_and_keys
from tidemill.plan.lowering.analysis.placement import ONE_PLACE
from tidemill.plan.lowering.steps import Steps
from tidemill.state.keys.keys import KeyColumn
from tidemill.state.merge.merge import MergeOp
from tidemill.task.aggregates.accumulators import AggregateLayout
from tidemill.task.aggregates.functions import lookup
from tidemill.task.program import Arrange, Input, StateTable, StoreKeyed, TopChanges, WindowChanges
from tidemill.task.program.window_calls import WindowCall


def top_rows(steps: Steps, node: TopRows, created_at_epoch: int) -> Input:
    """The step that gives the changes of the first rows in an order, all in one partition."""
    order = tuple(k.column for k in node.keys)
    columns = order + tuple(i for i in range(len(node.schema)) if i not in order)
    key = tuple(KeyColumn(node.schema.fields[k.column].type, k.descending, k.nulls_first) for k in node.keys) + tuple(
        KeyColumn(node.schema.fields[i].type) for i in columns[len(order) :]
    )
    source = steps.rows(node.child, created_at_epoch)
    name = f"top:{steps.identity(node)}:{created_at_epoch}"
    arrange = Arrange(columns, (), StateTable(name, key, 0, (pa.int64(),), (MergeOp.SUM,)))
    arranged = Input(steps.add(arrange, (source,), created_at_epoch))
    steps.keep(steps.add(StoreKeyed(arrange.table), (arranged,), created_at_epoch))
    moves = () not in steps.place(source)
    found = Input(steps.add(TopChanges(arrange, node.limit, node.offset), (arranged,), created_at_epoch, moves))
    steps.put(found, ONE_PLACE)
    return found


def window(steps: Steps, node: Window, created_at_epoch: int) -> Input:
    """The step that gives the changes of rows with window functions."""
    source = steps.rows(node.child, created_at_epoch)
    operation = window_changes(node, steps.window_names(node), created_at_epoch)
    arranged = Input(steps.add(operation.rows, (source,), created_at_epoch))
    steps.keep(steps.add(StoreKeyed(operation.rows.table), (arranged,), created_at_epoch))
    partition = operation.rows.columns[: operation.rows.table.distribution]
    moves = partition not in steps.place(source)
    found = Input(steps.add(operation, (arranged,), created_at_epoch, moves))
    steps.put(found, frozenset({partition}))
    return found


def window_changes(node: Window, names: tuple[str, str], created_at_epoch: int) -> WindowChanges:
    """The step that computes a node; the table of its rows is shared by all that order the same rows alike.

    Parameters
    ----------
    names : tuple of str
        Of the rows as they are ordered, and of the node.

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
