"""Garbage collection: finds state files that are no longer needed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidemill.state.store.file_names import epoch_of
from tidemill.state.store.store import RunStore
from tidemill.state.versions.manifest import ManifestLog

_STAGED_SECONDS = 600.0
"""Seconds after its last write for which a staged file is kept at least, whatever the grace period."""

Listed = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Listing:
    """The files of a root and of this host's buffer, with modification times (seconds).

    ``durable`` are objects, ``buffered`` are run files of the buffer, ``copies`` are those of objects of an object
    store, ``staged`` are files being written or left by a dead writer. ``sizes`` are the bytes of objects.
    """

    durable: Listed
    buffered: Listed
    copies: Listed = ()
    staged: Listed = ()
    sizes: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(store: RunStore, log: ManifestLog) -> Listing:
        """List the files now. To be called before asking what is needed, so that newer files are not in the list."""
        staged = (*store.staged(), *log.staged())
        stored = store.stored()
        durable = tuple((s.name, s.modified) for s in stored)
        sizes = {s.name: s.bytes for s in stored}
        return Listing(durable, tuple(store.buffered()), tuple(store.copies()), staged, sizes)


@dataclass(frozen=True)
class Garbage:
    """Names of files to delete; see :class:`Listing`."""

    durable: tuple[str, ...]
    buffered: tuple[str, ...]
    copies: tuple[str, ...] = ()
    staged: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.durable) + len(self.buffered) + len(self.copies) + len(self.staged)

    def remove(self, store: RunStore) -> None:
        """Delete all of it. OSError when that fails."""
        store.evict(self.buffered)
        store.evict(self.copies)
        store.sweep(self.staged)
        store.remove(self.durable)


class FirstSeen:
    """When this process first saw each file to be unneeded; the age of a file does not tell."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def since(self, listing: Listing, unneeded: Collection[str], now: float) -> Listing:
        """The listing with the times when files were first seen to be unneeded as their times."""
        self._since = {name: self._since.get(name, now) for name in unneeded}

        def dated(listed: Listed) -> Listed:
            return tuple((name, self._since.get(name, at)) for name, at in listed)

        return replace(
            listing,
            durable=dated(listing.durable),
            buffered=dated(listing.buffered),
            copies=dated(listing.copies),
        )


def unneeded(
    listing: Listing,
    kept: Iterable[Collection[str]],
    pinned: Iterable[Collection[str]],
    in_flight: Collection[str],
) -> set[str]:
    """Names of listed files that are not kept, pinned or in flight."""
    needed: set[str] = set().union(*kept, *pinned)
    names = {name for name, _ in (*listing.durable, *listing.buffered, *listing.copies)} - needed
    return {name for name in names if not any(part in name for part in in_flight)}


def garbage(
    listing: Listing,
    kept: Iterable[Collection[str]],
    pinned: Iterable[Collection[str]],
    in_flight: Collection[str],
    durable_epoch: int | None,
    now: float,
    grace: float,
) -> Garbage:
    """The files that can be deleted.

    Parameters
    ----------
    kept : iterable of collections of str
        The files of each manifest that is kept, and of versions sealed since.
    pinned : iterable of collections of str
        The files of each older version that has readers in this process.
    in_flight : collection of str
        Parts of the names of files that are being written for a future version.
    durable_epoch : int or None
        Newest epoch of a manifest. Files of the buffer of later epochs may belong to a running attempt. None when no
        mill runs.
    now, grace : float
        Seconds: the time in the listing must be ``grace`` ago.

    Returns
    -------
    Garbage
        Only files that are not needed, young or in flight.
    """
    useless = unneeded(listing, kept, pinned, in_flight)
    newest = math.inf if durable_epoch is None else durable_epoch

    def may_go(listed: Listed) -> tuple[str, ...]:
        return tuple(name for name, at in listed if at <= now - grace and name in useless)

    abandoned = now - max(grace, _STAGED_SECONDS)
    return Garbage(
        may_go(listing.durable),
        tuple(name for name in may_go(listing.buffered) if epoch_of(name) <= newest),
        may_go(listing.copies),
        tuple(name for name, at in listing.staged if at < abandoned),
    )
