"""Checksums of pages: a part of a mapped file is checked when it is first touched, once per process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from isal import isal_zlib

from tidemill.errors import TidemillError
from tidemill.kernels import types
from tidemill.kernels.crc32 import crc32, crc32_function, crc32_of_pages
from tidemill.kernels.deferred import carray
from tidemill.kernels.kernel import compiler_is_loaded
from tidemill.kernels.words import I64, Ints, Words, as_pointer, called, inlined, kernel, load8_at, prefetch
from tidemill.state.keys.run_table import RUN_TABLE, addresses

PAGE = 1 << 9
"""Bytes that have a checksum of their own; a power of two."""
COLUMNS = 7
"""Of a table of pages as kernels take it: addresses of the bytes, of their checksums and of flags, one a page, which
tell whether it was checked; the address of the number of pages that were not; how many bytes there are; how often the
bytes of a page double from one on; the function that computes checksums."""
_LINE = 64
"""Bytes of a cache line."""
_RECOUNT = 256
"""How often it is asked whether all pages are checked before those that are not are counted again."""

Damaged = Callable[[str], TidemillError]
"""Makes the error for corrupt data, given what is wrong."""


@inlined
def position(table: Words, row: int, address: Any) -> Any:
    """Where an address is among the bytes of a row of the table, negative or too large if it is not."""
    return np.int64(address - table[row, 0])


@inlined
def is_inside(table: Words, row: int, at: int) -> Any:
    """Whether a position is one of the bytes of a row of the table."""
    return 0 <= at < np.int64(table[row, 4])


@inlined
def check_bytes(table: Words, row: int, start: int, end: int) -> int:
    """Check the pages of bytes ``start <= at < end``; returns the first that is corrupt, -1 if none is."""
    if start < end:
        shift = np.int64(table[row, 5])
        flags = np.int64(table[row, 2])
        for page in range(start >> shift, ((end - 1) >> shift) + 1):
            if load8_at(flags + page) == 0 and not _check_page(table, row, page):
                return page
    return -1


@inlined
def fetch_ahead(table: Words, row: int, at: int) -> None:
    """Fetch what a look at a byte needs, without waiting: its cache line, or all of its page if that is unchecked."""
    shift = np.int64(table[row, 5])
    page = at >> shift
    address = np.int64(table[row, 0])
    if load8_at(np.int64(table[row, 2]) + page):
        prefetch(address + at)
    else:
        for line in range(page << shift, (page + 1) << shift, _LINE):
            prefetch(address + line)


@called
def _check_page(table: Words, row: int, page: int) -> bool:
    """Whether the checksum of a page is right; if so it is checked from now on."""
    at = page << np.int64(table[row, 5])
    length = min(np.int64(1) << np.int64(table[row, 5]), np.int64(table[row, 4]) - at)
    crc = crc32(table[row, 6], np.uint64(table[row, 0] + np.uint64(at)), length)
    if crc != carray(as_pointer(table[row, 1]), page + 1, np.uint32)[page]:
        return False
    carray(as_pointer(table[row, 2]), page + 1, np.uint8)[page] = 1
    carray(as_pointer(table[row, 3]), 1, np.int64)[0] -= 1
    return True


@kernel(types.int64, RUN_TABLE, I64, I64)
def _check_ranges(table: Words, starts: Ints, ends: Ints) -> int:
    for i in range(starts.size):
        bad = check_bytes(table, 0, starts[i], ends[i])
        if bad >= 0:
            return bad
    return -1


def checksums(pieces: Iterable[Any], page: int) -> bytes:
    """The CRC-32 of each page of some bytes, little endian; the bytes come in pieces."""
    found: list[Any] = []
    crc, left = 0, page
    for piece in pieces:
        view, at = memoryview(piece).cast("B"), 0
        if left < page:
            at = min(left, len(view))
            crc = isal_zlib.crc32(view[:at], crc)
            left -= at
        if not left:
            found.append([crc])
            crc, left = 0, page
        if left == page:
            found.append(crc32_of_pages(view[at:], page))
            at += len(found[-1]) * page
            crc = isal_zlib.crc32(view[at:])
            left -= len(view) - at
    if left < page:
        found.append([crc])
    return np.concatenate(found).astype("<u4").tobytes() if found else b""


class Pages:
    """Bytes of a file in pages that are checked on first use.

    Thread-safe: a page is marked after it was checked, and checking twice does no harm.

    Parameters
    ----------
    data : pa.Buffer
        The bytes.
    page : int
        How many of them a page has, a power of two.
    crcs, crc : pa.Buffer and int
        The checksum of each page, and that of these checksums.
    damaged : callable
        Makes the error for a corrupt page.
    """

    def __init__(self, data: pa.Buffer, page: int, crcs: pa.Buffer, crc: int, damaged: Damaged) -> None:
        self.data = data
        self.page = page
        self._damaged = damaged
        if isal_zlib.crc32(crcs) != crc:
            raise damaged("its list of checksums fails its own")
        self._crcs = np.frombuffer(memoryview(crcs), "<u4")
        self._checked = np.zeros(len(self._crcs), np.uint8)
        self._left = np.array([len(self._crcs)])
        self._complete = not len(self._crcs)
        self._asked = 0

    @cached_property
    def addresses(self) -> Words:
        """The pages as a row of a table that kernels take (uint64[:data:`COLUMNS`]); they must outlive it."""
        arrays = addresses([self._crcs, self._checked, self._left])
        sizes = self.data.size, self.page.bit_length() - 1, crc32_function()
        return np.array([self.data.address, *arrays.tolist(), *sizes], np.uint64)

    @property
    def complete(self) -> bool:
        """Whether all pages have been checked."""
        if not self._complete:
            self._asked += 1
            # Threads that check pages at once may count one twice, or none of two.
            if self._left[0] <= 0 or self._asked % _RECOUNT == 0:
                left = len(self._checked) - int(np.count_nonzero(self._checked))
                self._left[0] = left
                self._complete = left == 0
        return self._complete

    @property
    def checked_bytes(self) -> int:
        """How many bytes have been checked so far, in whole pages."""
        return int(np.count_nonzero(self._checked)) * self.page

    def check(self, start: int, end: int) -> None:
        """Check the pages of bytes ``start <= at < end``. TM1011 when one is corrupt."""
        if compiler_is_loaded():
            self.check_ranges(np.array([start]), np.array([end]))
        elif start < end and not self.complete:
            view = memoryview(self.data)
            first, last = start // self.page, (end - 1) // self.page + 1
            for page in (first + np.flatnonzero(self._checked[first:last] == 0)).tolist():
                if isal_zlib.crc32(view[page * self.page : (page + 1) * self.page]) != int(self._crcs[page]):
                    self.require(page)
                self._checked[page] = 1
                self._left[0] -= 1

    def check_ranges(self, starts: Ints, ends: Ints) -> None:
        """Check the pages of several ranges of bytes. TM1011 when one is corrupt."""
        if not self.complete:
            self.require(_check_ranges(self.addresses[None], starts, ends))

    def require(self, bad: int) -> None:
        """TM1011 unless a page that a kernel found to be corrupt is -1."""
        if bad >= 0:
            at = bad * self.page
            raise self._damaged(f"bytes {at} to {min(at + self.page, self.data.size) - 1} of it fail their checksum")

    def damage(self) -> list[int]:
        """All pages that are corrupt now, whether or not they were checked before."""
        whole = crc32_of_pages(self.data, self.page)
        rest = memoryview(self.data)[len(whole) * self.page :]
        found = np.append(whole, isal_zlib.crc32(rest)) if len(rest) else whole
        return np.flatnonzero(found != self._crcs).tolist()
