"""Names of views and tables in requests: in a path, or a list of them in a query."""

from __future__ import annotations

import re
from urllib.parse import unquote

from pydantic import AfterValidator
from starlette.types import ASGIApp, Receive, Scope, Send

from tidemill.errors import TidemillError

DECODED = AfterValidator(unquote)
"""Annotates a parameter that is a segment of a path: :class:`Segments` leaves what would divide it encoded."""

_NAME = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^`,][^,]*|))\s*(?:,|\Z)")


class Segments:
    """ASGI middleware that keeps segments of a path apart: a ``/`` within a name does not divide the name.

    Servers decode a path as a whole, so that ``/v1/views/a%2Fb`` could not be told from ``/v1/views/a/b``.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        raw: bytes = scope.get("raw_path") or b""
        if b"%" in raw and scope["type"] in ("http", "websocket"):
            segments = raw.decode("latin-1").split("/")
            scope["path"] = "/".join(unquote(s).replace("%", "%25").replace("/", "%2F") for s in segments)
        await self._app(scope, receive, send)


def names_in(listed: str) -> tuple[str, ...]:
    """The names of a list, in lower case: separated by commas; one that has a comma stands in backticks, as in SQL.

    Raises
    ------
    TidemillError
        TM8011 for a backtick without its pair.
    """
    found, at = [], 0
    while at < len(listed):
        match = _NAME.match(listed, at)
        if match is None:
            raise TidemillError(
                "TM8011",
                "the request has not the right form",
                got=f"query.views: {listed[at:]}"[:200],
                hint="names separated by commas; one that has commas or backticks as `a,b`, backticks twice",
            )
        quoted, plain = match.groups()
        name = quoted.replace("``", "`") if quoted is not None else plain.strip()
        if name:
            found.append(name.lower())
        at = match.end()
    return tuple(found)
