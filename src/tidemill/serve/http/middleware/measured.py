"""Counts requests, measures how long it takes until an answer begins, notes them in the log and tells observers."""

from __future__ import annotations

import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.errors import TidemillError
from tidemill.observing import REQUEST, Value
from tidemill.serve.logs.events import REQUEST_ANSWERED, REQUEST_FAILED
from tidemill.serve.logs.redaction import error_fields
from tidemill.serve.service.metrics import Metrics
from tidemill.serve.service.service import Service


class Measured:
    """ASGI middleware; what :class:`~tidemill.serve.http.middleware.guard.Guard` refuses does not come here."""

    def __init__(self, app: ASGIApp, metrics: Metrics, service: Service) -> None:
        self._app, self._metrics, self._service = app, metrics, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        parent = Headers(scope=scope).get("traceparent", "")
        with self._service.mill.observers.span(REQUEST, parent=parent) as span:

            async def noting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set(self._answered(scope, message["status"], time.perf_counter() - begun))
                await send(message)

            await self._app(scope, receive, noting)

    def _answered(self, scope: Scope, status: int, seconds: float) -> dict[str, Value]:
        """Count and note an answer that begins; returns the attributes of its span."""
        method, route, log = scope["method"], getattr(scope.get("route"), "path", "none"), self._service.server_log
        self._metrics.answered(method, route, status, seconds)
        problem: TidemillError | None = scope["state"].get("problem")
        if problem is not None:
            log.note(REQUEST_FAILED, request=f"{method} {route}", status=status, **error_fields(problem))
        elif log.notes(REQUEST_ANSWERED):
            log.note(REQUEST_ANSWERED, method=method, route=route, status=status, milliseconds=seconds * 1e3)
        return {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
            "role": scope["state"]["caller"].role,
        }
