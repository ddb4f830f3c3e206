"""Incremental inner equi-join, against a nested loop over everything seen so far."""

from __future__ import annotations

import random
from collections import Counter

from operator_runs import INT, TEXT, arranged, changes, keyed, run_stored

from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Delta, Item
from tidemill.task.dataflow.operator import Operator, Output
from tidemill.task.program import JoinChanges
from tidemill.testing import MemoryContext, delta, weighted_rows

LEFT = arranged("left", (1, 0), (INT, TEXT))
RIGHT = arranged("right", (0, 1), (TEXT, INT))
JOIN = JoinChanges(LEFT, RIGHT, 1)


def run(join: Operator, context: MemoryContext, inputs: list[tuple[Item, int]] | None = None) -> list[Output]:
    return run_stored(join, context, (LEFT.table, RIGHT.table), inputs or [])


def left(text: str) -> Delta:
    return delta(text, INT, TEXT)


def right(text: str) -> Delta:
    return delta(text, TEXT, INT)


def sides(lefts: Delta | None = None, rights: Delta | None = None) -> list[tuple[Item, int]]:
    inputs: list[tuple[Item, int]] = []
    if lefts is not None:
        inputs += [(item, 0) for item, _ in keyed(LEFT, lefts)]
    if rights is not None:
        inputs += [(item, 1) for item, _ in keyed(RIGHT, rights)]
    return inputs


def test_columns_come_in_the_order_of_the_inputs() -> None:
    found = changes(run(build(0, JOIN), MemoryContext(), sides(left("+ 1 a"), right("+ a 7 | + b 8"))))
    assert found == {(1, "a", "a", 7): 1}


def test_each_side_meets_what_came_before() -> None:
    join, context = build(0, JOIN), MemoryContext()
    assert changes(run(join, context, sides(left("+ 1 a | + 2 b")))) == {}
    assert changes(run(join, context, sides(rights=right("+2 a 7")))) == {(1, "a", "a", 7): 2}
    assert changes(run(join, context, sides(left("+ 3 a | - 1 a"), right("+ b 9 | - a 7")))) == {
        (1, "a", "a", 7): -2,
        (2, "b", "b", 9): 1,
        (3, "a", "a", 7): 1,
    }


def test_nothing_new_gives_nothing() -> None:
    join, context = build(0, JOIN), MemoryContext()
    run(join, context, sides(left("+ 1 a"), right("+ a 7")))
    assert run(join, context) == []


def test_random_changes(seed: int) -> None:
    rng = random.Random(seed)
    join, context = build(0, JOIN), MemoryContext()
    lefts: Counter[tuple[int, str]] = Counter()
    rights: Counter[tuple[str, int]] = Counter()
    joined: Counter[tuple[object, ...]] = Counter()
    for _ in range(12):
        new_left = left(" | ".join(f"{rng.choice('+-')} {rng.randrange(4)} {rng.choice('abc')}" for _ in range(6)))
        new_right = right(" | ".join(f"{rng.choice('+-')} {rng.choice('abcd')} {rng.randrange(3)}" for _ in range(5)))
        lefts.update(weighted_rows(new_left))
        rights.update(weighted_rows(new_right))
        joined.update(changes(run(join, context, sides(new_left, new_right))))
        expected = {(*a, *b): n * m for a, n in lefts.items() for b, m in rights.items() if a[1] == b[0] and n * m}
        assert {row: n for row, n in joined.items() if n} == expected
