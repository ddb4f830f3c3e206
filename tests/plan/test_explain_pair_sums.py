"""How ``EXPLAIN INCREMENTAL`` shows sums over pairs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidemill.state.keys.keys import KeyColumn
from tidemill.task.aggregates.accumulators import Accumulator, AggregateLayout
from tidemill.task.program import Comparison, GroupPartial, PairSums, StateTable, Term

FAR = (Comparison("value_minus_bound", "gt", 1, 1000.0), Comparison("bound_minus_value", "gt", 1, 1000.0))


def side(name: str, columns: int) -> GroupPartial:
    layout = AggregateLayout((Accumulator("rows"),), (), ())
    table = StateTable(name, (KeyColumn(pa.float64()),) * columns, 1, layout.value_types(()), layout.merge_ops())
    return GroupPartial(tuple(range(columns)), layout, (), table, ())


def pair_sums(left: int, right: int, comparisons: tuple[Comparison, ...], any_of: bool, key: int) -> PairSums:
    sides = side("left", left), side("right", right)
    return PairSums(*sides, 1, comparisons, any_of, (key,), ((Term(1.0, 0, 0),),), side("out", 1))


@pytest.mark.parametrize(
    ("operation", "shown", "spent"),
    [
        (pair_sums(1, 1, (), False, 0), "Pair sums on 1 key", "O(Δ log n)"),
        (pair_sums(2, 1, (), False, 1), "Pair sums on 1 key", "O(Δ log n), and matching groups"),
        (
            pair_sums(2, 2, (Comparison("value", "le", 1),), False, 0),
            "Pair sums on 1 key, ordered by y = right.$1: y <= left.$1",
            "O(Δ log n)",
        ),
        (
            pair_sums(2, 2, FAR, True, 1),
            "Pair sums on 1 key, ordered by y = right.$1: y - left.$1 > 1000.0 or left.$1 - y > 1000.0",
            "O(affected groups), changes of the right side read the left groups of their key",
        ),
    ],
)
def test_pair_sums(operation: PairSums, shown: str, spent: str) -> None:
    assert operation.text([], ()) == shown
    assert str(operation.cost) == spent
