"""Which state files nobody can need any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tidemill.state.store import RunStore, epoch_of

_STAGED_SECONDS = 600.0
"""What was staged is left alone so long after it was last written to, whatever the grace period."""

Listed = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Listing:
    """What lies in a root, and in this host's buffer, with modification times (seconds).

    ``durable`` are objects, ``buffered`` runs that no checkpoint has taken yet or that it has replaced, ``copies`` of
    objects that are no files, ``staged`` what is being written, or was when its writer died.
    """

    durable: Listed
    buffered: Listed
    copies: Listed = ()
    staged: Listed = ()

    @staticmethod
    def of(store: RunStore) -> Listing:
        """What is there now. List first, ask what is needed then: what is written meanwhile is not in the list."""
        return Listing(tuple(store.durable()), tuple(store.buffered()), tuple(store.copies()), tuple(store.staged()))


@dataclass(frozen=True)
class Garbage:
    """Names that may go; see :class:`Listing`."""

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


def garbage(
    listing: Listing,
    kept: Iterable[Collection[str]],
    pinned: Iterable[Collection[str]],
    in_flight: Collection[str],
    durable_epoch: int,
    now: float,
    grace: float,
) -> Garbage:
    """What may go.

    Parameters
    ----------
    kept : iterable of collections of str
        The files of each manifest that is kept, and of versions sealed since.
    pinned : iterable of collections of str
        The files of each older version that somebody in this process reads.
    in_flight : collection of str
        Parts of the names of files that are being written for a version to come.
    durable_epoch : int
        Newest epoch of a manifest. What the buffer has of a later one may belong to an attempt in flight.
    now, grace : float
        Seconds: a file must be at least ``grace`` old.

    Returns
    -------
    Garbage
        Nothing that is needed, young or in flight.
    """
    needed: set[str] = set().union(*kept, *pinned)
    before = now - grace

    def may_go(listed: Listed) -> tuple[str, ...]:
        old = (name for name, at in listed if at < before and name not in needed)
        return tuple(name for name in old if not any(part in name for part in in_flight))

    abandoned = now - max(grace, _STAGED_SECONDS)
    return Garbage(
        may_go(listing.durable),
        tuple(name for name in may_go(listing.buffered) if epoch_of(name) <= durable_epoch),
        may_go(listing.copies),
        tuple(name for name, at in listing.staged if at < abandoned),
    )
