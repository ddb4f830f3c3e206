"""What a change costs each operator: a change of Δ rows against state of n rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from tidemill.task.program import (
    ApplyBook,
    ApplyChangelog,
    ApplyFileVersions,
    GroupChanges,
    JoinChanges,
    LookupJoin,
    Operation,
    PairSums,
    RecursiveChanges,
    SemiChanges,
    TopChanges,
    ViewSnapshot,
    WindowChanges,
    changes_probe_left,
)


class CostClass(IntEnum):
    """How the work of an epoch grows, the cheapest first."""

    CHANGES = 0
    LOOKUPS = 1
    GROUPS = 2
    EVERYTHING = 3

    def __str__(self) -> str:
        return ("O(Δ)", "O(Δ log n)", "O(affected groups)", "O(n)")[self]


@dataclass(frozen=True)
class Cost:
    """The class, and what there is to say beside it."""

    kind: CostClass
    note: str = ""

    def __str__(self) -> str:
        return f"{self.kind}, {self.note}" if self.note else str(self.kind)


def cost(operation: Operation) -> Cost:
    """The cost of one operator."""
    match operation:
        case GroupChanges():
            kept = operation.partial.layout.accumulators
            if any(a.of_group for a in kept):
                return Cost(CostClass.GROUPS, "reads all values of an affected group")
            extremes = any(a.recomputed for a in kept)
            return Cost(CostClass.LOOKUPS, "looks for the extreme of an affected group" if extremes else "")
        case JoinChanges() if operation.broadcast:
            return Cost(CostClass.EVERYTHING, "when the one row changes; else O(Δ)")
        case JoinChanges() | SemiChanges():
            return Cost(CostClass.LOOKUPS, "and matches") if operation.key_width else Cost(CostClass.EVERYTHING)
        case LookupJoin():
            if not operation.keys:
                return Cost(CostClass.CHANGES, "and pairs with the complete side")
            return Cost(CostClass.LOOKUPS, "and matches" if operation.kind == "inner" or operation.residual else "")
        case PairSums():
            return _pair_sums(operation)
        case TopChanges():
            if operation.limit is None:
                return Cost(CostClass.EVERYTHING)
            return Cost(CostClass.LOOKUPS, f"and the first {operation.offset + operation.limit} rows")
        case WindowChanges():
            if operation.limit is not None:
                which = f"first {operation.limit} rows" if operation.limited == "row_number" else "first ranks"
                return Cost(CostClass.LOOKUPS, f"and the {which} of affected partitions")
            if not operation.partition:
                return Cost(CostClass.EVERYTHING)
            return Cost(CostClass.GROUPS, "reads the rows of affected partitions")
        case RecursiveChanges():
            return Cost(CostClass.LOOKUPS, "and the rows that come or go, level by level")
        case ViewSnapshot():
            return Cost(CostClass.CHANGES, "once O(n)")
        case ApplyChangelog() | ApplyBook():
            return Cost(CostClass.LOOKUPS)
        case ApplyFileVersions():
            return Cost(CostClass.CHANGES, "and the earlier rows of files that were overwritten")
    return Cost(CostClass.CHANGES)


def _pair_sums(operation: PairSums) -> Cost:
    if not operation.comparisons:
        keys = operation.left.groups.key, operation.right.groups.key
        single = all(len(key) == operation.key_width for key in keys)
        return Cost(CostClass.LOOKUPS, "" if single else "and matching groups")
    if operation.complete == 1 or changes_probe_left(operation):
        return Cost(CostClass.LOOKUPS)
    who = "changes" if operation.complete == 0 else "changes of the right side"
    return Cost(CostClass.GROUPS, f"{who} read the left groups of their key")
