"""Names of what window functions keep."""

from __future__ import annotations

from tidemill.plan.algebra.codec import fingerprint
from tidemill.plan.algebra.nodes import SortKey, Window


def window_names(node: Window, child: str) -> tuple[str, str]:
    """Names for the rows that window functions over a child look at, and for the functions: equal for equal ones."""
    partition, keys = partition_and_keys(node)
    name = fingerprint((child, list(partition), keys))
    return name, fingerprint((child, list(partition), keys, list(node.calls), node.limit, node.limited))


def partition_and_keys(node: Window) -> tuple[tuple[int, ...], list[SortKey]]:
    """The columns that rows are partitioned by, and those that they are ordered by within a partition, each once."""
    partition = tuple(dict.fromkeys(node.partition))
    ordered = {k.column: k for k in reversed(node.order) if k.column not in partition}
    return partition, [ordered[c] for c in dict.fromkeys(k.column for k in node.order) if c in ordered]
