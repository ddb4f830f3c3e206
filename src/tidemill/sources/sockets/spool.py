"""The durable spool of one table: what came over its connections, as files that only grow.

A segment is a file of whole messages, lines or the records of a format of bytes, behind a line of Tidemill's own; its
name says how many bytes came before it. Beside a segment that may not be on the disk yet lies a file of marks: the end
of each batch and its checksum. After a crash a segment is cut behind its last whole batch, so it never ends within a
message. What :meth:`Spool.sync` has returned for outlives the machine; what :meth:`Spool.append` has, the process.

One thread appends; any may ask for the segments, sync, or delete segments that are complete.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

HEAD = b"#tm\n"
"""What a segment begins with: so no message stands where a format looks for a header or a byte order mark."""

SEGMENT_BYTES = 16 << 20
"""A segment that has so many bytes is complete."""

_SUFFIX, _MARKS = ".segment", ".marks"
_MARK = struct.Struct("<QI")


def base_of(path: str) -> int:
    """How many bytes of messages came before a segment."""
    return int(Path(path).stem)


@dataclass
class Segment:
    """A file of the spool: ``base`` bytes of messages came before it; ``size`` is that of the file, so far."""

    path: Path
    base: int
    size: int

    @property
    def end(self) -> int:
        """How many bytes of messages came up to its end."""
        return self.base + self.size - len(HEAD)


class Spool:
    """See above.

    Parameters
    ----------
    directory : path
        Made when it is missing; of this table alone.
    segment_bytes : int
        A segment is complete with the batch that takes it so far.

    Raises
    ------
    OSError
        The directory cannot be written or read; also from the methods. Nothing has been appended then.
    """

    def __init__(self, directory: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.directory = directory
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._file: int | None = None
        self._marks: int | None = None
        self._unsynced: dict[Path, None] = {}
        directory.mkdir(parents=True, exist_ok=True)
        self._segments = self._recovered()

    def _recovered(self) -> list[Segment]:
        """What an earlier process left: whole batches, none of them forgotten that was synced."""
        found = []
        for path in sorted(self.directory.glob(f"*{_SUFFIX}")):
            marks = path.with_suffix(_MARKS)
            if marks.exists():
                _cut(path, _whole(path, marks))
                self._unsynced[path] = None
            found.append(Segment(path, int(path.stem), path.stat().st_size))
        for marks in self.directory.glob(f"*{_MARKS}"):
            if not marks.with_suffix(_SUFFIX).exists():
                marks.unlink()
        return found

    def append(self, batch: bytes | bytearray | memoryview) -> None:
        """Add messages at the end. They outlive the process when this returns; a reader sees all of them or none."""
        if self._file is None:
            self._begin()
        assert self._file is not None and self._marks is not None
        segment = self._segments[-1]
        try:
            _write(self._file, batch)
            _write(self._marks, _MARK.pack(segment.size + len(batch), zlib.crc32(batch)))
        except OSError:
            os.ftruncate(self._file, segment.size)
            os.lseek(self._file, 0, os.SEEK_END)
            self._end()
            raise
        with self._lock:
            self._unsynced[segment.path] = None
            segment.size += len(batch)
        if segment.size >= self._segment_bytes:
            self._end()

    def complete(self) -> None:
        """The next batch begins a segment of its own."""
        self._end()

    def _begin(self) -> None:
        base = self._segments[-1].end if self._segments else 0
        path = self.directory / f"{base:020d}{_SUFFIX}"
        if self._segments and self._segments[-1].path == path:  # without a message: of a process that died just then
            with self._lock:
                self._segments.pop()
        # The marks are there before the segment: one without marks counts as synced.
        self._marks = os.open(path.with_suffix(_MARKS), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            _sync_file(self.directory)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            _write(self._file, HEAD)
        except OSError:
            self._end()
            raise
        with self._lock:
            self._segments.append(Segment(path, base, len(HEAD)))
            self._unsynced[path] = None

    def _end(self) -> None:
        for file in (self._file, self._marks):
            if file is not None:
                os.close(file)
        self._file = self._marks = None

    def segments(self) -> list[Segment]:
        """All of them as they are now, in order; what is appended later does not change the result."""
        with self._lock:
            return [Segment(s.path, s.base, s.size) for s in self._segments]

    @property
    def end(self) -> int:
        """How many bytes of messages came so far, those of deleted segments included."""
        with self._lock:
            return self._segments[-1].end if self._segments else 0

    @property
    def begin(self) -> int:
        """How many bytes of messages came before the oldest segment."""
        with self._lock:
            return self._segments[0].base if self._segments else 0

    def sync(self) -> None:
        """Put what was appended so far on the disk."""
        with self._lock:
            waiting, self._unsynced = self._unsynced, {}
            last = self._segments[-1].path if self._segments else None
            growing = self._file is not None
        try:
            for path in waiting:
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile: nobody needs it
                    _sync_file(path)
            if waiting:
                _sync_file(self.directory)
        except OSError:
            with self._lock:
                self._unsynced = {**waiting, **self._unsynced}
            raise
        for path in waiting:
            if not (growing and path == last):
                with self._lock:
                    again = path in self._unsynced
                if not again:
                    path.with_suffix(_MARKS).unlink(missing_ok=True)

    def delete(self, paths: Collection[str]) -> None:
        """Forget complete segments; the newest one is left, which says how many bytes came."""
        with self._lock:
            gone = [s for s in self._segments[:-1] if str(s.path) in paths]
            self._segments = [s for s in self._segments if s not in gone]
            for segment in gone:
                self._unsynced.pop(segment.path, None)
        for segment in gone:
            segment.path.unlink(missing_ok=True)
            segment.path.with_suffix(_MARKS).unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the files; may be called twice."""
        self._end()


def _write(file: int, data: bytes | bytearray | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _whole(path: Path, marks: Path) -> int:
    """The size of a segment up to the last batch that is there as it was written."""
    noted = marks.read_bytes()
    with path.open("rb") as file:
        if file.read(len(HEAD)) != HEAD:
            return 0
        size, most = len(HEAD), os.fstat(file.fileno()).st_size
        for end, checksum in _MARK.iter_unpack(noted[: len(noted) // _MARK.size * _MARK.size]):
            if not size < end <= most:
                break
            batch = file.read(end - size)
            if zlib.crc32(batch) != checksum:
                break
            size = end
    return size


def _cut(path: Path, size: int) -> None:
    """Make a file of the spool end there; one without its first line becomes one without messages."""
    with path.open("r+b") as file:
        if size == 0:
            file.write(HEAD)
            size = len(HEAD)
        file.truncate(size)


def _sync_file(path: Path) -> None:
    """Of a file its bytes, of a directory its names."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
