"""The first rows in an order, against sorting everything seen so far."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from operator_runs import INT, TEXT, changes, keyed, run_stored

from tidemill.state.keys.keys import KeyColumn
from tidemill.state.merge.merge import MergeOp
from tidemill.task.build import build
from tidemill.task.program import Arrange, StateTable, TopChanges
from tidemill.testing import MemoryContext, delta, weighted_rows

TABLE = StateTable(
    "top", (KeyColumn(INT, descending=True, nulls_first=False), KeyColumn(TEXT)), 0, (INT,), (MergeOp.SUM,)
)
ROWS = Arrange((1, 0), (), TABLE)


def run(operation: TopChanges, context: MemoryContext, text: str) -> dict[tuple[object, ...], int]:
    given = keyed(ROWS, delta(text, TEXT, INT))
    return changes(run_stored(build(0, operation), context, (TABLE,), given))


def test_rows_enter_and_leave() -> None:
    top, context = TopChanges(ROWS, limit=2, offset=0), MemoryContext()
    assert run(top, context, "+ a 1 | + b 5 | + c 3") == {("b", 5): 1, ("c", 3): 1}
    assert run(top, context, "+ d 4") == {("d", 4): 1, ("c", 3): -1}
    assert run(top, context, "- b 5") == {("b", 5): -1, ("c", 3): 1}
    assert run(top, context, "+ e 0") == {}
    assert run(top, context, "+2 f 9") == {("f", 9): 2, ("d", 4): -1, ("c", 3): -1}


@pytest.mark.parametrize(("limit", "offset"), [(1, 0), (5, 0), (4, 3), (None, 6), (40, 10)])
def test_random_changes(limit: int | None, offset: int, seed: int) -> None:
    rng = random.Random(f"{seed} {limit} {offset}")
    top, context = TopChanges(ROWS, limit, offset), MemoryContext()
    rows: Counter[tuple[object, ...]] = Counter()
    found: Counter[tuple[object, ...]] = Counter()
    for _ in range(20):
        present = [row for row, n in rows.items() if n]
        parts = [f"+ {rng.choice('abcdefgh')} {rng.randrange(30)}" for _ in range(rng.randrange(1, 12))]
        parts += [f"- {name} {value}" for name, value in rng.sample(present, min(len(present), rng.randrange(6)))]
        text = " | ".join(parts)
        rows.update(weighted_rows(delta(text, TEXT, INT)))
        found.update(run(top, context, text))
        ordered = sorted(rows.elements(), key=lambda row: (-int(str(row[1])), row[0]))
        expected = Counter(ordered[offset : None if limit is None else offset + limit])
        assert {row: n for row, n in found.items() if n} == dict(expected)
