"""A join with one row sinks to the input that its condition reads, so that fewer rows are compared with it.

    Join on b.s > limit                     Join on a.k = b.k
      Join on a.k = b.k                       a [k, x]
        a [k, x]                     ->       Join on b.s > limit
        b [k, s]                                b [k, s]
      Aggregate [] max AS limit                 Aggregate [] max AS limit

It goes through projections and into every part of a union, where an outer join's NULLs may decide the condition.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from tidemill.plan.algebra.build import conjuncts, gives_one_row
from tidemill.plan.algebra.nodes import Join, Node, Project, Union
from tidemill.plan.algebra.traverse import map_children
from tidemill.plan.rules.filters_into_joins import filters_into_joins
from tidemill.task.expressions import Call, Expression, Literal, Ref, references, remap, substitute, walk
from tidemill.task.functions.evaluate import can_fail

_UNUSED = Literal(None, pa.null())


def one_row_joins(node: Node) -> Node:
    """Sink joins with one row, bottom-up."""
    node = map_children(node, one_row_joins)
    if not isinstance(node, Join) or node.left_keys or node.residual is None or not gives_one_row(node.right):
        return node
    return node if can_fail(node.residual) else _sunk(node.left, node.right, node.residual)


def _sunk(node: Node, row: Node, condition: Expression) -> Node:
    """``node`` joined with the row: the columns of both."""
    width, extra = len(node.schema), len(row.schema)
    match node:
        case Union():
            return Union(tuple(_sunk(child, row, condition) for child in node.children))
        case Project() if _goes_through(node.child):
            below = len(node.child.schema)
            columns = tuple(Ref(below + i, f.type, f.nullable) for i, f in enumerate(row.schema))
            moved = simplified(substitute(condition, (*node.expressions, *columns)))
            names = (*node.names, *row.schema.names)
            return Project(_sunk(node.child, row, moved), (*node.expressions, *columns), names)
        case Join():
            left = len(node.left.schema)
            used = [i for i in references(condition) if i < width]
            if used and min(used) >= left:
                below_right = remap(condition, {i: i - left for i in references(condition)})
                return replace(node, right=_sunk(node.right, row, below_right))
            if used and max(used) < left:
                return _into_left(node, row, condition, left, width, extra)
    return filters_into_joins(Join(node, row, (), (), (), _with_constants(node, condition)))


def _with_constants(node: Node, condition: Expression) -> Expression:
    """The condition with the constant columns of a projection substituted."""
    if not isinstance(node, Project):
        return condition
    inputs: dict[int, Expression] = {e.index: e for e in walk(condition) if isinstance(e, Ref)}
    inputs |= {i: e for i, e in enumerate(node.expressions) if isinstance(e, Literal)}
    return simplified(substitute(condition, tuple(inputs.get(i, _UNUSED) for i in range(max(inputs, default=0) + 1))))


def _into_left(node: Join, row: Node, condition: Expression, left: int, width: int, extra: int) -> Node:
    below = remap(condition, {i: i if i < left else i - width + left for i in references(condition)})
    residual = node.residual
    if residual is not None:
        residual = remap(residual, {i: i if i < left else i + extra for i in references(residual)})
    joined = replace(node, left=_sunk(node.left, row, below), residual=residual)
    order = [*range(left), *range(left + extra, width + extra), *range(left, left + extra)]
    fields = joined.schema.fields
    columns = tuple(Ref(i, fields[i].type, fields[i].nullable) for i in order)
    return Project(joined, columns, tuple(fields[i].name for i in order))


def _goes_through(node: Node) -> bool:
    while isinstance(node, Project):
        node = node.child
    return isinstance(node, Join | Union)


def simplified(expression: Expression) -> Expression:
    """The expression without the tests for NULL that constants decide."""
    if not isinstance(expression, Call):
        return expression
    args = tuple(simplified(a) for a in expression.args)
    call = Call(expression.function, args, expression.type, expression.nullable, expression.options)
    match call.function:
        case "is_null" | "is_not_null" if isinstance(args[0], Literal) or not args[0].nullable:
            null = isinstance(args[0], Literal) and args[0].value is None
            return Literal(null == (call.function == "is_null"), pa.bool_())
        case "coalesce":
            kept = [a for a in args if not (isinstance(a, Literal) and a.value is None)]
            first = next((i for i, a in enumerate(kept) if not a.nullable), None)
            kept = kept if first is None else kept[: first + 1]
            if not kept:
                return Literal(None, call.type)
            return kept[0] if len(kept) == 1 else Call("coalesce", tuple(kept), call.type, call.nullable)
        case "case" | "if":
            return _simplified_case(call)
        case "and":
            parts = [p for p in conjuncts(call) if p != Literal(True, pa.bool_())]
            if not parts:
                return Literal(True, pa.bool_())
            return parts[0] if len(parts) == 1 else Call("and", tuple(parts), call.type, call.nullable)
    return call


def _simplified_case(call: Call) -> Expression:
    kept: list[Expression] = []
    for i in range(0, len(call.args) - 1, 2):
        condition, value = call.args[i], call.args[i + 1]
        if isinstance(condition, Literal):
            if condition.value is not True:
                continue
            kept.append(value)
            break
        kept += [condition, value]
    else:
        kept.append(call.args[-1] if len(call.args) % 2 else Literal(None, call.type))
    return kept[0] if len(kept) == 1 else Call("case", tuple(kept), call.type, call.nullable)
