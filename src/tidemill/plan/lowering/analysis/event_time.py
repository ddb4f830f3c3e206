"""Which state expires: how far columns lag behind the watermark of the tables they come from.

A table with a watermark admits no row whose event time is before it. Where a column of a node is bound to that
event time, no change of the node can have a smaller value, less a fixed lag, than the watermark. State that is
looked up by such a column is never looked up below that, and compaction may drop it:

- multisets of MIN, MAX and DISTINCT, when a group column is bound: only groups that change are looked up
- a side of a join, when the key column of the *other* side is bound: only keys that change there are looked up
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidemill.plan.algebra.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Node,
    Project,
    Recursion,
    Repeat,
    Scan,
    SemiJoin,
    TopRows,
    Union,
    Window,
)
from tidemill.task.expressions import Call, Expression, Literal, Ref
from tidemill.task.program import TableSource

Bounds = Mapping[str, int]
"""Table to lag in microseconds: values are not before the watermark of every table less its lag."""


@dataclass(frozen=True)
class Place:
    """A column, or a field of a column that is a struct."""

    column: int
    field: int | None = None


@dataclass(frozen=True)
class Lag:
    """A place in the key of a state table that is looked up only from the watermark of ``bounds`` less their lag on."""

    place: Place
    bounds: tuple[tuple[str, int], ...]


class EventTimes:
    """Finds the bounds of columns.

    Parameters
    ----------
    tables : mapping
        All tables by name.
    view : callable
        The plan of a view by name.
    """

    def __init__(self, tables: Mapping[str, TableSource], view: Callable[[str], Node]) -> None:
        self._tables = tables
        self._view = view

    def of_keys(self, node: Node, keys: tuple[int, ...]) -> Lag | None:
        """Which of the key columns of a table is bound by the changes of ``node``; ``keys`` are its columns."""
        found = ((i, self._of_key(node, column)) for i, column in enumerate(keys))
        return next((Lag(Place(i, p.field), tuple(b.items())) for i, f in found if f for p, b in [f]), None)

    def _of_key(self, node: Node, column: int) -> tuple[Place, Bounds] | None:
        """A place in a column whose changes are bound: the column, or the end or start of a window."""
        type_ = node.schema.types[column]
        places = [Place(column)]
        if pa.types.is_struct(type_):
            places = [Place(column, i) for i in reversed(range(type_.num_fields))]
        for place in places:
            bounds = self.bounds(node, place)
            if bounds is not None:
                return place, bounds
        return None

    def bounds(self, node: Node, place: Place) -> Bounds | None:
        """The bounds of changes of a node in a place; None when there are none."""
        match node:
            case Scan():
                return self._scan(node, place)
            case Project():
                return self._expression(node.expressions[place.column], place.field, node.child)
            case Filter():
                return self.bounds(node.child, place)
            case Union():
                return _loosest([self.bounds(child, place) for child in node.children])
            case Generate():
                if place.column >= len(node.kept):
                    return None
                return self.bounds(node.child, Place(node.kept[place.column], place.field))
            case Aggregate():
                if place.column >= len(node.keys):
                    return None
                return self.bounds(node.child, Place(node.keys[place.column], place.field))
            case Join():
                return self._join(node, place)
            case Repeat():
                return self.bounds(node.child, Place(place.column + (place.column >= node.count), place.field))
            case SemiJoin() | TopRows() | Window() | Recursion():
                return None  # a change of one row makes others come or go

    def _scan(self, node: Scan, place: Place) -> Bounds | None:
        name = node.columns[place.column].name
        table = self._tables.get(node.relation)
        if table is None:
            root = self._view(node.relation)
            return self.bounds(root, Place(root.schema.names.index(name), place.field))
        return {table.name: 0} if place.field is None and table.watermark == name else None

    def _join(self, node: Join, place: Place) -> Bounds | None:
        """A row of either side may be old: only a key that both sides share is bound, by both."""
        width = len(node.left.schema)
        keys = node.left_keys if place.column < width else node.right_keys
        at = place.column if place.column < width else place.column - width
        if at not in keys:
            return None
        index = keys.index(at)
        left = self.bounds(node.left, Place(node.left_keys[index], place.field))
        return _loosest([left, self.bounds(node.right, Place(node.right_keys[index], place.field))])

    def _expression(self, expression: Expression, field: int | None, child: Node) -> Bounds | None:
        if isinstance(expression, Ref):
            return self.bounds(child, Place(expression.index, field))
        if not isinstance(expression, Call):
            return None
        if field is not None:
            return self._expression(expression.args[field], None, child) if expression.function == "struct" else None
        if expression.function == "struct_field" and isinstance(expression.args[0], Ref):
            return self.bounds(child, Place(expression.args[0].index, expression.option("ordinal")))
        found = window_bound(expression)
        if found is None:
            return None
        column, lag = found
        below = self.bounds(child, Place(column))
        return None if below is None else {table: before + lag for table, before in below.items()}


def _loosest(found: list[Bounds | None]) -> Bounds | None:
    """What holds where each of several bounds may be the one that counts."""
    total: dict[str, int] = {}
    for bounds in found:
        if bounds is None:
            return None
        for table, lag in bounds.items():
            total[table] = max(lag, total.get(table, lag))
    return total


def window_bound(expression: Expression) -> tuple[int, int] | None:
    """The time column of the start or end of ``window(...)`` as Catalyst computes it, and how far it lags behind.

    With t in microseconds, r = (t - start) % slide made positive: ``t - r - shift [+ length]``, so not before
    ``t - slide + 1 - shift [+ length]``.
    """
    if not (isinstance(expression, Call) and expression.function == "timestamp_micros"):
        return None
    inner, length = expression.args[0], 0
    if isinstance(inner, Call) and inner.function == "add":
        length = _constant(inner.args[1])
        inner = inner.args[0]
    match inner:
        case Call("subtract", (Call("subtract", (micros, aligned)), shift)):
            pass
        case _:
            return None
    match micros, aligned:
        case (
            Call("unix_micros", (Ref() as time,)),
            Call("case", (Call("lt", (rest, Literal(0))), Call("add", (again, slide)), last)),
        ) if rest == again == last and _is_remainder(rest, micros, slide):
            lag = _constant(slide) + _constant(shift) - length
            return time.index, max(lag, 0)
    return None


def _is_remainder(rest: Expression, micros: Expression, slide: Expression) -> bool:
    match rest:
        case Call("remainder", (Call("subtract", (value, Literal())), by)):
            return value == micros and by == slide and _constant(slide) > 0
    return False


def _constant(expression: Expression) -> int:
    return int(expression.value) if isinstance(expression, Literal) and expression.value is not None else 1 << 62
