"""Rows of a mapped file, of which only what is touched is checked and read.

Who takes ``keys`` or ``values`` gets bytes that have been checked, all rows of them. Lookups ask with the methods below
instead: these use the first key of each block of rows (fences) and a Bloom filter, and check the pages of the few
blocks where a key can be.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.kernels.words import Ints, Words
from tidemill.state.keys.keys import Keys
from tidemill.state.merge.merge import Origin, Rows
from tidemill.state.merge.merging import locate_near
from tidemill.state.runs.filters import may_contain
from tidemill.state.runs.interpolating import locate_within
from tidemill.state.runs.pages import Pages
from tidemill.state.runs.searching import block_of, bounds_within, fence_bounds, locate, locate_prefixes
from tidemill.state.runs.spans import check_rows

EDGE = 64
"""Bytes of the smallest and the greatest key that a footer has."""
_DENSE = 64
"""With at least one probe per so many rows all keys are read in order."""
_NEAR = 4
"""With at least one probe per so many rows merging is faster than searching."""
_CLOSE = 32
"""With at least one probe per so many rows searching from the probe before is faster than the index."""
_FEW, _SMALL = 256, 32 << 10
"""With fewer probes, or fewer rows, the index takes longer than a search of keys that are checked anyway."""
_OFTEN, _MODEST = 16, 1 << 20
"""Keys of a section of at most so many bytes are all checked once they have been searched so often."""
_MANY, _SAMPLE = 1024, 128
"""From so many probes on, a sample of this size decides whether the filter is used."""
_NARROW = 256
"""Bytes of a row below which rows are checked by blocks."""
_NO_WORDS = np.empty(0, np.uint64)


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
        self._low, self._high = low, high
        self._base = pages.data.address
        self._index: tuple[Keys, Words] | None = None
        self._all_keys = False
        self._searched = 0
        self._even = np.zeros(fences.count - 1, np.uint8)
        self.has_all_values = False

    def check_all_keys(self, start: int, stop: int) -> None:
        """Check the keys of a range of rows."""
        if not self._all_keys:
            check_rows(self.pages, self._base, self._array, np.array([start]), np.array([stop]))
            self._all_keys = start == 0 and stop == len(self.keys)

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
        if len(blocks) and not self.pages.complete:
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

    def reach(self, probes: Keys) -> tuple[int, int]:
        """The range of ascending probes that are neither before the first key nor after the last."""
        n = len(probes)
        start = 0 if probes[0] >= self._low else bisect.bisect_left(range(n), self._low, key=probes.__getitem__)
        if probes[n - 1][:EDGE] <= self._high:
            return start, n
        return start, bisect.bisect_right(range(n), self._high, start, key=lambda i: probes[i][:EDGE])

    def locate(self, probes: Keys, hashes: Callable[[], Words]) -> Ints:
        """Row of each probe (ascending and unique), -1 where absent, by the index; ``hashes`` gives their hashes."""
        (fences, words), keys = self.index, self.keys
        if not self.holds_back(len(probes), hashes):
            words = _NO_WORDS
        wanted = hashes() if len(words) else _NO_WORDS
        blocks = block_of(fences.offsets, fences.data, probes.offsets, probes.data, words, wanted)
        if not self._all_keys:
            self.check_blocks(blocks[blocks >= 0])
        return locate_within(keys.offsets, keys.data, probes.offsets, probes.data, blocks, self.block, self._even)

    def holds_back(self, probes: int, hashes: Callable[[], Words]) -> bool:
        """Whether the filter is worth using: it rejects most of many probes, or they are few."""
        words = self.index[1]
        if probes < _MANY or not len(words):
            return len(words) > 0
        sample = may_contain(words, np.ascontiguousarray(hashes()[:: probes // _SAMPLE]))
        return 2 * int(np.count_nonzero(sample)) < len(sample)

    def bounds(self, probes: Keys, past_prefix: bool) -> Ints:
        """The first row not less than each probe, or with ``past_prefix`` behind all that start with it."""
        fences, keys = self.index[0], self.keys
        blocks = fence_bounds(fences.offsets, fences.data, len(self.walkable), probes.offsets, probes.data, past_prefix)
        self.check_blocks(np.maximum(blocks - 1, 0))
        return bounds_within(keys.offsets, keys.data, probes.offsets, probes.data, blocks, self.block, past_prefix)

    def _rows_of(self, blocks: Ints) -> tuple[Ints, Ints]:
        return blocks * self.block, np.minimum((blocks + 1) * self.block, len(self.keys))


def _search(keys: Keys, probes: Keys) -> Ints:
    """Row of each probe among all keys, -1 where absent."""
    near = len(keys) > _FEW and len(probes) * _NEAR > len(keys)
    search = locate_near if near and len(probes) else locate
    return search(keys.offsets, keys.data, probes.offsets, probes.data)


class Mapped(Rows):
    """Rows ``start`` to ``stop - 1`` of a section."""

    body: Body
    start: int

    def __init__(self, body: Body, start: int, stop: int, origin: Origin | None = None) -> None:
        self.__dict__.update(body=body, start=start, _stop=stop, origin=origin, _keys=None, _values=None)

    @property
    def keys(self) -> Keys:
        """All keys, checked. TM1011 when one is corrupt."""
        keys: Keys | None = self.__dict__["_keys"]
        if keys is None:
            self.body.check_all_keys(self.start, self.start + len(self))
            keys = self.__dict__["_keys"] = self.unchecked_keys
        return keys

    @property
    def values(self) -> tuple[pa.Array[Any], ...]:
        """All values, checked. TM1011 when one is corrupt."""
        values: tuple[pa.Array[Any], ...] | None = self.__dict__["_values"]
        if values is None:
            self.body.check_all_values(self.start, self.start + len(self))
            values = self.__dict__["_values"] = tuple(v.slice(self.start, len(self)) for v in self.body.values)
        return values

    @property
    def estimate(self) -> int:
        """Approximate bytes, as if all rows of the section were of equal size."""
        return self.body.bytes * len(self) // max(1, len(self.body.keys))

    @property
    def unchecked_keys(self) -> Keys:
        """All keys; the caller must check what it reads."""
        return self.body.keys.slice(self.start, self.start + len(self))

    def __len__(self) -> int:
        return int(self.__dict__["_stop"]) - self.start

    def slice(self, start: int, stop: int) -> Mapped:
        """Rows ``start`` to ``stop - 1``; nothing is read."""
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"rows {start}..{stop} of {len(self)}")
        return Mapped(self.body, self.start + start, self.start + stop)

    def at(self, origin: Origin) -> Mapped:
        """The same rows, known under an origin."""
        return Mapped(self.body, self.start, self.start + len(self), origin)

    def take_keys(self, rows: Ints) -> Keys:
        """The keys of the given rows (int64), checked and copied."""
        index = np.ascontiguousarray(rows, np.int64) + self.start
        self.body.check_blocks(index // self.body.block)
        return self.body.keys.take(index)

    def take_values(self, rows: Ints) -> tuple[pa.Array[Any], ...]:
        """The values of the given rows (int64), checked and copied."""
        index = np.ascontiguousarray(rows, np.int64) + self.start
        self.body.check_values(index)
        taken = column(index)
        return tuple(v.take(taken) for v in self.body.values)

    def columns_at(self, rows: Ints) -> tuple[pa.Array[Any], ...]:
        """All values, of which those of the given rows (int64, -1 for none) are checked."""
        values: tuple[pa.Array[Any], ...] | None = self.__dict__["_values"]
        if values is not None:
            return values
        if not (self.body.has_all_values or self.body.pages.complete):
            self.body.check_values(rows[rows >= 0] + self.start)
        return tuple(v.slice(self.start, len(self)) for v in self.body.values)

    def value_types(self) -> list[pa.DataType]:
        """Types of the value columns."""
        return [v.type for v in self.body.values]

    def locate(self, probes: Keys, hashes: Callable[[], Words]) -> Ints:
        """Row of each probe (ascending and unique), -1 where absent; ``hashes`` gives those of the probes."""
        rows = np.full(len(probes), -1, np.int64)
        if not len(self) or not len(probes):
            return rows
        start, stop = self.body.reach(probes)
        if stop - start == len(probes):
            return self._locate(probes, hashes)
        if start < stop:
            rows[start:stop] = self._locate(probes.slice(start, stop), lambda: hashes()[start:stop])
        return rows

    def _locate(self, probes: Keys, hashes: Callable[[], Words]) -> Ints:
        body, n = self.body, len(self)
        if self._direct(probes) and (n < _SMALL or len(probes) * _CLOSE > n):
            keys = self.keys
            if len(probes) >= _MANY:
                which = self._possible(probes, hashes)
                if len(which) < len(probes):
                    rows = np.full(len(probes), -1, np.int64)
                    rows[which] = _search(keys, probes.take(which))
                    return rows
            return _search(keys, probes)
        rows = body.locate(probes, hashes)
        if n < len(body.keys):
            rows[(rows < self.start) | (rows >= self.start + n)] = -1
            rows[rows >= 0] -= self.start
        return rows

    def _possible(self, probes: Keys, hashes: Callable[[], Words]) -> Ints:
        """Indices of the probes to search: those that pass the filter, or all if it would reject only a few."""
        if self.body.holds_back(len(probes), hashes):
            return np.flatnonzero(may_contain(self.body.index[1], hashes()))
        return np.arange(len(probes))

    def rows_with(self, prefixes: Keys) -> tuple[Ints, Ints]:
        """The first row with each prefix, and the one after the last; none is a prefix of another."""
        if self._direct(prefixes):
            keys = self.keys
            return locate_prefixes(keys.offsets, keys.data, prefixes.offsets, prefixes.data)
        return self.bounds(prefixes, False), self.bounds(prefixes, True)

    def _direct(self, probes: Keys) -> bool:
        """Whether all keys are searched rather than the index."""
        few = len(probes) < _FEW or len(self) < _SMALL
        known = self.__dict__["_keys"] is not None or self.body.knows_keys()
        return len(probes) * _DENSE > len(self) or (known and few)

    def bounds(self, probes: Keys, past_prefix: bool) -> Ints:
        """The first row not less than each probe, or with ``past_prefix`` behind all that start with it.

        Probes are ascending; with ``past_prefix`` none is a prefix of another.
        """
        if self._direct(probes):
            keys = self.keys
            return locate_prefixes(keys.offsets, keys.data, probes.offsets, probes.data)[past_prefix]
        return np.clip(self.body.bounds(probes, past_prefix) - self.start, 0, len(self))
