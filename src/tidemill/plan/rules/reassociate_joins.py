"""A chain of inner joins becomes as flat as its keys allow: fewer exchanges one after another in an epoch.

    Join s_nationkey = n_nationkey            Join l_suppkey = s_suppkey
      Join l_suppkey = s_suppkey                Join l_orderkey = o_orderkey
        Join l_orderkey = o_orderkey              Scan lineitem
          Scan lineitem                   ->      Scan orders
          Scan orders                           Join s_nationkey = n_nationkey
        Scan supplier                             Scan supplier
      Scan nation                                 Scan nation

The right side of a join moves down to the input that has all its keys, where that makes the tree flatter; else it
stays. Residual conditions stay above, so that they are evaluated for the same rows as before.
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
    best = min(_candidates(plain, node.left, node.left_keys), key=lambda candidate: _depth(candidate.node)[0])
    if best.node == plain:
        return node
    ordered = _columns(best.node, (*best.old, *best.new), node.schema.fields)
    return ordered if node.residual is None else Filter(ordered, node.residual)


@dataclass(frozen=True)
class _Candidate:
    """A tree with the new side joined in: positions of the columns it had, and of those of the new side."""

    node: Node
    old: tuple[int, ...]
    new: tuple[int, ...]


def _candidates(join: Join, tree: Node, keys: tuple[int, ...]) -> Iterator[_Candidate]:
    """The right side of ``join`` joined to ``tree`` by its columns ``keys``: on top first, then further down."""
    width, added = len(tree.schema), len(join.right.schema)
    on_top = replace(join, left=tree, left_keys=keys)
    yield _Candidate(on_top, tuple(range(width)), tuple(range(width, width + added)))
    if isinstance(tree, Project):
        refs = [e.index for e in tree.expressions if isinstance(e, Ref)]
        if len(refs) == len(tree.expressions):
            for candidate in _candidates(join, tree.child, tuple(refs[k] for k in keys)):
                columns = (*(candidate.old[r] for r in refs), *candidate.new)
                kept = _columns(candidate.node, columns, (*tree.schema.fields, *join.right.schema.fields))
                yield _Candidate(kept, tuple(range(width)), tuple(range(width, width + added)))
    elif isinstance(tree, Join):
        middle = len(tree.left.schema)
        if max(keys) < middle:
            for candidate in _candidates(join, tree.left, keys):
                yield _inside(tree, candidate, left=True)
        elif min(keys) >= middle:
            for candidate in _candidates(join, tree.right, tuple(k - middle for k in keys)):
                yield _inside(tree, candidate, left=False)


def _inside(tree: Join, candidate: _Candidate, left: bool) -> _Candidate:
    """A join with one of its sides replaced."""
    middle, end = len(tree.left.schema), len(tree.schema)
    if left:
        start = len(candidate.node.schema)
        moved = (*candidate.old, *range(start, start + end - middle))
        new = candidate.new
        side = {"left": candidate.node, "left_keys": tuple(candidate.old[k] for k in tree.left_keys)}
    else:
        moved = (*range(middle), *(middle + c for c in candidate.old))
        new = tuple(middle + c for c in candidate.new)
        side = {"right": candidate.node, "right_keys": tuple(candidate.old[k] for k in tree.right_keys)}
    residual = None if tree.residual is None else remap(tree.residual, dict(enumerate(moved)))
    return _Candidate(replace(tree, residual=residual, **side), moved, new)  # type: ignore[arg-type]


def _columns(node: Node, columns: tuple[int, ...], fields: tuple[Field, ...]) -> Node:
    if columns == tuple(range(len(node.schema))) and fields == node.schema.fields:
        return node
    refs = tuple(Ref(c, f.type, f.nullable) for c, f in zip(columns, fields, strict=True))
    return Project(node, refs, tuple(f.name for f in fields))


def _depth(node: Node) -> tuple[int, frozenset[frozenset[int]]]:
    """How many exchanges follow one another, and the column sets that rows are partitioned by; an estimate."""
    match node:
        case Filter():
            return _depth(node.child)
        case Project():
            depth, partitioned = _depth(node.child)
            at = {e.index: i for i, e in enumerate(node.expressions) if isinstance(e, Ref)}
            return depth, frozenset(frozenset(at[c] for c in p) for p in partitioned if p <= at.keys())
        case Join() | SemiJoin():
            left, right = frozenset(node.left_keys), frozenset(node.right_keys)
            depth = max(_depth_by(node.left, left), _depth_by(node.right, right))
            start = len(node.left.schema)
            both = {left, frozenset(start + k for k in right)}
            return depth, frozenset(both if isinstance(node, Join) else {left})
        case Aggregate():
            keys = frozenset(node.keys)
            return _depth_by(node.child, keys), frozenset({frozenset(range(len(node.keys)))})
    return max((1 + _depth(c)[0] for c in children(node)), default=0), frozenset()


def _depth_by(node: Node, keys: frozenset[int]) -> int:
    """The depth of a node whose rows are partitioned by ``keys``."""
    depth, partitioned = _depth(node)
    return depth if keys in partitioned else depth + 1
