"""Batches of Spark streams in a mill: epochs admit them, and they are deleted when they are read and durable."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from itertools import islice

from tidemill.options.tables import RETAIN_BYTES
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.files.file_progress import FileProgress
from tidemill.runtime.ingest.cleaning import Removal
from tidemill.runtime.ingest.log import INGESTED, Batch, IngestLog, name_of, remove_all, tried, unreadable
from tidemill.runtime.intake.intake import Intake
from tidemill.runtime.tables.ingest_tables import INGEST_SPOOL
from tidemill.runtime.tables.socket_tables import history_wanted
from tidemill.runtime.tables.table import Table
from tidemill.sources.file_info import FileInfo
from tidemill.state.versions.objects import Objects

_TOGETHER = 16
_TOGETHER_BYTES = 64 << 20
"""Batches are deleted together when there are so many, or so many bytes of them, to save requests."""

_LAST_SECONDS = 10.0
"""How long closing waits for files that are being deleted."""

_log = logging.getLogger(__name__)


class IngestedTable:
    """One table that Spark streams are written into.

    Batches are admitted in the order in which they were committed. ``read`` has those that are read to their end, each
    with an epoch at which it was known; they are the first ones of the log.
    """

    def __init__(self, table: Table, log: IngestLog) -> None:
        self.table = table
        self.log = log
        self.read: deque[tuple[Batch, int]] = deque()
        self.pending: deque[Batch] = deque()
        self._waiting = 0
        self._read_bytes = 0
        self._removal: Removal | None = None
        self._forgotten = False

    @property
    def waiting_bytes(self) -> int:
        """How many bytes wait to be read, batches included that the intake does not have yet."""
        return self._waiting + self.log.new_bytes()

    @property
    def most_waiting(self) -> int:
        """How many bytes may wait to be read."""
        return INGEST_SPOOL.of(self.table.options)

    def begin(self, intake: Intake) -> None:
        """Pass all files to an intake. TM5065 when one is missing that was not read to its end."""
        self._forget(intake)
        batches, known = self.log.all_again(), dict(intake.known_files(self.table.name))
        place = self.log.place
        positions: dict[str, FileProgress] = {}
        for path, file in known.items():  # paths are others where the root has been moved
            name = name_of(path, place)
            if name not in positions or positions[name].position < file.position:
                positions[name] = file
        files = {name_of(f.path, place): f for b in batches for f in b.files}
        for name in positions.keys() - files.keys():
            if positions[name].remaining:
                raise unreadable(place, f"{name} has gone before it was read")
        intake.ingested(self.table.name).forget(known)
        intake.ingested(self.table.name).put([_progress(f, positions.get(name)) for name, f in files.items()])
        self.pending = deque(batches)
        self._waiting = sum(f.remaining for f in intake.known_files(self.table.name).values())
        self.read.clear()
        self._read_bytes = 0

    def take_new(self, intake: Intake) -> None:
        """Pass new files to an intake."""
        new = self.log.take_new()
        intake.ingested(self.table.name).put([_progress(f, None) for b in new for f in b.files])
        self.pending += new
        self._waiting += sum(b.bytes for b in new)

    def reopen_history(self, intake: Intake) -> int:
        """Make all batches that are there readable again, as history; gives how many have been deleted."""
        self._forget(intake)
        self.pending.extendleft(b for b, _ in reversed(self.read))
        self.read.clear()
        self._read_bytes = 0
        return self.log.forgotten

    def look(self, intake: Intake, epoch: int) -> None:
        """Note which batches were read to their end by an epoch."""
        known = intake.known_files(self.table.name)
        again = intake.history_paths(self.table.name) if self.pending else set()
        while self.pending and not any(known[f.path].remaining or f.path in again for f in self.pending[0].files):
            batch = self.pending.popleft()
            self.read.append((batch, epoch))
            self._read_bytes += batch.bytes
        self._waiting = sum(known[f.path].remaining for b in self.pending for f in b.files)

    def reclaim(self, intake: Intake, durable: int) -> None:
        """Begin to delete batches that are read, durable and not retained; forget those that were deleted."""
        if self._removal is not None:
            if self._removal.known:
                self._forget(intake)
            if not self._removal.ended:
                return
            self._removal = None
        retained = RETAIN_BYTES.of(self.table.options)
        if retained is None:
            return
        count, newer = 0, self._read_bytes
        for batch, epoch in self.read:
            if epoch > durable or newer - batch.bytes < retained:
                break
            count, newer = count + 1, newer - batch.bytes
        if count >= _TOGETHER or (count and self._read_bytes - newer >= _TOGETHER_BYTES):
            self._removal, self._forgotten = Removal(self.log, [b for b, _ in islice(self.read, count)]), False

    def _forget(self, intake: Intake) -> None:
        """Forget the batches of the current removal if it is noted in the root; waits until that is known."""
        removal = self._removal
        if removal is None or self._forgotten:
            return
        self._forgotten = True
        if not removal.is_noted():
            _log.warning("batches of %s that are not needed could not be deleted: %s", self.table.name, removal.error)
            return
        self.log.forget(removal.batches[-1].number)
        for batch in removal.batches:
            self.read.popleft()
            self._read_bytes -= batch.bytes
            intake.ingested(self.table.name).forget([f.path for f in batch.files])

    def finish(self) -> None:
        """Wait some seconds for files that are being deleted; the rest is deleted when the table is opened next."""
        if self._removal is not None:
            self._removal.wait(_LAST_SECONDS)

    def drop(self) -> None:
        """Delete what was written into the table, which is dropped. OSError as :meth:`IngestLog.drop`."""
        self.finish()
        self.log.drop()


def batches_folder(table: Table) -> str:
    """The name of a table's folder; it does not have the name of the table, which may have any characters."""
    return f"table-{table.uid.rpartition('#')[2]}"


def _number_of(folder: str) -> int:
    """The number at the end of the uid of a folder's table: later tables have greater ones."""
    number = folder.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


class Ingestion:
    """All such tables of a mill.

    Parameters
    ----------
    objects : Objects
        The root.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._tables: dict[str, IngestedTable] = {}
        self._informed: Intake | None = None
        self._tidied = False

    def use(self, catalog: Catalog, created: str = "") -> None:
        """Keep the tables of a catalog and no others; what was written into dropped tables is deleted.

        Folders of tables of a later catalog stay, in case newer manifests were only moved away.

        Parameters
        ----------
        created : str
            The table that has just been created: it begins empty.

        Raises
        ------
        TidemillError
            TM5065 when batches of a table cannot be read.
        """
        tables = {t.name: t for t in catalog.tables.values() if t.ingested}
        for name in [n for n, t in self._tables.items() if n not in tables or tables[n].uid != t.table.uid]:
            tried(self._tables.pop(name).drop)
        for name, table in tables.items():
            if name in self._tables:
                self._tables[name].table = table
                continue
            self._tables[name] = IngestedTable(table, IngestLog(self._objects, batches_folder(table), name == created))
            self._informed = None
        if not self._tidied:
            self._tidy(catalog, {batches_folder(t) for t in tables.values()})
            self._tidied = True

    def _tidy(self, catalog: Catalog, kept: Collection[str]) -> None:
        """Delete folders that dropped tables left behind."""
        place = Objects(f"{self._objects.url}/{INGESTED}")
        for folder in place.top():
            if folder not in kept and _number_of(folder) < catalog.next_uid:
                tried(partial(remove_all, place, folder))

    def inform(self, intake: Intake) -> None:
        """Pass batches to an intake that it does not know. Errors as :meth:`IngestedTable.begin`."""
        for found in self._tables.values():
            if intake is self._informed:
                found.take_new(intake)
            else:
                found.begin(intake)
        self._informed = intake

    def sealed(self, intake: Intake, epoch: int, durable: int) -> None:
        """After an epoch was sealed, delete batches that the ``durable`` epoch has read and that are not retained."""
        for found in self._tables.values():
            found.look(intake, epoch)
            found.reclaim(intake, durable)

    def history_wanted(self, intake: Intake, tables: Collection[str]) -> list[str]:
        """As :func:`~tidemill.runtime.tables.socket_tables.history_wanted`; an intake forgets deleted batches."""
        again = {name: partial(found.reopen_history, intake) for name, found in self._tables.items()}
        return history_wanted(again, tables, "batches")

    def close(self) -> None:
        """As :meth:`IngestedTable.finish`, for all tables."""
        for found in self._tables.values():
            found.finish()

    def table(self, name: str) -> IngestedTable | None:
        """A table by name; None when there is none, or its rows do not come from Spark streams."""
        return self._tables.get(name)


def _progress(file: FileInfo, before: FileProgress | None) -> FileProgress:
    """The progress of a file, with the position that it had before."""
    fresh = FileProgress(file.path, file.size, file.modified)
    return fresh if before is None else replace(before, path=file.path, size=file.size, modified=file.modified)
