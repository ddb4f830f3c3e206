"""Compares plans as ``planner.java`` writes them with those that Spark writes, which have less in them."""

from __future__ import annotations

import json
from typing import Any

ADDED = {"rddId", "rddName", "keptIds", "evalMode", "escapeChar", "metadata", "projections"}


class Compared:
    """The planner, which compares each plan that it writes with Spark's.

    Attributes
    ----------
    plans : int
        How many there were.
    """

    def __init__(self, java: Any) -> None:
        self._java = java
        self.plans = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._java, name)

    def json(self, plan: Any) -> str:
        written = str(self._java.json(plan))
        for ours, sparks in zip(json.loads(written), json.loads(plan.toJSON()), strict=True):
            assert comparable(ours) == comparable(sparks)
        self.plans += 1
        return written


def comparable(value: Any) -> Any:
    """Without what is added, and without the rows of grouping sets, of which Spark writes only some."""
    if isinstance(value, list):
        return [comparable(inner) for inner in value]
    if isinstance(value, dict):
        return {name: comparable(inner) for name, inner in value.items() if name not in ADDED}
    return value
