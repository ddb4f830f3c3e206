"""A dictionary of versions, and random operations on it and on a shared buffer beside it.

The truth about a root is ``epoch -> table -> key -> values`` in plain Python. After each operation that reads, and
after each recovery, the buffer must say the same.
"""

from __future__ import annotations

import contextlib
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from buffer_under_test import GRACE, Buffer, Options, Place, forget_open_files
from model_tables import (
    ADDITIVE,
    EXTREMES,
    I64,
    MULTISET,
    NEWEST,
    TABLES,
    TEXT,
    UPSERT,
    Content,
    Key,
    Values,
    add,
    combined,
    read_all,
    read_ends,
    read_keys,
    read_prefixes,
    read_range,
    same,
    stored,
    to_rows,
    vnode_of,
)

from tidemill.errors import TidemillError
from tidemill.state.merge.merge import Rows
from tidemill.state.store.store import RunStore, partition_vnodes
from tidemill.state.versions.version import Version
from tidemill.task.program import StateTable

_GROUPS = 24
_TEXTS = ("", "a", "a\0", "ab", "b", "kk", "zz\0\1", "é")


# -- the trial --------------------------------------------------------------------------------------


@dataclass
class Sealed:
    """What one epoch left."""

    tables: dict[str, Content]
    token: int


@dataclass
class Reader:
    """Someone who holds a version."""

    version: Version
    expected: dict[str, Content]
    epoch: int
    until: float
    store: RunStore


@dataclass
class Trial:
    """Random operations on a root and on dictionaries; any difference is an AssertionError."""

    place: Place
    seed: int
    trace: deque[str] = field(default_factory=lambda: deque(maxlen=60))

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.sealed: dict[int, Sealed] = {0: Sealed({t: {} for t in TABLES}, 0)}
        self.durable = 0
        self.token = 0
        self.readers: list[Reader] = []
        self.in_flight = False
        self.counts: dict[str, int] = {}
        self.buffer = self._opened()
        self.buffer.checkpoint()  # the claim
        self._begin_epoch()

    # Operations, with how often each is chosen.
    def operations(self) -> Mapping[str, int]:
        """Names of methods."""
        return {
            "put": 150,
            "delete": 60,
            "remove": 40,
            "insert": 150,
            "add": 120,
            "vanish": 30,
            "owe": 6,
            "grow": 50,
            "move": 50,
            "read_keys": 40,
            "read_prefix": 30,
            "read_first": 25,
            "read_vnodes": 15,
            "read_old_epoch": 15,
            "read_changes": 12,
            "read_pinned": 20,
            "pin": 8,
            "seal": 70,
            "checkpoint": 10,
            "begin_checkpoint": 10,
            "fail_upload": 4,
            "finish_checkpoint": 12,
            "evict": 8,
            "compact": 25,
            "collect_garbage": 8,
            "time_passes": 8,
            "crash": 5,
            "rescale": 4,
            "new_process": 6,
        }

    def run(self, operations: int) -> None:
        """Random operations, then everything is read once more after a restart."""
        names, weights = zip(*self.operations().items(), strict=True)
        try:
            for name in self.rng.choices(names, weights, k=operations):
                self._do(name)
            for name in ("seal", "finish_checkpoint", "checkpoint", "crash", "seal", "checkpoint", "read_everything"):
                self._do(name)
        finally:
            self.buffer.close()
            forget_open_files()

    def _do(self, name: str) -> None:
        self.trace.append(name)
        self.counts[name] = self.counts.get(name, 0) + 1
        operation: Callable[[], None] = getattr(self, name)
        operation()

    def _note(self, text: str) -> None:
        self.trace[-1] += f" {text}"

    # -- writing ------------------------------------------------------------------------------------

    def _begin_epoch(self) -> None:
        self.content = {t: dict(c) for t, c in self.sealed[self.buffer.version.epoch].tables.items()}
        self.writes: dict[str, list[tuple[Key, Values]]] = {t: [] for t in TABLES}

    def _write(self, table: StateTable, key: Key, values: Values) -> None:
        self.writes[table.id].append((key, stored(table, values)))
        add(table, self.content[table.id], key, values)
        self._note(f"{key} {values}")

    def _key(self, table: StateTable) -> Key:
        kinds = {I64: lambda: self.rng.randrange(-_GROUPS // 2, _GROUPS // 2), TEXT: lambda: self.rng.choice(_TEXTS)}
        return tuple(kinds[c.type]() for c in table.key)

    def _present(self, table: StateTable) -> Key | None:
        content = self.content[table.id]
        return self.rng.choice(list(content)) if content else None

    def put(self) -> None:
        """Insert or update a row with a primary key."""
        key = self._key(UPSERT)
        values = (self.rng.choice((None, self.rng.randrange(1000))), self.rng.choice((None, *_TEXTS)))
        self._write(UPSERT, key, (0 if key in self.content["rows"] else 1, *values))

    def delete(self) -> None:
        """Delete such a row."""
        if (key := self._present(UPSERT)) is not None:
            self._write(UPSERT, key, (-1, None, None))

    def insert(self) -> None:
        """One more of a row without a key."""
        self._write(MULTISET, self._key(MULTISET), (self.rng.choice((1, 1, 1, 2)),))

    def remove(self) -> None:
        """One less, or none."""
        if (key := self._present(MULTISET)) is not None:
            self._write(MULTISET, key, (-self.rng.choice((1, self.content["bag"][key][0])),))

    def add(self) -> None:
        """Rows come into a group."""
        amount = self.rng.randrange(-(10**6), 10**6)
        self._write(ADDITIVE, self._key(ADDITIVE), (self.rng.randrange(1, 4), amount, amount << 70, amount / 4))

    def owe(self) -> None:
        """A sum of a group comes without its count, which follows: so it is while the history of a view is read."""
        amount = self.rng.randrange(1, 10**6)
        self._write(ADDITIVE, self._key(ADDITIVE), (0, amount, amount << 70, amount / 4))

    def vanish(self) -> None:
        """All rows of a group go."""
        if (key := self._present(ADDITIVE)) is not None:
            self._write(ADDITIVE, key, tuple(-v for v in self.content["sums"][key]))

    def grow(self) -> None:
        """A row comes to a table that only grows."""
        value = self.rng.choice((None, self.rng.randrange(1000)))
        self._write(EXTREMES, self._key(EXTREMES), (1, value, self.rng.choice((None, *_TEXTS))))

    def move(self) -> None:
        """A file was read further."""
        self._write(NEWEST, (f"file {self.rng.randrange(30)}",), (self.rng.choice((None, self.rng.randrange(99))),))

    def _batch(self) -> dict[str, Rows]:
        return {t: to_rows(w, TABLES[t]) for t, w in self.writes.items() if w}

    def seal(self) -> None:
        """The epoch ends; now and then its first attempt failed after it had written."""
        batch = self._batch()
        partitions = 1 if self.rng.random() < 0.3 else self.buffer.options.partitions
        if self.rng.random() < 0.05:
            self.buffer.write(batch, partitions)
        runs = self.buffer.write(batch, partitions)
        self.token += 1
        epoch = self.buffer.version.epoch + 1
        take, submit = self.rng.random() < 0.7, self.in_flight and self.rng.random() < 0.5
        self._note(f"epoch {epoch}, {partitions} partitions, {take=}, {submit=}")
        self.buffer.seal(runs, {"epoch": epoch, "token": self.token}, take, submit)
        assert self.buffer.version.epoch == epoch
        self.sealed[epoch] = Sealed({t: dict(c) for t, c in self.content.items()}, self.token)
        for old in [e for e in self.sealed if e < min(self.durable, epoch) - 20]:
            del self.sealed[old]
        self._begin_epoch()

    # -- reading ------------------------------------------------------------------------------------

    def _table(self) -> StateTable:
        return self.rng.choice(list(TABLES.values()))

    def _now(self, table: StateTable) -> list[Rows]:
        """The runs of the newest version and what this epoch has written on top."""
        runs = [self.buffer.store.open(r) for r in self.buffer.version.runs(table.id)]
        return [*runs, to_rows(self.writes[table.id], table)] if self.writes[table.id] else runs

    def read_keys(self) -> None:
        """Point reads see this epoch's own writes over everything older."""
        table = self._table()
        content = self.content[table.id]
        keys = {self._key(table) for _ in range(self.rng.randrange(1, 20))} | set(list(content)[-3:])
        same(read_keys(self._now(table), table, keys), {k: content[k] for k in keys if k in content}, table)

    def read_prefix(self) -> None:
        """All rows of some groups."""
        table = self._table()
        firsts = {self._key(table)[0] for _ in range(self.rng.randrange(1, 6))}
        expected = {k: v for k, v in self.content[table.id].items() if k[0] in firsts}
        same(read_prefixes(self._now(table), table, firsts), expected, table)

    def read_first(self) -> None:
        """The first or the last row of some groups."""
        table, reverse = self.rng.choice((MULTISET, UPSERT)), self.rng.random() < 0.5
        firsts = {self._key(table)[0] for _ in range(self.rng.randrange(1, 6))}
        expected: Content = {}
        for first in firsts:
            keys = [k for k in self.content[table.id] if k[0] == first]
            if keys:
                best = (max if reverse else min)(keys, key=lambda k: k[1].encode())
                expected[best] = self.content[table.id][best]
        same(read_ends(self._now(table), table, firsts, reverse), expected, table)

    def read_vnodes(self) -> None:
        """What a partition owns, of any number of partitions."""
        table, partitions = self._table(), self.rng.randrange(1, 9)
        low, high = partition_vnodes(self.rng.randrange(partitions), partitions)
        version, content = self.buffer.version, self.sealed[self.buffer.version.epoch].tables[table.id]
        mine = {k for k, v in vnode_of(table, content).items() if low <= v < high} if content else set()
        expected = {k: content[k] for k in mine}
        same(read_range(self.buffer.store, version.runs(table.id), table, low, high), expected, table)

    def read_old_epoch(self) -> None:
        """A version that is still remembered."""
        version, table = self.buffer.version, self._table()
        epoch = self.rng.randrange(version.horizon, version.epoch + 1)
        self._note(f"{table.id} at {epoch} of {version.horizon}..{version.epoch}")
        same(read_all(self.buffer.store, version, table, epoch), self.sealed[epoch].tables[table.id], table)

    def read_changes(self) -> None:
        """What an epoch changed, whether or not merged away since: added to the epoch before it gives the epoch."""
        version, table = self.buffer.version, self.rng.choice((MULTISET, ADDITIVE, UPSERT))
        if version.epoch <= version.horizon:
            return
        epoch = self.rng.randrange(version.horizon + 1, version.epoch + 1)
        opened = [self.buffer.store.open(r) for r in version.runs(table.id, epoch - 1)]
        changes = [self.buffer.store.open(r) for r in version.changes(table.id, epoch)]
        self._note(f"{table.id} at {epoch} of {version.horizon}..{version.epoch}")
        same(combined([*opened, *changes], table), self.sealed[epoch].tables[table.id], table)

    def pin(self) -> None:
        """A reader opens the newest manifest, or takes the newest version."""
        version, store = self.buffer.version, self.buffer.store
        if self.rng.random() < 0.5:
            last = self.place.newest()
            assert last is not None
            version, store = last.version, self.place.store(self.place.objects())
            assert last.catalog["token"] == self.sealed[version.epoch].token, "catalog and version are of one epoch"
        epoch = self.rng.randrange(max(version.horizon, min(self.sealed)), version.epoch + 1)
        until = self.place.clock.offset + GRACE * 0.9
        self._note(f"{epoch}")
        self.readers.append(Reader(version, self.sealed[epoch].tables, epoch, until, store))
        self.readers = self.readers[-6:]

    def read_pinned(self) -> None:
        """A reader goes on with the version it holds."""
        self.readers = [r for r in self.readers if r.until >= self.place.clock.offset]
        if self.readers:
            reader, table = self.rng.choice(self.readers), self._table()
            self._note(f"{table.id} at {reader.epoch} of {reader.version.horizon}..{reader.version.epoch}")
            same(read_all(reader.store, reader.version, table, reader.epoch), reader.expected[table.id], table)

    def read_everything(self) -> None:
        """Every table at every epoch, with the catalog."""
        version = self.buffer.version
        assert self.buffer.catalog["token"] == self.sealed[version.epoch].token
        for epoch in range(max(version.horizon, min(self.sealed)), version.epoch + 1):
            for table in TABLES.values():
                found = read_all(self.buffer.store, version, table, epoch)
                same(found, self.sealed[epoch].tables[table.id], table)

    # -- checkpoints --------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Now."""
        if not self.in_flight:
            self.buffer.checkpoint()
            self._is_durable()

    def begin_checkpoint(self) -> None:
        """Its upload waits while epochs go on."""
        if not self.in_flight:
            self.buffer.begin_checkpoint()
            self.in_flight = True

    def fail_upload(self) -> None:
        """The upload fails, and is tried again."""
        if self.in_flight:
            self.buffer.fail_upload()

    def finish_checkpoint(self) -> None:
        """The upload ends, and what was sealed and asked for in between becomes durable as well."""
        if self.in_flight:
            self.buffer.finish_checkpoint()
            self.in_flight = False
            self._is_durable()

    def _is_durable(self) -> None:
        assert self.buffer.durable_epoch == self.buffer.submitted
        self.durable = self.buffer.submitted
        last = self.place.newest()
        assert last is not None
        assert last.version.epoch == self.durable
        assert last.catalog == {"epoch": self.durable, "token": self.sealed[self.durable].token}
        assert all(f.endswith(".sst") for f in last.version.files()), "a manifest names what only one host has"

    def evict(self) -> None:
        """What is durable is read from durable objects."""
        self.buffer.evict()

    def compact(self) -> None:
        """Merge in the background."""
        self.buffer.compact()
        assert not self.buffer.failures_of_merges()

    def collect_garbage(self) -> None:
        """What nobody needs goes. The thread of checkpoints does it, so not while it uploads."""
        if self.in_flight:
            return
        for _ in range(self.rng.randrange(1, 3)):
            self._note(f"{self.buffer.collect_garbage()}")
            if self.rng.random() < 0.5:
                self.time_passes()
        missing = self.needed() - self.place.files()
        assert not missing, f"needed and gone: {missing}"

    def needed(self) -> set[str]:
        """Files that manifests, the newest version, or readers name."""
        self.readers = [r for r in self.readers if r.until >= self.place.clock.offset]
        log = self.buffer.log
        versions = [log.read(n).version for n in log.numbers()]
        epochs = [v.epoch for v in versions]
        assert epochs == sorted(epochs), "manifests are in the order of epochs"
        versions.append(self.buffer.version)
        return {f for v in (*versions, *(r.version for r in self.readers)) for f in v.files()}

    def time_passes(self) -> None:
        """A part of the grace period, or all of it."""
        self.place.clock.offset += self.rng.choice((GRACE / 3, GRACE / 2, GRACE * 2))

    def new_process(self) -> None:
        """Readers map their files anew."""
        forget_open_files()

    # -- ending and beginning -----------------------------------------------------------------------

    def _opened(self) -> Buffer:
        options = Options(
            partitions=self.rng.randrange(1, 5),
            hosts=self.rng.randrange(1, 4),
            history=self.rng.choice((0, 1, 3, 8)),
            most=self.rng.choice((1, 2, 3, 6)),
            target_bytes=self.rng.choice((1, 3000, 1 << 20)),
        )
        return Buffer(self.place, options, TABLES)

    def crash(self) -> None:
        """The process ends, maybe with its host; another one goes on from the last manifest.

        An upload that was under way dies with it, or ends later: before the new writer has published anything, which
        then finds itself fenced, or after, in vain.
        """
        old, lost = self.buffer, self.rng.random() < 0.4
        fate = self.rng.choice(("dies", "in time", "too late")) if self.in_flight else "dies"
        self._note(f"{fate}, {lost=}")
        if fate == "dies":
            old.close()
        else:
            old.lose_lock()
        if lost:
            self.place.lose_buffer()
            self.readers = [r for r in self.readers if all(f.endswith(".sst") for f in r.version.files())]
        forget_open_files()
        self.in_flight = False
        new = self._opened()
        if fate == "in time":
            before = old.log.numbers()
            with contextlib.suppress(TidemillError):
                old.finish_checkpoint()
            applied = old.log.numbers() != before
            assert lost or old.durable_epoch == old.submitted
            old.close()
            if applied:
                self.durable = old.durable_epoch
                fenced(new.checkpoint)
                new.close()
                new = self._opened()
        assert new.version.epoch == self.durable, f"{new.version.epoch} recovered, {self.durable} was durable"
        assert new.catalog["token"] == self.sealed[self.durable].token
        self.buffer = new
        self.buffer.checkpoint()  # the claim
        if fate == "too late":
            fenced(old.finish_checkpoint)
            old.close()
        for epoch in [e for e in self.sealed if e > self.durable]:
            del self.sealed[epoch]
        self._is_durable()
        self._begin_epoch()
        self.read_everything()

    def rescale(self) -> None:
        """A clean end, and a beginning with other partitions and hosts."""
        self.finish_checkpoint()
        self.checkpoint()
        self.crash()


def fenced(call: Callable[[], None]) -> None:
    """Another writer has been faster."""
    try:
        call()
    except TidemillError as error:
        assert error.number in ("TM1003", "TM1010", "TM1018"), error
    else:
        raise AssertionError("two writers have published")
