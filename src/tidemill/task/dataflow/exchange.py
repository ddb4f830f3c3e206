"""The queue between pipelines of one task, with barrier tokens.

A token is a counter over all producers, not an element per producer: the exchange is drained when
every producer has put its token *and* the queue is empty. No item of the next epoch can overtake
one of this epoch, because a producer gets no input before the barrier has passed everywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from tidemill.task.dataflow.deltas import Delta, Item
from tidemill.task.dataflow.operator import Operator, Output, SourceOperator


class LocalExchange:
    """Joins any number of producing pipelines to one consuming pipeline."""

    def __init__(self) -> None:
        self.producers = 0
        self.wake: Callable[[], None] | None = None
        """Called when the consumer has something to do: an item, or the last token."""
        self._queue: deque[tuple[Item, int]] = deque()
        self._tokens = 0

    def put(self, item: Item, port: int) -> None:
        """Add an item for an input port of the consumer."""
        self._queue.append((item, port))
        if self.wake is not None:
            self.wake()

    def put_token(self) -> None:
        """One producer has drained."""
        self._tokens += 1
        assert self._tokens <= self.producers, "a producer drained twice in one barrier"
        if self._tokens == self.producers and self.wake is not None:
            self.wake()

    def get(self) -> tuple[Item, int] | None:
        """The oldest item and its port, or None when there is none now."""
        return self._queue.popleft() if self._queue else None

    def take_drained(self) -> bool:
        """Whether all producers have drained and nothing is queued; if so, ready for the next barrier."""
        if self._tokens < self.producers or self._queue:
            return False
        self._tokens = 0
        return True


class ExchangeSource(SourceOperator):
    """Head of a pipeline that reads from other pipelines of the task."""

    def __init__(self, exchange: LocalExchange) -> None:
        super().__init__(step=-1)
        self.exchange = exchange

    def get_output(self) -> Output | None:
        """The next item; its port is the input port of the operator that follows."""
        entry = self.exchange.get()
        return None if entry is None else Output(entry[0], entry[1])

    def reached_barrier(self) -> bool:
        """Whether every producer has drained and the queue is empty."""
        return self.exchange.take_drained()


class ExchangeSink(Operator):
    """Tail of a pipeline: passes each item to its consumers.

    ``targets`` are (output port, exchange, input port of the consumer, epoch of creation of the consumer).
    Rows of history reach only the consumers created at their backfill target; from there on they are rows like any
    other. Items on ``leaving`` ports are output of the task as well.
    """

    def __init__(
        self,
        step: int,
        targets: tuple[tuple[int, LocalExchange, int, int], ...],
        leaving: frozenset[int],
    ) -> None:
        super().__init__(step)
        self.targets = targets
        self.leaving = leaving
        for exchange in self._exchanges():
            exchange.producers += 1

    def add_input(self, item: Item, port: int) -> None:
        """Copy the reference to each consumer's queue."""
        backfill_target = None
        shared = item
        if isinstance(item, Delta) and item.backfill_target is not None:
            backfill_target, shared = item.backfill_target, replace(item, backfill_target=None)
        for out_port, exchange, in_port, created_at_epoch in self.targets:
            if out_port == port and (backfill_target is None or backfill_target == created_at_epoch):
                exchange.put(shared, in_port)
        if port in self.leaving:
            self._pending.put(Output(shared, port))

    def start_drain(self) -> bool:
        """Pass the barrier token on."""
        for exchange in self._exchanges():
            exchange.put_token()
        return False

    def _exchanges(self) -> list[LocalExchange]:
        return list({id(t[1]): t[1] for t in self.targets}.values())
