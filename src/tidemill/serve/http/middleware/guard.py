"""What every request passes before anything else: host, origin, rate, size and token."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from urllib.parse import urlparse

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.errors import TidemillError
from tidemill.serve.access.tokens import Role, owner
from tidemill.serve.encoding.error_responses import error_response
from tidemill.serve.http.middleware import patience
from tidemill.serve.logs.caller import CALLER, Caller
from tidemill.serve.logs.events import CONNECTION_REFUSED
from tidemill.serve.logs.redaction import error_fields
from tidemill.serve.service.service import Service

OPEN_PATHS = ("/healthz", "/readyz", "/", "/docs", "/dashboard")
OPEN_FOLDER = "/dashboard/"
"""What anybody may ask: it tells nothing about data. The dashboard's page asks for a token itself."""

_ADDRESSES = 10_000
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        b"require-trusted-types-for 'script'; trusted-types 'none'",  # no text can become markup
    ),
)


class Guard:
    """ASGI middleware that refuses requests, and notes the caller's role and who owns its
    cursors in ``scope["state"]``, as ``role`` and ``owner``."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        caller = Caller("http", str((scope.get("client") or ("",))[0]))
        scope.setdefault("state", {})["caller"] = caller
        CALLER.set(caller)  # each request is answered in a context of its own
        refused = self._refused(scope, headers)
        if refused is not None:
            self._service.server_log.note(CONNECTION_REFUSED, **error_fields(refused))
            await _refuse(scope, receive, send, refused)
            return
        sized = _Sized(receive, scope, self._service.settings.max_body_bytes)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        await self._app(scope, sized if scope["type"] == "http" else receive, with_headers)

    def _refused(self, scope: Scope, headers: Headers) -> TidemillError | None:
        settings = self._service.settings
        host = urlparse(f"//{headers.get('host', '')}").hostname or ""
        if host not in settings.known_hosts and "*" not in settings.known_hosts:
            return TidemillError(
                "TM8007",
                "the Host header names another server",
                got=host[:100],
                hint="--allow-host NAME for a name that leads here",
            )
        origin = headers.get("origin")
        if origin is not None:
            asked = urlparse(origin)
            if asked.netloc.lower() != headers.get("host", "").lower():
                return TidemillError(
                    "TM8008", "a page of another origin may not ask for this", got=origin[:100], hint="ask from here"
                )
        if not self._within_rate(scope):
            return TidemillError(
                "TM8009",
                "too many requests",
                got=f"more than {settings.requests_per_second} a second from one address",
                hint="wait a second, or raise --requests-per-second",
            )
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > settings.max_body_bytes:
            return too_large(settings.max_body_bytes)
        token = _token(headers)
        role = self._service.tokens.role(token)
        scope.setdefault("state", {})["role"] = role
        scope["state"]["owner"] = owner(None if self._service.tokens.open else token)
        scope["state"]["caller"].role = role.name.lower()
        if role is Role.NOBODY and scope["path"] not in OPEN_PATHS and not scope["path"].startswith(OPEN_FOLDER):
            return TidemillError(
                "TM8005",
                "this needs a token",
                got="none, or an unknown one",
                hint="Authorization: Bearer TOKEN",
            )
        return None

    def _within_rate(self, scope: Scope) -> bool:
        """A bucket for each address that fills at the rate and holds a second of it."""
        rate = self._service.settings.requests_per_second
        if not rate:
            return True
        address = (scope.get("client") or ("",))[0]
        now = time.monotonic()
        left, then = self._buckets.pop(address, (float(rate), now))
        left = min(float(rate), left + (now - then) * rate)
        self._buckets[address] = (max(left - 1, 0.0), now)
        while len(self._buckets) > _ADDRESSES:
            self._buckets.popitem(last=False)
        return left >= 1


def too_large(most: int) -> TidemillError:
    """TM8017: the body of a request is too large."""
    return TidemillError("TM8017", "the request is too large", got=f"more than {most:,} bytes", hint="send less")


class _Sized:
    """Counts the bytes of a body that comes without a length, and the seconds until all of it is there; notes in
    ``scope["state"]`` when there are too many."""

    def __init__(self, receive: Receive, scope: Scope, most: int) -> None:
        self._receive, self._state, self._most, self._left = receive, scope["state"], most, most
        self._end = time.monotonic() + patience.BODY_SECONDS
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:  # what comes now is the end of the connection
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), self._end - time.monotonic())
        except TimeoutError:
            raise self._refused(_too_slow()) from None
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._left < 0:
                raise self._refused(too_large(self._most))
        return message

    def _refused(self, error: TidemillError) -> TidemillError:
        self._state["refused"] = error
        return error


def _too_slow() -> TidemillError:
    return TidemillError(
        "TM8023",
        "the request did not arrive in time",
        got=f"a body that was not whole after {patience.BODY_SECONDS:g} seconds",
        hint="send it at once",
    )


def _token(headers: Headers) -> str | None:
    """The token of the Authorization header. Cookies are not read: browsers send them for pages of others, too."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


async def _refuse(scope: Scope, receive: Receive, send: Send, error: TidemillError) -> None:
    if scope["type"] == "websocket":
        await receive()
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008, "reason": f"{error.number}: {error.what}"})
            return
    headers = {"WWW-Authenticate": "Bearer"} if error.number == "TM8005" else {}
    if error.number == "TM8009":
        headers["Retry-After"] = "1"
    await error_response(error, headers)(scope, receive, send)
