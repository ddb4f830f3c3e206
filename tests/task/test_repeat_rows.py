"""Rows repeated by a column: weights are multiplied."""

from __future__ import annotations

from operator_runs import changes, pairs, run

from tidemill.task.build import build
from tidemill.task.program import RepeatRows
from tidemill.testing import MemoryContext


def repeated(column: int, text: str) -> dict:
    return changes(run(build(0, RepeatRows(column)), MemoryContext(), [(pairs(text), 0)]))


def test_weights_are_multiplied() -> None:
    assert repeated(1, "+ 7 3 | - 8 2 | +2 9 5 | + 7 1") == {(7,): 4, (8,): -2, (9,): 10}


def test_no_times_is_no_row() -> None:
    assert repeated(1, "+ 7 0 | + 8 NULL | + 9 -4") == {}
    assert repeated(0, "+ 2 NULL | - 2 NULL | + 3 5") == {(5,): 3}


def test_nothing_left_is_not_passed_on() -> None:
    assert run(build(0, RepeatRows(1)), MemoryContext(), [(pairs("+ 1 0"), 0)]) == []
