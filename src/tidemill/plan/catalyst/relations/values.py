"""Constant rows of a query: VALUES, ``range()`` and SELECT without FROM.

They are the elements of a constant array over the one row of an aggregate without GROUP BY, which exists whatever the
input. So constants come with the first epoch of a view, stay, and need no operator of their own::

    Generate[inline(array(struct(1, 'a'), struct(2, 'b')))]
      Aggregate[count(*)]
        Filter[false]
          Scan[any table of the query]
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.algebra.nodes import Aggregate, AggregateCall, Filter, Generate, Node, Scan
from tidemill.plan.catalyst.expressions.nested import constant_expression
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.schema import Field, type_from_spark
from tidemill.task.expressions import Call, Expression, Literal

_MOST_ROWS = 10_000


def base_of(nodes: Any) -> dict[str, Any] | None:
    """The first leaf of a plan, as JSON, that is a relation; subqueries are looked into."""
    if isinstance(nodes, dict):
        if str(nodes.get("class", "")).endswith(".LogicalRDD") and "rddId" in nodes:
            return nodes
        nodes = [value for name, value in nodes.items() if name != "java"]
    if isinstance(nodes, list):
        return next((found for found in map(base_of, nodes) if found is not None), None)
    return None


def one_row(base: Node | None) -> Node:
    """One row, whatever the input.

    Raises
    ------
    TidemillError
        TM2103 when the query reads no table: ``base`` is None.
    """
    if base is None:
        raise TidemillError(
            "TM2103", "a view must read a table or a view", got="only constants", hint="put constants into a table"
        )
    none = Filter(base, Literal(False, pa.bool_()))
    return Aggregate(none, (), (AggregateCall("count", None, pa.int64(), False),), ("count0",))


def values(tree: JsonTree, attributes: list[JsonTree], base: Node | None) -> Node:
    """The rows of a ``LocalRelation``.

    Raises
    ------
    TidemillError
        TM2103 when there are more than 10,000, or without a table.
    """
    rows = tree.fields["rows"]
    _check_number(len(rows))
    fields = [Field(a.fields["name"], type_from_spark(a.fields["dataType"]), True) for a in attributes]
    if not rows or not fields:
        return _empty(fields, base) if not rows else _repeated(len(rows), base)
    struct = pa.struct([pa.field(f"col{i}", f.type) for i, f in enumerate(fields)])
    made = tuple(
        Call("struct", tuple(constant_expression(v, f.type) for v, f in zip(row, fields, strict=True)), struct, False)
        for row in rows
    )
    array = Call("array", made, pa.list_(struct), False)
    return Generate(one_row(base), array, (), False, True, False, tuple(f.name for f in fields))


def numbers(tree: JsonTree, base: Node | None) -> Node:
    """The rows of ``range()``."""
    start, end, step = (int(tree.fields[name]) for name in ("start", "end", "step"))
    listed = range(start, end, step)
    _check_number(len(listed))
    if not listed:
        return _empty([Field("id", pa.int64(), False)], base)
    bounds: tuple[Expression, ...] = tuple(Literal(n, pa.int64()) for n in (listed[0], listed[-1], step))
    array = Call("sequence", bounds, pa.list_(pa.int64()), False)
    return Generate(one_row(base), array, (), False, False, False, ("id",))


def _repeated(count: int, base: Node | None) -> Node:
    """Rows without columns."""
    array = Call("sequence", (Literal(1, pa.int64()), Literal(count, pa.int64())), pa.list_(pa.int64()), False)
    return Generate(one_row(base), array, (), False, False, False, ("row",))


def _empty(fields: list[Field], base: Node | None) -> Node:
    struct = pa.struct([pa.field(f"col{i}", f.type) for i, f in enumerate(fields)])
    array = Literal(None, pa.list_(struct))
    return Generate(one_row(base), array, (), False, True, False, tuple(f.name for f in fields))


def _check_number(rows: int) -> None:
    if rows > _MOST_ROWS:
        raise TidemillError(
            "TM2103",
            "this part of a query is not supported yet in a materialized view",
            got=f"{rows} constant rows",
            hint=f"put more than {_MOST_ROWS} rows into a table",
        )


def narrow(scan: Scan) -> Scan:
    """The relation with its first column only."""
    return Scan(scan.relation, scan.columns[:1])
