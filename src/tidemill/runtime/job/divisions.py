"""Divides programs of many views among tasks, so that a small epoch of them uses several processors.

A small epoch has one partition: its rows are too few to be exchanged. Where its steps take long because they are many,
each of several tasks carries out those that some of the views need. What views of different tasks share is done by
each of these, from the same rows, and one of them writes its state. How the views are divided follows from what the
steps took in earlier epochs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.runtime.job.superstep import TaskReport
from tidemill.task.program import ApplyChangelog, ApplyFileVersions, Operation, Program, ProgramPart, ScanStep, Step

_LEARNED = 4
"""Epochs of a program before it is divided. The first ones make tasks and read files for the first time."""
_FIRST_LOOK, _LOOKS = 8, 128
"""Epochs until it is looked at again whether another division would be better: twice as many each time."""
_PAUSE = 64
"""Epochs that are not divided after a task has failed."""
_PART_COSTS = 4.0
"""Milliseconds that each further task costs: a message, an answer, and files of its own."""
_BETTER = 0.8
"""A division is changed for one that takes at most this part of its time."""
_NEWEST = 0.1
"""The weight of the newest epoch among those that costs are of."""
_KEPT = 16
"""Programs that are remembered."""
_COUNTS = (2, 3, 4, 6, 8, 12, 16)
"""Numbers of tasks that are tried; each task repeats what several of them need."""

Costs: TypeAlias = npt.NDArray[np.float64]
"""Milliseconds of an epoch, by step."""
Numbers: TypeAlias = npt.NDArray[np.intp]
"""Numbers of steps, ascending."""

_KEEP_ROWS = (ScanStep, ApplyChangelog, ApplyFileVersions)
"""Operations whose state has values as they came. An order book subtracts volumes from one another."""
_LEFT_OUT = Step(Operation(), (), 0, 0, frozenset())
"""Stands in a part of a program for a step that it does not carry out."""


def _given_out(needs: Sequence[Numbers], costs: Costs, count: int) -> list[Numbers]:
    """The steps of each task that has any, so that the longest time of a task is short.

    What has most to do is given out first, each time to the task that is ready soonest with it (Graham, "Bounds on
    multiprocessing timing anomalies", 1969, of tasks whose work overlaps).
    """
    whole = [np.zeros(len(costs), bool) for _ in range(count)]
    taken = np.zeros(count)
    for need in sorted(needs, key=lambda need: -float(costs[need].sum())):
        cost = costs[need]
        more = [float(cost[~has[need]].sum()) for has in whole]
        target = int(np.argmin(taken + more))
        taken[target] += more[target]
        whole[target][need] = True
    return [np.flatnonzero(has) for has in whole if has.any()]


def _dependencies(program: Program) -> list[Numbers]:
    """What is given to one task: for each step that no other one needs, that step and all that it depends on.

    A step depends on those that it reads from, and on those that write a state table that it looks up or writes itself.
    All that depends on a step whose state depends on the order of rows is together.
    """
    writers: dict[str, list[int]] = {}
    for number, step in enumerate(program.steps):
        for table in step.operation.written_tables:
            writers.setdefault(table.id, []).append(number)
    direct: list[set[int]] = []
    for number, step in enumerate(program.steps):
        tables = {t.id for t in (*step.operation.read_tables, *step.operation.written_tables)}
        found = {source.step for source in step.inputs} | {w for t in tables for w in writers.get(t, ())}
        direct.append(found - {number})
    read = set[int]().union(*direct)
    needs: list[set[int]] = []
    covered: set[int] = set()
    ends = [n for n in range(len(direct)) if n not in read]
    for end in (*ends, *reversed(range(len(direct)))):  # steps that write one table need each other
        if end not in covered:
            needs.append(_closure(direct, end))
            covered |= needs[-1]
    return [np.array(sorted(need), np.intp) for need in _united(needs, _depending_on_order(program))]


def _closure(direct: Sequence[set[int]], end: int) -> set[int]:
    found, waiting = {end}, [end]
    while waiting:
        new = direct[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def _united(needs: Iterable[set[int]], whole: set[int]) -> list[set[int]]:
    """Sets of steps of which no two have one of some steps in common, by joining those that do."""
    groups: dict[int, set[int]] = {}
    group_of: dict[int, int] = {}
    for number, need in enumerate(needs):
        joined = {group_of[step] for step in need & whole if step in group_of}
        groups[number] = need.union(*(groups.pop(group) for group in joined))
        group_of |= dict.fromkeys(groups[number] & whole, number)
    return list(groups.values())


def _depending_on_order(program: Program) -> set[int]:
    """Steps whose state may depend on the order of rows, and on how they are batched, which differs between tasks.

    Those that keep rows have values as they came. Others may add or subtract those that are floating-point numbers.
    """
    return {
        number
        for number, step in enumerate(program.steps)
        if not isinstance(step.operation, _KEEP_ROWS)
        and any(_is_inexact(type_) for t in step.operation.written_tables for type_ in t.value_types)
    }


def _is_inexact(type_: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type_) or pa.types.is_nested(type_))


def _parts(program: Program, whole: Sequence[Numbers]) -> tuple[Program, ...]:
    """Programs of sets of steps. All that the same of them have is owned by the one that owns the fewest steps so far.

    Steps that write the same state table are in the same sets, so that one task writes it.
    """
    having: list[tuple[int, ...]] = [()] * len(program.steps)
    for number, steps in enumerate(whole):
        for step in steps:
            having[step] += (number,)
    shared: dict[tuple[int, ...], list[int]] = {}
    for step, tasks in enumerate(having):
        shared.setdefault(tasks, []).append(step)
    owned: list[list[int]] = [[] for _ in whole]
    for tasks in sorted(shared, key=len):
        owned[min(tasks, key=lambda i: len(owned[i]))] += shared[tasks]
    return tuple(_part(program, number, steps, owned[number]) for number, steps in enumerate(whole))


def _part(program: Program, number: int, steps: Numbers, owned: Sequence[int]) -> Program:
    carried_out = frozenset(map(int, steps))
    tables = frozenset(t.id for i in owned for t in program.steps[i].operation.written_tables)
    reads = frozenset(t.id for i in carried_out for t in program.steps[i].operation.read_tables)
    part = ProgramPart(number, carried_out, frozenset(owned), tables, reads)
    named = hashlib.sha256(repr((sorted(carried_out), sorted(owned))).encode()).hexdigest()[:16]
    return replace(
        program,
        steps=tuple(step if i in carried_out else _LEFT_OUT for i, step in enumerate(program.steps)),
        fingerprint=f"{program.fingerprint}-{number}-{named}",
        part=part,
    )


@dataclass
class _Known:
    """What is known of a program.

    ``epochs`` are those that its costs are of. It is looked for a better division after ``look`` of them, then after
    ``gap`` more. ``pause`` epochs are not divided. ``whole`` are the steps of the tasks, ``parts`` their programs.
    """

    program: Program
    costs: Costs
    epochs: int = 0
    look: int = 0
    gap: int = _FIRST_LOOK
    pause: int = 0
    whole: list[Numbers] = field(default_factory=list)
    parts: tuple[Program, ...] = ()
    needs: list[Numbers] | None = None


class Divisions:
    """The divisions of the programs of a mill, by what the steps of each have taken."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def of(self, program: Program, tasks: int) -> tuple[Program, ...]:
        """The parts of a program for some tasks, or fewer of them; the program itself where one is best."""
        if tasks < 2:
            return (program,)
        known = self._of(program)
        if known.epochs < _LEARNED or known.pause:
            return (program,)
        if known.epochs >= known.look or len(known.parts) > tasks:
            _look(known, tasks)
            known.look, known.gap = known.epochs + known.gap, min(2 * known.gap, _LOOKS)
        return known.parts or (program,)

    def note(self, program: Program, reports: Iterable[TaskReport]) -> None:
        """Learn from an epoch of a program what its steps take."""
        known = self._of(program)
        took = np.zeros(len(program.steps))
        for report in reports:
            took[list(report.stats)] += [stats.milliseconds for stats in report.stats.values()]
        known.epochs += 1
        known.pause = max(0, known.pause - 1)
        known.costs += max(_NEWEST, 1 / known.epochs) * (took - known.costs)

    def failed(self, program: Program) -> None:
        """A task that carried out a part of a program has failed: one task is to do for a while."""
        self._of(program).pause = _PAUSE

    def _of(self, program: Program) -> _Known:
        """What is known of a program: of a new one, what like steps of the one used last took."""
        known = self._known.pop(program.fingerprint, None)
        if known is None:
            known = _Known(program, np.zeros(len(program.steps)))
            last = next(reversed(self._known.values()), None)
            if last is not None and last.epochs >= _LEARNED:
                known.costs, known.epochs, known.pause = _like(program, last), _LEARNED, last.pause
        self._known[program.fingerprint] = known
        while len(self._known) > _KEPT:
            self._known.pop(next(iter(self._known)))
        return known


def _like(program: Program, known: _Known) -> Costs:
    """What steps take when those of a kind, for the same views, take as long as in another program."""
    found: dict[tuple[object, ...], list[float]] = {}
    for step, cost in zip(known.program.steps, known.costs, strict=True):
        for kind in _kinds(step):
            found.setdefault(kind, []).append(float(cost))
    means = {kind: sum(costs) / len(costs) for kind, costs in found.items()}
    return np.array([next((means[k] for k in _kinds(step) if k in means), 0.0) for step in program.steps], np.float64)


def _kinds(step: Step) -> tuple[tuple[object, ...], ...]:
    """What a step has in common with others, the closest first."""
    tables = tuple(table.id for table in step.operation.written_tables)
    kind = type(step.operation)
    return (kind, step.views, tables), (kind, step.views), *([(kind, tables)] if tables else []), (kind,)


def _look(known: _Known, tasks: int) -> None:
    """Divide a program so that it takes the least time, unless it takes hardly longer now."""
    costs, total = known.costs, float(known.costs.sum())
    before = known.whole if len(known.whole) <= tasks else []
    best: list[Numbers] = []
    least = total
    if total > 2 * _PART_COSTS:
        if known.needs is None:
            known.needs = _dependencies(known.program)
        for count in (count for count in _COUNTS if count <= tasks):
            found = _given_out(known.needs, costs, count)
            longest = _longest(found, costs)
            if longest >= least:
                break
            best, least = found, longest
    if least >= _BETTER * (_longest(before, costs) if before else total):
        best = before
    if best is not known.whole:
        known.whole, known.parts = best, _parts(known.program, best) if len(best) > 1 else ()


def _longest(whole: Sequence[Numbers], costs: Costs) -> float:
    """Milliseconds of an epoch, by what its steps take."""
    return _PART_COSTS * (len(whole) - 1) + max((float(costs[steps].sum()) for steps in whole), default=0.0)
