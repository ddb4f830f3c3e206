"""The definition of a view, as the assembler takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.plan.algebra.nodes import Node


@dataclass(frozen=True)
class ViewDefinition:
    """A view as the assembler needs it. ``created_at_epoch`` is the epoch sealed last when it was created.

    ``sizes`` are the bytes of the tables it reads, as they were then: None for one that cannot be a small side, 0 for
    one that always can (:class:`SmallSides`). ``names`` are those of its nodes
    (:mod:`tidemill.plan.algebra.identities`).
    """

    name: str
    uid: str
    root: Node
    created_at_epoch: int
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    names: tuple[str, ...] = ()
