"""What expressions are equal: equal ones are computed once, and share state."""

from __future__ import annotations

import pickle

import pyarrow as pa

from tidemill.plan.algebra.codec import decode, encode
from tidemill.task.expressions import Call, Literal, Ref, Variable, bind, references, remap

DOUBLE = pa.float64()


def test_nan_equals_nan() -> None:
    one, other = Literal(float("nan"), DOUBLE), Literal(float("inf") * 0.0, DOUBLE)
    assert one == other and hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
    calls = {Call("lt", (Ref(0, DOUBLE), nan), pa.bool_(), True) for nan in (one, other)}
    assert len(calls) == 1


def test_zeros_of_both_signs_differ() -> None:
    assert Literal(0.0, DOUBLE) != Literal(-0.0, DOUBLE)
    assert Literal(0.0, DOUBLE) == Literal(0.0, DOUBLE)


def test_the_type_counts() -> None:
    assert Literal(1, pa.int32()) != Literal(1, pa.int64())
    assert Literal(1, pa.int32()) != Literal(True, pa.bool_())
    assert Literal(None, pa.int32()) != Literal(None, DOUBLE)
    assert Literal("nan", pa.string()) != Literal(float("nan"), DOUBLE)


ELEMENT = Variable(0, pa.int64())


def exists(array: int, outer: int) -> Call:
    """``exists(<column>, x -> x > <column>)``."""
    test = Call("gt", (ELEMENT, Ref(outer, pa.int64())), pa.bool_())
    return Call("exists", (Ref(array, pa.list_(pa.int64())), test), pa.bool_(), True, (("binds", ((0,),)),))


def test_a_variable_is_no_column() -> None:
    assert references(exists(1, 2)) == {1, 2}
    assert remap(exists(1, 2), {1: 0, 2: 1}) == exists(0, 1)


def test_binding_leaves_a_hidden_variable_alone() -> None:
    seven = Ref(7, pa.int64())
    both = Call("and", (exists(1, 2), Call("eq", (ELEMENT, ELEMENT), pa.bool_())), pa.bool_())
    expected = Call("and", (exists(1, 2), Call("eq", (seven, seven), pa.bool_())), pa.bool_())
    assert bind(both, {0: seven}) == expected


def test_an_expression_with_a_body_is_stored_in_a_plan() -> None:
    assert decode(encode(exists(1, 2))) == exists(1, 2)
