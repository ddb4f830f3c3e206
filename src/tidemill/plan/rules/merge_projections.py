"""Two projections on top of each other become one.

    Project [x + 1]                 Project [a * 2 + 1]
      Project [a * 2 AS x]    ->      Scan t [a]
        Scan t [a]

A computed column that is used more than once, or for each element of an array, stays computed once, below.
"""

from __future__ import annotations

from collections import Counter

from tidemill.plan.algebra.nodes import Node, Project
from tidemill.plan.algebra.traverse import map_children
from tidemill.task.expressions import Call, Ref, references, substitute, walk


def merge_projections(node: Node) -> Node:
    """Merge projections bottom-up."""
    node = map_children(node, merge_projections)
    if not isinstance(node, Project) or not isinstance(node.child, Project):
        return _without_identity(node)
    below = node.child
    uses = Counter(e.index for top in node.expressions for e in walk(top) if isinstance(e, Ref))
    bodies = (b for top in node.expressions for e in walk(top) if isinstance(e, Call) for b in e.args[e.plain :])
    uses.update(i for body in bodies for i in references(body))
    if any(uses[i] > 1 and isinstance(e, Call) for i, e in enumerate(below.expressions)):
        return node
    merged = tuple(substitute(e, below.expressions) for e in node.expressions)
    return _without_identity(Project(below.child, merged, node.names))


def _without_identity(node: Node) -> Node:
    """A projection that changes neither columns nor names is left out."""
    if not isinstance(node, Project):
        return node
    fields = node.child.schema.fields
    same = len(fields) == len(node.expressions) and all(
        isinstance(e, Ref) and e.index == i and n == fields[i].name
        for i, (e, n) in enumerate(zip(node.expressions, node.names, strict=True))
    )
    return node.child if same else node
