"""A task: the pipelines of one superstep, reused for epoch after epoch.

    task.begin(context)
    task.add_split(step, split) ...
    task.request_barrier()
    while (output := task.next()) is not None or task.pending is not None: ...
    # here the barrier is reached: everything given has come out or lies in state

``next() is None`` with nothing pending means *barrier reached*. This is a retain barrier: what the
epoch produced is flushed, state tables stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from heapq import heappop, heappush

from tidemill.errors import TidemillError
from tidemill.sources.split import Split
from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Item
from tidemill.task.dataflow.exchange import ExchangeSink, ExchangeSource, LocalExchange
from tidemill.task.dataflow.operator import Context, Operator, OperatorStats, Output, SourceOperator
from tidemill.task.driver import Driver, Pause
from tidemill.task.program import Program, Step, StoreKeyed, consumers_of
from tidemill.task.view_limits import ViewLimits


class EpochTask:
    """The steps of one depth of a program, wired into pipelines.

    A task belongs to a process and serves whatever partition it is given next; it keeps nothing of
    one epoch for the next.
    """

    def __init__(self, program: Program, depth: int) -> None:
        self.depth = depth
        self.barriers = 0
        self.pending: Future[None] | None = None
        self._inboxes: dict[int, LocalExchange] = {}
        self._sources: dict[int, SourceOperator] = {}
        self._limits = ViewLimits(program) if program.limits else None
        self._drivers = _wire(program, depth, self._inboxes, self._sources, self._limits)
        self.outgoing = outgoing(program, depth)
        """Exchanges that start here, as :func:`outgoing` has them."""
        self._epoch: dict[int, Iterator[tuple[int, Output] | Pause]] | None = None
        self._ready: list[int] = []
        self._is_ready = [False] * len(self._drivers)
        for number, driver in enumerate(self._drivers):
            if isinstance(driver.source, ExchangeSource):
                driver.source.exchange.wake = partial(self._wake, number)
        self._under_barrier = False
        self._ended = False

    def begin(self, context: Context) -> None:
        """Start an epoch for one partition."""
        if self._limits is not None:
            self._limits.begin()
        for driver in self._drivers:
            driver.begin(context)
        self._epoch = {number: driver.run() for number, driver in enumerate(self._drivers)}
        self._ready = []
        self._is_ready = [False] * len(self._drivers)
        for number in self._epoch:
            self._wake(number)

    def add_split(self, step: int, split: Split) -> None:
        """Give a split to a source step.

        Raises
        ------
        TidemillError
            TM7010 while a barrier is in progress, or after :meth:`no_more_splits`.
        """
        self._check_open("add_split")
        self._sources[step].add_split(split)

    def give_snapshot(self, step: int) -> None:
        """Ask a source step for the contents of the view that it reads. Errors as :meth:`add_split`."""
        self._check_open("give_snapshot")
        self._sources[step].give_snapshot()

    def add_item(self, step: int, port: int, item: Item) -> None:
        """Give rows that came through the exchange to a step. Errors as :meth:`add_split`."""
        self._check_open("add_item")
        self._inboxes[step].put(item, port)

    def request_barrier(self) -> None:
        """Nothing more comes before the barrier. Asked twice, it joins the barrier in progress."""
        if self._ended or self._under_barrier:
            return
        self._under_barrier = True
        self.barriers += 1
        for exchange in self._inboxes.values():
            exchange.put_token()
        for source in self._sources.values():
            source.request_barrier()

    def next(self) -> tuple[int, Output] | None:
        """The next item that leaves the task, with the step it comes from.

        Returns
        -------
        (step, Output) or None
            None with :attr:`pending` set: wait for it and call again. None without: the barrier is reached.

        Raises
        ------
        TidemillError
            TM7011 when no barrier was requested, or no epoch begun.
        """
        if not self._under_barrier or self._epoch is None:
            raise TidemillError(
                "TM7011",
                "a task gives results only after a barrier was requested",
                got="next() without request_barrier()",
                hint="begin an epoch, add its splits, request the barrier, then call next()",
            )
        self.pending = None
        while self._epoch:
            if not self._ready:
                for number in self._epoch:  # sources that were pending
                    self._wake(number)
            produced = self._turn(self._epoch)
            if produced is Pause.IDLE:
                self.pending = self._blocked()
                assert self.pending is not None, "no pipeline can go on and none is waiting"
                return None
            if not isinstance(produced, Pause):
                return produced
        self._epoch = None
        self._under_barrier = False
        return None

    def work(self) -> Iterator[tuple[int, Output]]:
        """What can be given before more input comes, as :meth:`next` does; no barrier is needed.

        Asked for after each item it keeps queues short.
        """
        while self._epoch:
            produced = self._turn(self._epoch)
            if produced is Pause.IDLE:
                return
            if not isinstance(produced, Pause):
                yield produced

    def _turn(self, epoch: dict[int, Iterator[tuple[int, Output] | Pause]]) -> tuple[int, Output] | Pause:
        """Let the pipeline furthest downstream that can do something do it: so queues stay short."""
        while self._ready:
            number = -heappop(self._ready)
            self._is_ready[number] = False
            try:
                produced = next(epoch[number])
            except StopIteration:
                del epoch[number]
                return Pause.MOVED
            if produced is not Pause.IDLE:
                self._wake(number)
                return produced
        return Pause.IDLE

    def _wake(self, number: int) -> None:
        """Note that a pipeline has something to do."""
        if not self._is_ready[number]:
            self._is_ready[number] = True
            heappush(self._ready, -number)

    def no_more_splits(self) -> None:
        """The task ends with the barrier in progress, or now."""
        self._ended = True

    def stats(self) -> dict[int, OperatorStats]:
        """Counters per step of the epoch begun last."""
        return {
            op.step: op.stats
            for d in self._drivers
            for op in d.operators
            if op.step >= 0 and not isinstance(op, ExchangeSink)
        }

    def _blocked(self) -> Future[None] | None:
        futures = (source.waiting() for source in self._sources.values())
        return next((f for f in futures if f is not None), None)

    def _check_open(self, call: str) -> None:
        if self._under_barrier or self._ended:
            raise TidemillError(
                "TM7010",
                "a task takes no input now",
                got=f"{call}() {'after no_more_splits()' if self._ended else 'while a barrier is in progress'}",
                hint="call next() until the barrier is reached, then give the next epoch's input",
            )


def _wire(
    program: Program,
    depth: int,
    inboxes: dict[int, LocalExchange],
    sources: dict[int, SourceOperator],
    limits: ViewLimits | None,
) -> list[Driver]:
    """Cut the steps of one depth into pipelines, in topological order."""
    steps = {i: s for i, s in program.carried_out.items() if s.depth == depth}
    consumers = consumers_of(steps)
    sent = outgoing(program, depth)
    leaving: dict[int, frozenset[int]] = {i: frozenset(port for step, port in sent if step == i) for i in steps}
    exchanges: dict[int, LocalExchange] = {}
    for number, step in steps.items():
        inner = [i for i in step.inputs if i.step in steps]
        if len(inner) < len(step.inputs):
            exchange = exchanges.setdefault(number, LocalExchange())
            exchange.producers += 1
            inboxes[number] = exchange
        elif step.inputs and not _chained(step, steps, consumers, leaving):
            exchanges.setdefault(number, LocalExchange())
    drivers = []
    for number, step in steps.items():
        if step.inputs and number not in exchanges:
            continue  # part of its producer's pipeline
        operators: list[Operator] = []
        at = number
        if step.inputs:
            operators.append(ExchangeSource(exchanges[number]))
        operators.append(_built(number, steps, consumers, leaving))
        if not step.inputs:
            source = operators[0]
            assert isinstance(source, SourceOperator)
            sources[number] = source
        while len(consumers[at]) == 1 and consumers[at][0][0] not in exchanges:
            at = consumers[at][0][0]
            operators.append(_built(at, steps, consumers, leaving))
        if consumers[at]:
            targets = tuple((out, exchanges[c], port, steps[c].created_at_epoch) for c, port, out in consumers[at])
            operators.append(ExchangeSink(at, targets, leaving[at]))
        drivers.append(Driver(tuple(operators), limits))
    return drivers


def _built(
    number: int,
    steps: dict[int, Step],
    consumers: dict[int, list[tuple[int, int, int]]],
    leaving: dict[int, frozenset[int]],
) -> Operator:
    """The operator of a step, which knows whether what it gives is only stored."""
    operator = build(number, steps[number].operation)
    stored = all(isinstance(steps[c].operation, StoreKeyed) for c, _, _ in consumers[number])
    operator.only_stored = stored and not leaving[number]
    return operator


def _chained(
    step: Step,
    steps: dict[int, Step],
    consumers: dict[int, list[tuple[int, int, int]]],
    leaving: dict[int, frozenset[int]],
) -> bool:
    """Whether a step can stand in its producer's pipeline: one input, and the producer has no other reader.

    After a source there is always an exchange, where rows of history are kept from those who know them.
    """
    if len(step.inputs) != 1 or step.inputs[0].port:
        return False
    producer = step.inputs[0].step
    return len(consumers[producer]) == 1 and not leaving[producer] and bool(steps[producer].inputs)


def outgoing(program: Program, depth: int) -> dict[tuple[int, int], list[tuple[int, int, int, bool]]]:
    """Exchanges that start at a depth: (step, port) to (consumer, its port, its depth, whether to all partitions)."""
    found: dict[tuple[int, int], list[tuple[int, int, int, bool]]] = {}
    for number, step in program.carried_out.items():
        for port, source in enumerate(step.inputs):
            if program.steps[source.step].depth == depth < step.depth:
                found.setdefault((source.step, source.port), []).append((number, port, step.depth, source.broadcast))
    return found
