"""The files of one table that List has found: which ones are new, and what is waiting to be read.

In memory are only files with something left to read, and never many more than ``ROOM``. Whether a name was read before
is asked of state: of the list table, page by page, all names of a page at once. Its runs have Bloom filters, which
answer for names that are not there; a name that a filter takes for known is looked up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from tidemill.connectors.versioned.data_file import pool_of, reading_of
from tidemill.errors import TidemillError
from tidemill.runtime.files.file_policy import FilePolicy
from tidemill.runtime.files.file_progress import (
    FileProgress,
    ListedFile,
    ToClean,
    clean_queue,
    cleaned_table,
    fetch_table,
    fetched_files,
    fetched_rows,
    keys_of,
    list_table,
    listed_files,
    listed_rows,
    queue_rows,
    read_part,
    same_file,
    sizes_of_listed,
)
from tidemill.runtime.files.progress import Limits
from tidemill.runtime.files.source_files import Reader, Sealing, SourceFiles
from tidemill.sources.file_info import FileInfo
from tidemill.sources.files import last_line_end, tail_mark
from tidemill.sources.split import GROWING, Split
from tidemill.sources.unreadable import OF_A_PLACE
from tidemill.state.keys import keys as state_keys
from tidemill.state.merge.merge import Rows
from tidemill.state.runs.sst import Part
from tidemill.task.program import StateTable

ROOM = 10_000
"""The most files of a table that wait to be read. Listing pauses while there are so many."""

_ALL = 1 << 62
_DONE_KEPT = 100_000
"""How many names of files that were read and cannot change are kept in memory; state is not asked for those."""


class ListedFiles(SourceFiles):
    """Files of a table as List finds them.

    Parameters
    ----------
    table, uid : str
        Of the table.
    policy : FilePolicy
    reader : callable
        Reads the state tables of the source.
    """

    def __init__(self, table: str, uid: str, policy: FilePolicy, reader: Reader) -> None:
        self.reader = reader
        self._list, self._fetch = list_table(uid), fetch_table(uid)
        self._cleaned, self._queue = cleaned_table(uid), clean_queue(uid)
        waiting: list[FileProgress] = []
        self._aside: set[str] = set()
        for rows in reader(self._fetch).iterate():
            found = fetched_files(self._fetch, rows)
            waiting += [f for f in found if not f.failed]
            self._aside.update(f.path for f in found if f.failed)
        super().__init__(table, uid, policy, sorted(waiting, key=lambda f: (not f.position, f.path)))
        self._stored = set(self.known)
        self._changed: dict[str, None] = {}
        self._dropped: dict[str, FileProgress] = {}
        self._read_before: dict[str, ListedFile] = self.read_to_end(list(self.known))
        self._unlisted: set[str] = set()
        self._empty: dict[str, FileInfo] = {}
        self._warned: set[FileInfo] = set()
        self._done: set[str] = set()
        self.avoided: set[str] = set()
        """Files that could not be read for the step that waits, of a table with versions."""
        self.needs_other_step = False
        """Whether one of them was found since that step was taken, and another step can do without it."""
        self.changed_files: list[str] = []
        """Files that have changed since they were read and are not read again; the caller warns of them."""
        self.deleted_files: list[str] = []
        """Files that were deleted before anything of them was read; the caller warns of them."""

    def waits_until(self, warned: bool = True) -> int | None:
        """When the next file that could not be read may be tried again, in milliseconds since 1970; None for none.

        Without ``warned`` files do not count of which a warning has been given; they are tried all the same.
        """
        suspects = [f for p in self.waiting if (f := self.known[p]).attempts]
        times = [f.retry_at for f in suspects if warned or f.attempts < self.policy.attempts]
        return min((t for t in times if t is not None), default=None)

    @property
    def looked_for(self) -> bool:
        """Whether the location of the table is listed again and again."""
        return True

    @property
    def room(self) -> int:
        """How many more files may wait."""
        return ROOM - len(self.waiting) - len(self._empty)

    @property
    def troubled(self) -> bool:
        """Whether a file could not be read: then it is looked at again though nothing else has changed."""
        return bool(self._aside) or any(file.attempts for file in self.known.values())

    def with_policy(self, policy: FilePolicy) -> Self:
        """The same files under another policy, which may look again at what this one does not."""
        changed = super().with_policy(policy)
        changed._done = set()
        changed.known = {p: replace(f, retry_at=0) if f.attempts and not f.failed else f for p, f in self.known.items()}
        return changed

    # -- List ---------------------------------------------------------------------------------------

    def begin_listing(self) -> None:
        """Begin a full listing, which :meth:`end_listing` ends."""
        self._unlisted = {p for p in self.waiting if not self.known[p].position and not self.known[p].replaces}

    def end_listing(self) -> None:
        """Forget files that were not listed and of which nothing was read."""
        for path in self._unlisted & self.known.keys():
            if not self.known[path].position:
                self._forget(path)
                self.deleted_files.append(path)
        self._unlisted = set()

    def unknown(self, paths: Sequence[str]) -> list[str]:
        """The names whose files must be looked at: all but those that were read and cannot change."""
        if self._unlisted:
            self._unlisted.difference_update(paths)
        if not self.policy.by_name:
            return list(paths)
        asked = [p for p in paths if p not in self._done]
        left = self._without(self._cleaned, self._without(self._list, asked))
        if len(left) < len(asked) and len(self._done) + len(asked) <= _DONE_KEPT:
            self._done.update(asked)
            self._done.difference_update(left)
        return left

    def discover(self, infos: Iterable[FileInfo]) -> int:
        """Take what is new, or has changed, of some files that are listed now; returns how many names were new.

        A file without bytes is only noted; it is new once it has some. Those that a version of a table does not have
        any more are given without bytes, too. A file that changed before anything of it was read is taken as it is now.
        """
        found = {i.path: i for i in infos}
        self._unlisted.difference_update(found)
        others = []
        for path, info in found.items():
            if path in self.known:
                self._seen_again(self.known[path], info)
            else:
                others.append(path)
        done = self.read_to_end(others)
        aside = self.set_aside(others)
        new = 0
        for path in others:
            info = found[path]
            if path in aside:
                if self._perhaps_mended(aside[path], info):
                    self._stored.add(path)
                    self._read_before |= {path: done[path]} if path in done else {}
            elif path in done:
                self._changed_since(done[path], info)
            elif info.size:
                self.put(listed_now(info))
                new += 1
            elif not self.policy.versioned:
                self._empty[path] = info
        return new

    def held(self) -> dict[str, FileInfo]:
        """The files whose rows are in the table, as they were listed, by path."""
        blocks = self.reader(self._list).iterate()
        found = (f for rows in blocks for f in listed_files(self._list, rows.keys, rows.values) if f.size)
        return {f.path: FileInfo(f.path, f.size, f.modified, f.etag) for f in found}

    def unsettled(self) -> set[str]:
        """Names of files of which some rows are in the table, or may be."""
        begun = {path for path, file in self.known.items() if file.position}
        return begun.union(f.path for rows in self.reader(self._fetch).iterate() for f in self._set_aside(rows))

    def _set_aside(self, rows: Rows) -> list[FileProgress]:
        return [f for f in fetched_files(self._fetch, rows) if f.failed]

    def follow(self, step: Sequence[FileInfo]) -> None:
        """Take a step from what is held to a version of the table, in place of any that waits."""
        self.needs_other_step = False
        wanted = {info.path: info for info in step}
        for path, file in list(self.known.items()):
            if not file.position and not (path in wanted and same_file(file, wanted[path])):
                self._forget(path)
        self.discover(step)

    def known_otherwise(self, infos: Iterable[FileInfo]) -> set[str]:
        """Names of files that are known with another size, time or ETag."""
        found = {i.path: i for i in infos}
        others = [p for p in found if p not in self.known]
        known: dict[str, FileProgress | ListedFile] = {p: self.known[p] for p in found if p in self.known}
        known.update(self.read_to_end(others))
        known.update(self.set_aside(others))
        return {p for p, k in known.items() if not same_file(k, found[p])}

    def unsealed(self, paths: Iterable[str]) -> bool:
        """Whether anything known of one of these files is not sealed yet."""
        return any(p in self._changed or p in self._dropped or p in self._empty for p in paths)

    def not_as_listed(self) -> dict[str, int]:
        """Files whose version when they were read was not the listed one, with the number of attempts."""
        suspects = [f for p in self.waiting if (f := self.known[p]).attempts]
        return {f.path: f.attempts for f in suspects if f.error[:6] in _ABOUT_IDENTITY}

    def _seen_again(self, known: FileProgress, info: FileInfo) -> None:
        """Handle a waiting file that is listed again."""
        if known.failed:
            self._perhaps_mended(known, info)
        elif same_file(known, info):
            return
        elif not known.position:
            if info.size or known.replaces:
                self.put(replace(listed_now(info), replaces=known.replaces))
            else:
                self._forget(info.path)
        elif self.policy.overwrites and info.modified != GROWING:
            self.put(replace(listed_now(info), replaces=True))
        elif info.modified == GROWING and info.size > known.size:
            self.put(replace(known, size=info.size, modified=info.modified, etag=info.etag))
        elif self.policy.appends and info.modified != GROWING == known.modified:
            self._note_changed(info)

    def _note_changed(self, info: FileInfo) -> None:
        version = FileInfo(info.path, 0, GROWING) if self.policy.appends else info  # which goes on growing
        if version not in self._warned and len(self._warned) < ROOM:
            self._warned.add(version)
            self.changed_files.append(info.path)

    def _changed_since(self, known: ListedFile, info: FileInfo) -> None:
        """Handle a file that was read to its end and is listed again."""
        if same_file(known, info) or known.size == info.size == 0:
            return
        if self.policy.overwrites and info.modified != GROWING:
            file = replace(listed_now(info), replaces=True)
        elif not known.size:
            file = listed_now(info)
        elif info.modified == GROWING and info.size > known.size and self.policy.grows(info.path):
            file = replace(listed_now(info), position=known.size, rows=known.rows, marks=known.marks)
        else:
            self._note_changed(info)
            return
        self._read_before[info.path] = known
        self.put(file)

    def _perhaps_mended(self, known: FileProgress, info: FileInfo) -> bool:
        """Handle a file that was set aside and is listed again; tells whether it is tried again."""
        same = same_file(known, info)
        if same and known.error[:6] in _ABOUT_IDENTITY:
            self.put(replace(known, attempts=0, retry_at=0, error=""))
        elif not same and info.size and not known.position:
            self.put(replace(listed_now(info), replaces=known.replaces))
        elif not same and self.policy.overwrites:
            self.put(replace(listed_now(info), replaces=True))
        elif not same and info.modified == GROWING and info.size > known.size:
            grown = replace(known, size=info.size, modified=info.modified, etag=info.etag)
            self.put(replace(grown, attempts=0, retry_at=0, error=""))
        else:
            return False
        return True

    def from_their_begin(self, infos: Iterable[FileInfo]) -> Iterable[FileInfo]:
        """The listed files; of one with a ``begin``, what lies behind the first one found, which begins its ETag."""
        found = list(infos)
        begun = [i.path for i in found if i.begin is not None]
        if not begun:
            return found
        known: dict[str, FileProgress | ListedFile | FileInfo] = {**self._empty, **self.as_listed(begun)}
        return [i if i.begin is None else _behind(i, known.get(i.path)) for i in found]

    @property
    def must_note(self) -> bool:
        """Whether a file without bytes has a begin that is to be sealed: the next listing may find another one."""
        return super().must_note or any(i.modified == GROWING and i.etag for i in self._empty.values())

    def with_whole_lines(self, infos: Iterable[FileInfo]) -> Iterable[FileInfo]:
        """The listed files; a file that may grow ends after its last complete line.

        Its ETag is a hash of the text before that end, so that a file that was rewritten, not continued, is recognised
        when it is longer than before. Such a file is given unchanged.
        """
        if not self.policy.appends:
            return infos
        found = list(infos)
        known = self.as_listed([i.path for i in found])
        return [self._up_to_line(i, known.get(i.path)) if self.policy.grows(i.path) else i for i in found]

    def _up_to_line(self, info: FileInfo, known: FileProgress | ListedFile | None) -> FileInfo:
        if known is not None and known.size == info.size:
            return FileInfo(info.path, info.size, GROWING, known.etag)
        end = last_line_end(info)
        if known is None or known.size == end:
            return FileInfo(info.path, end, GROWING, tail_mark(info.path, end) if known is None else known.etag)
        begun = isinstance(known, ListedFile) or known.position > 0
        if begun and known.etag and end > known.size and tail_mark(info.path, known.size) != known.etag:
            return info
        return FileInfo(info.path, end, GROWING, tail_mark(info.path, end))

    def as_listed(self, paths: Sequence[str]) -> dict[str, FileProgress | ListedFile]:
        """Files of which something was read, as they were last listed."""
        here: dict[str, FileProgress | ListedFile] = {p: self.known[p] for p in paths if p in self.known}
        others = [p for p in paths if p not in here]
        return {**self.read_to_end(others), **self.set_aside(others), **here}

    def put(self, file: FileProgress) -> None:
        self.known[file.path] = file
        self.waiting[file.path] = None
        self._changed[file.path] = None
        self._dropped.pop(file.path, None)
        self._aside.discard(file.path)

    def _forget(self, path: str) -> None:
        file = self.known.pop(path)
        self.waiting.pop(path, None)
        self._changed.pop(path, None)
        if path in self._stored:
            self._dropped[path] = file

    def read_to_end(self, paths: Sequence[str]) -> dict[str, ListedFile]:
        """Of these names, the files that were read to their end."""
        found = self.in_list(paths)
        return found | self.forgotten([p for p in paths if p not in found])

    def in_list(self, paths: Sequence[str]) -> dict[str, ListedFile]:
        """Of these names, the files that were read to their end and can be read again."""
        found = self._looked_up(self._list, paths)
        return {} if found is None else {f.path: f for f in listed_files(self._list, *found)}

    def forgotten(self, paths: Sequence[str]) -> dict[str, ListedFile]:
        """Of these names, the files that were read to their end and may be cleaned at any time."""
        found = self._looked_up(self._cleaned, paths)
        return {} if found is None else {f.path: f for f in listed_files(self._cleaned, *found)}

    def set_aside(self, paths: Sequence[str]) -> dict[str, FileProgress]:
        """Of these names, the files that were set aside."""
        found = self._looked_up(self._fetch, paths)
        return {} if found is None else {f.path: f for f in self._set_aside(Rows(*found))}

    def _without(self, table: StateTable, paths: list[str]) -> list[str]:
        """The names that the list or cleaned table does not have, or has with size 0."""
        reader = self.reader(table)
        if not paths or not reader:
            return paths
        probes = keys_of(table, paths)
        order = state_keys.sort(probes)
        found, values = reader.get(probes.take(order))
        if not found.any():
            return paths
        read = found & (sizes_of_listed(values) > 0)
        left = np.ones(len(paths), np.bool_)
        left[order[read]] = False
        return paths if left.all() else [paths[i] for i in np.flatnonzero(left).tolist()]

    def _looked_up(
        self, table: StateTable, paths: Sequence[str]
    ) -> tuple[state_keys.Keys, tuple[pa.Array[Any], ...]] | None:
        reader = self.reader(table)
        if not paths or not reader:
            return None
        probes = keys_of(table, paths)
        probes = probes.take(state_keys.sort(probes))
        found, values = reader.get(probes)
        places = found.nonzero()[0]
        if not len(places):
            return None
        return probes.take(places), tuple(v.take(places) for v in values)

    # -- Fetch --------------------------------------------------------------------------------------

    def admit(
        self,
        limits: Limits,
        watermark: int | None = None,
        unsplittable: Callable[[str], bool] = lambda _: False,
        compressed: Callable[[str], bool] = lambda _: False,
    ) -> list[Split]:
        """As :meth:`Progress.admit`.

        Where a version takes rows back all of it is admitted, beyond the limits, so that it is not divided; nothing
        while one of its files waits for another attempt.
        """
        files = [self.known[path] for path in self.waiting]
        if self.policy.versioned and any(file.replaces for file in files):
            suspects = [file for file in files if file.attempts]
            now = time.time_ns() // 1_000_000
            if bool(suspects) != limits.suspects or any((file.retry_at or 0) > now for file in suspects):
                return []
            limits = replace(limits, bytes=_ALL, files=None, together=True)
        return super().admit(limits, watermark, unsplittable, compressed)

    def _undivided(self, file: FileProgress) -> bool:
        """Those of pools, too: what is read of one in part could not be taken back."""
        return super()._undivided(file) or bool(pool_of(file.etag))

    def failed(self, path: str, error: TidemillError) -> bool:
        """Note that a file could not be read: it waits for another attempt, or is set aside.

        Returns
        -------
        bool
            Whether it has been tried so often that a warning is due.
        """
        file = self.known[path]
        if pool_of(file.etag) and path not in self.avoided:
            self.avoided.add(path)
            self.needs_other_step = True
        if error.number == "TM5001" and not (file.position or file.replaces or self.policy.versioned):
            self._forget(path)
            self.deleted_files.append(path)
            return False
        most = 1 if error.number.startswith("TM4") else self.policy.attempts  # bytes do not mend by themselves
        whole = self.policy.versioned and any(self.known[p].replaces for p in self.waiting)
        kept = self.policy.ordered or error.number in OF_A_PLACE or whole
        tried = file.tried(error, None if kept else most)
        self.known[path] = tried
        self._changed[path] = None
        if tried.failed:
            self.waiting.pop(path, None)
            self._aside.add(path)
        return tried.attempts == most

    def parts(self) -> list[FileProgress]:
        """The parts that were read of unfinished files, to be read again; of a file that grew, the part since then."""
        found = []
        for file in self.known.values():
            first = self._read_before[file.path].size if file.path in self._read_before else 0
            if file.position > first and not file.replaces:
                found.append(read_part(file, first))
        return found + self._parts_set_aside()

    def _parts_set_aside(self) -> list[FileProgress]:
        """The parts that were read of files before they were set aside."""
        rows = self.reader(self._fetch).iterate()
        begun = [f for some in rows for f in fetched_files(self._fetch, some) if f.failed and f.path not in self.known]
        listed = self.read_to_end([f.path for f in begun])
        firsts = [(f, listed[f.path].size if f.path in listed else 0) for f in begun if not f.replaces]
        return [read_part(f, first) for f, first in firsts if f.position > first]

    def sealing(self, admitted: Iterable[FileProgress], epoch: int) -> Sealing:
        """The changes of the state tables that an epoch seals; nothing is changed."""
        moved = {**{p: self.known[p] for p in self._changed}, **{f.path: f for f in admitted}}
        waiting = [f for f in moved.values() if f.waits]
        finished = [_listed(f, epoch) for f in moved.values() if not f.waits]
        gone = [f.path for f in finished if f.path in self._stored]
        empty = [_listed(listed_now(i), epoch) for p, i in self._empty.items() if p not in moved]
        finished += [f for f in empty if f.path not in self.known]
        fetched = [(f, 0 if f.path in self._stored else 1) for f in waiting]
        fetched += [(f, -1) for f in (*(moved[p] for p in gone), *self._dropped.values())]
        cleaned = [f for f in finished if self.policy.cleans and f.size]
        forgotten = {f.path for f in cleaned if self.policy.forgets}
        if self.policy.versioned:  # files that are taken back do not come again, or as new ones
            forgotten |= {f.path for f in finished if not f.size or reading_of(f.etag).passes}
        listed = [(f, 0 if f.path in self._read_before else 1) for f in finished if f.path not in forgotten]
        listed += [(self._read_before[p], -1) for p in sorted(forgotten & self._read_before.keys())]
        tables = [Part(self._fetch.id, fetched_rows(self._fetch, fetched), self._fetch.ops)] if fetched else []
        if listed:
            tables.append(Part(self._list.id, listed_rows(self._list, listed), self._list.ops))
        if forgotten and cleaned:
            rows = listed_rows(self._cleaned, [(f, 1) for f in cleaned])
            tables.append(Part(self._cleaned.id, rows, self._cleaned.ops))
        if cleaned:
            tables.append(Part(self._queue.id, queue_rows(self._queue, _to_clean(cleaned)), self._queue.ops))
        before = [self._read_before[f.path] for f in finished if f.path in self._read_before]
        return Sealing(tables, waiting, finished, before, [*gone, *self._dropped])

    def sealed(self, sealing: Sealing) -> None:
        """Take over what was sealed."""
        for file in sealing.waiting:
            self.known[file.path] = file
            self._stored.add(file.path)
            if file.failed:
                del self.known[file.path]
                self._stored.discard(file.path)
        for done in sealing.finished:
            self.known.pop(done.path, None)
            self.waiting.pop(done.path, None)
            self._read_before.pop(done.path, None)
        if self.policy.by_name and len(self._done) + len(sealing.finished) <= _DONE_KEPT:
            self._done.update(done.path for done in sealing.finished if done.size)
        self._stored.difference_update(sealing.gone)
        if sealing.finished:
            self.avoided = set()
        self._changed, self._dropped, self._empty = {}, {}, {}


_ABOUT_IDENTITY = ("TM5001", "TM5003")
"""Errors of a file that is not the version that was listed."""


def _behind(info: FileInfo, known: FileProgress | ListedFile | FileInfo | None) -> FileInfo:
    etag = f"{info.begin} {info.etag}" if known is None else known.etag
    return FileInfo(info.path, max(info.size - int(etag.partition(" ")[0]), 0), info.modified, etag)


def listed_now(info: FileInfo) -> FileProgress:
    return FileProgress(info.path, info.size, info.modified, etag=info.etag)


def _to_clean(finished: Iterable[ListedFile]) -> list[tuple[ToClean, int]]:
    now = time.time_ns() // 1_000_000
    return [(ToClean(f.epoch, f.path, f.size, f.modified, f.etag, now), 1) for f in finished]


def _listed(file: FileProgress, epoch: int) -> ListedFile:
    return ListedFile(file.path, file.size, file.modified, file.etag, epoch, file.rows, file.marks)
