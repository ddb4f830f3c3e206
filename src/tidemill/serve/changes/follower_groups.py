"""Computes what epochs changed once for all followers of the same views, and only then wakes them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from tidemill.mill import Mill
from tidemill.serve.changes.change_log import ChangeLog, ChangeTable, Followed
from tidemill.serve.changes.follower import Follower
from tidemill.serve.changes.position import Generations

Encode = Callable[[ChangeTable], object]
"""Makes the bytes that subscribers get, and keeps them in the change log."""

_THREADS = 2
_MOST_EPOCHS = 16
"""Epochs that are computed ahead of followers; those who are further behind compute what they need."""


class FollowerGroup:
    """Followers of the same views, with the same selections and encoding. Made by :meth:`FollowerGroups.join`."""

    def __init__(self, views: tuple[Followed, ...], durable: bool, encode: Encode) -> None:
        self.views, self.durable, self.encode = views, durable, encode
        self.followers = 0
        self.epoch = -1
        self.seconds = 0.0
        self.running = self.again = False
        self._event = asyncio.Event()

    def event(self) -> asyncio.Event:
        """Is set at the next epoch. Take it, look whether there is anything new, then wait for it."""
        return self._event

    def wake(self) -> None:
        """Wake all followers; called on their event loop."""
        event, self._event = self._event, asyncio.Event()
        event.set()


class FollowerGroups:
    """The groups of all followers of one event loop.

    An epoch wakes hundreds of subscribers. If each of them computed its changes, each would take a thread of the pool,
    and most would only wait for the one that computes the same. Here a group is woken when its changes are computed,
    so its followers need no thread. Groups whose changes took longest the last time are computed last.
    """

    def __init__(self, mill: Mill, log: ChangeLog, generations: Generations) -> None:
        self._mill, self._log, self._generations = mill, log, generations
        self._lock = threading.Lock()
        self._groups: dict[object, FollowerGroup] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "serve-changes")
        self._loop: asyncio.AbstractEventLoop | None = None

    def join(self, follower: Follower, kind: str, encode: Encode) -> FollowerGroup:
        """The group of a follower, which it has to leave. ``kind`` names the encoding."""
        key = follower.views, follower.durable, kind
        with self._lock:
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = FollowerGroup(follower.views, follower.durable, encode)
            group.followers += 1
        return group

    def leave(self, group: FollowerGroup) -> None:
        """A follower ends; the last one ends the group."""
        with self._lock:
            group.followers -= 1
            if not group.followers:
                self._groups = {key: g for key, g in self._groups.items() if g is not group}

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to wake followers that wait on this event loop."""
        self._loop = loop

    def stop(self) -> None:
        """Wake all followers for the last time."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for group in list(self._groups.values()):
            self._wake(group)

    def look(self) -> None:
        """Compute what is new for each group, and wake it. Returns at once."""
        with self._lock:
            for group in sorted(self._groups.values(), key=lambda g: g.seconds):
                group.again = group.running
                if not group.running:
                    group.running = True
                    self._threads.submit(self._run, group)

    def _run(self, group: FollowerGroup) -> None:
        again = True
        while again:
            began = time.perf_counter()
            with suppress(Exception):  # each follower meets it again when it asks for this epoch, and tells its client
                self._compute(group)
            group.seconds = time.perf_counter() - began
            self._wake(group)
            with self._lock:
                again, group.again = group.again, False
                group.running = again

    def _compute(self, group: FollowerGroup) -> None:
        snapshot = self._mill.snapshot(durable=group.durable)
        newest = min(snapshot.version.epoch, self._generations.durable) if group.durable else snapshot.version.epoch
        first = max(group.epoch, newest - (1 if group.epoch < 0 else _MOST_EPOCHS)) + 1
        group.epoch = newest
        for epoch in range(first, newest + 1):
            for change in self._changes(group.views, epoch):
                group.encode(change)

    def _changes(self, views: Iterable[Followed], epoch: int) -> Iterable[ChangeTable]:
        snapshot = self._mill.snapshot()
        for followed in views:
            yield from self._log.changes(followed, epoch, snapshot)

    def _wake(self, group: FollowerGroup) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(group.wake)
