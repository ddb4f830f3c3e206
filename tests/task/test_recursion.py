"""The recursion operator, against a loop over everything seen so far."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest
from operator_runs import INT, changes, keyed, run_stored

from tidemill.errors import EvaluationError
from tidemill.state.keys.keys import KeyColumn
from tidemill.state.merge.merge import MergeOp
from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Delta, Item
from tidemill.task.dataflow.operator import Operator
from tidemill.task.expressions import Call, Expression, Literal, Ref
from tidemill.task.program import (
    Arrange,
    Calculate,
    RecursionJoin,
    RecursionPath,
    RecursiveChanges,
    StateTable,
    multiset_table,
)
from tidemill.testing import MemoryContext, delta

Rows = Counter[tuple[int, ...]]
LEVEL = pa.int32()
ROWS = Arrange((0, 1), (), multiset_table("rows", (INT, INT), 0))
EDGES = Arrange((0, 1), (0,), multiset_table("edges", (INT, INT), 0))
ENDS = Arrange((0,), (), multiset_table("ends", (INT,), 0))
COUNTED = StateTable("counted", (KeyColumn(LEVEL),), 0, (INT,), (MergeOp.SUM,))
LEVELS = 5


def call(function: str, left: Expression, right: Expression) -> Expression:
    return Call(function, (left, right), INT, True, (("mode", "ansi"),))


def join(name: str, relation: int, width: int, *expressions: Expression) -> RecursionJoin:
    """Rows of ``width`` columns meet a relation by their first columns."""
    types = (INT, LEVEL, *(INT,) * (width - 1))
    rows = Arrange((0, width, *range(1, width)), (0,), multiset_table(name, types, 0))
    joined = (LEVEL, *(INT,) * len(expressions))
    then = (Calculate(None, expressions),)
    return RecursionJoin(relation, rows, 1, then, multiset_table(f"{name} pending", joined, 0))


# (node, cost) -> (edge's end, cost + edge's end), for ends that are among ENDS.
STEP = RecursionPath(
    (
        join("first", 0, 2, Ref(3, INT), call("add", Ref(1, INT), Ref(3, INT))),
        join("second", 1, 2, Ref(0, INT), Ref(1, INT)),
    ),
    1,
)
# The rows that have no edge stay where they are: all of them, less those that have one.
LATER = (Ref(0, INT), call("add", Ref(1, INT), Literal(100, INT)))
STAY = (RecursionPath((Calculate(None, LATER),), 1), RecursionPath((join("having", 1, 2, *LATER),), -1))


def operation(paths: tuple[RecursionPath, ...], rows: int | None = None, last: int | None = None) -> RecursiveChanges:
    return RecursiveChanges(ROWS, (EDGES, ENDS), paths, COUNTED, LEVELS, rows, last)


class Run:
    """An operator over epochs, with the weight of its failing rows."""

    def __init__(self, operation: RecursiveChanges) -> None:
        self.operator: Operator = build(0, operation)
        self.context = MemoryContext()
        self.found: Counter[tuple[object, ...]] = Counter()

    def epoch(self, *inputs: Delta) -> None:
        items: list[tuple[Item, int]] = []
        for port, (arrange, rows) in enumerate(zip((ROWS, EDGES, ENDS), inputs, strict=True)):
            items += [(item, port) for item, _ in keyed(arrange, rows)]
        tables = (multiset_table("nothing", (INT, INT), 0), EDGES.table, ENDS.table)
        self.found.update(changes(run_stored(self.operator, self.context, tables, items)))

    @property
    def rows(self) -> dict[tuple[object, ...], int]:
        return {row: n for row, n in self.found.items() if n}

    @property
    def failing(self) -> int:
        return sum(weight for _, weight, _ in self.context.failing_rows)


def edges_model(rows: Rows, edges: Rows, ends: set[int]) -> Rows:
    found: Rows = Counter()
    for (node, cost), n in rows.items():
        for (a, b), m in edges.items():
            if a == node and b in ends:
                found[b, cost + b] += n * m
    return found


def stay_model(rows: Rows, edges: Rows, ends: set[int]) -> Rows:
    return Counter({(node, cost + 100): n for (node, cost), n in rows.items() if node not in ends})


@pytest.mark.parametrize(("paths", "model"), [((STEP,), edges_model), (STAY, stay_model)], ids=["joins", "anti"])
def test_random_changes(paths: tuple[RecursionPath, ...], model: Callable[..., Rows], seed: int) -> None:
    rng = random.Random(seed)
    run = Run(operation(paths))
    anchor: Rows = Counter()
    edges: Rows = Counter()
    ends: Rows = Counter()
    too_deep = 0
    for _ in range(12):
        deltas = []
        for kept, width in ((anchor, 2), (edges, 2), (ends, 1)):
            changed: Rows = Counter()
            for row in list(kept):
                if rng.random() < 0.3:
                    changed[row] -= kept[row]
            for _ in range(rng.randrange(2, 6)):
                row = tuple(rng.randrange(4) for _ in range(width))
                if kept[row] + changed[row] == 0 or width == 2:
                    changed[row] += 1
            kept.update(changed)
            text = " | ".join(f"{n:+d} {' '.join(map(str, row))}" for row, n in changed.items() if n)
            deltas.append(delta(text, *(INT,) * width))
        run.epoch(*deltas)
        level, expected = +anchor, Rows()
        for _ in range(LEVELS):
            expected.update(level)
            level = model(level, +edges, {e for (e,) in +ends})
        assert run.rows == dict(expected)
        assert run.failing == sum(level.values())
        too_deep += run.failing
    assert run.context.failures == {}
    assert too_deep > 0


def test_more_rows_than_there_may_be() -> None:
    run = Run(operation((STEP,), rows=6))
    nothing = delta("", INT)
    run.epoch(delta("+ 1 0", INT, INT), delta("+ 1 2 | + 2 3", INT, INT), delta("+ 2 | + 3 | + 1", INT))
    assert (len(run.rows), run.failing) == (3, 0)
    run.epoch(delta("", INT, INT), delta("+ 1 3 | + 3 1", INT, INT), nothing)
    assert run.failing > 0
    assert {e.number for _, _, e in run.context.failing_rows if e} == {"TM3021", "TM3022"}
    run.epoch(delta("", INT, INT), delta("- 1 3 | - 3 1", INT, INT), nothing)
    assert (len(run.rows), run.failing) == (3, 0)
    with pytest.raises(EvaluationError, match="TM3022"):
        run.epoch(delta("", INT, INT), delta("+100 1 2", INT, INT), nothing)


def test_levels_behind_the_last_are_left_out() -> None:
    run = Run(operation((STEP,), last=2))
    run.epoch(delta("+ 1 0", INT, INT), delta("+ 1 2 | + 2 1", INT, INT), delta("+ 1 | + 2", INT))
    assert run.rows == {(1, 0): 1, (2, 2): 1}
    assert run.failing == 0


def test_only_a_deep_level_changes() -> None:
    run = Run(operation((STEP,)))
    run.epoch(delta("+ 1 0", INT, INT), delta("+ 1 2 | + 2 3", INT, INT), delta("+ 2 | + 3 | + 4", INT))
    run.epoch(delta("", INT, INT), delta("+ 3 4", INT, INT), delta("", INT))
    assert run.rows == {(1, 0): 1, (2, 2): 1, (3, 5): 1, (4, 9): 1}


def test_nothing_new_gives_nothing() -> None:
    run = Run(operation((STEP,)))
    run.epoch(delta("+ 1 0", INT, INT), delta("+ 1 2", INT, INT), delta("+ 2", INT))
    before = run.rows
    run.epoch(delta("", INT, INT), delta("+ 7 2", INT, INT), delta("", INT))
    assert run.rows == before
