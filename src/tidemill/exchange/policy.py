"""With whom clients trade while a trace is replayed."""

from __future__ import annotations

from enum import StrEnum


class Policy(StrEnum):
    """With whom orders of clients trade while a trace is replayed."""

    REPLAY = "replay"
    """With nobody: new ones are rejected, and the trace is told as it was."""
    ALL = "all"
    """With all; the orders of the trace are matched like those of clients."""
    LIVE = "live"
    """Only with each other; the trace is told as it was."""
