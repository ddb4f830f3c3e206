"""What to read next: listings, positions and history of all tables."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tidemill.errors import TidemillError
from tidemill.options.tables import PRIORITY
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.durability.sealed_tables import SealedTables
from tidemill.runtime.files import file_warnings
from tidemill.runtime.files.file_progress import FileProgress, cursor_table, cursors
from tidemill.runtime.files.ingested_files import IngestedFiles
from tidemill.runtime.files.listed_files import ListedFiles
from tidemill.runtime.files.progress import Limits, Progress, verify_quotes
from tidemill.runtime.files.source_files import Sealing, SourceFiles
from tidemill.runtime.files.spool_files import SpoolFiles
from tidemill.runtime.intake.history import History
from tidemill.runtime.intake.keyed_order import in_message_order, most_files
from tidemill.runtime.intake.lists import Lists
from tidemill.runtime.intake.message_times import MessageTimes
from tidemill.runtime.intake.offset_commits import OffsetCommits
from tidemill.runtime.intake.queues import Queues, depth_of
from tidemill.runtime.intake.source_cleaning import SourceCleaning
from tidemill.runtime.intake.table_files import files_of
from tidemill.runtime.intake.tally import Tally
from tidemill.runtime.tables import static_tables
from tidemill.runtime.tables.kafka_tables import gone_messages
from tidemill.runtime.tables.table import Table, source_tables
from tidemill.sources.file_info import FileInfo
from tidemill.sources.locations.allowed_paths import AllowedPaths
from tidemill.sources.split import Split, SplitResult
from tidemill.sources.unreadable import UnreadableFilesError
from tidemill.state.runs.sst import Part
from tidemill.state.store.store import RunStore
from tidemill.state.versions.version import Run, Version
from tidemill.task.program import StateTable

_SMALL_FILES = 10_000
"""A table with more files is not small, whatever their size."""

_ROW_BYTES = 32
"""The assumed bytes of a row before any has been read."""

_OVERDUE = 10_000
"""Milliseconds after which a file that could not be read is tried again though others wait."""

_LEAST_TIME = -(2**63)

_Kind = TypeVar("_Kind", bound=SourceFiles)


class Intake:
    """Positions of every table, and of its history for views that came later.

    A view created after rows were admitted reads them again, up to the positions at its creation. New rows reach it
    from its first epoch on: history and new rows may come in any order, and when history is at its end the view is
    complete.

    Static tables are the exception: their files are listed once, by :meth:`pin`, and while any of them has bytes or
    history waiting, nothing else is admitted.

    Parameters
    ----------
    version : Version
        The newest sealed one; :meth:`at` tells of later ones.
    kept : mapping
        What :meth:`to_json` gave with that version; empty at first.
    allowed : AllowedPaths, optional
        Where tables may have their files.
    """

    def __init__(
        self,
        catalog: Catalog,
        store: RunStore,
        version: Version,
        kept: Mapping[str, Any],
        allowed: AllowedPaths | None = None,
    ) -> None:
        self._store = store
        self._allowed = allowed or AllowedPaths()
        self._sealed = SealedTables(store, version)
        self._cleaning = SourceCleaning(self._sealed.reader)
        self.tally = Tally(kept)
        self._tables: dict[str, Table] = {}
        self._live: dict[str, SourceFiles] = {}
        self._history: dict[tuple[str, int], History] = {}
        self._lists = Lists(kept.get("listed", {}), self._allowed)
        self._commits = OffsetCommits()
        self._times = MessageTimes()
        self._history_is_next = False
        self._small_was_last: dict[bool, bool] = {}
        self._turn: tuple[bool, bool] | None = None
        self._warnings: list[str] = []
        self._given_up = False
        self._used: Collection[str] = ()
        self._priorities: Mapping[tuple[str, int], int] = {}
        pinned = kept.get("static", {})
        for table in catalog.tables.values():
            self._follow_table(table, [FileProgress.from_json(f) for f in pinned.get(table.name, ())])
        for entry in kept.get("history", ()):
            uid = self._tables[entry["table"]].uid
            history = History.from_json(entry, uid, self._sealed.reader)
            self._history[(history.table, history.group)] = history

    def copy(self) -> Intake:
        """The same tables, positions and history, to return to when a statement fails: it replaces what it changes."""
        copied = copy.copy(self)
        copied._tables, copied._live, copied._history = dict(self._tables), dict(self._live), dict(self._history)
        copied.tally, copied._lists = self.tally.copy(), self._lists.copy()
        return copied

    def at(self, version: Version) -> None:
        """Read sealed state from this version from now on."""
        self._sealed.at(version)

    def add_table(self, table: Table) -> None:
        """Begin to follow a table."""
        self._follow_table(table, ())

    def _follow_table(self, table: Table, pinned: Sequence[FileProgress]) -> None:
        self._tables[table.name] = table
        self._live[table.name] = files_of(table, self._sealed.reader, pinned)
        if table.listed and not table.static:
            state = cursor_table(table.uid)
            self._lists.begin(table.name, cursors(state, self._sealed.reader(state).rows(drop_zero=True)))

    def change_table(self, table: Table) -> None:
        """Follow a table with other options or columns than before."""
        self._tables[table.name] = table
        self._live[table.name] = self._live[table.name].with_policy(table.file_policy)
        self._cleaning.forget(table.name)

    def drop_table(self, table: Table) -> set[str]:
        """Stop following a table; returns the state tables that go with it."""
        del self._tables[table.name], self._live[table.name]
        self._cleaning.forget(table.name)
        self.tally.drop(table.name)
        self._lists.drop(table.name)
        self._history = {k: p for k, p in self._history.items() if k[0] != table.name}
        return {t.id for t in source_tables(table)}

    def pin(self, table: str) -> None:
        """List the files of a static table for good, if that has not been done.

        Raises
        ------
        TidemillError
            TM5001 as in listing, TM5008 when there are none.
        """
        declared, live = self._tables[table], self._live[table]
        if not live.unpinned:
            return
        pinned = live.with_pinned(f for f in declared.location.listing() if self._allowed.has_file(f.path))
        if pinned.unpinned:
            raise static_tables.without_files(table, declared.path)
        self._live[table] = pinned

    def appeared(self) -> tuple[str, ...]:
        """Warnings about files that appeared too late for static tables; the next epoch seals them as known."""
        late = {t: p.appeared for t, p in self._live.items() if p.appeared}
        return tuple(static_tables.appeared_later(t, f).message() for t, f in late.items())

    @property
    def must_note(self) -> bool:
        """Whether an epoch is due to seal what is known of files, even if it admits nothing."""
        noted = self._given_up or self._lists.must_note or self._cleaning.must_note
        return noted or any(p.must_note for p in self._live.values())

    def warnings(self) -> list[str]:
        """New warnings since the last call."""
        warnings, self._warnings = self._warnings, []
        return [*self._lists.warnings(), *warnings, *self._cleaning.warnings(), *self._commits.warnings()]

    def size(self, table: str, most: int) -> int | None:
        """The bytes of a table's files, read or not; None when there are none, more than ``most``, or no path."""
        found = self._tables.get(table)  # None when EXPLAIN asks while the table is dropped
        if found is None or not found.listed:
            return None
        cleaned = self.tally.totals(table).cleaned_bytes
        size = found.location.size(most - cleaned, _SMALL_FILES)
        return None if size is None else cleaned + size or None

    def known_bytes(self, table: str) -> int:
        """The bytes of the files listed so far."""
        totals = self.tally.totals(table)
        return totals.file_bytes + totals.cleaned_bytes + sum(f.size for f in self._live[table].known.values())

    def add_history(self, table: str, created_at_epoch: int, group: int) -> list[str]:
        """Read again, for a group of views created at an epoch, what has been admitted of a table.

        Returns
        -------
        list of str
            Warnings about rows that have gone.
        """
        if (table, group) in self._history:
            return []
        live, totals = self._live[table], self.tally.totals(table)
        gone = [file_warnings.begins_without(table, totals.cleaned).message()] if totals.cleaned else []
        gone += gone_messages(table, self._tables[table].topics, live.as_listed)
        parts = live.parts()
        behind = b"" if totals.files else None
        if parts or behind is not None:
            left = sum(f.remaining for f in parts) + (totals.file_bytes if behind is not None else 0)
            uid = self._tables[table].uid
            self._history[(table, group)] = History(
                table, uid, created_at_epoch, parts, behind, left, self._sealed.reader, group=group
            )
        return gone

    def drop_history(self, lost: Collection[tuple[str, int]]) -> None:
        """Forget the history of some tables for some groups of views."""
        self._history = {k: p for k, p in self._history.items() if k not in lost}

    def keep_history(self, wanted: Collection[tuple[str, int]]) -> None:
        """Forget history that no view waits for: ``wanted`` are tables and groups of views."""
        self._history = {k: p for k, p in self._history.items() if k in wanted}

    # -- List ---------------------------------------------------------------------------------------

    def list_files(self, seconds: float, durable: int) -> None:
        """Look for new files, not more often than every ``seconds`` while known ones wait. Errors as the first listing.

        Notifications of files that the ``durable`` epoch has are deleted, and its offsets in topics committed.
        """
        self._commits.proceed(self._tables, durable)
        self._sealed.open_again()
        self._lists.proceed(self._followed(), seconds, self._sealed.version.epoch, durable)

    def list_all(self) -> None:
        """Begin a full listing, as far as there is room; the rest follows with :meth:`go_on`."""
        self._sealed.open_again()
        self._lists.list_all(self._followed(), self._sealed.version.epoch)

    @property
    def unlisted(self) -> list[TidemillError]:
        """Why locations could not be listed since the last full listing began."""
        return self._lists.unlisted

    def go_on(self) -> None:
        """Go on with listings that waited for room."""
        self._lists.go_on(self._followed(), self._sealed.version.epoch)

    def close(self, durable: int) -> None:
        """Stop receiving notifications; those of durable files are deleted, others put back."""
        self._commits.finish(self._tables, durable)
        self._lists.close(durable)

    def _followed(self) -> list[tuple[Table, ListedFiles]]:
        """Tables whose locations are listed: those that views read, except static ones that have not been used yet."""
        followed = [t for t, p in self._live.items() if t in self._used and p.looked_for]
        return [(self._tables[t], self._files(t, ListedFiles)) for t in followed]

    def _files(self, table: str, kind: type[_Kind]) -> _Kind:
        live = self._live[table]
        assert isinstance(live, kind), f"{table}: {live}"
        return live

    def use(self, tables: Collection[str], priorities: Mapping[tuple[str, int], int]) -> None:
        """List and read only these tables from now on: files of a table that no view reads would pile up.

        ``priorities`` are those of history, by table and group of views.
        """
        self._used, self._priorities = tables, priorities

    def follow(self, table: str, segments: Iterable[FileInfo]) -> None:
        """Take over how far the spool of a table has grown.

        Raises
        ------
        TidemillError
            TM5023 when a part of it is missing that was not read.
        """
        gone = self._files(table, SpoolFiles).follow(segments)
        if gone:
            raise TidemillError(
                "TM5023",
                "a part of the spool of a socket has gone before it was read",
                got=f"{table}: {', '.join(sorted(gone))}, or what came before",
                hint="put it back; without it the views over the table cannot continue: DROP them and the table",
            )

    def ingested(self, table: str) -> IngestedFiles:
        """The files that Spark streams wrote into a table."""
        return self._files(table, IngestedFiles)

    def known_files(self, table: str) -> Mapping[str, FileProgress]:
        """Files of a table that are held in memory: those not read to their end, all segments of a spool."""
        return self._live[table].known

    def history_paths(self, table: str) -> set[str]:
        """Segments of a spool that are to be read again."""
        return {path for (name, _), p in self._history.items() if name == table for path in p.paths}

    # -- Fetch --------------------------------------------------------------------------------------

    def admit(
        self,
        epoch_bytes: int,
        split_bytes: int,
        tasks: int = 1,
        small: Collection[str] = (),
        least: int = 0,
    ) -> list[Split]:
        """Splits of the next epoch, every table in turn, within the limits.

        New rows and history take turns when both wait, so that an epoch of few new rows stays short, and new rows wait
        for one epoch of history at most. ``tasks`` is how many splits are read at a time, so that a file is cut evenly.
        A table that no view reads is not admitted. Static tables come
        first, in epochs of their own. Tables in ``small`` and others take turns where more than ``least`` bytes wait:
        joins with small tables need no exchange in an epoch without any of their rows.

        Files that could not be read before are tried again in epochs of their own: when nothing else waits, or when
        they have waited for long.

        Raises
        ------
        UnreadableFilesError
            For files outside ``allowed_paths``: they were listed under other settings, or became links.
        """
        live: list[Progress] = [p for t, p in self._live.items() if self._is_read(t) and not p.done]
        overdue = self._retry_at() < time.time_ns() // 1_000_000 - _OVERDUE
        for suspects in (True, False) if overdue else (False, True):
            splits = self._admit(live, Limits(epoch_bytes, None, split_bytes, tasks, suspects), small, least)
            self._check_allowed(splits)
            if splits:
                return splits
        return []

    def _is_read(self, table: str) -> bool:
        """Whether new rows of a table are admitted."""
        return table in self._used and not self._tables[table].paused

    def _check_allowed(self, splits: Iterable[Split]) -> None:
        listed = [s for s in splits if self._tables[s.table].listed]
        outside = [(s, self._allowed.outside(s.path)) for s in listed if not self._allowed.has_file(s.path)]
        if outside:
            raise UnreadableFilesError(outside)

    def _retry_at(self, warned: bool = True) -> float:
        """The earliest :meth:`SourceFiles.waits_until` of tables and histories; infinite for none."""
        found = [p.waits_until(warned) for t, p in self._live.items() if self._is_read(t)]
        found += [p.waits_until() for p in self._history.values()]
        return min((t for t in found if t is not None), default=math.inf)

    def _admit(self, live: list[Progress], most: Limits, small: Collection[str], least: int) -> list[Split]:
        """Splits of new rows or history, by turns; of the other side when one has nothing that can be read now."""
        history: list[Progress] = [p for p in self._history.values() if not p.done]
        sides = [history, live] if history and (self._history_is_next or not live) else [live, history]
        static = [p for p in (*history, *live) if self._tables[p.table].static]
        for side in [static] if static else sides:
            in_turn = self._in_turn(side, small, least)
            splits = self._cut(in_turn, most)
            if not splits and len(in_turn) < len(side):
                self._turn = None
                splits = self._cut(side, most)
            if splits:
                return splits
        return []

    def _cut(self, waiting: list[Progress], most: Limits) -> list[Split]:
        """Splits of each table, within the limits of all, which they share by priority."""
        splits: list[Split] = []
        budget = most.bytes
        shares: dict[str, int] = {}
        weighted = sorted(((p, self._priority(p)) for p in waiting), key=lambda pair: pair[0].remaining / pair[1])
        left = sum(priority for _, priority in weighted)
        for progress, priority in weighted:
            table = self._tables[progress.table]
            share = max(1, budget * priority // left)
            left -= priority
            if table.keyed:  # both books of a trace stay at the same message
                share = shares.setdefault(table.path, share)
            limits = table.cut(replace(most, bytes=self.tally.most_bytes(table, share), files=most_files(table)))
            late = self.watermark(table.name) if progress.backfill_target is None else None
            admitted = self._as_listed(progress, progress.admit(limits, late, table.unsplittable, table.compressed))
            splits += in_message_order(admitted, table) if table.keyed else admitted
            budget -= sum(s.length for s in admitted)
        return splits

    def _priority(self, progress: Progress) -> int:
        if progress.backfill_target is None:
            return PRIORITY.of(self._tables[progress.table].options)
        return self._priorities.get((progress.table, progress.backfill_target), 1)

    def set_aside(self, failures: Iterable[tuple[Split, TidemillError]]) -> dict[tuple[str, int], TidemillError]:
        """Note that files could not be read; they are tried again later, until they are set aside.

        Returns
        -------
        dict
            The reason why the history of a table cannot be read, by table and group of views.

        Raises
        ------
        TidemillError
            That of a file which a table must have.
        """
        errors = {(s.table, s.backfill_target, s.path): e for s, e in failures}
        lost: dict[tuple[str, int], TidemillError] = {}
        for (table, backfill_target, path), error in sorted(errors.items(), key=lambda e: (e[0][0], e[0][2])):
            live = self._live[table]
            if live.policy.must:
                raise error
            if backfill_target is not None:
                if self._history[(table, backfill_target)].failed(path, error, live.policy.attempts):
                    lost[table, backfill_target] = error
                continue
            for other in self._read_together(live):
                if path in other.known and other.failed(path, error):
                    self._given_up |= not live.ordered
                    self._warnings.append(file_warnings.set_aside(other, path, error).message())
        self._lists.note_changed(self._followed())
        return lost

    def retry_in(self) -> float | None:
        """Seconds until a file that could not be read is tried again; None when there is none to wait for."""
        at = self._retry_at(warned=False)
        return None if at == math.inf else max(0.0, at / 1000 - time.time())

    def _read_together(self, live: SourceFiles) -> list[SourceFiles]:
        """Tables of which a file is read in the same epoch or not at all: both books of a trace."""
        table = self._tables[live.table]
        if not table.keyed:
            return [live]
        return [self._live[t.name] for t in self._tables.values() if t.keyed and t.path == table.path]

    def _in_turn(self, waiting: list[Progress], small: Collection[str], least: int) -> list[Progress]:
        """Either small tables or others, where both wait with many bytes."""
        self._turn = None
        others = {self._tables[p.table].path for p in waiting if p.table not in small}
        first = [p for p in waiting if p.table in small and self._tables[p.table].path not in others]
        if not first or len(first) == len(waiting) or sum(p.remaining for p in waiting) <= least:
            return waiting
        history = first[0].backfill_target is not None
        self._turn = history, not self._small_was_last.get(history)
        return first if self._turn[1] else [p for p in waiting if p not in first]

    def _as_listed(self, progress: Progress, splits: list[Split]) -> list[Split]:
        """Splits of history with their file as it was last listed: it may have grown since."""
        if progress.backfill_target is None:
            return splits
        paths = list({s.path: None for s in splits})
        found = self._live[progress.table].as_listed(paths)
        return [replace(s, size=f.size, modified=f.modified, etag=f.etag) for s in splits if (f := found[s.path])]

    def wrong_guesses(self, results: Iterable[SplitResult]) -> dict[Split, bool] | None:
        """The truth about quotes when a guess was wrong, else None."""
        starts: dict[tuple[str, int | None, str], bool] = {}
        found = list(results)
        for result in found:
            split = result.split
            file = self._progress(split).known[split.path]
            starts[(split.table, split.backfill_target, split.path)] = file.in_quotes
        return verify_quotes(found, starts)

    def check_budgets(self, results: Sequence[SplitResult]) -> None:
        """As :meth:`Tally.check_budgets`."""
        self.tally.check_budgets(results, self._tables)

    def apply(self, results: Sequence[SplitResult], epoch: int) -> list[Run]:
        """Write the positions that changed to the sources' state tables, then move on to them.

        Raises
        ------
        TidemillError
            TM1012 when they cannot be written; no position has moved then.
        """
        groups: dict[tuple[str, int | None], list[SplitResult]] = {}
        for result in results:
            groups.setdefault((result.split.table, result.split.backfill_target), []).append(result)
        moves = []
        for (name, group), found in groups.items():
            if group is not None:
                history = self._history[(name, group)]
                moves.append((history, history.after(found)))
        tables: list[Part] = []
        sealings: list[tuple[SourceFiles, Sealing]] = []
        for name, live in self._live.items():
            admitted = live.after(groups.get((name, None), ()))
            sealing = live.sealing(admitted, epoch)
            sealings.append((live, sealing))
            tables += sealing.tables
            if live.appeared:
                errors = self._tables[name].source().errors
                tables.append(Part(errors.id, static_tables.late_rows(errors, live.appeared), errors.ops))
        tables += self._lists.sealing(self._followed())
        notes = self._cleaning.notes(self._tables, self._read_again(), epoch)
        tables += notes.parts
        runs = self._store.write(epoch, tables, "list")
        for progress, changed in moves:
            progress.move(changed)
        for live, sealing in sealings:
            self._take_over(live, sealing)
        self._cleaning.noted(notes)
        self._commits.note(epoch, self._tables, results)
        for name, forgotten in notes.forgotten.items():
            self.tally.forgotten(name, self.tally.totals(name).forgotten(forgotten))
        self.tally.read(results)
        for (name, backfill_target), found in groups.items():
            if backfill_target is None:
                self.tally.admitted(name, found)
        self._given_up = False
        self._lists.sealed(epoch)
        self._history = {k: p for k, p in self._history.items() if not p.done}
        if self._turn is not None:
            self._small_was_last[self._turn[0]] = self._turn[1]
        if groups:
            self._history_is_next = any(backfill_target is None for _, backfill_target in groups)
        return runs

    def _take_over(self, live: SourceFiles, sealing: Sealing) -> None:
        for file in sealing.before:
            for (table, _), history in self._history.items():
                if table == live.table:
                    history.keep(file)
        live.sealed(sealing)
        self.tally.finished(live, sealing)

    # -- cleaning -----------------------------------------------------------------------------------

    def clean(self, durable: int) -> None:
        """Clean files, in the background, that were read by epochs up to ``durable``."""
        self._cleaning.proceed(self._tables, self._listed(), self._read_again(), durable)

    def finish_cleaning(self, durable: int | None) -> None:
        """Clean for some more seconds, then stop; at once without ``durable``."""
        self._cleaning.finish(self._tables, self._listed(), self._read_again(), durable)

    def _listed(self) -> dict[str, ListedFiles]:
        return {t: self._files(t, ListedFiles) for t, declared in self._tables.items() if declared.listed}

    def _read_again(self) -> set[str]:
        """Tables of which views wait for history."""
        return {table for table, _ in self._history}

    def watermark(self, table: str) -> int | None:
        """As :meth:`Tally.watermark`."""
        return self.tally.watermark(self._tables[table])

    def history_remaining(self) -> dict[int, int]:
        """Bytes of history that a group of views still waits for."""
        remaining: dict[int, int] = {}
        for (_, group), progress in self._history.items():
            remaining[group] = remaining.get(group, 0) + progress.remaining
        return remaining

    def waiting(self) -> dict[str, tuple[int, int]]:
        """Files and bytes that are listed and not read yet, of each table that has any."""
        return {t: (len(p.waiting), p.remaining) for t, p in self._live.items() if not p.done}

    def queues(self) -> Queues:
        """What waits now. May be called from any thread."""
        depths = {t: depth for t, p in list(self._live.items()) if (depth := depth_of(p)).files}
        history = {key: p.remaining for key, p in list(self._history.items())}
        return Queues(self._times.depths(depths, self._tables, self._live), history, self.admitted())

    def admitted(self) -> dict[str, int]:
        """The bytes admitted of each table."""
        return {t: self.tally.totals(t).admitted for t in list(self._tables)}

    def remaining(self) -> int:
        """Bytes to be admitted of all tables and histories, of files listed so far."""
        live = [p for t, p in self._live.items() if not self._tables[t].paused]
        return sum(p.remaining for p in (*live, *self._history.values()))

    def state_tables(self) -> dict[str, StateTable]:
        """State tables of the sources, and of their errors."""
        return {t.id: t for table in self._tables.values() for t in source_tables(table)}

    def to_json(self) -> dict[str, Any]:
        """As stored in a manifest: what is not in state tables.

        Progress of histories, files of static tables as they were first listed, rows read and malformed, totals, and
        times of full listings of locations with notifications.
        """
        pinned = {t: p.pinned.values() for t, p in self._live.items() if p.pinned}
        return {
            "history": [p.to_json() for p in self._history.values()],
            "static": {table: [f.to_json() for f in files] for table, files in pinned.items()},
            "listed": self._lists.to_json(),
            **self.tally.to_json(),
        }

    def _progress(self, split: Split) -> Progress:
        if split.backfill_target is None:
            return self._live[split.table]
        return self._history[(split.table, split.backfill_target)]
