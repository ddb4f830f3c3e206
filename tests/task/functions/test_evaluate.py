"""Three-valued logic and conditional evaluation, without Spark."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from tidemill.errors import EvaluationError, TidemillError
from tidemill.task.expressions import Call, Literal, Ref
from tidemill.task.functions.evaluate import can_fail, evaluate, filter_mask, supported

TRUTH = list(itertools.product([True, False, None], repeat=2))
BOOLEANS = pa.RecordBatch.from_arrays(
    [pa.array([a for a, _ in TRUTH], pa.bool_()), pa.array([b for _, b in TRUTH], pa.bool_())], names=["a", "b"]
)
A, B = Ref(0, pa.bool_()), Ref(1, pa.bool_())

NUMBERS = pa.RecordBatch.from_arrays([pa.array([6, 6, None, 8]), pa.array([2, 0, 0, None])], names=["x", "y"])
X, Y = Ref(0, pa.int64()), Ref(1, pa.int64())
QUOTIENT = Call("integral_divide", (X, Y), pa.int64())
IS_ZERO = Call("eq", (Y, Literal(0, pa.int64())), pa.bool_())


def test_and_is_three_valued() -> None:
    expected = [False if False in pair else None if None in pair else True for pair in TRUTH]
    assert evaluate(Call("and", (A, B), pa.bool_()), BOOLEANS).to_pylist() == expected


def test_or_is_three_valued() -> None:
    expected = [True if True in pair else None if None in pair else False for pair in TRUTH]
    assert evaluate(Call("or", (A, B), pa.bool_()), BOOLEANS).to_pylist() == expected


def test_filter_mask_reads_null_as_false() -> None:
    assert filter_mask(A, BOOLEANS).to_pylist() == [a is True for a, _ in TRUTH]


def test_division_by_zero_shows_the_value() -> None:
    with pytest.raises(EvaluationError, match="TM3001") as caught:
        evaluate(QUOTIENT, NUMBERS)
    assert "6" in caught.value.got


def test_a_branch_is_evaluated_only_where_it_is_reached() -> None:
    guarded = Call("case", (IS_ZERO, Literal(-1, pa.int64()), QUOTIENT), pa.int64())
    assert evaluate(guarded, NUMBERS).to_pylist() == [3, -1, -1, None]


def test_and_stops_at_false_and_not_at_null() -> None:
    nonzero = Call("not", (IS_ZERO,), pa.bool_())
    test = Call("gt", (QUOTIENT, Literal(2, pa.int64())), pa.bool_())
    assert evaluate(Call("and", (nonzero, test), pa.bool_()), NUMBERS).to_pylist() == [True, False, False, None]
    with pytest.raises(EvaluationError, match="TM3001"):
        evaluate(Call("and", (Literal(None, pa.bool_()), test), pa.bool_()), NUMBERS)


def test_or_stops_at_true() -> None:
    test = Call("gt", (QUOTIENT, Literal(2, pa.int64())), pa.bool_())
    assert evaluate(Call("or", (IS_ZERO, test), pa.bool_()), NUMBERS).to_pylist() == [True, True, True, None]


def test_coalesce_evaluates_later_arguments_only_for_null() -> None:
    first = Call("case", (IS_ZERO, Literal(5, pa.int64())), pa.int64())
    expression = Call("coalesce", (first, QUOTIENT), pa.int64())
    assert evaluate(expression, NUMBERS).to_pylist() == [3, 5, 5, None]


def test_a_null_left_operand_spares_the_right_one() -> None:
    failing = Call("integral_divide", (Literal(1, pa.int64()), Y), pa.int64())
    batch = NUMBERS.slice(2)
    assert evaluate(Call("add", (X, failing), pa.int64()), batch).to_pylist() == [None, None]


def test_a_constant_branch_fails_only_when_reached() -> None:
    failing = Call("integral_divide", (Literal(1, pa.int64()), Literal(0, pa.int64())), pa.int64())
    never = Call("case", (Literal(False, pa.bool_()), failing, X), pa.int64())
    assert evaluate(never, NUMBERS).to_pylist() == [6, 6, None, 8]
    always = Call("case", (Literal(True, pa.bool_()), failing, X), pa.int64())
    with pytest.raises(EvaluationError, match="TM3001"):
        evaluate(always, NUMBERS)


def test_in_is_unknown_when_the_list_holds_null() -> None:
    listed = Call("in", (X, Literal(6, pa.int64()), Literal(None, pa.int64())), pa.bool_())
    assert evaluate(listed, NUMBERS).to_pylist() == [True, True, None, None]


def test_no_rows() -> None:
    assert evaluate(QUOTIENT, NUMBERS.slice(0, 0)).to_pylist() == []


def test_sliced_batches() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["é", "abc", None, "日本語"])], names=["s"]).slice(1)
    expression = Call("substring", (Ref(0, pa.string()), Literal(-2, pa.int32()), Literal(1, pa.int32())), pa.string())
    assert evaluate(expression, batch).to_pylist() == ["b", None, "本"]


def test_can_fail() -> None:
    assert can_fail(QUOTIENT)
    assert not can_fail(Call("integral_divide", (X, Y), pa.int64(), options=(("mode", "try"),)))
    assert not can_fail(IS_ZERO)


def test_unknown_functions_are_refused() -> None:
    assert supported("case")
    assert not supported("no_such_function")
    with pytest.raises(TidemillError, match="TM2101"):
        evaluate(Call("no_such_function", (X,), pa.int64()), NUMBERS)
