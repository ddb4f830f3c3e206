"""Errors as answers: a status and ``{"number", "what", "got", "hint"}``."""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.responses import Response

from tidemill.errors import TidemillError

_STATUS = {
    "TM2012": 404,
    "TM8014": 404,
    "TM8016": 404,
    "TM8004": 403,
    "TM8005": 401,
    "TM8007": 421,
    "TM8008": 403,
    "TM8009": 429,
    "TM8011": 422,
    "TM8017": 413,
    "TM1030": 409,
    "TM1039": 409,
    "TM2010": 409,
    "TM2011": 409,
    "TM1031": 410,
    "TM1036": 410,
    "TM8010": 410,
    "TM7014": 408,
    "TM7012": 503,
    "TM6003": 503,
    "TM8020": 503,
}
"""Of errors whose status is not 400."""


_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        r"\bline (?P<line>\d+), column (?P<column>\d+) of the script",
        r"\bat line (?P<line>\d+), column (?P<column>\d+)",
        r"^line (?P<line>\d+)(?:, column (?P<column>\d+))?",
    )
)
"""How errors name a place in a statement, the most exact first."""


def status_of(error: TidemillError) -> int:
    """The HTTP status of an error: always 4xx for what the caller can mend."""
    return _STATUS.get(error.number, 400)


def described(error: TidemillError) -> dict[str, Any]:
    """Number, what, got and hint; line and column where the error names a place in a statement."""
    found: dict[str, Any] = {"number": error.number, "what": error.what, "got": error.got, "hint": error.hint}
    texts = (error.hint, error.got)
    place = next((m for p in _PLACES for t in texts if (m := p.search(t))), None)
    if place is not None:
        found |= {k: int(v) for k, v in place.groupdict().items() if v is not None}
    return found


def error_response(error: TidemillError, headers: dict[str, str] | None = None) -> Response:
    """An error as the answer to a request."""
    return Response(
        json.dumps(described(error), ensure_ascii=False), status_of(error), headers, media_type="application/json"
    )


def unexpected(error: Exception) -> TidemillError:
    """TM8099 for an error that has no number of its own."""
    return TidemillError(
        "TM8099",
        "the server failed to answer this request",
        got=type(error).__name__,
        hint="the server's log has more; others are not affected",
    )
