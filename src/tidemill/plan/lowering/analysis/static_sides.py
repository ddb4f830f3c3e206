"""Which sides of joins are complete before the other side has any row.

Static tables are read in epochs of their own, before any other table. So a node over static tables alone is
*complete*: from the first epoch on that reads another table it never changes. A node that gives nothing until then
*waits*. A join of a waiting side with a complete one needs no changes of the complete side, and no state of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tidemill.plan.algebra.build import conjunction
from tidemill.plan.algebra.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Node,
    Pairs,
    Project,
    Recursion,
    Repeat,
    Scan,
    SemiJoin,
    TopRows,
    Union,
    Window,
    children,
)
from tidemill.plan.lowering.analysis.definition import ViewDefinition, comes_later
from tidemill.task.expressions import Ref
from tidemill.task.program import TableSource


class StaticSides:
    """Tells what is complete and what waits, for a reader created at an epoch.

    A view created at another epoch begins with a snapshot beside new rows, so it neither is complete nor waits; the
    same holds for a table whose rows are kept and that is older than its reader.
    """

    def __init__(self, views: Mapping[str, ViewDefinition], tables: Mapping[str, TableSource]) -> None:
        self._views = views
        self._tables = tables

    def complete(self, node: Node, created_at_epoch: int) -> bool:
        """Whether a node reads static tables only."""
        if isinstance(node, Scan):
            if node.relation in self._tables:
                return self._tables[node.relation].static
            view = self._views[node.relation]
            return view.created_at_epoch == created_at_epoch and self.complete(view.root, created_at_epoch)
        if isinstance(node, Aggregate):
            return self.complete(node.child, created_at_epoch)
        return all(self.complete(child, created_at_epoch) for child in children(node))

    def waits(self, node: Node, created_at_epoch: int) -> bool:
        """Whether a node gives no row before all static tables are read."""
        match node:
            case Scan() if node.relation in self._tables:
                source = self._tables[node.relation]
                older = source.kept is not None and comes_later(created_at_epoch, source.kept.created_at_epoch)
                return not source.static and not older
            case Scan():
                view = self._views[node.relation]
                return view.created_at_epoch == created_at_epoch and self.waits(view.root, created_at_epoch)
            case Aggregate():
                return bool(node.keys) and self.waits(node.child, created_at_epoch)
            case Union():
                return all(self.waits(child, created_at_epoch) for child in node.children)
            case SemiJoin(anti=True):
                return self.waits(node.left, created_at_epoch)
            case Join() | SemiJoin():
                return self.waits(node.left, created_at_epoch) or self.waits(node.right, created_at_epoch)
            case Recursion():
                return self.waits(node.anchor, created_at_epoch)
            case Project() | Filter() | Generate() | Repeat() | TopRows() | Window():
                return self.waits(node.child, created_at_epoch)

    def complete_side(self, node: Join | SemiJoin | Pairs, created_at_epoch: int) -> int | None:
        """The side (0 left, 1 right) that is complete while the other one waits; None where there is none."""
        for side, (other, waiting) in enumerate(((node.left, node.right), (node.right, node.left))):
            if self.complete(other, created_at_epoch) and self.waits(_rows_of(node, waiting), created_at_epoch):
                return side
        return None

    @staticmethod
    def residual_join(node: SemiJoin, looked_up: Callable[[Join], bool]) -> Join | None:
        """The join behind a semi or anti join on the whole left row, where its right side can be looked up.

        Such is what is made of a semi or anti join with a residual condition: a left row is in or out as it is
        among the left rows of a join of the same rows.
        """
        every = tuple(range(len(node.left.schema)))
        if (node.left_keys, node.right_keys) != (every, every) or not all(node.null_safe):
            return None
        join = node.right
        if isinstance(join, Project):
            if [e.index for e in join.expressions if isinstance(e, Ref)] != list(every):
                return None
            join = join.child
        if not isinstance(join, Join) or not looked_up(join):
            return None
        if isinstance(join.left, Filter) and join.left.child == node.left:
            parts = (join.left.condition, *(() if join.residual is None else (join.residual,)))
            return replace(join, left=node.left, residual=conjunction(list(parts)))
        return join if join.left == node.left else None


def _rows_of(node: Join | SemiJoin | Pairs, side: Node) -> Node:
    """The rows that a side is made of: partial groups of pairs come only with rows."""
    return side.child if isinstance(node, Pairs) and isinstance(side, Aggregate) else side
