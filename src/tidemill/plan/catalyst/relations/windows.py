"""Catalyst's Window nodes to algebra.

A Window has one PARTITION BY and ORDER BY and any number of functions, each with a frame of its own. Arguments
and the ends of RANGE frames stay expressions over the child's columns: they are computed where they are used,
so that they do not make the stored rows wider. Only a computed column to partition or order by is added below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.algebra.build import columns_of, projection
from tidemill.plan.algebra.nodes import AggregateCall, Node, Project, SortKey, Window
from tidemill.plan.catalyst.aggregates.aggregates import aggregate
from tidemill.plan.catalyst.aggregates.reader import AggregateReader
from tidemill.plan.catalyst.expressions.expressions import translate
from tidemill.plan.catalyst.expressions.intervals import negated
from tidemill.plan.catalyst.expressions.zones import zone_of
from tidemill.plan.catalyst.relations.order import sort_keys
from tidemill.plan.catalyst.relations.single import single_for
from tidemill.plan.catalyst.trees.field_names import renamed
from tidemill.plan.catalyst.trees.places import passing
from tidemill.plan.catalyst.trees.tree import JsonTree, trees
from tidemill.task.expressions import Expression, Literal, Ref, references
from tidemill.task.program.window_calls import Bound, Frame, WindowCall

_RANKINGS: dict[str, tuple[str, pa.DataType]] = {
    "RowNumber": ("row_number", pa.int32()),
    "Rank": ("rank", pa.int32()),
    "DenseRank": ("dense_rank", pa.int32()),
    "PercentRank": ("percent_rank", pa.float64()),
    "CumeDist": ("cume_dist", pa.float64()),
    "NTile": ("ntile", pa.int32()),
}
_OF_PEERS = {"Rank": 1, "DenseRank": 1, "PercentRank": 0.0, "CumeDist": 1.0}
"""Functions that are equal for peers, with their value where all rows are peers."""

_VALUES = {"First": "first", "Last": "last", "NthValue": "nth"}
_MICROS_A_DAY = 86_400_000_000

Register = Callable[[WindowCall], Expression]
"""Gives a reference to the result of a window call."""


def read_window(
    tree: JsonTree,
    child: Node,
    inputs: Mapping[int, int],
    output: tuple[int, ...],
    follow: tuple[SortKey, ...] | None = None,
) -> tuple[Node, dict[int, int], tuple[int, ...]]:
    """The algebra of a Window, where each Catalyst attribute is in its output, and the columns of Catalyst's output.

    Parameters
    ----------
    output : tuple of int
        The columns that the input has in Catalyst.
    follow : tuple of SortKey, optional
        The order of the rows, for a window that has none of its own: all rows of a partition are peers, in this order.

    Raises
    ------
    TidemillError
        TM2101, TM2102 as for any expression or aggregate; TM2106 for a function or frame that is not supported.
    """
    columns: list[Expression] = [*columns_of(child)]

    def position(part: JsonTree) -> int:
        expression = translate(part, inputs)
        if expression not in columns:
            columns.append(expression)
        return columns.index(expression)

    partition = tuple(position(p) for p in trees(tree.fields["partitionSpec"]))
    orders = trees(tree.fields["orderSpec"])
    keys = sort_keys(orders, [position(o.children[0]) for o in orders]) if follow is None else follow
    width, calls, names = len(columns), list[WindowCall](), list[str]()

    def result(call: WindowCall) -> Expression:
        calls.append(call if follow is None else _among_peers(call))
        return Ref(width + len(calls) - 1, call.type, call.nullable)

    # A correlated subquery lists what it is correlated by, too, which is a column of the input.
    listed = trees(tree.fields["windowExpressions"])
    values = dict[int, Expression]()
    for expression in listed:
        if expression.name == "AttributeReference":
            continue
        window, before = expression.children[0], len(calls)
        peers = window.children[0].name if window.name == "WindowExpression" else ""
        if window.name != "WindowExpression":  # Catalyst has found a constant: the count of NULL
            value = translate(window, inputs)
        elif follow is not None and peers in _OF_PEERS:
            value = Literal(_OF_PEERS[peers], _RANKINGS[peers][1])
        else:
            value = _call(window, orders, inputs, result)
        values[expression.id] = value
        alone = isinstance(value, Ref) and len(calls) == before + 1
        names += [str(expression.fields["name"])] if alone else [f"window{i}" for i in range(before, len(calls))]
    below = projection(child, columns)
    node = Window(below, partition, keys, tuple(calls), tuple(names)) if calls else below
    if [v.index - width if isinstance(v, Ref) else -1 for v in values.values()] != list(range(len(calls))):
        node = projection(node, [*columns_of(below), *values.values()])
    found = {**inputs, **{identity: width + i for i, identity in enumerate(values)}}
    return node, found, (*output, *(found[e.id] for e in listed))


def _among_peers(call: WindowCall) -> WindowCall:
    """A call in a window whose rows are all peers: a RANGE frame has all of them."""
    frame = call.frame
    if frame.rows:
        return call
    if frame.lower not in (None, 0) or frame.upper not in (None, 0):
        raise _refused("a RANGE offset from a constant", "ORDER BY a column")
    return replace(call, frame=Frame(True, None, None))


def follows_rows(tree: JsonTree) -> bool:
    """Whether functions of a Window depend on the order of its input: it orders by nothing, or by a constant."""
    orders = [o for o in trees(tree.fields["orderSpec"]) if o.children[0].name != "Literal"]
    return not orders and any(_by_place(w) or _is_list(w) for w in _windows(tree))


def check_decided(tree: JsonTree, node: Node) -> None:
    """Refuse a Window without an order whose functions depend on one.

    Where a partition has at most one row, or equal rows, any order gives the same result.

    Raises
    ------
    TidemillError
        TM2105.
    """
    by_place = [w for w in _windows(tree) if _by_place(w)]
    ids = {p.id for p in trees(tree.fields["partitionSpec"]) if "exprId" in p.fields}
    if not by_place or _alike(node) or single_for(tree.children[0], ids):
        return
    with passing(by_place[0]):
        if not tree.fields["orderSpec"] and by_place[0].children[0].name == "RowNumber":
            raise TidemillError(
                "TM2105",
                "LIMIT without ORDER BY is not decided by the rows",
                got="LIMIT or OFFSET in a correlated subquery",
                hint="add ORDER BY",
            )
        raise TidemillError(
            "TM2105",
            "a window function over rows without an order is not decided by the rows",
            got=_shown(by_place[0].children[0]),
            hint="add ORDER BY to the window",
        )


def _shown(function: JsonTree) -> str:
    if function.name in _RANKINGS:
        return _RANKINGS[function.name][0]
    if function.name in ("Lag", "Lead"):
        return function.name.lower()
    inner = function.children[0].name if function.name == "AggregateExpression" else function.name
    return f"{_VALUES[inner]}_value" if inner in _VALUES else "a frame of ROWS"


def _windows(tree: JsonTree) -> list[JsonTree]:
    """The WindowExpressions of a Window."""
    listed = (e.children[0] for e in trees(tree.fields["windowExpressions"]) if e.children)
    return [w for w in listed if w.name == "WindowExpression"]


def _by_place(window: JsonTree) -> bool:
    """Whether peers may have different values: the function, or the frame, goes by the place of a row."""
    function, specification = window.children
    if function.name in _OF_PEERS:
        return False
    if function.name in _RANKINGS or function.name in ("Lag", "Lead", *_VALUES):
        return True
    if function.name == "AggregateExpression" and function.children[0].name in _VALUES:
        return True
    frame = specification.children[-1]
    ends = tuple(bound.name for bound in frame.children)
    return "RowFrame" in str(frame.fields["frameType"]) and ends != ("UnboundedPreceding$", "UnboundedFollowing$")


def _is_list(window: JsonTree) -> bool:
    function = window.children[0]
    return function.name == "AggregateExpression" and function.children[0].name in ("CollectList", "ListAgg")


def _alike(node: Node) -> bool:
    """Whether the partition columns determine all columns of a window's input."""
    while isinstance(node, Project):
        node = node.child
    if not isinstance(node, Window):
        return True
    known, rows = set(node.partition), node.child
    while not known.issuperset(range(len(rows.schema))):
        if not isinstance(rows, Project):
            return False
        known = {e.index for i in known if isinstance(e := rows.expressions[i], Ref)}
        used = frozenset[int]().union(*(references(e) for e in rows.expressions))
        if known.issuperset(used):
            return True
        rows = rows.child
    return True


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
    """LAG or LEAD. Its frame in Catalyst begins and ends at the wanted row."""
    value = translate(function.children[0], inputs)
    default = translate(function.children[-1], inputs)
    if isinstance(default, Literal) and default.value is None:
        default = Literal(None, value.type)
    default = renamed(default, value.type)
    if default.type != value.type:
        raise _refused(f"a default of another type in {function.name.lower()}", "cast it to the type of the value")
    number = _number(frame.children[0])
    ignore = bool(function.fields["ignoreNulls"])
    return WindowCall("shift", (value, default), value.type, True, Frame(True, None, None), number, ignore)


def _frame(tree: JsonTree, orders: list[JsonTree], inputs: Mapping[int, int]) -> Frame:
    rows = "RowFrame" in str(tree.fields["frameType"])
    zone = zone_of(tree)
    lower, upper = (
        _rows_bound(bound) if rows else _range_bound(bound, orders, inputs, zone) for bound in tree.children
    )
    return Frame(rows, lower, upper)


def _rows_bound(tree: JsonTree) -> Bound:
    if tree.name in ("UnboundedPreceding$", "UnboundedFollowing$"):
        return None
    return 0 if tree.name == "CurrentRow$" else _number(tree)


def _range_bound(tree: JsonTree, orders: list[JsonTree], inputs: Mapping[int, int], zone: str | None) -> Bound:
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
        text = negated(text) if kind == "interval" else text[1:] if text.startswith("-") else f"-{text}"
    key = translate(value, inputs)
    date = pa.types.is_date(key.type)
    if kind.startswith("interval") and date and kind == "interval day":
        kind, text = "integer", str(int(text) // _MICROS_A_DAY)
    offset = JsonTree("Literal", {**tree.fields, "dataType": kind, "value": text}, ())
    if kind.startswith("interval"):
        name = "DateAddYMInterval" if date else "TimestampAddInterval"
    else:
        name = "DateAdd" if date else "Add"
    of_zone = zone if name == "TimestampAddInterval" else None  # dates and numbers are the same in every zone
    bound = translate(JsonTree(name, {"evalMode": "ANSI", "timeZoneId": of_zone}, (value, offset)), inputs)
    if pa.types.is_decimal(key.type) and pa.types.is_decimal(bound.type) and bound.type.scale != key.type.scale:
        raise _refused("a RANGE frame over a decimal of this precision", "cast the ORDER BY value to fewer digits")
    return bound


def _number(tree: JsonTree) -> int:
    if tree.name != "Literal" or tree.fields["value"] is None:
        raise _refused("a number of rows that is not a constant", "write it as a constant")
    return int(tree.fields["value"])


def _refused(got: str, hint: str = "") -> TidemillError:
    return TidemillError("TM2106", "this function is not supported over a window", got=got, hint=hint)
