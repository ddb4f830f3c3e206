"""Catalyst's joins as inner, semi and anti joins.

left outer   =  inner  +  (left anti right), padded with NULLs
full outer   =  left outer  +  (right anti left), padded with NULLs
semi, anti with a residual condition
             =  semi, anti on the whole left row against the left rows that an inner join finds
existence    =  semi with true  +  anti with false
single       =  left outer with the greatest row and the number of rows per key, checked for each left row

Semi, anti and existence joins whose condition holds for NULLs, as that of NOT IN does, are in ``null_aware_joins.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.algebra.build import columns_of, conjunction, projection
from tidemill.plan.algebra.nodes import Aggregate, AggregateCall, Join, Node, SemiJoin, Union
from tidemill.plan.catalyst.relations.null_aware_joins import Matches, null_aware_matches
from tidemill.plan.catalyst.relations.null_safe_keys import merge_null_tests
from tidemill.task.expressions import Call, Expression, Literal, Ref, references, remap

_KINDS = frozenset(
    {"Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter", "LeftSemi", "LeftAnti", "ExistenceJoin", "LeftSingle"}
)


@dataclass(frozen=True)
class _Sides:
    """Both inputs with their computed keys as extra columns, and what is left of the condition.

    ``residual`` is over the extended left columns, then the extended right columns.
    """

    left: Node
    right: Node
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    null_safe: tuple[bool, ...]
    residual: Expression | None
    left_width: int
    right_width: int


def build_join(kind: str, left: Node, right: Node, conjuncts: list[Expression]) -> Node:
    """The algebra of a join.

    Parameters
    ----------
    kind : str
        Catalyst's name of the join type.
    conjuncts : list of Expression
        The condition, over the left columns followed by the right columns.

    Returns
    -------
    Node
        Left columns then right columns; for semi and anti the left columns; for existence the left columns
        then one boolean.

    Raises
    ------
    TidemillError
        TM2104 for a kind that is not supported.
    """
    if kind not in _KINDS:
        raise TidemillError(
            "TM2104",
            "this kind of join is not supported yet in a materialized view",
            got=f"{kind} join",
            hint="inner, cross, outer, semi and anti joins",
        )
    if kind in ("LeftSemi", "LeftAnti", "ExistenceJoin"):
        return _match(kind, left, right, merge_null_tests(conjuncts))
    sides = _split(left, right, merge_null_tests(conjuncts))
    if kind == "LeftSingle":
        return _single(sides)
    parts = [_inner(sides)]
    if kind in ("LeftOuter", "FullOuter"):
        parts.append(_unmatched_left(sides))
    if kind in ("RightOuter", "FullOuter"):
        parts.append(_unmatched_right(sides))
    return parts[0] if len(parts) == 1 else Union(tuple(parts))


def _match(kind: str, left: Node, right: Node, conjuncts: list[Expression]) -> Node:
    """A semi, anti or existence join."""
    parts = null_aware_matches(left, right, conjuncts, _semi_or_anti)
    if parts is None:
        matched, unmatched = (_semi_or_anti(left, right, conjuncts, anti) for anti in (False, True))
        parts = Matches((matched,), (unmatched,))
    if kind == "ExistenceJoin":
        width = len(left.schema)
        found = [(n, True) for n in parts.matched] + [(n, False) for n in parts.unmatched]
        return Union(tuple(_with_literals(n, width, [Literal(yes, pa.bool_())]) for n, yes in found))
    nodes = parts.matched if kind == "LeftSemi" else parts.unmatched
    return nodes[0] if len(nodes) == 1 else Union(nodes)


def _semi_or_anti(left: Node, right: Node, conjuncts: list[Expression], anti: bool) -> Node:
    """The left rows with a match, or with ``anti`` those without."""
    return _cut(_semi(_split(left, right, conjuncts), anti), len(left.schema))


def _cut(node: Node, width: int) -> Node:
    return projection(node, columns_of(node)[:width])


def _with_literals(node: Node, width: int, literals: list[Expression]) -> Node:
    return projection(node, [*columns_of(node)[:width], *literals])


def _split(left: Node, right: Node, conjuncts: list[Expression]) -> _Sides:
    """Split a condition into keys and the rest; computed keys become extra columns of the sides."""
    left_width, right_width = len(left.schema), len(right.schema)
    left_columns: list[Expression] = [*columns_of(left)]
    right_columns: list[Expression] = [*columns_of(right)]
    keys: list[tuple[int, int, bool]] = []
    rest: list[Expression] = []
    for conjunct in conjuncts:
        found = _key_sides(conjunct, left_width)
        if found is None:
            rest.append(conjunct)
            continue
        for columns, side in zip((left_columns, right_columns), found, strict=True):
            if side not in columns:
                columns.append(side)
        null_safe = isinstance(conjunct, Call) and conjunct.function == "eq_null_safe"
        keys.append((left_columns.index(found[0]), right_columns.index(found[1]), null_safe))
    moved = {i: i for i in range(left_width)}
    moved |= {left_width + i: len(left_columns) + i for i in range(right_width)}
    residual = conjunction([remap(r, moved) for r in rest])
    left_keys, right_keys, null_safe_keys = zip(*keys, strict=True) if keys else ((), (), ())
    return _Sides(
        projection(left, left_columns),
        projection(right, right_columns),
        left_keys,
        right_keys,
        null_safe_keys,
        residual,
        left_width,
        right_width,
    )


def _key_sides(conjunct: Expression, width: int) -> tuple[Expression, Expression] | None:
    """The two sides of ``left = right`` over the columns of either input, or None when it is not that."""
    if not isinstance(conjunct, Call) or conjunct.function not in ("eq", "eq_null_safe"):
        return None
    first, second = conjunct.args
    used = [references(first), references(second)]
    if not all(used) or first.type != second.type:
        return None
    if max(used[0]) < width <= min(used[1]):
        left, right = first, second
    elif max(used[1]) < width <= min(used[0]):
        left, right = second, first
    else:
        return None
    return left, remap(right, {i: i - width for i in references(right)})


def _join(sides: _Sides) -> Join:
    return Join(sides.left, sides.right, sides.left_keys, sides.right_keys, sides.null_safe, sides.residual)


def _inner(sides: _Sides) -> Node:
    """Matching pairs, without the computed keys."""
    join = _join(sides)
    columns, extended = columns_of(join), len(sides.left.schema)
    return projection(join, [*columns[: sides.left_width], *columns[extended : extended + sides.right_width]])


def _single(sides: _Sides) -> Node:
    """A correlated scalar subquery: the right row of each left row, if any; several are an error.

    The right rows are counted per key, so that one pair at most is made for a left row. Where there is a condition
    beside equal keys, the pairs of each distinct left row are counted.
    """
    rows, keys = sides.right, sides.right_keys
    left_keys, null_safe = sides.left_keys, sides.null_safe
    first = 0
    if sides.residual is not None:
        width = len(sides.left.schema)
        every = tuple(range(width))
        distinct = Aggregate(sides.left, every, (), sides.left.schema.names)
        rows = _join(replace(sides, left=distinct))
        keys, left_keys, null_safe, first = every, every, (True,) * width, width
    fields = rows.schema.fields
    values = range(first, first + sides.right_width)
    if any(pa.types.is_map(fields[i].type) for i in values):
        raise TidemillError(
            "TM2104",
            "a correlated subquery that gives a map must give one row at most",
            got="a subquery that may give several rows for one row",
            hint="an aggregate in the subquery, or a left join",
        )
    calls = [AggregateCall("count", None, pa.int64(), False)]
    calls += [AggregateCall("max", i, fields[i].type, True) for i in values]
    names = tuple(f"column{i}" for i in range(len(keys) + len(calls)))
    grouped = Aggregate(rows, keys, tuple(calls), names)
    positions = tuple(range(len(keys)))
    pairs = _Sides(sides.left, grouped, left_keys, positions, null_safe, None, len(sides.left.schema), len(names))
    joined = _inner(pairs)
    at = len(sides.left.schema) + len(keys)
    count = Ref(at, pa.int64(), False)
    checked: list[Expression] = [
        Call("only_row", (Ref(at + 1 + i, fields[v].type, True), count), fields[v].type, True)
        for i, v in enumerate(values)
    ]
    found = projection(joined, [*columns_of(joined)[: sides.left_width], *checked])
    nulls: list[Expression] = [Literal(None, fields[v].type) for v in values]
    return Union((found, _with_literals(_semi(pairs, anti=True), sides.left_width, nulls)))


def _semi(sides: _Sides, anti: bool) -> Node:
    if sides.residual is None:
        keys = (sides.left_keys, sides.right_keys, sides.null_safe)
        return SemiJoin(sides.left, sides.right, *keys, anti)
    matched = _cut(_join(sides), len(sides.left.schema))
    return _on_whole_row(sides.left, matched, anti)


def _on_whole_row(rows: Node, matched: Node, anti: bool) -> Node:
    every = tuple(range(len(rows.schema)))
    return SemiJoin(rows, matched, every, every, (True,) * len(every), anti)


def _unmatched_left(sides: _Sides) -> Node:
    nulls: list[Expression] = [Literal(None, f.type) for f in sides.right.schema.fields[: sides.right_width]]
    return _with_literals(_semi(sides, anti=True), sides.left_width, nulls)


def _unmatched_right(sides: _Sides) -> Node:
    if sides.residual is None:
        unmatched: Node = SemiJoin(sides.right, sides.left, sides.right_keys, sides.left_keys, sides.null_safe, True)
    else:
        join = _join(sides)
        matched = projection(join, columns_of(join)[len(sides.left.schema) :])
        unmatched = _on_whole_row(sides.right, matched, anti=True)
    nulls: list[Expression] = [Literal(None, f.type) for f in sides.left.schema.fields[: sides.left_width]]
    return projection(unmatched, [*nulls, *columns_of(unmatched)[: sides.right_width]])
