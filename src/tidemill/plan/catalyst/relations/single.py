"""Whether a plan of Catalyst has one row at most for each value of some of its columns."""

from __future__ import annotations

from collections.abc import Set

from tidemill.plan.catalyst.trees.tree import JsonTree, attribute_id, trees

_SAME_ROWS = ("Filter", "Sort", "SubqueryAlias", "GlobalLimit", "LocalLimit", "Offset", "Window")


def single_for(tree: JsonTree, ids: Set[int]) -> bool:
    """Whether no two rows agree in the attributes ``ids``.

    That is known of groups, and of joins of such: Catalyst makes an aggregate in a correlated subquery a left join of
    the values of the correlation with the groups.
    """
    match tree.name:
        case "Aggregate":
            sources = _sources(trees(tree.fields["aggregateExpressions"]), ids)
            groups = [g for g in trees(tree.fields["groupingExpressions"]) if g.name != "Literal"]
            return all(attribute_id(g) in sources for g in groups)
        case "Project":
            return single_for(tree.children[0], _sources(trees(tree.fields["projectList"]), ids))
        case "Join":
            return _joined(tree, ids)
    return tree.name in _SAME_ROWS and single_for(tree.children[0], ids)


def _joined(tree: JsonTree, ids: Set[int]) -> bool:
    left, right = tree.children
    if not single_for(left, ids):
        return False
    kind = tree.fields["joinType"]
    name = str(kind if isinstance(kind, str) else kind.get("object", "")).rstrip("$").rsplit(".", 1)[-1]
    if name in ("LeftSemi", "LeftAnti"):
        return True
    if name not in ("Inner", "LeftOuter"):
        return False
    own = _output(right)
    equal = [pair for c in trees(tree.fields.get("condition")) for pair in _equalities(c)]
    return single_for(right, {i for pair in equal for i in pair if len(own.intersection(pair)) == 1})


def _output(tree: JsonTree) -> set[int]:
    """The attributes of a plan, as far as they are known."""
    match tree.name:
        case "Aggregate":
            return {o.id for o in trees(tree.fields["aggregateExpressions"])}
        case "Project":
            return {o.id for o in trees(tree.fields["projectList"])}
    return _output(tree.children[0]) if tree.name in _SAME_ROWS else set()


def _equalities(tree: JsonTree) -> list[tuple[int, int]]:
    if tree.name == "And":
        return [pair for child in tree.children for pair in _equalities(child)]
    if tree.name not in ("EqualTo", "EqualNullSafe"):
        return []
    left, right = (attribute_id(c) for c in tree.children)
    return [] if left is None or right is None else [(left, right)]


def _sources(outputs: list[JsonTree], ids: Set[int]) -> set[int]:
    """The attributes below that the attributes ``ids`` of an output are."""
    found = set()
    for output in outputs:
        if output.id in ids:
            value = output.children[0] if output.name == "Alias" else output
            source = attribute_id(value)
            if source is not None:
                found.add(source)
    return found
