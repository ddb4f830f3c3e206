"""Columns that Spark's plan reads as another type than they have.

Spark's analyser may give a column a type before it converts the arguments of its expression: ``nanvl(a, 0D)`` of a
FLOAT column stays FLOAT above a QUALIFY, though its values are DOUBLE. Spark then reads the bytes of one type as
the other, so its answer is wrong, and no view can equal what the query means.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.algebra.nodes import Filter, Generate, Join, Node, Project, Window, children
from tidemill.schema import Schema, type_to_ddl
from tidemill.task.expressions import Expression, Ref, walk


def check_input_types(root: Node) -> None:
    """Check the columns that expressions read. Nested types are not compared: they differ in what may be NULL.

    Raises
    ------
    TidemillError
        TM2103 for a column that has another type.
    """
    for expressions, inputs in _read(root):
        for read in (e for expression in expressions for e in walk(expression) if isinstance(e, Ref)):
            field = inputs.fields[read.index]
            if read.type != field.type and not pa.types.is_nested(read.type):
                raise TidemillError(
                    "TM2103",
                    "Spark's plan reads a column as another type than it has",
                    got=f"{field.name} of type {type_to_ddl(field.type)}, read as {type_to_ddl(read.type)}",
                    hint="Spark gives wrong values here: convert the arguments to one type, such as CAST(0 AS FLOAT)",
                )


def _read(root: Node) -> Iterator[tuple[tuple[Expression, ...], Schema]]:
    """The expressions of a node and all below it, with the columns that they are over; of equal objects once."""
    seen: set[int] = set()
    left = [root]
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        left += children(node)
        match node:
            case Project():
                yield node.expressions, node.child.schema
            case Filter():
                yield (node.condition,), node.child.schema
            case Generate():
                yield (node.argument,), node.child.schema
            case Window():
                yield tuple(argument for call in node.calls for argument in call.arguments), node.child.schema
            case Join(residual=residual) if residual is not None:
                yield (residual,), node.schema
            case _:
                pass
