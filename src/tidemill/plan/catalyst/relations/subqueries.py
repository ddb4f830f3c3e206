"""Scalar subqueries and EXISTS without correlation: columns of a cross join with the one row that each gives.

Catalyst turns ``EXISTS (q)`` into ``(SELECT true FROM q LIMIT 1) IS NOT NULL``. Of rows that are all alike it does not
matter which one is taken, and the greatest of at most one value is that value, or NULL where there is none. Where a
subquery may give several rows they are counted, and more than one make the view fail as long as they are there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.algebra.build import gives_one_row, projection
from tidemill.plan.algebra.codec import spark_type
from tidemill.plan.algebra.nodes import (
    Aggregate,
    AggregateCall,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    SemiJoin,
    SortKey,
    TopRows,
    Union,
    Window,
)
from tidemill.plan.catalyst.relations.joins import build_join
from tidemill.plan.catalyst.trees.places import passing
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.plan.catalyst.trees.tree import tree as read_tree
from tidemill.task.aggregates.extremes import ONLY
from tidemill.task.expressions import Expression, Literal, Ref

ONE_ROW = Scan("", ())
"""The row of a query without FROM, replaced by the first subquery."""


def with_subqueries(
    child: Node, inputs: Mapping[int, int], expressions: list[JsonTree], read: Callable[[JsonTree], Node]
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
        TM2103 for a subquery that is correlated, and for a query without FROM or subquery.
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


def _row(tree: JsonTree, read: Callable[[JsonTree], Node]) -> Node:
    if tree.children:
        raise TidemillError(
            "TM2103",
            "this correlated subquery is not supported",
            got="a subquery that reads columns of the query around it",
            hint="write it as a join",
        )
    plan = read_tree(tree.fields["plan"])
    found = exists_of(plan)
    return one_value(read(plan)) if found is None else any_value(read(found))


def at_most_one_row(node: Node) -> bool:
    """Whether there is one row or none, whatever the input."""
    while isinstance(node, Project | Filter):
        node = node.child
    return gives_one_row(node) or (isinstance(node, TopRows) and (node.limit == 1 or at_most_one_row(node.child)))


def most_rows(node: Node) -> int | None:
    """How many rows there are at most, whatever the input; None where there is no bound."""
    match node:
        case Project() | Filter() | Window():
            return most_rows(node.child)
        case Aggregate():
            return most_rows(node.child) if node.keys else 1
        case SemiJoin():
            return most_rows(node.left)
        case TopRows():
            below = most_rows(node.child)
            return below if node.limit is None else node.limit if below is None else min(below, node.limit)
        case Join() | Union():
            sides = (node.left, node.right) if isinstance(node, Join) else node.children
            bounds = [b for b in map(most_rows, sides) if b is not None]
            if len(bounds) < len(sides):
                return None
            return math.prod(bounds) if isinstance(node, Join) else sum(bounds)
    return None


def rows_alike(node: Node) -> bool:
    """Whether there is at most one row, or all rows are the same constants."""
    return _constants(node) is not None or at_most_one_row(node)


def _constants(node: Node) -> tuple[Expression, ...] | None:
    """The columns of all rows, where they are the same in each."""
    while isinstance(node, Filter):
        node = node.child
    if isinstance(node, Project) and all(isinstance(e, Literal) for e in node.expressions):
        return node.expressions
    if isinstance(node, Union):
        first, *others = (_constants(n) for n in node.children)
        return first if all(o == first for o in others) else None
    return None


def some_rows(node: Node, limit: int | None, offset: int) -> Node:
    """LIMIT where all rows are equal, or never more than it: Catalyst drops an ORDER BY that orders nothing.

    Raises
    ------
    TidemillError
        TM2105 where the rows differ.
    """
    most = most_rows(node)
    if not offset and limit is not None and most is not None and most <= limit:
        return node
    if not rows_alike(node):
        raise TidemillError(
            "TM2105",
            "LIMIT without ORDER BY is not decided by the rows",
            got=f"LIMIT {limit}" if limit is not None else f"OFFSET {offset}",
            hint="add ORDER BY",
        )
    return TopRows(node, tuple(SortKey(i, False, True) for i in range(len(node.schema.fields))), limit, offset)


def one_value(node: Node) -> Node:
    """The value of a scalar subquery, in one row; where there may be several rows their number is checked.

    Raises
    ------
    TidemillError
        TM2103 for a map that is not an aggregate's.
    """
    if gives_one_row(node):
        return node
    type_ = node.schema.fields[0].type
    if pa.types.is_map(type_):
        raise TidemillError(
            "TM2103",
            "a scalar subquery that gives a map must give one row at most",
            got="a query that may give several rows",
            hint="an aggregate without GROUP BY",
        )
    value = projection(node, [Ref(0, type_, True)])
    return _greatest(value, "max" if at_most_one_row(node) else ONLY)


def exists_of(plan: JsonTree) -> JsonTree | None:
    """The query of an EXISTS: the input of LIMIT 1 in a subquery of the constant true; None for any other subquery."""
    constant, limited = False, False
    while True:
        if plan.name == "Project" and not constant and not limited:
            constant = _is_true(plan)
        elif plan.name == "GlobalLimit" and not limited:
            (bound,) = plan.fields["limitExpr"]
            limited = str(bound["value"]) == "1"
            if not limited:
                return None
        elif plan.name == "LocalLimit" and limited:
            pass
        else:
            break
        plan = plan.children[0]
    if limited and not constant and plan.name == "Project":
        constant = _is_true(plan)
    return plan if constant and limited else None


def any_value(node: Node) -> Node:
    """True where there are rows, else NULL, in one row."""
    return _greatest(projection(node, [Literal(True, pa.bool_())]))


def _is_true(project: JsonTree) -> bool:
    outputs = [read_tree(o) for o in project.fields["projectList"]]
    if len(outputs) != 1 or outputs[0].name != "Alias":
        return False
    value = outputs[0].children[0]
    return value.name == "Literal" and value.fields["value"] == "true" and value.fields["dataType"] == "boolean"


def _greatest(node: Node, function: str = "max") -> Node:
    type_ = node.schema.fields[0].type
    return Aggregate(node, (), (AggregateCall(function, 0, type_, True),), (f"{function}0",))
