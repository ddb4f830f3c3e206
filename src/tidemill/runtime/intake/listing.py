"""List: looks for new files in one location, for all tables that read it."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.connectors.versioned.steps import step_to
from tidemill.connectors.versioned.versioned_table import VersionedTable
from tidemill.errors import TidemillError
from tidemill.runtime.files.listed_files import ROOM, ListedFiles
from tidemill.sources.file_info import FileInfo
from tidemill.sources.files import file_info, file_names
from tidemill.sources.locations.allowed_paths import AllowedPaths
from tidemill.sources.locations.location import Location
from tidemill.sources.notifications import Created
from tidemill.sources.objects.listing import PAGE_KEYS, Cursor, ObjectListing

_LONGEST_PAUSE = 60.0
_QUESTIONS = 16
"""How many objects are asked for at a time."""


class LocationList:
    """List of one location. A pass goes on while the tables have room, and waits where it is when they have none.

    Files are found in the order of names, so that all tables of a location have the same files at any time.

    Parameters
    ----------
    location : Location
    tables : sequence of ListedFiles
    cursors : mapping
        How far the location had been listed, of an object store.
    full_listing_at : float, optional
        When the last full listing of a location with notifications began (seconds since 1970), if there was one.
    allowed : AllowedPaths, optional
        What may be listed; links may lead elsewhere.

    Attributes
    ----------
    full_listing_every : float
        Seconds after which such a location is listed again.
    warnings : list of str
        New warnings about single files, for the caller to take.
    """

    def __init__(
        self,
        location: Location,
        tables: Sequence[ListedFiles],
        cursors: Mapping[str, Cursor],
        full_listing_at: float | None = None,
        allowed: AllowedPaths | None = None,
    ) -> None:
        self.location = location
        self._allowed = allowed or AllowedPaths()
        self.tables = tables
        self.full_listing_at, self.full_listing_every = full_listing_at, 0.0
        self._begun_at = 0.0
        self._asked: dict[str, int] = {}
        self._unwanted: set[str] = set()
        self.warnings: list[str] = []
        self._there = True
        self._seen = bool(cursors)
        self._objects: ObjectListing | None = None
        if location.objects:
            self._objects = ObjectListing(location.pattern, location.connection, location.filters.recursive, cursors)
        self._version: Hashable | None = None
        self._lists_all = True
        self._pass: Iterator[list[FileInfo]] | None = None
        self._full = False
        self._ended_at = -1e9
        checked = location.versions is not None or location.topics is not None  # when the table was created
        self._has_ended = full_listing_at is not None or bool(cursors) or checked
        self._pause = 0.0

    @property
    def cursors(self) -> Mapping[str, Cursor]:
        """How far the location has been listed; empty for directories."""
        return {} if self._objects is None else self._objects.cursors

    @property
    def under_way(self) -> bool:
        """Whether a pass waits for room."""
        return self._pass is not None

    def proceed(self, seconds: float) -> str | None:
        """Go on with a pass; begin one when nothing waits, or the last one is ``seconds`` old.

        With notifications a pass lists everything, and begins when its interval is over.

        Returns
        -------
        str or None
            A warning when a store could not be listed; it is asked again.

        Raises
        ------
        TidemillError
            As listing the location, when it has never been listed: its path may be wrong.
        """
        if self._pass is None:
            age = time.monotonic() - self._ended_at
            if age < self._pause or not self._due(age >= seconds):
                return None
            self.begin(full=self.location.queue is not None)
        error = self.go_on()
        return None if error is None else error.message()

    def _due(self, old: bool) -> bool:
        if self.location.queue is None:
            return old or all(t.done for t in self.tables)
        return self.full_listing_at is None or not 0 <= time.time() - self.full_listing_at < self.full_listing_every

    def list_all(self) -> TidemillError | None:
        """Begin a full listing, as far as there is room. As :meth:`go_on`."""
        self.begin(full=True)
        return self.go_on()

    def begin(self, full: bool) -> None:
        """Begin a pass."""
        self._full, self._begun_at = full, time.time()
        self._lists_all = self._objects is None or full
        for table in self.tables:
            table.begin_listing()
        if self._objects is not None:
            self._pass = self._objects.pages(full)
        elif self.location.versions is not None:
            self._pass = self._newest_version(self.location.versions)
        else:
            self._pass = self._local() if self.location.local else self.location.pages()

    def go_on(self) -> TidemillError | None:
        """Take pages while all tables have room. A version of a table is listed again when one of its files
        could not be read.

        Returns
        -------
        TidemillError or None
            Why a location that has been listed before could not be listed now; it is asked again.

        Raises
        ------
        TidemillError
            As listing the location, when it has never been listed: its path may be wrong.
        """
        if self._pass is None and any(table.needs_other_step for table in self.tables):
            self.begin(full=False)
        try:
            self._take_pages()
        except TidemillError as error:
            self._ended_at = time.monotonic()
            if not self._has_ended or not error.number.startswith("TM5"):
                raise
            self._pause = min(max(2 * self._pause, 1.0), _LONGEST_PAUSE)
            return error
        return None

    def _take_pages(self) -> None:
        try:
            while self._pass is not None and all(t.room > 0 for t in self.tables):
                page = next(self._pass, None)
                if page is None:
                    self._end()
                    return
                self._take(page)
        except BaseException:
            self._pass = None  # else what was missed of it would be taken for deleted
            raise

    def _take(self, page: list[FileInfo]) -> None:
        self._seen |= bool(page)
        wanted = [f for f in page if self._wants(f)]
        new = max(t.discover(t.with_whole_lines(t.from_their_begin(wanted))) for t in self.tables)
        if self._objects is not None:
            self._objects.found_new(new)

    def _newest_version(self, table: VersionedTable) -> Iterator[list[FileInfo]]:
        """Give each table its step to the newest version. The page is empty: what is new differs by table."""
        troubled = any(files.troubled for files in self.tables)
        if self._version is not None and not troubled and table.is_newest(self._version):
            self._lists_all = False
            return
        newest = table.files()
        for files in self.tables:
            held, unsettled, commits = files.held(), files.unsettled(), table.commits(newest.version)
            step = step_to(newest, held, unsettled, files.avoided, commits)
            files.follow([info for info in step if not info.size or self._wants(info)])
        yield []
        self._version = newest.version

    def _wants(self, info: FileInfo) -> bool:
        """Whether a file is to be read; warns once of one without a codec or outside ``allowed_paths``."""
        try:
            if not self.location.wants(info):
                return False
            if not self._allowed.has_file(info.path):
                raise self._allowed.outside(f"{info.path}, which is {os.path.realpath(info.path)}")
            return True
        except TidemillError as error:
            if info.path not in self._unwanted and len(self._unwanted) < ROOM:
                self._unwanted.add(info.path)
                self.warnings.append(error.message())
            return False

    def _is_text(self, name: str) -> bool:
        """Whether the name of a file is UTF-8; warns once of another one."""
        if name.isascii() or name.encode(errors="replace").decode() == name:
            return True
        if name not in self._unwanted and len(self._unwanted) < ROOM:
            self._unwanted.add(name)
            shown = os.fsencode(name)
            error = TidemillError(
                "TM5044",
                "the name of a file is not UTF-8",
                got=repr(shown),
                hint="rename it; others continue without it",
            )
            self.warnings.append(error.message())
        return False

    def _check_there(self) -> None:
        """Warn once that the directory of a glob does not exist. TM5001 with failOnMissing.

        A store is not asked once there was an object.
        """
        missing = None if self.location.objects and self._seen else self.location.missing()
        if missing is not None and self.location.filters.fail_on_missing:
            raise missing
        if missing is not None and self._there:
            self.warnings.append(missing.message())
        self._there = missing is None

    def _end(self) -> None:
        self._check_there()
        if self._lists_all:
            for table in self.tables:
                table.end_listing()
        if self._full:
            self.full_listing_at = self._begun_at
        self._pass, self._ended_at, self._has_ended, self._pause = None, time.monotonic(), True, 0.0

    # -- notifications ------------------------------------------------------------------------------

    def notified(self, named: Mapping[str, Created]) -> dict[str, TidemillError]:
        """Take over objects that notifications name, as if they were listed.

        Notifications may be old, out of order or incomplete. So the store is asked for objects whose notification is
        incomplete or differs from what is known, and for all where times count: they differ from those of listings.

        Returns
        -------
        dict
            TM5001 for objects that are not there, TM5030 to TM5036 for those that could not be asked for, TM5006 for
            those that cannot be read.
        """
        timed = self.location.filters.timed
        infos = {p: i for p, c in named.items() if (i := c.info(p)) is not None and not timed}
        doubtful = {p for table in self.tables for p in table.known_otherwise(infos.values())}
        sure = [i for p, i in infos.items() if p not in doubtful]
        asked = self._ask([p for p in named if p in doubtful or p not in infos])
        found = sure + [a for a in asked.values() if isinstance(a, FileInfo)]
        failed = {p: a for p, a in asked.items() if isinstance(a, TidemillError)}
        return failed | self._discover(found)

    def look_again(self) -> None:
        """Ask the store for files that are not the version that was listed: no notification may come of them."""
        suspects = {p: n for table in self.tables for p, n in table.not_as_listed().items()}
        found = self._ask([p for p, tried in suspects.items() if self._asked.get(p) != tried])
        self._asked = suspects
        self._discover([a for a in found.values() if isinstance(a, FileInfo)])

    def knows_unsealed(self, paths: Iterable[str]) -> bool:
        """Whether anything that a table knows of one of these files is not sealed yet."""
        names = list(paths)
        return any(table.unsealed(names) for table in self.tables)

    def _discover(self, infos: Iterable[FileInfo]) -> dict[str, TidemillError]:
        wanted, failed = [], {}
        for info in sorted(infos, key=lambda i: i.path):
            try:
                if self.location.wants(info):
                    wanted.append(info)
            except TidemillError as error:
                failed[info.path] = error
        for table in self.tables:
            table.discover(wanted)
        return failed

    def _ask(self, paths: Sequence[str]) -> dict[str, FileInfo | TidemillError]:
        """Objects as they are now, several at a time."""
        if not paths:
            return {}
        with ThreadPoolExecutor(min(_QUESTIONS, len(paths))) as pool:
            return dict(zip(paths, pool.map(self._now, paths), strict=True))

    def _now(self, path: str) -> FileInfo | TidemillError:
        try:
            return self.location.now(path)
        except TidemillError as error:
            return error

    def _local(self) -> Iterator[list[FileInfo]]:
        """Files of a directory or glob with unknown names, in order; all files if a table reads changed ones."""
        found: list[pa.Array[Any]] = []
        filters = self.location.filters
        for names in file_names(self.location.pattern, filters.recursive):
            wanted = names if filters.name is None else [n for n in names if filters.wants_name(n)]
            if not all(map(str.isascii, wanted)):
                wanted = [n for n in wanted if self._is_text(n)]
            unknown = {n for table in self.tables for n in table.unknown(wanted)}
            if unknown:
                found.append(pa.array(sorted(unknown), pa.large_string()))
        if not found:
            return
        names_ = pc.unique(pa.chunked_array(found)) if len(found) > 1 else found[0]
        ordered = names_.take(pc.sort_indices(names_)) if len(found) > 1 else names_
        for start in range(0, len(ordered), PAGE_KEYS):
            infos = (file_info(str(name)) for name in ordered[start : start + PAGE_KEYS].to_pylist())
            yield [info for info in infos if info is not None]
