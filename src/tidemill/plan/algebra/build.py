"""Building nodes and conditions of parts."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidemill.plan.algebra.nodes import Aggregate, Filter, Node, Project
from tidemill.task.expressions import Call, Expression, Literal, Ref


def columns_of(node: Node) -> tuple[Ref, ...]:
    """A reference to each column of a node."""
    return tuple(Ref(i, f.type, f.nullable) for i, f in enumerate(node.schema.fields))


def projection(child: Node, columns: Sequence[Expression]) -> Node:
    """A projection to ``columns``, or the child itself where these are its columns."""
    fields = child.schema.fields
    if len(columns) == len(fields) and all(isinstance(c, Ref) and c.index == i for i, c in enumerate(columns)):
        return child
    names = tuple(fields[c.index].name if isinstance(c, Ref) else f"column{i}" for i, c in enumerate(columns))
    return Project(child, tuple(columns), names)


def filtered(node: Node, parts: Sequence[Expression]) -> Node:
    """The node's rows for which all parts hold; a filter on top of the node is extended."""
    if isinstance(node, Filter):
        known = conjuncts(node.condition)
        parts, node = [*known, *(p for p in parts if p not in known)], node.child
    condition = conjunction(parts)
    return node if condition is None else Filter(node, condition)


def conjuncts(condition: Expression) -> list[Expression]:
    """The parts of a conjunction."""
    return _parts(condition, "and")


def disjuncts(condition: Expression) -> list[Expression]:
    """The parts of a disjunction."""
    return _parts(condition, "or")


def _parts(condition: Expression, function: str) -> list[Expression]:
    if isinstance(condition, Call) and condition.function == function:
        return [part for arg in condition.args for part in _parts(arg, function)]
    return [condition]


def conjunction(parts: Sequence[Expression]) -> Expression | None:
    """All parts joined by AND; None for no part."""
    if not parts:
        return None
    result = parts[0]
    for part in parts[1:]:
        result = Call("and", (result, part), pa.bool_(), True)
    return result


def null_test(function: str, argument: Expression) -> Call:
    """``argument IS NULL`` or ``IS NOT NULL``: ``function`` is ``is_null`` or ``is_not_null``."""
    return Call(function, (argument,), pa.bool_(), False)


def where(condition: Expression | None, value: Expression) -> Expression:
    """The value where the condition holds, NULL elsewhere; without a condition the value."""
    return value if condition is None else Call("case", (condition, value, Literal(None, value.type)), value.type, True)


def gives_one_row(node: Node) -> bool:
    """Whether a node has exactly one row, whatever the input."""
    while isinstance(node, Project):
        node = node.child
    return isinstance(node, Aggregate) and not node.keys
