"""Scalar subqueries: columns of a cross join with the one row that each gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidemill.errors import TidemillError
from tidemill.plan.algebra import Aggregate, Node, Project, Scan
from tidemill.plan.catalyst_joins import build_join, projection
from tidemill.plan.catalyst_places import passing
from tidemill.plan.catalyst_tree import JsonTree
from tidemill.plan.codec import spark_type
from tidemill.task.expressions import Ref

ONE_ROW = Scan("", ())
"""Stands for the row of a query without FROM, until a subquery gives one."""


def with_subqueries(
    child: Node, inputs: Mapping[int, int], expressions: list[JsonTree], read: Callable[[Any], Node]
) -> tuple[Node, dict[int, int], list[JsonTree]]:
    """The input with a column for each scalar subquery, and the expressions over it.

    Parameters
    ----------
    child : Node
        What the expressions are over; ``ONE_ROW`` in a query without FROM.
    inputs : mapping
        Position of the column of each Catalyst attribute.
    read : callable
        The algebra of a subquery's plan.

    Raises
    ------
    TidemillError
        TM2103 for a subquery that is correlated or may give several rows, and for a query without FROM or subquery.
    """
    node, found = child, dict(inputs)

    def replace(tree: JsonTree) -> JsonTree:
        if tree.name != "ScalarSubquery":
            return JsonTree(tree.name, tree.fields, tuple(replace(c) for c in tree.children))
        with passing(tree):
            return column(_row(tree, read))

    def column(row: Node) -> JsonTree:
        nonlocal node
        field = row.schema.fields[0]
        value = projection(row, [Ref(0, field.type, True)])
        position = 0 if node == ONE_ROW else len(node.schema)
        node = value if node == ONE_ROW else build_join("Inner", node, value, [])
        identity = -1000 - position
        found[identity] = position
        fields = {
            "name": "subquery",
            "dataType": spark_type(field.type),
            "nullable": True,
            "exprId": {"id": identity},
        }
        return JsonTree("AttributeReference", fields, ())

    replaced = [replace(e) for e in expressions]
    if node == ONE_ROW:
        raise TidemillError(
            "TM2103", "a view must read a table or a view", got="SELECT without FROM", hint="put constants into a table"
        )
    return node, found, replaced


def _row(tree: JsonTree, read: Callable[[Any], Node]) -> Node:
    if tree.children:
        raise TidemillError(
            "TM2103",
            "this correlated subquery is not supported",
            got="a subquery that reads columns of the query around it",
            hint="write it as a join",
        )
    row = read(tree.fields["plan"])
    if not _gives_one_row(row):
        raise TidemillError(
            "TM2103",
            "a scalar subquery must be an aggregate without GROUP BY",
            got="a query that may give no row, or several",
            hint="max(x) or min_by(x, order), so that it gives one row whatever the input",
        )
    return row


def _gives_one_row(node: Node) -> bool:
    while isinstance(node, Project):
        node = node.child
    return isinstance(node, Aggregate) and not node.keys
