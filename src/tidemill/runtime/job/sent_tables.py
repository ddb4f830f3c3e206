"""Which runs state tables have, in requests to tasks that stay: what has changed since the request before.

An epoch changes a few runs of tables that may have hundreds, so both ends of a connection keep what was sent last. In
the task, too, runs are the same objects from request to request, while these are of one mill: where several mills use a
task in turn, each sends its tables anew.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from weakref import WeakKeyDictionary

from tidemill.state.versions.version import Run

Tables: TypeAlias = Mapping[str, tuple[Run, ...]]
Pieces: TypeAlias = tuple[tuple[int, int] | Run, ...]
"""The runs of a table: ranges of those that it had, and others."""


@dataclass(frozen=True)
class TableChanges:
    """What makes the tables of a request of those of the request before: tables with other runs, and those gone."""

    changed: dict[str, Pieces] = field(default_factory=dict)
    gone: tuple[str, ...] = ()

    def made(self, before: Tables) -> dict[str, tuple[Run, ...]]:
        """The tables of the request, given those of the request before."""
        now = dict(before)
        for table in self.gone:
            del now[table]
        for table, pieces in self.changed.items():
            had = before.get(table, ())
            runs: list[Run] = []
            for piece in pieces:
                if isinstance(piece, Run):
                    runs.append(piece)
                else:
                    runs += had[piece[0] : piece[1]]
            now[table] = tuple(runs)
        return now


class SentTables:
    """What the task at the other end of each connection knows."""

    def __init__(self) -> None:
        self._sent: WeakKeyDictionary[socket.socket, Tables] = WeakKeyDictionary()

    def changes(self, task: socket.socket, tables: Tables) -> TableChanges:
        """What to send for a request with some tables. The request must be sent, or the connection be closed."""
        before = self._sent.get(task, {})
        self._sent[task] = tables
        return changes(before, tables)


def changes(before: Tables, now: Tables) -> TableChanges:
    """What makes tables of others.

    Runs, and the runs of a table, are told apart by identity: versions hand on the objects that they do not change.
    """
    changed = {t: _pieces(before.get(t, ()), runs) for t, runs in now.items() if before.get(t) is not runs}
    return TableChanges(changed, tuple(table for table in before if table not in now))


def _pieces(before: tuple[Run, ...], now: tuple[Run, ...]) -> Pieces:
    at = {id(run): i for i, run in enumerate(before)}
    pieces: list[tuple[int, int] | Run] = []
    first = end = 0
    for run in now:
        i = at.get(id(run))
        if i == end:
            end += 1
            continue
        if first < end:
            pieces.append((first, end))
        if i is None:
            pieces.append(run)
            first = end = 0
        else:
            first, end = i, i + 1
    if first < end:
        pieces.append((first, end))
    return tuple(pieces)
