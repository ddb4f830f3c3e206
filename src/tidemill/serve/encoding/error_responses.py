"""Errors as answers: a status and ``{"number", "what", "got", "hint"}``."""

from __future__ import annotations

import json

from starlette.responses import Response

from tidemill.errors import TidemillError
from tidemill.serve.encoding.errors import described

_STATUS = {
    "TM2012": 404,
    "TM8014": 404,
    "TM8016": 404,
    "TM8004": 403,
    "TM8005": 401,
    "TM8007": 421,
    "TM8008": 403,
    "TM8009": 429,
    "TM5070": 429,
    "TM5072": 415,
    "TM8011": 422,
    "TM8017": 413,
    "TM8024": 429,
    "TM8105": 429,
    "TM8023": 408,
    "TM1030": 409,
    "TM1039": 409,
    "TM1041": 409,
    "TM2010": 409,
    "TM2011": 409,
    "TM1031": 410,
    "TM1036": 410,
    "TM8010": 410,
    "TM7014": 408,
    "TM7012": 503,
    "TM6003": 503,
    "TM8020": 503,
    "TM8342": 404,
    "TM8343": 409,
    "TM8344": 409,
    "TM8346": 403,
}
"""Of errors whose status is not 400."""


_LATER = 429


def status_of(error: TidemillError) -> int:
    """The HTTP status of an error: always 4xx for what the caller can mend."""
    return _STATUS.get(error.number, 400)


def error_response(error: TidemillError, headers: dict[str, str] | None = None) -> Response:
    """An error as the answer to a request; one that another attempt may not meet says when to try again."""
    status = status_of(error)
    later = {"Retry-After": "1"} if status == _LATER else {}
    given = {**later, **(headers or {})}
    return Response(json.dumps(described(error), ensure_ascii=False), status, given, media_type="application/json")
