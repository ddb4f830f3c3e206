"""Decimal arithmetic in 128 bits against Python's integers, and against the way through 256 bits."""

from __future__ import annotations

import decimal
import random

import pyarrow as pa
import pytest

from tidemill.errors import EvaluationError
from tidemill.task.expressions import Call, Ref
from tidemill.task.functions.cast import _integer_to_decimal
from tidemill.task.functions.numbers.decimal_types import arithmetic_type
from tidemill.task.functions.numbers.decimal_words import combine_words
from tidemill.task.functions.numbers.decimals import _combine_wide, combine

OPERATIONS = {"add": int.__add__, "subtract": int.__sub__, "multiply": int.__mul__}
TYPES = [(1, 0), (5, 5), (15, 2), (16, 2), (18, 0), (19, 4), (32, 4), (38, 0), (38, 6), (38, 18), (38, 38)]
CONTEXT = decimal.Context(prec=100)


def values(rng: random.Random, type_: pa.DataType, rows: int, most: int) -> list[int | None]:
    top = 10 ** min(type_.precision, most) - 1
    special = (None, 0, 1, -1, top, -top, 2**63, -(2**63), 2**64, 2**64 - 1)
    drawn = (rng.choice(special) if rng.random() < 0.3 else rng.randint(-top, top) for _ in range(rows))
    return [v if v is None or abs(v) <= top else top for v in drawn]


def column(unscaled: list[int | None], type_: pa.DataType) -> pa.Array:
    plain = [None if v is None else decimal.Decimal(v).scaleb(-type_.scale, CONTEXT) for v in unscaled]
    padded = pa.array([None, *plain, None], type_)
    return padded.slice(1, len(plain))


@pytest.mark.parametrize("function", OPERATIONS)
def test_words_are_pythons_integers(function: str, seed: int) -> None:
    rng = random.Random(f"{function} {seed}")
    exact = 0
    for _ in range(300):
        first, second = (pa.decimal128(*rng.choice(TYPES)) for _ in range(2))
        target = arithmetic_type(function, first, second)
        call = Call(function, (Ref(0, first), Ref(1, second)), target, True, (("mode", "ansi"),))
        most = rng.choice((3, 17, 38))
        left, right = (values(rng, t, 9, most) for t in (first, second))
        arrays = [column(left, first), column(right, second)]
        if rng.random() < 0.3:
            left = [v for v in left if v is not None][:1] * 9
            if not left:
                continue
            arrays[0] = column(left, first)[0]
        found = combine_words(call, arrays, 9)
        if found is None:
            continue
        exact += 1
        found.validate(full=True)
        shifts = [0, 0] if function == "multiply" else [target.scale - t.scale for t in (first, second)]
        wanted = [
            None if a is None or b is None else OPERATIONS[function](a * 10 ** shifts[0], b * 10 ** shifts[1])
            for a, b in zip(left, right, strict=True)
        ]
        assert found.type == target
        assert [None if v is None else int(v.scaleb(target.scale, CONTEXT)) for v in found.to_pylist()] == wanted
        assert found.equals(_combine_wide(call, arrays, 9))
    assert exact > 100


def test_what_does_not_fit_is_an_error_as_ever() -> None:
    type_ = pa.decimal128(38, 0)
    call = Call("multiply", (Ref(0, type_), Ref(1, type_)), arithmetic_type("multiply", type_, type_))
    big = pa.array([decimal.Decimal(10) ** 20], type_)
    assert combine_words(call, [big, big], 1) is None
    with pytest.raises(EvaluationError, match="TM3002"):
        combine(call, [big, big], 1)


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(rows: int) -> None:
    type_ = pa.decimal128(15, 2)
    array = pa.array([decimal.Decimal("-0.01")] * rows, type_)
    call = Call("multiply", (Ref(0, type_), Ref(1, type_)), arithmetic_type("multiply", type_, type_))
    assert combine(call, [array, array], rows).to_pylist() == [decimal.Decimal("0.0001")] * rows


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
def test_integers_as_decimals(kind: pa.DataType, seed: int) -> None:
    """Every precision and scale, NULL where the digits do not suffice."""
    rng = random.Random(f"{kind} {seed}")
    most = 2 ** (kind.bit_width - 1)
    for precision in range(1, 39):
        for scale in {0, 1, precision // 2, precision}:
            target = pa.decimal128(precision, scale)
            given = [rng.choice((None, 0, -1, most - 1, -most, rng.randrange(-most, most))) for _ in range(9)]
            found = _integer_to_decimal(pa.array([None, 1, *given], kind).slice(2), target)
            found.validate(full=True)
            top = 10 ** (precision - scale)
            wanted = [None if v is None or abs(v) >= top else decimal.Decimal(v) for v in given]
            assert found.type == target and found.to_pylist() == wanted, target
