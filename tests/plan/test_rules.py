"""Rewrite rules: the plan before, the plan after."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from tidemill.errors import TidemillError
from tidemill.plan.algebra.nodes import (
    Aggregate,
    AggregateCall,
    Filter,
    Join,
    Node,
    Pairs,
    PairTerm,
    Project,
    Scan,
    SortKey,
    Union,
    Window,
    relations,
)
from tidemill.plan.rules import rewrite
from tidemill.plan.rules.factorise_aggregates import factorise_aggregates
from tidemill.plan.rules.filters_into_joins import filters_into_joins
from tidemill.plan.rules.limit_windows import limit_windows
from tidemill.plan.rules.merge_projections import merge_projections
from tidemill.plan.rules.one_row_joins import one_row_joins, simplified
from tidemill.plan.rules.prune_columns import prune_columns
from tidemill.schema import Field
from tidemill.task.expressions import Call, Expression, Literal, Ref
from tidemill.task.program import Comparison
from tidemill.task.program.window_calls import Frame, WindowCall

INT = pa.int64()
ABC = tuple(Field(name, INT) for name in "abc")
SCAN = Scan("t", ABC)


def col(index: int) -> Ref:
    return Ref(index, INT)


def plus(left: Expression, right: Expression) -> Call:
    return Call("add", (left, right), INT)


def above(index: int) -> Call:
    return Call("gt", (col(index), Literal(1, INT)), pa.bool_())


def scan(names: str) -> Scan:
    return Scan("t", tuple(Field(name, INT) for name in names))


ONE = Literal(1, INT)
HALF = Literal(0.5, pa.float64())
COUNT = AggregateCall("count", None, INT, False)

MERGED: dict[str, tuple[Node, Node]] = {
    "two projections": (
        Project(Project(SCAN, (plus(col(0), col(1)),), ("x",)), (plus(col(0), ONE),), ("y",)),
        Project(SCAN, (plus(plus(col(0), col(1)), ONE),), ("y",)),
    ),
    "three projections": (
        Project(Project(Project(SCAN, (col(2), col(0)), ("p", "q")), (col(1),), ("r",)), (col(0),), ("s",)),
        Project(SCAN, (col(0),), ("s",)),
    ),
    "a column used twice is computed once": (
        Project(Project(SCAN, (plus(col(0), ONE),), ("x",)), (plus(col(0), col(0)),), ("y",)),
        Project(Project(SCAN, (plus(col(0), ONE),), ("x",)), (plus(col(0), col(0)),), ("y",)),
    ),
    "a plain column may be used twice": (
        Project(Project(SCAN, (col(1),), ("x",)), (plus(col(0), col(0)),), ("y",)),
        Project(SCAN, (plus(col(1), col(1)),), ("y",)),
    ),
    "identity": (Project(SCAN, (col(0), col(1), col(2)), ("a", "b", "c")), SCAN),
    "new names stay": (
        Project(SCAN, (col(0), col(1), col(2)), ("a", "b", "z")),
        Project(SCAN, (col(0), col(1), col(2)), ("a", "b", "z")),
    ),
    "below other nodes": (
        Filter(Union((Project(SCAN, (col(0), col(1), col(2)), ("a", "b", "c")), SCAN)), above(0)),
        Filter(Union((SCAN, SCAN)), above(0)),
    ),
}

PRUNED: dict[str, tuple[Node, Node]] = {
    "filter and projection": (
        Project(Filter(SCAN, above(0)), (col(2),), ("c",)),
        Project(Filter(scan("ac"), above(0)), (col(1),), ("c",)),
    ),
    "projection alone": (Project(SCAN, (plus(col(1), ONE),), ("x",)), Project(scan("b"), (plus(col(0), ONE),), ("x",))),
    "no column": (Project(SCAN, (ONE,), ("x",)), Project(scan(""), (ONE,), ("x",))),
    "all columns": (
        Project(SCAN, (col(2), col(1), col(0)), ("c", "b", "a")),
        Project(SCAN, (col(2), col(1), col(0)), ("c", "b", "a")),
    ),
    "below a join": (
        Join(Project(SCAN, (col(2),), ("c",)), SCAN, (0,), (1,), (False,)),
        Join(Project(scan("c"), (col(0),), ("c",)), SCAN, (0,), (1,), (False,)),
    ),
    "an aggregate in between": (
        Project(Aggregate(SCAN, (0,), (COUNT,), ("a", "n")), (col(1),), ("n",)),
        Project(Aggregate(SCAN, (0,), (COUNT,), ("a", "n")), (col(1),), ("n",)),
    ),
}


AB = tuple(Field(name, pa.float64()) for name in "ab")
LEFT, RIGHT = Scan("l", AB), Scan("r", AB)
DOUBLE = pa.float64()


def number(index: int) -> Ref:
    return Ref(index, DOUBLE)


def call(function: str, *args: Expression, type_: pa.DataType = DOUBLE) -> Call:
    return Call(function, args, type_)


def holds(function: str, *args: Expression) -> Call:
    return Call(function, args, pa.bool_())


def present(index: int) -> Call:
    return Call("is_not_null", (number(index),), pa.bool_(), False)


CROSS = Join(LEFT, RIGHT, (), (), ())
IN_JOINS: dict[str, tuple[Node, Node]] = {
    "each part to where it is decided": (
        Filter(CROSS, call("and", present(0), holds("gt", number(1), number(2)), present(3), type_=pa.bool_())),
        Join(Filter(LEFT, present(0)), Filter(RIGHT, present(1)), (), (), (), holds("gt", number(1), number(2))),
    ),
    "a part that can fail stays": (
        Filter(CROSS, holds("gt", call("divide", number(0), number(2)), number(1))),
        Filter(CROSS, holds("gt", call("divide", number(0), number(2)), number(1))),
    ),
    "through a projection of plain columns": (
        Filter(Project(CROSS, (number(3), number(0)), ("x", "y")), present(1)),
        Project(Join(Filter(LEFT, present(0)), RIGHT, (), (), ()), (number(3), number(0)), ("x", "y")),
    ),
    "no part twice": (
        Filter(Join(Filter(LEFT, present(0)), RIGHT, (), (), ()), present(0)),
        Join(Filter(LEFT, present(0)), RIGHT, (), (), ()),
    ),
}


@pytest.mark.parametrize("name", IN_JOINS)
def test_filters_into_joins(name: str) -> None:
    before, after = IN_JOINS[name]
    assert filters_into_joins(before) == after
    assert filters_into_joins(after) == after
    assert before.schema == after.schema


LIMIT = Aggregate(Scan("m", AB), (), (AggregateCall("max", 0, DOUBLE, True),), ("limit",))
JOINED = Join(LEFT, RIGHT, (0,), (0,), (False,))


def limited(node: Node, condition: Expression) -> Join:
    return Join(node, LIMIT, (), (), (), condition)


SUNK: dict[str, tuple[Node, Node]] = {
    "to the right side": (
        limited(JOINED, holds("gt", number(3), number(4))),
        replace(JOINED, right=limited(RIGHT, holds("gt", number(1), number(2)))),
    ),
    "to the left side, columns in their order": (
        limited(JOINED, holds("gt", number(1), number(4))),
        Project(
            replace(JOINED, left=limited(LEFT, holds("gt", number(1), number(2)))),
            (number(0), number(1), number(3), number(4), number(2)),
            ("a", "b", "a", "b", "limit"),
        ),
    ),
    "not when both sides decide": (
        limited(JOINED, holds("gt", call("add", number(1), number(3)), number(4))),
        limited(JOINED, holds("gt", call("add", number(1), number(3)), number(4))),
    ),
    "into the parts of a union, with their constants": (
        limited(
            Union((LEFT, Project(RIGHT, (number(0), Literal(None, DOUBLE)), ("a", "b")))),
            holds("gt", call("coalesce", number(1), Literal(0.0, DOUBLE)), number(2)),
        ),
        Union(
            (
                limited(LEFT, holds("gt", call("coalesce", number(1), Literal(0.0, DOUBLE)), number(2))),
                Join(
                    Project(RIGHT, (number(0), Literal(None, DOUBLE)), ("a", "b")),
                    Filter(LIMIT, holds("gt", Literal(0.0, DOUBLE), number(0))),
                    (),
                    (),
                    (),
                ),
            )
        ),
    ),
    "not what can fail": (
        limited(JOINED, holds("gt", call("divide", number(3), number(2)), number(4))),
        limited(JOINED, holds("gt", call("divide", number(3), number(2)), number(4))),
    ),
}


@pytest.mark.parametrize("name", SUNK)
def test_one_row_joins(name: str) -> None:
    before, after = SUNK[name]
    assert one_row_joins(before) == after
    assert before.schema.types == after.schema.types


NULL, YES = Literal(None, INT), Literal(True, pa.bool_())


@pytest.mark.parametrize(
    ("function", "args", "type_", "expected"),
    [
        ("coalesce", (NULL, NULL), INT, NULL),
        ("coalesce", (NULL, Ref(0, INT), NULL), INT, Ref(0, INT)),
        (
            "coalesce",
            (NULL, Ref(0, INT), Ref(1, INT, False), NULL),
            INT,
            ("coalesce", (Ref(0, INT), Ref(1, INT, False))),
        ),
        ("and", (YES, YES), pa.bool_(), YES),
        ("and", (YES, Ref(0, pa.bool_())), pa.bool_(), Ref(0, pa.bool_())),
    ],
)
def test_what_constants_decide_about_null(
    function: str, args: tuple[Expression, ...], type_: pa.DataType, expected: Expression | tuple[str, tuple[Ref, ...]]
) -> None:
    found = simplified(Call(function, args, type_, True))
    assert (found.function, found.args) == expected if isinstance(found, Call) else found == expected


def test_an_aggregate_over_a_union_is_the_sum_of_its_parts() -> None:
    product = (number(0), call("multiply", number(1), number(3)))
    pairs, rows = Project(JOINED, product, ("k", "x")), Project(LEFT, (number(0), number(1)), ("k", "x"))
    found = factorise_aggregates(summed(Union((pairs, rows)), 0))
    assert isinstance(found, Aggregate) and found.pairs is None
    assert [p.pairs is not None for p in found.parts] == [True, False]
    assert [p.child for p in found.parts] == [pairs, rows]
    assert factorise_aggregates(found) == found


def summed(child: Node, *keys: int) -> Aggregate:
    """SUM of the last column of ``child``, grouped by ``keys``."""
    last = len(child.schema) - 1
    names = (*(f"k{k}" for k in keys), "s")
    return Aggregate(child, keys, (AggregateCall("sum", last, DOUBLE, True),), names)


def pairs_of(node: Node) -> Pairs:
    found = factorise_aggregates(node)
    assert isinstance(found, Aggregate) and found.pairs is not None
    assert replace(found, pairs=None) == node
    assert factorise_aggregates(found) == found
    return found.pairs


SIGNS = tuple(
    call(
        "case",
        holds(op, number(1), Literal(0.0, DOUBLE)),
        Literal(1, pa.int32()),
        Literal(None, pa.int32()),
        type_=pa.int32(),
    )
    for op in ("gt", "lt")
)
COLUMNS = ("column0", "column1", "column2", "column3")


def test_a_product_is_two_sums() -> None:
    join = Join(LEFT, RIGHT, (0,), (0,), (False,))
    product = Project(join, (number(0), call("multiply", call("multiply", number(1), number(3)), HALF)), ("k", "x"))
    pairs = pairs_of(summed(product, 0))
    assert (pairs.key_width, pairs.comparisons, pairs.keys) == (1, (), (0,))
    assert pairs.sums == ((PairTerm(0.5, 1, 1, (2, 3), (2, 3)),),)
    assert pairs.counts == (PairTerm(1.0, 0, 0),)
    for side, scan_ in ((pairs.left, LEFT), (pairs.right, RIGHT)):
        assert side.child == Project(Filter(scan_, present(0)), (number(0), number(1), *SIGNS), COLUMNS[:4])
        assert [c.function for c in side.calls] == ["count", "sum", "count", "count"]


def test_a_difference_counts_the_other_side() -> None:
    difference = Project(Join(LEFT, RIGHT, (), (), ()), (call("subtract", number(1), number(2)),), ("x",))
    pairs = pairs_of(summed(difference))
    assert (pairs.key_width, pairs.keys) == (0, ())
    assert pairs.sums == ((PairTerm(1.0, 1, 0), PairTerm(-1.0, 0, 1)),)


def test_a_comparison_is_an_ordered_index() -> None:
    join = Join(LEFT, RIGHT, (), (), (), holds("gt", number(0), number(2)))
    pairs = pairs_of(summed(Project(join, (number(0), number(3)), ("k", "x")), 0))
    assert pairs.comparisons == (Comparison("value", "lt", 0),)
    assert pairs.left.keys == (0,) and pairs.left.calls == ()
    assert pairs.right.child == Project(Filter(RIGHT, present(0)), (number(0), number(1)), ("column0", "column1"))
    assert pairs.keys == (0,)


def test_differences_of_doubles_are_compared_as_written() -> None:
    apart = [
        holds("gt", call("subtract", number(2), number(0)), Literal(9.0, DOUBLE)),
        holds("lt", Literal(7.0, DOUBLE), call("subtract", number(0), number(2))),
    ]
    join = Join(LEFT, RIGHT, (1,), (1,), (False,), call("or", *apart, type_=pa.bool_()))
    pairs = pairs_of(summed(Project(join, (number(1), number(2)), ("k", "x")), 0))
    assert pairs.any_of and pairs.key_width == 1
    assert pairs.comparisons == (
        Comparison("value_minus_bound", "gt", 1, 9.0),
        Comparison("bound_minus_value", "gt", 1, 7.0),
    )


def test_the_sides_change_places_for_groups_of_the_right() -> None:
    join = Join(LEFT, RIGHT, (), (), (), holds("gt", number(0), number(2)))
    pairs = pairs_of(summed(Project(join, (number(3), number(1)), ("k", "x")), 0))
    assert pairs.comparisons == (Comparison("value", "gt", 0),)
    assert pairs.keys == (1,) and pairs.left.child == Project(RIGHT, (number(0), number(1)), ("column0", "column1"))


@pytest.mark.parametrize("sum_", ["add", "subtract"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_sum_times_what_may_be_infinite_stays(sum_: str, turned: bool) -> None:
    """(1 + 2) * inf is inf, but x * inf - y * inf is not a number: only what is finite for sure is multiplied out."""
    equal = Join(Scan("l", (*AB, Field("n", INT))), RIGHT, (0,), (0,), (False,))
    whole = Call("cast", (Ref(2, INT),), DOUBLE, True)

    def times(factor: Expression) -> Aggregate:
        parts = call(sum_, number(1), number(4)), factor
        return summed(Project(equal, (call("multiply", *(reversed(parts) if turned else parts)),), ("x",)))

    assert factorise_aggregates(times(number(0))) == times(number(0))
    finite = factorise_aggregates(times(whole))
    assert isinstance(finite, Aggregate) and finite.pairs is not None


ORDERED = (SortKey(1, False, True),)
ROW_NUMBER = WindowCall("row_number", (), pa.int32(), False, Frame(True, None, 0))
RANK = replace(ROW_NUMBER, function="rank")
DENSE_RANK = replace(ROW_NUMBER, function="dense_rank")


def shift(by: int) -> WindowCall:
    return WindowCall("shift", (col(2), Literal(None, INT)), INT, True, Frame(True, None, None), by)


def total(frame: Frame) -> WindowCall:
    return WindowCall("sum", (col(2),), INT, True, frame)


ROWS_SO_FAR, PEERS_SO_FAR = Frame(True, None, 0), Frame(False, None, 0)
LIMITED: dict[str, tuple[tuple[WindowCall, ...], tuple[int, str] | None]] = {
    "row number": ((ROW_NUMBER,), (3, "row_number")),
    "rank": ((RANK,), (3, "rank")),
    "dense rank": ((DENSE_RANK,), (3, "dense_rank")),
    "lag": ((ROW_NUMBER, shift(-2)), (3, "row_number")),
    "lead": ((ROW_NUMBER, shift(1)), None),
    "lead beside a rank": ((RANK, shift(2)), None),
    "rows so far": ((ROW_NUMBER, total(ROWS_SO_FAR)), (3, "row_number")),
    "rows to come": ((ROW_NUMBER, total(Frame(True, 0, 1))), None),
    "all rows": ((RANK, total(Frame(True, None, None))), None),
    "peers": ((ROW_NUMBER, total(PEERS_SO_FAR)), None),
    "peers of a rank": ((RANK, total(PEERS_SO_FAR)), (3, "rank")),
    "peers to come": ((RANK, total(Frame(False, 0, None))), None),
    "a rank of a row number": ((ROW_NUMBER, RANK), None),
    "a row number of a rank": ((RANK, ROW_NUMBER, DENSE_RANK), (3, "rank")),
    "the size of a partition": ((RANK, replace(RANK, function="percent_rank")), None),
    "parts of a partition": ((DENSE_RANK, replace(RANK, function="ntile", number=2)), None),
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_filter_limits_a_window_that_looks_back(name: str) -> None:
    """The filter is on the first call."""
    calls, expected = LIMITED[name]
    window = Window(scan("abc"), (0,), ORDERED, calls, tuple(f"w{i}" for i in range(len(calls))))
    for condition in (
        holds("le", col(3), Literal(3, INT)),
        holds("gt", Literal(4, INT), col(3)),
        Call("in", (col(3), Literal(1, INT), Literal(3, INT)), pa.bool_()),
    ):
        wanted = window if expected is None else replace(window, limit=expected[0], limited=expected[1])
        assert limit_windows(Filter(window, condition)) == Filter(wanted, condition)


def test_what_is_not_a_sum_of_products_stays() -> None:
    equal = Join(LEFT, RIGHT, (0,), (0,), (False,))
    unequal = Join(LEFT, RIGHT, (), (), (), holds("ne", number(0), number(2)))
    for before in (
        summed(Project(equal, (call("greatest", number(1), number(3)),), ("x",))),
        summed(Project(equal, (call("divide", number(0), number(1)),), ("x",))),
        summed(Project(unequal, (number(1),), ("x",))),
        replace(summed(equal), calls=(AggregateCall("max", 1, DOUBLE, True),)),
        replace(summed(equal), calls=(AggregateCall("sum", 1, DOUBLE, True, distinct=True),)),
        Aggregate(equal, (0,), (), ("k",)),
    ):
        assert factorise_aggregates(before) == before


@pytest.mark.parametrize("name", MERGED)
def test_merge_projections(name: str) -> None:
    before, after = MERGED[name]
    assert merge_projections(before) == after
    assert merge_projections(after) == after
    assert before.schema.types == after.schema.types


@pytest.mark.parametrize("name", PRUNED)
def test_prune_columns(name: str) -> None:
    before, after = PRUNED[name]
    assert prune_columns(before) == after
    assert prune_columns(after) == after
    assert before.schema == after.schema


def test_all_rules_together() -> None:
    before = Project(Project(Filter(SCAN, above(1)), (col(0), plus(col(2), ONE)), ("a", "x")), (col(1),), ("x",))
    assert rewrite(before) == Project(Filter(scan("bc"), above(0)), (plus(col(1), ONE),), ("x",))


def test_relations_are_named_once_in_order() -> None:
    join = Join(Union((Scan("b", ABC), Scan("a", ABC))), Scan("b", ABC), (0,), (0,), (False,))
    assert relations(join) == ("b", "a")


def test_a_node_checks_its_columns() -> None:
    for build in (
        lambda: Project(SCAN, (col(3),), ("x",)),
        lambda: Filter(SCAN, above(7)),
        lambda: Aggregate(SCAN, (3,), (), ("x",)),
        lambda: Join(SCAN, SCAN, (0,), (0,), (False,), above(6)),
    ):
        with pytest.raises(TidemillError, match="TM2900"):
            build()
