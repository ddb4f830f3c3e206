"""The life of an operator, the same for all.

An operator accepts items, gives items, and at a barrier flushes what it holds. It is created
once per process and used for epoch after epoch: what it keeps between barriers is compiled code and
readers, never rows. State that outlives a barrier is in state tables, reached through the context.

                 add_input / get_output
    RUNNING  <----------------------------+
       | start_drain() -> True            |
    DRAINING  -- get_output() until None --+   (finished draining: the driver drains the next operator)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from tidemill.errors import EvaluationError
from tidemill.state.lookup.reader import TableState
from tidemill.state.memory import MemoryBudget
from tidemill.state.tables import StateTable
from tidemill.task.dataflow.deltas import Item
from tidemill.task.program.operation import Operation

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tidemill.sources.split import Split, SplitResult


@dataclass
class OperatorStats:
    """Counters of one step in one partition and epoch; milliseconds are of wall time."""

    rows_in: int = 0
    rows_out: int = 0
    batches: int = 0
    milliseconds: float = 0.0

    def add(self, other: OperatorStats) -> None:
        """Add the counters of another copy, or of another time."""
        self.rows_in += other.rows_in
        self.rows_out += other.rows_out
        self.batches += other.batches
        self.milliseconds += other.milliseconds


class Context(Protocol):
    """What an epoch gives to the operators of one partition. One per task attempt."""

    epoch: int
    partition: int
    partitions: int
    budget: MemoryBudget
    keeps_state: bool
    """Whether what is written to state tables is there after the barrier."""

    def state(self, table: StateTable, everywhere: bool = False) -> TableState:
        """A state table: this partition's vnodes, or all of them. What is written is sealed at the barrier.

        Repeated calls in one epoch give the same object.
        """

    def hold(self, table: StateTable, everywhere: bool = False) -> TableState:
        """As :meth:`state`, but what is written is private to the caller and never sealed.

        For inputs that another step stores, and for rows in transit. The caller closes it after the barrier.
        """

    def finished(self, result: SplitResult) -> None:
        """Report a split as read."""

    def failed(self, step: int, error: EvaluationError) -> None:
        """Report that a row made a step fail: its views stop, nothing else does."""

    def failing(self, step: int, weight: int, error: EvaluationError | None) -> None:
        """Report rows that a step has left out because they fail: their weight, and the error of a new one."""


@dataclass(frozen=True)
class Output:
    """An item on one output port of an operator."""

    item: Item
    port: int = 0


class Operator:
    """Base of all operators.

    Subclasses override :meth:`add_input` and, when they hold rows back, :meth:`start_drain`. They put their output into
    ``_pending``, which is empty after the drain.

    In a :class:`~tidemill.task.task.Task` the items of an input come in their order, and an operator of several inputs
    says from which one it wants the next item (:meth:`wants`), when it needs no more of one (:meth:`drops`), and is
    told when one has drained (:meth:`input_drained`). In an epoch of views items of all inputs come as they are made.
    """

    per_item: ClassVar[bool] = False
    """Whether what comes out for an item depends on that item alone and comes before the next one is taken: then
    several copies can work on different items at the same time."""
    parts_rows: ClassVar[bool] = False
    """Whether it sends parts of an item to different pipelines, whose output a later operator puts in order again."""
    holds_state: ClassVar[bool] = True
    """Whether it asks the context for state tables, or for others that take from its budget of memory."""
    gathers: ClassVar[bool] = False
    """Whether it wants the items of all inputs in the order of the items that they come from."""

    only_stored: bool = False
    """Whether steps of its task store what it gives, and nothing else reads it: then keyed rows may be loose."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.stats = OperatorStats()
        self._pending = PendingOutput()

    def begin(self, context: Context) -> None:
        """Start an epoch."""
        self.context = context
        self.stats = OperatorStats()

    def add_input(self, item: Item, port: int) -> None:
        """Accept an item on an input port; called only while there is no output left to fetch."""
        raise NotImplementedError(type(self).__name__)

    def get_output(self) -> Output | None:
        """The next item, or None when there is none now."""
        return self._pending.pop()

    def start_drain(self) -> bool:
        """A barrier has arrived and no input comes before it is passed.

        Returns
        -------
        bool
            True when output is held: ``get_output`` is called until it gives None and nothing is :meth:`waiting`. False
            when nothing is.
        """
        return False

    def wants(self, port: int) -> bool:
        """Whether the next item may come from this input. It must be true of one that has not drained."""
        return True

    def input_drained(self, port: int) -> None:
        """No item of this input comes before the barrier; called before :meth:`start_drain`, for each input."""

    def drops(self, port: int) -> bool:
        """Whether no item of this input can change the output before the barrier, so that they need not be made."""
        return False

    def waiting(self) -> Future[None] | None:
        """What has to be done elsewhere before it takes another item, or at a barrier gives more output; or None.

        An operator that gives output for an item after it has taken others overrides it, and :meth:`held`. It is told
        the number of each item by ``taking``, and says for which one its last output is by ``given``.
        """
        return None

    def held(self) -> tuple[int, ...] | None:
        """The number of the oldest item for which output is still to come, or None."""
        return None

    taking: tuple[int, ...] = ()
    given: tuple[int, ...] = ()

    def close(self) -> None:
        """The task is closed: end what works for it elsewhere."""

    def discard(self) -> None:
        """Leave out output that nobody fetches: it is not wanted."""
        self._pending = PendingOutput()


class SourceOperator(Operator):
    """An operator at the head of a pipeline: it reads splits, or the contents of a view, instead of items.

    Attributes
    ----------
    sequence : tuple of int
        In a :class:`~tidemill.task.task.Task` the number of the item given last; it never goes down before a barrier.
    """

    sequence: tuple[int, ...] = ()

    def add_split(self, split: Split) -> None:
        """Queue a split; splits are served in the order given."""
        raise NotImplementedError(type(self).__name__)

    def give_snapshot(self) -> None:
        """Give, once, what the view that it reads contains."""
        raise NotImplementedError(type(self).__name__)

    def request_barrier(self) -> None:
        """Queue the barrier after everything that was queued so far."""

    def reached_barrier(self) -> bool:
        """Whether everything before the barrier has been handed out; true at most once per barrier."""
        raise NotImplementedError(type(self).__name__)

    def progress(self) -> tuple[int, ...]:
        """The least ``sequence`` that the next item can have."""
        return self.sequence

    def skip_to_barrier(self) -> None:
        """Leave out all input before the barrier: nobody needs it."""
        raise NotImplementedError(type(self).__name__)


@dataclass
class PendingOutput:
    """Output that has been produced and not fetched yet, first in first out."""

    items: list[Output] = field(default_factory=list)
    _rest: Iterator[Output] | None = None

    def put(self, output: Output) -> None:
        """Add one output."""
        self.items.append(output)

    def put_all(self, outputs: Iterator[Output]) -> bool:
        """Add the outputs of an iterator, each computed when it is fetched. Always true: there may be output."""
        assert self._rest is None
        self._rest = outputs
        return True

    def pop(self) -> Output | None:
        """The oldest one, or None."""
        if self.items:
            return self.items.pop(0)
        if self._rest is None:
            return None
        try:
            found = next(self._rest, None)
        except BaseException:
            self._rest = None
            raise
        if found is None:
            self._rest = None
        return found


_Made = TypeVar("_Made", bound=Callable[..., Operator])
_operators: dict[type[Operation], Callable[..., Operator]] = {}


def carries_out(operation: type[Operation]) -> Callable[[_Made], _Made]:
    """Declare the operator of a class of operations; it is called with the number of the step and the operation."""

    def declared(operator: _Made) -> _Made:
        _operators[operation] = operator
        return operator

    return declared


def operator_of(operation: Operation) -> Callable[..., Operator]:
    """The declared operator of an operation."""
    return _operators[type(operation)]
