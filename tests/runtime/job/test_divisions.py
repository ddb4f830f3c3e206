"""Programs divided among tasks by views: every step in a part with what it needs, owned by one; costs decide."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from tidemill.runtime.job import divisions as job_divisions
from tidemill.runtime.job.divisions import Divisions
from tidemill.runtime.job.superstep import TaskReport
from tidemill.state.keys.layout import KeyColumn
from tidemill.state.merge.operations import MergeOp
from tidemill.state.tables import StateTable, multiset_table
from tidemill.task.dataflow.operator import OperatorStats
from tidemill.task.program import Input, Operation, Program, Step


@dataclass(frozen=True)
class Work(Operation):
    """Writes and reads some tables."""

    writes: tuple[StateTable, ...] = ()
    reads: tuple[StateTable, ...] = ()

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        return self.writes

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        return self.reads


def table(name: str) -> StateTable:
    return multiset_table(name, (pa.int32(),), 0)


def sums(name: str, type_: pa.DataType) -> StateTable:
    return StateTable(name, (KeyColumn(pa.int32()),), 1, (pa.int64(), type_), (MergeOp.SUM, MergeOp.SUM))


def program(steps: Sequence[tuple[Work, Sequence[int]]]) -> Program:
    return Program(tuple(Step(work, tuple(map(Input, inputs)), 0, 0, frozenset()) for work, inputs in steps), "p")


def divided(whole: Program, costs: npt.NDArray[np.float64], count: int) -> tuple[Program, ...]:
    """The parts for a number of tasks, whether or not they are worth it."""
    given = job_divisions._given_out(job_divisions._dependencies(whole), costs, count)
    return job_divisions._parts(whole, given)


def random_program(chance: random.Random) -> Program:
    """Some scans, and steps over earlier ones that write tables of their own, or ones of others."""
    steps: list[tuple[Work, Sequence[int]]] = []
    tables = [table(f"t{i}") for i in range(12)]
    for number in range(chance.randrange(1, 40)):
        inputs = chance.sample(range(number), min(number, chance.choice((0, 1, 1, 1, 2))))
        writes = chance.sample(tables, chance.choice((0, 0, 0, 1, 2)))
        reads = chance.sample(tables, chance.choice((0, 0, 0, 1)))
        steps.append((Work(tuple(writes), tuple(reads)), inputs))
    return program(steps)


def needed(whole: Program, numbers: Iterable[int]) -> set[int]:
    """What steps depend on, by repetition until nothing is new."""
    found = set(numbers)
    while True:
        more = set(found)
        for number in found:
            step = whole.steps[number]
            more |= {source.step for source in step.inputs}
            used = {*step.operation.written_tables, *step.operation.read_tables}
            more |= {n for n, s in enumerate(whole.steps) if used & {*s.operation.written_tables}}
        if more == found:
            return found
        found = more


def test_parts_are_whole_and_every_step_is_owned_once(seed: int) -> None:
    chance = random.Random(seed)
    several = 0
    for _ in range(300):
        whole = random_program(chance)
        costs = np.array([chance.choice((0.0, 0.5, 1.0, 20.0)) for _ in whole.steps])
        parts = [p.part for p in divided(whole, costs, chance.randrange(1, 5))]
        several += len(parts) > 1
        tables: list[str] = []
        owned: list[int] = []
        for number, part in enumerate(parts):
            assert part is not None
            assert part.number == number
            assert part.steps == needed(whole, part.steps)
            assert part.owned <= part.steps
            written = {t.id for n in part.owned for t in whole.steps[n].operation.written_tables}
            assert part.tables == written
            owned += part.owned
            tables += part.tables
        assert sorted(owned) == list(range(len(whole.steps)))
        assert len(tables) == len(set(tables)), "a table is written by one task"
    assert several > 50


def test_a_program_goes_through_parts_in_a_name_of_its_own() -> None:
    whole = program([(Work(), ()), (Work((table("a"),)), (0,)), (Work((table("b"),)), (0,))])
    one, other = divided(whole, np.array([1.0, 5.0, 5.0]), 2)
    assert {*one.carried_out} == {0, 1} and {*other.carried_out} == {0, 2}
    assert len({whole.fingerprint, one.fingerprint, other.fingerprint}) == 3
    assert {**one.carried_out, **other.carried_out} == dict(enumerate(whole.steps))
    assert not isinstance(one.steps[2].operation, Work), "what a task does not carry out it is not sent"
    again = divided(whole, np.array([1.0, 5.0, 5.0]), 2)
    assert [p.fingerprint for p in again] == [one.fingerprint, other.fingerprint]


def test_the_longest_part_is_short(seed: int) -> None:
    """Independent views: at most a third more than the best there is (Graham 1969, for the longest first)."""
    chance = random.Random(seed)
    for _ in range(40):
        costs = np.array([chance.uniform(0.1, 10.0) for _ in range(chance.randrange(2, 8))])
        whole = program([(Work(), ()) for _ in costs])
        count = chance.randrange(2, 4)
        places = np.array(list(product(range(count), repeat=len(costs))))
        best = min(max(float(costs[row == task].sum()) for task in range(count)) for row in places)
        parts = divided(whole, costs, count)
        assert max(float(costs[list(p.carried_out)].sum()) for p in parts) <= best * (4 / 3)


@pytest.mark.parametrize(("type_", "parts"), [(pa.int64(), 2), (pa.float64(), 1), (pa.list_(pa.int64()), 1)])
def test_sums_that_depend_on_the_order_of_rows_are_made_by_one_task(type_: pa.DataType, parts: int) -> None:
    """Else views of different tasks would have sums that differ in their last digits."""
    kept = sums("s", type_)
    whole = program([(Work(), ()), (Work((kept,)), (0,)), (Work((table("a"),)), (1,)), (Work((table("b"),)), (1,))])
    assert len(divided(whole, np.array([1.0, 1.0, 50.0, 50.0]), 2)) == parts


def test_chains_of_views_with_such_sums_stay_together() -> None:
    first, second = sums("f", pa.float64()), sums("g", pa.float64())
    steps: list[tuple[Work, Sequence[int]]] = [(Work((first,)), ()), (Work((second,)), ())]
    steps += [(Work((table("a"),)), (0,)), (Work((table("b"),)), (1,)), (Work((table("c"),)), (0, 1))]
    whole = program([*steps, (Work((table("d"),)), ())])
    parts = divided(whole, np.full(6, 10.0), 4)
    assert sorted(sorted(p.carried_out) for p in parts) == [[0, 1, 2, 3, 4], [5]]


def report(milliseconds: Sequence[float]) -> TaskReport:
    stats = {step: OperatorStats(1, 1, 1, spent) for step, spent in enumerate(milliseconds)}
    return TaskReport(0, 0, stats=stats)


@pytest.mark.parametrize(
    ("costs", "tasks", "parts"),
    [
        ((0.2, 30.0, 30.0), 2, 2),
        ((0.2, 30.0, 30.0), 1, 1),
        ((0.2, 3.0, 3.0), 2, 1),
        ((50.0, 5.0, 5.0), 2, 1),
        ((0.2, 30.0, 30.0), 8, 2),
    ],
)
def test_what_steps_took_decides(costs: Sequence[float], tasks: int, parts: int) -> None:
    whole = program([(Work(), ()), (Work((table("a"),)), (0,)), (Work((table("b"),)), (0,))])
    divisions = Divisions()
    assert divisions.of(whole, tasks) == (whole,), "nothing is known"
    for _ in range(10):
        divisions.note(whole, [report(costs)])
    found = divisions.of(whole, tasks)
    assert len(found) == parts
    assert (found == (whole,)) == (parts == 1)
    assert divisions.of(whole, 1) == (whole,), "fewer tasks are there now"


def test_after_a_failure_one_task_does_all_for_a_while() -> None:
    whole = program([(Work((table(name),)), ()) for name in "ab"])
    changed = program([(Work((table(name),)), ()) for name in "abc"])
    changed = replace(changed, fingerprint="q")
    divisions = Divisions()
    for _ in range(10):
        divisions.note(whole, [report((30.0, 30.0))])
    assert len(divisions.of(whole, 2)) == 2
    divisions.failed(whole)
    assert divisions.of(whole, 2) == (whole,) and divisions.of(changed, 2) == (changed,)
    for _ in range(100):
        divisions.note(changed, [report((30.0, 30.0, 30.0))])
    assert len(divisions.of(changed, 2)) == 2


def test_a_program_that_changes_is_divided_by_what_like_steps_took() -> None:
    steps: list[tuple[Work, Sequence[int]]] = [(Work(), ()), *((Work((table(name),)), (0,)) for name in "abc")]
    divisions = Divisions()
    for _ in range(10):
        divisions.note(program(steps), [report((1.0, 40.0, 10.0, 10.0))])
    more = replace(program([*steps, (Work((table("d"),)), (0,))]), fingerprint="q")
    found = [set(p.carried_out) for p in divisions.of(more, 2)]
    assert sorted(found, key=len) == [{0, 1}, {0, 2, 3, 4}]


def test_costs_that_change_divide_again() -> None:
    """Not at once: a task that carries out other steps begins anew."""
    whole = program([(Work((table(name),)), ()) for name in "abcd"])
    divisions = Divisions()
    for _ in range(10):
        divisions.note(whole, [report((30.0, 30.0, 1.0, 1.0))])
    before = [p.carried_out.keys() for p in divisions.of(whole, 2)]
    assert not any({0, 1} <= numbers for numbers in before)
    for _ in range(5):
        divisions.note(whole, [report((1.0, 1.0, 30.0, 30.0))])
        assert [p.carried_out.keys() for p in divisions.of(whole, 2)] == before
    for _ in range(300):
        divisions.note(whole, [report((40.0, 1.0, 40.0, 1.0))])
        after = [p.carried_out.keys() for p in divisions.of(whole, 2)]
    assert not any({0, 2} <= numbers for numbers in after)
    for _ in range(300):
        divisions.note(whole, [report((0.1, 0.1, 0.1, 0.1))])
        divisions.of(whole, 2)
    assert divisions.of(whole, 2) == (whole,), "a second task would cost more than it saves"
