"""Reads sets of splits ahead of the consumer, several at a time, and gives their rows in order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemill.loader.split_sets import SplitSet

Read = Callable[[SplitSet, threading.Event], Iterator[pa.RecordBatch] | None]
"""Begins to read a set of splits; None when the event is set before that is possible."""

_BATCHES = 8
"""Batches of a split that wait for the consumer; the formats make them of a buffer of about a megabyte."""


@dataclass(frozen=True)
class Chunk:
    """Rows of a set: those from ``row`` on of the set of splits that the pass reads as number ``place``."""

    batch: pa.RecordBatch
    place: int
    row: int


def read_in_order(read: Read, splits: Sequence[tuple[int, SplitSet]], workers: int) -> Generator[Chunk]:
    """The rows of sets, each with its place, in the order given, whatever the number of workers.

    With ``workers`` 0 they are read when they are asked for. Otherwise that many threads each read one set; memory
    is that of their queues. What a set raises is raised where its rows would come.
    """
    if workers <= 0:
        never = threading.Event()
        for place, split in splits:
            rows = read(split, never)
            assert rows is not None
            yield from _chunks(rows, place)
        return
    ahead = _Ahead(read, splits, workers)
    try:
        for place, split_queue in ahead.queues():
            yield from _chunks(_taken(split_queue), place)
    finally:
        ahead.stop()


def _chunks(batches: Iterator[pa.RecordBatch], place: int) -> Iterator[Chunk]:
    row = 0
    for batch in batches:
        yield Chunk(batch, place, row)
        row += batch.num_rows


_Queue = queue.Queue["pa.RecordBatch | BaseException | None"]


def _taken(batches: _Queue) -> Iterator[pa.RecordBatch]:
    while (found := batches.get()) is not None:
        if isinstance(found, BaseException):
            raise found
        yield found


class _Ahead:
    """Threads that read splits in the order given: so the one whose rows are wanted is always being read."""

    def __init__(self, read: Read, splits: Sequence[tuple[int, SplitSet]], workers: int) -> None:
        self._read, self._splits = read, splits
        self._begun: queue.Queue[tuple[int, _Queue] | None] = queue.Queue(workers)
        self._next, self._lock = iter(splits), threading.Lock()
        self._stopping = threading.Event()
        self._open = min(workers, len(splits))
        self._threads = [threading.Thread(target=self._run, daemon=True, name="loader") for _ in range(self._open)]
        for thread in self._threads:
            thread.start()

    def queues(self) -> Iterator[tuple[int, _Queue]]:
        """For each split its place and the queue of its batches."""
        for _ in self._splits:
            found = self._begun.get()
            assert found is not None
            yield found

    def stop(self) -> None:
        """End the threads: their queues take nothing any more."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while True:
            batches: _Queue = queue.Queue(_BATCHES)
            rows: Iterator[pa.RecordBatch] | None = None
            with self._lock:  # sets are begun in order: none has to wait for one behind it
                begun = next(self._next, None)
                if begun is None or not self._put(self._begun, (begun[0], batches)):
                    return
                try:
                    rows = self._read(begun[1], self._stopping)
                except BaseException as error:
                    self._put(batches, error)
            if rows is None or not self._fill(rows, batches):
                return

    def _fill(self, rows: Iterator[pa.RecordBatch], batches: _Queue) -> bool:
        try:
            for batch in rows:
                if not self._put(batches, batch):
                    return False
        except BaseException as error:
            self._put(batches, error)
            return False
        finally:
            close = getattr(rows, "close", None)
            if close is not None:
                close()
        return self._put(batches, None)

    def _put(self, into: queue.Queue[Any], what: object) -> bool:
        while not self._stopping.is_set():
            try:
                into.put(what, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False
