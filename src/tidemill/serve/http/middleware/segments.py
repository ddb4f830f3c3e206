"""Paths whose segments have names with any character."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send


class Segments:
    """ASGI middleware that keeps segments of a path apart: a ``/`` within a name does not divide the name.

    Servers decode a path as a whole, so that ``/v1/views/a%2Fb`` would be the same as ``/v1/views/a/b``.
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
