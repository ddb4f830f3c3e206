"""Rows of a mapped file, of which only what is touched is checked and read.

Who takes ``keys`` or ``values`` gets bytes that have been checked, all rows of them. Lookups ask with the methods below
instead: these use the first key of each block of rows (fences) and a Bloom filter, and check the pages of the few
blocks where a key can be.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.kernels.words import Ints, Words
from tidemill.state.keys.keys import Keys
from tidemill.state.merge.merge import Origin, Rows
from tidemill.state.merge.merging import locate_near
from tidemill.state.runs.body import MANY, Body
from tidemill.state.runs.filters import may_contain
from tidemill.state.runs.flat_columns import Flat, moved
from tidemill.state.runs.level import locate_by_index
from tidemill.state.runs.places import rows_at
from tidemill.state.runs.searching import locate, locate_prefixes

_DENSE = 64
"""With at least one probe per so many rows all keys are read in order."""
_NEAR = 4
"""With at least one probe per so many rows merging is faster than searching."""
_CLOSE = 32
"""With at least one probe per so many rows searching from the probe before is faster than the index."""
_FEW, _SMALL = 256, 32 << 10
"""With fewer probes, or fewer rows, the index takes longer than a search of keys that are checked anyway."""
_serials = itertools.count(1)


def is_sparse(probes: int, rows: int) -> bool:
    """Whether so few keys are sought in so many rows that an index finds them faster than a search of all."""
    return probes * _CLOSE <= rows


def _search(keys: Keys, probes: Keys) -> Ints:
    """Row of each probe among all keys, -1 where absent."""
    near = len(keys) > _FEW and len(probes) * _NEAR > len(keys)
    search = locate_near if near and len(probes) else locate
    return search(keys.offsets, keys.data, probes.offsets, probes.data)


class Mapped(Rows):
    """Rows ``start`` to ``stop - 1`` of a section.

    Attributes
    ----------
    serial : int
        No other object of this process has or had the same.
    """

    body: Body
    start: int
    serial: int

    def __init__(self, body: Body, start: int, stop: int, origin: Origin | None = None) -> None:
        self.__dict__.update(body=body, start=start, _stop=stop, origin=origin, _keys=None, _values=None)
        self.__dict__.update(serial=next(_serials), _followed=0)

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
            values = self.__dict__["_values"] = self.unchecked_values
        return values

    @property
    def estimate(self) -> int:
        """Approximate bytes, as if all rows of the section were of equal size."""
        return self.body.bytes * len(self) // max(1, len(self.body.keys))

    @property
    def unchecked_keys(self) -> Keys:
        """All keys; the caller must check what it reads."""
        return self.body.keys.slice(self.start, self.start + len(self))

    @property
    def unchecked_values(self) -> tuple[pa.Array[Any], ...]:
        """All values; the caller must check what it reads."""
        return tuple(v.slice(self.start, len(self)) for v in self.body.values)

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

    def flat_columns(self) -> Flat:
        """The columns of values by address; the caller must check what it reads."""
        return moved(self.body.columns, self.start)

    def nested_columns(self, places: Ints) -> tuple[pa.Array[Any], ...]:
        """Columns of nested types, of which the values at the given places (int64, -1 for none) are checked."""
        self.body.check_nested(rows_at(places[places >= 0]) + self.start)
        return tuple(array.slice(self.start, len(self)) for array in self.body.nested)

    def value_types(self) -> list[pa.DataType]:
        """Types of the value columns."""
        return [v.type for v in self.body.values]

    def follows(self, other: Mapped) -> bool:
        """Whether all keys of the section are greater than those of another's, as far as the footers tell."""
        if self.__dict__["_followed"] != other.serial:  # it is asked again and again of the same two
            if self.body.low <= other.body.high:
                return False
            self.__dict__["_followed"] = other.serial
        return True

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
        n = len(self)
        if self._direct(probes) and (n < _SMALL or not is_sparse(len(probes), n)):
            keys = self.keys
            if len(probes) >= MANY:
                which = self._possible(probes, hashes)
                if len(which) < len(probes):
                    rows = np.full(len(probes), -1, np.int64)
                    left = probes.take(which)
                    rows[which] = self._by_index(left) if is_sparse(len(left), n) else _search(keys, left)
                    return rows
            return _search(keys, probes)
        return self._by_index(probes, hashes)

    def _by_index(self, probes: Keys, hashes: Callable[[], Words] | None = None) -> Ints:
        """As :meth:`locate`, by the index; without ``hashes`` the filter is not asked."""
        _, rows = locate_by_index((self.body,), self.body.addresses[None], probes, hashes)
        if len(self) < len(self.body.keys):
            rows[(rows < self.start) | (rows >= self.start + len(self))] = -1
            rows[rows >= 0] -= self.start
        return rows

    def _possible(self, probes: Keys, hashes: Callable[[], Words]) -> Ints:
        """Indices of the probes to search: those that pass the filter, or all if it would reject only a few."""
        if self.body.holds_back(len(probes), hashes):
            return np.flatnonzero(may_contain(self.body.filter, hashes()))
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
