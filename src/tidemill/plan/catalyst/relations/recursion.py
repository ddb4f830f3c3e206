"""WITH RECURSIVE: Catalyst's UnionLoop, whose second child reads the rows of the level before as a UnionLoopRef.

The step is read like any query, over a leaf whose rows are the level before, and then divided into paths from that
leaf upwards. An input that does not read the leaf is a relation that the step joins its rows with.
Of joins that keep the rows of the recursion, an outer join is the sum of three paths, an anti join of two::

    R left join E   =   R join E   +   R padded   -   (R join DISTINCT keys of E) padded
    R anti join E   =   R          -   R join DISTINCT keys of E
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemill.errors import TidemillError
from tidemill.plan.algebra.build import columns_of
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
    StepJoin,
    StepPath,
    TopRows,
    Union,
    Window,
    relations,
)
from tidemill.schema import Schema
from tidemill.task.expressions import Expression, Ref
from tidemill.task.program import Calculate, Explode

_MOST_PATHS = 27
_KINDS: dict[type, str] = {
    Aggregate: "DISTINCT or an aggregate",
    Window: "a window function",
    TopRows: "LIMIT",
    Repeat: "INTERSECT ALL or EXCEPT ALL",
    Recursion: "another recursion",
}


@dataclass(frozen=True)
class RecursionLimits:
    """How many levels and rows a recursion may have; None for no bound. Spark's limit of rows is one more."""

    levels: int | None = 100
    rows: int | None = 999_999


DEFAULT_LIMITS = RecursionLimits()


def reference(loop: int, schema: Schema) -> Scan:
    """The leaf whose rows are those of the level before."""
    return Scan(_name(loop), tuple(replace(f, nullable=True) for f in schema.fields))


def recursion(loop: int, anchor: Node, step: Node, limits: RecursionLimits) -> Recursion:
    """A recursion of an anchor and a step over :func:`reference`.

    Raises
    ------
    TidemillError
        TM2109 for a step that is not linear in the rows of the level before.
    """
    if anchor.schema.types != step.schema.types:
        types = [f"{a} and {b}" for a, b in zip(anchor.schema.types, step.schema.types, strict=True) if a != b]
        what = f"columns of other types in the recursive part: {', '.join(types)}"
        raise _refused(what, "cast them to those of the first part")
    paths = _paths(step, _name(loop))
    if len(paths) > _MOST_PATHS:
        raise _refused("too many outer and anti joins in the recursive part", "divide the query into several views")
    return Recursion(anchor, tuple(paths), limits.levels, limits.rows)


def _name(loop: int) -> str:
    return f"\0loop {loop}"


def _paths(node: Node, name: str) -> list[StepPath]:
    """The paths from the leaf, which is below this node, to the node."""
    match node:
        case Scan() if node.relation == name:
            return [StepPath(())]
        case Project():
            return _then(_paths(node.child, name), Calculate(None, node.expressions))
        case Filter():
            return _then(_paths(node.child, name), Calculate(node.condition, None))
        case Generate():
            explode = Explode(node.argument, node.kept, node.position, node.spread, node.outer)
            return _then(_paths(node.child, name), explode)
        case Union():
            return [path for child in node.children for path in _paths(child, name)]
        case Join():
            return _joined(node, name)
        case SemiJoin():
            return _semi_joined(node, name)
        case Aggregate() | Window() | TopRows() | Repeat() | Recursion() if _reads(node, name):
            what = f"{_KINDS[type(node)]} over the rows of the level before"
            raise _refused(what, "put it into the query around the recursion")
    raise _refused("a recursive part that has rows beside those of the level before", "put them into the first part")


def _then(paths: list[StepPath], part: Calculate | Explode | StepJoin, sign: int = 1) -> list[StepPath]:
    return [StepPath((*path.parts, part), path.sign * sign) for path in paths]


def _joined(node: Join, name: str) -> list[StepPath]:
    """An inner join; the columns of the recursion come first until all are put in order."""
    if _reads(node.left, name) and _reads(node.right, name):
        raise _refused("an outer or semi join with another condition than equal columns", "join by equal columns only")
    if _reads(node.left, name):
        rows, other, keys, other_keys = node.left, node.right, node.left_keys, node.right_keys
    else:
        rows, other, keys, other_keys = node.right, node.left, node.right_keys, node.left_keys
    paths = _then(_paths(rows, name), StepJoin(other, keys, other_keys, node.null_safe))
    fields = [*rows.schema.fields, *other.schema.fields]
    columns: list[Expression] = [Ref(i, f.type, True) for i, f in enumerate(fields)]
    if rows is node.right:
        width = len(rows.schema)
        paths = _then(paths, Calculate(None, (*columns[width:], *columns[:width])))
    return paths if node.residual is None else _then(paths, Calculate(node.residual, None))


def _semi_joined(node: SemiJoin, name: str) -> list[StepPath]:
    """Rows that have a partner, or none: they are joined with the distinct keys."""
    if _reads(node.right, name):
        raise _refused("a semi or anti join with another condition than equal columns", "join by equal columns only")
    paths = _paths(node.left, name)
    keys = tuple(dict.fromkeys(node.right_keys))
    fields = node.right.schema.fields
    distinct = Aggregate(node.right, keys, (), tuple(fields[k].name for k in keys))
    positions = tuple(keys.index(k) for k in node.right_keys)
    columns = columns_of(node.left)
    sign = -1 if node.anti else 1
    found = _then(paths, StepJoin(distinct, node.left_keys, positions, node.null_safe), sign)
    found = _then(found, Calculate(None, columns))
    return [*paths, *found] if node.anti else found


def _reads(node: Node, name: str) -> bool:
    return name in relations(node)


def _refused(got: str, hint: str) -> TidemillError:
    return TidemillError("TM2109", "this recursion is not supported in a materialized view", got=got, hint=hint)


def with_last(node: Node, limit: int) -> Node | None:
    """LIMIT of a recursion with one row a level, as a limit of levels; None for any other node.

    Its anchor is one constant row, and its step reads nothing else.
    """
    if isinstance(node, Project):
        child = with_last(node.child, limit)
        return None if child is None else replace(node, child=child)
    if not isinstance(node, Recursion) or len(node.paths) != 1:
        return None
    (path,) = node.paths
    if not all(isinstance(part, Calculate) for part in path.parts) or not _one_row(node.anchor):
        return None
    return replace(node, last=limit if node.last is None else min(limit, node.last))


def _one_row(node: Node) -> bool:
    """Whether there is one row whatever the input, or none."""
    while isinstance(node, Project | Filter):
        node = node.child
    if isinstance(node, Generate):
        literal = node.argument
        return False if literal is None else _one_element(literal) and _one_row(node.child)
    return isinstance(node, Aggregate) and not node.keys


def _one_element(array: Expression) -> bool:
    return getattr(array, "function", "") == "array" and len(getattr(array, "args", ())) == 1
