"""Wakes coroutines when an epoch has been sealed or made durable, and when a statement has changed the catalogue."""

from __future__ import annotations

import asyncio
import threading

from tidemill.mill import Mill
from tidemill.serve.changes.change_log import ChangeLog
from tidemill.serve.changes.follower import Follower
from tidemill.serve.changes.follower_groups import Encode, FollowerGroup, FollowerGroups
from tidemill.serve.changes.position import Generations

_LOOK_SECONDS = 0.05
"""Interval of looking for durable epochs and new catalogues: checkpoints and statements notify nobody."""


class EpochSignal:
    """One thread waits for epochs on behalf of all coroutines of one event loop."""

    def __init__(self, mill: Mill, generations: Generations, log: ChangeLog) -> None:
        self._mill, self._generations = mill, generations
        self._groups = FollowerGroups(mill, log, generations)
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
        self._groups.start(self._loop)
        self._thread = threading.Thread(target=self._watch, name="serve-epochs", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Wake all waiting subscribers for the last time."""
        self._stopping.set()
        self._fire()
        self._groups.stop()

    def _watch(self) -> None:
        epoch, durable, catalog = self._mill.epoch, self._generations.durable, self._mill.snapshot().catalog
        while not self._stopping.is_set():
            seen = epoch, durable, catalog
            epoch = self._mill.wait_for_epoch(epoch, _LOOK_SECONDS)
            durable, catalog = self._generations.durable, self._mill.snapshot().catalog
            if (epoch, durable) != seen[:2] or catalog is not seen[2]:
                self._fire()
                self._groups.look()

    def _fire(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        event, self._event = self._event, asyncio.Event()
        event.set()

    def event(self) -> asyncio.Event:
        """Is set at the next epoch. Take it, look whether there is anything new, then wait for it."""
        return self._event

    def join(self, follower: Follower, kind: str, encode: Encode) -> FollowerGroup:
        """The group of a follower, whose event is set once what the next epoch changed is computed and encoded.

        ``kind`` names the encoding. The follower has to leave the group.
        """
        return self._groups.join(follower, kind, encode)

    def leave(self, group: FollowerGroup) -> None:
        """A follower of a group ends."""
        self._groups.leave(group)

    @staticmethod
    async def wait(event: asyncio.Event, seconds: float) -> bool:
        """Wait for an event of :meth:`event`; False when the time is up."""
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        return True
