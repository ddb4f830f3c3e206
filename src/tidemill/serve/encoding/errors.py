"""Errors as JSON objects, the same over all protocols."""

from __future__ import annotations

import re
from typing import Any

from tidemill.errors import TidemillError

_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        r"\bline (?P<line>\d+), column (?P<column>\d+) of the script",
        r"\bat line (?P<line>\d+), column (?P<column>\d+)",
        r"^line (?P<line>\d+)(?:, column (?P<column>\d+))?",
    )
)
"""How errors name a place in a statement, the most exact first."""


def described(error: TidemillError) -> dict[str, Any]:
    """Number, what, got and hint; line and column where the error names a place in a statement."""
    found: dict[str, Any] = {"number": error.number, "what": error.what, "got": error.got, "hint": error.hint}
    texts = (error.hint, error.got)
    place = next((m for p in _PLACES for t in texts if (m := p.search(t))), None)
    if place is not None:
        found |= {k: int(v) for k, v in place.groupdict().items() if v is not None}
    return found


def unexpected(error: Exception) -> TidemillError:
    """TM8099 for an error that has no number of its own."""
    return TidemillError(
        "TM8099",
        "the server failed to answer this request",
        got=type(error).__name__,
        hint="the server's log has more; others are not affected",
    )
