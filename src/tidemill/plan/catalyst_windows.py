"""Catalyst's Window nodes to algebra.

A Window has one PARTITION BY and ORDER BY and any number of functions, each with a frame of its own. Arguments
and the ends of RANGE frames stay expressions over the child's columns: they are computed where they are used,
so that they do not make the stored rows wider. Only a computed column to partition or order by is added below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.aggregate_reader import AggregateReader
from tidemill.plan.algebra import AggregateCall, Node, SortKey, Window
from tidemill.plan.catalyst_aggregates import aggregate
from tidemill.plan.catalyst_expressions import JsonTree, translate
from tidemill.plan.catalyst_expressions import tree as read_tree
from tidemill.plan.catalyst_joins import projection
from tidemill.plan.catalyst_places import passing
from tidemill.task.expressions import Expression, Literal, Ref
from tidemill.task.window_calls import Bound, Frame, WindowCall

_RANKINGS = {
    "RowNumber": ("row_number", pa.int32()),
    "Rank": ("rank", pa.int32()),
    "DenseRank": ("dense_rank", pa.int32()),
    "PercentRank": ("percent_rank", pa.float64()),
    "CumeDist": ("cume_dist", pa.float64()),
    "NTile": ("ntile", pa.int32()),
}
_VALUES = {"First": "first", "Last": "last", "NthValue": "nth"}
_MICROS_A_DAY = 86_400_000_000

Register = Callable[[WindowCall], Expression]
"""Gives a reference to the result of a window call."""


def read_window(tree: JsonTree, child: Node, inputs: Mapping[int, int]) -> tuple[Node, dict[int, int]]:
    """The algebra of a Window, and where each Catalyst attribute is in its output.

    Raises
    ------
    TidemillError
        TM2101, TM2102 as for any expression or aggregate; TM2106 for a function or frame that is not supported.
    """
    fields = child.schema.fields
    columns: list[Expression] = [Ref(i, f.type, f.nullable) for i, f in enumerate(fields)]

    def position(part: JsonTree) -> int:
        expression = translate(part, inputs)
        if expression not in columns:
            columns.append(expression)
        return columns.index(expression)

    partition = tuple(position(p) for p in _trees(tree.fields["partitionSpec"]))
    orders = _trees(tree.fields["orderSpec"])
    keys = tuple(
        SortKey(
            position(order.children[0]),
            "Descending" in str(order.fields["direction"]),
            "NullsFirst" in str(order.fields["nullOrdering"]),
        )
        for order in orders
    )
    all_named = _trees(tree.fields["windowExpressions"])
    named = [n for n in all_named if n.children[0].name == "WindowExpression"]
    folded = [n for n in all_named if n not in named]  # Catalyst has found a constant: the count of NULL
    width, calls = len(columns), list[WindowCall]()

    def result(call: WindowCall) -> Expression:
        calls.append(call)
        return Ref(width + len(calls) - 1, call.type, call.nullable)

    values = [_call(named_.children[0], orders, inputs, result) for named_ in named]
    alone = len(calls) == len(values) and all(isinstance(v, Ref) for v in values)
    names = tuple(str(n.fields["name"]) for n in named) if alone else tuple(f"window{i}" for i in range(len(calls)))
    below = projection(child, columns)
    node = Window(below, partition, keys, tuple(calls), names) if calls else below
    found = {int(n.fields["exprId"]["id"]): width + i for i, n in enumerate([*named, *folded])}
    if folded or not alone:
        kept = [Ref(i, f.type, f.nullable) for i, f in enumerate(below.schema.fields)]
        node = projection(node, [*kept, *values, *(translate(n.children[0], inputs) for n in folded)])
    return node, {**inputs, **found}


def _trees(field: Any) -> list[JsonTree]:
    return [read_tree(e) for e in field or ()]


def _call(window: JsonTree, orders: list[JsonTree], inputs: Mapping[int, int], result: Register) -> Expression:
    """One WindowExpression, over the results of calls: function and specification."""
    with passing(window):
        function = window.children[0]
        if function.name == "AggregateExpression" and function.children[0].name not in _VALUES:
            return _aggregated(window, orders, inputs, result)
        return result(_call_of(window, orders, inputs))


def _call_of(window: JsonTree, orders: list[JsonTree], inputs: Mapping[int, int]) -> WindowCall:
    function, specification = window.children
    frame_tree = specification.children[-1]
    if function.name in _RANKINGS:
        name, type_ = _RANKINGS[function.name]
        number = _number(function.children[0]) if name == "ntile" else 0
        return WindowCall(name, (), type_, False, Frame(True, None, 0), number)
    if function.name in ("Lag", "Lead"):
        return _shift(function, frame_tree, inputs)
    frame = _frame(frame_tree, orders, inputs)
    if function.name == "NthValue":
        return _value(function, frame, inputs, _number(function.children[1]))
    if function.name != "AggregateExpression":
        raise _refused(function.name)
    inner = function.children[0]
    if len(function.children) > 1:
        raise _refused(f"{_VALUES[inner.name]}_value with FILTER", "use IGNORE NULLS over a CASE expression")
    return _value(inner, frame, inputs, 0)


def _aggregated(window: JsonTree, orders: list[JsonTree], inputs: Mapping[int, int], result: Register) -> Expression:
    function, specification = window.children
    frame = _frame(specification.children[-1], orders, inputs)
    arguments: list[Expression] = []

    def argument(expression: Expression) -> int:
        if expression not in arguments:
            arguments.append(expression)
        return arguments.index(expression)

    def register(call: AggregateCall) -> Expression:
        if call.distinct:
            raise _refused(f"{call.function}(DISTINCT ...)")
        used = () if call.argument is None else (call.argument, *call.others)
        columns = tuple(dict.fromkeys(arguments[a] for a in used))
        return result(WindowCall(call.function, columns, call.type, call.nullable, frame, options=call.options))

    return aggregate(function, AggregateReader(inputs, argument, register, True))


def _value(function: JsonTree, frame: Frame, inputs: Mapping[int, int], number: int) -> WindowCall:
    value = translate(function.children[0], inputs)
    ignore = bool(function.fields["ignoreNulls"])
    return WindowCall(_VALUES[function.name], (value,), value.type, True, frame, number, ignore)


def _shift(function: JsonTree, frame: JsonTree, inputs: Mapping[int, int]) -> WindowCall:
    """LAG or LEAD. Catalyst has given it the frame from the row that is wanted to the same row."""
    value = translate(function.children[0], inputs)
    default = translate(function.children[-1], inputs)
    if isinstance(default, Literal) and default.value is None:
        default = Literal(None, value.type)
    if default.type != value.type:
        raise _refused(f"a default of another type in {function.name.lower()}", "cast it to the type of the value")
    number = _number(frame.children[0])
    ignore = bool(function.fields["ignoreNulls"])
    return WindowCall("shift", (value, default), value.type, True, Frame(True, None, None), number, ignore)


def _frame(tree: JsonTree, orders: list[JsonTree], inputs: Mapping[int, int]) -> Frame:
    rows = "RowFrame" in str(tree.fields["frameType"])
    lower, upper = (_rows_bound(bound) if rows else _range_bound(bound, orders, inputs) for bound in tree.children)
    return Frame(rows, lower, upper)


def _rows_bound(tree: JsonTree) -> Bound:
    if tree.name in ("UnboundedPreceding$", "UnboundedFollowing$"):
        return None
    return 0 if tree.name == "CurrentRow$" else _number(tree)


def _range_bound(tree: JsonTree, orders: list[JsonTree], inputs: Mapping[int, int]) -> Bound:
    """The ORDER BY value plus the offset, minus it in a descending order, as Spark computes it."""
    if tree.name in ("UnboundedPreceding$", "UnboundedFollowing$"):
        return None
    if tree.name == "CurrentRow$":
        return 0
    (order,) = orders
    if tree.name != "Literal" or tree.fields["value"] is None:
        raise _refused("an offset that is not a constant", "write the offset of the frame as a constant")
    value, kind, text = order.children[0], str(tree.fields["dataType"]), str(tree.fields["value"])
    if "Descending" in str(order.fields["direction"]):
        text = text[1:] if text.startswith("-") else f"-{text}"
    key = translate(value, inputs)
    date = pa.types.is_date(key.type)
    if kind.startswith("interval") and date and kind == "interval day":
        kind, text = "integer", str(int(text) // _MICROS_A_DAY)
    offset = JsonTree("Literal", {**tree.fields, "dataType": kind, "value": text}, ())
    if kind.startswith("interval"):
        name = "DateAddYMInterval" if date else "TimestampAddInterval"
    else:
        name = "DateAdd" if date else "Add"
    bound = translate(JsonTree(name, {"evalMode": "ANSI"}, (value, offset)), inputs)
    if pa.types.is_decimal(key.type) and bound.type.scale != key.type.scale:
        raise _refused("a RANGE frame over a decimal of this precision", "cast the ORDER BY value to fewer digits")
    return bound


def _number(tree: JsonTree) -> int:
    if tree.name != "Literal" or tree.fields["value"] is None:
        raise _refused("a number of rows that is not a constant", "write it as a constant")
    return int(tree.fields["value"])


def _refused(got: str, hint: str = "") -> TidemillError:
    return TidemillError("TM2106", "this function is not supported over a window", got=got, hint=hint)
