"""List of all locations: listings, queues with notifications, and what a version keeps of both."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidemill.errors import TidemillError
from tidemill.objectstore.queue_options import Queue
from tidemill.runtime.files import file_warnings
from tidemill.runtime.files.file_progress import cursor_rows, cursor_table
from tidemill.runtime.files.listed_files import ListedFiles
from tidemill.runtime.intake.listing import LocationList
from tidemill.runtime.intake.queue_listener import QueueListener
from tidemill.runtime.tables.table import Table
from tidemill.sources.locations.allowed_paths import AllowedPaths
from tidemill.sources.locations.location import Location
from tidemill.sources.objects.listing import Cursor
from tidemill.state.runs.sst import Part

Followed = Sequence[tuple[Table, ListedFiles]]
"""Tables whose files are listed, with what is known of these."""


class Lists:
    """Looks for the files of all tables. A location or queue that several tables have is asked once.

    Parameters
    ----------
    kept : mapping
        What :meth:`to_json` gave with the newest sealed version.
    allowed : AllowedPaths
        What may be listed.

    Attributes
    ----------
    unlisted : list of TidemillError
        Why locations could not be listed since the last full listing began.
    """

    def __init__(self, kept: Mapping[str, Sequence[Any]], allowed: AllowedPaths) -> None:
        self._allowed = allowed
        self._locations: dict[Location, LocationList] = {}
        self._queues: dict[Queue, QueueListener] = {}
        self._cursors: dict[str, dict[str, Cursor]] = {}
        self._moved: dict[str, dict[str, Cursor]] = {}
        self._full_listings: dict[str, tuple[str, float]] = {t: (str(q), float(at)) for t, (q, at) in kept.items()}
        self._to_receive: set[Queue] = set()
        self._warnings: list[str] = []
        self.unlisted: list[TidemillError] = []

    def copy(self) -> Lists:
        """The same, to return to when a statement fails."""
        copied = copy.copy(self)
        copied._locations, copied._cursors, copied._full_listings = (
            dict(self._locations),
            dict(self._cursors),
            dict(self._full_listings),
        )
        return copied

    def begin(self, table: str, cursors: Mapping[str, Cursor]) -> None:
        """Begin with a table that has been listed as far as the cursors say."""
        self._cursors[table] = dict(cursors)

    def drop(self, table: str) -> None:
        """Forget a table."""
        self._cursors.pop(table, None)
        self._full_listings.pop(table, None)
        self._locations = {
            p: found for p, found in self._locations.items() if all(t.table != table for t in found.tables)
        }

    def warnings(self) -> list[str]:
        """New warnings since the last call."""
        warnings, self._warnings = self._warnings, []
        for lister in self._locations.values():
            warnings += lister.warnings
            lister.warnings = []
        return warnings

    def proceed(self, followed: Followed, seconds: float, epoch: int, durable: int) -> None:
        """Look for new files, not more often than every ``seconds`` while known ones wait.

        Parameters
        ----------
        epoch, durable : int
            The newest sealed one, and the newest that cannot be lost.

        Raises
        ------
        TidemillError
            As listing a location for the first time; later that is a warning. TM5075 without the client of queues.
        """
        for lister in self._listers(followed):
            warning = lister.proceed(seconds)
            if warning is not None:
                self._warnings.append(warning)
        for listener, listers in self._listeners():
            self._warnings += listener.receive(listers, epoch, durable)
            for lister in listers:
                lister.look_again()
        self.note_changed(followed)

    def list_all(self, followed: Followed, epoch: int) -> None:
        """Begin a full listing, as far as there is room; the rest follows with :meth:`go_on`.

        Errors as listing a location for the first time; later they are in ``unlisted``, and other locations go on.
        """
        self.unlisted = [error for lister in self._listers(followed) if (error := lister.list_all()) is not None]
        self._to_receive = {location.queue for location in self._locations if location.queue is not None}
        self.go_on(followed, epoch)
        self.note_changed(followed)

    def go_on(self, followed: Followed, epoch: int) -> None:
        """Go on with listings that waited for room; a queue is read when all its locations are listed."""
        for lister in self._listers(followed):
            error = lister.go_on()
            if error is not None:
                self.unlisted.append(error)
        for listener, listers in self._listeners():
            queue = listers[0].location.queue
            if queue in self._to_receive and not any(p.under_way for p in listers):
                self._to_receive.discard(queue)
                self._warnings += listener.receive_all(listers, epoch)
            for lister in listers:
                lister.look_again()

    def _listers(self, followed: Followed) -> list[LocationList]:
        """One for each location. When a table has come to a location it is listed from the beginning.

        A location of no table in use is not listed. Its messages may be lost meanwhile, so it is listed completely
        when it is used again.
        """
        of_location: dict[Location, list[tuple[Table, ListedFiles]]] = {}
        for table, live in followed:
            of_location.setdefault(table.location, []).append((table, live))
        kept = self._locations
        self._locations = {}
        for location, found in of_location.items():
            tables = [live for _, live in found]
            if location in kept and [t.uid for t in kept[location].tables] == [t.uid for t in tables]:
                self._locations[location] = kept[location]
                self._locations[location].tables = tables
            else:
                self._locations[location] = self._lister(location, found)
            self._locations[location].full_listing_every = min(table.backfill_seconds for table, _ in found)
        for location in kept.keys() - self._locations.keys():
            for live in kept[location].tables:
                self._full_listings.pop(live.table, None)
        return list(self._locations.values())

    def _lister(self, location: Location, found: Followed) -> LocationList:
        known = [self._cursors.get(t.name, {}) for t, _ in found]
        cursors = known[0] if all(c == known[0] for c in known) else {}
        tables = [live for _, live in found]
        if location.queue is None:
            return LocationList(location, tables, cursors, allowed=self._allowed)
        listings = [self._full_listings.get(t.name, ("", 0.0)) for t, _ in found]
        full_listing_at = (
            min(at for _, at in listings) if all(url == location.queue.url for url, _ in listings) else None
        )
        return LocationList(location, tables, cursors, full_listing_at, self._allowed)

    def _listeners(self) -> list[tuple[QueueListener, list[LocationList]]]:
        """Queues, each with all its locations."""
        of_queue: dict[Queue, list[LocationList]] = {}
        for location, lister in self._locations.items():
            if location.queue is not None:
                of_queue.setdefault(location.queue, []).append(lister)
        for queue in self._queues.keys() - of_queue.keys():
            self._queues.pop(queue).close()
        for queue in of_queue.keys() - self._queues.keys():
            self._queues[queue] = QueueListener(queue)
        return [(self._queues[queue], found) for queue, found in of_queue.items()]

    def note_changed(self, followed: Iterable[tuple[Table, ListedFiles]]) -> None:
        """Warn of files that changed or were deleted, except those whose notification comes again."""
        found = list(followed)
        gone = {p for _, live in found for p in live.deleted_files}
        waited = {p for listener in self._queues.values() for p in listener.gone(gone)} if gone else set()
        for table, live in found:
            if live.changed_files:
                self._warnings.append(file_warnings.changed_later(live).message())
                live.changed_files = []
            lost = [p for p in live.deleted_files if p not in waited]
            if lost:
                self._warnings.append(file_warnings.gone(table.name, lost).message())
            live.deleted_files = []

    # -- versions -----------------------------------------------------------------------------------

    @property
    def must_note(self) -> bool:
        """Whether an epoch is needed so that messages may be deleted, even if it admits nothing."""
        return any(listener.unsealed for listener in self._queues.values())

    def sealing(self, followed: Followed) -> list[Part]:
        """How far object stores have been listed, where that has changed since it was written; nothing is changed."""
        tables = {live.table: table for table, live in followed}
        parts, self._moved = [], {}
        for lister in self._locations.values():
            for live in lister.tables:
                if live.table not in tables:
                    continue
                known = self._cursors.get(live.table, {})
                state = cursor_table(tables[live.table].uid)
                moved = [(p, c, 0 if p in known else 1) for p, c in lister.cursors.items() if known.get(p) != c]
                if moved:
                    parts.append(Part(state.id, cursor_rows(state, moved), state.ops))
                    self._moved[live.table] = dict(lister.cursors)
        return parts

    def sealed(self, epoch: int) -> None:
        """Note that this epoch sealed all files that were found, and what :meth:`sealing` gave."""
        self._cursors |= self._moved
        self._moved = {}
        for listener in self._queues.values():
            listener.sealed(epoch)
        for location, lister in self._locations.items():
            for live in lister.tables:
                if location.queue is None:
                    self._full_listings.pop(live.table, None)
                elif lister.full_listing_at is not None:
                    self._full_listings[live.table] = (location.queue.url, lister.full_listing_at)

    def close(self, durable: int) -> None:
        """Delete messages of what the durable epoch has, and give others back."""
        for listener in self._queues.values():
            listener.durable(durable)
            listener.close()
        self._queues = {}

    def to_json(self) -> dict[str, list[Any]]:
        """Queue and time of the last full listing, by table with notifications, as of the newest sealed version."""
        return {table: list(listing) for table, listing in self._full_listings.items()}
