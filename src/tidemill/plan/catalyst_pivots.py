"""PIVOT. Catalyst aggregates by the pivot column too, then puts the results of a group's values into an array.

The first of one row is as well its greatest, so each element becomes a MAX of the rows of its value.
"""

from __future__ import annotations

from tidemill.errors import TidemillError
from tidemill.plan.catalyst_tree import JsonTree


def without_pivot(node: JsonTree) -> JsonTree:
    """The expression with each ``PivotFirst`` as an array of conditional maxima.

    Raises
    ------
    TidemillError
        TM2102 when the pivot column is several, or one of its values NULL.
    """
    if node.name != "AggregateExpression" or node.children[0].name != "PivotFirst":
        return JsonTree(node.name, node.fields, tuple(without_pivot(c) for c in node.children))
    pivot = node.children[0]
    column, value = pivot.children
    values = pivot.fields["pivotColumnValues"]
    if not isinstance(column.fields.get("dataType"), str) or None in values:
        raise TidemillError(
            "TM2102",
            "this form of an aggregate function is not supported yet",
            got="PIVOT of several columns or of NULL",
            hint="write the columns as aggregates with FILTER (WHERE ...)",
        )
    elements = tuple(_maximum(node, column, value, v) for v in values)
    return JsonTree("CreateArray", {}, elements)


def _maximum(node: JsonTree, column: JsonTree, value: JsonTree, wanted: object) -> JsonTree:
    condition = JsonTree("InSet", {"hset": [wanted]}, (column,))
    argument = JsonTree("CaseWhen", {}, (condition, value))
    return JsonTree(node.name, node.fields, (JsonTree("Max", {}, (argument,)),))
