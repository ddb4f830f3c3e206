"""The run files of a root, opened at most once per process.

What tasks seal lies in the buffer directory of their host (``.run``): mapped by every process there, and lost with the
host. What a checkpoint made of it lies among the objects of the root (``.sst``), for good.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

from tidemill.errors import TidemillError
from tidemill.state.keys.keys import VNODES
from tidemill.state.lookup import lookup
from tidemill.state.merge.merge import Rows
from tidemill.state.merge.unordered import Unordered
from tidemill.state.runs import derived, sst
from tidemill.state.runs.sst import Part, Parts
from tidemill.state.store.file_errors import not_fetched, not_here, told
from tidemill.state.store.file_names import NAME, host_of, this_host
from tidemill.state.store.opened_ranges import Opened, OpenedRanges
from tidemill.state.versions.objects import STAGED, Objects, Stored, staged_in
from tidemill.state.versions.version import RUN, SST, Run, Version

OBJECTS = "sst/"
_CLAIM = ".claim"
_SEALED = "sealed.json"
_OPEN_FILES = 4096
UNNEEDED_FILES, UNNEEDED_BYTES = 256, 64 << 20
"""Most files, and bytes of files, that a process keeps mapped although its version does not name them."""
_IN_MEMORY = 64 << 10
"""Bytes of a run from which on it is written to a file to be mapped."""
_LOOK_SECONDS = 1.0
_TRIM_SECONDS, _TRIM_FILES = 0.1, 64
_looked_at: dict[str, float] = {}
_trimmed: dict[str, tuple[float, int]] = {}
"""By prefix of a root when files that are not needed were last let go, and how many had been opened by then."""
_open: OrderedDict[str, sst.RunFile] = OrderedDict()
_ranges = OpenedRanges()
_lock = threading.Lock()
_T = TypeVar("_T")


def partition_vnodes(partition: int, partitions: int) -> tuple[int, int]:
    """The vnodes ``low <= v < high`` that a partition owns."""
    return -(-partition * VNODES // partitions), -(-(partition + 1) * VNODES // partitions)


def default_buffer(objects: Objects) -> Path:
    """The default directory for state that is not durable yet."""
    if objects.directory is not None:
        return objects.directory / "buffer"
    return Path(tempfile.gettempdir()) / "tidemill" / hashlib.sha256(objects.url.encode()).hexdigest()[:16]


class RunStore:
    """Reads and writes the run files of one root. It can be pickled.

    Files are immutable and their names unique, so a process keeps what it has mapped; a name is never
    reused, also not by the retry of a failed attempt.

    Parameters
    ----------
    objects : Objects
        Where checkpoints go.
    buffer : Path
        Directory of this host for files that are not durable yet, and for copies of objects of an object store.
        ``{host}`` in it is replaced by the name of the host that opens the store.
    """

    def __init__(self, objects: Objects, buffer: Path) -> None:
        self.objects = objects
        self.buffer = Path(str(buffer).replace("{host}", this_host()))
        self._prefix = f"{self.buffer}{os.sep}"
        self._given = buffer
        durable = objects.path(OBJECTS)
        self._durable = self._prefix if durable is None else f"{durable}{os.sep}"

    def __reduce__(self) -> tuple[type[RunStore], tuple[Objects, Path]]:
        return (RunStore, (self.objects, self._given))

    def path(self, file: str) -> Path:
        """The path of a file, or of its copy on this host."""
        return Path(self._path(file))

    def _path(self, file: str) -> str:
        return (self._durable if file.endswith(SST) else self._prefix) + file

    def check_buffer(self) -> None:
        """Create this host's buffer directory and check that files can be created in it.

        A full disk is no error here: writing reports it, and space may be freed until then.

        Raises
        ------
        TidemillError
            TM1022 when that fails.
        """
        try:
            self.buffer.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.buffer):
                pass
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return
            raise TidemillError(
                "TM1022",
                "the buffer directory cannot be written to",
                got=f"{self.buffer}: {error.strerror or error}",
                hint="fix its permissions, or give another directory with the setting buffer_directory; "
                "nothing was changed",
            ) from error

    def open(self, run: Run) -> Rows:
        """A whole run, memory-mapped.

        Raises
        ------
        TidemillError
            TM1010 when the file is missing, TM1011 when it is corrupt, TM1002 for another format; TM1018 and TM1019
            for a file of a buffer that is missing or corrupt here.
        """
        return self._opened(run, lambda file, section: file.rows(section, partial(self._kept, run)))

    def open_unordered(self, run: Run) -> Unordered:
        """A run that is not in order, as it was sealed. Errors as :meth:`open`."""
        return self._opened(run, sst.RunFile.unordered)

    def _kept(self, run: Run, rows: Rows) -> Rows:
        """A run that this process has put in order: if it is large, mapped, so that it takes no memory of its own."""
        if rows.nbytes < _IN_MEMORY:
            return rows
        try:
            return self.spill(run.epoch_high, Part(run.table, rows, self.section(run).ops))[0]
        except TidemillError as error:
            if error.number != "TM1012":
                raise
            return rows  # there is no room on disk, or this process may only read

    def _opened(self, run: Run, read: Callable[[sst.RunFile, int], _T]) -> _T:
        try:
            return self._read(run, read)
        except TidemillError:
            with _lock:
                _unmap([self._path(run.file)])
            if run.file.endswith(SST) and self.objects.directory is None:
                self.path(run.file).unlink(missing_ok=True)  # only the copy may be damaged
        try:
            return self._read(run, read)  # it may have been mended since it was mapped
        except TidemillError as error:
            if run.file.endswith(SST) or self.path(run.file).exists():
                raise
            raise not_here(run.file, error) from error

    def check(self, run: Run) -> None:
        """TM1011 when another file has the name of a run's file. Other errors as :meth:`open`."""
        self.file(run.file).check(run.section, run.table, run.rows, run.bytes)

    def _read(self, run: Run, read: Callable[[sst.RunFile, int], _T]) -> _T:
        self.check(run)
        return read(self.file(run.file), run.section)

    def file(self, name: str) -> sst.RunFile:
        """A file, mapped. Errors as :meth:`open`, for its footer."""
        key = self._path(name)
        with _lock:
            file = _open.get(key)
            if file is None or file.damaged:  # it may have been mended since it was mapped
                path = Path(key)
                if name.endswith(SST) and self.objects.directory is None and not path.exists():
                    self._fetch(name, path)
                file = _open[key] = sst.RunFile(path)
                if len(_open) > _OPEN_FILES:
                    _unmap([next(iter(_open))])
            else:
                _open.move_to_end(key)
            return file

    def let_go(self, needed: Collection[str] | None = None) -> None:
        """Unmap deleted files of this root, and those that are not ``needed`` if they are many.

        Readers are not notified when files are deleted, and the disk space is freed with the last mapping; with
        ``needed`` deleted files are looked for once a second, and files that are not needed ten times a second, or when
        many were opened: of these the most recently used stay mapped, up to a number and bytes.
        """
        now = time.monotonic()
        at, opened = _trimmed.get(self._prefix, (0.0, 0))
        if needed is not None and now < at + _TRIM_SECONDS and sst.RunFile.opened < opened + _TRIM_FILES:
            return
        with _lock:
            _trimmed[self._prefix] = now, sst.RunFile.opened
            look = needed is None or now >= _looked_at.get(self._prefix, 0.0) + _LOOK_SECONDS
            if not look and len(_open) <= UNNEEDED_FILES and sum(f.bytes for f in _open.values()) <= UNNEEDED_BYTES:
                return
            if look:
                _looked_at[self._prefix] = now
            mine = [key for key in _open if key.startswith((self._prefix, self._durable))]
            keep = {self._path(name) for name in needed or ()}
            others = [key for key in mine if key not in keep]
            gone, size = [], 0
            for files, key in enumerate(reversed(others), start=1):
                size += _open[key].bytes
                many = needed is not None and (files > UNNEEDED_FILES or size > UNNEEDED_BYTES)
                if many or (look and not Path(key).exists()):
                    gone.append(key)
            _unmap(gone)
        derived.forget_files(frozenset(gone))

    def _fetch(self, name: str, path: Path) -> None:
        try:
            self.objects.download(OBJECTS + name, path)
        except FileNotFoundError as error:
            raise sst.missing(f"{self.objects}/{OBJECTS}{name}") from error
        except OSError as error:
            raise not_fetched(error) from error

    def open_range(self, table_runs: Iterable[Run], low: int, high: int) -> list[Rows]:
        """Non-empty runs of a table, each restricted to the vnodes ``low <= v < high``, oldest first.

        What is opened again is not read again: tables of many runs are opened in every epoch.
        """
        runs = tuple(table_runs)
        if not runs:
            return []
        range_ = self._prefix, runs[0].table, low, high
        with _lock:
            opened, since = _ranges.get(range_)
        if opened is None or not opened.is_of(runs):
            had = {} if opened is None else opened.rows
            rows = {id(r): had[id(r)] if id(r) in had else self._part(r, low, high) for r in runs}
            opened = Opened(runs, rows, [part[1] for part in rows.values() if part is not None and len(part[1])])
        with _lock:
            _ranges.keep(range_, opened, since)
            for part in opened.rows.values():
                if part is not None and part[0] in _open:
                    _open.move_to_end(part[0])
        return list(opened.found)

    def _part(self, run: Run, low: int, high: int) -> tuple[str, Rows] | None:
        """The path of a run and its rows in a range of vnodes, None if it is for others."""
        if not run.overlaps(low, high):
            return None
        path = self._path(run.file)
        file, range_ = _open.get(path), (max(low, run.vnode_low), min(high, run.vnode_high))
        rows = file.known(run.section, run.table, run.rows, run.bytes, range_) if file is not None else None
        return path, self._range(run, range_, path) if rows is None else rows

    def _range(self, run: Run, range_: tuple[int, int], path: str) -> Rows:
        """Open a run, restricted to some vnodes; the file that has its rows remembers them."""
        file, rows = self._opened(run, lambda file, section: (file, file.rows(section, partial(self._kept, run))))
        start, stop = 0, len(rows)
        if range_ != (run.vnode_low, run.vnode_high):
            start, stop = lookup.vnode_rows(rows, *range_)
            rows = rows.slice(start, stop)
        rows = rows.at((path, run.section, start, stop))
        with _lock:
            if _open.get(path) is file:  # else its rows would keep a file mapped that is let go
                file.note(run.section, range_, rows)
        return rows

    def open_between(self, table_runs: Iterable[Run], low: bytes, high: bytes) -> list[Rows]:
        """Non-empty runs, each restricted to keys ``low <= key < high``, in the order given."""
        found = []
        for run in table_runs:
            rows = self.open(run)
            first, end = run.keys
            start = 0 if low <= first else lookup.lower_bound(rows, low)
            stop = len(rows) if end <= high else lookup.lower_bound(rows, high)
            if start < stop:
                found.append(rows if stop - start == len(rows) else rows.slice(start, stop))
        return found

    def section(self, run: Run) -> sst.Section:
        """What the file of a run says about it. Errors as :meth:`open`."""
        return self._opened(run, lambda file, section: file.sections[section])

    def write(self, epoch: int, tables: Parts, label: str) -> list[Run]:
        """Seal tables into one new file of the buffer; empty ones are left out.

        Returns
        -------
        list of Run
            One per non-empty table, visible from ``epoch`` on, holding changes of ``epoch``.
        """
        full = (Part(*part) for part in tables if len(part[1]))
        first = next(full, None)
        if first is None:
            return []
        name = f"e{epoch:010d}-{this_host()}-{label}-{uuid.uuid4().hex}.run"
        parts = (p if p.epochs[1] else p._replace(epochs=(epoch, epoch)) for p in chain((first,), full))
        del first  # written parts are not kept
        sections = sst.write(self.path(name), parts)
        written = []
        for i, section in enumerate(sections):
            place = (section.table, name, i, section.rows, section.length)
            written.append(Run(*place, epoch, epoch, epoch, None, *section.vnodes))
        return written

    def spill(self, epoch: int, part: Part) -> tuple[Rows, int]:
        """Write rows to an unlinked file of the buffer: its space is freed with the last mapping.

        Returns
        -------
        rows : Rows
            The same rows, mapped.
        size : int
            Bytes of the file.

        Raises
        ------
        TidemillError
            TM1012 when it cannot be written.
        """
        path = self.path(f"e{epoch:010d}-{this_host()}-spill-{uuid.uuid4().hex}.run")
        try:
            sst.write(path, [part])
            size = path.stat().st_size
            return sst.RunFile(path).rows(0), size
        finally:
            with contextlib.suppress(OSError):
                path.unlink()

    def write_object(self, epoch: int, part: Part, label: str) -> Run:
        """Write rows directly to a durable object; it is not visible until a version names it.

        Parameters
        ----------
        epoch : int
            The newest whose changes the rows hold.
        label : str
            Part of the name, by which garbage collection recognises objects that are being written.

        Raises
        ------
        TidemillError
            TM1012, TM1014 or TM1015 when it cannot be written.
        """
        name = f"m{epoch:010d}-{this_host()}-{label}-{uuid.uuid4().hex}{SST}"
        (section,) = self.write_durable(name, [part])
        place = (section.table, name, 0, section.rows, section.length)
        return Run(*place, epoch, epoch, epoch, None, *section.vnodes)

    def takes_files(self) -> bool:
        """Whether files of the buffer become objects without a copy."""
        return self.objects.takes_files_of(self.buffer, OBJECTS)

    def keep(self, file: str, name: str) -> None:
        """Make a file of the buffer a durable object, as it is. TM1012 when that fails."""
        with told():
            self.objects.put(OBJECTS + name, self.path(file))

    def write_durable(self, name: str, parts: Iterable[Part]) -> tuple[sst.Section, ...]:
        """Write a durable object; returns its sections. Errors as :meth:`write_object`."""
        staged = self.path(f"{uuid.uuid4().hex}{STAGED}") if self.objects.directory else self.path(name)
        sections = sst.write(staged, parts)
        try:
            with told():
                self.objects.put(OBJECTS + name, staged)
        except TidemillError as error:
            if error.number == "TM1014":
                staged.unlink(missing_ok=True)
            raise
        if self.objects.directory is not None:
            staged.unlink()
        return sections

    def check_present(self, files: Iterable[str], present: Collection[str] | None = None) -> None:
        """TM1010 when a durable file is not ``present`` (default: listed now); TM1016 when listing fails."""
        listed = self.present() if present is None else present
        gone = sorted(f for f in files if f.endswith(SST) and f not in listed)
        if gone:
            more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            raise sst.missing(f"{self.objects}/{OBJECTS}{gone[0]}{more}")

    def present(self) -> frozenset[str]:
        """Names of all durable objects. TM1016 when they cannot be listed."""
        try:
            return frozenset(name for name, _ in self.durable())
        except OSError as error:
            raise not_fetched(error) from error

    def sections(self, file: str) -> tuple[sst.Section, ...]:
        """The sections of a file. Errors as :meth:`open`."""
        return self.file(file).sections

    def damage(self, file: str) -> dict[int, str]:
        """Corrupt sections of a file, with what is wrong; reads every byte. Errors as :meth:`open` for the footer."""
        return self.file(file).damage()

    def verify(self, file: str) -> int:
        """Check every byte of a file again; returns the number of its sections. Errors as :meth:`open`."""
        with _lock:
            _unmap([self._path(file)])
        opened = self.file(file)
        opened.verify()
        return len(opened.sections)

    def check_buffered(self, runs: Iterable[Run]) -> None:
        """TM1018 for the first file of this host's buffer that is gone; none is opened."""
        for file in {run.file for run in runs if not run.is_durable}:
            if host_of(file) == this_host() and not self.path(file).exists():
                raise sst.missing(self.path(file))

    def reachable(self, file: str) -> bool:
        """Whether a file can probably be read on this host; it is not opened."""
        return file.endswith(SST) or host_of(file) == this_host() or self.path(file).exists()

    def has(self, file: str) -> bool:
        """Whether a file can be opened on this host without fetching it."""
        return self.path(file).exists()

    def claim(self, job: str) -> bool:
        """Claim a job; returns whether this process is the first on its host. Claims of earlier jobs are deleted."""
        self.buffer.mkdir(parents=True, exist_ok=True)
        for old in self.buffer.glob(f"*{_CLAIM}"):
            if old.name != f"{job}{_CLAIM}":
                old.unlink(missing_ok=True)
        try:
            (self.buffer / f"{job}{_CLAIM}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def note_sealed(self, writer: str, version: Version) -> None:
        """Write down which files of buffers a version needs, for ``tidemill state ls`` only.

        Parameters
        ----------
        writer : str
            The writer, as in manifests.
        """
        needed = {r.file for r in version.every() if not r.is_durable}
        staged = self.buffer / f"{uuid.uuid4().hex}{STAGED}"
        try:
            staged.write_text(json.dumps({"writer": writer, "epoch": version.epoch, "files": sorted(needed)}))
            staged.replace(self.buffer / _SEALED)
        except OSError:  # such as a full disk, which is reported by whatever needs the space
            with contextlib.suppress(OSError):
                staged.unlink(missing_ok=True)

    def sealed(self, writer: str) -> tuple[int, frozenset[str]] | None:
        """The newest epoch that a writer on this host has sealed, and the files of buffers that it needs.

        None if it has sealed none.
        """
        try:
            noted = json.loads((self.buffer / _SEALED).read_text())
        except (OSError, ValueError):
            return None
        return (noted["epoch"], frozenset(noted["files"])) if noted["writer"] == writer else None

    def evict(self, files: Iterable[str]) -> None:
        """Delete files of the buffer, and copies of objects; a process that has one mapped can go on reading it."""
        for name in files:
            if not name.endswith(SST) or self.objects.directory is None:
                self.path(name).unlink(missing_ok=True)
            with _lock:
                _unmap([self._path(name)])

    def remove(self, files: Iterable[str]) -> None:
        """Delete durable objects for good, with copies of them. OSError when that fails."""
        names = list(files)
        self.evict(names)
        self.objects.remove(OBJECTS + name for name in names)

    def buffered(self) -> list[tuple[str, float]]:
        """Names and modification times (seconds) of this host's run files."""
        return [(name, at) for name, at in _entries(self.buffer, RUN) if NAME.fullmatch(name)]

    def copies(self) -> list[tuple[str, float]]:
        """Names and modification times of this host's copies of objects of an object store."""
        return [] if self.objects.directory is not None else _entries(self.buffer, SST)

    def staged(self) -> list[tuple[str, float]]:
        """Paths and modification times of staged files on this host: being written, or left by a dead writer."""
        return [*staged_in(self.buffer), *self.objects.staged(OBJECTS)]

    def sweep(self, paths: Iterable[str]) -> None:
        """Delete files that :meth:`staged` returned."""
        for path in paths:
            Path(path).unlink(missing_ok=True)

    def durable(self) -> list[tuple[str, float]]:
        """Names and modification times (seconds) of the objects that checkpoints wrote."""
        return [(s.name, s.modified) for s in self.stored()]

    def stored(self) -> list[Stored]:
        """The objects that checkpoints wrote, by their names as files."""
        found = self.objects.list(OBJECTS)
        return [Stored(s.name.removeprefix(OBJECTS), s.bytes, s.modified) for s in found if s.name.endswith(SST)]


def _unmap(keys: Collection[str]) -> None:
    """Close files; a mapping lives as long as any rows of it. The caller holds the lock."""
    gone = {key: file for key in keys if (file := _open.pop(key, None)) is not None}
    for file in gone.values():
        file.forget()
    if gone:
        _ranges.forget(gone.keys())


def _entries(directory: Path, ending: str) -> list[tuple[str, float]]:
    """Names and modification times of files in a directory, if there is one."""
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # it went meanwhile
                if entry.name.endswith(ending):
                    found.append((entry.name, entry.stat().st_mtime))
    return found
