"""An exchange that is served in a thread of the test process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from tidemill.exchange.exchange import Exchange
from tidemill.exchange.server import ExchangeServer

_T = TypeVar("_T")


class ExchangeThread:
    """Serves an exchange at a free port while it is entered."""

    def __init__(self, exchange: Exchange) -> None:
        self.server = ExchangeServer(exchange, port=0)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.server.start(), self._loop).result(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self.server.__aexit__(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def call(self, work: Callable[[], _T]) -> _T:
        """The result of a function that runs in the exchange's thread."""

        async def working() -> _T:
            return work()

        return asyncio.run_coroutine_threadsafe(working(), self._loop).result(60)

    @property
    def url(self) -> str:
        """Its address, as the path of a table."""
        host, port = self.server.address
        return f"tcp://{host}:{port}"
