"""What runs inside Spark's Python tasks: one superstep of one epoch over one partition, or all of them in turn.

A superstep gives parcels (rows for a step) and reports; both go on to the last superstep, and the reports from there
to the driver. So the driver has the reports of exactly those attempts whose data was used: a failed, retried or
speculative attempt can write files, but no version will name them. Between tasks they are records
``(partition, bytes)``; within one task they are passed as objects.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeAlias

import pyarrow as pa

from tidemill.errors import EvaluationError, TidemillError
from tidemill.sources.split import Split, SplitResult
from tidemill.state.keys.keys import VNODES
from tidemill.state.lookup import lookup
from tidemill.state.lookup.memtable import Memtable
from tidemill.state.lookup.reader import TableState
from tidemill.state.memory import MemoryBudget
from tidemill.state.merge.merge import Rows
from tidemill.state.runs import derived, sst
from tidemill.state.runs.sst import Part
from tidemill.state.store.store import RunStore, partition_vnodes
from tidemill.state.versions.version import Run
from tidemill.task.dataflow.deltas import Delta, Item, Keyed, batch_of
from tidemill.task.dataflow.operator import OperatorStats, Output
from tidemill.task.epoch_task import EpochTask
from tidemill.task.functions.columns import sizes
from tidemill.task.program import Program, ProgramPart, StateTable

Record = tuple[int, bytes]
_TASKS: dict[tuple[str, int], EpochTask] = {}
_TASKS_KEPT = 64
"""Steps of one depth of a program, wired: a mill with many views alternates between a few programs of ten depths."""


class Sent(Protocol):
    """A program that tasks have: a Spark broadcast, or what stands for one."""

    @property
    def value(self) -> Program:
        """The program."""


@dataclass(frozen=True)
class EpochPlan:
    """What every task of an epoch needs to know.

    ``tables`` are the runs, as of the epoch before, of the tables that steps look up. ``memory_bytes`` is what one
    task may hold of state in memory, 0 for as much as it takes.
    """

    epoch: int
    partitions: int
    store: RunStore
    program: Sent
    tables: dict[str, tuple[Run, ...]]
    memory_bytes: int = 0


@dataclass(frozen=True)
class Work:
    """Input of one partition of the first superstep: splits for source steps, and steps that give a snapshot."""

    splits: tuple[tuple[int, Split], ...] = ()
    snapshots: tuple[int, ...] = ()


@dataclass
class TaskReport:
    """What one successful task attempt did.

    ``partition`` is the number of the part where tasks share a program by its views. ``failing`` has, by step, the
    weight of failing rows that were left out, and the error of a new one. ``began`` and ``ended`` are in seconds since
    1970. ``resident`` says that the task stays.
    """

    depth: int
    partition: int
    runs: list[Run] = field(default_factory=list)
    splits: list[SplitResult] = field(default_factory=list)
    stats: dict[int, OperatorStats] = field(default_factory=dict)
    failures: dict[int, EvaluationError] = field(default_factory=dict)
    failing: dict[int, tuple[int, EvaluationError | None]] = field(default_factory=dict)
    error: TidemillError | None = None
    spilled_bytes: int = 0
    peak_memory_bytes: int = 0
    began: float = 0.0
    ended: float = 0.0
    resident: bool = False


@dataclass(frozen=True)
class _Parcel:
    """Rows on their way to an input port of a step of a later superstep."""

    step: int
    port: int
    depth: int
    item: Item


@dataclass(frozen=True)
class _Packed:
    """A parcel as bytes."""

    step: int
    port: int
    depth: int
    keyed: bool
    data: bytes


_Sent: TypeAlias = tuple[int, _Parcel | _Packed | TaskReport]


class _EpochContext:
    """One partition of one superstep: state of the epochs before, and memtables for what this epoch writes."""

    keeps_state = True

    def __init__(self, plan: EpochPlan, partition: int, report: TaskReport) -> None:
        self.epoch = plan.epoch
        self.partition = partition
        self.partitions = plan.partitions
        self._plan = plan
        self._store = plan.store
        self._report = report
        self.budget = MemoryBudget(-(-plan.memory_bytes * 3 // 4))
        sizes.allow(plan.memory_bytes)
        if plan.memory_bytes:
            derived.keep(plan.memory_bytes // 4)
        self._states: dict[tuple[str, bool], tuple[StateTable, TableState]] = {}

    def state(self, table: StateTable, everywhere: bool = False) -> TableState:
        found = self._states.get((table.id, everywhere))
        if found is None:
            found = self._states[table.id, everywhere] = table, self._state(table, everywhere, table.drops_zero)
        return found[1]

    def hold(self, table: StateTable, everywhere: bool = False) -> TableState:
        return self._state(table, everywhere, table.is_multiset)

    def _state(self, table: StateTable, everywhere: bool, drop_zero: bool) -> TableState:
        spill = partial(self._spill, table)
        memtable = Memtable(table.ops, table.value_types, drop_zero, self.budget, spill)
        return TableState(partial(self._open, table, everywhere), table.ops, table.value_types, memtable)

    def _open(self, table: StateTable, everywhere: bool) -> list[Rows]:
        low, high = (0, VNODES) if everywhere else partition_vnodes(self.partition, self.partitions)
        return self._store.open_range(self._plan.tables.get(table.id, ()), low, high)

    def _spill(self, table: StateTable, rows: Rows) -> tuple[Rows, int]:
        return self._store.spill(self.epoch, Part(table.id, rows, table.ops))

    def finished(self, result: SplitResult) -> None:
        self._report.splits.append(result)

    def failed(self, step: int, error: EvaluationError) -> None:
        self._report.failures.setdefault(step, error)

    def failing(self, step: int, weight: int, error: EvaluationError | None) -> None:
        before, first = self._report.failing.get(step, (0, None))
        self._report.failing[step] = (before + weight, first or error)

    def seal(self) -> list[Run]:
        """Write what the epoch produced as one file."""
        label = f"{self._report.depth}-{self._report.partition}"
        part = self._plan.program.value.part
        states = (s for s in self._states.values() if part is None or s[0].id in part.tables)
        parts = (sealed for table, state in states for sealed in self._sealed(table, state))
        return self._store.write(self.epoch, parts, label)

    def _sealed(self, table: StateTable, state: TableState) -> Iterator[Part]:
        """What becomes of a table's rows.

        If no step looks anything up in the table, rows stay as they came; the first process that opens them sorts them.
        """
        as_written = state.unordered() if table.id not in self._plan.program.value.looked_up else None
        if as_written is not None:
            yield from (Part(table.id, rows, table.ops) for rows in as_written)
            return
        yield from (Part(table.id, rows, table.ops) for rows in state.blocks())

    def close(self) -> None:
        """Release what was read and written; operators keep the context until their next epoch."""
        for _, state in self._states.values():
            state.close()
        self._states.clear()
        self._plan.store.let_go({run.file for runs in self._plan.tables.values() for run in runs})


_NOTHING = Work()


def first_superstep(plan: EpochPlan, partition: int, work: Work) -> Iterator[Record]:
    """Superstep 0: reads splits."""
    return map(_record, _superstep(plan, 0, partition, work, iter(())))


def later_superstep(plan: EpochPlan, depth: int, partition: int, records: Iterable[Record]) -> Iterator[Record]:
    """Superstep ``depth``: reads what earlier ones sent."""
    received = (pickle.loads(data) for _, data in records)
    return map(_record, _superstep(plan, depth, partition, _NOTHING, received))


def all_supersteps(plan: EpochPlan, supersteps: int, work: Work) -> Iterator[Record]:
    """All supersteps of a plan with one partition."""
    sent = _superstep(plan, 0, 0, work, iter(()))
    for depth in range(1, supersteps):
        sent = _superstep(plan, depth, 0, _NOTHING, (payload for _, payload in sent))
    return map(_record, sent)


def _superstep(
    plan: EpochPlan,
    depth: int,
    partition: int,
    work: Work,
    received: Iterator[_Parcel | _Packed | TaskReport],
) -> Iterator[_Sent]:
    """Run a superstep and give its output as it is made, so that input and output are never in memory as a whole.

    After an error later supersteps get some of the rows; because of the report their results are not sealed.
    """
    program = plan.program.value
    report = TaskReport(depth, partition if program.part is None else program.part.number, began=time.time())
    context = _EpochContext(plan, partition, report)
    try:
        task = _task(program, depth)
        task.begin(context)
        for step, split in work.splits:
            task.add_split(step, split)
        for step in work.snapshots:
            task.give_snapshot(step)
        for payload in received:
            if isinstance(payload, TaskReport) or payload.depth > depth:
                yield partition, payload
            else:
                task.add_item(
                    payload.step, payload.port, _unpack(payload) if isinstance(payload, _Packed) else payload.item
                )
                for produced in task.work():
                    yield from _parcels(plan, partition, task, produced)
        task.request_barrier()
        while (last := task.next()) is not None or task.pending is not None:
            if last is None:
                assert task.pending is not None
                task.pending.result()
                continue
            yield from _parcels(plan, partition, task, last)
        report.stats = task.stats()
        report.runs = context.seal()
        if program.part is not None:
            _leave_out_shared(report, program.part)
        report.spilled_bytes, report.peak_memory_bytes = context.budget.spilled, context.budget.peak
    except TidemillError as error:
        _TASKS.pop((program.fingerprint, depth), None)
        report.error = error
    except BaseException:
        _TASKS.pop((program.fingerprint, depth), None)
        raise
    finally:
        context.close()
    if report.failures:
        _TASKS.pop((program.fingerprint, depth), None)  # what failed may hold rows
    if report.error is not None:
        for payload in received:  # the reports of earlier supersteps go on
            if isinstance(payload, TaskReport):
                yield partition, payload
    report.ended = time.time()
    yield partition, report


def _leave_out_shared(report: TaskReport, part: ProgramPart) -> None:
    """Leave what another task counts to that one. Failures and what was read are told by every task."""
    report.stats = {step: stats for step, stats in report.stats.items() if step in part.owned}
    report.failing = {step: failing for step, failing in report.failing.items() if step in part.owned}


def _parcels(plan: EpochPlan, partition: int, task: EpochTask, produced: tuple[int, Output]) -> Iterator[_Sent]:
    step, output = produced
    for consumer, port, at, broadcast in task.outgoing.get((step, output.port), ()):
        yield from _addressed(plan, partition, _Parcel(consumer, port, at, output.item), broadcast)


def _task(program: Program, depth: int) -> EpochTask:
    key = (program.fingerprint, depth)
    task = _TASKS.pop(key, None)
    if task is None:
        task = EpochTask(program, depth)
        while len(_TASKS) >= _TASKS_KEPT:
            _TASKS.pop(next(iter(_TASKS)))
    _TASKS[key] = task
    return task


def _addressed(plan: EpochPlan, partition: int, parcel: _Parcel, broadcast: bool) -> Iterator[_Sent]:
    """Address keyed rows to the owners of their vnodes, or to all; other rows keep their partition number."""
    item = parcel.item
    if isinstance(item, Delta):
        yield (partition % plan.partitions, replace(parcel, item=replace(item, backfill_target=None)))
        return
    if plan.partitions == 1:
        yield (0, parcel)
        return
    assert isinstance(item, Keyed), "loose rows stay in their task"
    rows = item.rows
    for target in range(plan.partitions):
        low, high = partition_vnodes(target, plan.partitions)
        start, stop = (0, len(rows.keys)) if broadcast else lookup.vnode_range(rows.keys, low, high)
        if start < stop:
            yield (target, replace(parcel, item=Keyed(rows.slice(start, stop))))


def _record(sent: _Sent) -> Record:
    target, payload = sent
    return (target, pickle.dumps(_pack(payload) if isinstance(payload, _Parcel) else payload, protocol=5))


def _pack(parcel: _Parcel) -> _Packed:
    item = parcel.item
    if isinstance(item, Keyed):
        data: bytes = sst.to_bytes(item.rows).to_pybytes()
    else:
        assert isinstance(item, Delta)
        weights = pa.array(item.explicit_weights())
        data = _ipc(batch_of([*item.batch.columns, weights], len(item)))
    return _Packed(parcel.step, parcel.port, parcel.depth, isinstance(item, Keyed), data)


def _unpack(packed: _Packed) -> Item:
    if packed.keyed:
        return Keyed(sst.from_bytes(packed.data))
    batch = pa.ipc.open_stream(packed.data).read_next_batch()
    columns = batch.columns
    return Delta(batch_of(columns[:-1], batch.num_rows), columns[-1].to_numpy())


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data
