"""The pipelines of a task: who gives to whom, and which one goes on next.

Steps are cut into pipelines where rows meet or part. A pipeline whose operators work on one item at a time is there in
several copies when the task has threads; queues put what they give back in order (:mod:`.dataflow.ordered_exchange`).
The pipeline furthest downstream that can do something goes first, so queues stay short and order does not depend on
the number of threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from heapq import heappop, heappush
from typing import ClassVar

from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Item
from tidemill.task.dataflow.operator import Context, Operator, OperatorStats, Output, SourceOperator
from tidemill.task.dataflow.ordered_exchange import (
    AT_BARRIER,
    BEGIN,
    OrderedExchange,
    OrderedSink,
    OrderedSource,
    Sequence,
)
from tidemill.task.driver import Driver, Pause
from tidemill.task.program import Program, consumers_of

RESULTS = 8
"""Items of output that wait for the caller when the task has threads."""


class OrderedDriver(Driver):
    """A pipeline of a task: gives way while its consumers have enough to do, and stops reading what they drop.

    Items that leave have the numbers of those that they come from, with ``several_inputs`` the numbers of their order.
    What operators give at a barrier is behind all of them.
    """

    def __init__(self, operators: tuple[Operator, ...], several_inputs: bool = False) -> None:
        super().__init__(operators)
        tail = operators[-1]
        self.sink = tail if isinstance(tail, OrderedSink) else None
        self._several = several_inputs
        droppers = enumerate(operators[2:], 2) if several_inputs else enumerate(operators[1:], 1)
        self._droppers = [(at, o) for at, o in droppers if type(o).drops is not Operator.drops]
        self._delaying = [at for at, o in enumerate(operators) if type(o).waiting is not Operator.waiting]
        self._number: Sequence = BEGIN
        """Of the item that the source gave last."""
        self._drained_from: int | None = None
        """The operator that drains."""
        self._source_failed = False
        self.holds_state = any(o.holds_state for o in operators)
        """Whether it works with state tables, which one pipeline at a time may do."""
        self.relieved = False
        """Whether it may give one more item although its consumers have enough."""
        self.waiting: Future[None] | None = None
        """What it waits for."""

    @property
    def blocked(self) -> bool:
        """Whether it should give way to its consumers."""
        return self.sink is not None and self.sink.full and not self.sink.dropped

    def run(self) -> Iterator[tuple[int, Output] | Pause]:
        """Up to the next barrier, as :meth:`Driver.run`."""
        self._drained_from = None
        self._source_failed = False
        items = 0
        while True:
            if self.blocked and not self.relieved:
                yield Pause.IDLE
                continue
            self.relieved = False
            if self._unwanted():
                self.source.skip_to_barrier()
            try:
                output = self._get(0)
            except Exception:
                yield from self._given_before()
                self._source_failed = True
                raise
            if output is not None:
                self._number = (items,) if self._several else self.source.sequence
                items += 1
                yield from self._flow(1, output)
                if self.sink is not None and self.sink.parting is not None:
                    self._advance((*self._number, self.sink.parting.stats.batches + 1))
                yield Pause.MOVED
            elif self.source.reached_barrier():
                break
            else:
                self._advance((items,) if self._several else self.source.progress())
                yield from self._wait(0)
        for position in range(len(self.operators)):
            self._drained_from = position
            if self._start_drain(position):
                yield from self._drained(position)

    def _flow(self, position: int, output: Output) -> Iterator[tuple[int, Output] | Pause]:
        if position in self._delaying:
            while self.operators[position].waiting() is not None:
                yield from self._wait(position)
                yield from self._given(position)
        if position == len(self.operators):
            yield (self.operators[-1].step, output)
            return
        self._add(position, output)
        yield from self._given(position)

    def _get(self, position: int) -> Output | None:
        try:
            return super()._get(position)
        except BaseException:
            if position == 0 and not self._several:
                self._number = self.source.sequence
            raise

    def fail(self, error: Exception) -> bool:
        """Raise an error where the next item would come to consumers; whether there are any."""
        self.source.skip_to_barrier()
        if self.sink is None:
            return False
        self.sink.sequence = self._number if self._source_failed else self._number_at(len(self.operators) - 1)
        self.sink.fail(error)
        return True

    def _add(self, position: int, output: Output) -> None:
        if position in self._delaying:
            self.operators[position].taking = self._number_at(position)
        elif self.sink is not None and position == len(self.operators) - 1:
            self.sink.sequence = self._number_at(position)
        super()._add(position, output)

    def _number_at(self, position: int) -> Sequence:
        """The number of what comes to an operator: that of the nearest one before it that gives output later."""
        first = self._drained_from or 0
        for at in reversed(self._delaying):
            if first <= at < position:
                return self.operators[at].given
        return self._number if self._drained_from is None else AT_BARRIER

    def _advance(self, number: Sequence) -> None:
        """Tell consumers that nothing comes before a number, or before what operators still hold."""
        if self.sink is not None:
            held = (self.operators[at].held() for at in self._delaying)
            self.sink.advance(min([number, *(h for h in held if h is not None)]))

    def _unwanted(self) -> bool:
        """Whether no item of the source can change what comes out. What lies before the operator that says so goes."""
        at = len(self.operators) if self.sink is not None and self.sink.dropped else 0
        at = max([at, *(place for place, operator in self._droppers if operator.drops(0))])
        for operator in self.operators[:at]:
            operator.discard()
        return at > 0

    def _drained(self, position: int) -> Iterator[tuple[int, Output] | Pause]:
        yield from self._given(position)
        while self.operators[position].waiting() is not None:
            yield from self._wait(position)
            yield from self._given(position)

    def _given_before(self) -> Iterator[tuple[int, Output] | Pause]:
        """What operators still hold when the source fails: rows that came before the error."""
        for position in self._delaying:
            if position > 0 and self._start_drain(position):
                yield from self._drained(position)

    def _given(self, position: int) -> Iterator[tuple[int, Output] | Pause]:
        while (output := self._get(position)) is not None:
            yield from self._flow(position + 1, output)
            yield Pause.MOVED
            self._unwanted()

    def _wait(self, position: int) -> Iterator[Pause]:
        self.waiting = self.operators[position].waiting()
        yield Pause.IDLE
        self.waiting = None


class Pipelines:
    """The pipelines of all steps of a program, and the one that goes on next.

    Parameters
    ----------
    program : Program
        Its last step is the one whose output leaves, and nothing reads it.
    copies : int
        Of pipelines that work on one item at a time.
    """

    def __init__(self, program: Program, copies: int) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        """Notified when a pipeline may go on, when there is output and when the barrier is reached."""
        wiring = _Wiring(program, copies, self.lock)
        self._drivers = wiring.drivers()
        self.sources = wiring.sources
        """For each source step its copies, which share their splits."""
        self._running: dict[int, Iterator[tuple[int, Output] | Pause]] = {}
        self._taken: set[int] = set()
        self._again: set[int] = set()
        self._ready: list[int] = []
        self._is_ready = [False] * len(self._drivers)
        self._stuck: set[int] = set()
        self._closed = False
        self._change: Future[None] | None = None
        self.broken = False
        """Whether a pipeline has failed; what its operators hold is of no use then."""
        self._last = len(self._drivers) - 1
        self.results: deque[Output | BaseException] = deque()
        for number, driver in enumerate(self._drivers):
            head, tail = driver.operators[0], driver.operators[-1]
            if isinstance(head, OrderedSource):
                head.exchange.wake = partial(self.wake, number)
            if isinstance(tail, OrderedSink):
                for _, lane in tail.targets:
                    lane.wake_producer = partial(self.wake, number)

    # -- a barrier's life -----------------------------------------------------------------------------

    def begin(self, context: Context) -> None:
        """Start anew: nothing has been read, no barrier is reached."""
        with self.lock:
            self._taken.clear()
            self._again.clear()
            self._stuck.clear()
            for driver in self._drivers:
                driver.begin(context)
            self._running = {number: driver.run() for number, driver in enumerate(self._drivers)}
            self._ready, self._is_ready = [], [False] * len(self._drivers)
            for number in self._running:
                self.wake(number)

    def abandon(self) -> None:
        """Leave everything as it is: the task has failed."""
        with self.lock:
            self._running = {}
            self._ready = []
            self.results.clear()

    def close(self) -> None:
        """Let the threads end."""
        with self.lock:
            self._closed = True
            self.abandon()
            self.changed.notify_all()
        for driver in self._drivers:
            for operator in driver.operators:
                operator.close()

    @property
    def finished(self) -> bool:
        """Whether the barrier is reached, and all output has been taken."""
        with self.lock:
            return not self._running and not self.results

    def wake(self, number: int) -> None:
        """Note that a pipeline may have something to do."""
        with self.lock:
            self._stuck.discard(number)
            if number in self._taken:
                self._again.add(number)
            elif number in self._running and not self._is_ready[number]:
                self._is_ready[number] = True
                heappush(self._ready, -number)
                self.changed.notify_all()

    def wake_source(self, step: int) -> None:
        """Note that a source has splits, or its barrier."""
        for number, driver in enumerate(self._drivers):
            if driver.source in self.sources[step]:
                self.wake(number)

    # -- going on -------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Let one pipeline go on for one item; whether there was one that can. What it gives is in ``results``.

        An error ends its pipeline, and comes to its consumers where its next item would: so it depends neither on who
        was faster nor on rows that nobody needs.
        """
        with self.lock:
            number = self._take()
            running = None if number is None else self._running[number]
        if number is None or running is None:
            return False
        produced: tuple[int, Output] | Pause | None = None
        try:
            produced = next(running, None)
        except Exception as error:
            self._failed(number, error)
        finally:
            with self.lock:
                self._put_back(number, produced)
        self._tell_caller()
        return True

    def _failed(self, number: int, error: Exception) -> None:
        self.broken = True
        if self._drivers[number].fail(error):
            return
        with self.lock:
            self.results.append(error)
            self._running = {}
            self._ready = []

    def _take(self) -> int | None:
        """The pipeline that goes on: the one furthest downstream, else one that gave way to its consumers."""
        found = None
        held = []
        while self._ready and found is None:
            number = -heappop(self._ready)
            if not self._may_take(number):
                held.append(number)
                continue
            found = number
            self._is_ready[number] = False
        for number in held:
            heappush(self._ready, -number)
        if found is None and not held and not self._taken:
            blocked = self._givers()
            if blocked:
                found = max(blocked)
                self._drivers[found].relieved = True
                self._stuck.add(found)  # until something changes for it, or it gives something
        if found is not None:
            self._taken.add(found)
        return found

    def _put_back(self, number: int, produced: tuple[int, Output] | Pause | None) -> None:
        self._taken.discard(number)
        again = number in self._again
        self._again.discard(number)
        if number not in self._running:
            return  # abandoned
        if produced is None:
            del self._running[number]
        elif not isinstance(produced, Pause):
            self.results.append(produced[1])
        if produced is not Pause.IDLE:
            self._stuck.discard(number)
        waiting = self._drivers[number].waiting
        if waiting is not None and produced is Pause.IDLE:
            waiting.add_done_callback(lambda _: self.wake(number))
        elif produced is not None and (again or produced is not Pause.IDLE):
            self.wake(number)
        self.changed.notify_all()

    # -- for the caller -------------------------------------------------------------------------------

    def result(self) -> Output | None:
        """The next output, or None when there is none now. Errors are raised where the output would be."""
        with self.lock:
            if not self.results:
                return None
            if len(self.results) == RESULTS:
                self.changed.notify_all()
            found = self.results.popleft()
        if isinstance(found, BaseException):
            raise found
        return found

    def change(self) -> Future[None] | None:
        """What is done when there is output, or no more before the barrier; None when there is some already."""
        with self.lock:
            if self._can_tell():
                return None
            self._change = Future()
            return self._change

    def waiting(self) -> Future[None] | None:
        """What some pipeline waits for."""
        with self.lock:
            return next((w for n in self._running if (w := self._drivers[n].waiting) is not None), None)

    def _can_tell(self) -> bool:
        return bool(self.results) or not self._running

    def _tell_caller(self) -> None:
        with self.lock:
            change = self._change
            if change is None or not self._can_tell():
                return
            self._change = None
        if change.set_running_or_notify_cancel():
            change.set_result(None)

    # -- for threads ----------------------------------------------------------------------------------

    def wait_for_work(self) -> bool:
        """Wait until a pipeline may go on; whether there is still a task."""
        with self.lock:
            while not self._closed and not self._may_turn():
                self.changed.wait()
            return not self._closed

    def _may_turn(self) -> bool:
        if any(self._may_take(-n) for n in self._ready):
            return True
        return not self._ready and not self._taken and bool(self._givers())

    def _may_take(self, number: int) -> bool:
        """Whether a pipeline that is ready may go on now: there is room for output, and no other one has the state."""
        if number == self._last and len(self.results) >= RESULTS:
            return False
        return not (self._drivers[number].holds_state and any(self._drivers[n].holds_state for n in self._taken))

    def _givers(self) -> list[int]:
        """Pipelines that gave way to their consumers, and may go on all the same."""
        return [n for n in self._running if n not in self._stuck and self._drivers[n].blocked]

    def stats(self) -> Iterator[tuple[int, OperatorStats]]:
        """Counters per step since :meth:`begin`, one for each copy."""
        for driver in self._drivers:
            for operator in driver.operators:
                if operator.step >= 0 and not isinstance(operator, OrderedSink):
                    yield operator.step, operator.stats


# -- wiring -----------------------------------------------------------------------------------------------


class _Wiring:
    """Cuts steps into pipelines."""

    def __init__(self, program: Program, copies: int, lock: threading.RLock) -> None:
        self._steps = program.steps
        self._copies, self._lock = copies, lock
        self._operators = [build(number, step.operation) for number, step in enumerate(self._steps)]
        self._readers = consumers_of(dict(enumerate(program.steps)))
        self._exchanges: dict[int, OrderedExchange] = {}
        self.sources: dict[int, list[SourceOperator]] = {}

    def drivers(self) -> list[OrderedDriver]:
        """In topological order: a consumer comes after all who give to it."""
        heads = [number for number in range(len(self._steps)) if not self._chained(number)]
        for number in heads:
            if self._steps[number].inputs:
                self._exchanges[number] = OrderedExchange(self._operators[number], self._lock)
        found: list[tuple[int, OrderedDriver]] = []
        for number in heads:
            chain = [number]
            while self._readers[chain[-1]] and self._chained(reader := self._readers[chain[-1]][0][0]):
                chain.append(reader)
            found += [(chain[-1], driver) for driver in self._pipeline(chain)]
        return [driver for _, driver in sorted(found, key=lambda pair: pair[0])]

    def _chained(self, number: int) -> bool:
        """Whether a step stands behind its producer in one pipeline: it has one input, and no other step reads that."""
        inputs = self._steps[number].inputs
        return len(inputs) == 1 and inputs[0].port == 0 and len(self._readers[inputs[0].step]) == 1

    def _pipeline(self, chain: list[int]) -> list[OrderedDriver]:
        """The driver of a chain of steps, behind copies of its first ones if these work on one item at a time."""
        operators = [self._operators[number] for number in chain]
        if self._steps[chain[0]].inputs:
            several = len(self._exchanges[chain[0]].ports) > 1
            return [self._driver(OrderedSource(self._exchanges[chain[0]]), operators, chain[-1], several)]
        width = next((i for i, operator in enumerate(operators) if not operator.per_item), len(operators))
        head = operators[0]
        assert isinstance(head, SourceOperator)
        if self._copies == 1 or width == 0:
            self.sources[chain[0]] = [head]
            return [self._driver(head, operators[1:], chain[-1], False)]
        rest = operators[width:] or [Passing(-1)]
        exchange = OrderedExchange(rest[0], self._lock)
        copies = [self._copy(chain[:width], exchange) for _ in range(self._copies)]
        self.sources[chain[0]] = [copy.source for copy in copies]
        return [*copies, self._driver(OrderedSource(exchange), rest, chain[-1], False)]

    def _copy(self, chain: list[int], exchange: OrderedExchange) -> OrderedDriver:
        operators = [build(number, self._steps[number].operation) for number in chain]
        return OrderedDriver((*operators, OrderedSink(chain[-1], ((0, exchange.lane(0)),))))

    def _driver(self, source: SourceOperator, rest: list[Operator], last: int, several: bool) -> OrderedDriver:
        """``several`` tells that items come from several inputs, so that their numbers say nothing together."""
        operators = [source, *rest]
        targets = []
        for consumer, port, out in self._readers[last]:
            exchange = self._exchanges[consumer]
            targets.append((out, exchange.lane(0, port) if exchange.consumer.gathers else exchange.lane(port)))
        if targets:
            parting = operators[-1] if operators[-1].parts_rows else None
            operators.append(OrderedSink(last, tuple(targets), parting))
        return OrderedDriver(tuple(operators), several)


class Passing(Operator):
    """Gives what comes in."""

    holds_state: ClassVar[bool] = False

    def add_input(self, item: Item, port: int) -> None:
        """Take an item."""
        self._pending.put(Output(item))
