"""Several reads of one file at once, no further ahead than a window.

The threads here fetch and nothing else: they wait for a store, while the thread that owns the split parses what has
come. So a task of Spark still uses one core.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

from tidemill.errors import FormatError
from tidemill.formats.reading.read_modes import ReadMode


class RangeFile(Protocol):
    """The bytes of one file, which several threads read at once. See
    :class:`tidemill.formats.reading.feeding.RawFile`."""

    def open(self, position: int) -> Any:
        """Before the first read."""
        ...

    def fill(self) -> bytes | memoryview:
        """The next bytes, for who reads one buffer after the other."""
        ...

    def read_at(self, position: int, length: int) -> bytes:
        """The bytes there, all of them; called by several threads while the file is open."""
        ...

    def first_bytes(self, count: int) -> bytes:
        """The first bytes of the file, at most so many, whether or not it is open."""
        ...

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        ...


@dataclass(frozen=True)
class Piece:
    """One read: its number, from 1 on, the offset of its first byte, and its bytes or what went wrong."""

    sequence: int
    position: int
    data: bytes
    failure: Exception | None = None


class RangeReads:
    """Consecutive pieces of a file, in order or as they come. Used by one thread.

    Hazard: a piece counts until it is released; who waits for one that is ``mode.window`` ahead waits for ever.

    Parameters
    ----------
    file : RangeFile
        Open.
    begin, size : int
        Where the first piece begins, and the bytes of the file.
    end : int
        Pieces that begin before it are read ahead; others only when they are asked for.
    mode : ReadMode
    """

    def __init__(self, file: RangeFile, *, begin: int, end: int, size: int, mode: ReadMode) -> None:
        assert mode.reads > 0
        self._file = file
        self._begin = begin
        self._size = size
        self._mode = mode
        self.planned = max(-(-(min(end, size) - begin) // mode.buffer_bytes), 0)
        self._pool = ThreadPoolExecutor(mode.reads, "tidemill-read")
        self._come: SimpleQueue[Piece] = SimpleQueue()
        self._here: dict[int, Piece] = {}
        self._asked = 0
        self._released = 0

    def position(self, sequence: int) -> int:
        """Where a piece begins."""
        return self._begin + (sequence - 1) * self._mode.buffer_bytes

    def last_before(self, position: int) -> int:
        """The last piece that ends before a byte, and has nothing of it."""
        return max(position - 1 - self._begin, 0) // self._mode.buffer_bytes

    def take(self, sequence: int) -> Piece:
        """A piece, when it has come."""
        self.planned = max(self.planned, sequence)
        self._ask()
        while sequence not in self._here:
            self._wait()
        return self._here.pop(sequence)

    def take_any(self, last: int) -> Piece:
        """Some piece up to a number, as soon as one has come; of several that have, the first."""
        self._ask()
        while not self._come.empty():
            self._wait()
        while (first := min(self._here, default=last + 1)) > last:
            self._wait()
        return self._here.pop(first)

    def release(self, sequence: int) -> None:
        """Mark the pieces up to this one as processed, so that further ones may be read."""
        self._released = max(self._released, sequence)

    def close(self) -> None:
        """Cancel reads that have not begun, and wait for those under way."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _ask(self) -> None:
        while self._asked < min(self.planned, self._released + self._mode.window):
            self._asked += 1
            self._pool.submit(self._read, self._asked)

    def _wait(self) -> None:
        piece = self._come.get()
        self._here[piece.sequence] = piece

    def _read(self, sequence: int) -> None:
        position = self.position(sequence)
        length = min(self._mode.buffer_bytes, self._size - position)
        try:
            data = self._file.read_at(position, length) if length > 0 else b""
            if len(data) != max(length, 0):
                raise FormatError(
                    "TM4063",
                    "a read gave another number of bytes than was asked for",
                    got=f"{len(data)} of {length} from byte {position} on",
                    hint="the object is shorter than was said, or changed",
                )
        except Exception as error:
            self._come.put(Piece(sequence, position, b"", error))
        else:
            self._come.put(Piece(sequence, position, data))


class ReadAhead:
    """A file as :class:`tidemill.formats.reading.feeding.RawFile`: bytes in order, read ahead.

    Parameters
    ----------
    file : RangeFile
    end, size, mode
        As for :class:`RangeReads`.
    """

    def __init__(self, file: RangeFile, *, end: int, size: int, mode: ReadMode) -> None:
        self._file = file
        self._end = end
        self._size = size
        self._mode = mode
        self._next = 1
        self._reads: RangeReads | None = None

    def open(self, position: int) -> None:
        """Begin at a byte; nothing is read before the first :meth:`fill`."""
        self.begin(position)

    def begin(self, position: int) -> RangeReads:
        """Begin at a byte, for a caller that takes the pieces in another order."""
        self._file.open(position)
        self._next = 1
        self._reads = RangeReads(self._file, begin=position, end=self._end, size=self._size, mode=self._mode)
        return self._reads

    def fill(self) -> bytes:
        """The next bytes; empty at the end. Errors as the file's own."""
        assert self._reads is not None
        if self._reads.position(self._next) >= self._size:
            return b""
        piece = self._reads.take(self._next)
        if piece.failure is not None:
            raise piece.failure
        self._reads.release(self._next)
        self._next += 1
        return piece.data

    def first_bytes(self, count: int) -> bytes:
        """See :class:`RangeFile`."""
        return self._file.first_bytes(count)

    def close(self) -> None:
        """End reading, then close the file; may be called twice."""
        if self._reads is not None:
            self._reads.close()
            self._reads = None
        self._file.close()
