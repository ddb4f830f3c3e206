"""Joins with a complete side, against a nested loop."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from operator_runs import INT, TEXT, arranged, changes, keyed, run

from tidemill.errors import EvaluationError
from tidemill.task.build import build
from tidemill.task.expressions import Call, Expression, Literal, Ref
from tidemill.task.operators.joins.join import slices
from tidemill.task.program import Arrange, LookupJoin, multiset_table
from tidemill.testing import MemoryContext, Row, delta, weighted_rows

BOOL = pa.bool_()
OTHER = arranged("other", (0, 1), (TEXT, INT))
WITH_NULLS = Arrange(OTHER.columns, (), OTHER.table)
KEYS_ONLY = Arrange((0,), (0,), multiset_table("keys", (TEXT,), 1))
CROSS = Arrange((0, 1), (), multiset_table("cross", (TEXT, INT), 0))
LESS = Call("lt", (Ref(0, INT), Ref(3, INT)), BOOL, True)
INNER = LookupJoin("inner", (1,), (1,), OTHER)
OPERATIONS = {
    "inner": INNER,
    "other first": LookupJoin("inner", (1,), (1,), OTHER, other_first=True),
    "null safe": LookupJoin("inner", (1,), (), WITH_NULLS),
    "cross": LookupJoin("inner", (), (), CROSS),
    "semi": LookupJoin("semi", (1,), (1,), KEYS_ONLY),
    "anti": LookupJoin("anti", (1,), (1,), KEYS_ONLY),
    "semi null safe": LookupJoin("semi", (1,), (), WITH_NULLS),
    "semi residual": LookupJoin("semi", (1,), (1,), OTHER, residual=LESS),
    "anti residual": LookupJoin("anti", (1,), (1,), OTHER, residual=LESS),
    "semi cross residual": LookupJoin("semi", (), (), CROSS, residual=LESS),
    "anti cross": LookupJoin("anti", (), (), CROSS),
}


def loaded(operation: LookupJoin, *rows: str) -> MemoryContext:
    """The other side, an epoch for each text."""
    context = MemoryContext()
    types = (TEXT,) if operation.other is KEYS_ONLY else (TEXT, INT)
    for text in rows:
        for item, _ in keyed(operation.other, delta(text, *types)):
            context.write(operation.other.table, item.rows)
        context.seal()
    return context


def nested_loop(operation: LookupJoin, lefts: dict[Row, int], rights: dict[Row, int]) -> dict[Row, int]:
    found: Counter[Row] = Counter()
    for left, n in lefts.items():
        met = 0
        for right, m in rights.items():
            key = not operation.keys or (left[1] == right[0] and not (operation.required and left[1] is None))
            holds = operation.residual is None or (
                left[0] is not None and right[-1] is not None and left[0] < right[-1]
            )
            if key and holds and m:
                met += m
                if operation.kind == "inner":
                    found[(*right, *left) if operation.other_first else (*left, *right)] += n * m
        if operation.kind != "inner" and (met > 0) == (operation.kind == "semi"):
            found[left] += n
    return {row: weight for row, weight in found.items() if weight}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_random_rows(operation: LookupJoin, seed: int) -> None:
    rng = random.Random(seed)
    text = ("a", "b", "c", "''", "NULL")

    def number() -> str:
        return rng.choice(("NULL", str(rng.randrange(4))))

    only = operation.other is KEYS_ONLY
    ever = False
    for turn in range(200):
        if ever and turn >= 8:
            break
        right = [f"{rng.choice(text)}" + ("" if only else f" {number()}") for _ in range(rng.randrange(8))]
        gone = [r for r in right if rng.random() < 0.3]
        gone += [f"{rng.choice(text)}" + ("" if only else f" {number()}") for _ in range(rng.randrange(3))]
        loads = [" | ".join(f"+ {r}" for r in part) for part in (right[:3], right[3:])]
        context = loaded(operation, *loads, " | ".join(f"- {r}" for r in gone))
        rights = weighted_rows(
            delta(
                " | ".join([*(f"+ {r}" for r in right), *(f"- {r}" for r in gone)]), *((TEXT,) if only else (TEXT, INT))
            )
        )
        operator = build(0, operation)
        for _ in range(3):
            batches = [
                delta(
                    " | ".join(f"{rng.choice(('+', '-', '+2'))} {number()} {rng.choice(text)}" for _ in range(5)),
                    INT,
                    TEXT,
                )
                for _ in range(2)
            ]
            lefts: Counter[Row] = Counter()
            for batch in batches:
                for row, weight in weighted_rows(batch).items():
                    lefts[row] += weight
            expected = nested_loop(operation, lefts, rights)
            assert changes(run(operator, context, [(b, 0) for b in batches])) == expected
            assert not context.written and not context.failures
            ever = ever or bool(expected)
    assert ever


def test_another_epoch_sees_new_runs() -> None:
    context = loaded(INNER, "+ a 1")
    operator = build(0, INNER)
    rows = [(delta("+ 7 a | + 8 b", INT, TEXT), 0)]
    assert changes(run(operator, context, rows)) == {(7, "a", "a", 1): 1}
    for item, _ in keyed(OTHER, delta("+ b 2 | - a 1", TEXT, INT)):
        context.write(OTHER.table, item.rows)
    context.seal()
    assert changes(run(operator, context, rows)) == {(8, "b", "b", 2): 1}


def test_a_residual_condition_that_fails_names_the_row() -> None:
    ratio: Expression = Call("divide", (Ref(0, INT), Ref(3, INT)), INT, True)
    condition = Call("gt", (ratio, Literal(0, INT)), BOOL, True)
    operation = LookupJoin("semi", (1,), (1,), OTHER, residual=condition)
    context = loaded(operation, "+ a 0")
    with pytest.raises(EvaluationError, match=r"in the row \(5, 'a', 'a', 0\)"):
        run(build(0, operation), context, [(delta("+ 5 a", INT, TEXT), 0)])


@pytest.mark.parametrize("most", [1, 3, 100])
def test_slices_cover_all_rows(most: int, seed: int) -> None:
    rng = random.Random(seed)
    counts = [rng.choice((0, 1, 2, 9)) for _ in range(20)]
    found = slices(np.array(counts), most)
    assert [i for start, stop in found for i in range(start, stop)] == list(range(20))
    assert all(sum(counts[start:stop]) <= most + max(counts) for start, stop in found)
