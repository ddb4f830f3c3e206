"""When the first messages that wait in topics were written. Brokers are asked when somebody wants to know."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from threading import Lock, Thread

from tidemill.connectors.kafka.partitions import UNIT, Partition, begin_of, parse_path
from tidemill.connectors.kafka.topics import cluster_of
from tidemill.errors import TidemillError
from tidemill.runtime.files.file_progress import FileProgress
from tidemill.runtime.files.progress import Progress
from tidemill.runtime.intake.queues import Depth
from tidemill.runtime.tables.table import Table

_SECONDS = 1.0
"""How long an answer waits for brokers."""

_PAUSE = 10.0
"""Seconds before brokers that did not say it are asked again."""


@dataclass(frozen=True)
class _Found:
    """The time (ms since 1970) of the oldest message at some offsets, or None, as said at some time."""

    offsets: Mapping[Partition, int]
    oldest: int | None
    at: float


class MessageTimes:
    """The times of first messages, by table. Several threads may ask; brokers are asked by one at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: dict[str, _Found] = {}
        self._thread: Thread | None = None
        self._begun = 0.0

    def depths(
        self, depths: Mapping[str, Depth], tables: Mapping[str, Table], live: Mapping[str, Progress]
    ) -> dict[str, Depth]:
        """The depths of tables, those over topics with the time of the oldest message.

        It stays None where it is not known: brokers do not answer at once, a message has no time, or is gone.
        """
        asked: dict[str, tuple[Mapping[str, str], dict[Partition, int]]] = {}
        for name in depths:
            table, progress = tables.get(name), live.get(name)
            if table is not None and progress is not None and table.of_topics:
                waiting = (progress.known.get(path) for path in list(progress.waiting))
                asked[name] = (table.options, _offsets(f for f in waiting if f is not None))
        self._ask(asked)
        known = {name: found for name, (_, offsets) in asked.items() if (found := self._known(name, offsets))}
        return {**depths, **{name: replace(depths[name], oldest=found.oldest) for name, found in known.items()}}

    def _known(self, name: str, offsets: Mapping[Partition, int]) -> _Found | None:
        found = self._found.get(name)
        if found is None or found.offsets != offsets:
            return None
        return found if found.oldest is not None or time.monotonic() < found.at + _PAUSE else None

    def _ask(self, asked: Mapping[str, tuple[Mapping[str, str], dict[Partition, int]]]) -> None:
        """Ask brokers for times that are not known; where a thread does so already, wait for it."""
        with self._lock:
            self._found = {name: found for name, found in self._found.items() if name in asked}
            missing = [(name, *given) for name, given in asked.items() if self._known(name, given[1]) is None]
            if not missing:
                return
            if self._thread is None or not self._thread.is_alive():
                self._begun = time.monotonic()
                self._thread = Thread(target=self._look, args=(missing,), name="message-times", daemon=True)
                self._thread.start()
            thread = self._thread
        thread.join(max(0.0, self._begun + _SECONDS - time.monotonic()))

    def _look(self, missing: Iterable[tuple[str, Mapping[str, str], dict[Partition, int]]]) -> None:
        for name, options, offsets in missing:
            try:
                times = cluster_of(options).times_of(offsets, options, _SECONDS)
            except TidemillError:  # listing says the same, as a warning
                times = None
            oldest = None if times is None else min(times.values(), default=None)
            with self._lock:
                self._found[name] = _Found(offsets, oldest, time.monotonic())


def _offsets(waiting: Iterable[FileProgress]) -> dict[Partition, int]:
    """The next offset of each partition."""
    return {parse_path(f.path): (f.position + begin_of(f.etag)) // UNIT for f in waiting}
