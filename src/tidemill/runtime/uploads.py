"""Makes durable objects of what the buffers hold: each host one, of all that was sealed there since the last time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from pyspark import SparkContext

from tidemill.errors import TidemillError
from tidemill.state.store import SST, RunStore, host_of
from tidemill.state.version import Run, Swap, Version

Group = Sequence[Run]


def buffered(version: Version) -> dict[str, list[Group]]:
    """By host the runs of a version that only its buffer has, those together that become one."""
    found: dict[str, dict[tuple[str, int, int, int, int | None], list[Run]]] = {}
    for run in version.every():
        if not run.file.endswith(SST):
            key = (run.table, run.epoch_low, run.epoch_high, run.added, run.removed)
            found.setdefault(host_of(run.file), {}).setdefault(key, []).append(run)
    return {host: list(groups.values()) for host, groups in sorted(found.items())}


class Uploads:
    """Runs the job of a checkpoint, beside epochs: one task a host.

    Parameters
    ----------
    target_bytes : int
        A host's object is split when it would be larger.
    """

    def __init__(self, context: SparkContext, store: RunStore, target_bytes: int) -> None:
        self._context = context
        self._store = store
        self._target = target_bytes

    def run(self, version: Version, number: int) -> list[Swap]:
        """Upload what a version has in buffers; for checkpoint ``number``.

        Raises
        ------
        TidemillError
            As :meth:`RunStore.combine`; TM1017 when Spark gave up.
        """
        hosts = list(buffered(version).values())
        if not hosts:
            return []
        self._context.setLocalProperty("spark.scheduler.pool", "checkpoint")
        work = partial(_upload, self._store, hosts, number, self._target)
        try:
            found = self._context.parallelize(range(len(hosts)), len(hosts)).mapPartitionsWithIndex(work).collect()
        except Exception as error:  # whatever Spark says
            raise TidemillError(
                "TM1017",
                "the Spark job of a checkpoint failed",
                got=str(error).splitlines()[0],
                hint="it will be tried again: the last checkpoint is intact",
            ) from error
        for result in found:
            if isinstance(result, TidemillError):
                raise result
        return [swap for swap in found if isinstance(swap, Swap)]


def _upload(
    store: RunStore, hosts: Sequence[Sequence[Group]], number: int, target: int, index: int, numbers: Iterable[int]
) -> Iterator[Swap | TidemillError]:
    deque(numbers, 0)  # Spark ends a worker process that has not read its input to the end
    try:
        yield from store.combine(hosts[index], number, target)
    except TidemillError as error:
        yield error
