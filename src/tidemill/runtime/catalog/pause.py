"""Since when a view is not maintained, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Pause:
    """A pause of a view.

    Attributes
    ----------
    epoch : int
        The newest epoch as of which the view can be read.
    because : str
        The view that it reads, directly or not, whose pause is the reason; empty when it was paused itself.
    error : str
        The limit that it exceeded; empty when a statement paused it.
    attempts : int
        How often in a row it has exceeded a limit.
    admitted : mapping
        The bytes admitted of each table, then.
    retry_at : int or None
        When it is maintained again by itself, in milliseconds since 1970; None when a statement has to say so.
    """

    epoch: int
    because: str = ""
    error: str = ""
    attempts: int = 0
    admitted: Mapping[str, int] = field(default_factory=dict)
    retry_at: int | None = None
