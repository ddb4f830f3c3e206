"""Where the partial groups of an aggregate come out: whether they must be exchanged, and by which columns."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.plan.algebra.nodes import Aggregate, Node, Pairs
from tidemill.plan.lowering.analysis.placement import Placement
from tidemill.plan.lowering.analysis.small_sides import SmallSides
from tidemill.plan.lowering.analysis.static_sides import StaticSides
from tidemill.task.program import GroupPartial


class GroupPlaces:
    """Decides from where the rows below are.

    Parameters
    ----------
    place_of : callable
        ``(node, created_at_epoch, single)`` to where the rows of a node are.
    static : StaticSides
        Knows sides that are complete: what is joined with them stays where it is.
    small : SmallSides
        Knows sides that are small: what is joined with them stays where it is in most epochs.
    """

    def __init__(
        self, place_of: Callable[[Node, int, bool], Placement], static: StaticSides, small: SmallSides
    ) -> None:
        self._place_of = place_of
        self._static = static
        self._small = small

    def _stay(self, pairs: Pairs, created_at_epoch: int) -> bool:
        """Whether sums over pairs come out where the groups of one side are."""
        return (
            self._static.complete_side(pairs, created_at_epoch) is not None
            or self._small.side(pairs, created_at_epoch) is not None
        )

    def pair_distribution(self, pairs: Pairs, created_at_epoch: int) -> int:
        """Number of key columns by which the sides of pairs are spread: none when a side is at one place."""
        if pairs.key_width and not any(self._at_one_place(s, created_at_epoch) for s in (pairs.left, pairs.right)):
            return pairs.key_width
        return 0

    def _at_one_place(self, side: Aggregate, created_at_epoch: int) -> bool:
        if side.parts:
            return all(self._at_one_place(part, created_at_epoch) for part in side.parts)
        if side.pairs is not None:
            return (
                not self._stay(side.pairs, created_at_epoch)
                and self.pair_distribution(side.pairs, created_at_epoch) == 0
            )
        return () in self._place_of(side.child, created_at_epoch, False)

    def side_in_place(self, side: Aggregate, width: int, created_at_epoch: int) -> bool:
        """Whether a side's partial groups come out where its first ``width`` key columns belong."""
        if side.parts:
            return all(self.side_in_place(part, width, created_at_epoch) for part in side.parts)
        if side.pairs is None:
            return side.keys[:width] in self._place_of(side.child, created_at_epoch, width == 0)
        if self._stay(side.pairs, created_at_epoch):
            return False
        own = self.pair_distribution(side.pairs, created_at_epoch)
        return own == width and side.pairs.keys[:width] == tuple(range(width))

    def distribution(self, node: Aggregate, created_at_epoch: int, single: bool) -> int | None:
        """Number of leading group columns by which the groups are in place already, None when they are not."""
        if node.parts:
            widths = {self.distribution(part, created_at_epoch, single) for part in node.parts}
            return widths.pop() if len(widths) == 1 else None
        if node.pairs is not None:
            if self._stay(node.pairs, created_at_epoch):
                return None
            width = self.pair_distribution(node.pairs, created_at_epoch)
            left = node.pairs.keys[:width] == tuple(range(width))
            first = len(node.pairs.left.keys)
            right = node.pairs.keys[:width] == tuple(range(first, first + width))
            return width if left or right else None
        if single:
            return 0
        places = self._place_of(node.child, created_at_epoch, False)
        found = [p for p in places if p == node.keys[: len(p)]]
        return max(map(len, found)) if found else None

    def in_place(self, node: Aggregate, partial: GroupPartial, created_at_epoch: int, single: bool) -> bool:
        """Whether partial groups come out in the partition that owns them."""
        if node.pairs is not None or node.parts:
            return self.distribution(node, created_at_epoch, single) is not None
        return node.keys[: partial.groups.distribution] in self._place_of(node.child, created_at_epoch, single)
