"""What a change costs an operation: a change of Δ rows against state of n rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


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
    """A cost class, with a note that EXPLAIN shows beside it."""

    kind: CostClass
    note: str = ""

    def __str__(self) -> str:
        return f"{self.kind}, {self.note}" if self.note else str(self.kind)
