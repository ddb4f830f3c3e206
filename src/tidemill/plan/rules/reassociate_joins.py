"""A chain of inner joins becomes as flat as its keys allow: fewer exchanges one after another in an epoch.

    Join s_nationkey = n_nationkey            Join l_suppkey = s_suppkey
      Join l_suppkey = s_suppkey                Join l_orderkey = o_orderkey
        Join l_orderkey = o_orderkey              Scan lineitem
          Scan lineitem                   ->      Scan orders
          Scan orders                           Join s_nationkey = n_nationkey
        Scan supplier                             Scan supplier
      Scan nation                                 Scan nation

The right side of a join moves down to the input that has all its keys, where the whole gets flatter by that; else
it stays. Residual conditions stay above, so that they are asked for no other rows than before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tidemill.plan.algebra.nodes import Aggregate, Filter, Join, Node, Project, SemiJoin, children
from tidemill.plan.algebra.traverse import map_children
from tidemill.schema import Field
from tidemill.task.expressions import Ref, remap


def reassociate_joins(node: Node) -> Node:
    """Flatten chains, bottom-up."""
    node = map_children(node, reassociate_joins)
    if not isinstance(node, Join) or not node.left_keys:
        return node
    plain = replace(node, residual=None)
    best = min(_places(plain, node.left, node.left_keys), key=lambda place: _depth(place.node)[0])
    if best.node == plain:
        return node
    ordered = _columns(best.node, (*best.old, *best.new), node.schema.fields)
    return ordered if node.residual is None else Filter(ordered, node.residual)


@dataclass(frozen=True)
class _Place:
    """A tree that the new side was joined to: where the columns it had are now, and where those of the new side."""

    node: Node
    old: tuple[int, ...]
    new: tuple[int, ...]


def _places(join: Join, tree: Node, keys: tuple[int, ...]) -> Iterator[_Place]:
    """The right side of ``join`` joined to ``tree`` by its columns ``keys``: on top first, then further down."""
    width, added = len(tree.schema), len(join.right.schema)
    on_top = replace(join, left=tree, left_keys=keys)
    yield _Place(on_top, tuple(range(width)), tuple(range(width, width + added)))
    if isinstance(tree, Project):
        refs = [e.index for e in tree.expressions if isinstance(e, Ref)]
        if len(refs) == len(tree.expressions):
            for place in _places(join, tree.child, tuple(refs[k] for k in keys)):
                columns = (*(place.old[r] for r in refs), *place.new)
                kept = _columns(place.node, columns, (*tree.schema.fields, *join.right.schema.fields))
                yield _Place(kept, tuple(range(width)), tuple(range(width, width + added)))
    elif isinstance(tree, Join):
        middle = len(tree.left.schema)
        if max(keys) < middle:
            for place in _places(join, tree.left, keys):
                yield _inside(tree, place, left=True)
        elif min(keys) >= middle:
            for place in _places(join, tree.right, tuple(k - middle for k in keys)):
                yield _inside(tree, place, left=False)


def _inside(tree: Join, place: _Place, left: bool) -> _Place:
    """A join with one of its sides replaced."""
    middle, end = len(tree.left.schema), len(tree.schema)
    if left:
        start = len(place.node.schema)
        moved = (*place.old, *range(start, start + end - middle))
        new = place.new
        side = {"left": place.node, "left_keys": tuple(place.old[k] for k in tree.left_keys)}
    else:
        moved = (*range(middle), *(middle + c for c in place.old))
        new = tuple(middle + c for c in place.new)
        side = {"right": place.node, "right_keys": tuple(place.old[k] for k in tree.right_keys)}
    residual = None if tree.residual is None else remap(tree.residual, dict(enumerate(moved)))
    return _Place(replace(tree, residual=residual, **side), moved, new)  # type: ignore[arg-type]


def _columns(node: Node, columns: tuple[int, ...], fields: tuple[Field, ...]) -> Node:
    if columns == tuple(range(len(node.schema))) and fields == node.schema.fields:
        return node
    refs = tuple(Ref(c, f.type, f.nullable) for c, f in zip(columns, fields, strict=True))
    return Project(node, refs, tuple(f.name for f in fields))


def _depth(node: Node) -> tuple[int, frozenset[frozenset[int]]]:
    """How many exchanges follow one another, and by which columns the rows lie where they are; an estimate."""
    match node:
        case Filter():
            return _depth(node.child)
        case Project():
            depth, placed = _depth(node.child)
            at = {e.index: i for i, e in enumerate(node.expressions) if isinstance(e, Ref)}
            return depth, frozenset(frozenset(at[c] for c in p) for p in placed if p <= at.keys())
        case Join() | SemiJoin():
            left, right = frozenset(node.left_keys), frozenset(node.right_keys)
            depth = max(_moved(node.left, left), _moved(node.right, right))
            start = len(node.left.schema)
            both = {left, frozenset(start + k for k in right)}
            return depth, frozenset(both if isinstance(node, Join) else {left})
        case Aggregate():
            keys = frozenset(node.keys)
            return _moved(node.child, keys), frozenset({frozenset(range(len(node.keys)))})
    return max((1 + _depth(c)[0] for c in children(node)), default=0), frozenset()


def _moved(node: Node, keys: frozenset[int]) -> int:
    depth, placed = _depth(node)
    return depth if keys in placed else depth + 1
