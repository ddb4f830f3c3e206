"""The steps of joins: of changes with the state of either side, or by lookup in a side that does not change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidemill.plan.algebra.build import gives_one_row
from tidemill.plan.algebra.nodes import Join, Node, SemiJoin
from tidemill.plan.lowering.analysis.definition import ViewDefinition
from tidemill.plan.lowering.analysis.placement import Placement
from tidemill.plan.lowering.analysis.small_sides import SmallSides, never_negative
from tidemill.plan.lowering.analysis.static_sides import StaticSides
from tidemill.plan.lowering.steps import Steps
from tidemill.task.program import (
    Arrange,
    Calculate,
    Input,
    JoinChanges,
    LookupJoin,
    SemiChanges,
    TableSource,
)


class Joins:
    """Lowers joins, semi and anti joins."""

    def __init__(
        self,
        steps: Steps,
        static: StaticSides,
        small: SmallSides,
        views: Mapping[str, ViewDefinition],
        tables: Mapping[str, TableSource],
    ) -> None:
        self._steps = steps
        self._static = static
        self._small = small
        self._views = views
        self._tables = tables

    def join(self, node: Join, created_at_epoch: int) -> Input:
        """The step that gives the changes of an inner join."""
        complete = self._static.complete_side(node, created_at_epoch)
        if complete is not None:
            return self._lookup_join(node, created_at_epoch, complete)
        if not node.left_keys and (node.spread or gives_one_row(node.right)):
            return self._join_scalar(node, created_at_epoch)
        node = self._in_placed_order(node, created_at_epoch)
        left = self._steps.arranged(
            node.left, created_at_epoch, node.left_keys, required_keys(node.left_keys, node.null_safe)
        )
        right = self._steps.arranged(
            node.right, created_at_epoch, node.right_keys, required_keys(node.right_keys, node.null_safe)
        )
        self._steps.look_up(left[0].table, node.right, node.right_keys)
        self._steps.look_up(right[0].table, node.left, node.left_keys)
        start = len(node.left.schema)
        places = frozenset({node.left_keys, tuple(start + k for k in node.right_keys)})
        operation = JoinChanges(left[0], right[0], len(node.left_keys))
        return self._joined(node, operation, (left[1], right[1]), places, created_at_epoch, left[2], right[2])

    def _joined(
        self,
        node: Join,
        operation: JoinChanges,
        inputs: tuple[Input, ...],
        places: Placement,
        created_at_epoch: int,
        *moves: bool,
    ) -> Input:
        """The step of a join whose sides are stored; a lookup where one is small and does not change.

        The rows count as being where they are in every program, because that decides about state tables.
        """
        small = self._small.side(node, created_at_epoch)
        if small is not None:
            places &= self._lookup_places(node, created_at_epoch, small)
        if small is not None and self._small.unchanged((node.left, node.right)[small], created_at_epoch):
            other = (operation.left, operation.right)[small]
            self._small.looked_up.add(other.table.id)
            joined = self._looked_up_in(node, created_at_epoch, small, other)
        else:
            joined = Input(self._steps.add(operation, inputs, created_at_epoch, *moves))
        self._steps.put(joined, places)
        return self._with_residual(node, joined, created_at_epoch)

    def _lookup_join(self, node: Join, created_at_epoch: int, complete: int) -> Input:
        """A join of the rows of one side, where they are, with the other side, which is complete."""
        keys, sides = (node.left_keys, node.right_keys), (node.left, node.right)
        self._steps.rows(sides[1 - complete], created_at_epoch)
        other, _, _ = self._steps.arranged(
            sides[complete], created_at_epoch, keys[complete], required_keys(keys[complete], node.null_safe)
        )
        self._steps.look_up(other.table, sides[1 - complete], keys[1 - complete])
        joined = self._looked_up_in(node, created_at_epoch, complete, other)
        self._steps.put(joined, self._lookup_places(node, created_at_epoch, complete))
        return self._with_residual(node, joined, created_at_epoch)

    def _looked_up_in(self, node: Join, created_at_epoch: int, side: int, other: Arrange) -> Input:
        """The rows of the other side joined with a side that does not change."""
        mine = (node.right_keys, node.left_keys)[side]
        rows = self._steps.rows((node.right, node.left)[side], created_at_epoch)
        operation = LookupJoin("inner", mine, required_keys(mine, node.null_safe), other, side == 0)
        return Input(self._steps.add(operation, (rows,), created_at_epoch))

    def _lookup_places(self, node: Join, created_at_epoch: int, side: int) -> Placement:
        """Where the rows of the other side are, as the joined rows that they become."""
        theirs, mine = (node.left_keys, node.right_keys) if side == 0 else (node.right_keys, node.left_keys)
        before = self._steps.place(self._steps.rows((node.right, node.left)[side], created_at_epoch))
        start = len(node.left.schema)
        moved, equal = ((start, 0), (0, start))[side]
        places = {tuple(moved + c for c in place) for place in before}
        for place in before:
            if place and all(c in mine for c in place):
                places.add(tuple(equal + theirs[mine.index(c)] for c in place))
        return frozenset(places)

    def _lookup_semi_join(self, node: SemiJoin, created_at_epoch: int) -> Input | None:
        """A semi or anti join of rows, where they are, with a right side that is complete; None where it is not."""
        join = self._static.residual_join(node, lambda join: self._static.complete_side(join, created_at_epoch) == 1)
        if join is None and self._static.complete_side(node, created_at_epoch) != 1:
            return None
        keyed = join or node
        required = required_keys(keyed.right_keys, keyed.null_safe)
        whole = join is not None and join.residual is not None
        other, _, _ = self._steps.arranged(
            keyed.right, created_at_epoch, keyed.right_keys, required, keys_only=not whole
        )
        self._steps.look_up(other.table, node.left, keyed.left_keys)
        never = required_keys(keyed.left_keys, keyed.null_safe)
        residual = None if join is None else join.residual
        operation = LookupJoin(_kind(node), keyed.left_keys, never, other, residual=residual)
        rows = self._steps.rows(node.left, created_at_epoch)
        return self._steps.placed_by(self._steps.place(rows), operation, (rows,), created_at_epoch)

    def _join_scalar(self, node: Join, created_at_epoch: int) -> Input:
        """A join with one row: it is sent to where the rows of the other side are."""
        rows = self._steps.rows(node.left, created_at_epoch)
        places = self._steps.place(rows)
        if () in places:
            spread: tuple[int, ...] = ()
        else:
            spread = max(sorted(places), key=len, default=tuple(range(len(node.left.schema))))
        left = self._steps.arranged(node.left, created_at_epoch, spread, ())
        right = self._steps.arranged(node.right, created_at_epoch, (), ())
        broadcast = bool(spread)
        for table in (left[0].table, right[0].table):
            self._steps.look_up(table, None, ())
        operation = JoinChanges(left[0], right[0], 0, broadcast)
        inputs = (left[1], replace(right[1], broadcast=broadcast))
        return self._joined(
            node, operation, inputs, frozenset({spread}), created_at_epoch, left[2], right[2] or broadcast
        )

    def _with_residual(self, node: Join, joined: Input, created_at_epoch: int) -> Input:
        if node.residual is None:
            return joined
        return self._steps.placed_by(
            self._steps.place(joined), Calculate(node.residual, None), (joined,), created_at_epoch
        )

    def _in_placed_order(self, node: Join, created_at_epoch: int) -> Join:
        """The join with its keys in the order in which one side is placed, if it is by just these keys."""
        for keys, side in ((node.left_keys, node.left), (node.right_keys, node.right)):
            for place in sorted(self._steps.place(self._steps.rows(side, created_at_epoch))):
                if len(set(keys)) == len(keys) and place != keys and sorted(place) == sorted(keys):
                    order = [keys.index(k) for k in place]
                    return replace(
                        node,
                        left_keys=tuple(node.left_keys[i] for i in order),
                        right_keys=tuple(node.right_keys[i] for i in order),
                        null_safe=tuple(node.null_safe[i] for i in order),
                    )
        return node

    def semi_join(self, node: SemiJoin, created_at_epoch: int) -> Input:
        """The step that gives the changes of a semi or anti join."""
        found = self._lookup_semi_join(node, created_at_epoch)
        return self._semi_join_of_changes(node, created_at_epoch) if found is None else found

    def _semi_join_of_changes(self, node: SemiJoin, created_at_epoch: int) -> Input:
        never = required_keys(node.left_keys, node.null_safe)
        left = self._steps.arranged(node.left, created_at_epoch, node.left_keys, () if node.anti else never)
        required = required_keys(node.right_keys, node.null_safe)
        right = self._steps.arranged(node.right, created_at_epoch, node.right_keys, required, keys_only=True)
        self._steps.look_up(left[0].table, node.right, node.right_keys)
        self._steps.look_up(right[0].table, node.left, node.left_keys)
        self._steps.look_up(right[0].table, node.right, node.right_keys)
        places: Placement = frozenset({node.left_keys})
        rows = self._steps.rows(node.left, created_at_epoch)
        small = self._small_semi_join(node, created_at_epoch, right[0])
        if small is not None:
            places &= self._steps.place(rows)
        if small is not None and self._small.unchanged(small[1], created_at_epoch):
            self._small.looked_up.add(small[0].other.table.id)
            found = Input(self._steps.add(small[0], (rows,), created_at_epoch))
        else:
            operation = SemiChanges(left[0], right[0], len(node.left_keys), node.anti)
            found = Input(self._steps.add(operation, (left[1], right[1]), created_at_epoch, left[2], right[2]))
        self._steps.put(found, places)
        return found

    def _small_semi_join(self, node: SemiJoin, created_at_epoch: int, right: Arrange) -> tuple[LookupJoin, Node] | None:
        """A semi or anti join by lookup in a small side that does not change, and that side."""
        join = self._static.residual_join(node, lambda join: self._small.side(join, created_at_epoch) == 1)
        if join is not None and not never_negative(node.left, self._tables, self._views):
            return None
        if join is not None:
            join = self._in_placed_order(join, created_at_epoch)
            other = self._steps.arranged(
                join.right, created_at_epoch, join.right_keys, required_keys(join.right_keys, join.null_safe)
            )[0]
            never = required_keys(join.left_keys, join.null_safe)
            return LookupJoin(_kind(node), join.left_keys, never, other, residual=join.residual), join.right
        if self._small.side(node, created_at_epoch) is None:
            return None
        never = required_keys(node.left_keys, node.null_safe)
        return LookupJoin(_kind(node), node.left_keys, never, right), node.right


def _kind(node: SemiJoin) -> str:
    return "anti" if node.anti else "semi"


def required_keys(keys: tuple[int, ...], null_safe: tuple[bool, ...]) -> tuple[int, ...]:
    """Keys that match nothing when NULL."""
    return tuple(dict.fromkeys(k for k, safe in zip(keys, null_safe, strict=True) if not safe))
