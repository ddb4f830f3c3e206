"""Wakes coroutines when an epoch has been sealed or made durable."""

from __future__ import annotations

import asyncio
import threading

from tidemill.mill import Mill
from tidemill.serve.changes.position import Generations

_DURABLE_SECONDS = 0.05
"""Interval of looking for durable epochs: a checkpoint wakes no waiting subscriber."""


class EpochSignal:
    """One thread waits for epochs on behalf of all coroutines of one event loop."""

    def __init__(self, mill: Mill, generations: Generations) -> None:
        self._mill, self._generations = mill, generations
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def stopping(self) -> bool:
        """Whether the server shuts down: whoever follows is to end."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Begin; called from a coroutine."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._watch, name="serve-epochs", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Wake all waiting subscribers for the last time."""
        self._stopping.set()
        self._fire()

    def _watch(self) -> None:
        seen = self._mill.epoch, self._generations.durable
        while not self._stopping.is_set():
            epoch = self._mill.wait_for_epoch(seen[0], _DURABLE_SECONDS)
            now = epoch, self._generations.durable
            if now != seen:
                seen = now
                self._fire()

    def _fire(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        event, self._event = self._event, asyncio.Event()
        event.set()

    def event(self) -> asyncio.Event:
        """Is set at the next epoch. Take it, look whether there is anything new, then wait for it."""
        return self._event

    @staticmethod
    async def wait(event: asyncio.Event, seconds: float) -> bool:
        """Wait for an event of :meth:`event`; False when the time is up."""
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        return True
