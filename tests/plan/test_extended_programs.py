"""A program that goes on from that of fewer views is the one that all views have when they are assembled at once."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from typing import Any

import pytest
from test_assemble import TABLES, Views, views

from tidemill.plan.lowering.assemble import Assembler, state_tables
from tidemill.task.program import Calculate, GroupPartial, Program, ScanStep

__all__ = ["views"]

QUERIES = [
    "SELECT k, count(*) AS c, sum(n) AS s FROM t GROUP BY k",
    "SELECT k, x, s, n FROM t",
    "SELECT k, x, s, n FROM a",
    "SELECT k, count(*) AS c, sum(n) AS s FROM t WHERE n > 3 GROUP BY k",
    "SELECT s, max(n) AS m FROM a WHERE n > 3 GROUP BY s",
    "SELECT k, count(*) AS c, sum(n) AS s FROM t GROUP BY k",
    "SELECT t.k, a.s FROM t JOIN a ON t.k = a.k WHERE t.n > 3",
    "SELECT count(*) AS c FROM a",
    "SELECT s, n FROM t WHERE n > 3 ORDER BY n DESC LIMIT 5",
    "SELECT k, sum(n) OVER (PARTITION BY k ORDER BY n) AS s FROM a",
    "SELECT k FROM t WHERE k IN (SELECT k FROM a WHERE n > 3)",
    "SELECT DISTINCT s FROM a WHERE n > 3",
    "SELECT c, count(*) AS times FROM v0 GROUP BY c",
    "SELECT k + 1 AS k1 FROM v1",
]


def told(program: Program) -> Counter[Any]:
    """The steps of a program whatever their numbers are."""
    found: list[Any] = []
    for step in program.steps:
        inputs = tuple((found[i.step], i.port, i.broadcast) for i in step.inputs)
        found.append((step.operation, inputs, step.depth, step.created_at_epoch, step.views))
    return Counter(found)


def add_all(views: Views, queries: list[str], seed: int) -> None:
    rng = random.Random(seed)
    for number, query in enumerate(queries):
        views.add(f"v{number}", query, 0 if number < 2 else rng.choice((0, 0, 4)))


@pytest.mark.parametrize("order", range(6))
def test_extended_is_assembled_at_once(views: Views, seed: int, order: int) -> None:
    queries = QUERIES[:2] + random.Random(order + seed).sample(QUERIES[2:], len(QUERIES) - 2)
    add_all(views, queries, seed)
    before = Assembler(views.views[:1], TABLES)
    extended = 0
    for count in range(1, len(views.views) + 1):
        some = views.views[:count]
        fresh, was = Assembler(some, TABLES), told(before.program())
        made = before.extended(some, TABLES)
        extended += made is not None
        made = made or Assembler(some, TABLES)
        assert told(made.program()) == told(fresh.program())
        assert told(before.program()) == was
        assert made.state_tables() == state_tables(fresh.program())
        assert made.retention() == fresh.retention()
        assert made.small.tables == fresh.small.tables
        for view in some:
            assert made.begins_with_rows(view.name) == fresh.begins_with_rows(view.name)
            assert made.read_plan(view.name) == fresh.read_plan(view.name)
        before = made
    assert extended >= 8


def test_what_a_further_view_changes_is_assembled_again(views: Views) -> None:
    views.add("v", "SELECT k, sum(n) AS s FROM t GROUP BY k")
    first = Assembler(views.views, TABLES)
    assert first.extended(views.views, TABLES) is None  # it has no program yet
    first.program()
    assert first.extended([], TABLES) is None
    views.add("w", "SELECT s FROM v")
    assert first.extended(views.views, TABLES) is None  # v must give changes now
    views.views.pop()
    views.add("w", "SELECT k, x FROM t")
    assert first.extended(views.views, TABLES) is None  # the scan has another column
    views.views.pop()
    views.add("w", "SELECT k, x FROM a")
    assert first.extended(views.views, TABLES) is not None


def test_equal_work_of_views_is_one_step(views: Views) -> None:
    for number in range(10):
        views.add(f"v{number}", f"SELECT k AS k{number}, max(n) AS m FROM a WHERE n < 5 GROUP BY k")
    kinds = Counter(type(step.operation) for step in views.program().steps)
    assert (kinds[ScanStep], kinds[Calculate], kinds[GroupPartial]) == (1, 1, 1)


def test_a_scan_does_not_test_many_conditions(views: Views) -> None:
    for number in range(400):
        views.add(f"v{number}", f"SELECT n, x FROM a WHERE k = {number}")
        if number == 15:
            conditions = [s.operation.condition for s in views.program().steps if isinstance(s.operation, ScanStep)]
            assert None not in conditions
    program = views.program()
    assert [s.operation.condition for s in program.steps if isinstance(s.operation, ScanStep)] == [None]
    assert pickle.loads(pickle.dumps(program)) == program
