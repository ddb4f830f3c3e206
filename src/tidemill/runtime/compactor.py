"""Merges runs in the background, as Spark jobs of their own beside the epochs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from pyspark import SparkContext

from tidemill.errors import TidemillError
from tidemill.state.compaction import Compaction, choose
from tidemill.state.expiry import Expiry, without_expired
from tidemill.state.merge import MergeOp, merge
from tidemill.state.sst import Part
from tidemill.state.store import RunStore, partition_vnodes
from tidemill.state.version import Run, Version
from tidemill.task.program import StateTable

_Job = tuple[Compaction, StateTable, tuple[Expiry, ...]]


@dataclass(frozen=True)
class Merged:
    """A finished compaction: these runs take the place of those."""

    added: tuple[Run, ...]
    removed: tuple[Run, ...]


class Compactor:
    """At most one compaction job at a time; an epoch never waits for it."""

    def __init__(self, context: SparkContext, store: RunStore, partitions: int, most: int) -> None:
        self._context = context
        self._store = store
        self._partitions = partitions
        self._most = most
        self._thread: threading.Thread | None = None
        self._result: list[Merged] = []
        self._error: TidemillError | None = None

    def start(
        self,
        version: Version,
        tables: Mapping[str, StateTable],
        expired: Mapping[str, tuple[Expiry, ...]],
        filling: Collection[str] = (),
    ) -> None:
        """Begin to merge what a version has too many of, unless a merge is under way.

        Rows that are ``expired``, by table, are left out of what is merged. ``filling`` are tables of views whose
        history is still being read: a group that counts no rows there may have sums of rows whose other half is to
        come, so nothing is dropped.
        """
        if self._thread is not None:
            if self._thread.is_alive() or self._result:
                return
            self._thread = None
        chosen = [c for t in tables if (c := choose(t, version.runs(t), self._most)) is not None]
        if chosen:
            self._thread = threading.Thread(
                target=self._run, args=(chosen, tables, expired, frozenset(filling)), name="compaction"
            )
            self._thread.start()

    def take(self, version: Version) -> Merged:
        """What has been merged since the last call and still fits the version."""
        results, self._result = self._result, []
        added: list[Run] = []
        removed: list[Run] = []
        for merged in results:
            table = merged.removed[0].table
            visible = {(r.file, r.section) for r in version.runs(table)}
            if all((r.file, r.section) in visible for r in merged.removed):
                added += merged.added
                removed += merged.removed
        return Merged(tuple(added), tuple(removed))

    def warnings(self) -> tuple[str, ...]:
        """What went wrong since the last call, in words."""
        error, self._error = self._error, None
        return () if error is None else (error.message(),)

    @property
    def idle(self) -> bool:
        """Whether no merge is under way and the last one has been sealed."""
        return self._thread is None or not (self._thread.is_alive() or self._result)

    def wait(self) -> None:
        """Wait for the merge under way."""
        if self._thread is not None:
            self._thread.join()

    def forget(self) -> None:
        """Wait for the merge under way, and do not use what it gives."""
        self.wait()
        self._result = []

    def _run(
        self,
        chosen: list[Compaction],
        tables: Mapping[str, StateTable],
        expired: Mapping[str, tuple[Expiry, ...]],
        filling: frozenset[str],
    ) -> None:
        self._context.setLocalProperty("spark.scheduler.pool", "compaction")
        jobs = [(c, tables[c.table], expired.get(c.table, ())) for c in chosen]
        work = partial(_merge_partition, self._store, jobs, filling, self._partitions)
        try:
            rdd = self._context.parallelize(range(self._partitions), self._partitions)
            outputs = rdd.mapPartitionsWithIndex(work).collect()
        except Exception as error:  # told in the report of the next epoch; epochs go on with more runs
            self._error = TidemillError(
                "TM1021",
                "a merge of state files failed",
                got=str(error).splitlines()[0],
                hint="it will be tried again",
            )
            return
        by_table: dict[str, list[Run]] = {}
        for run in outputs:
            by_table.setdefault(run.table, []).append(run)
        for compaction in chosen:
            self._result.append(Merged(tuple(by_table.get(compaction.table, ())), compaction.runs))


def _merge_partition(
    store: RunStore,
    jobs: list[_Job],
    filling: frozenset[str],
    partitions: int,
    index: int,
    numbers: Iterable[int],
) -> Iterator[Run]:
    """Merge this partition's vnodes of every table; one file for all of them."""
    deque(numbers, 0)  # Spark ends a worker process that has not read its input to the end
    low, high = partition_vnodes(index, partitions)
    merged: list[Part] = []
    spans: dict[str, tuple[int, int]] = {}
    for compaction, table, expired in jobs:
        runs = store.open_range(compaction.runs, low, high)
        spans[table.id] = (compaction.runs[0].epoch_low, compaction.runs[-1].epoch_high)
        if runs:
            counted = table.ops[0] is MergeOp.SUM  # the weight of a row or the count of a group
            settled = table.id not in filling
            drop = table.is_multiset or (counted and compaction.full and bool(table.key) and settled)
            rows = merge(runs, table.ops, drop_zero=drop)
            rows = without_expired(rows, table.key, expired) if expired else rows
            merged.append(Part(table.id, rows, table.ops, spans[table.id]))
    epoch = max(span[1] for span in spans.values())
    for run in store.write(epoch, merged, f"m-{index}"):
        first, last = spans[run.table]
        yield replace(run, epoch_low=first, epoch_high=last)
