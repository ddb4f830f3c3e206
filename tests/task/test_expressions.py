"""What expressions are equal: equal ones are computed once, and share state."""

from __future__ import annotations

import pickle

import pyarrow as pa

from tidemill.task.expressions import Call, Literal, Ref

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
