"""Values computed for nodes, kept as long as the nodes exist."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from tidemill.plan.algebra.nodes import Node

T = TypeVar("T")


class NodeMemo(Generic[T]):
    """Keyed by the identity of a node: comparing or hashing nodes takes about as long as computing the value again."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[Node], T]] = {}

    def get(self, node: Node) -> T | None:
        """What is kept for a node."""
        kept = self._kept.get(id(node))
        return None if kept is None else kept[1]

    def put(self, node: Node, value: T) -> T:
        """Keep a value until the node is gone; returns it."""
        key, kept = id(node), self._kept
        kept[key] = weakref.ref(node, lambda _: kept.pop(key, None)), value
        return value
