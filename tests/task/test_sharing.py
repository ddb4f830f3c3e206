"""What expressions have in common is computed once, and no row fails that would not fail otherwise."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from operator_runs import INT

from tidemill.errors import EvaluationError
from tidemill.task.dataflow.calculate import calculate_at_once
from tidemill.task.dataflow.deltas import Delta
from tidemill.task.expressions import Call, Expression, Literal, Ref, Variable, walk
from tidemill.task.functions.sharing import share, share_with_condition
from tidemill.task.program import Calculate

A, B = Ref(0, INT), Ref(1, INT)
ANSI = (("mode", "ansi"),)
BATCH = pa.record_batch({"a": pa.array([1, 2, 0, None, -3]), "b": pa.array([4, 5, 6, 7, None])})


def call(name: str, *args: Expression, type_: pa.DataType = INT) -> Call:
    options = ANSI if name in ("add", "subtract", "multiply", "integral_divide") else ()
    return Call(name, args, type_, True, options)


def number(value: int) -> Literal:
    return Literal(value, INT)


def values(*expressions: Expression) -> list[list[Any]]:
    return [column.to_pylist() for column in share(expressions, 2).evaluate(BATCH)]


SUM = call("add", A, B)
POSITIVE = call("gt", A, number(0), type_=pa.bool_())
QUOTIENT = call("integral_divide", number(10), A)


def test_nothing_in_common() -> None:
    expressions = (SUM, call("multiply", A, number(2)), A, A)
    assert share(expressions, 2).common == ()
    assert share(expressions, 2).expressions == expressions


def test_calls_in_calls_are_computed_once() -> None:
    square = call("multiply", SUM, SUM)
    shared = share((square, call("add", square, number(1)), SUM), 2)
    assert shared.common == (SUM, call("multiply", Ref(2, INT), Ref(2, INT)))
    assert shared.expressions == (Ref(3, INT), call("add", Ref(3, INT), number(1)), Ref(2, INT))
    assert [c.to_pylist() for c in shared.evaluate(BATCH)] == [
        [25, 49, 36, None, None],
        [26, 50, 37, None, None],
        [5, 7, 6, None, None],
    ]


def test_what_is_shared_only_within_what_is_shared_is_no_column() -> None:
    """SUM occurs in one call, though that call occurs twice."""
    double = call("multiply", SUM, number(2))
    assert len(share((double, call("add", double, number(1))), 2).common) == 1


@pytest.mark.parametrize("twice", [True, False])
def test_values_of_a_case_fail_only_for_rows_that_reach_them(twice: bool) -> None:
    guarded = Call("if", (POSITIVE, QUOTIENT, number(0)), INT)
    other = Call("case", (POSITIVE, call("add", QUOTIENT, number(1)), number(-1)), INT)
    assert values(guarded, other) == [[10, 5, 0, 0, 0], [11, 6, -1, -1, -1]]
    with pytest.raises(EvaluationError, match="TM3001"):
        values(guarded, QUOTIENT, *([other] if twice else []))


def test_and_or_and_coalesce_stop() -> None:
    truth = pa.bool_()
    large = Call("gt", (QUOTIENT, number(6)), truth)
    assert values(Call("and", (POSITIVE, large), truth), Call("and", (POSITIVE, large, large), truth)) == [
        [True, False, False, None, False],
        [True, False, False, None, False],
    ]
    filled = Call("coalesce", (A, QUOTIENT), INT)  # 10 DIV NULL is NULL
    assert values(filled, Call("coalesce", (B, filled), INT)) == [[1, 2, 0, None, -3], [4, 5, 6, 7, -3]]


def test_a_failure_inside_try_stays_there() -> None:
    tried = Call("try", (QUOTIENT,), INT)
    assert values(tried, call("add", tried, number(1)), Call("try", (call("add", QUOTIENT, B),), INT)) == [
        [10, 5, None, None, -3],
        [11, 6, None, None, -2],
        [14, 10, None, None, None],
    ]


def test_bodies_are_left_alone() -> None:
    """Their variables are no columns; a column that they read keeps its place."""
    lists = pa.list_(INT)
    array = Call("array", (SUM, SUM), lists)
    body = call("add", Variable(0, INT), call("multiply", SUM, SUM))
    mapped = Call("transform", (array, body), lists, True, (("binds", ((0,),)),))
    shared = share((mapped, SUM), 2)
    assert not any(isinstance(e, Variable) for common in shared.common for e in walk(common))
    assert shared.evaluate(BATCH)[0].to_pylist()[:2] == [[5 + 25] * 2, [7 + 49] * 2]


def test_random_trees(seed: int) -> None:
    """Against Python's own arithmetic, row by row."""
    chance = random.Random(seed)
    made: list[Expression] = [A, B, number(2)]
    for _ in range(60):
        one, two, three = (chance.choice(made[-20:]) for _ in range(3))
        if chance.random() < 0.25:
            made.append(Call("if", (Call("gt", (one, two), pa.bool_()), three, one), INT))
        else:
            made.append(
                call(
                    chance.choice(("add", "subtract")),
                    one,
                    Call("remainder", (two, number(1000)), INT, True, (("mode", "try"),)),
                )
            )
    chosen = chance.sample(made, 12)
    rows = list(zip(BATCH["a"].to_pylist(), BATCH["b"].to_pylist(), strict=True))
    try:
        found = values(*chosen)
    except EvaluationError:
        pytest.fail("no sum here is near 2**63")
    assert found == [[in_python(e, row, {}) for row in rows] for e in chosen]


def kept(condition: Expression, *expressions: Expression) -> list[list[Any]]:
    """Values of expressions for the rows that a condition keeps, by column."""
    delta = calculate_at_once(Calculate(condition, expressions), Delta(BATCH))
    return [column.to_pylist() for column in delta.batch.columns]


def test_calls_of_a_condition_are_not_computed_again_for_the_rows_that_it_keeps() -> None:
    large = Call("gt", (SUM, number(5)), pa.bool_())
    found = share_with_condition(large, (call("multiply", SUM, A), call("add", SUM, number(1)), number(7)), 2)
    assert found.condition.common == (SUM,)
    assert found.condition.expressions[1:] == (Ref(2, INT),)
    assert found.kept == (0, 2), "the column b is not read"
    assert found.expressions.expressions == (
        call("multiply", Ref(2, INT), A),
        call("add", Ref(2, INT), number(1)),
        number(7),
    )
    assert kept(large, call("multiply", SUM, A), SUM, number(7)) == [[14, 0], [7, 6], [7, 7]]
    assert kept(large, number(7)) == [[7, 7]]
    assert kept(large) == []


def test_the_whole_condition_may_be_read() -> None:
    assert kept(POSITIVE, POSITIVE, A) == [[True, True], [1, 2]]
    assert kept(number_is_known(A), POSITIVE) == [[True, True, False, False]]


def number_is_known(column: Expression) -> Expression:
    return Call("is_not_null", (column,), pa.bool_())


def test_what_may_fail_is_shared_only_if_the_condition_computes_it_for_all_rows() -> None:
    truth = pa.bool_()
    guarded = Call("and", (POSITIVE, Call("gt", (QUOTIENT, number(6)), truth)), truth)
    assert kept(guarded, QUOTIENT) == [[10]]
    assert kept(POSITIVE, QUOTIENT) == [[10, 5]]
    with pytest.raises(EvaluationError, match="TM3001"):
        kept(Call("or", (Call("gt", (QUOTIENT, number(6)), truth), POSITIVE), truth), QUOTIENT)
    known = Call("if", (Call("eq", (A, number(0)), truth), number(1), QUOTIENT), INT)
    assert kept(Call("gt", (known, number(0)), truth), known, QUOTIENT.args[0]) == [[10, 5, 1], [10, 10, 10]]


def test_random_trees_behind_a_condition(seed: int) -> None:
    """Against Python's own arithmetic, row by row; most trees have something in common."""
    chance = random.Random(seed)
    rows = list(zip(BATCH["a"].to_pylist(), BATCH["b"].to_pylist(), strict=True))
    shared = 0
    for _ in range(40):
        made: list[Expression] = [A, B, number(2)]
        for _ in range(20):
            one, two = (chance.choice(made[-8:]) for _ in range(2))
            made.append(call(chance.choice(("add", "subtract")), one, two))
        test = Call("gt", (chance.choice(made), number(chance.randrange(-5, 5))), pa.bool_())
        chosen = chance.sample(made, 4)
        wanted = [row for row in rows if in_python(test, row, {})]
        assert kept(test, *chosen) == [[in_python(e, row, {}) for row in wanted] for e in chosen]
        shared += len(share_with_condition(test, chosen, 2).condition.expressions) > 1
    assert shared > 5


def in_python(expression: Expression, row: tuple[Any, ...], known: dict[int, Any]) -> Any:
    """The value for one row; ``known`` by the identity of what was computed."""
    if isinstance(expression, Ref):
        return row[expression.index]
    if isinstance(expression, Literal):
        return expression.value
    assert isinstance(expression, Call)
    if id(expression) not in known:
        args = [in_python(arg, row, known) for arg in expression.args]
        known[id(expression)] = _applied(expression.function, args)
    return known[id(expression)]


def _applied(name: str, args: list[Any]) -> Any:
    if name == "if":
        return args[1] if args[0] else args[2]
    if None in args:
        return None
    one, two = args
    match name:
        case "gt":
            return one > two
        case "add":
            return one + two
        case "subtract":
            return one - two
        case _:
            return abs(one) % two * (1 if one >= 0 else -1)
