"""UNION ALL."""

from __future__ import annotations

from operator_runs import changes, pairs, run

from tidemill.task.build import build
from tidemill.task.program import Concatenate
from tidemill.testing import MemoryContext


def test_rows_of_all_ports_come_out() -> None:
    inputs = [(pairs("+ 1 1"), 0), (pairs("+ 1 1 | - 2 2"), 1), (pairs("+3 4 4"), 2)]
    outputs = run(build(0, Concatenate()), MemoryContext(), inputs)
    assert [len(o.item) for o in outputs] == [1, 2, 1]
    assert {o.port for o in outputs} == {0}
    assert changes(outputs) == {(1, 1): 2, (2, 2): -1, (4, 4): 3}
