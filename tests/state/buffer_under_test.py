"""The shared buffer as the coordinator drives it, without Spark: what tests of whole roots hold in their hands.

Everything that depends on the signatures of the product's classes is here. Checkpoints run on their real thread, but
stop at a gate; merges run on their real thread, in this process; time is a number.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.runtime.durability import checkpoints as checkpoints_module
from tidemill.runtime.durability.checkpoints import Checkpoints, Sealed
from tidemill.runtime.durability.collector import InUse
from tidemill.runtime.durability.compactor import Compactor
from tidemill.runtime.durability.uploads import Uploads
from tidemill.state.keys.keys import decode
from tidemill.state.lookup import lookup
from tidemill.state.merge.merge import MergeOp, Rows, joined
from tidemill.state.merge.operations import columns_by_op
from tidemill.state.merge.unordered import Unordered, concatenated, unordered
from tidemill.state.runs.sst import Part
from tidemill.state.store import sparse_objects
from tidemill.state.store import store as store_module
from tidemill.state.store.compaction import Policy
from tidemill.state.store.store import RunStore, partition_vnodes
from tidemill.state.versions import objects as objects_module
from tidemill.state.versions.manifest import Manifest, ManifestLog
from tidemill.state.versions.objects import Objects, Stored
from tidemill.state.versions.version import Run, Swap, Version
from tidemill.task.program import StateTable

GRACE = 100.0


class LocalContext:
    """Runs the functions of a Spark job in this process, one partition after the other, on hosts in turn."""

    def __init__(self, hosts: int) -> None:
        self.defaultParallelism = hosts

    def setLocalProperty(self, key: str, value: str) -> None:  # noqa: N802, as in Spark
        """Nothing has priorities here."""

    def parallelize(self, data: Iterable[Any], slices: int) -> LocalRdd:
        """One item a partition, which is all that is used."""
        items = list(data)
        assert len(items) == slices
        return LocalRdd(items, self.defaultParallelism)


@dataclass(frozen=True)
class LocalRdd:
    """What :class:`LocalContext` runs."""

    items: list[Any]
    hosts: int
    function: Callable[..., Iterator[Any]] | None = None

    def mapPartitionsWithIndex(self, function: Callable[..., Iterator[Any]]) -> LocalRdd:  # noqa: N802
        """One function a job."""
        return replace(self, function=function)

    def collect(self) -> list[Any]:
        """Run it."""
        assert self.function is not None
        found = []
        for i, item in enumerate(self.items):
            with on_host(i % self.hosts):
                found += self.function(i, iter([item]))
        return found


@dataclass
class Clock:
    """The time of files and of those who ask for their age; it moves when told."""

    offset: float = 0.0
    created_at_epoch: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let ``time.time`` tell this time; nothing waits before it tries again."""
        real = time.time
        with (
            mock.patch.object(time, "time", lambda: real() + self.offset),
            mock.patch.object(checkpoints_module, "_RETRY_SECONDS", 0.0),
            mock.patch.object(sparse_objects, "LEAST_BYTES", -(1 << 20)),  # all that has no history is moved
            mock.patch.object(sparse_objects, "SHARE", 1),
        ):
            yield

    def note(self, name: str) -> None:
        """A file is written now."""
        self.created_at_epoch[name] = self.offset

    def of(self, name: str, modified: float) -> float:
        """When a file was written, given when the disk says it was."""
        return modified + self.created_at_epoch.get(name, 0.0)


class ClockedObjects(Objects):
    """Objects with the times of a clock."""

    clock: Clock

    def put(self, name: str, data: bytes | Path) -> None:
        super().put(name, data)
        self.clock.note(name)

    def list(self, prefix: str) -> list[Stored]:
        return [replace(s, modified=self.clock.of(s.name, s.modified)) for s in super().list(prefix)]


class ClockedStore(RunStore):
    """A store with the times of a clock."""

    clock: Clock

    def write(self, *args: Any, **kwargs: Any) -> list[Run]:
        runs = super().write(*args, **kwargs)
        for run in runs:
            self.clock.note(run.file)
        return runs

    def buffered(self) -> list[tuple[str, float]]:
        return [(name, self.clock.of(name, at)) for name, at in super().buffered()]


class Place:
    """Where a root lies, and the buffer of its host."""

    def __init__(self, url: str | Path, buffer: Path, clock: Clock) -> None:
        self.url, self.buffer, self.clock = url, buffer, clock
        self.moved = 0
        """Durable runs that were given to checkpoints to be written again."""

    def objects(self) -> Objects:
        """The objects, as a new process opens them."""
        made = ClockedObjects(self.url)
        made.clock = self.clock
        return made

    def store(self, objects: Objects) -> RunStore:
        """The store, as a new process opens it."""
        made = ClockedStore(objects, self.buffer)
        made.clock = self.clock
        return made

    def lose_buffer(self) -> None:
        """The host is gone."""
        shutil.rmtree(self.buffer, ignore_errors=True)

    def forget(self) -> None:
        """Free the memory of a root that lies there."""
        objects_module._in_memory.pop(str(self.url), None)

    def files(self) -> set[str]:
        """Names of all run files, durable and not."""
        store = self.store(self.objects())
        return {name for name, _ in (*store.buffered(), *store.durable())}

    def newest(self) -> Manifest | None:
        """The newest manifest, as a reader finds it."""
        return ManifestLog(self.objects(), create=True).latest()


def forget_open_files() -> None:
    """As in a new process: nothing is mapped."""
    store_module._open.clear()


class Gate:
    """Where uploads wait while it is held."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._held = False
        self._entered = 0
        self._errors: deque[BaseException] = deque()
        self._last: BaseException | None = None

    def hold(self, start: Callable[[], None]) -> None:
        """Uploads wait from now on; returns when the one that is started does."""
        with self._condition:
            self._held, entered = True, self._entered
        start()
        self._wait_for_one_after(entered)

    def fail_one(self, error: BaseException) -> None:
        """Let the upload that waits fail; returns when its next attempt waits."""
        with self._condition:
            entered = self._entered
            self._errors.append(error)
            self._condition.notify_all()
        self._wait_for_one_after(entered)

    def open(self, error: BaseException | None = None) -> None:
        """Let uploads go on; with an error all fail."""
        with self._condition:
            self._held, self._last = False, error
            self._condition.notify_all()

    def pass_through(self) -> None:
        """Called by uploads."""
        with self._condition:
            self._entered += 1
            self._condition.notify_all()
            assert self._condition.wait_for(lambda: self._errors or not self._held, 60)
            error = self._errors.popleft() if self._errors else self._last
        if error is not None:
            raise error

    def _wait_for_one_after(self, entered: int) -> None:
        with self._condition:
            assert self._condition.wait_for(lambda: self._entered > entered, 60)


@dataclass(frozen=True)
class Options:
    """What a mill is opened with."""

    partitions: int = 2
    hosts: int = 1
    history: int = 4
    most: int = 3
    target_bytes: int = 1 << 20
    run_bytes: int = 3000
    left_out: int = 20_000


class Buffer:
    """One process that writes a root."""

    def __init__(self, place: Place, options: Options, tables: Mapping[str, StateTable]) -> None:
        self.place, self.options, self.tables = place, options, tables
        self.objects = place.objects()
        self.log = ManifestLog(self.objects, create=True)
        self.log.lock()
        try:
            last = self.log.latest()
        except BaseException:
            self.log.unlock()
            raise
        self.store = place.store(self.objects)
        self.version = last.version if last else Version.empty()
        self.catalog: dict[str, Any] = last.catalog if last else {"epoch": 0, "token": 0}
        context: Any = LocalContext(options.hosts)
        self.gate = Gate()
        self._uploads = Uploads(context, self.store, options.target_bytes)
        policy = Policy(options.most, options.run_bytes, fan_out=3, job_bytes=4 * options.run_bytes)
        self.compactor = Compactor(context, self.store, options.partitions, policy)
        self.checkpoints = Checkpoints(
            self.log, self.store, last, 0.0, 0, GRACE, self._upload, lambda: self._files_in_use()
        )
        self.checkpoints._collect_in = 1 << 60  # garbage is collected when asked for
        self.submitted = self.version.epoch
        self.pinned: tuple[frozenset[str], ...] = ()
        """Files of versions that readers in this process hold."""

    def _files_in_use(self) -> InUse:
        return InUse(self.version.files(), (self.compactor.reading(), *self.pinned), self.compactor.in_flight())

    def _upload(self, version: Version, number: int, moved: Sequence[Run]) -> list[Swap]:
        self.gate.pass_through()
        self.place.moved += len(moved)
        return self._uploads.run(version, number, moved)

    # -- writing ------------------------------------------------------------------------------------

    def write(self, rows: Mapping[str, Rows], partitions: int) -> list[Run]:
        """What the tasks of the next epoch write: a file a partition."""
        epoch, written = self.version.epoch + 1, []
        chance = random.Random(f"{epoch} {partitions} {sum(map(len, rows.values()))}")
        for index in range(partitions):
            low, high = partition_vnodes(index, partitions)
            parts: list[Part] = []
            for table, all_rows in rows.items():
                start, stop = lookup.vnode_range(all_rows.keys, low, high)
                ops = self.tables[table].ops
                part = all_rows.slice(start, stop)
                if MergeOp.LAST in ops or chance.random() < 0.5:
                    parts.append(Part(table, part, ops))
                else:
                    parts += (
                        Part(table, piece, ops) for piece in loose(part, self.tables[table], chance) if len(piece)
                    )
            with on_host(index % self.options.hosts):
                written += self.store.write(epoch, parts, f"0-{index}")
        return written

    def seal(self, runs: Sequence[Run], catalog: dict[str, Any], take: bool = True, submit: bool = False) -> None:
        """As the coordinator seals an epoch; a merge that is not taken counts as still running."""
        epoch = self.version.epoch + 1
        added: list[Run] = []
        removed: tuple[Run, ...] = ()
        if take:
            merged = self.compactor.take(self.version)
            added, removed = [replace(r, added=epoch) for r in merged.added], merged.removed
        version = self.version.seal(epoch, [*runs, *added], removed)
        self.version = version.forget(epoch - self.options.history)
        self.catalog = catalog
        self.evict()
        if submit:
            self.submit()

    def evict(self) -> None:
        """Read from durable objects what they have."""
        swaps = self.checkpoints.take_swaps()
        self.compactor.swapped(swaps)
        self.version = self.version.swapped(swaps)

    def compact(self) -> None:
        """Merge what there are too many runs of; what comes of it is sealed with a later epoch."""
        self.compactor.start(self.version, self.tables, {})
        self.compactor.wait()

    def failures_of_merges(self) -> tuple[str, ...]:
        """What went wrong in merges."""
        return self.compactor.warnings()

    # -- checkpoints --------------------------------------------------------------------------------

    def sealed(self) -> Sealed:
        """What a checkpoint is made of."""
        return Sealed(self.version, self.catalog, self.options.left_out if self.options.hosts == 1 else 0)

    def submit(self) -> None:
        """Ask for a checkpoint."""
        self.submitted = self.version.epoch
        self.checkpoints.submit(self.sealed())

    def begin_checkpoint(self) -> None:
        """Ask for a checkpoint; its upload has begun when this returns, and waits."""
        self.gate.hold(self.submit)

    def finish_checkpoint(self) -> None:
        """Let uploads go on, and wait for what has been asked for; raises what goes wrong."""
        each = self.checkpoints
        with each._condition:
            each._error = each._error if each._stopped else None
            self.gate.open()
            assert each._condition.wait_for(
                lambda: (each._error is not None) or (each._pending is None and not each._busy), 60
            )
            if each._error is not None:
                raise each._error

    def fail_upload(self) -> None:
        """Let the upload that waits fail; it is tried again, and waits again."""
        self.gate.fail_one(TidemillError("TM1017", "the Spark job of a checkpoint failed", got="a test", hint="-"))

    def checkpoint(self) -> None:
        """Make the newest sealed epoch durable now."""
        self.gate.open()
        self.submitted = self.version.epoch
        self.checkpoints.flush(self.sealed())

    @property
    def durable_epoch(self) -> int:
        """The newest epoch that is durable, as far as this process knows."""
        return self.checkpoints.durable_epoch

    @property
    def stopped(self) -> bool:
        """Whether nothing will be written any more."""
        return self.checkpoints._stopped

    def collect_garbage(self) -> int | None:
        """Delete what nobody needs."""
        return self.checkpoints.collect_garbage()

    # -- ending -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop without a checkpoint."""
        self.compactor.wait()
        self.gate.open(TidemillError("TM1015", "a checkpoint failed", got="the process ends", hint="-"))
        self.checkpoints.close()
        self.log.unlock()

    def lose_lock(self) -> None:
        """Another host does not see the lock: what it opens is fenced by manifests alone."""
        self.log.unlock()


@contextmanager
def on_host(number: int) -> Iterator[None]:
    """As on another worker host."""
    with mock.patch.dict(os.environ, {"TIDEMILL_HOST": f"host{number}"}):
        yield


def loose(rows: Rows, table: StateTable, chance: random.Random) -> list[Unordered]:
    """The same rows in any order, some keys twice, in one part or two."""
    again = rows.take(np.array([i for i in range(len(rows)) if chance.random() < 0.3], np.int64))
    neutral = [
        pa.nulls(len(again), v.type) if op in (MergeOp.MIN, MergeOp.MAX) else pa.array([0] * len(again), v.type)
        for op, at in columns_by_op(table.ops)
        for v in again.values[at : at + op.columns]
    ]
    both = joined([rows, Rows(again.keys, tuple(neutral))])
    order = np.array(chance.sample(range(len(both)), len(both)), np.int64)
    cut = chance.choice((0, len(both) // 2))
    found = []
    for piece in (both.take(order[:cut]), both.take(order[cut:])):
        made = unordered(decode(piece.keys, table.key), piece.values, table.key, table.distribution)
        assert made is not None
        found.append(made)
    return [concatenated(found)] if chance.random() < 0.5 else found
