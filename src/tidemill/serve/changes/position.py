"""Positions in the changes of views, and whether the epochs that a subscriber was given have been lost."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.serve.stored.state_store import StateStore


@dataclass(frozen=True)
class Position:
    """All changes up to an epoch have been given, and a part of those of the next one.

    Attributes
    ----------
    generation : int
        In which epochs are counted: see :class:`Generations`.
    epoch : int
        The last epoch that was given whole. With ``initial`` the one whose rows are being given.
    item, row : int
        How many tables of what comes next were given whole, and how many rows of the one after them.
    initial : bool
        Whether what comes next are the rows of ``epoch``, and not the changes of the epoch after it.
    """

    generation: int
    epoch: int
    item: int = 0
    row: int = 0
    initial: bool = False

    def __str__(self) -> str:
        """As clients hand it back: ``generation.epoch.item.row``, and ``i`` behind it with ``initial``."""
        return f"{self.generation}.{self.epoch}.{self.item}.{self.row}{'i' * self.initial}"

    @staticmethod
    def parse(text: str) -> Position:
        """The position in a text. TM8013 when it is none."""
        match = re.fullmatch(r"(\d{1,9})\.(\d{1,15})\.(\d{1,9})\.(\d{1,15})(i?)", text.strip())
        if match is None:
            raise TidemillError(
                "TM8013",
                "this is no position",
                got=text[:80],
                hint="give back the `position` of an earlier answer, or the id of an event, as it was",
            )
        generation, epoch, item, row = map(int, match.groups()[:4])
        return Position(generation, epoch, item, row, bool(match[5]))

    @property
    def seen(self) -> int:
        """The newest epoch of which anything has been given."""
        partly = not self.initial and (self.item > 0 or self.row > 0)
        return self.epoch + partly


class Generations:
    """Which epochs may have been given to clients and then been lost.

    What is sealed and not durable is lost with a host or a killed process; its input is read again in epochs that may
    be cut otherwise. Each such return, and each start of a server, begins a generation. Its base is the last epoch that
    it surely shares with earlier ones: one that the server before has noted as durable. What other mills did with the
    root in between does not matter.

    Parameters
    ----------
    noticed : callable
        Is given each epoch that is found to be durable; it should return at once.
    """

    def __init__(self, store: StateStore, mill: Mill, noticed: Callable[[int], None] = lambda _: None) -> None:
        self._store, self._mill, self._noticed = store, mill, noticed
        self._lock = threading.Lock()
        self._noted = 0
        before = store.durable()
        base = mill.durable_epoch if before is None else min(mill.durable_epoch, before)
        store.add_generation(base, base)
        self._durable = base
        self._bases = store.generations()

    @property
    def durable(self) -> int:
        """The newest epoch that a position can name after any crash: it is durable, and noted so."""
        return self.note_durable()

    def note_durable(self) -> int:
        """Note the newest durable epoch; returns it."""
        newest = self._mill.durable_epoch
        if newest > self._durable:
            with self._lock:
                if newest > self._durable:
                    self._store.note_durable(newest)
                    self._durable = newest
                    self._noticed(newest)
        return self._durable

    @property
    def current(self) -> int:
        """The number of the newest generation."""
        lost = self._mill.rollbacks
        if len(lost) > self._noted:
            with self._lock:
                for base in lost[self._noted :]:
                    self._store.add_generation(base, self._durable)
                    self._bases.append(base)
                    self._noted += 1
        return len(self._bases)

    def checked(self, position: Position) -> Position:
        """The position in the newest generation.

        Raises
        ------
        TidemillError
            TM1036 when epochs that the client has seen were lost; TM8013 for a generation that there never was.
        """
        current = self.current
        if position.generation == current:
            return position
        if not 1 <= position.generation < current:
            raise TidemillError(
                "TM8013",
                "this is no position",
                got=f"generation {position.generation} of {current}",
                hint="it is of another root, or of a server whose state was removed: start again from a snapshot",
            )
        last = min(self._bases[position.generation : current])
        if position.seen > last:
            raise TidemillError(
                "TM1036",
                "epochs whose changes were given have been lost before they were durable",
                got=f"epochs {last + 1} to {position.seen}",
                hint="start again from a snapshot; with durable=true only what cannot be lost is given",
            )
        return replace(position, generation=current)
