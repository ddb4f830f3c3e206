"""The definition of a view, as the assembler takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.plan.algebra.nodes import Node


@dataclass(frozen=True)
class ViewDefinition:
    """A view as the assembler needs it. ``created_at_epoch`` is the epoch sealed last when it was created; a negative
    number of its own for a view without history, which shares no work with others.

    ``sizes`` are the bytes of the tables it reads, as they were then: None for one that cannot be a small side, 0 for
    one that always can (:class:`SmallSides`). ``names`` are those of its nodes
    (:mod:`tidemill.plan.algebra.identities`). ``limits`` are the seconds and bytes that it may take in a task; None for
    no limit.
    """

    name: str
    uid: str
    root: Node
    created_at_epoch: int
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    limits: tuple[float | None, int | None] = (None, None)


def comes_later(created_at_epoch: int, than: int) -> bool:
    """Whether a view begins with the rows that a table, kept since an epoch, had when the view was created."""
    return created_at_epoch < 0 or created_at_epoch > than
