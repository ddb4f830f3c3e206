"""The columns of a section with its index, of which only what is touched is checked and read.

The index is the first key of each block of rows (fences) and a Bloom filter. Kernels take several bodies as a table of
addresses, since a kernel cannot take a varying number of arrays.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.kernels.deferred import carray
from tidemill.kernels.words import Ints, Words, as_pointer, inlined
from tidemill.state.keys.keys import Keys
from tidemill.state.keys.run_table import addresses
from tidemill.state.runs.filters import may_contain
from tidemill.state.runs.pages import Pages
from tidemill.state.runs.searching import bounds_within, fence_bounds
from tidemill.state.runs.spans import check_rows

EDGE = 64
"""Bytes of the smallest and the greatest key that a footer has."""
_OFTEN, _MODEST = 16, 1 << 20
"""Keys of a section of at most so many bytes are all checked once they have been searched so often."""
MANY, SAMPLE = 1024, 128
"""From so many probes on, a sample of this size decides whether the filter is used."""
_NARROW = 256
"""Bytes of a row below which rows are checked by blocks."""


@dataclass(frozen=True)
class Fences:
    """Where the index of a section lies, from the start of the section.

    ``count`` keys: the first of every ``block`` rows, then the last key of all. ``filter_words`` is 0 where there is
    no filter.
    """

    block: int
    at: int
    count: int
    bytes: int
    filter_at: int
    filter_words: int


@inlined
def row_offsets(table: Words, body: int) -> Any:
    """Offsets of the keys of a body."""
    return carray(as_pointer(table[body, 0]), np.int64(table[body, 7]) + 1, np.int64)


@inlined
def row_data(table: Words, body: int) -> Any:
    """Bytes of the keys of a body."""
    return carray(as_pointer(table[body, 1]), np.int64(table[body, 8]), np.uint8)


@inlined
def fence_offsets(table: Words, body: int) -> Any:
    """Offsets of the fences of a body."""
    return carray(as_pointer(table[body, 2]), np.int64(table[body, 9]) + 1, np.int64)


@inlined
def fence_data(table: Words, body: int) -> Any:
    """Bytes of the fences of a body."""
    return carray(as_pointer(table[body, 3]), np.int64(table[body, 10]), np.uint8)


@inlined
def filter_words(table: Words, body: int) -> Any:
    """Words of the filter of a body, none if it has no filter."""
    return carray(as_pointer(table[body, 4]), np.int64(table[body, 11]), np.uint64)


@inlined
def known_blocks(table: Words, body: int) -> Any:
    """Per block of a body whether its keys are checked."""
    return carray(as_pointer(table[body, 5]), np.int64(table[body, 9]) - 1, np.uint8)


@inlined
def even_blocks(table: Words, body: int) -> Any:
    """Per block of a body whether its keys are of one length (1) or not (2), 0 where that is not known."""
    return carray(as_pointer(table[body, 6]), np.int64(table[body, 9]) - 1, np.uint8)


@inlined
def block_rows(table: Words, body: int) -> Any:
    """Rows of a block of a body."""
    return np.int64(table[body, 12])


class Body:
    """The columns of a section with its index. The caller must check what it reads.

    Parameters
    ----------
    array : pa.Array
        The keys (large_binary, no NULLs).
    low, high : bytes
        At most :data:`EDGE` bytes of the smallest and of the greatest key.
    """

    def __init__(
        self,
        pages: Pages,
        array: pa.Array[Any],
        values: Sequence[pa.Array[Any]],
        fences: Fences,
        low: bytes,
        high: bytes,
    ) -> None:
        self.pages = pages
        self.keys = Keys.from_arrow(array)
        self.values = tuple(values)
        self.block = fences.block
        self.walkable = np.zeros(fences.count - 1, np.uint8)
        """Per block whether its keys and first values are checked."""
        self._known_keys = np.zeros(fences.count - 1, np.bool_)
        self._known_values = np.zeros(fences.count - 1, np.bool_)
        self.bytes = fences.at
        self._narrow = fences.at < _NARROW * len(array)
        self._array = array
        self._fences = fences
        self.low, self.high = low, high
        self._base = pages.data.address
        self._index: tuple[Keys, Words] | None = None
        self._addresses: Words | None = None
        self._all_keys = False
        self._searched = 0
        self._even = np.zeros(fences.count - 1, np.uint8)
        self.has_all_values = False

    def check_all_keys(self, start: int, stop: int) -> None:
        """Check the keys of a range of rows."""
        if not self._all_keys:
            check_rows(self.pages, self._base, self._array, np.array([start]), np.array([stop]))
            self._all_keys = start == 0 and stop == len(self.keys)
            if self._all_keys:
                self._known_keys[:] = True

    def knows_keys(self) -> bool:
        """Whether all keys are checked. Called before each search: keys that are searched often get checked."""
        if not self._all_keys:
            self._searched += 1
            if self._searched > _OFTEN and self.bytes <= _MODEST:
                self.check_all_keys(0, len(self.keys))
        return self._all_keys

    def check_all_values(self, start: int, stop: int) -> None:
        """Check the values of a range of rows."""
        for array in self.values:
            check_rows(self.pages, self._base, array, np.array([start]), np.array([stop]))

    def check_blocks(self, blocks: Ints) -> None:
        """Check the keys of some blocks."""
        blocks = blocks[~self._known_keys[blocks]]
        if len(blocks):
            check_rows(self.pages, self._base, self._array, *self._rows_of(blocks))
            self._known_keys[blocks] = True
            self._all_keys = bool(self._known_keys.all())

    def check_values(self, rows: Ints) -> None:
        """Check the values of some rows; for narrow rows those of their whole blocks."""
        if self.has_all_values or self.pages.complete:
            return
        if not self._narrow:
            for array in self.values:
                check_rows(self.pages, self._base, array, rows, rows + 1)
            return
        blocks = rows // self.block
        blocks = blocks[~self._known_values[blocks]]
        if len(blocks):
            for array in self.values:
                check_rows(self.pages, self._base, array, *self._rows_of(blocks))
            self._known_values[blocks] = True
            self.has_all_values = bool(self._known_values.all())

    def open_blocks(self, blocks: Ints) -> None:
        """Check the keys and first values of some blocks."""
        blocks = blocks[self.walkable[blocks] == 0]
        if len(blocks):
            self.check_blocks(blocks)
            check_rows(self.pages, self._base, self.values[0], *self._rows_of(blocks))
            self.walkable[blocks] = 1

    @property
    def index(self) -> tuple[Keys, Words]:
        """The fences and the words of the filter, checked."""
        if self._index is None:
            f = self._fences
            start = f.at + 8 * (f.count + 1)
            self.pages.check(f.at, f.filter_at + 8 * f.filter_words)
            data = memoryview(self.pages.data)
            fences = Keys(
                np.frombuffer(data, np.int64, f.count + 1, f.at), np.frombuffer(data, np.uint8, f.bytes, start)
            )
            self._index = fences, np.frombuffer(data, np.uint64, f.filter_words, f.filter_at)
        return self._index

    @property
    def has_filter(self) -> bool:
        """Whether the index has a filter."""
        return self._fences.filter_words > 0

    @property
    def addresses(self) -> Words:
        """The body as a row of the table that kernels take (uint64[13]), its index checked. It must outlive the row."""
        if self._addresses is None:
            (fences, words), keys = self.index, self.keys
            arrays = keys.offsets, keys.data, fences.offsets, fences.data, words, self._known_keys, self._even
            sizes = len(keys), len(keys.data), len(fences), len(fences.data), len(words), self.block
            self._addresses = np.append(addresses(arrays), np.array(sizes, np.uint64))
        return self._addresses

    def reach(self, probes: Keys) -> tuple[int, int]:
        """The range of ascending probes that are neither before the first key nor after the last."""
        n = len(probes)
        start = 0 if probes[0] >= self.low else bisect.bisect_left(range(n), self.low, key=probes.__getitem__)
        if probes[n - 1][:EDGE] <= self.high:
            return start, n
        return start, bisect.bisect_right(range(n), self.high, start, key=lambda i: probes[i][:EDGE])

    def holds_back(self, probes: int, hashes: Callable[[], Words]) -> bool:
        """Whether the filter is worth using: it rejects most of many probes, or they are few."""
        words = self.index[1]
        if probes < MANY or not len(words):
            return len(words) > 0
        sample = may_contain(words, np.ascontiguousarray(hashes()[:: probes // SAMPLE]))
        return 2 * int(np.count_nonzero(sample)) < len(sample)

    def bounds(self, probes: Keys, past_prefix: bool) -> Ints:
        """The first row not less than each probe, or with ``past_prefix`` behind all that start with it."""
        fences, keys = self.index[0], self.keys
        blocks = fence_bounds(fences.offsets, fences.data, len(self.walkable), probes.offsets, probes.data, past_prefix)
        self.check_blocks(np.maximum(blocks - 1, 0))
        return bounds_within(keys.offsets, keys.data, probes.offsets, probes.data, blocks, self.block, past_prefix)

    def _rows_of(self, blocks: Ints) -> tuple[Ints, Ints]:
        return blocks * self.block, np.minimum((blocks + 1) * self.block, len(self.keys))
