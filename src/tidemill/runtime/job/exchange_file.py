"""Records on their way from one task to others: a file in memory, which those of the same host map.

The file has no name in any directory: other processes of the same user open it by the number of its process and its
descriptor, and it is gone with the process, however that ends (Linux; see ``memfd_create(2)``). Tasks of other hosts
fetch the bytes (:mod:`~tidemill.runtime.job.exchange_server`).
"""

from __future__ import annotations

import mmap
import os
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidemill.runtime.job.superstep import Record

SUPPORTED = hasattr(os, "memfd_create")
MOST_BYTES = 256 << 20
"""Of one file. What is larger is exchanged by a Spark job, which needs no memory for it."""

_GATHERED_BYTES = 1 << 20
_LENGTH = struct.Struct("!I")


class TooLargeError(Exception):
    """There is more to exchange than may be in memory."""


@dataclass(frozen=True)
class Slices:
    """Parts of a file for one task: pairs of offset and length, each with whole records.

    ``host`` is that of :class:`~tidemill.runtime.spark.task_place.Place`; ``address`` is where other hosts fetch from.
    """

    process: int
    descriptor: int
    inode: int
    parts: tuple[tuple[int, int], ...]
    host: str = ""
    address: str = ""


class ExchangeFile:
    """The records that one superstep of one task gives, by the partition that they are for."""

    def __init__(self) -> None:
        self._descriptor = os.memfd_create("tidemill-exchange")
        self._size = 0
        self._parts: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def write(self, records: Iterable[Record]) -> None:
        """Write records. TooLargeError when there are too many; then the file is of no use."""
        waiting: defaultdict[int, list[bytes]] = defaultdict(list)
        size = 0
        for target, data in records:
            waiting[target] += (_LENGTH.pack(len(data)), data)
            size += len(data)
            if size >= _GATHERED_BYTES:
                self._flush(waiting)
                size = 0
        self._flush(waiting)

    def _flush(self, waiting: defaultdict[int, list[bytes]]) -> None:
        for target, pieces in waiting.items():
            data = b"".join(pieces)
            if self._size + len(data) > MOST_BYTES:
                raise TooLargeError(f"more than {MOST_BYTES >> 20} MiB to exchange at a time")
            done = 0
            while done < len(data):
                done += os.pwrite(self._descriptor, memoryview(data)[done:], self._size + done)
            self._parts[target].append((self._size, len(data)))
            self._size += len(data)
        waiting.clear()

    def slices(self, host: str = "", address: str = "") -> dict[int, Slices]:
        """What each partition has to read."""
        at = os.getpid(), self._descriptor, self.inode
        return {target: Slices(*at, tuple(parts), host, address) for target, parts in self._parts.items()}

    @property
    def inode(self) -> int:
        """Tells the file from others of this host."""
        return os.fstat(self._descriptor).st_ino

    def mapped(self) -> mmap.mmap:
        """The whole file, which stays readable when it is closed."""
        return mmap.mmap(self._descriptor, 0, prot=mmap.PROT_READ)

    def close(self) -> None:
        """Close the file; a task that has mapped it can still read it."""
        os.close(self._descriptor)


def read(slices: Iterable[Slices]) -> Iterator[Record]:
    """The records of some slices of this host, in their order, read as they are taken.

    OSError when a writer has ended.
    """
    for some in slices:
        descriptor = os.open(f"/proc/{some.process}/fd/{some.descriptor}", os.O_RDONLY)
        try:
            if os.fstat(descriptor).st_ino != some.inode:
                raise OSError(f"process {some.process} has another file now")
            mapped = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        with mapped:
            for offset, length in some.parts:
                yield from records_of(mapped, offset, offset + length)


def records_of(data: mmap.mmap | memoryview, at: int, end: int) -> Iterator[Record]:
    """The records between two offsets."""
    while at < end:
        (size,) = _LENGTH.unpack_from(data, at)
        yield 0, bytes(data[at + _LENGTH.size : at + _LENGTH.size + size])
        at += _LENGTH.size + size
