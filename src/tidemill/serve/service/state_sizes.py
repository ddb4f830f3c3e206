"""How large the state of a mill is, and when it was made durable."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from tidemill.mill import Mill
from tidemill.runtime.epoch.report import EpochReport
from tidemill.runtime.tables.table import source_tables
from tidemill.serve.service.programs import Programs
from tidemill.state.versions.version import Run

_KEPT = 600


@dataclass(frozen=True)
class TableSize:
    """A state table: its runs, the rows in them before they are merged, and its bytes.

    ``used_by`` are the views that need it, or the table whose source does. ``history_bytes`` are needed by earlier
    epochs only, ``buffered_bytes`` are not durable yet.
    """

    table: str
    used_by: tuple[str, ...]
    runs: int
    rows: int
    bytes: int
    history_bytes: int
    buffered_bytes: int
    first_epoch: int | None
    last_epoch: int | None


@dataclass(frozen=True)
class Size:
    """Bytes of the state at an epoch, which was sealed at a time (seconds since 1970)."""

    at: float
    epoch: int
    bytes: int
    history_bytes: int


@dataclass(frozen=True)
class Checkpoint:
    """An epoch that was found to be durable, and when (seconds since 1970)."""

    at: float
    epoch: int


class StateSizes:
    """The sizes of state tables now, and of the whole state over the newest 600 epochs.

    Checkpoints are those noticed by :meth:`noticed`, which whoever watches the mill calls.
    """

    def __init__(self, mill: Mill, programs: Programs) -> None:
        self._mill, self._programs = mill, programs
        self.history: deque[Size] = deque(maxlen=_KEPT)
        self.checkpoints: deque[Checkpoint] = deque(maxlen=_KEPT)
        mill.on_epoch(self._note)

    def noticed(self, durable_epoch: int) -> None:
        """A newer epoch is durable."""
        self.checkpoints.append(Checkpoint(time.time(), durable_epoch))

    def _note(self, report: EpochReport) -> None:
        version = self._mill.snapshot().version
        newest, history = (sum(map(_bytes, t.values())) for t in (version.tables, version.retired))
        self.history.append(Size(time.time(), report.epoch, newest, history))

    def tables(self) -> list[TableSize]:
        """All state tables that have runs, the largest first."""
        snapshot, durable = self._mill.snapshot(), self._mill.durable_epoch
        version, users = snapshot.version, self._programs.users()
        for table in snapshot.catalog.tables.values():
            for stored in source_tables(table):
                users.setdefault(stored.id, {table.name})
        found = []
        for name in {*version.tables, *version.retired}:
            runs = version.runs(name)
            found.append(
                TableSize(
                    name,
                    tuple(sorted(users.get(name, ()))),
                    len(runs),
                    sum(r.rows for r in runs),
                    _bytes(runs),
                    _bytes(version.retired.get(name, ())),
                    _bytes([r for r in runs if r.added > durable]),
                    min((r.epoch_low for r in runs), default=None),
                    max((r.epoch_high for r in runs), default=None),
                )
            )
        return sorted(found, key=lambda t: (-t.bytes, t.table))


def _bytes(runs: tuple[Run, ...] | list[Run]) -> int:
    return sum(r.bytes for r in runs)
