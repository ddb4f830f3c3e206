"""Checksums of pages: a part of a mapped file is checked when it is first touched, once per process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from isal import isal_zlib

from tidemill.errors import TidemillError
from tidemill.kernels import types
from tidemill.kernels.words import BOOL_OUT, I64, Bools, Ints, kernel

PAGE = 16 << 10
"""Bytes that have a checksum of their own."""

Damaged = Callable[[str], TidemillError]
"""Makes the error for corrupt data, given what is wrong."""


@kernel(types.void, BOOL_OUT, I64, I64, types.int64)
def _mark(pages: Bools, starts: Ints, ends: Ints, size: int) -> None:
    """Set the pages that hold any byte of the ranges."""
    for i in range(starts.size):
        if starts[i] < ends[i]:
            for page in range(starts[i] // size, (ends[i] - 1) // size + 1):
                pages[page] = True


def checksums(pieces: Iterable[Any], page: int) -> bytes:
    """The CRC-32 of each page of some bytes, little endian; the bytes come in pieces."""
    crcs: list[int] = []
    crc, left = 0, page
    for piece in pieces:
        view, at = memoryview(piece), 0
        while at < len(view):
            end = min(at + left, len(view))
            crc = isal_zlib.crc32(view[at:end], crc)
            left -= end - at
            at = end
            if not left:
                crcs.append(crc)
                crc, left = 0, page
    if left < page:
        crcs.append(crc)
    return np.array(crcs, "<u4").tobytes()


class Pages:
    """Bytes of a file in pages that are checked on first use.

    Thread-safe: a page is marked after it was checked, and checking twice does no harm.

    Parameters
    ----------
    data : pa.Buffer
        The bytes.
    crcs, crc : pa.Buffer and int
        The checksum of each page, and that of these checksums.
    damaged : callable
        Makes the error for a corrupt page.
    """

    def __init__(self, data: pa.Buffer, page: int, crcs: pa.Buffer, crc: int, damaged: Damaged) -> None:
        self.data = data
        self.page = page
        self._damaged = damaged
        self._view = memoryview(data)
        if isal_zlib.crc32(crcs) != crc:
            raise damaged("its list of checksums fails its own")
        self._crcs = np.frombuffer(memoryview(crcs), "<u4")
        self._checked = np.zeros(len(self._crcs), np.bool_)
        self._left = len(self._crcs)

    @property
    def complete(self) -> bool:
        """Whether all pages have been checked."""
        return self._left == 0

    @property
    def checked_bytes(self) -> int:
        """How many bytes have been checked so far, in whole pages."""
        return int(np.count_nonzero(self._checked)) * self.page

    def check(self, start: int, end: int) -> None:
        """Check the pages of bytes ``start <= at < end``. TM1011 when one is corrupt."""
        if self._left and start < end:
            first, last = start // self.page, (end - 1) // self.page + 1
            self._check(first + np.flatnonzero(~self._checked[first:last]))

    def check_ranges(self, starts: Ints, ends: Ints) -> None:
        """Check the pages of several ranges of bytes. TM1011 when one is corrupt."""
        if len(starts) == 1:
            self.check(int(starts[0]), int(ends[0]))
        elif self._left and len(starts):
            wanted = np.zeros(len(self._crcs), np.bool_)
            _mark(wanted, starts, ends, self.page)
            wanted &= ~self._checked
            self._check(np.flatnonzero(wanted))

    def damage(self) -> list[int]:
        """All pages that are corrupt now, whether or not they were checked before."""
        return [i for i in range(len(self._crcs)) if not self._intact(i)]

    def _check(self, pages: Ints) -> None:
        if not len(pages):
            return
        for page in pages.tolist():
            if not self._intact(page):
                at = page * self.page
                raise self._damaged(
                    f"bytes {at} to {min(at + self.page, self.data.size) - 1} of it fail their checksum"
                )
        self._checked[pages] = True
        self._left = len(self._checked) - int(np.count_nonzero(self._checked))

    def _intact(self, page: int) -> bool:
        at = page * self.page
        return isal_zlib.crc32(self._view[at : at + self.page]) == int(self._crcs[page])
