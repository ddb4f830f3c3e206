"""PIVOT as one aggregation with filters.

Catalyst aggregates by the groups and the pivoted column, and then puts the values of a group into an array:

    Aggregate [k] [pivotfirst(p, v, 'a', 'b')]         Aggregate [k] [array(sum(x) FILTER (WHERE p <=> 'a'),
      Aggregate [k, p] [p, sum(x) AS v]           ->                        sum(x) FILTER (WHERE p <=> 'b'))]
        t                                                t

A count of no rows is 0, but the value of a cell without rows is NULL, so where it matters a count of the cell's rows
is tested first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemill.errors import TidemillError
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.plan.catalyst.trees.tree import tree as read_tree

_NULL_WITHOUT_ROWS = frozenset(
    {"Sum", "Average", "Min", "Max", "VarianceSamp", "VariancePop", "StddevSamp", "StddevPop", "MinBy", "MaxBy"}
)


def has_pivot(outputs: Sequence[JsonTree]) -> bool:
    """Whether one of the expressions is the outer half of a PIVOT."""
    return any(node.name == "PivotFirst" or has_pivot(node.children) for node in outputs)


def unpivoted(
    below: JsonTree, groups: Sequence[JsonTree], outputs: Sequence[JsonTree]
) -> tuple[JsonTree, list[JsonTree], list[JsonTree]]:
    """Input, groups and results of the one aggregation that a PIVOT means.

    Parameters
    ----------
    below : JsonTree
        The plan node under the outer aggregate.
    groups, outputs : sequences of JsonTree
        Grouping and result expressions of the outer aggregate.

    Raises
    ------
    TidemillError
        TM2103 when the inner aggregate is not directly below.
    """
    values: dict[int, JsonTree] = {}
    projects = []
    while below.name == "Project":
        projects.append(below)
        below = below.children[0]
    if below.name != "Aggregate":
        raise TidemillError(
            "TM2103",
            "this part of a query is not supported yet in a materialized view",
            got="this form of PIVOT",
            hint="write it as aggregates with FILTER, one for each value",
        )
    for node in (below, *reversed(projects)):
        listed = node.fields["aggregateExpressions" if node is below else "projectList"]
        named = [read_tree(e) for e in listed]
        values = {e.id: _substituted(e.children[0] if e.name == "Alias" else e, values) for e in named}

    def replace(node: JsonTree) -> JsonTree:
        if node.name == "GetArrayItem" and _is_pivot(node.children[0]) and node.children[1].name == "Literal":
            return _cells(node.children[0].children[0], values)[int(node.children[1].fields["value"])]
        if _is_pivot(node):
            return JsonTree("CreateArray", {}, tuple(_cells(node.children[0], values)))
        return JsonTree(node.name, node.fields, tuple(replace(c) for c in node.children))

    results = []
    for output in outputs:
        if output.name == "AttributeReference":  # a group, which keeps its name and id
            results.append(JsonTree("Alias", output.fields, (values[output.id],)))
        else:
            results.append(_substituted(replace(output), values))
    return below.children[0], [_substituted(g, values) for g in groups], results


def _is_pivot(node: JsonTree) -> bool:
    return node.name == "AggregateExpression" and node.children[0].name == "PivotFirst"


def _substituted(node: JsonTree, values: dict[int, JsonTree]) -> JsonTree:
    if node.name == "AttributeReference":
        return values.get(node.id, node)
    return JsonTree(node.name, node.fields, tuple(_substituted(c, values) for c in node.children))


def _cells(pivot: JsonTree, values: dict[int, JsonTree]) -> list[JsonTree]:
    """The value of each cell of a group, in the order of the pivot's list."""
    column, value = pivot.children
    key, wanted = _substituted(column, values), _substituted(value, values)
    cells = []
    for constant in pivot.fields["pivotColumnValues"]:
        inside = JsonTree("EqualNullSafe", {}, (key, _literal(column.fields["dataType"], constant)))
        cell = _filtered(wanted, inside)
        if not (wanted.name == "AggregateExpression" and wanted.children[0].name in _NULL_WITHOUT_ROWS):
            counted = JsonTree("Count", {}, (_literal("integer", 1),))
            rows = JsonTree("AggregateExpression", {}, (counted, inside))
            some = JsonTree("GreaterThan", {}, (rows, _literal("long", 0)))
            cell = JsonTree("If", {}, (some, cell, _literal(value.fields["dataType"], None)))
        cells.append(cell)
    return cells


def _filtered(node: JsonTree, condition: JsonTree) -> JsonTree:
    """The expression with a further FILTER on each of its aggregates."""
    if node.name != "AggregateExpression":
        return JsonTree(node.name, node.fields, tuple(_filtered(c, condition) for c in node.children))
    function, *filters = node.children
    both = JsonTree("And", {}, (filters[0], condition)) if filters else condition
    return JsonTree(node.name, node.fields, (function, both))


def _literal(type_: Any, value: Any) -> JsonTree:
    return JsonTree("Literal", {"dataType": type_, "value": value, "nested": value}, ())
