"""A condition above an inner join moves into the join, or below it when one side decides it.

    Filter (a > 0 AND a > 2 * s)              Join on a > 2 * s
      Join ()                         ->        Filter (a > 0)
        Scan t [a]                                Scan t [a]
        Aggregate [] sum AS s                   Aggregate [] sum AS s

Spark has done this for its own joins; joins with scalar subqueries are made later. A part that can fail for a row
stays above, where it is only evaluated for joined rows.
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.plan.algebra.build import conjunction, conjuncts, filtered
from tidemill.plan.algebra.nodes import Filter, Join, Node, Project
from tidemill.plan.algebra.traverse import map_children
from tidemill.task.expressions import Expression, Ref, references, remap, substitute
from tidemill.task.functions.evaluate import can_fail


def filters_into_joins(node: Node) -> Node:
    """Move conditions, bottom-up."""
    return _moved(map_children(node, filters_into_joins))


def _moved(node: Node) -> Node:
    if isinstance(node, Filter) and isinstance(node.child, Project):
        return _below_projection(node, node.child)
    if (
        isinstance(node, Join)
        and node.residual is not None
        and any(_one_sided(node, p) for p in conjuncts(node.residual))
    ):
        node = Filter(replace(node, residual=None), node.residual)
    if not isinstance(node, Filter) or not isinstance(node.child, Join):
        return node
    join = node.child
    width = len(join.left.schema)
    left: list[Expression] = []
    right: list[Expression] = []
    both: list[Expression] = []
    above: list[Expression] = []
    for part in conjuncts(node.condition):
        used = references(part)
        if can_fail(part) or not used:
            above.append(part)
        elif max(used) < width:
            left.append(part)
        elif min(used) >= width:
            right.append(remap(part, {i: i - width for i in used}))
        else:
            both.append(part)
    if join.residual is not None:
        both = [join.residual, *both]
    moved: Node = replace(
        join,
        left=_moved(filtered(join.left, left)),
        right=_moved(filtered(join.right, right)),
        residual=conjunction(both),
    )
    return filtered(moved, above)


def _one_sided(join: Join, part: Expression) -> bool:
    used, width = references(part), len(join.left.schema)
    return bool(used) and (max(used) < width or min(used) >= width) and not can_fail(part)


def _below_projection(node: Filter, project: Project) -> Node:
    """A condition on plain columns of a projection is one on what is below it."""
    columns = project.expressions
    if can_fail(node.condition) or not all(isinstance(columns[i], Ref) for i in references(node.condition)):
        return node
    moved = filtered(project.child, conjuncts(substitute(node.condition, columns)))
    return Project(_moved(moved), columns, project.names)
