"""Incremental semi and anti join, against a nested loop over everything seen so far."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from operator_runs import INT, TEXT, arranged, changes, keyed, run_stored

from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Delta, Item
from tidemill.task.program import Arrange, SemiChanges, multiset_table
from tidemill.testing import MemoryContext, delta, weighted_rows

LEFT = arranged("left", (1, 0), (INT, TEXT))
LEFT_WITH_NULLS = Arrange((1, 0), (), LEFT.table)
RIGHT = Arrange((0,), (0,), multiset_table("right", (TEXT,), 1))
TABLES = (LEFT.table, RIGHT.table)
SEMI = SemiChanges(LEFT, RIGHT, 1, anti=False)
ANTI = SemiChanges(LEFT_WITH_NULLS, RIGHT, 1, anti=True)


def inputs(operation: SemiChanges, lefts: str = "", rights: str = "") -> list[tuple[Item, int]]:
    given: list[tuple[Item, int]] = []
    if lefts:
        given += [(item, 0) for item, _ in keyed(operation.left, delta(lefts, INT, TEXT))]
    if rights:
        given += [(item, 1) for item, _ in keyed(operation.right, delta(rights, TEXT))]
    return given


def test_rows_come_and_go_with_the_first_and_last_match() -> None:
    semi, context = build(0, SEMI), MemoryContext()
    assert changes(run_stored(semi, context, TABLES, inputs(SEMI, "+ 1 a | + 2 b | +2 3 a"))) == {}
    assert changes(run_stored(semi, context, TABLES, inputs(SEMI, rights="+ a"))) == {(1, "a"): 1, (3, "a"): 2}
    assert changes(run_stored(semi, context, TABLES, inputs(SEMI, rights="+ a"))) == {}
    assert changes(run_stored(semi, context, TABLES, inputs(SEMI, "- 3 a", "- a"))) == {(3, "a"): -1}
    assert changes(run_stored(semi, context, TABLES, inputs(SEMI, rights="- a"))) == {(1, "a"): -1, (3, "a"): -1}


def test_an_anti_join_keeps_what_never_matches() -> None:
    anti, context = build(0, ANTI), MemoryContext()
    rows: Delta = delta("+ 1 a | + 2 NULL", INT, TEXT)
    given: list[tuple[Item, int]] = [(item, 0) for item, _ in keyed(LEFT_WITH_NULLS, rows)]
    assert changes(run_stored(anti, context, TABLES, given)) == {(1, "a"): 1, (2, None): 1}
    assert changes(run_stored(anti, context, TABLES, inputs(ANTI, rights="+ a | + b"))) == {(1, "a"): -1}
    assert changes(run_stored(anti, context, TABLES, inputs(ANTI, rights="- a"))) == {(1, "a"): 1}


@pytest.mark.parametrize("operation", [SEMI, ANTI], ids=["semi", "anti"])
def test_random_changes(operation: SemiChanges, seed: int) -> None:
    rng = random.Random(seed)
    join, context = build(0, operation), MemoryContext()
    lefts: Counter[tuple[object, ...]] = Counter()
    rights: Counter[tuple[object, ...]] = Counter()
    found: Counter[tuple[object, ...]] = Counter()
    for _ in range(15):
        new_left = " | ".join(f"+ {rng.randrange(4)} {rng.choice('abcd')}" for _ in range(4))
        gone = [f"- {k[0]}" for k, n in rights.items() if n and rng.random() < 0.6]
        new_right = " | ".join([f"+ {rng.choice('abc')}", *gone])
        lefts.update(weighted_rows(delta(new_left, INT, TEXT)))
        rights.update(weighted_rows(delta(new_right, TEXT)))
        found.update(changes(run_stored(join, context, TABLES, inputs(operation, new_left, new_right))))
        expected = {row: n for row, n in lefts.items() if n and (rights[(row[1],)] > 0) != operation.anti}
        assert {row: n for row, n in found.items() if n} == expected
