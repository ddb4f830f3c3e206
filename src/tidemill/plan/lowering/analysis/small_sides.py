"""Which sides of joins are small beside the other one, and which of them do not change in an epoch.

A small table does change, but in few epochs. In one in which it does not, ``d(L x R) = dL x R``: the rows of the
other side meet the small one where they are, in the sealed runs of all vnodes, as they meet a side that is complete.
Both sides are stored as ever, so in an epoch in which it does change the ordinary join goes on from the same state.
An epoch has the program for what moves in it (``runtime/job/epoch_programs.py``); all of them have the same state
tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from tidemill.plan.algebra.build import gives_one_row
from tidemill.plan.algebra.nodes import Aggregate, Join, Node, Pairs, Scan, SemiJoin, children, relations
from tidemill.plan.lowering.analysis.definition import ViewDefinition
from tidemill.task.program import TableSource

_TIMES = 10
"""A side is small when the other one has at least so many times its bytes."""


class SmallSides:
    """Decides from the sizes that tables had when the views of an epoch were created.

    Parameters
    ----------
    views : mapping
        All views; those created at one epoch agree about sizes.
    moving : set of str, optional
        Tables that have rows in the epochs of this program; None for any.

    Attributes
    ----------
    tables : set of str
        What the small sides found so far are made of.
    looked_up : set of str
        State tables of small sides that this program takes to be unchanged: it is right for an epoch that writes none
        of them.
    """

    def __init__(self, views: Mapping[str, ViewDefinition], moving: frozenset[str] | None) -> None:
        self._views = views
        self._moving = moving
        self._sizes: dict[int, dict[str, int | None]] = {}
        for view in views.values():
            self._sizes.setdefault(view.created_at_epoch, {}).update(view.sizes)
        self.tables: set[str] = set()
        self.looked_up: set[str] = set()

    def extended(self, views: Mapping[str, ViewDefinition]) -> SmallSides | None:
        """That of further views too; None where these say more about the sizes of tables that the others read."""
        made = SmallSides(views, self._moving)
        made.tables, made.looked_up = self.tables.copy(), self.looked_up.copy()
        unsized = {v.created_at_epoch for v in self._views.values() if not v.sizes and relations(v.root)}
        for epoch, before in self._sizes.items():
            now = made._sizes[epoch]
            if any(now[table] != size for table, size in before.items()) or (epoch in unsized and now != before):
                return None
        return made

    def side(self, node: Join | SemiJoin | Pairs, created_at_epoch: int) -> int | None:
        """The side (0 left, 1 right) that is small; None where there is none. Of a semi join only the right one."""
        only_right = isinstance(node, SemiJoin) or (
            isinstance(node, Join) and not node.left_keys and (node.spread or gives_one_row(node.right))
        )
        for side, (other, rows) in ((1, (node.right, node.left)), (0, (node.left, node.right))):
            if side == 0 and only_right:
                continue
            tables = base_tables(other, self._views)
            least = sum(self._known(tables, created_at_epoch))
            most = max(self._known(base_tables(rows, self._views), created_at_epoch), default=0.0)
            if tables and math.isfinite(least) and most and most >= _TIMES * least:
                self.tables |= tables
                return side
        return None

    def unchanged(self, node: Node, created_at_epoch: int) -> bool:
        """Whether a node does not change in the epochs of this program."""
        return self._moving is not None and not base_tables(node, self._views) & self._moving

    def _known(self, tables: Iterable[str], created_at_epoch: int) -> Iterator[float]:
        """The bytes of tables: infinite where they are too many, or not known."""
        sizes = self._sizes.get(created_at_epoch, {})
        for table in tables:
            size = sizes.get(table)
            yield math.inf if size is None else float(size)


def base_tables(node: Node, views: Mapping[str, ViewDefinition]) -> set[str]:
    """Names of the tables that a node reads, through views too."""
    found: set[str] = set()
    for name in relations(node):
        found |= base_tables(views[name].root, views) if name in views else {name}
    return found


def never_negative(node: Node, tables: Mapping[str, TableSource], views: Mapping[str, ViewDefinition]) -> bool:
    """Whether no row of a node can be deleted before it came, so that no weight is ever below zero.

    Only then are a semi join on the whole row, which counts matches times weight, and one that looks at matches alone
    the same function of both sides.
    """
    match node:
        case Scan() if node.relation in tables:
            return tables[node.relation].changelog is not None or tables[node.relation].op_column is None
        case Scan():
            return never_negative(views[node.relation].root, tables, views)
        case Aggregate():
            return True
        case SemiJoin():
            return never_negative(node.left, tables, views)
    return all(never_negative(child, tables, views) for child in children(node))
