"""The steps of a program, in the order in which they are added: equal ones over equal inputs are one step."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable

from tidemill.plan.lowering.raw_filters import RawFilters
from tidemill.task.program import Input, Operation, Program, StateTable, Step, ViewLimit


class StepList:
    """Collects steps and the views that depend on them. A program that has been made of them never changes."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._numbers: dict[tuple[Operation, tuple[Input, ...], int], int] = {}
        self._sinks: dict[str, list[int]] = {}
        self._filters = RawFilters()
        self._made: list[Step] = []
        self._digests: list[bytes] = []
        self._tables: dict[str, StateTable] = {}

    def copy(self) -> StepList:
        """A list that begins with these steps, which further views may share."""
        made = StepList()
        made._steps, made._numbers = self._steps.copy(), self._numbers.copy()
        made._filters = self._filters.copy()
        made._made, made._digests, made._tables = self._made.copy(), self._digests.copy(), self._tables.copy()
        return made

    def add(self, operation: Operation, inputs: tuple[Input, ...], created_at_epoch: int, moves: Iterable[bool]) -> int:
        """The number of the step that does this; ``moves`` tells which inputs need an exchange."""
        number = self._numbers.setdefault((operation, inputs, created_at_epoch), len(self._steps))
        if number == len(self._steps):
            depth = max((self._steps[i.step].depth + m for i, m in zip(inputs, moves, strict=True)), default=0)
            self._steps.append(Step(operation, inputs, depth, created_at_epoch, frozenset()))
        return number

    def keep(self, view: str, step: int) -> None:
        """A view depends on a step, which nothing reads."""
        self._sinks.setdefault(view, []).append(step)

    def steps(self) -> tuple[Step, ...]:
        """The steps so far, without views."""
        return tuple(self._steps)

    def program(self, limits: tuple[ViewLimit, ...]) -> tuple[Program, dict[str, StateTable]]:
        """The program of all steps, and the state tables that they write, by id."""
        begin = len(self._made)
        changed = set(range(begin, len(self._steps)))
        for number in range(begin, len(self._steps)):
            step = self._steps[number]
            self._made.append(step)
            self._digests.append(b"")
            self._tables.update({table.id: table for table in step.operation.written_tables})
            for source in {i.step for i in step.inputs}:
                if self._filters.read(source, self._steps[source].operation, step.operation):
                    changed.add(source)
        for view, sinks in self._sinks.items():
            changed |= self._depend(view, sinks)
        self._sinks.clear()
        for number in changed:
            views = self._made[number].views
            operation = self._filters.filtered(number, self._steps[number].operation)
            step = self._steps[number]
            made = Step(operation, step.inputs, step.depth, step.created_at_epoch, views)
            self._made[number], self._digests[number] = made, hashlib.sha256(pickle.dumps(made)).digest()
        name = hashlib.sha256(b"".join((*self._digests, pickle.dumps(limits)))).hexdigest()[:16]
        return Program(tuple(self._made), name, limits), self._tables

    def _depend(self, view: str, sinks: list[int]) -> set[int]:
        """Note that a view depends on steps, and on all that these read."""
        found: set[int] = set()
        stack = sinks.copy()
        while stack:
            at = stack.pop()
            if at in found:
                continue
            found.add(at)
            step = self._made[at]
            views = step.views | {view}
            self._made[at] = Step(step.operation, step.inputs, step.depth, step.created_at_epoch, views)
            stack += [i.step for i in step.inputs]
        return found
