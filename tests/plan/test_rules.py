"""Rewrite rules: the plan before, the plan after."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidemill.errors import TidemillError
from tidemill.plan.algebra import Aggregate, AggregateCall, Filter, Join, Node, Project, Scan, Union, relations
from tidemill.plan.rules import rewrite
from tidemill.plan.rules.merge_projections import merge_projections
from tidemill.plan.rules.prune_columns import prune_columns
from tidemill.schema import Field
from tidemill.task.expressions import Call, Expression, Literal, Ref

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
