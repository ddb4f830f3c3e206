"""Divides programs of many views among tasks, so that a small epoch of them uses several processors.

A small epoch has one partition: its rows are too few to be exchanged. Where its steps take long because they are many,
each of several tasks carries out those that some of the views need. What views of different tasks share is done by
each of these, from the same rows, and one of them writes its state. How the views are divided follows from what the
steps took in earlier epochs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tidemill.runtime.job.superstep import TaskReport
from tidemill.task.program import Program, ProgramPart, Step

_LEARNED = 4
"""Epochs of a program before it is divided. The first ones make tasks and read files for the first time."""
_LOOKS = 128
"""Epochs until it is looked at again whether another division would be better."""
_PART_COSTS = 4.0
"""Milliseconds that each further task costs: a message, an answer, and files of its own."""
_BETTER = 0.8
"""A division is changed for one that takes at most this part of its time."""
_NEWEST = 0.1
"""The weight of the newest epoch among those that costs are of."""
_KEPT = 16
"""Programs that are remembered."""

_MOST_PARTS = 16
"""Tasks that a program is divided among at most: each repeats what several of them need."""

Costs: TypeAlias = npt.NDArray[np.float64]
"""Milliseconds of an epoch, by step."""
Steps: TypeAlias = npt.NDArray[np.bool_]
"""Some of the steps of a program."""
Dependencies: TypeAlias = list[Steps]
"""What each of the steps that no other one needs depends on, itself among it."""


def divided(program: Program, costs: Costs, count: int) -> tuple[Program, ...]:
    """Divide the steps of a program among tasks, whose longest time is to be short.

    The steps that nothing reads are given out, those with the most to do first, each with all that it depends on, to
    the task that is ready soonest with it (Graham, "Bounds on multiprocessing timing anomalies", 1969, of tasks whose
    work overlaps). A step depends on those that it reads from, and on those that write a state table that it
    looks up or writes itself.

    Parameters
    ----------
    program : Program
        All of it.
    count : int
        How many tasks there are.

    Returns
    -------
    tuple of Program
        The parts, in which every step is carried out, and owned by one; fewer where there is not enough to do.
    """
    return _parts(program, _given_out(_dependencies(program), costs, count))


def _given_out(needs: Dependencies, costs: Costs, count: int) -> list[Steps]:
    """The steps of each task that has any."""
    whole = [np.zeros(len(costs), bool) for _ in range(count)]
    taken = np.zeros(count)
    for need in sorted(needs, key=lambda need: -float(costs[need].sum())):
        more = [float(costs[need & ~has].sum()) for has in whole]
        target = int(np.argmin(taken + more))
        taken[target] += more[target]
        whole[target] |= need
    return [has for has in whole if has.any()]


def _dependencies(program: Program) -> Dependencies:
    """For each step that no other one needs those that it needs, itself among them."""
    writers: dict[str, list[int]] = {}
    for number, step in enumerate(program.steps):
        for table in step.operation.written_tables:
            writers.setdefault(table.id, []).append(number)
    direct: list[set[int]] = []
    for number, step in enumerate(program.steps):
        tables = {t.id for t in (*step.operation.read_tables, *step.operation.written_tables)}
        found = {source.step for source in step.inputs} | {w for t in tables for w in writers.get(t, ())}
        direct.append(found - {number})
    needs = [np.zeros(len(direct), bool) for _ in direct]
    for number, has in enumerate(needs):
        waiting = [number]
        while waiting:
            step_number = waiting.pop()
            if not has[step_number]:
                has[step_number] = True
                waiting += direct[step_number]
    read = {n for number, found in enumerate(direct) for n in found if not needs[n][number]}
    return [need for number, need in enumerate(needs) if number not in read]


def _parts(program: Program, whole: Sequence[Steps]) -> tuple[Program, ...]:
    """Programs of sets of steps. All that the same of them have is owned by the one that owns the fewest steps so far.

    Steps that write the same state table are in the same sets, so that one task writes it.
    """
    shared: dict[tuple[int, ...], list[int]] = {}
    for number in range(len(program.steps)):
        shared.setdefault(tuple(i for i, has in enumerate(whole) if has[number]), []).append(number)
    owned: list[list[int]] = [[] for _ in whole]
    for having in sorted(shared, key=len):
        owned[min(having, key=lambda i: len(owned[i]))] += shared[having]
    made = []
    for number, has in enumerate(whole):
        steps = frozenset(map(int, np.flatnonzero(has)))
        tables = frozenset(t.id for i in owned[number] for t in program.steps[i].operation.written_tables)
        reads = frozenset(t.id for i in steps for t in program.steps[i].operation.read_tables)
        part = ProgramPart(number, steps, frozenset(owned[number]), tables, reads)
        named = hashlib.sha256(repr((sorted(part.steps), sorted(part.owned))).encode()).hexdigest()[:16]
        made.append(replace(program, fingerprint=f"{program.fingerprint}-{number}-{named}", part=part))
    return tuple(made)


@dataclass
class _Known:
    """What is known of a program. ``epochs`` are those that its costs are of."""

    program: Program
    costs: Costs
    epochs: int = 0
    looked: int = 0
    parts: tuple[Program, ...] = ()


class Divisions:
    """The divisions of the programs of a mill, by what the steps of each have taken."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def of(self, program: Program, tasks: int) -> tuple[Program, ...]:
        """The parts of a program for some tasks, or fewer of them; the program itself where one is best."""
        if tasks < 2:
            return (program,)
        known = self._of(program)
        if known.epochs < _LEARNED:
            return (program,)
        if not known.parts or len(known.parts) > tasks or known.epochs - known.looked >= _LOOKS:
            known.looked = known.epochs
            known.parts = _best(program, known, tasks)
        return known.parts

    def note(self, program: Program, reports: Iterable[TaskReport]) -> None:
        """Learn from an epoch of a program what its steps take."""
        known = self._of(program)
        took = np.zeros(len(program.steps))
        for report in reports:
            for step, stats in report.stats.items():
                took[step] += stats.milliseconds
        known.epochs += 1
        known.costs += max(_NEWEST, 1 / known.epochs) * (took - known.costs)

    def _of(self, program: Program) -> _Known:
        """What is known of a program: of a new one, what like steps of the one used last took."""
        known = self._known.pop(program.fingerprint, None)
        if known is None:
            known = _Known(program, np.zeros(len(program.steps)))
            last = next(reversed(self._known.values()), None)
            if last is not None and last.epochs >= _LEARNED:
                known.costs, known.epochs = _like(program, last), _LEARNED
        self._known[program.fingerprint] = known
        while len(self._known) > _KEPT:
            self._known.pop(next(iter(self._known)))
        return known


def _like(program: Program, known: _Known) -> Costs:
    """What steps take when those of a kind, for the same views, take as long as in another program."""
    found: dict[tuple[object, ...], list[float]] = {}
    for step, cost in zip(known.program.steps, known.costs, strict=True):
        found.setdefault(_kind(step), []).append(float(cost))
    mean = float(known.costs.mean()) if len(known.costs) else 0.0
    return np.array([np.mean(found.get(_kind(step), mean)) for step in program.steps], np.float64)


def _kind(step: Step) -> tuple[object, ...]:
    return type(step.operation), step.views


def _best(program: Program, known: _Known, tasks: int) -> tuple[Program, ...]:
    """The division that takes the least time, or the one before where that is hardly longer."""
    needs, costs = _dependencies(program), known.costs
    best, least = [np.ones(len(costs), bool)], float(costs.sum())
    for count in range(2, min(tasks, _MOST_PARTS) + 1):
        found = _given_out(needs, costs, count)
        longest = _longest(found, costs)
        if longest >= least:
            break
        best, least = found, longest
    before = known.parts if 0 < len(known.parts) <= tasks else (program,)
    if least >= _BETTER * _longest([_steps(part) for part in before], costs):
        return before
    return _parts(program, best) if len(best) > 1 else (program,)


def _longest(parts: Sequence[Steps], costs: Costs) -> float:
    """Milliseconds of an epoch, by what its steps take."""
    return _PART_COSTS * (len(parts) - 1) + max((float(costs[steps].sum()) for steps in parts), default=0.0)


def _steps(program: Program) -> Steps:
    found = np.zeros(len(program.steps), bool)
    found[list(program.carried_out)] = True
    return found
