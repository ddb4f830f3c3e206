"""A state table, RocksDB and LMDB behind one interface: load, upsert a batch, look a batch up, scan ranges.

Each gets what it takes best, prepared before the clock starts: a state table Arrow columns, which it encodes itself;
the others lists of byte strings (big-endian numbers). A state table seals each batch as one run file and merges runs by
the project's own policy (``compact_after`` generations) before the call returns. Nobody syncs to disk.
"""

from __future__ import annotations

import shutil
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.turns import Clock
from tidemill.state.keys.keys import KeyColumn, Keys, encode, sort
from tidemill.state.lookup import lookup
from tidemill.state.merge.merge import MergeOp, consolidate
from tidemill.state.store.compaction import Policy, choose
from tidemill.state.store.rewriting import rewrite, rewrites
from tidemill.state.store.store import RunStore
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Version

POLICY = Policy()
_SPREAD = 0x9E3779B97F4A7C15
_MAP_BYTES = 1 << 36


def key_words(ids: np.ndarray) -> np.ndarray:
    """Random-looking numbers, one to one with ``ids``."""
    words: np.ndarray = ids.astype(np.uint64) * np.uint64(_SPREAD)
    return words ^ (words >> np.uint64(29))


def key_bytes(ids: np.ndarray, size: int) -> np.ndarray:
    """Keys as fixed-size bytes: the word, big endian, and 24 bytes more that depend on it (uint8[n, size])."""
    words = key_words(ids)
    parts = [words] + [words * np.uint64(2 * i + 3) for i in range(1, size // 8)]
    return np.stack(parts, axis=1).astype(">u8").view(np.uint8).reshape(len(ids), size)


def values_of(ids: np.ndarray, version: int, size: int) -> np.ndarray:
    """Values as fixed-size bytes, other ones in each version (uint8[n, size])."""
    words = ids.astype(np.uint64) * np.uint64(2654435761) + np.uint64(version)
    return np.repeat(words.astype(">u8")[:, None], size // 8, axis=1).view(np.uint8).reshape(len(ids), size)


def _strings(rows: np.ndarray) -> list[bytes]:
    size = rows.shape[1]
    data = np.ascontiguousarray(rows).tobytes()
    return [data[at : at + size] for at in range(0, len(data), size)]


class Store:
    """What the benchmarks call; ``key_size`` and ``value_size`` in bytes, both multiples of 8."""

    def __init__(self, place: str, key_size: int, value_size: int) -> None:
        self.place, self.key_size, self.value_size = Path(place), key_size, value_size
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)

    def load(self, rows: int, batch: int) -> tuple[float, float]:
        """Insert ids ``0 .. rows - 1`` in random order; wall and processor seconds."""
        clock = Clock()
        order = np.random.default_rng(5).permutation(rows)
        for at in range(0, rows, batch):
            self._upsert(order[at : at + batch], 0, clock)
        return clock.wall, clock.cpu

    def upsert(self, rows: int, batch: int, seed: int) -> tuple[float, float]:
        """Write a batch of distinct random ids below ``rows``."""
        clock = Clock()
        self._upsert(_draw(rows, batch, seed), seed, clock)
        return clock.wall, clock.cpu

    def lookup(self, rows: int, batch: int, seed: int) -> tuple[float, float, int, int]:
        """Look up a batch of which nine in ten exist; seconds, how many were found and a CRC of their values."""
        clock = Clock()
        found, data = self._lookup(_draw(rows + rows // 9, batch, seed), clock)
        return clock.wall, clock.cpu, found, zlib.crc32(data)

    def scan(self, length: int, ranges: int, seed: int) -> tuple[float, float, int, int]:
        """Read ranges of keys that share their first ``length`` bytes; seconds, rows and a CRC of their values."""
        clock = Clock()
        words = np.sort(np.random.default_rng(seed).choice(1 << (8 * length), ranges, replace=False))
        heads = [int(word).to_bytes(length, "big") for word in words]
        count, data = self._scan(heads, clock)
        return clock.wall, clock.cpu, count, zlib.crc32(data)

    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_blocks * 512 for path in self.place.rglob("*") if path.is_file())

    def runs(self) -> int:
        """How many sorted runs a lookup meets, 0 where that is not known."""
        return 0

    def _upsert(self, ids: np.ndarray, version: int, clock: Clock) -> None:
        raise NotImplementedError

    def _lookup(self, ids: np.ndarray, clock: Clock) -> tuple[int, bytes]:
        raise NotImplementedError

    def _scan(self, heads: list[bytes], clock: Clock) -> tuple[int, bytes]:
        raise NotImplementedError


def _draw(rows: int, batch: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if batch * 4 > rows:
        return random.permutation(rows)[:batch]
    drawn = np.unique(random.integers(0, rows, batch + batch // 8 + 16))
    return random.permutation(drawn)[:batch]


class StateTable(Store):
    """Tidemill: a table with one key column (a number of 8 bytes, else binary) and one value, the newest wins.

    With ``ordered`` all keys are in one vnode, so that ranges of the first key bytes are ranges of keys.
    """

    def __init__(self, place: str, key_size: int, value_size: int, ordered: bool = False) -> None:
        super().__init__(place, key_size, value_size)
        objects = Objects(self.place)
        self._store = RunStore(objects, self.place / "buffer")
        self._version = Version.empty()
        self._layout = (KeyColumn(pa.binary() if key_size != 8 or ordered else pa.int64()),)
        self._distribution = 0 if ordered else 1
        self._value_types = [pa.int64() if value_size == 8 else pa.binary()]

    def runs(self) -> int:
        return len(self._version.runs("t"))

    def _key_column(self, ids: np.ndarray) -> pa.Array:
        if pa.types.is_int64(self._layout[0].type):
            return pa.array(key_words(ids).view(np.int64))
        return _binary(key_bytes(ids, self.key_size))

    def _value_column(self, ids: np.ndarray, version: int) -> pa.Array:
        values = values_of(ids, version, self.value_size)
        if self.value_size == 8:
            return pa.array(values.reshape(-1).view(">u8").astype(np.uint64).view(np.int64))
        return _binary(values)

    def _upsert(self, ids: np.ndarray, version: int, clock: Clock) -> None:
        keys, values = self._key_column(ids), self._value_column(ids, version)
        clock.timed(lambda: self._seal(keys, values))

    def _seal(self, keys: pa.Array, values: pa.Array) -> None:
        ops = [MergeOp.LAST]
        rows = consolidate(encode([keys], self._layout, self._distribution), [values], ops, False)
        before = self._version.files()
        epoch = self._version.epoch + 1
        self._version = self._version.seal(epoch, self._store.write(epoch, [("t", rows, ops)], "0"))
        for chosen in choose("t", self._version.runs("t"), POLICY):
            new = [replace(r, level=chosen.level) for r in chosen.runs] if chosen.moved else []
            for part in rewrites(chosen, tuple(ops), self._layout, False):
                new += [r for runs in rewrite(self._store, [part], "m", POLICY.run_bytes) for r in runs]
            epoch = self._version.epoch + 1
            self._version = self._version.seal(epoch, [replace(r, added=epoch) for r in new], chosen.runs).forget(epoch)
        for file in before - self._version.files():
            (self._store.remove if file.endswith(".sst") else self._store.evict)([file])

    def _lookup(self, ids: np.ndarray, clock: Clock) -> tuple[int, bytes]:
        column = self._key_column(ids)
        found, values = clock.timed(lambda: self._read(column))
        return int(found.sum()), _data(values.filter(pa.array(found)))

    def _read(self, column: pa.Array) -> tuple[np.ndarray, pa.Array]:
        """Whether each key is there, and its value, in the order given."""
        probes = encode([column], self._layout, self._distribution)
        order = sort(probes)
        runs = self._store.open_range(self._version.runs("t"), 0, 256)
        found, (values,) = lookup.get(runs, probes.take(order), [MergeOp.LAST], self._value_types, False)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return found[back], values.take(pa.array(back))

    def _scan(self, heads: list[bytes], clock: Clock) -> tuple[int, bytes]:
        def read() -> pa.Array:
            runs = self._store.open_range(self._version.runs("t"), 0, 256)
            # A prefix of the first group of a string's bytes: what comes before them is the same in all keys.
            whole = encode([pa.array(heads, pa.binary())], self._layout, 0)
            before = whole[0][:4]
            prefixes = Keys.from_arrow(pa.array([before + head for head in heads], pa.large_binary()))
            _, rows = lookup.scan_prefix(runs, prefixes, [MergeOp.LAST], False, self._value_types)
            return rows.values[0]

        values = clock.timed(read)
        return len(values), _data(values)


def _binary(rows: np.ndarray) -> pa.Array:
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1]
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(rows.tobytes())])


def _data(values: pa.Array) -> bytes:
    if pa.types.is_int64(values.type):
        return values.to_numpy(zero_copy_only=False).astype(">i8").tobytes()
    return b"".join(values.to_pylist())


class RocksDB(Store):
    """RocksDB through rocksdict: as it comes, or ``tuned``: Bloom filters, no log, a cache that holds everything."""

    def __init__(self, place: str, key_size: int, value_size: int, tuned: bool = False, ordered: bool = False) -> None:
        import rocksdict

        super().__init__(place, key_size, value_size)
        options = rocksdict.Options(raw_mode=True)
        self._write = rocksdict.WriteOptions()
        if tuned:
            blocks = rocksdict.BlockBasedOptions()
            blocks.set_bloom_filter(10, False)
            blocks.set_block_cache(rocksdict.Cache(2 << 30))
            options.set_block_based_table_factory(blocks)
            options.set_compression_type(rocksdict.DBCompressionType.none())
            self._write.disable_wal = True
        self._batch = rocksdict.WriteBatch
        self._db: Any = rocksdict.Rdict(str(self.place / "db"), options)

    def _upsert(self, ids: np.ndarray, version: int, clock: Clock) -> None:
        keys = _strings(key_bytes(ids, self.key_size))
        values = _strings(values_of(ids, version, self.value_size))

        def write() -> None:
            batch = self._batch(raw_mode=True)
            put = batch.put
            for key, value in zip(keys, values):
                put(key, value)
            self._db.write(batch, self._write)

        clock.timed(write)

    def _lookup(self, ids: np.ndarray, clock: Clock) -> tuple[int, bytes]:
        keys = _strings(key_bytes(ids, self.key_size))
        values = clock.timed(lambda: self._db[keys])
        found = [value for value in values if value is not None]
        return len(found), b"".join(found)

    def _scan(self, heads: list[bytes], clock: Clock) -> tuple[int, bytes]:
        def read() -> list[bytes]:
            found = []
            for head in heads:
                for key, value in self._db.items(from_key=head):
                    if not key.startswith(head):
                        break
                    found.append(value)
            return found

        values = clock.timed(read)
        return len(values), b"".join(values)


class Lmdb(Store):
    """LMDB: one write transaction a batch of sorted rows, no sync, a writable map; sorted lookups."""

    def __init__(self, place: str, key_size: int, value_size: int, ordered: bool = False) -> None:
        import lmdb

        super().__init__(place, key_size, value_size)
        self._env = lmdb.open(
            str(self.place), map_size=_MAP_BYTES, writemap=True, sync=False, metasync=False, map_async=True, lock=False
        )

    def _upsert(self, ids: np.ndarray, version: int, clock: Clock) -> None:
        keys = _strings(key_bytes(ids, self.key_size))
        items = list(zip(keys, _strings(values_of(ids, version, self.value_size))))

        def write() -> None:
            items.sort()
            with self._env.begin(write=True) as transaction, transaction.cursor() as cursor:
                cursor.putmulti(items)

        clock.timed(write)

    def _lookup(self, ids: np.ndarray, clock: Clock) -> tuple[int, bytes]:
        keys = _strings(key_bytes(ids, self.key_size))

        def read() -> dict[bytes, bytes]:
            with self._env.begin() as transaction, transaction.cursor() as cursor:
                return dict(cursor.getmulti(sorted(keys)))

        found = clock.timed(read)
        values = [found[key] for key in keys if key in found]
        return len(values), b"".join(values)

    def _scan(self, heads: list[bytes], clock: Clock) -> tuple[int, bytes]:
        def read() -> list[bytes]:
            found = []
            with self._env.begin() as transaction, transaction.cursor() as cursor:
                for head in heads:
                    if not cursor.set_range(head):
                        break
                    for key, value in cursor.iternext():
                        if not key.startswith(head):
                            break
                        found.append(value)
            return found

        values = clock.timed(read)
        return len(values), b"".join(values)
