"""HEAD for all that answers GET."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Heads:
    """ASGI middleware that answers HEAD with the status and headers of GET.

    The body of the answer is left out. One without an end, such as changes, ends: the connection is given as closed
    once the answer is.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})

        await self._app({**scope, "method": "GET"}, receive, head)
