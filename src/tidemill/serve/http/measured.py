"""Counts requests and measures how long it takes until an answer begins."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.serve.service.metrics import Metrics


class Measured:
    """ASGI middleware; what :class:`~tidemill.serve.http.guard.Guard` refuses does not come here."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")
                self._metrics.answered(scope["method"], route, message["status"], time.perf_counter() - begun)
            await send(message)

        await self._app(scope, receive, noting)
