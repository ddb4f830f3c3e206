"""The step from what a table has to a version of it: which files are read for that, and what for.

Rows are kept by file, or in a pool, together with those of other files. By file they are taken back without the file.
Those of a pool change by what commits say: by their change data, or not at all where files only moved; only if no
commit says so a file that is gone is read again, and its rows are taken out. All of it is sums of rows, so that commits
need not be taken one by one, and a row that comes and goes in one step was never there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from tidemill.connectors.connector import FileInfo
from tidemill.connectors.versioned.data_file import Beside, Reading, etag_of, pool_of, pooled
from tidemill.connectors.versioned.versioned_table import Commit, Listed


def step_to(
    version: Listed,
    held: Mapping[str, FileInfo],
    unsettled: Set[str],
    avoided: Set[str],
    commits: Iterator[Commit],
) -> list[FileInfo]:
    """What is to be read, or taken back, so that a table has the rows of a version.

    Parameters
    ----------
    version : Listed
    held : mapping
        The files whose rows the table has, as they were listed, by path; the pool among them, if it has rows.
    unsettled : set of str
        Files of which the table has some rows.
    avoided : set of str
        Files that could not be read.
    commits : iterator of Commit
        Of the version, the last one first.

    Returns
    -------
    list of FileInfo
        All of it together is the step. A file without bytes is not in the version: its rows are taken back.
    """
    pool = version.pool or next((name for info in held.values() if (name := pool_of(info.etag))), "")
    there = {info.path: info for info in version.files}
    files = {path: info for path, info in held.items() if path != pool}
    gone = files.keys() - there.keys()
    other = {path for path in there.keys() & files.keys() if not _same(files[path], there[path])}
    taken_back = [FileInfo(path, 0, 0) for path in sorted(unsettled - there.keys() - files.keys())]
    if any(pool_of(files[path].etag) for path in other):
        return _anew(there, files, pool) + taken_back
    step = _Step(version, files, pool, avoided)
    if not gone or not step.follow(_explaining(gone, commits)):
        step = _Step(version, files, pool, avoided)
    found = step.found(there, other)
    if any(pool_of(info.etag) and info.path in avoided and info.path not in there for info in found):
        return _anew(there, files, pool) + taken_back
    if pool not in held and any(pool_of(info.etag) for info in found):
        found.insert(0, _pool_itself(pool))
    return found + taken_back


@dataclass
class _Step:
    """A step as far as it has been followed.

    ``has`` are files whose rows the table has then: those that it had (False) and those that the step reads (True).
    ``moved`` are files whose rows came from others.
    """

    version: Listed
    held: Mapping[str, FileInfo]
    pool: str
    avoided: Set[str]
    has: dict[str, bool] = field(default_factory=dict)
    moved: dict[str, FileInfo] = field(default_factory=dict)
    added: dict[str, FileInfo] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    read: list[FileInfo] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.has = dict.fromkeys(self.held, False)

    def follow(self, commits: Iterable[Commit]) -> bool:
        """Follow commits, the first one first; not where a file comes back of which something is read already."""
        for commit in commits:
            self.added.update(commit.added)
            if self._says_all(commit):
                self._take(commit)
                continue
            if self.over & commit.added.keys():
                return False
            for path in commit.removed:
                if self.has.get(path):
                    del self.has[path]
            for path in commit.added:
                self.has.setdefault(path, True)
        return True

    def _says_all(self, commit: Commit) -> bool:
        """Whether rows change by what a commit says: all files that it removes are in the pool."""
        if commit.changes is None or not commit.removed or not self.pool:
            return False
        known = self.has.keys() | self.moved.keys()
        if not commit.removed <= known or commit.added.keys() & (known | self.over):
            return False
        if any(info.path in self.avoided for info in commit.changes):
            return False
        return all(self._is_pooled(path) for path in commit.removed)

    def _is_pooled(self, path: str) -> bool:
        if path in self.moved:
            return True
        return path not in self.avoided if self.has[path] else bool(pool_of(self.held[path].etag))

    def _take(self, commit: Commit) -> None:
        for path in commit.removed:
            if path not in self.moved and self.has[path]:
                self.read.append(pooled(self.added[path], self.pool, Reading.ONCE))
            elif path in self.held:
                self.read.append(FileInfo(path, 0, 0))
            self.has.pop(path, None)
            self.moved.pop(path, None)
            self.over.add(path)
        self.moved.update(commit.added)
        self.read += commit.changes or ()

    def found(self, there: Mapping[str, FileInfo], other: Set[str]) -> list[FileInfo]:
        """What the step reads and takes back."""
        found = list(self.read)
        for path, new in self.has.items():
            if path not in there and not new:
                info = self.held[path]
                kept = pool_of(info.etag)
                found.append(pooled(info, kept, Reading.REMOVED) if kept else FileInfo(path, 0, 0))
        for path, info in self.moved.items():
            if path in there:
                found.append(pooled(there[path], self.pool, Reading.NOTHING))
            else:
                found.append(pooled(info, self.pool, Reading.REMOVED))
        for path, info in there.items():
            if path in other:
                found.append(info)
            elif path not in self.moved and self.has.get(path, True):
                found.append(pooled(info, self.version.pool))
        return found


def _anew(there: Mapping[str, FileInfo], held: Mapping[str, FileInfo], pool: str) -> list[FileInfo]:
    """Take back all rows of the pool, and read its files again, each by itself."""
    found = [FileInfo(pool, 0, 0)]
    found += [FileInfo(path, 0, 0) for path in held if path not in there]
    for path, info in there.items():
        if path not in held or pool_of(held[path].etag) or not _same(held[path], info):
            found.append(info)
    return found


def _explaining(gone: Set[str], commits: Iterator[Commit]) -> list[Commit]:
    """The last commits, the first of them first, as far back as one removed a file that is gone; none if some file was
    removed by none."""
    found: list[Commit] = []
    left = set(gone)
    for commit in commits:
        found.append(commit)
        left -= commit.removed
        if not left:
            return found[::-1]
    return []


def _same(held: FileInfo, listed: FileInfo) -> bool:
    """Whether a file is unchanged, wherever its rows are."""
    plain = pooled(held, "") if pool_of(held.etag) else held
    return (plain.size, plain.etag) == (listed.size, listed.etag)


def _pool_itself(pool: str) -> FileInfo:
    """The pool as a file of which nothing is read: so that its rows can be taken back."""
    return FileInfo(pool, 1, 0, etag_of(Beside(pool=pool, reading=Reading.NOTHING)))
