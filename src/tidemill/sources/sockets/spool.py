"""The durable spool of one table: the messages of its connections, in append-only files.

A segment is a file of complete messages (lines, or records of a binary format) after a header line; its name has the
numbers of bytes and of lines of messages before it. Until a segment is synced, a file of marks beside it has the end
and checksum of each batch. After a crash a segment is truncated after its last intact batch, so it never ends within a
message. Batches survive a crash of the process once :meth:`Spool.append` has returned, of the machine once
:meth:`Spool.sync` has.

One thread appends; any thread may list segments, sync, or delete complete segments.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from isal import isal_zlib

HEAD = b"#tm\n"
"""First line of a segment, so that no message is taken for a header or a byte order mark."""

SEGMENT_BYTES = 16 << 20
"""Bytes from which on a segment is complete."""

_TAIL_BYTES = 4 << 10
"""In which the last line is looked for."""

_SUFFIX, _MARKS = ".segment", ".marks"
_MARK = struct.Struct("<QI")


def base_of(path: str) -> int:
    """Bytes of messages before a segment."""
    return int(Path(path).stem.partition("-")[0])


def _lines_before(path: Path) -> int:
    """Lines before a segment; 0 where its name does not have them."""
    return int(path.stem.partition("-")[2] or 0)


@dataclass
class Segment:
    """A file of the spool: ``base`` bytes of messages are before it; ``size`` is the current size of the file."""

    path: Path
    base: int
    size: int

    @property
    def end(self) -> int:
        """Bytes of messages up to its end."""
        return self.base + self.size - len(HEAD)


class Spool:
    """The spool of one table.

    Parameters
    ----------
    directory : path
        Created if missing; used by this table only.
    segment_bytes : int
        A segment is complete when it has this many bytes.

    Raises
    ------
    OSError
        The directory cannot be written or read; also raised by the methods. Then nothing has been appended.
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
        self._lines = _lines_up_to(self._segments[-1].path) if self._segments else 0

    def _recovered(self) -> list[Segment]:
        """The segments of an earlier process, truncated after their last intact batch; synced batches are kept."""
        found = []
        for path in sorted(self.directory.glob(f"*{_SUFFIX}")):
            marks = path.with_suffix(_MARKS)
            if marks.exists():
                _cut(path, _whole(path, marks))
                self._unsynced[path] = None
            found.append(Segment(path, base_of(path.name), path.stat().st_size))
        for marks in self.directory.glob(f"*{_MARKS}"):
            if not marks.with_suffix(_SUFFIX).exists():
                marks.unlink()
        return found

    def append(self, batch: bytes | bytearray | memoryview) -> None:
        """Append messages. They survive a crash of the process; a reader sees all of them or none."""
        if self._file is None:
            self._begin()
        assert self._file is not None and self._marks is not None
        segment = self._segments[-1]
        try:
            _write(self._file, batch)
            _write(self._marks, _MARK.pack(segment.size + len(batch), isal_zlib.crc32(batch)))
        except OSError:
            os.ftruncate(self._file, segment.size)
            os.lseek(self._file, 0, os.SEEK_END)
            self._end()
            raise
        with self._lock:
            self._unsynced[segment.path] = None
            segment.size += len(batch)
            self._lines += _lines_in(batch)
        if segment.size >= self._segment_bytes:
            self._end()

    def complete(self) -> None:
        """Complete the segment; the next batch begins a new one."""
        self._end()

    def _begin(self) -> None:
        base = self._segments[-1].end if self._segments else 0
        path = self.directory / f"{base:020d}-{self._lines}{_SUFFIX}"
        if self._segments and self._segments[-1].base == base:  # without a message: of a process that died just then
            with self._lock:
                empty = self._segments.pop()
            if empty.path != path:  # it does not say how many lines are before it
                empty.path.unlink()
                empty.path.with_suffix(_MARKS).unlink(missing_ok=True)
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
        """All segments as of now, in order; later appends do not change the result."""
        with self._lock:
            return [Segment(s.path, s.base, s.size) for s in self._segments]

    @property
    def end(self) -> int:
        """Bytes of messages appended so far, those of deleted segments included."""
        with self._lock:
            return self._segments[-1].end if self._segments else 0

    @property
    def lines(self) -> int:
        """Lines appended so far, those of deleted segments included."""
        with self._lock:
            return self._lines

    def last_line(self) -> bytes:
        """The newest line without its end; empty where no segment has one any more."""
        for segment in reversed(self.segments()):
            if segment.size > len(HEAD):
                with segment.path.open("rb") as file:
                    file.seek(max(len(HEAD), segment.size - _TAIL_BYTES))
                    return last_line(file.read(_TAIL_BYTES))
        return b""

    @property
    def begin(self) -> int:
        """Bytes of messages before the oldest segment."""
        with self._lock:
            return self._segments[0].base if self._segments else 0

    def sync(self) -> None:
        """Sync all appended batches to the disk."""
        with self._lock:
            waiting, self._unsynced = self._unsynced, {}
            last = self._segments[-1].path if self._segments else None
            growing = self._file is not None
        try:
            for path in waiting:
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile: it is not needed
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
        """Delete complete segments; the newest one stays, since its name counts the bytes before it."""
        with self._lock:
            gone = [s for s in self._segments[:-1] if str(s.path) in paths]
            self._segments = [s for s in self._segments if s not in gone]
            for segment in gone:
                self._unsynced.pop(segment.path, None)
        for segment in gone:
            segment.path.unlink(missing_ok=True)
            segment.path.with_suffix(_MARKS).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files; may be called twice."""
        self._end()


def _lines_in(batch: bytes | bytearray | memoryview) -> int:
    view = memoryview(batch)
    return sum(bytes(view[at : at + (1 << 20)]).count(b"\n") for at in range(0, len(view), 1 << 20))


def last_line(lines: bytes) -> bytes:
    """The last of some lines, without its end."""
    return lines.removesuffix(b"\n").rpartition(b"\n")[2].removesuffix(b"\r")


def _write(file: int, data: bytes | bytearray | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _whole(path: Path, marks: Path) -> int:
    """The size of a segment up to its last intact batch."""
    noted = marks.read_bytes()
    with path.open("rb") as file:
        if file.read(len(HEAD)) != HEAD:
            return 0
        size, most = len(HEAD), os.fstat(file.fileno()).st_size
        for end, checksum in _MARK.iter_unpack(noted[: len(noted) // _MARK.size * _MARK.size]):
            if not size < end <= most:
                break
            batch = file.read(end - size)
            if isal_zlib.crc32(batch) != checksum:
                break
            size = end
    return size


def _lines_up_to(segment: Path) -> int:
    """Lines of messages up to the end of a segment."""
    with segment.open("rb") as file:
        count = sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 20), b""))
    return _lines_before(segment) + count - HEAD.count(b"\n")


def _cut(path: Path, size: int) -> None:
    """Truncate a file of the spool; one without its header line becomes one without messages."""
    with path.open("r+b") as file:
        if size == 0:
            file.write(HEAD)
            size = len(HEAD)
        file.truncate(size)


def _sync_file(path: Path) -> None:
    """Sync a file, or the names in a directory."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
