"""Followers: each gives one subscriber or cursor the changes of some views, and holds a position, but no data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.serve.changes.change_log import ChangeLog, ChangeTable, Followed
from tidemill.serve.changes.position import Generations, Position

_PASSING = ("TM1030", "TM1039", "TM1041")
"""Errors of views that may end by themselves: a view is initialising, failing or paused."""


@dataclass(frozen=True)
class Given:
    """Rows that were added and removed, and the position behind them."""

    change: ChangeTable
    position: Position


@dataclass(frozen=True)
class Progress:
    """All changes up to an epoch have been given."""

    epoch: int
    position: Position


@dataclass(frozen=True)
class Unreadable:
    """A view cannot be read now; what follows comes once it can."""

    error: TidemillError


Event: TypeAlias = Given | Progress | Unreadable


class Follower:
    """Gives the changes of views epoch by epoch, those of all views of one epoch before the next one.

    :meth:`next` never waits, so a slow subscriber takes no memory but its position. Within an epoch the views come in
    the order in which they are named, and rows in the order of the view's key: the same position gives the same rows.

    Parameters
    ----------
    views : sequence of Followed
        At least one.
    position : Position
    durable : bool
        Whether only epochs are given that no crash can take back.
    """

    def __init__(
        self,
        mill: Mill,
        log: ChangeLog,
        generations: Generations,
        views: Sequence[Followed],
        position: Position,
        durable: bool,
    ) -> None:
        self._mill, self._log, self._generations = mill, log, generations
        self.views = tuple(views)
        self.position = position
        self.durable = durable
        self._unreadable: str | None = None
        self._items: tuple[tuple[int, bool], list[ChangeTable]] | None = None

    def newest(self) -> int:
        """The newest epoch that may be given."""
        return self._generations.durable if self.durable else self._mill.epoch

    def lag(self) -> int:
        """Epochs that have not been given."""
        return max(0, self.newest() - self.position.epoch)

    def ready(self) -> bool:
        """Whether :meth:`next` needs no computation."""
        epoch = self.position.epoch + 1
        if self.position.initial:
            return False
        return epoch > self.newest() or all(self._log.is_known(v, epoch) for v in self.views)

    def next(self, most_rows: int | None = None, fitting: Callable[[pa.Table], int] | None = None) -> Event | None:
        """What comes next; None when everything sealed has been given.

        Parameters
        ----------
        most_rows : int, optional
            A table of more rows is given in parts.
        fitting : callable, optional
            How many of the first rows of a table may be given together; what is more is given in parts.

        Raises
        ------
        TidemillError
            TM1036 when epochs that were given have been lost; TM8010 when the position is older than what is
            retained; TM2012, TM1032 and TM1033 when a view was dropped or has failed for good.
        """
        self.position = self._generations.checked(self.position)
        if self.position.epoch + (not self.position.initial) > self.newest():
            self._check_existing()
            return None
        try:
            items = self._next_items()
        except TidemillError as error:
            if error.number not in _PASSING:
                raise self._numbered(error) from error
            before, self._unreadable = self._unreadable, error.message()
            return None if before == self._unreadable else Unreadable(error)
        self._unreadable = None
        if self.position.item < len(items):
            return self._part(items[self.position.item], most_rows, fitting)
        epoch = self.position.epoch if self.position.initial else self.position.epoch + 1
        self.position = Position(self.position.generation, epoch)
        self._items = None
        return Progress(epoch, self.position)

    def _check_existing(self) -> None:
        """TM2012 when a view was dropped, although no epoch has been sealed since."""
        snapshot = self._mill.snapshot()
        for followed in self.views:
            if not snapshot.readable(followed.view):
                raise snapshot.catalog.unknown(followed.view, "view")

    def _next_items(self) -> list[ChangeTable]:
        key = (self.position.epoch, self.position.initial)
        if self._items is None or self._items[0] != key:
            snapshot = self._mill.snapshot(durable=self.durable)
            self._items = key, self._read(snapshot)
        return self._items[1]

    def _read(self, snapshot: Snapshot) -> list[ChangeTable]:
        epoch = self.position.epoch
        if self.position.initial:
            return [t for v in self.views for t in self._log.rows(v, epoch, snapshot)]
        return [t for v in self.views for t in self._log.changes(v, epoch + 1, snapshot)]

    def _part(self, change: ChangeTable, most_rows: int | None, fitting: Callable[[pa.Table], int] | None) -> Given:
        start, rows = self.position.row, change.table.num_rows
        end = rows if most_rows is None else min(rows, start + most_rows)
        if fitting is not None:
            end = min(end, start + fitting(change.table.slice(start, end - start)))
        if end < rows:
            self.position = replace(self.position, row=end)
        else:
            self.position = replace(self.position, item=self.position.item + 1, row=0)
        if (start, end) != (0, rows):
            table = change.table.slice(start, end - start)
            change = replace(change, key=(change.key, start, end), table=table)
        return Given(change, self.position)

    def _numbered(self, error: TidemillError) -> TidemillError:
        if error.number != "TM1031":
            return error
        return TidemillError(
            "TM8010",
            "this position in the changes has expired",
            got=f"epoch {self.position.epoch + (not self.position.initial)}: {error.got}",
            hint="start again from a snapshot; the setting history_epochs says how many epochs are retained",
        )
