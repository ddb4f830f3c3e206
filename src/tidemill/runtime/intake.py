"""What to read next: listings, positions and history of all tables."""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidemill.errors import TidemillError
from tidemill.formats.codecs import MOST_DECODED
from tidemill.runtime import error_budget, static_tables
from tidemill.runtime.catalog import Catalog, Table
from tidemill.runtime.error_budget import RowCounts
from tidemill.runtime.progress import FileProgress, Progress, from_rows, list_table, to_rows, verify_quotes
from tidemill.sources.file_info import FileInfo
from tidemill.sources.place import Place
from tidemill.sources.split import Split, SplitResult
from tidemill.state.keys import decode
from tidemill.state.merge import merge
from tidemill.state.store import RunStore
from tidemill.state.version import Run, Version
from tidemill.task.program import StateTable


class Intake:
    """Positions of every table, and of its history for views that came later.

    A view born after rows were admitted reads them again, up to the position that everyone had reached
    at its birth. New rows reach it from its first epoch on: order carries no meaning, so history and new
    rows may come in any order, and when history is at its end the view is complete.

    Static tables are the exception: their files are listed once, by :meth:`pin`, and while any of them has bytes or
    history waiting, nothing else is admitted.
    """

    def __init__(
        self,
        catalog: Catalog,
        store: RunStore,
        version: Version,
        history: Sequence[Mapping[str, Any]],
        pinned: Mapping[str, Sequence[Sequence[Any]]],
        counts: Mapping[str, Sequence[int]],
    ) -> None:
        self._store = store
        self._counts = {table: RowCounts(*found) for table, found in counts.items()}
        self._tables: dict[str, Table] = {}
        self._live: dict[str, Progress] = {}
        self._history: dict[tuple[str, int], Progress] = {}
        self._listed: dict[str, float] = {}
        self._pinned: dict[str, tuple[FileProgress, ...]] = {}
        self._appeared: dict[str, list[FileInfo]] = {}
        self._history_is_next = False
        self._small_was_last: dict[bool, bool] = {}
        self._turn: tuple[bool, bool] | None = None
        for table in catalog.tables.values():
            self.add_table(table)
            state = _list_table(table)
            runs = [store.open(r) for r in version.runs(state.id)]
            if runs:
                rows = merge(runs, state.ops, drop_zero=False)
                self._live[table.name] = Progress(
                    table.name, None, from_rows(decode(rows.keys, state.key)[0], rows, table.in_objects).values()
                )
            if table.name in pinned:
                first = self._pinned[table.name] = tuple(_file(f) for f in pinned[table.name])
                known = {**{f.path: f for f in first}, **self._live[table.name].known}
                self._live[table.name] = Progress(table.name, None, known.values())
        for entry in history:
            progress = Progress(entry["table"], entry["born"], (_file(f) for f in entry["files"]))
            self._history[(entry["table"], entry["born"])] = progress

    def copy(self) -> Intake:
        """The same tables, positions and history, to return to when a statement fails."""
        copied = copy.copy(self)
        copied._tables, copied._live, copied._history = dict(self._tables), dict(self._live), dict(self._history)
        copied._pinned, copied._appeared = dict(self._pinned), dict(self._appeared)
        copied._counts = dict(self._counts)
        return copied

    def add_table(self, table: Table) -> None:
        """Begin to follow a table."""
        self._tables[table.name] = table
        self._live[table.name] = Progress(table.name, None)

    def change_table(self, table: Table) -> None:
        """Follow a table with other options or columns than before."""
        self._tables[table.name] = table

    def drop_table(self, table: Table) -> set[str]:
        """Stop following a table; returns the state tables that go with it."""
        self._counts.pop(table.name, None)
        del self._tables[table.name], self._live[table.name]
        self._pinned.pop(table.name, None)
        self._appeared.pop(table.name, None)
        self._history = {k: p for k, p in self._history.items() if k[0] != table.name}
        return {_list_table(table).id, table.source().errors.id}

    def pin(self, table: str) -> None:
        """List the files of a static table for good, if that has not been done.

        Raises
        ------
        TidemillError
            TM5001 as in listing, TM5008 when there are none.
        """
        declared = self._tables[table]
        if not declared.static or table in self._pinned:
            return
        progress = Progress(table, None)
        if not progress.discover(declared.place.listing()):
            raise static_tables.without_files(table, declared.path)
        self._pinned[table] = tuple(progress.known.values())
        self._live[table] = progress

    def appeared(self) -> tuple[str, ...]:
        """What is to be said of files that static tables will not have; it is noted with the next epoch."""
        return tuple(static_tables.appeared_later(t, f).message() for t, f in self._appeared.items())

    def size(self, table: str, most: int) -> int | None:
        """The bytes of a table's files, read or not; None when there are none, more than ``most``, or no path."""
        if self._tables[table].pushed:
            return None
        sizes = {f.path: f.size for f in self._live[table].known.values()}
        total = sum(sizes.values())
        try:
            for info in self._tables[table].place.listing():
                total += info.size - sizes.get(info.path, 0)
                if total > most:
                    break
        except TidemillError:
            return None
        return total if 0 < total <= most else None

    def known_bytes(self, table: str) -> int:
        """The bytes of the files listed so far."""
        return sum(f.size for f in self._live[table].known.values())

    def add_history(self, table: str, born: int) -> None:
        """Read again, for views born at an epoch, what has been admitted of a table."""
        admitted = [
            replace(f, size=f.position, position=f.first, in_quotes=False)
            for f in self._live[table].known.values()
            if f.position > f.first
        ]
        if admitted and (table, born) not in self._history:
            self._history[(table, born)] = Progress(table, born, admitted)

    def keep_history(self, born: Collection[int]) -> None:
        """Forget history that no view waits for."""
        self._history = {k: p for k, p in self._history.items() if k[1] in born}

    def list_files(self, seconds: float) -> None:
        """Look for new files, not more often than every ``seconds`` while known ones wait. TM5001 as in listing."""
        now = time.monotonic()
        found: dict[Place, list[FileInfo]] = {}
        for name, table in self._tables.items():
            progress = self._live[name]
            if table.pushed or (table.static and name not in self._pinned):
                continue
            if progress.done or now - self._listed.get(name, -1e9) >= seconds:
                place = table.place
                if place not in found:
                    found[place] = list(place.listing())
                self._listed[name] = now
                if not table.static:
                    progress.discover(found[place])
                elif name in self._pinned:
                    late = [f for f in found[place] if f.size and f.path not in progress.known]
                    self._appeared |= {name: late} if late else {}

    def follow(self, table: str, segments: Iterable[FileInfo]) -> None:
        """Take over how far the spool of a table has grown.

        Raises
        ------
        TidemillError
            TM5023 when a part of it has gone that was not read.
        """
        gone = self._live[table].follow(segments)
        if gone:
            raise TidemillError(
                "TM5023",
                "a part of the spool of a pushed stream has gone before it was read",
                got=f"{table}: {', '.join(sorted(gone))}, or what came before",
                hint="put it back; without it the views over the table cannot go on: DROP them and the table",
            )

    def known_files(self, table: str) -> Mapping[str, FileProgress]:
        """How far the files of a table have been read."""
        return self._live[table].known

    def history_paths(self, table: str) -> set[str]:
        """Files of a table that are, or will be, read again."""
        return {path for (name, _), p in self._history.items() if name == table for path in p.known}

    def admit(
        self,
        epoch_bytes: int,
        split_bytes: int,
        used: Collection[str],
        tasks: int = 1,
        small: Collection[str] = (),
        least: int = 0,
    ) -> list[Split]:
        """Splits of the next epoch, every table in turn, within the limits.

        New rows and history take turns when both wait, so that an epoch of few new rows is as short as ever; what
        appears during an epoch of history waits for no more than that one.
        ``tasks`` is how many of them are read at a time, so that the splits of a file can be shared out evenly.
        A table that no view reads is not read either; a view that comes later finds it unread. Static tables come
        first, in epochs of their own. Tables in ``small`` and others take turns where more than ``least`` bytes wait:
        joins with small tables need no exchange in an epoch without any of their rows.
        """
        splits: list[Split] = []
        budget = epoch_bytes
        live = [p for t, p in self._live.items() if t in used and not p.done]
        history = [p for p in self._history.values() if not p.done]
        waiting = history if history and (self._history_is_next or not live) else live
        static = [p for p in (*history, *live) if self._tables[p.table].static]
        waiting = static or self._in_turn(waiting, small, least)
        shares: dict[str, int] = {}
        for number, progress in enumerate(sorted(waiting, key=lambda p: p.remaining)):
            table = self._tables[progress.table]
            share = max(1, budget // (len(waiting) - number))
            if table.keyed:  # both books of one trace stay at the same message
                share = shares.setdefault(table.path, share)
            most = table.limit("maxBytesPerTrigger")
            limit = share if most is None else min(share, most)
            most_files = table.limit("maxFilesPerTrigger")
            if table.keyed:
                most_files = _MOST_ORDERED if most_files is None else min(most_files, _MOST_ORDERED)
            late = self.watermark(table.name) if progress.audience is None else None
            admitted = self._with_size(
                progress, progress.admit(limit, split_bytes, most_files, tasks, late, table.whole)
            )
            splits += _placed(admitted, table) if table.keyed else admitted
            budget -= sum(s.end - s.start for s in admitted)
        return splits

    def _in_turn(self, waiting: list[Progress], small: Collection[str], least: int) -> list[Progress]:
        """Either small tables or others, where both wait with many bytes."""
        self._turn = None
        others = {self._tables[p.table].path for p in waiting if p.table not in small}
        first = [p for p in waiting if p.table in small and self._tables[p.table].path not in others]
        if not first or len(first) == len(waiting) or sum(p.remaining for p in waiting) <= least:
            return waiting
        history = first[0].audience is not None
        self._turn = history, not self._small_was_last.get(history)
        return first if self._turn[1] else [p for p in waiting if p not in first]

    def _with_size(self, progress: Progress, splits: list[Split]) -> list[Split]:
        """History ends before its file does: the size to check against is that of the file."""
        if progress.audience is None:
            return splits
        live = self._live[progress.table].known
        return [replace(s, size=live[s.path].size) for s in splits]

    def wrong_guesses(self, results: Iterable[SplitResult]) -> dict[Split, bool] | None:
        """The truth about quotes when a guess was wrong, else None."""
        starts: dict[tuple[str, int | None, str], bool] = {}
        found = list(results)
        for result in found:
            split = result.split
            file = self._progress(split).known[split.path]
            starts[(split.table, split.audience, split.path)] = file.in_quotes
        return verify_quotes(found, starts)

    def check_budgets(self, results: Sequence[SplitResult]) -> None:
        """TM4025 when a table would have had more malformed rows than it tolerates, were the epoch sealed."""
        for table, epoch in sorted(error_budget.counted(results).items()):
            counts = self.counts(table) + epoch
            why = self._tables[table].budget.exceeded_by(counts) if epoch.malformed else None
            if why is not None:
                example = error_budget.first_example(table, results)
                raise error_budget.exceeded(table, counts, epoch, why, example)

    def counts(self, table: str) -> RowCounts:
        """How many rows of a table have been read, and how many of these are malformed."""
        return self._counts.get(table, RowCounts())

    def apply(self, results: Sequence[SplitResult], epoch: int) -> list[Run]:
        """Write the positions that changed to the sources' state tables, then move on to them.

        Raises
        ------
        TidemillError
            TM1012 when they cannot be written; no position has moved then.
        """
        groups: dict[tuple[str, int | None], list[SplitResult]] = {}
        for result in results:
            groups.setdefault((result.split.table, result.split.audience), []).append(result)
        tables, moves = [], []
        for (name, audience), found in groups.items():
            progress = self._progress(found[0].split)
            changed = progress.after(found)
            moves.append((progress, changed))
            if audience is None:
                state = _list_table(self._tables[name])
                tables.append((state.id, to_rows(state, changed), state.ops))
        for name, late in self._appeared.items():
            state, errors = _list_table(self._tables[name]), self._tables[name].source().errors
            noted = [FileProgress(f.path, 0, f.modified) for f in late]
            moves.append((self._live[name], noted))
            tables.append((state.id, to_rows(state, noted), state.ops))
            tables.append((errors.id, static_tables.late_rows(errors, late), errors.ops))
        runs = self._store.write(epoch, tables, "list")
        for progress, changed in moves:
            progress.move(changed)
        for name, counts in error_budget.counted(results).items():
            self._counts[name] = self.counts(name) + counts
        self._appeared = {}
        self._history = {k: p for k, p in self._history.items() if not p.done}
        if self._turn is not None:
            self._small_was_last[self._turn[0]] = self._turn[1]
        if groups:
            self._history_is_next = any(audience is None for _, audience in groups)
        return runs

    def watermark(self, table: str) -> int | None:
        """Rows of a table that come from now on are late when their event time is before this (microseconds)."""
        declared = self._tables[table].watermark
        return None if declared is None else self._live[table].watermark(declared.delay)

    def history_remaining(self) -> dict[int, int]:
        """Bytes of history that views born at an epoch still wait for."""
        remaining: dict[int, int] = {}
        for (_, born), progress in self._history.items():
            remaining[born] = remaining.get(born, 0) + progress.remaining
        return remaining

    def remaining(self) -> int:
        """Bytes waiting in all tables and histories."""
        return sum(p.remaining for p in (*self._live.values(), *self._history.values()))

    def state_tables(self) -> dict[str, StateTable]:
        """State tables of the sources, and of their errors."""
        found = [_list_table(t) for t in self._tables.values()]
        found += [t.source().errors for t in self._tables.values()]
        return {t.id: t for t in found}

    def history_to_json(self) -> list[dict[str, Any]]:
        """History as stored in a manifest."""
        return [
            {"table": table, "born": born, "files": [list(vars(f).values()) for f in p.known.values()]}
            for (table, born), p in self._history.items()
        ]

    def counts_to_json(self) -> dict[str, list[int]]:
        """Rows read and malformed of each table, as stored in a manifest."""
        return {table: [counts.read, counts.malformed] for table, counts in self._counts.items()}

    def pinned_to_json(self) -> dict[str, list[list[Any]]]:
        """The files of static tables, as they were first listed, as stored in a manifest."""
        return {table: [list(vars(f).values()) for f in found] for table, found in self._pinned.items()}

    def _progress(self, split: Split) -> Progress:
        if split.audience is None:
            return self._live[split.table]
        return self._history[(split.table, split.audience)]


_PLACES = 1 << 40
"""At least so many places in the order of an epoch has a file: rows of some formats are numbered, not their bytes."""
_MOST_ORDERED = 1 << 18
"""Files of a keyed table in an epoch, so that places stay below 2^63."""


def _placed(splits: list[Split], table: Table) -> list[Split]:
    """The same splits, which are in the order of admission, with what makes positions places in that order."""
    bases: dict[str, int] = {}
    end = 0
    for split in splits:
        if split.path not in bases:
            bases[split.path] = end
            end += max(split.size, _PLACES) if table.codec(split.path) is None else MOST_DECODED
    return [replace(s, base=bases[s.path]) for s in splits]


def _list_table(table: Table) -> StateTable:
    return list_table(table.uid, table.watermark is not None, table.in_objects)


def _file(entry: Sequence[Any]) -> FileProgress:
    """A file of a history as JSON has it."""
    path, size, modified, position, quotes, *times = entry
    latest, marks, *etag = times or (None, ())
    return FileProgress(
        path, size, modified, position, quotes, latest, tuple((int(p), int(w)) for p, w in marks), *etag
    )
