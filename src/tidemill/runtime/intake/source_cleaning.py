"""Cleans files of tables with ``cleanSource``, in the background: which files may go, and what is sealed about them.

A file that was read to its end is put into the queue of its table with the epoch that read it, see
``runtime/files/file_progress.py``. It is cleaned when

- that epoch is durable and the table's retention is over;
- no view waits for history of the table, and none that is created later would read the file: its name has left the list
  table for the cleaned table, durably. Without retention that happens with the epoch that read it, else with one after
  the retention. Tables that keep their rows need no such step: views begin with these rows;
- the same holds for every other table of the mill that names the file.

Then a background thread checks that the file is the version that was read, and deletes or moves it. The next epoch
removes its row from the queue. After a crash before that the file is cleaned again, which does nothing.

A few thousand files of each table are in memory at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from tidemill.errors import TidemillError
from tidemill.runtime.files import file_warnings
from tidemill.runtime.files.file_progress import (
    ListedFile,
    ToClean,
    clean_queue,
    cleaned_table,
    list_table,
    listed_rows,
    queue_rows,
    queued_files,
)
from tidemill.runtime.files.listed_files import ListedFiles
from tidemill.runtime.files.source_files import Reader
from tidemill.runtime.tables.table import Table
from tidemill.sources.cleaning.files import Outcome, clean
from tidemill.sources.cleaning.options import CleanSource
from tidemill.sources.file_info import FileInfo
from tidemill.sources.locations.extent import Extent
from tidemill.sources.locations.location import Location
from tidemill.state.runs.sst import Part

MOST = 10_000
"""The most files taken from the queue of a table at a time, and the most results that wait for the next epoch."""

_BLOCK = 1024
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_LOOK_AGAIN = 60.0
"""The longest time between two searches for files whose retention is over (s)."""
_LAST_SECONDS = 10.0


@dataclass
class _Pass:
    """How far the queue of a table has been looked through.

    ``after`` is the last key. When the pass has ``ended`` and some files were ``postponed``, a new one begins, not
    before ``again_at``. Nothing is tried before ``paused_until``.
    """

    after: bytes = b""
    ended: bool = False
    postponed: bool = False
    pause: float = 0.0
    again_at: float = 0.0
    paused_until: float = 0.0

    def postpone(self, failed: bool = False) -> None:
        """Postpone some files; those after them are tried now, unless cleaning ``failed``."""
        self.postponed = True
        self.pause = min(max(2 * self.pause, _FIRST_PAUSE), _LONGEST_PAUSE)
        self.again_at = time.monotonic() + self.pause
        if failed:
            self.paused_until = self.again_at


@dataclass
class _Job:
    """The files of one table that the thread cleans."""

    table: str
    location: Location
    rule: CleanSource
    files: dict[str, ToClean]
    outcome: Outcome = field(default_factory=Outcome)


@dataclass
class Notes:
    """What the next epoch seals about cleaned files: parts of state tables, and the files, by table."""

    parts: list[Part] = field(default_factory=list)
    gone: dict[str, list[ToClean]] = field(default_factory=dict)
    forgotten: dict[str, list[ListedFile]] = field(default_factory=dict)


class SourceCleaning:
    """The cleaning of one mill's tables.

    Parameters
    ----------
    reader : callable
        Reads state tables as they were sealed last.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._passes: dict[str, _Pass] = {}
        self._gone: dict[str, dict[ToClean, None]] = {}
        self._forgotten: dict[str, dict[str, ListedFile]] = {}
        self._forget_by = 0.0
        self._thread: threading.Thread | None = None
        self._jobs: list[_Job] = []
        self._stop = threading.Event()
        self._warnings: list[str] = []
        self._warned: set[tuple[str, str]] = set()
        self._failing: set[str] = set()

    def forget(self, table: str) -> None:
        """Forget a table that was changed or dropped."""
        for kept in (self._passes, self._gone, self._forgotten):
            kept.pop(table, None)
        self._failing.discard(table)

    def warnings(self) -> list[str]:
        """New warnings since the last call."""
        warnings, self._warnings = self._warnings, []
        return warnings

    # -- what may go --------------------------------------------------------------------------------

    def proceed(
        self, tables: Mapping[str, Table], live: Mapping[str, ListedFiles], waiting: Collection[str], durable: int
    ) -> None:
        """Let the thread clean files that may go now, unless it is busy. Looks at some thousands of names at most.

        Parameters
        ----------
        live : mapping
            What is known of the files of each table whose files are looked for.
        waiting : collection of str
            Tables of which views wait for history.
        durable : int
            The newest epoch that a crash cannot take back.
        """
        if self._thread is not None and self._thread.is_alive():
            return
        self._take_outcomes(tables)
        for name, table in tables.items():
            rule = table.clean_source
            if rule is None or name in waiting:
                continue
            files = live[name]
            found, settled = self._next(table, rule, durable), len(self._gone.get(name, ()))
            ready = self._unwanted(
                name, self._through(table, files, rule, found, durable), tables, live, waiting, durable
            )
            if len(ready) + len(self._gone.get(name, ())) - settled < len(found):
                self._passes[name].postpone()
            if ready:
                self._jobs.append(_Job(name, table.location, rule, {e.path: e for e in ready}))
        if self._jobs:
            self._thread = threading.Thread(target=self._run, args=(list(self._jobs),), name="clean", daemon=True)
            self._thread.start()

    def _through(
        self, table: Table, files: ListedFiles, rule: CleanSource, found: list[ToClean], durable: int
    ) -> list[ToClean]:
        """The files that no view of this table will read any more."""
        paths = [e.path for e in found]
        rows = files.in_list(paths) if table.kept else files.forgotten(paths)
        listed = {} if table.kept else files.in_list([p for p in paths if p not in rows])
        ready = []
        for entry in found:
            row = rows.get(entry.path)
            if row is not None and entry.is_version(row):
                ready += [entry] if row.epoch <= durable else []
            elif (row := listed.get(entry.path)) is not None and entry.is_version(row):
                if not any(self._forgotten.values()):
                    self._forget_by = time.monotonic() + min(rule.retention / 1000, _LOOK_AGAIN)
                self._forgotten.setdefault(table.name, {})[entry.path] = row
            else:  # it was overwritten and has been read again
                self._gone.setdefault(table.name, {})[entry] = None
        return ready

    def _next(self, table: Table, rule: CleanSource, durable: int) -> list[ToClean]:
        """The next durable files of a queue whose retention is over."""
        known = self._passes.setdefault(table.name, _Pass())
        noted, now = self._gone.get(table.name, {}), time.monotonic()
        if now < known.paused_until or len(noted) >= MOST:
            return []
        if known.ended and known.postponed and now >= known.again_at:
            known.after, known.postponed = b"", False
        known.ended = True
        queue, found = clean_queue(table.uid), list[ToClean]()
        low = known.after + b"\0" if known.after else b""
        latest = time.time_ns() // 1_000_000 - rule.retention
        for rows in self._reader(queue).iterate(low=low, block=_BLOCK):
            for number, entry in enumerate(queued_files(queue, rows)):
                if entry.epoch > durable:
                    return found
                if entry.read_at > latest:
                    known.paused_until = now + min((entry.read_at - latest) / 1000, _LOOK_AGAIN)
                    return found
                if len(found) >= MOST:
                    known.ended = False
                    return found
                known.after = rows.keys[number]
                if entry not in noted:
                    found.append(entry)
        return found

    def _unwanted(
        self,
        name: str,
        ready: list[ToClean],
        tables: Mapping[str, Table],
        live: Mapping[str, ListedFiles],
        waiting: Collection[str],
        durable: int,
    ) -> list[ToClean]:
        """The files that no other table is still to read, nor this one under another name."""
        for other, table in tables.items():
            files = live.get(other)
            if not ready or files is None:
                continue
            extent = Extent(table.location)
            named = {e: extent.names_of(e.path, e.modified) for e in ready}
            if other == name:
                named = {e: paths - {e.path} for e, paths in named.items()}
            if files.pinned:
                named = {e: paths & files.pinned.keys() for e, paths in named.items()}
            wanted = {e: paths for e, paths in named.items() if paths}
            if wanted and (table.kept or table.clean_source is not None) and other not in waiting:
                asked = sorted(set().union(*wanted.values()))
                rows = files.in_list(asked) if table.kept else files.forgotten(asked)
                through = {p: f for p, f in rows.items() if f.epoch <= durable}
                wanted = {
                    e: paths
                    for e, paths in wanted.items()
                    if not all(p in through and e.is_version(through[p]) for p in paths)
                }
            elif wanted and (name, other) not in self._warned and other not in waiting:
                self._warned.add((name, other))
                first = next(iter(wanted)).path
                self._warnings.append(file_warnings.wanted_elsewhere(name, first, other).message())
            ready = [e for e in ready if e not in wanted]
        return ready

    # -- the thread ---------------------------------------------------------------------------------

    def _run(self, jobs: list[_Job]) -> None:
        for job in jobs:
            files = [FileInfo(e.path, e.size, e.modified, e.etag) for e in job.files.values()]
            try:
                job.outcome = clean(job.location, job.rule, files, self._stop.is_set)
            except Exception as error:  # becomes a warning
                said = error if isinstance(error, TidemillError) else _unforeseen(error)
                job.outcome.failed = dict.fromkeys(job.files, said)

    def _take_outcomes(self, tables: Mapping[str, Table]) -> None:
        jobs, self._jobs, self._thread = self._jobs, [], None
        for job in jobs:
            if job.table not in self._passes or job.table not in tables:
                continue
            outcome, known = job.outcome, self._passes[job.table]
            done = [job.files[p] for p in (*outcome.cleaned, *outcome.changed)]
            self._gone.setdefault(job.table, {}).update(dict.fromkeys(done))
            if outcome.changed and not tables[job.table].overwritable:
                self._warnings.append(file_warnings.left(job.table, outcome.changed).message())
            if outcome.cleaned and not outcome.failed:
                self._failing.discard(job.table)
            if outcome.failed and job.table not in self._failing:
                self._failing.add(job.table)
                self._warnings.append(file_warnings.not_cleaned(job.table, outcome.failed).message())
            if len(done) < len(job.files):
                known.postpone(failed=True)
            else:
                known.pause = 0.0

    def finish(
        self,
        tables: Mapping[str, Table],
        live: Mapping[str, ListedFiles],
        waiting: Collection[str],
        durable: int | None,
    ) -> None:
        """Clean for some seconds, and end the thread; without ``durable`` end it after its current file.

        All files still in the queue are looked at again when the root is opened next.
        """
        until = time.monotonic() + _LAST_SECONDS
        while not self._stop.is_set() and durable is not None and time.monotonic() < until:
            self.proceed(tables, live, waiting, durable)
            if self._thread is None:
                break
            self._thread.join(max(0.0, until - time.monotonic()))
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_LAST_SECONDS)

    # -- what is noted ------------------------------------------------------------------------------

    @property
    def must_note(self) -> bool:
        """Whether an epoch is due to seal what was cleaned, even if it admits nothing."""
        late = time.monotonic() >= self._forget_by and any(self._forgotten.values())
        return late or any(len(gone) >= MOST for gone in self._gone.values())

    def notes(self, tables: Mapping[str, Table], waiting: Collection[str], epoch: int) -> Notes:
        """What an epoch seals; nothing is changed. Names of tables ``waiting`` stay in the list table."""
        notes = Notes()
        for name, table in tables.items():
            gone = list(self._gone.get(name, ()))
            forgotten = [] if name in waiting else list(self._forgotten.get(name, {}).values())
            if gone:
                queue = clean_queue(table.uid)
                notes.parts.append(Part(queue.id, queue_rows(queue, ((e, -1) for e in gone)), queue.ops))
                notes.gone[name] = gone
            if forgotten:
                moved = [replace(f, epoch=epoch) for f in forgotten]
                for state, files, weight in (
                    (list_table(table.uid), forgotten, -1),
                    (cleaned_table(table.uid), moved, 1),
                ):
                    notes.parts.append(Part(state.id, listed_rows(state, ((f, weight) for f in files)), state.ops))
                notes.forgotten[name] = forgotten
        return notes

    def noted(self, notes: Notes) -> None:
        """Forget notes that were sealed."""
        for name, gone in notes.gone.items():
            for entry in gone:
                del self._gone[name][entry]
        self._forgotten = {}
        for name in notes.forgotten.keys() & self._passes.keys():
            self._passes[name].pause = self._passes[name].again_at = 0.0


def _unforeseen(error: Exception) -> TidemillError:
    return TidemillError(
        "TM5082", "files that were read cannot be cleaned", got=repr(error), hint="this was not foreseen: report it"
    )
