"""The run files of a root, opened at most once per process.

What tasks seal lies in the buffer directory of their host (``.run``): mapped by every process there, and lost with the
host. What a checkpoint made of it lies among the objects of the root (``.sst``), for good.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import tempfile
import threading
import uuid
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.state import lookup, sst
from tidemill.state.keys import VNODES, Keys
from tidemill.state.merge import MergeOp, Rows, merge
from tidemill.state.objects import Objects, UncertainError
from tidemill.state.sst import Part
from tidemill.state.version import Run, Swap

SST = ".sst"
OBJECTS = "sst/"
_CLAIM = ".claim"
_OPEN_FILES = 4096
_NAME = re.compile(r"e(\d{10,})-([0-9a-f]{8})-.+\.run")
_open: OrderedDict[str, sst.RunFile] = OrderedDict()
_lock = threading.Lock()


def partition_vnodes(partition: int, partitions: int) -> tuple[int, int]:
    """The vnodes ``low <= v < high`` that a partition owns."""
    return -(-partition * VNODES // partitions), -(-(partition + 1) * VNODES // partitions)


def epoch_of(file: str) -> int:
    """The epoch in the name of a run file: no version before it names the file."""
    match = _NAME.fullmatch(file)
    assert match is not None, file
    return int(match[1])


def host_of(file: str) -> str:
    """The host in the name of a run file."""
    match = _NAME.fullmatch(file)
    assert match is not None, file
    return match[2]


def this_host() -> str:
    """Eight hex digits for the machine this process runs on; ``TIDEMILL_HOST`` names it otherwise."""
    name = os.environ.get("TIDEMILL_HOST") or socket.gethostname()
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def default_buffer(objects: Objects) -> Path:
    """Where hosts keep what is not durable yet, if nothing else is said."""
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
        Directory of this host for what is not durable yet, and for copies of objects that are not files. ``{host}``
        in it stands for the host's name, in whichever process the store is opened.
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
        """Where a file lies, or its copy on this host would."""
        return Path(self._path(file))

    def _path(self, file: str) -> str:
        return (self._durable if file.endswith(SST) else self._prefix) + file

    def open(self, run: Run) -> Rows:
        """A whole run, memory-mapped.

        Raises
        ------
        TidemillError
            TM1010 when the file is missing, TM1011 when it is corrupt, TM1002 for another format; TM1018 and TM1019
            for a file of a buffer that is missing or corrupt here.
        """
        try:
            return self._file(run.file).rows(run.section)
        except TidemillError:
            with _lock:
                _open.pop(self._path(run.file), None)
        try:
            return self._file(run.file).rows(run.section)  # it may have been mended since it was mapped
        except TidemillError as error:
            if run.file.endswith(SST) or error.number == "TM1002":
                raise
            raise _not_here(run.file, error) from error

    def _file(self, name: str) -> sst.RunFile:
        key = self._path(name)
        with _lock:
            file = _open.get(key)
            if file is None:
                path = Path(key)
                if name.endswith(SST) and self.objects.directory is None and not path.exists():
                    self._fetch(name, path)
                file = _open[key] = sst.RunFile(path)
                if len(_open) > _OPEN_FILES:
                    _open.popitem(last=False)
            else:
                _open.move_to_end(key)
            return file

    def _fetch(self, name: str, path: Path) -> None:
        try:
            self.objects.download(OBJECTS + name, path)
        except FileNotFoundError as error:
            raise sst.missing(f"{self.objects}/{OBJECTS}{name}") from error
        except OSError as error:
            raise not_fetched(error) from error

    def open_range(self, table_runs: Iterable[Run], low: int, high: int) -> list[Rows]:
        """Runs cut to the vnodes ``low <= v < high``, oldest first, empty ones left out."""
        found = []
        for run in table_runs:
            if not run.overlaps(low, high):
                continue
            rows = self.open(run)
            start, stop = 0, len(rows)
            if run.vnode_low < low or run.vnode_high > high:
                start, stop = lookup.vnode_range(rows.keys, low, high)
                rows = rows.slice(start, stop)
            if len(rows.keys):
                origin = (self._path(run.file), run.section, start, stop)
                found.append(Rows(rows.keys, rows.values, origin))
        return found

    def write(self, epoch: int, tables: Sequence[Part], label: str) -> list[Run]:
        """Seal tables into one new file of the buffer; empty ones are left out.

        Returns
        -------
        list of Run
            One per non-empty table, visible from ``epoch`` on, holding changes of ``epoch``.
        """
        full = [part for part in tables if len(part[1].keys)]
        if not full:
            return []
        name = f"e{epoch:010d}-{this_host()}-{label}-{uuid.uuid4().hex}.run"
        sections = sst.write(self.path(name), full)
        written = []
        for i, (section, (_, rows, _)) in enumerate(zip(sections, full, strict=True)):
            low, high = _vnodes(rows.keys)
            place = (section.table, name, i, section.rows, section.length)
            written.append(Run(*place, epoch, epoch, epoch, vnode_low=low, vnode_high=high))
        return written

    def combine(self, groups: Sequence[Sequence[Run]], number: int, target_bytes: int) -> list[Swap]:
        """Make durable objects of runs of the buffer: one, or more when it would be larger than ``target_bytes``.

        Parameters
        ----------
        groups : sequence of sequences of Run
            The runs of a group hold changes of the same epochs of one table; they become one.
        number : int
            Of the checkpoint; for the name.

        Returns
        -------
        list of Swap
            For each group the run that takes its place.

        Raises
        ------
        TidemillError
            TM1010 and TM1011 when a run cannot be read, TM1012 when an object cannot be written.
        """
        swaps: list[Swap] = []
        left = list(groups)
        while left:
            size, count = 0, 0
            while count < len(left) and (not count or size + sum(r.bytes for r in left[count]) <= target_bytes):
                size += sum(r.bytes for r in left[count])
                count += 1
            swaps += self._combined(left[:count], f"c{number:010d}-{this_host()}-{uuid.uuid4().hex}{SST}")
            left = left[count:]
        return swaps

    def _combined(self, groups: Sequence[Sequence[Run]], name: str) -> list[Swap]:
        bounds: list[tuple[int, int]] = []

        def parts() -> Iterator[Part]:
            for group in groups:
                first = group[0]
                opened = [self.open(run) for run in group]
                ops = self._file(first.file).sections[first.section].ops
                multiset = ops == (MergeOp.SUM,) and opened[0].values[0].type == pa.int64()
                rows = merge(opened, ops, drop_zero=multiset)
                bounds.append(_vnodes(rows.keys))
                yield first.table, rows, ops

        staged = self.path(f"{uuid.uuid4().hex}.staged") if self.objects.directory else self.path(name)
        sections = sst.write(staged, parts())
        try:
            self.objects.put(OBJECTS + name, staged)
        except UncertainError as error:
            raise TidemillError(
                "TM1015",
                "a checkpoint failed",
                got=str(error),
                hint="mend the disk and run again: the last checkpoint is intact, and the mill continues from it",
            ) from error
        except OSError as error:
            staged.unlink(missing_ok=True)
            raise TidemillError(
                "TM1014",
                "a checkpoint could not be written",
                got=str(error).splitlines()[0],
                hint="free space or fix permissions and run again: the last checkpoint is intact",
            ) from error
        if self.objects.directory is not None:
            staged.unlink()
        swaps = []
        for i, (section, group, (low, high)) in enumerate(zip(sections, groups, bounds, strict=True)):
            run = group[0]
            place = (run.table, name, i, section.rows, section.length)
            new = Run(*place, run.epoch_low, run.epoch_high, run.added, run.removed, low, high)
            swaps.append(Swap(tuple(group), new))
        return swaps

    def check_present(self, files: Iterable[str], present: Collection[str] | None = None) -> None:
        """TM1010 when a durable one of some files is not ``present``, as listed now; TM1016 when nobody can tell."""
        try:
            listed = {name for name, _ in self.durable()} if present is None else present
        except OSError as error:
            raise not_fetched(error) from error
        gone = sorted(f for f in files if f.endswith(SST) and f not in listed)
        if gone:
            more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            raise sst.missing(f"{self.objects}/{OBJECTS}{gone[0]}{more}")

    def sections(self, file: str) -> tuple[sst.Section, ...]:
        """What lies in a file, by its footer. Errors as :meth:`open`."""
        return self._file(file).sections

    def verify(self, file: str) -> int:
        """Check every section of a file anew; returns how many there are. Errors as :meth:`open`."""
        with _lock:
            _open.pop(self._path(file), None)
        opened = self._file(file)
        for index in range(len(opened.sections)):
            opened.rows(index)
        return len(opened.sections)

    def reachable(self, file: str) -> bool:
        """Whether a file can be read here, as far as can be told without trying."""
        return file.endswith(SST) or host_of(file) == this_host() or self.path(file).exists()

    def claim(self, job: str) -> bool:
        """Whether this is the first process of this host that claims a job. Claims of earlier jobs are forgotten."""
        self.buffer.mkdir(parents=True, exist_ok=True)
        for old in self.buffer.glob(f"*{_CLAIM}"):
            if old.name != f"{job}{_CLAIM}":
                old.unlink(missing_ok=True)
        try:
            (self.buffer / f"{job}{_CLAIM}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def evict(self, files: Iterable[str]) -> None:
        """Delete files of the buffer, and copies of objects; a process that has one mapped can go on reading it."""
        for name in files:
            if not name.endswith(SST) or self.objects.directory is None:
                self.path(name).unlink(missing_ok=True)
            with _lock:
                _open.pop(self._path(name), None)

    def remove(self, files: Iterable[str]) -> None:
        """Delete durable objects for good, with copies of them. OSError when that fails."""
        names = list(files)
        self.evict(names)
        self.objects.remove(OBJECTS + name for name in names)

    def buffered(self) -> list[tuple[str, float]]:
        """Names and modification times (seconds) of this host's run files; other files are not ours."""
        if not self.buffer.exists():
            return []
        with os.scandir(self.buffer) as entries:
            return [(e.name, e.stat().st_mtime) for e in entries if _NAME.fullmatch(e.name)]

    def durable(self) -> list[tuple[str, float]]:
        """Names and modification times (seconds) of the objects that checkpoints wrote."""
        stored = self.objects.list(OBJECTS)
        return [(s.name.removeprefix(OBJECTS), s.modified) for s in stored if s.name.endswith(SST)]


def _not_here(file: str, error: TidemillError) -> TidemillError:
    """What it means that a file of a buffer cannot be read in this process."""
    if error.number == "TM1010" and host_of(file) != this_host():
        return TidemillError(
            "TM1019",
            "sealed state lies in the buffer of another host",
            got=error.got,
            hint="the mill makes it durable and repeats the epoch by itself; hosts that share a buffer directory are "
            "one host: give them the same TIDEMILL_HOST",
        )
    return TidemillError(
        "TM1018",
        "sealed state that was not durable yet is lost",
        got=error.got,
        hint="the mill goes back to the last durable epoch by itself, and reads again what came after it",
    )


def not_fetched(error: OSError) -> TidemillError:
    """TM1016: a durable state file, or the list of them, cannot be had now."""
    return TidemillError(
        "TM1016",
        "a state file could not be fetched",
        got=str(error).splitlines()[0],
        hint="nothing was changed; it is tried again with the next epoch or query",
    )


def _vnodes(keys: Keys) -> tuple[int, int]:
    """The range of vnodes of sorted keys, the upper end excluded."""
    if not len(keys):
        return 0, 0
    return int.from_bytes(keys[0][:2], "big"), int.from_bytes(keys[len(keys) - 1][:2], "big") + 1
