"""The run files of a root, opened at most once per process."""

from __future__ import annotations

import os
import re
import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path

from tidemill.state import lookup, runs
from tidemill.state.keys import VNODES, Keys
from tidemill.state.merge import Rows
from tidemill.state.version import Run

_OPEN_FILES = 4096
_NAME = re.compile(r"e(\d{10,})-.+\.run")
_open: OrderedDict[str, runs.RunFile] = OrderedDict()
_lock = threading.Lock()


def partition_vnodes(partition: int, partitions: int) -> tuple[int, int]:
    """The vnodes ``low <= v < high`` that a partition owns."""
    return -(-partition * VNODES // partitions), -(-(partition + 1) * VNODES // partitions)


def epoch_of(file: str) -> int:
    """The epoch in the name of a run file: no version before it names the file."""
    match = _NAME.fullmatch(file)
    assert match is not None, file
    return int(match[1])


class RunStore:
    """Reads and writes the run files below one directory.

    Files are immutable and their names unique, so a process keeps what it has mapped; a name is never
    reused, also not by the retry of a failed attempt.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._prefix = f"{directory}{os.sep}"

    def path(self, file: str) -> Path:
        """Where a run file lies."""
        return self.directory / file

    def open(self, run: Run) -> Rows:
        """A whole run, memory-mapped.

        Raises
        ------
        TidemillError
            TM1010 when the file is missing, TM1011 when it is corrupt, TM1002 for another format.
        """
        key = self._prefix + run.file
        with _lock:
            file = _open.get(key)
            if file is None:
                file = _open[key] = runs.RunFile(Path(key))
                if len(_open) > _OPEN_FILES:
                    _open.popitem(last=False)
            else:
                _open.move_to_end(key)
            return file.rows(run.section)

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
                origin = (self._prefix + run.file, run.section, start, stop)
                found.append(Rows(rows.keys, rows.values, origin))
        return found

    def write(self, epoch: int, tables: Sequence[tuple[str, Rows]], label: str) -> list[Run]:
        """Seal tables into one new file; empty ones are left out.

        Returns
        -------
        list of Run
            One per non-empty table, visible from ``epoch`` on, holding changes of ``epoch``.
        """
        full = [(t, r) for t, r in tables if len(r.keys)]
        if not full:
            return []
        name = f"e{epoch:010d}-{label}-{uuid.uuid4().hex}.run"
        sections = runs.write(self.path(name), full)
        written = []
        for i, (section, (_, rows)) in enumerate(zip(sections, full, strict=True)):
            low, high = _vnode(rows.keys, 0), _vnode(rows.keys, len(rows.keys) - 1) + 1
            place = (section.table, name, i, section.rows, section.length)
            written.append(Run(*place, epoch, epoch, epoch, vnode_low=low, vnode_high=high))
        return written

    def sync(self, files: Iterable[str]) -> None:
        """Force files and their directory to the disk."""
        for name in files:
            _fsync(self.path(name), os.O_RDONLY)
        if self.directory.exists():
            _fsync(self.directory, os.O_RDONLY | os.O_DIRECTORY)

    def remove(self, files: Iterable[str]) -> None:
        """Delete files; a process that has one mapped can go on reading it."""
        for name in files:
            self.path(name).unlink(missing_ok=True)
            with _lock:
                _open.pop(self._prefix + name, None)

    def listing(self) -> list[tuple[str, float]]:
        """Names and modification times (seconds) of all run files present; other files are not ours."""
        if not self.directory.exists():
            return []
        with os.scandir(self.directory) as entries:
            return [(e.name, e.stat().st_mtime) for e in entries if _NAME.fullmatch(e.name)]


def _fsync(path: Path, flags: int) -> None:
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError as error:
        raise runs.missing(path) from error
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _vnode(keys: Keys, row: int) -> int:
    return int.from_bytes(keys[row][:2], "big")
