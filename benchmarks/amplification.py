"""What an hour of upserts costs a state table: bytes written, bytes kept, runs a reader meets; and RocksDB.

A table of ``--keys`` rows (8-byte keys, 64-byte values) is loaded, then 3,600 epochs each upsert 1,500 of its rows, few
of them often (Zipf), and insert 500 new ones. Tidemill seals a run per epoch, makes a checkpoint of every fifth and
compacts by its own policy, at once and in this process, without Spark; a version remembers 128 epochs, the default.
RocksDB gets the same rows, a write batch per epoch, in its levelled default. Neither compresses.

Write amplification is the bytes of files written in the hour over the bytes of rows given. What is not durable (our
buffer directory, RocksDB's log, which it does sync no more than we do) is shown apart. Space amplification is the bytes
of the files that the newest version needs over those of one merged run of the same rows.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measuring import heading, run_side, table, workspace
from tidemill.config import Settings
from tidemill.runtime.durability.uploads import buffered
from tidemill.state.keys.keys import KeyColumn, encode
from tidemill.state.merge.merge import MergeOp, consolidate
from tidemill.state.store.compaction import Policy, choose, conflict
from tidemill.state.store.durable_runs import make_durable
from tidemill.state.store.rewriting import rewrite, rewrites
from tidemill.state.store.sparse_objects import to_move
from tidemill.state.store.store import RunStore
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.unmerged import unmerged
from tidemill.state.versions.version import Run, Version

KEY = (KeyColumn(pa.int64()),)
OPS = (MergeOp.SUM, MergeOp.LAST)
VALUE = 64
ROW = 8 + VALUE
UPSERTS, INSERTS = 1500, 500
CHECKPOINT_EVERY, HISTORY = 5, Settings.history_epochs


class Rows:
    """The rows of each epoch, the same for all contestants."""

    def __init__(self, keys: int) -> None:
        self.keys = keys
        self._random = np.random.default_rng(7)
        self._ranks = np.random.default_rng(8).permutation(keys)

    def load(self) -> np.ndarray:
        """The keys to begin with."""
        return np.arange(self.keys)

    def epoch(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct keys, and 1 for those that are new."""
        zipf = self._random.zipf(1.1, UPSERTS * 2)
        known = np.unique(self._ranks[zipf[zipf <= len(self._ranks)][:UPSERTS] - 1])
        new = np.arange(self.keys, self.keys + INSERTS)
        self.keys += INSERTS
        return np.concatenate([known, new]), np.concatenate(
            [np.zeros(len(known), np.int64), np.ones(INSERTS, np.int64)]
        )

    def values(self, n: int) -> np.ndarray:
        """``n`` values that cannot be compressed."""
        return self._random.integers(0, 256, (n, VALUE), np.uint8)


def tidemill(place: str, keys: int, epochs: int, policy: dict[str, int]) -> dict[str, float]:
    """The figures of a state table."""
    store, rows, chosen_policy = (
        RunStore(Objects(Path(place) / "root"), Path(place) / "buffer"),
        Rows(keys),
        Policy(**policy),
    )
    version = published = Version.empty()
    count = {"buffer": 0, "checkpoint": 0, "compaction": 0, "given": 0}
    job = slice_ = 0
    random = np.random.default_rng(1)

    def sealed(ids: np.ndarray, weights: np.ndarray) -> list[Run]:
        offsets = pa.py_buffer(np.arange(len(ids) + 1, dtype=np.int32) * VALUE)
        values = pa.Array.from_buffers(pa.binary(), len(ids), [None, offsets, pa.py_buffer(rows.values(len(ids)))])
        columns = [pa.array(weights), values]
        found = consolidate(encode([pa.array(ids)], KEY, 1), columns, OPS, drop_zero=False)
        written = store.write(version.epoch + 1, [("t", found, OPS)], "0-0")
        count["buffer"] += sum(r.bytes for r in written)
        count["given"] += len(ids) * ROW
        return written

    def compacted(version: Version) -> tuple[list[Run], list[Run]]:
        nonlocal job, slice_
        new: list[Run] = []
        gone: list[Run] = []
        for chosen in choose("t", version.runs("t"), chosen_policy):
            found = [replace(r, level=chosen.level) for r in chosen.runs] if chosen.moved else []
            for part in rewrites(chosen, OPS, KEY, False):
                for written in rewrite(store, [part], "m-0", chosen_policy.run_bytes):
                    found += written
                    for run in written:
                        count["compaction" if run.file.endswith(".sst") else "buffer"] += run.bytes
                slice_ = max(slice_, part.part.bytes)
            job = max(job, sum(r.bytes for r in chosen.runs))
            new += found
            gone += chosen.runs
        return new, gone

    def step(written: list[Run]) -> None:
        nonlocal version, published
        before = version.files()
        new, gone = compacted(version)
        epoch = version.epoch + 1
        version = version.seal(epoch, [*written, *(replace(r, added=epoch) for r in new)], gone).forget(epoch - HISTORY)
        before |= published.files()
        if epoch % CHECKPOINT_EVERY == 0:
            published = unmerged(version, Settings.buffer_bytes // 8)
            groups = [g for held in buffered(published).values() for g in held]
            moved = to_move(published, {s.name: s.bytes for s in store.stored()})
            swaps = make_durable(store, groups, epoch, 256 << 20, (), moved)
            count["checkpoint"] += sum(r.bytes for s in swaps for r in s.new)
            version, published = version.swapped(swaps), published.swapped(swaps)
        unused = before - version.files() - published.files()
        store.remove(name for name in unused if name.endswith(".sst"))
        store.evict(name for name in unused if name.endswith(".run"))

    step(sealed(rows.load(), np.ones(keys, np.int64)))
    for _ in range(CHECKPOINT_EVERY * 2 - 1):
        step([])
    count = dict.fromkeys(count, 0)
    job = slice_ = 0
    met: list[int] = []
    space: list[float] = []
    started = time.perf_counter()
    longest = 0.0
    for number in range(epochs):
        begun = time.perf_counter()
        step(sealed(*rows.epoch()))
        longest = max(longest, time.perf_counter() - begun)
        runs = version.runs("t")
        for key in random.integers(0, 1 << 40, 4):
            probe = int(key % 256).to_bytes(2, "big") + b"\x01\x80" + int(key).to_bytes(7, "big")
            met.append(sum(r.keys[0] <= probe < r.keys[1] for r in runs))
        if number % 50 == 49:
            space.append(sum(r.bytes for r in runs) / rows.keys)
    seconds = time.perf_counter() - started
    assert conflict(version.runs("t")) is None
    whole = merged_bytes(store, version.runs("t")) / rows.keys
    durable = count["checkpoint"] + count["compaction"]
    return {
        "given": count["given"],
        "durable": durable / count["given"],
        "all": (durable + count["buffer"]) / count["given"],
        "compaction": count["compaction"] / count["given"],
        "space": sum(r.bytes for r in version.runs("t")) / rows.keys / whole,
        "space most": max(space) / whole,
        "runs": statistics.mean(met),
        "runs most": max(met),
        "job": job / 2**20,
        "slice": slice_ / 2**20,
        "seconds": seconds,
        "longest": longest,
        "levels": len({r.level for r in version.runs("t")}),
    }


def merged_bytes(store: RunStore, runs: tuple[Run, ...]) -> int:
    """The bytes of one run of all rows."""
    (whole,) = choose("t", [replace(r, level=0, vnode_low=0, vnode_high=256) for r in runs], Policy(1, 1 << 60)) or (
        None,
    )
    if whole is None:
        return sum(r.bytes for r in runs)
    (found,) = rewrite(
        store,
        [replace(p, part=replace(p.part, runs=runs)) for p in rewrites(whole, OPS, KEY, False)],
        "m-whole",
        1 << 60,
    )
    return sum(r.bytes for r in found)


def rocksdb(place: str, keys: int, epochs: int) -> dict[str, float]:
    """The figures of RocksDB with its defaults, without compression."""
    from rocksdict import DBCompressionType, Options, Rdict, WriteBatch

    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.none())
    options.enable_statistics()
    store, rows = Rdict(str(Path(place) / "rocks"), options), Rows(keys)

    def write(ids: np.ndarray) -> int:
        values = rows.values(len(ids)).tobytes()
        batch = WriteBatch(raw_mode=True)
        for i, key in enumerate(ids.tolist()):
            batch.put(key.to_bytes(8, "big"), values[i * VALUE : i * VALUE + VALUE])
        store.write(batch)
        return len(ids) * ROW

    def counted() -> dict[str, int]:
        found = {}
        for line in options.get_statistics().splitlines():
            name, _, rest = line.partition(" COUNT : ")
            if rest:
                found[name] = int(rest.split()[0])
        return found

    def size() -> int:
        return sum(int(f["size"]) for f in store.live_files())

    for part in np.array_split(rows.load(), 100):
        write(part)
    store.flush()
    store.compact_range(None, None)
    before, given, longest = counted(), 0, 0.0
    space: list[float] = []
    met: list[int] = []
    started = time.perf_counter()
    for number in range(epochs):
        begun = time.perf_counter()
        given += write(rows.epoch()[0])
        longest = max(longest, time.perf_counter() - begun)
        if number % 50 == 49:
            space.append(size() / rows.keys)
            levels = [int(store.property_value(f"rocksdb.num-files-at-level{i}") or 0) for i in range(7)]
            met.append(1 + levels[0] + sum(n > 0 for n in levels[1:]))  # the memtable counts
    seconds = time.perf_counter() - started
    after = counted()
    last = size() / rows.keys
    store.flush()
    store.compact_range(None, None)
    whole = size() / rows.keys
    flushed, compacted, log = (
        after.get(f"rocksdb.{n}", 0) - before.get(f"rocksdb.{n}", 0)
        for n in ("flush.write.bytes", "compact.write.bytes", "wal.bytes")
    )
    store.close()
    return {
        "given": given,
        "durable": (flushed + compacted) / given,
        "all": (flushed + compacted + log) / given,
        "compaction": compacted / given,
        "space": last / whole,
        "space most": max(space) / whole,
        "runs": statistics.mean(met),
        "runs most": max(met),
        "seconds": seconds,
        "longest": longest,
    }


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="a few seconds; says little")
    options.add_argument("--epochs", type=int, default=3600)
    options.add_argument("--keys", type=int, default=1_000_000)
    options.add_argument("--run-mb", type=int, default=32)
    given = options.parse_args()
    epochs, keys = (300, 50_000) if given.small else (given.epochs, given.keys)
    heading(f"amplification: {keys:,} keys, {epochs:,} epochs of {UPSERTS:,} upserts and {INSERTS:,} inserts")
    sides: dict[str, dict[str, Any]] = {}
    with workspace() as place:
        policy = {"run_bytes": given.run_mb << 20}
        sides["tidemill"] = run_side(
            "benchmarks.amplification", "tidemill", place=str(place), keys=keys, epochs=epochs, policy=policy
        )
        sides["rocksdb"] = run_side("benchmarks.amplification", "rocksdb", place=str(place), keys=keys, epochs=epochs)
    mine, other = sides["tidemill"], sides["rocksdb"]
    names = {
        "durable": "write amplification, durable",
        "all": "write amplification, with buffer or log",
        "compaction": "of that by compaction",
        "space": "space amplification at the end",
        "space most": "space amplification, most",
        "runs": "runs a reader meets, mean",
        "runs most": "runs a reader meets, most",
        "longest": "longest epoch, s (ours compacts in it)",
        "seconds": "seconds",
    }
    table(
        ("", "tidemill", "rocksdb", "ratio"),
        [(w, float(mine[n]), float(other[n]), mine[n] / (other[n] or 1.0)) for n, w in names.items()],
    )
    print(f"tidemill: largest job {mine['job']:.0f} MB, largest slice {mine['slice']:.0f} MB, {mine['levels']} levels")


if __name__ == "__main__":
    main()
