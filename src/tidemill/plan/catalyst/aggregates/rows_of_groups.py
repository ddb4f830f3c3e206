"""Aggregates that take values of certain rows of a group: the first, the least by an order, all in an order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from tidemill.plan.algebra.build import null_test, where
from tidemill.plan.algebra.nodes import AggregateCall
from tidemill.plan.catalyst.aggregates.reader import Function, unsupported
from tidemill.plan.catalyst.expressions.expressions import JsonTree, translate
from tidemill.schema import type_to_ddl
from tidemill.task.aggregates.accumulators import Option
from tidemill.task.expressions import Call, Expression, Literal


def by(name: str) -> Callable[[Function], Expression]:
    """``min_by`` or ``max_by``."""

    def rule(function: Function) -> Expression:
        value, order = function.argument(0), function.argument(1)
        at = function.place(order)
        others = (function.reader.place(value),)
        return function.result(AggregateCall(name, at, value.type, True, False, others))

    return rule


def by_several(function: Function) -> Expression:
    """``min_by`` and ``max_by`` with a number of values, which are a list."""
    value, order = function.argument(0), function.argument(1)
    descending = not function.tree.fields["reverse"]
    number = int(function.constant(2))
    return _listed(function, value, [(order, descending, True)], _not_null(order), number)


def listagg(function: Function) -> Expression:
    """``listagg`` and ``string_agg``."""
    value = function.argument()
    if not pa.types.is_string(value.type):
        raise unsupported(f"listagg of {type_to_ddl(value.type)}", "cast the argument to STRING")
    delimiter = Literal(str(function.constant(1) or ""), pa.string())
    orders = [
        (function.reader.translate(o.children[0]), "Descending" in str(o.fields["direction"]),
         "NullsLast" in str(o.fields["nullOrdering"]))
        for o in function.tree.children[2:]
    ]  # fmt: skip
    if orders:
        found = _listed(function, value, orders, _not_null(value), 0)
        return Call("array_join", (found, delimiter), pa.string(), True)
    kind = "collect_set" if function.distinct else "collect_list"
    found = function.result(AggregateCall(kind, function.place(value), pa.list_(value.type), False))
    some = Call("gt", (Call("size", (found,), pa.int32(), False), Literal(0, pa.int32())), pa.bool_(), False)
    joined = Call("array_join", (found, delimiter), pa.string(), False)
    return where(some, joined)


def _listed(
    function: Function,
    value: Expression,
    orders: list[tuple[Expression, bool, bool]],
    condition: Expression | None,
    limit: int,
) -> Expression:
    """A list of values in an order: (expression, descending, NULL last)."""
    keys = [order for order, _, _ in orders]
    row = where(condition, _struct([*keys, value]))
    options: tuple[tuple[str, Option], ...] = (
        ("descending", tuple(d for _, d, _ in orders)),
        ("limit", limit),
        ("nulls_last", tuple(last for _, _, last in orders)),
    )
    at = function.place(row)
    return function.result(
        AggregateCall("ordered_list", at, pa.list_(value.type), True, function.distinct, (), options)
    )


def rows_of_groups(calls: Iterable[JsonTree], inputs: Mapping[int, int]) -> tuple[tuple[Expression, ...], bool]:
    """What orders the rows of a group for ``first`` and ``last``, given a node's calls, and whether NULL is last."""
    trees = [call.children[0] for call in calls if call.children[0].name in ("First", "Last")]
    rows = tuple(dict.fromkeys(translate(t.children[0], inputs) for t in trees))
    return rows, any(t.name == "First" for t in trees)


def first_or_last(function: Function) -> Expression:
    """``first``, ``any_value`` and ``last`` without a window: of the first or last row in an order of all rows.

    The order is by the arguments of all such calls of the query, so that they read one row.
    """
    value, reader = function.argument(), function.reader
    name = "min" if function.tree.name == "First" else "max"
    ignore = bool(function.tree.fields["ignoreNulls"])
    others = len(reader.rows) > 1
    # NULL is left out by min and max, so a lone argument needs no order when NULL would be the last to be chosen.
    if not others and (ignore or not value.nullable or reader.nulls_last == (name == "min")):
        return function.result(AggregateCall(name, function.place(value), value.type, True))
    parts: list[Expression] = []
    for part in reader.rows:
        if part.nullable:
            parts.append(null_test("is_null" if reader.nulls_last else "is_not_null", part))
        if part == value:
            wanted = len(parts)
        parts.append(part)
    row = where(_not_null(value) if ignore else None, _struct(parts))
    found = function.result(AggregateCall(name, function.place(row), row.type, True))
    return Call("struct_field", (found,), value.type, True, (("ordinal", wanted),))


def _struct(parts: list[Expression]) -> Expression:
    type_ = pa.struct([pa.field(f"f{i}", p.type) for i, p in enumerate(parts)])
    return Call("struct", tuple(parts), type_, False)


def _not_null(value: Expression) -> Expression | None:
    return null_test("is_not_null", value) if value.nullable else None
