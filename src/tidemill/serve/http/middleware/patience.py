"""How long clients may take to send a request."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS = 30.0
"""Within which the head of a request has to arrive; each connection holds a file descriptor meanwhile."""
BODY_SECONDS = 60.0
"""Within which its body has to arrive."""


class PatientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Ends connections that send no request, or only the beginning of one. Those that have sent one are ended by
    uvicorn, after ``timeout_keep_alive`` without another."""

    _until_head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest, unless a request is being answered."""
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
