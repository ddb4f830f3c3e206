"""The columns of a section with its index, of which only what is touched is checked and read.

The index is the first key of each block of rows (fences) and a Bloom filter. Kernels take several bodies as a table of
addresses, since a kernel cannot take a varying number of arrays.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.deferred import carray
from tidemill.kernels.words import I64, Ints, Words, as_pointer, inlined, kernel
from tidemill.state.keys.keys import Keys
from tidemill.state.keys.run_table import RUN_TABLE, addresses
from tidemill.state.runs.filters import LINE_WORDS, line_of, may_contain
from tidemill.state.runs.flat_columns import FLAT, Flat, check_flat_rows, flat_columns, is_flat
from tidemill.state.runs.pages import COLUMNS, Pages, check_bytes, is_inside, position
from tidemill.state.runs.searching import bounds_within, fence_bounds
from tidemill.state.runs.spans import check_rows

EDGE = 64
"""Bytes of the smallest and the greatest key that a footer has."""
_OFTEN, _MODEST = 16, 1 << 20
"""Keys of a section of at most so many bytes are all checked once they have been searched so often."""
MANY = 1024
"""From so many probes on, a filter is asked before all keys are searched."""
FEW = 128
"""From so many probes on, a sample of them decides whether the filter is used."""
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


_KEYS, _KEY_BYTES, _FENCES, _FENCE_BYTES, _FILTER, _KNOWN, _EVEN = range(COLUMNS, COLUMNS + 7)
_LOW, _HIGH = _EVEN + 1, _EVEN + 2
_ROWS, _BYTES, _COUNT, _SIZE, _WORDS, _BLOCK, _WIDTH, _LOW_SIZE, _HIGH_SIZE = range(_HIGH + 1, _HIGH + 10)


@inlined
def body_rows(table: Words, body: int) -> Any:
    """Number of keys of a body."""
    return np.int64(table[body, _ROWS])


@inlined
def row_offsets(table: Words, body: int) -> Any:
    """Offsets of the keys of a body."""
    return carray(as_pointer(table[body, _KEYS]), np.int64(table[body, _ROWS]) + 1, np.int64)


@inlined
def row_data(table: Words, body: int) -> Any:
    """Bytes of the keys of a body."""
    return carray(as_pointer(table[body, _KEY_BYTES]), np.int64(table[body, _BYTES]), np.uint8)


@inlined
def key_width(table: Words, body: int) -> Any:
    """The length of all keys of a body whose offsets its file leaves out, 0 if they are there."""
    return np.int64(table[body, _WIDTH])


@inlined
def key_address(table: Words, body: int) -> Any:
    """Where the bytes of the keys of a body begin in memory (int64)."""
    return np.int64(table[body, _KEY_BYTES])


@inlined
def fence_address(table: Words, body: int) -> Any:
    """Where the bytes of the fences of a body begin in memory (int64)."""
    return np.int64(table[body, _FENCE_BYTES])


@inlined
def fence_offsets(table: Words, body: int) -> Any:
    """Offsets of the fences of a body."""
    return carray(as_pointer(table[body, _FENCES]), np.int64(table[body, _COUNT]) + 1, np.int64)


@inlined
def fence_data(table: Words, body: int) -> Any:
    """Bytes of the fences of a body."""
    return carray(as_pointer(table[body, _FENCE_BYTES]), np.int64(table[body, _SIZE]), np.uint8)


@inlined
def edge(table: Words, body: int, high: bool) -> Any:
    """What the footer has of the smallest or of the greatest key of a body: at most :data:`EDGE` bytes."""
    if high:
        return carray(as_pointer(table[body, _HIGH]), np.int64(table[body, _HIGH_SIZE]), np.uint8)
    return carray(as_pointer(table[body, _LOW]), np.int64(table[body, _LOW_SIZE]), np.uint8)


@inlined
def check_fences(table: Words, body: int) -> int:
    """Check the fences of a body; returns a corrupt page, -1 if there is none."""
    start = position(table, body, table[body, _FENCES])
    end = position(table, body, table[body, _FENCE_BYTES]) + np.int64(table[body, _SIZE])
    return check_bytes(table, body, start, end)


@inlined
def filter_words(table: Words, body: int) -> Any:
    """Words of the filter of a body, none if it has no filter."""
    return carray(as_pointer(table[body, _FILTER]), np.int64(table[body, _WORDS]), np.uint64)


def have_filters(table: Words) -> bool:
    """Whether any body has a filter."""
    return bool(table[:, _WORDS].any())


@inlined
def check_filter(table: Words, body: int, hash_: Any) -> int:
    """Check what the filter of a body says of a hash; returns a corrupt page, -1 if there is none."""
    start = position(table, body, table[body, _FILTER]) + 8 * line_of(filter_words(table, body), hash_)
    return check_bytes(table, body, start, start + 8 * LINE_WORDS)


@inlined
def check_block(table: Words, body: int, block: int) -> int:
    """Check the keys of a block of a body; returns a corrupt page, -1 if there is none."""
    known = carray(as_pointer(table[body, _KNOWN]), block + 1, np.uint8)
    if known[block]:
        return -1
    offsets = row_offsets(table, body)
    low = block * block_rows(table, body)
    high = min(low + block_rows(table, body), offsets.size - 1)
    at = position(table, body, table[body, _KEYS])
    if is_inside(table, body, at):
        bad = check_bytes(table, body, at + 8 * low, at + 8 * (high + 1))
        if bad >= 0:
            return bad
    at = position(table, body, table[body, _KEY_BYTES])
    if is_inside(table, body, at):
        bad = check_bytes(table, body, at + offsets[low], at + offsets[high])
        if bad >= 0:
            return bad
    known[block] = 1
    return -1


@inlined
def even_blocks(table: Words, body: int) -> Any:
    """Per block of a body whether its keys are of one length (1) or not (2), 0 where that is not known."""
    return carray(as_pointer(table[body, _EVEN]), np.int64(table[body, _COUNT]) - 1, np.uint8)


@inlined
def block_rows(table: Words, body: int) -> Any:
    """Rows of a block of a body."""
    return np.int64(table[body, _BLOCK])


@kernel(types.int64, RUN_TABLE, I64)
def _check_blocks(table: Words, blocks: Ints) -> int:
    for i in range(blocks.size):
        if i == 0 or blocks[i] != blocks[i - 1]:
            bad = check_block(table, 0, blocks[i])
            if bad >= 0:
                return bad
    return -1


@kernel(types.int64, RUN_TABLE, FLAT, I64)
def _check_values(table: Words, columns: Flat, rows: Ints) -> int:
    i = 0
    while i < rows.size:
        first = i
        i += 1
        while i < rows.size and rows[i] == rows[i - 1] + 1:
            i += 1
        bad = check_flat_rows(table, 0, columns, 0, rows[first], rows[i - 1] + 1)
        if bad >= 0:
            return bad
    return -1


def sample(probes: int) -> Ints:
    """Which of some probes tell whether the filter is worth asking: 16 to 128 of at least as many."""
    return np.arange(0, probes, probes // min(max(probes >> 6, 16), 128))


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
        self._edges = np.frombuffer(low, np.uint8), np.frombuffer(high, np.uint8)
        self._base = pages.data.address
        self._all_keys = False
        self._searched = 0
        self._even = np.zeros(fences.count - 1, np.uint8)
        self.nested = tuple(array for array in values if not is_flat(array.type))
        """Columns of nested types."""

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
            self._all_keys = bool(self._known_keys.all())
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
        if not self._all_keys:
            self.pages.require(_check_blocks(self.addresses[None], blocks))

    def check_values(self, rows: Ints) -> None:
        """Check the values of some rows."""
        if not self.pages.complete:
            self.pages.require(_check_values(self.addresses[None], self.columns[None], rows))
            self.check_nested(rows)

    def check_nested(self, rows: Ints) -> None:
        """Check the values of columns of nested types of some rows; for narrow rows those of their whole blocks."""
        if not self.nested or self.pages.complete:
            return
        if not self._narrow:
            for array in self.nested:
                check_rows(self.pages, self._base, array, rows, rows + 1)
            return
        blocks = rows // self.block
        blocks = blocks[~self._known_values[blocks]]
        if len(blocks):
            for array in self.nested:
                check_rows(self.pages, self._base, array, *self._rows_of(blocks))
            self._known_values[blocks] = True

    def open_blocks(self, blocks: Ints) -> None:
        """Check the keys and first values of some blocks."""
        blocks = blocks[self.walkable[blocks] == 0]
        if len(blocks):
            self.check_blocks(blocks)
            check_rows(self.pages, self._base, self.values[0], *self._rows_of(blocks))
            self.walkable[blocks] = 1

    @cached_property
    def fences(self) -> Keys:
        """The fences, checked."""
        f = self._fences
        self.pages.check(f.at, f.at + 8 * (f.count + 1) + f.bytes)
        return self._index[0]

    @cached_property
    def filter(self) -> Words:
        """The words of the filter, checked; none if there is no filter."""
        f = self._fences
        self.pages.check(f.filter_at, f.filter_at + 8 * f.filter_words)
        return self._index[1]

    @property
    def has_filter(self) -> bool:
        """Whether the index has a filter."""
        return self._fences.filter_words > 0

    @cached_property
    def _index(self) -> tuple[Keys, Words]:
        """The fences and the words of the filter."""
        f, data = self._fences, memoryview(self.pages.data)
        offsets = np.frombuffer(data, np.int64, f.count + 1, f.at)
        fences = Keys(offsets, np.frombuffer(data, np.uint8, f.bytes, f.at + 8 * (f.count + 1)))
        return fences, np.frombuffer(data, np.uint64, f.filter_words, f.filter_at)

    @cached_property
    def addresses(self) -> Words:
        """The body as a row of the table that kernels take (uint64[25]); it must outlive that."""
        (fences, words), keys, edges = self._index, self.keys, self._edges
        parts = keys.offsets, keys.data, fences.offsets, fences.data, words, self._known_keys, self._even, *edges
        found = addresses(parts)
        implied = not self._base <= int(found[0]) < self._base + self.pages.data.size
        width = int(keys.offsets[1]) if implied and len(keys) else 0
        sizes = len(keys), len(keys.data), len(fences), len(fences.data), len(words), self.block, width
        return np.concatenate([self.pages.addresses, found, np.array([*sizes, *map(len, edges)], np.uint64)])

    @cached_property
    def columns(self) -> Flat:
        """The columns of values as kernels take them (uint64[columns, 6])."""
        return flat_columns(self.values)

    def reach(self, probes: Keys) -> tuple[int, int]:
        """The range of ascending probes that are neither before the first key nor after the last."""
        n = len(probes)
        start = 0 if probes[0] >= self.low else bisect.bisect_left(range(n), self.low, key=probes.__getitem__)
        if probes[n - 1][:EDGE] <= self.high:
            return start, n
        return start, bisect.bisect_right(range(n), self.high, start, key=lambda i: probes[i][:EDGE])

    def holds_back(self, probes: int, hashes: Callable[[], Words]) -> bool:
        """Whether the filter is worth using: it rejects most of many probes, or they are few."""
        if probes < FEW or not self.has_filter:
            return self.has_filter
        passed = may_contain(self.filter, hashes()[sample(probes)])
        return 2 * int(np.count_nonzero(passed)) < len(passed)

    def bounds(self, probes: Keys, past_prefix: bool) -> Ints:
        """The first row not less than each probe, or with ``past_prefix`` behind all that start with it."""
        fences, keys = self.fences, self.keys
        blocks = fence_bounds(fences.offsets, fences.data, len(self.walkable), probes.offsets, probes.data, past_prefix)
        self.check_blocks(np.maximum(blocks - 1, 0))
        return bounds_within(keys.offsets, keys.data, probes.offsets, probes.data, blocks, self.block, past_prefix)

    def _rows_of(self, blocks: Ints) -> tuple[Ints, Ints]:
        return blocks * self.block, np.minimum((blocks + 1) * self.block, len(self.keys))
