"""Running sums over a whole table, of which few rows are wanted, are read from an ordered index of sums.

    TopRows [ts DESC] 10                      Join on ts
      Window [ts] sum(x) AS s        ->         TopRows [ts DESC] 10
        t [ts, x]                                 t [ts, x]
                                                Aggregate [ts] sum(x) AS s
                                                  Join t.ts <= p.ts
                                                    Aggregate [ts] AS p
                                                      TopRows [ts DESC] 10
                                                        t [ts, x]
                                                    t [ts, x]

Few rows are those of an ORDER BY with LIMIT, and those that a filter selects by an equality with a constant, where
neither reads the sums. The aggregate over the join becomes a search in sums (:mod:`factorise_aggregates`), O(log n)
a wanted row. The frames are those from the first row to the peers of the row; a rank is one more than the number of
rows before it. Windows with PARTITION BY stay: they read one partition, in fewer supersteps. So do sums of decimals of
more than 28 digits, which may need more than 128 bits. Doubles are added up as double-doubles, as a window does.
"""

from __future__ import annotations

import pyarrow as pa

from tidemill.plan.algebra.build import columns_of, conjuncts, filtered, null_test
from tidemill.plan.algebra.nodes import (
    Aggregate,
    AggregateCall,
    Filter,
    Join,
    Node,
    Project,
    SortKey,
    TopRows,
    Union,
    Window,
)
from tidemill.plan.algebra.traverse import map_children
from tidemill.plan.rules.factorise_aggregates import factorise_aggregates
from tidemill.plan.rules.merge_projections import merge_projections
from tidemill.plan.rules.prune_columns import prune_columns
from tidemill.task.expressions import Call, Expression, Literal, Ref, references, substitute
from tidemill.task.functions.evaluate import can_fail
from tidemill.task.program.window_calls import WindowCall

_FEW = 10_000
_SUMMED = ("sum", "count", "avg")
_ONE = Literal(1, pa.int64())
_ANSI = (("mode", "ansi"),)


def running_sums(node: Node) -> Node:
    """Rewrite every window of which few rows are wanted, bottom-up."""
    node = map_children(node, running_sums)
    found = None
    if isinstance(node, TopRows) and node.limit is not None and node.limit + node.offset <= _FEW:
        found = _of_first_rows(node)
    elif isinstance(node, Filter):
        found = _of_selected_rows(node)
    return node if found is None else found


def _of_first_rows(node: TopRows) -> Node | None:
    """ORDER BY with LIMIT over a window."""
    over = _over_window(node.child)
    if over is None:
        return None
    columns, conditions, window = over
    width = len(window.child.schema)
    keys = [columns[k.column] for k in node.keys]
    if any(i >= width for e in (*keys, *conditions) for i in references(e)):
        return None
    own = columns_of(window.child)
    arranged = list(dict.fromkeys((*own, *keys)))
    child = Project(filtered(window.child, conditions), tuple(arranged), _names(len(arranged)))
    order = tuple(SortKey(arranged.index(e), k.descending, k.nulls_first) for e, k in zip(keys, node.keys, strict=True))
    part = Project(TopRows(child, order, node.limit, node.offset), own, window.child.schema.names)
    return _placed(part, window, columns, node)


def _of_selected_rows(node: Filter) -> Node | None:
    """A filter over a window, with an equality."""
    over = _over_window(node.child)
    if over is None:
        return None
    columns, conditions, window = over
    width = len(window.child.schema)
    below, above = list(conditions), []
    for part in conjuncts(node.condition):
        moved = substitute(part, tuple(columns))
        if can_fail(moved) or any(i >= width for i in references(moved)):
            above.append(part)
        else:
            below.append(moved)
    if not any(map(_selects_few, below)) or any(i >= width for e in conditions for i in references(e)):
        return None
    found = _placed(filtered(window.child, below), window, columns, node)
    return None if found is None else filtered(found, above)


def _over_window(node: Node) -> tuple[list[Expression], list[Expression], Window] | None:
    """The columns of a node and the conditions for its rows, over the window below its projections and filters."""
    if isinstance(node, Window):
        return [*columns_of(node)], [], node
    if not isinstance(node, Project | Filter):
        return None
    below = _over_window(node.child)
    if below is None:
        return None
    columns, conditions, window = below
    if isinstance(node, Project):
        return [substitute(e, tuple(columns)) for e in node.expressions], conditions, window
    return columns, [*conditions, *(substitute(c, tuple(columns)) for c in conjuncts(node.condition))], window


def _selects_few(condition: Expression) -> bool:
    """Whether a condition probably selects few rows: a column equals a constant."""
    if not isinstance(condition, Call) or condition.function not in ("eq", "in"):
        return False
    constants = [isinstance(a, Literal) for a in condition.args]
    return constants.count(False) == 1 and (condition.function == "eq" or not constants[0])


def _placed(part: Node, window: Window, columns: list[Expression], node: Node) -> Node | None:
    """The columns of a node over the wanted rows of a window."""
    if (
        window.partition
        or window.limit is not None
        or len(window.order) != 1
        or not all(map(_is_running, window.calls))
    ):
        return None
    joined = part = merge_projections(part)
    width, place = len(part.schema), window.order[0].column
    calls = dict(enumerate(window.calls))
    ranks = {i: call for i, call in calls.items() if call.function == "rank"}
    sums = {i: call for i, call in calls.items() if i not in ranks}
    results: dict[int, Expression] = {}
    if sums:
        values = _values(part, window, [*sums.values()], strict=False)
        if values is None:
            return None
        start = len(joined.schema) + 1
        joined = Join(joined, values, (place,), (0,), (True,))
        results |= {i: Ref(start + at, c.type, c.nullable) for at, (i, c) in enumerate(sums.items())}
    if ranks:
        values = _values(part, window, [], strict=True)
        if values is None:
            return None
        before = Ref(len(joined.schema) + 1, pa.int64(), False)
        joined = Join(joined, values, (place,), (0,), (True,))
        rank = Call("add", (before, _ONE), pa.int64(), False, _ANSI)
        results |= {i: Call("cast", (rank,), c.type, False, _ANSI) for i, c in ranks.items()}
    every = (*columns_of(part), *(results[i] for i in calls))
    assert len(every) == width + len(calls)
    return Project(joined, tuple(substitute(e, every) for e in columns), node.schema.names)


def _is_running(call: WindowCall) -> bool:
    """Whether a call reads all rows up to the peers of a row, or before them."""
    if call.function == "rank":
        return True
    frame = call.frame
    plain = call.function in _SUMMED and not call.options and not call.ignore_nulls
    return plain and not frame.rows and frame.lower is None and frame.upper == 0 and isinstance(frame.upper, int)


def _values(part: Node, window: Window, calls: list[WindowCall], strict: bool) -> Node | None:
    """What the calls give, by the ORDER BY column of the wanted rows; with ``strict`` the number of rows before them.

    None where the aggregate over the join cannot be factorised.
    """
    (key,) = window.order
    ordering = window.child.schema.fields[key.column]
    place = Ref(key.column, ordering.type, ordering.nullable)
    wanted = prune_columns(merge_projections(Aggregate(Project(part, (place,), _names(1)), (0,), (), _names(1))))
    arguments = (_ONE,) if strict else tuple(dict.fromkeys(a for call in calls for a in call.arguments))
    rows = Project(window.child, (place, *arguments), _names(1 + len(arguments)))
    bound, value = (Ref(i, ordering.type, ordering.nullable) for i in (0, 1))
    function = ("gt" if key.descending else "lt") if strict else ("ge" if key.descending else "le")
    branches = [_joined(wanted, rows, Call(function, (value, bound), pa.bool_(), ordering.nullable))]
    if ordering.nullable:
        null, some = (null_test(test, bound) for test in ("is_null", "is_not_null"))
        # NULLs are peers of each other, and come before or after all other values.
        others: list[Expression] = [some] if strict else []
        bounds, met = (others, [null]) if key.nulls_first else ([null], others)
        branches.append(_joined(filtered(wanted, [*bounds]), filtered(rows, [*met]), None))
    if strict:  # a group also for a row with none before it
        branches.append(Project(wanted, (bound, Literal(None, pa.int64())), rows.schema.names))
    column = {a: 1 + i for i, a in enumerate(arguments)}
    made = [
        AggregateCall(c.function, column[c.arguments[0]] if c.arguments else None, c.type, c.nullable) for c in calls
    ]
    if strict:
        made = [AggregateCall("count", 1, pa.int64(), False)]
    over = branches[0] if len(branches) == 1 else Union(tuple(branches))
    found = factorise_aggregates(Aggregate(over, (0,), tuple(made), _names(1 + len(made))))
    assert isinstance(found, Aggregate)
    parts = found.parts or (found,)
    return found if all(p.pairs is not None for p in parts[: len(parts) - strict]) else None


def _joined(wanted: Node, rows: Node, comparison: Expression | None) -> Node:
    """The ORDER BY value of each wanted row, with the arguments of the rows in its frame."""
    joined = Join(wanted, rows, (), (), (), comparison)
    columns = columns_of(joined)
    kept = (columns[0], *columns[2:])
    return prune_columns(merge_projections(Project(joined, kept, _names(len(kept)))))


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"column{i}" for i in range(count))
