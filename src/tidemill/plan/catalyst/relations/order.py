"""Operators of Catalyst that rely on the order of the rows below them, which a set of rows does not have.

A LIMIT takes the first rows of what a Sort has put in order. Catalyst makes a window out of a LIMIT in a correlated
subquery, and when the column of its ORDER BY is not in the output that window has no order of its own:

    Filter (rn <= 3)                                 Filter (rn <= 3)
      Window [row_number() AS rn] by k      ->         Window [row_number() AS rn] by k order v
        Project [id, k]                                  Project [id, v, k]
          Sort [v]
            Project [id, v, k]

So the keys of the Sort are carried up, with the columns that they need, to the operator that relies on
them. An operator that relies on a missing order is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.algebra.build import columns_of, projection
from tidemill.plan.algebra.nodes import Filter, Node, SortKey, TopRows
from tidemill.plan.catalyst.expressions.expressions import translate
from tidemill.plan.catalyst.trees.tree import JsonTree, aggregate_calls, attribute_id, trees
from tidemill.task.expressions import Expression, Literal

_LIMITS = ("GlobalLimit", "LocalLimit", "Offset")
_KEEP_ORDER = ("Project", "Filter", "SubqueryAlias", "Generate", *_LIMITS)
_FOLLOW_ORDER = {"CollectList": "collect_list", "ListAgg": "listagg", "First": "first", "Last": "last"}


class Reader(Protocol):
    """Reads plans below."""

    def rows(self, tree: JsonTree) -> tuple[Node, Mapping[int, int]]:
        """The algebra of a plan, and where each Catalyst attribute is in its output."""

    def subqueries(
        self, node: Node, inputs: Mapping[int, int], expressions: list[JsonTree]
    ) -> tuple[Node, Mapping[int, int], list[JsonTree]]:
        """The node with a column for each scalar subquery behind its own, and the expressions over it."""


@dataclass(frozen=True)
class Ordered:
    """Rows that have an order.

    Attributes
    ----------
    inputs : mapping
        Where each Catalyst attribute is.
    keys : tuple of SortKey
        The order; its columns need not be in the plan's output.
    output : tuple of int
        The columns of the plan, in its order.
    """

    node: Node
    inputs: Mapping[int, int]
    keys: tuple[SortKey, ...]
    output: tuple[int, ...]


def sort_keys(orders: list[JsonTree], positions: list[int]) -> tuple[SortKey, ...]:
    """Catalyst's sort orders, whose values are the columns at ``positions``."""
    return tuple(
        SortKey(
            position,
            "Descending" in str(order.fields["direction"]),
            "NullsFirst" in str(order.fields["nullOrdering"]),
        )
        for order, position in zip(orders, positions, strict=True)
    )


def bounds(tree: JsonTree) -> tuple[int | None, int, JsonTree]:
    """Limit and offset that a chain of limits and offsets is together, and what is below it."""
    limit: int | None = None
    offset = 0
    while tree.name in _LIMITS:
        (bound,) = trees(tree.fields["offsetExpr" if tree.name == "Offset" else "limitExpr"])
        number = int(bound.fields["value"])
        if tree.name == "Offset":
            offset += number
        elif tree.name == "GlobalLimit":
            limit = max(0, number - offset) if limit is None else max(0, min(limit, number - offset))
        tree = tree.children[0]
    return limit, offset, tree


def ordered(tree: JsonTree, reader: Reader) -> Ordered | None:
    """A plan's rows with the order that a Sort in it gives them; None when no Sort orders all rows.

    SORT BY orders the rows of each partition of Spark, which is no order of the rows.
    """
    if tree.name == "Sort":
        return _sorted(tree, reader) if tree.fields["global"] else None
    if tree.name not in ("Project", "Filter", "SubqueryAlias", *_LIMITS):
        return None
    limit, offset, child = bounds(tree)
    below = ordered(child if tree.name in _LIMITS else tree.children[0], reader)
    if below is None:
        return None
    match tree.name:
        case "Project":
            return _projected(tree, below, reader)
        case "Filter":
            return _filtered(tree, below, reader)
        case "SubqueryAlias":
            return below
    return Ordered(first_rows(below, limit, offset), below.inputs, below.keys, below.output)


def first_rows(rows: Ordered, limit: int | None, offset: int) -> Node:
    """LIMIT and OFFSET of rows in their order."""
    if limit == 0:
        return Filter(rows.node, Literal(False, pa.bool_()))
    return rows.node if limit is None and not offset else TopRows(rows.node, rows.keys, limit, offset)


def _sorted(tree: JsonTree, reader: Reader) -> Ordered:
    node, inputs = reader.rows(tree.children[0])
    columns: list[Expression] = [*columns_of(node)]
    output = tuple(range(len(columns)))
    below, found, orders = reader.subqueries(node, inputs, trees(tree.fields["order"]))
    positions = []
    for order in orders:
        value = translate(order.children[0], found)
        if value not in columns:
            columns.append(value)
        positions.append(columns.index(value))
    return Ordered(projection(below, columns), inputs, sort_keys(orders, positions), output)


def _projected(tree: JsonTree, below: Ordered, reader: Reader) -> Ordered:
    """All columns below, among them the sort keys, and those of the projection."""
    columns: list[Expression] = [*columns_of(below.node)]
    node, found, outputs = reader.subqueries(below.node, below.inputs, trees(tree.fields["projectList"]))
    inputs, places = {}, []
    for output in outputs:
        value = translate(output, found)
        if value not in columns:
            columns.append(value)
        places.append(columns.index(value))
        inputs[output.id] = places[-1]
    return Ordered(projection(node, columns), inputs, below.keys, tuple(places))


def _filtered(tree: JsonTree, below: Ordered, reader: Reader) -> Ordered:
    node, found, (condition,) = reader.subqueries(below.node, below.inputs, trees(tree.fields["condition"]))
    kept = projection(Filter(node, translate(condition, found)), columns_of(below.node))
    return Ordered(kept, below.inputs, below.keys, below.output)


def check_aggregates(tree: JsonTree, outputs: list[JsonTree]) -> None:
    """Refuse lists, first and last values of rows that a Sort has put in order, when that decides their result.

    So does a window of which the first rows are taken, where the groups are its partitions: Catalyst makes one of
    ORDER BY with LIMIT in a correlated subquery.

    Raises
    ------
    TidemillError
        TM2105.
    """
    calls = [c for o in outputs for c in aggregate_calls(o) if _follows(c.children[0])]
    order = _order_below(tree) if calls else None
    for call in calls if order is not None else ():
        function = call.children[0]
        if function.name == "CollectList" and _by_value(order, function):
            continue
        error = TidemillError(
            "TM2105",
            "an aggregate does not follow the ORDER BY of a subquery",
            got=f"{_FOLLOW_ORDER[function.name]} over rows in an order",
            hint="min_by, max_by, or array_sort(collect_list(struct(order, value)))",
        )
        if "java" in call.fields:
            error.passed.append((call.fields["java"].node, False))
        raise error


def _follows(function: JsonTree) -> bool:
    """Whether the value depends on the order in which rows come: listagg has children for an order of its own."""
    return function.name in _FOLLOW_ORDER and not (function.name == "ListAgg" and len(function.children) > 2)


@dataclass(frozen=True)
class _Order:
    """The sort orders of all rows, or (``every`` is False) of the rows of each partition."""

    orders: list[JsonTree]
    every: bool


def _order_below(aggregate: JsonTree) -> _Order | None:
    """The order in which the rows of each group come."""
    tree, conditions = aggregate.children[0], 0
    groups = {attribute_id(e) for e in trees(aggregate.fields["groupingExpressions"])}
    while tree.name in _KEEP_ORDER:
        conditions += tree.name == "Filter"
        if tree.name == "Project":
            renamed: dict[int | None, int | None] = {o.id: attribute_id(o.children[0]) for o in _aliases(tree)}
            groups = {renamed.get(g, g) for g in groups}
        tree = tree.children[0]
    if tree.name == "Sort":
        return _Order(trees(tree.fields["order"]), bool(tree.fields["global"]))
    if tree.name != "Window" or not conditions:
        return None
    numbered = any(_numbers(e) for e in trees(tree.fields["windowExpressions"]))
    if not numbered or groups != {attribute_id(e) for e in trees(tree.fields["partitionSpec"])}:
        return None
    own = trees(tree.fields["orderSpec"])
    while not own and tree.name in ("Window", *_KEEP_ORDER):
        tree = tree.children[0]
    if own:
        return _Order(own, True)
    return _Order(trees(tree.fields["order"]), bool(tree.fields["global"])) if tree.name == "Sort" else None


def _aliases(project: JsonTree) -> list[JsonTree]:
    return [o for o in trees(project.fields["projectList"]) if o.name == "Alias"]


def _numbers(tree: JsonTree) -> bool:
    return tree.name == "RowNumber" or any(map(_numbers, tree.children))


def _by_value(order: _Order | None, function: JsonTree) -> bool:
    """Whether the rows are in the ascending order of the values, which lists are in anyway."""
    assert order is not None
    value, first = function.children[0], order.orders[0]
    column = first.children[0]
    return (
        order.every
        and value.name == column.name == "AttributeReference"
        and value.id == column.id
        and "Ascending" in str(first.fields["direction"])
    )
