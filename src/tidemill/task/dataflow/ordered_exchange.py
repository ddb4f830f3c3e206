"""The queues between pipelines of a task that gives the same rows in the same order whatever the number of threads.

Each input of the consumer has a lane for each pipeline that gives to it. Items of a lane come in the order in which
they were put; of several lanes by their sequence numbers, which never go down within a lane, and then by lane. Among
inputs the consumer decides. So what it gets does not depend on which pipeline was faster.

A barrier token is one flag for each lane: an input has drained when all its lanes have and nothing is queued. Nothing
of the next barrier can overtake, because pipelines get no input before the barrier has passed everywhere.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import ClassVar, TypeAlias

from tidemill.task.dataflow.deltas import Item
from tidemill.task.dataflow.operator import Operator, Output, SourceOperator

CAPACITY = 4
"""Items that wait in a lane before its pipeline gives way to others; it goes on when nothing else can."""

Sequence: TypeAlias = tuple[int, ...]
"""The number of the split or batch that an item comes from; within parted rows also that of the batch in there."""

BEGIN: Sequence = ()
AT_BARRIER: Sequence = (1 << 61,)
"""Of items that come at a barrier."""

_END: Sequence = (1 << 62,)


def _nothing() -> None:
    pass


class Lane:
    """The queue from one pipeline to one input of a consumer."""

    def __init__(self, exchange: OrderedExchange, port: int, rank: int) -> None:
        self.exchange = exchange
        self.port = port
        self.rank = rank
        self.items: deque[tuple[Sequence, Item | BaseException]] = deque()
        self.progress = BEGIN
        """Items that will be put have at least this sequence number."""
        self.drained = False
        self.dropped = False
        self.wake_producer: Callable[[], None] = _nothing
        """Called when there is room, or when no item is wanted any more."""

    @property
    def full(self) -> bool:
        """Whether the pipeline should give way to its consumer."""
        return len(self.items) >= CAPACITY

    def put(self, item: Item | BaseException, sequence: Sequence) -> None:
        """Queue an item, unless nobody wants it; or an error, which is raised where the item would be taken."""
        with self.exchange.lock:
            if self.dropped:
                return
            self.items.append((sequence, item))
            self.progress = sequence
        self.exchange.wake()

    def advance(self, sequence: Sequence) -> None:
        """Nothing comes before this sequence number any more."""
        with self.exchange.lock:
            if sequence <= self.progress:
                return
            self.progress = sequence
        self.exchange.wake()

    def put_token(self) -> None:
        """The pipeline has drained."""
        with self.exchange.lock:
            assert not self.drained, "a pipeline drained twice in one barrier"
            self.drained = True
            self.progress = _END
        self.exchange.wake()

    @property
    def bound(self) -> Sequence:
        """The least sequence number that its next item can have."""
        return self.items[0][0] if self.items else self.progress


class OrderedExchange:
    """Joins the pipelines that give to one consumer.

    Parameters
    ----------
    consumer : Operator
        The operator that takes the items; it may say which input it wants and which it drops.
    lock : threading.RLock
        That of the task.
    """

    def __init__(self, consumer: Operator, lock: threading.RLock) -> None:
        self.consumer = consumer
        self.lock = lock
        self.ports: dict[int, list[Lane]] = {}
        self.wake: Callable[[], None] = _nothing
        """Called when the consumer may have something to do."""
        self.failed_at: Sequence | None = None
        """Of the error that was raised last."""
        self._open: dict[int, None] = {}

    def lane(self, port: int, rank: int = 0) -> Lane:
        """A new lane to an input; of items with equal numbers that of the lane with the lowest rank comes first."""
        lane = Lane(self, port, rank)
        lanes = self.ports.setdefault(port, [])
        lanes.append(lane)
        lanes.sort(key=lambda lane: lane.rank)
        self._open = dict.fromkeys(sorted(self.ports))
        return lane

    def get(self) -> tuple[Item, int, Sequence] | None:
        """The next item with its input and sequence number, or None when there is none now.

        Of the inputs that the consumer wants, the first one is asked, and waited for. The consumer is told when it has
        drained.
        """
        for port in self._open:
            if self.consumer.drops(port):
                self._drop(self.ports[port])
        while self._open:
            port = next(port for port in self._open if self.consumer.wants(port))
            lanes = self.ports[port]
            with self.lock:
                drained = all(lane.drained and not lane.items for lane in lanes)
            if not drained:
                return self._next(lanes)  # also None: an item of another input now would depend on who was faster
            del self._open[port]
            self.consumer.input_drained(port)
        return None

    def _next(self, lanes: list[Lane]) -> tuple[Item, int, Sequence] | None:
        with self.lock:
            first = min(lanes, key=lambda lane: lane.bound) if len(lanes) > 1 else lanes[0]
            if not first.items:
                return None
            was_full = first.full
            sequence, item = first.items.popleft()
        if was_full:
            first.wake_producer()
        if isinstance(item, BaseException):
            self.failed_at = sequence
            raise item
        return item, first.port, sequence

    def _drop(self, lanes: list[Lane]) -> None:
        for lane in lanes:
            with self.lock:
                if lane.dropped:
                    continue
                lane.dropped = True
                lane.items.clear()
            lane.wake_producer()

    def drop_all(self) -> None:
        """No item is wanted before the barrier."""
        for lanes in self.ports.values():
            self._drop(lanes)

    def progress(self) -> Sequence:
        """The least sequence number that the next item can have; what the consumer holds comes at the barrier."""
        with self.lock:
            return min(AT_BARRIER, *(lane.bound for lanes in self.ports.values() for lane in lanes))

    def take_drained(self) -> bool:
        """Whether all inputs have drained; if so, ready for the next barrier."""
        if self._open:
            return False
        for lanes in self.ports.values():
            for lane in lanes:
                lane.progress, lane.drained, lane.dropped = BEGIN, False, False
        self._open = dict.fromkeys(sorted(self.ports))
        return True


class OrderedSource(SourceOperator):
    """Head of a pipeline that reads from other pipelines of the task."""

    holds_state: ClassVar[bool] = False

    def __init__(self, exchange: OrderedExchange) -> None:
        super().__init__(step=-1)
        self.exchange = exchange

    def get_output(self) -> Output | None:
        """The next item; its port is the input of the operator that follows."""
        try:
            entry = self.exchange.get()
        except BaseException:
            self.sequence = self.exchange.failed_at or self.sequence
            raise
        if entry is None:
            return None
        item, port, self.sequence = entry
        return Output(item, port)

    def progress(self) -> Sequence:
        """The least sequence number that the next item can have."""
        return self.exchange.progress()

    def reached_barrier(self) -> bool:
        """Whether every input has drained."""
        return self.exchange.take_drained()

    def skip_to_barrier(self) -> None:
        """Pass that on to the pipelines that give the items."""
        self.exchange.drop_all()


class OrderedSink(Operator):
    """Tail of a pipeline: passes each item to the lanes that read its output port."""

    holds_state: ClassVar[bool] = False

    def __init__(self, step: int, targets: tuple[tuple[int, Lane], ...], parting: Operator | None = None) -> None:
        super().__init__(step)
        self.targets = targets
        self.sequence = BEGIN
        """The number that items get; of parted rows with that of the batch behind it."""
        self.parting = parting

    @property
    def full(self) -> bool:
        """Whether a consumer should go on first."""
        return any(lane.full for _, lane in self.targets)

    @property
    def dropped(self) -> bool:
        """Whether nobody wants more before the barrier."""
        return all(lane.dropped for _, lane in self.targets)

    def add_input(self, item: Item, port: int) -> None:
        """Queue the item for each consumer of the port."""
        sequence = self.sequence if self.parting is None else (*self.sequence, self.parting.stats.batches)
        for out_port, lane in self.targets:
            if out_port == port:
                lane.put(item, sequence)

    def fail(self, error: BaseException) -> None:
        """Raise an error where the next item would be taken; nothing comes behind it."""
        for _, lane in self.targets:
            lane.put(error, max(self.sequence, lane.progress))
            lane.put_token()

    def advance(self, sequence: Sequence) -> None:
        """No item with a lower number comes any more."""
        for _, lane in self.targets:
            lane.advance(sequence)

    def start_drain(self) -> bool:
        """Pass the barrier token on."""
        for _, lane in self.targets:
            lane.put_token()
        return False
