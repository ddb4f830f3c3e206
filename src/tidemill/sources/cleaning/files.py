"""Deletes or moves files that have been read and have not changed since.

A file that is gone already counts as done, so cleaning can be repeated after it was interrupted anywhere. A file is
checked just before it is deleted; if a writer replaces it in the moment between, the new content is lost.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import BaseError

from tidemill.errors import TidemillError
from tidemill.objectstore.connection import Connection, split_url
from tidemill.objectstore.faults import numbered
from tidemill.objectstore.object_file import ObjectFile, find_object
from tidemill.sources.cleaning.options import CleanSource
from tidemill.sources.file_info import FileInfo
from tidemill.sources.files import file_info
from tidemill.sources.locations.extent import Extent
from tidemill.sources.locations.location import Location
from tidemill.sources.objects.listing import PAGE_KEYS, object_versions

_AT_ONCE = 8
"""Concurrent requests of one object each."""

_MOST_COPIED = 5 << 30
"""The largest object in bytes that a store copies in one request; larger ones are read and written."""

_PIECE, _MOST_PIECES = 16 << 20, 10_000
"""Fewest bytes of a part of a multipart upload, and most parts of one."""

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)

Stop = Callable[[], bool]
"""Returns whether to stop and leave the other files for a later call."""


@dataclass
class Outcome:
    """Result of cleaning, by path: deleted or moved, left because they have changed, or failed."""

    cleaned: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    failed: dict[str, TidemillError] = field(default_factory=dict)


def clean(location: Location, rule: CleanSource, files: Iterable[FileInfo], stop: Stop = lambda: False) -> Outcome:
    """Clean files of a location, given as they were when they were read; files without an outcome were not tried."""
    outcome = Outcome()
    if location.objects:
        _Objects(location, rule, outcome).clean(sorted(files, key=lambda f: f.path), stop)
        return outcome
    extent = Extent(location)
    for file in files:
        if stop():
            break
        try:
            found = file_info(file.path)
            if found is not None and not _same(file, found):
                outcome.changed.append(file.path)
                continue
            if found is not None and rule.archive:
                _archive(Path(file.path), Path(rule.archive), extent.below(file.path), found)
            elif found is not None:
                Path(file.path).unlink(missing_ok=True)
            outcome.cleaned.append(file.path)
        except OSError as error:
            outcome.failed[file.path] = _unfit(file.path, error)
    return outcome


def _same(read: FileInfo, now: FileInfo) -> bool:
    if read.size != now.size:
        return False
    if read.etag and now.etag:
        return read.etag.strip('"') == now.etag.strip('"')
    return read.modified == now.modified


def _unfit(path: str, error: OSError) -> TidemillError:
    return TidemillError(
        "TM5082",
        "files that were read cannot be cleaned",
        got=f"{error.filename or path}: {error.strerror}",
        hint="check permissions and space",
    )


def suffixed(path: str, number: int) -> str:
    """A numbered variant of a path: ``a.csv.gz``, ``a.1.csv.gz``, and so on."""
    above, slash, name = path.rpartition("/")
    begin, dot, end = name.partition(".")
    return path if number == 0 else f"{above}{slash}{begin}.{number}{dot}{end}"


# -- local files ------------------------------------------------------------------------------------


def _archive(path: Path, archive: Path, below: str, read: FileInfo) -> None:
    """Move a file to a free name. If an interrupted move has already copied it there, it is only deleted."""
    wanted = archive / below
    wanted.parent.mkdir(parents=True, exist_ok=True)
    if not wanted.parent.resolve().is_relative_to(archive.resolve()):
        raise OSError(errno.ELOOP, "a link leads out of sourceArchiveDir", str(wanted.parent))
    for target in (Path(suffixed(str(wanted), number)) for number in count()):
        try:
            there = target.lstat()
            if (there.st_size, there.st_mtime_ns) == (read.size, read.modified):
                path.unlink(missing_ok=True)
                return
        except FileNotFoundError:
            if _moved(path, target):
                return


def _moved(path: Path, target: Path) -> bool:
    """Move a file unless the target exists; returns whether it was moved."""
    try:
        os.link(path, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno == errno.EXDEV:
            return _copied(path, target)
        if error.errno not in _NO_LINKS:
            raise
        path.replace(target)
        return True
    path.unlink(missing_ok=True)
    return True


def _copied(path: Path, target: Path) -> bool:
    """Move a file to another file system: the copy is complete and synced before the original is deleted."""
    partial = target.with_name(f".{target.name}.tidemill")
    try:
        with path.open("rb") as source, partial.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
            copy.flush()
            shutil.copystat(path, partial)
            os.fsync(copy.fileno())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    path.unlink(missing_ok=True)
    return True


# -- objects ----------------------------------------------------------------------------------------


class _Objects:
    """Cleans objects of one store, a page of them with one or two listings and one deletion.

    It stops at the first request that fails; the store is tried again later.
    """

    def __init__(self, location: Location, rule: CleanSource, outcome: Outcome) -> None:
        self._connection: Connection = location.connection
        self._extent = Extent(location)
        self._rule = rule
        self._outcome = outcome
        self._url = self._extent.store

    def clean(self, files: Sequence[FileInfo], stop: Stop) -> None:
        """Clean objects, sorted by URL."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="clean") as pool:
            for start in range(0, len(files), PAGE_KEYS):
                if stop():
                    return
                some = files[start : start + PAGE_KEYS]
                try:
                    self._clean(some, pool)
                except TidemillError as error:
                    done = {*self._outcome.cleaned, *self._outcome.changed}
                    self._outcome.failed |= {f.path: error for f in some if f.path not in done}
                    return

    def _clean(self, files: Sequence[FileInfo], pool: ThreadPoolExecutor) -> None:
        here = self._as_read(files)
        if self._rule.archive and here:
            archived = list(pool.map(self._archived, here))
            here = self._as_read([f for f, whole in zip(here, archived, strict=True) if whole])
        if here:
            self._request(lambda store: obstore.delete(store, [split_url(f.path)[1] for f in here]))
        self._outcome.cleaned += [f.path for f in here]

    def _as_read(self, files: Sequence[FileInfo]) -> list[FileInfo]:
        """The files that have not changed since they were read; the outcome of the others is recorded."""
        now = object_versions(self._url, [split_url(f.path)[1] for f in files], self._connection)
        found = []
        for file in files:
            info = now.get(split_url(file.path)[1])
            if info is None:
                self._outcome.cleaned.append(file.path)
            elif _same(file, info):
                found.append(file)
            else:
                self._outcome.changed.append(file.path)
        return found

    def _archived(self, file: FileInfo) -> bool:
        """Copy an object to a free name unless that was done already; returns False if the object is gone."""
        wanted = f"{self._rule.archive}/{self._extent.below(file.path)}"
        for url in (suffixed(wanted, number) for number in count()):
            try:
                there = find_object(url, self._connection)
                if there.size == file.size and there.etag.strip('"') == file.etag.strip('"'):
                    return True
            except TidemillError as error:
                if error.number != "TM5001":
                    raise
                break
        try:
            self._request(lambda store: self._copy(store, file, split_url(url)[1]))
        except TidemillError as error:
            if error.number != "TM5001":
                raise
            return False
        return True

    def _copy(self, store: Any, file: FileInfo, key: str) -> None:
        source = split_url(file.path)[1]
        if file.size <= _MOST_COPIED:
            obstore.copy(store, source, key)
        else:
            self._write(store, file, key)

    def _write(self, store: Any, file: FileInfo, key: str) -> None:
        """Copy by reading and writing; an interrupted upload leaves no object."""
        opened = ObjectFile(file.path, file.size, file.etag, file.modified, self._connection)
        piece = max(_PIECE, -(-file.size // _MOST_PIECES))
        writer = obstore.open_writer(store, key, buffer_size=piece)
        for position in range(0, file.size, piece):
            writer.write(opened.read_at(position, min(piece, file.size - position)))
        writer.close()

    def _request(self, request: Callable[[Any], Any]) -> None:
        try:
            request(self._connection.store(self._url))
        except (BaseError, OSError, ValueError) as error:
            raise numbered(error, self._url) from None
