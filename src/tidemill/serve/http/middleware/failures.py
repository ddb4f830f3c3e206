"""Answers requests that meet an error without a number, and keeps their connections open."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.serve.encoding.error_responses import error_response
from tidemill.serve.encoding.errors import unexpected
from tidemill.serve.service.service import Service


class Failures:
    """ASGI middleware that notes such an error in the log and answers with status 500.

    An error that reaches uvicorn ends the connection behind the answer: a client that sends its next request meanwhile
    cannot know whether it was executed. Where the answer has begun, the error goes on to uvicorn: to end the connection
    is the only way to tell the client that the answer is not complete.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            response = failed(self._service, scope, error)
            if begun:
                raise
            await response(scope, receive, send)


def failed(service: Service, scope: Scope, error: Exception) -> Response:
    """Note an error in the log; returns the answer to its request."""
    route = getattr(scope.get("route"), "path", "none")
    service.server_log.broken(f"{scope['method']} {route}", error)
    response = error_response(unexpected(error))
    response.status_code = 500
    return response
