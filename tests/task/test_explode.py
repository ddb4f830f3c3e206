"""explode: rows per element, weights carried over, large arrays piece by piece."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from operator_runs import changes, run

from tidemill.schema import TIMESTAMP
from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.dataflow.expanding import MOST_ROWS
from tidemill.task.expressions import Call, Literal, Ref
from tidemill.task.program import Explode
from tidemill.testing import MemoryContext, Row

INT = pa.int64()
ARRAY = pa.list_(pa.struct([("x", INT), ("y", pa.string())]))
MAP = pa.map_(pa.string(), INT)


def rows_of(operation: Explode, columns: list[pa.Array], weights: list[int]) -> dict[Row, int]:
    delta = Delta(batch_of(columns, len(weights)), np.array(weights, np.int64))
    return changes(run(build(0, operation), MemoryContext(), [(delta, 0)]))


def test_weights_are_those_of_the_row() -> None:
    columns = [pa.array([1, 2, 3], INT), pa.array([[5, None], [7, 7], []], pa.list_(INT))]
    plain = Explode(Ref(1, pa.list_(INT)), (0,), position=False, spread=False, outer=False)
    assert rows_of(plain, columns, [2, -1, 1]) == {(1, 5): 2, (1, None): 2, (2, 7): -2}
    assert rows_of(plain, [c.slice(1, 1) for c in columns], [3]) == {(2, 7): 6}


def test_outer_and_position() -> None:
    columns = [pa.array([1, 2, 3], INT), pa.array([[5, 6], [], None], pa.list_(INT))]
    outer = Explode(Ref(1, pa.list_(INT)), (0,), position=True, spread=False, outer=True)
    assert rows_of(outer, columns, [1, -1, 4]) == {(1, 0, 5): 1, (1, 1, 6): 1, (2, None, None): -1, (3, None, None): 4}


def test_fields_of_structs_and_entries_of_maps() -> None:
    structs = pa.array([[{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}]], ARRAY)
    inline = Explode(Ref(0, ARRAY), (), position=False, spread=True, outer=False)
    assert rows_of(inline, [structs], [1]) == {(1, "a"): 1, (None, None): 1, (None, "b"): 1}
    maps = pa.array([None, [("k", 1), ("l", None)], []], MAP)
    entries = Explode(Ref(0, MAP), (), position=False, spread=False, outer=True)
    assert rows_of(entries, [maps], [1, 1, 1]) == {("k", 1): 1, ("l", None): 1, (None, None): 2}


def test_large_arrays_come_in_pieces() -> None:
    call = Call("sequence", (Literal(1, INT), Ref(0, INT)), pa.list_(INT), True)
    explode = Explode(call, (0,), position=False, spread=False, outer=False)
    delta = Delta(batch_of([pa.array([MOST_ROWS, 3, MOST_ROWS, None, 2], INT)], 5))
    outputs = run(build(0, explode), MemoryContext(), [(delta, 0)])
    assert 2 <= len(outputs) <= 3
    assert max(len(o.item) for o in outputs) <= MOST_ROWS
    total = pa.concat_arrays([o.item.batch.column(1) for o in outputs])  # type: ignore[union-attr]
    assert len(total) == 2 * MOST_ROWS + 5
    assert total[-2:].to_pylist() == [1, 2]


def test_nothing_and_failures() -> None:
    explode = Explode(Ref(0, pa.list_(TIMESTAMP)), (), position=False, spread=False, outer=False)
    assert rows_of(explode, [pa.array([None, []], pa.list_(TIMESTAMP))], [1, 1]) == {}
    call = Call("sequence", (Ref(0, INT), Literal(1, INT), Literal(1, INT)), pa.list_(INT), True)
    failing = Explode(call, (), position=False, spread=False, outer=False)
    delta = Delta(batch_of([pa.array([1, 5, 5], INT)], 3), np.array([1, 1, 2], np.int64))
    context = MemoryContext()
    assert changes(run(build(0, failing), context, [(delta, 0)])) == {(1,): 1}
    ((step, weight, error),) = context.failing_rows
    assert (step, weight) == (0, 3) and error is not None and error.number == "TM3004"
