"""What a reader of changes asks for, and the follower that gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.read.selection import Selection
from tidemill.serve.changes.change_log import ChangeLog, Followed
from tidemill.serve.changes.follower import Follower
from tidemill.serve.changes.position import Generations, Position

SNAPSHOT, NOW = "snapshot", "now"
_MOST_VIEWS = 100


@dataclass(frozen=True)
class Asked:
    """What a reader of changes wants.

    Attributes
    ----------
    views : tuple of str
        Names, in the order in which their changes of one epoch are to come.
    start : str
        ``snapshot``: the rows of the newest epoch as insertions, then changes. ``now``: changes after the newest
        epoch. A number: changes after that epoch. A position that was given earlier: what comes behind it.
    columns : str
        A SELECT list over the columns of the view; for one view only, as is ``where``.
    where : str or None
        A condition on the columns of the view.
    durable : bool
        Whether only epochs are given that no crash can take back.
    """

    views: tuple[str, ...]
    start: str = SNAPSHOT
    columns: str = "*"
    where: str | None = None
    durable: bool = False

    @staticmethod
    def of(stored: Mapping[str, Any]) -> Asked:
        """As it was stored, from JSON."""
        return Asked(**{**stored, "views": tuple(stored["views"])})


class Subscriptions:
    """Makes followers of views.

    Parameters
    ----------
    check_length : callable
        TM8012 for a SELECT list and a condition that are too long.
    """

    def __init__(
        self, mill: Mill, log: ChangeLog, generations: Generations, check_length: Callable[[str], None]
    ) -> None:
        self._mill, self._log, self._generations = mill, log, generations
        self._check_length = check_length
        self._selection = lru_cache(maxsize=1024)(self._planned)

    def follower(self, asked: Asked, position: Position | None = None) -> Follower:
        """A follower of what was asked for.

        Parameters
        ----------
        position : Position, optional
            Where it goes on; by default where ``asked.start`` says.

        Raises
        ------
        TidemillError
            TM2012 for an unknown view, TM1030 for one that is initialising, TM2060 and others of
            :meth:`Mill.selection`; TM8012 for columns and a condition that are too long; TM8015 for no view, too many
            or several with a condition; TM8013 for a start that is none.
        """
        views = self._views(asked)
        durable = asked.durable
        if position is None:
            position = self._start(asked, durable)
        snapshot = self._mill.snapshot()
        for name in asked.views:
            snapshot.check_readable(name.lower(), position.epoch if position.initial else None)
        return Follower(self._mill, self._log, self._generations, views, position, durable)

    def _views(self, asked: Asked) -> Sequence[Followed]:
        names = [n.lower() for n in asked.views]
        selects = asked.columns.strip() != "*" or asked.where is not None
        if not names or len(names) > _MOST_VIEWS or len(set(names)) < len(names) or (selects and len(names) > 1):
            raise TidemillError(
                "TM8015",
                "these views cannot be followed together",
                got=f"{len(names)} views{', with columns or a condition' * selects}",
                hint=f"name 1 to {_MOST_VIEWS} views, each once; columns and where are for one view",
            )
        self._check_length(asked.columns + (asked.where or ""))
        return [self._followed(name, asked.columns.strip(), asked.where) for name in names]

    def _followed(self, name: str, columns: str, where: str | None) -> Followed:
        snapshot = self._mill.snapshot()
        if columns == "*" and where is None:
            return Followed(name, ("*", None, ""), Selection(name, snapshot.schema(name)))
        view = snapshot.view_at(name, None)
        uid = "" if view is None else view.uid
        return Followed(name, (columns, where, uid), self._selection(name, uid, columns, where))

    def _planned(self, name: str, uid: str, columns: str, where: str | None) -> Selection:
        """``uid`` tells a view from another one that had its name."""
        return self._mill.selection(name, columns, where)

    def _start(self, asked: Asked, durable: bool) -> Position:
        start = asked.start
        newest = self._generations.durable if durable else self._mill.epoch
        generation = self._generations.current
        if start == SNAPSHOT:
            snapshot = self._mill.snapshot()
            if not all(snapshot.readable_at(name.lower(), newest) for name in asked.views):
                newest = snapshot.version.epoch  # of a new view: its rows are given once this epoch is durable
            return Position(generation, newest, initial=True)
        if start == NOW:
            return Position(generation, newest)
        if not start.isdigit():
            return self._generations.checked(Position.parse(start))
        if int(start) > newest:
            raise TidemillError(
                "TM1031", "this epoch cannot be read", got=f"epoch {start}; newest: {newest}", hint="start from `now`"
            )
        return Position(generation, int(start))
