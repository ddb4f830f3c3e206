"""How many clients may be connected, and how long they may take to send a request."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from tidemill.errors import TidemillError
from tidemill.serve.encoding.error_responses import error_response

HEAD_SECONDS = 30.0
"""Within which the head of a request has to arrive; each connection holds a file descriptor meanwhile."""
BODY_SECONDS = 60.0
"""Within which its body has to arrive."""


class PatientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Ends connections that send no request, or only the beginning of one. Those that have sent one are ended by
    uvicorn, after ``timeout_keep_alive`` without another.

    Answers the request of a connection beyond ``most`` with TM8105, and ends it; connections beyond twice as many are
    ended at once. All connections of the server count, those of WebSocket among them.

    Parameters
    ----------
    most : int
        Connections at the same time.
    settings
        Of uvicorn.
    """

    _until_head: asyncio.TimerHandle | None = None

    def __init__(self, most: int, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._most = most
        self._beyond = False

    def connection_made(self, transport: Any) -> None:
        """Begin to wait."""
        super().connection_made(transport)
        open_now = len(self.connections)  # this one is among them
        self._beyond = open_now > self._most
        if open_now > 2 * self._most:
            transport.abort()
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest, unless a request is being answered."""
        if self._beyond:  # once something has come: a client whose bytes nobody has read may lose the answer
            self.transport.write(_too_many(self._most))
            self.transport.close()
            return
        super().data_received(data)
        if self._until_head is None and self._between_requests():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait."""
        super().connection_lost(exc)
        if self._until_head is not None:
            self._until_head.cancel()

    def _between_requests(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def _wait(self) -> None:
        self._until_head = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._end, self.cycle)

    def _end(self, before: Any) -> None:
        self._until_head = None
        if self.transport.get_protocol() is not self or not self._between_requests():
            return
        if self.cycle is before:
            self.transport.close()
        elif self.timeout_keep_alive_task is None:  # there was a request meanwhile, and another one has begun
            self._wait()


def _too_many(most: int) -> bytes:
    """The answer to a request over one connection too many."""
    error = TidemillError(
        "TM8105",
        "too many connections",
        got=f"{most:,} are open",
        hint="close some, or raise the setting max_connections",
    )
    answer = error_response(error, {"Connection": "close", "Retry-After": "1"})
    head = b"".join(b"%b: %b\r\n" % header for header in answer.raw_headers)
    return b"HTTP/1.1 429 Too Many Requests\r\n%b\r\n%b" % (head, bytes(answer.body))
