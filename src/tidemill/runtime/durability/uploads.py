"""Uploads sealed runs from the buffers of hosts: one object per host and checkpoint."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from pyspark import SparkContext

from tidemill.errors import TidemillError
from tidemill.state.plain.reading import MOST_ROWS
from tidemill.state.store.durable_runs import make_durable
from tidemill.state.store.file_names import host_of, this_host
from tidemill.state.store.store import RunStore
from tidemill.state.versions.version import Run, Swap, Version

Group = Sequence[Run]
Upload = Callable[[Version, int, Sequence[Run]], list[Swap]]
"""Makes runs of a version durable that only buffers have, for the checkpoint of a number, and moves durable ones."""

_ATTEMPTS = 4


def buffered(version: Version) -> dict[str, list[Group]]:
    """By host the runs of a version that only its buffer has, grouped by the run that they become."""
    found: dict[str, dict[tuple[str, int, int, int, int | None], list[Run]]] = {}
    for run in version.every():
        if not run.is_durable:
            key = (run.table, run.epoch_low, run.epoch_high, run.added, run.removed)
            found.setdefault(host_of(run.file), {}).setdefault(key, []).append(run)
    return {host: list(groups.values()) for host, groups in sorted(found.items())}


class Buffered:
    """How many bytes of sealed epochs only buffers have."""

    def __init__(self) -> None:
        self._sealed: deque[tuple[int, int]] = deque()
        self._bytes = 0

    def sealed(self, epoch: int, runs: Iterable[Run]) -> None:
        """An epoch has been sealed, with new runs."""
        size = sum(run.bytes for run in runs if not run.is_durable)
        self._sealed.append((epoch, size))
        self._bytes += size

    def bytes(self, durable_epoch: int) -> int:
        """Those of epochs behind the durable one."""
        while self._sealed and self._sealed[0][0] <= durable_epoch:
            self._bytes -= self._sealed.popleft()[1]
        return self._bytes


class Uploads:
    """Runs the job of a checkpoint, beside epochs: one task per host uploads the runs of its buffer.

    Parameters
    ----------
    target_bytes : int
        A host's object is split when it would be larger.
    """

    def __init__(self, context: SparkContext, store: RunStore, target_bytes: int) -> None:
        self._context = context
        self._store = store
        self._target = target_bytes

    def run(self, version: Version, number: int, moved: Sequence[Run] = ()) -> list[Swap]:
        """Upload the runs of a version that are in buffers; for checkpoint ``number``.

        Those of tables that are read without kernels, since they are small, are put in order. One host that uploads
        also writes again the durable runs that are to be ``moved``.

        Spark does not send tasks to a given host. So a task uploads for its own host, unless another task did, and more
        tasks are sent while hosts remain. The driver uploads for its host if no task ran there.

        Raises
        ------
        TidemillError
            As :func:`~tidemill.state.store.durable_runs.make_durable`; TM1017 when Spark gave up, TM1018 when no task
            reached a host.
        """
        waiting = buffered(version)
        small = frozenset(t for t, runs in version.tables.items() if sum(r.rows for r in runs) <= MOST_ROWS)
        mover = this_host() if this_host() in waiting else next(iter(waiting), "")
        moves = {mover: moved}
        swaps: list[Swap] = []
        for attempt in range(_ATTEMPTS):
            if not waiting:
                return swaps
            tasks = max(len(waiting), attempt * 2 * self._context.defaultParallelism)
            for host, done in self._job(waiting, moves, number, small, tasks):
                if waiting.pop(host, None):  # a host may answer twice
                    swaps += done
        for host in [h for h in waiting if h == this_host()]:
            here = moves.get(host, ())
            swaps += make_durable(self._store, waiting.pop(host), number, self._target, small, here)
        if waiting:
            raise TidemillError(
                "TM1018",
                "sealed state that was not durable yet is lost",
                got=f"no task reached the hosts that have it: {', '.join(waiting)}",
                hint="the mill goes back to the last durable epoch by itself, and reads again what came after it",
            )
        return swaps

    def _job(
        self,
        waiting: dict[str, list[Group]],
        moves: dict[str, Sequence[Run]],
        number: int,
        small: frozenset[str],
        tasks: int,
    ) -> list[tuple[str, list[Swap]]]:
        """Swaps by host, of the hosts that tasks ran on."""
        work = partial(_upload, self._store, waiting, moves, number, self._target, small, uuid.uuid4().hex)
        try:
            self._context.setLocalProperty("spark.scheduler.pool", "checkpoint")
            found = self._context.parallelize(range(tasks), tasks).mapPartitionsWithIndex(work).collect()
        except Exception as error:  # of any class of Spark
            raise TidemillError(
                "TM1017",
                "the Spark job of a checkpoint failed",
                got=str(error).splitlines()[0],
                hint="it will be tried again: the last checkpoint is intact",
            ) from error
        for result in found:
            if isinstance(result, TidemillError):
                raise result
        return [done for done in found if isinstance(done, tuple)]


def _upload(
    store: RunStore,
    waiting: dict[str, list[Group]],
    moves: dict[str, Sequence[Run]],
    number: int,
    target: int,
    small: frozenset[str],
    job: str,
    index: int,
    numbers: Iterable[int],
) -> Iterator[tuple[str, list[Swap]] | TidemillError]:
    deque(numbers, 0)  # Spark ends a worker process that has not read its input to the end
    host = this_host()
    try:
        if host in waiting and store.claim(job):
            yield host, make_durable(store, waiting[host], number, target, small, moves.get(host, ()))
    except TidemillError as error:
        yield error
    finally:
        store.let_go()
