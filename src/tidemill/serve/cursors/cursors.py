"""Cursors: a client registers views once, and pulls their changes so many rows at a time."""

from __future__ import annotations

import json
import secrets
import threading
from collections import OrderedDict
from dataclasses import asdict, dataclass

from tidemill.errors import TidemillError
from tidemill.serve.changes.follower import Follower, Given, Progress, Unreadable
from tidemill.serve.changes.position import Position
from tidemill.serve.changes.subscribing import Asked, Subscriptions
from tidemill.serve.stored.state_store import CursorRecord, StateStore

_OPEN = 1000
"""Cursors whose followers are kept in memory; others are opened again when they are used."""


@dataclass(frozen=True)
class Holder:
    """Who uses cursors: those with the same token are one holder.

    Attributes
    ----------
    owner : str
        What is stored with the cursors that it opens.
    all : bool
        Whether it may use the cursors of all others: an admin.
    """

    owner: str
    all: bool

    def may_use(self, record: CursorRecord) -> bool:
        """Whether a cursor is its own, or one of a server that did not note owners."""
        return self.all or record.owner in (None, self.owner)

    def lists(self, record: CursorRecord) -> bool:
        """Whether a list shows it a cursor. One without an owner is only for those who know its id."""
        return self.all or record.owner == self.owner


@dataclass(frozen=True)
class Fetched:
    """What a fetch gives.

    Attributes
    ----------
    given : list of Given
        Tables of one view and one epoch each, in order.
    position : Position
        Behind all of them; asking with ``after`` an earlier position gives the same rows again.
    epoch : int
        Everything up to this epoch has been given.
    up_to_date : bool
        Whether there was nothing more when the fetch ended.
    trouble : TidemillError or None
        Why a view cannot be read for now.
    """

    given: list[Given]
    position: Position
    epoch: int
    up_to_date: bool
    trouble: TidemillError | None


class Cursors:
    """Cursors by id, stored so that they outlive the server.

    A fetch moves its cursor. A client whose answer was lost asks again with the position before it.
    """

    def __init__(self, store: StateStore, subscriptions: Subscriptions, most: int) -> None:
        self._store, self._subscriptions, self._most = store, subscriptions, most
        self._lock = threading.Lock()
        self._open: OrderedDict[str, tuple[threading.Lock, Follower]] = OrderedDict()

    def open(self, asked: Asked, holder: Holder) -> CursorRecord:
        """A new cursor of a holder.

        Raises
        ------
        TidemillError
            TM8024 when there are too many; otherwise as :meth:`Subscriptions.follower`.
        """
        if self._store.count_cursors() >= self._most:
            raise TidemillError(
                "TM8024",
                "the server has as many of these as it may",
                got=f"{self._most:,} cursors",
                hint="close cursors that are not used any more",
            )
        follower = self._subscriptions.follower(asked)
        id_ = secrets.token_hex(8)
        self._store.add_cursor(id_, json.dumps(asdict(asked)), str(follower.position), holder.owner)
        self._keep(id_, (threading.Lock(), follower))
        return self.record(id_, holder)

    def record(self, id_: str, holder: Holder) -> CursorRecord:
        """What is known of a cursor. TM8014 when there is none of this id that the holder may use."""
        found = self._store.cursor(id_)
        if found is None or not holder.may_use(found):
            raise TidemillError(
                "TM8014", "there is no such cursor", got=id_[:40], hint="it was closed; open another one"
            )
        return found

    def records(self, holder: Holder) -> list[CursorRecord]:
        """The holder's cursors, the oldest first."""
        return [record for record in self._store.cursors() if holder.lists(record)]

    def close(self, id_: str, holder: Holder) -> None:
        """Remove a cursor. TM8014 when there is none of this id that the holder may use."""
        self.record(id_, holder)
        self._store.drop_cursor(id_)
        with self._lock:
            self._open.pop(id_, None)

    def fetch(self, id_: str, holder: Holder, most_rows: int, after: Position | None = None) -> Fetched:
        """The next rows of a cursor; it does not wait for any.

        Parameters
        ----------
        most_rows : int
            At least 1.
        after : Position, optional
            Goes on from there, in place of behind the last fetch.

        Raises
        ------
        TidemillError
            TM8014 for an unknown cursor, or one of others; TM8010, TM1036, TM2012, TM1032, TM1033 as
            :meth:`Follower.next`.
        """
        lock, follower = self._follower(self.record(id_, holder))
        with lock:
            before = follower.position
            try:
                if after is not None:
                    follower.position = after
                given, trouble = _taken(follower, most_rows)
                self._store.move_cursor(id_, str(follower.position))
            except BaseException:
                follower.position = before  # nothing was given
                raise
            at = follower.position
            return Fetched(given, at, at.epoch - at.initial, follower.lag() == 0 and not at.initial, trouble)

    def _follower(self, record: CursorRecord) -> tuple[threading.Lock, Follower]:
        with self._lock:
            found = self._open.get(record.id)
            if found is not None:
                self._open.move_to_end(record.id)
                return found
        asked = Asked.of(json.loads(record.asked))
        made = threading.Lock(), self._subscriptions.follower(asked, Position.parse(record.position))
        return self._keep(record.id, made)

    def _keep(self, id_: str, made: tuple[threading.Lock, Follower]) -> tuple[threading.Lock, Follower]:
        with self._lock:
            found = self._open.setdefault(id_, made)
            if len(self._open) > _OPEN:
                idle = next((i for i, (lock, _) in self._open.items() if i != id_ and not lock.locked()), None)
                if idle is not None:
                    del self._open[idle]
            return found


def _taken(follower: Follower, most_rows: int) -> tuple[list[Given], TidemillError | None]:
    """The next rows, and why a view cannot be read for now. An error behind some rows comes with the next call."""
    given: list[Given] = []
    left = most_rows
    while left > 0:
        before = follower.position
        try:
            event = follower.next(left)
        except TidemillError:
            if not given:
                raise
            follower.position = before
            return given, None
        if event is None or isinstance(event, Unreadable):
            return given, None if event is None else event.error
        if isinstance(event, Given):
            given.append(event)
            left -= event.change.table.num_rows
    _finish_epoch(follower)
    return given, None


def _finish_epoch(follower: Follower) -> None:
    """Step over the end of an epoch whose last row was given."""
    before = follower.position
    if before.item and not before.row and not isinstance(follower.next(1), Progress):
        follower.position = before
