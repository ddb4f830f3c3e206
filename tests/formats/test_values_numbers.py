"""Integers, floats and decimals against Python's own."""

from __future__ import annotations

import math
import random
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from column_parsing import MALFORMED, parse, parse_plainly
from hypothesis import given
from hypothesis import strategies as st
from long_form import examples

from tidemill.formats.values.numbers.eisel_lemire import nearest_double_of
from tidemill.formats.values.numbers.floats import nearest_double

EXAMPLES = examples(300)
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
number_like = st.text("0123456789+-.eE_ xNaInfity", max_size=24).map(str.encode)
digits = st.from_regex(r"[+-]?[0-9]{1,45}", fullmatch=True).map(str.encode)
decimals = st.from_regex(r"[+-]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,25})([eE][+-]?[0-9]{1,3})?", fullmatch=True).map(
    str.encode
)


def bits(value: Any) -> Any:
    """A float by its representation, so that -0.0 and NaN compare."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack("<d", value)
    return value


def assert_like_plain(type_: pa.DataType, texts: list[bytes]) -> None:
    expected = [bits(parse_plainly(type_, text)) for text in texts]
    assert [bits(value) for value in parse(type_, texts)] == expected


@pytest.mark.parametrize("type_", INTEGERS)
def test_integer_limits(type_):
    top = 2 ** (type_.bit_width - 1)
    texts = [str(n).encode() for n in (top - 1, -top, top, -top - 1, 0, 10 * top, -(10**19), 2**64, 10**30)]
    assert parse(type_, texts) == [top - 1, -top, MALFORMED, MALFORMED, 0] + [MALFORMED] * 4


def test_integer_spellings():
    good = [b"+7", b"-0", b"007", b"-" + b"0" * 40 + b"12", b"+" + b"0" * 19]
    assert parse(pa.int64(), good) == [7, 0, 7, -12, 0]
    bad = [
        b"",
        b"+",
        b"-",
        b"+-1",
        b" 1",
        b"1 ",
        b"1.0",
        b"1e3",
        b"0x1F",
        b"1_000",
        b"1,0",
        b"\xb2",
        b"12345678a",
        b"/",
        b":",
    ]
    assert parse(pa.int64(), bad) == [MALFORMED] * len(bad)


def test_every_byte_in_every_place_of_an_integer():
    for length in (1, 4, 7, 8, 9, 15, 16, 17, 18):
        for place in range(length):
            texts = [b"1" * place + bytes([byte]) + b"1" * (length - place - 1) for byte in range(256)]
            assert_like_plain(pa.int64(), texts)


@EXAMPLES
@given(st.sampled_from(INTEGERS), st.lists(st.one_of(number_like, digits), min_size=1, max_size=8))
def test_integers_like_python(type_, texts):
    assert_like_plain(type_, texts)


@EXAMPLES
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_integers_come_back(numbers):
    assert parse(pa.int64(), [str(n).encode() for n in numbers], between=b"\n") == numbers


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_float_spellings(type_):
    texts = [
        b"1.",
        b".5",
        b"+2",
        b"1E3",
        b"1e+3",
        b"1e-3",
        b"Infinity",
        b"-Inf",
        b"+Infinity",
        b"1e400",
        b"-1e400",
    ]
    inf = math.inf
    expected = [1.0, 0.5, 2.0, 1000.0, 1000.0, 1e-3, inf, -inf, inf, inf, -inf]
    assert parse(type_, texts) == [float(np.float32(x)) if type_ == pa.float32() else x for x in expected]
    assert math.isnan(parse(type_, [b"NaN"])[0])
    bad = [
        b"",
        b".",
        b"+",
        b"1e",
        b"1e+",
        b"e1",
        b"nan",
        b"inf",
        b"infinity",
        b"1.2.3",
        b"1 ",
        b"0x1p3",
        b"1_0",
        b"1f",
        b"Infinit",
        b"1e5.0",
    ]
    assert parse(type_, bad) == [MALFORMED] * len(bad)


HARD_DOUBLES = [
    b"9007199254740993",
    b"9007199254740992.999999999999999999999",
    b"9007199254740993.000000000000000000001",
    b"2.2250738585072011e-308",
    b"2.2250738585072014e-308",
    b"4.9406564584124654e-324",
    b"2.4703282292062327e-324",
    b"2.4703282292062328e-324",
    b"1.7976931348623157e308",
    b"1.7976931348623159e308",
    b"179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880",
    b"1e23",
    b"8.5e22",
    b"0.000000000000000000000000000000000000000000000001",
    b"123456789012345678901234567890",
    b"0." + b"0" * 400 + b"1",
    b"1" + b"0" * 400,
    b"0e999999999999999999999",
    b"1e-999999999999999999999",
    b"1e999999999999999999999",
    b"6929495644600919.5",
    b"3.7455744005952583e15",
    b"2.2250738585072012e-308",
    b"-0.0",
    b"1.00000000000000011102230246251565404236316680908203125",
    b"1.00000000000000011102230246251565404236316680908203124",
    b"1.00000000000000011102230246251565404236316680908203126",
]


def test_doubles_that_are_hard_to_round():
    assert_like_plain(pa.float64(), HARD_DOUBLES)


def test_floats_that_two_roundings_get_wrong():
    texts = [
        b"1.000000178813934326171875",  # halfway between two float32
        b"1.00000017881393432617187499",
        b"1.00000017881393432617187501",
        b"1.00000005960464477539062500001",
        b"1.4e-45",
        b"7.006492321624085e-46",
        b"7.006492321624086e-46",
        b"1.1754943508222875e-38",
        b"1.17549429e-38",
        b"3.4028235e38",
        b"3.4028235677973366e38",
        b"3.4028235677973365e38",
        b"-340282346638528859811704183484516925440.0",
        b"16777217",
        b"16777217.0000000000000001",
    ]
    assert_like_plain(pa.float32(), texts)


@EXAMPLES
@given(
    st.sampled_from([pa.float32(), pa.float64()]),
    st.lists(st.one_of(number_like, decimals), min_size=1, max_size=8),
)
def test_floats_like_python(type_, texts):
    assert_like_plain(type_, texts)


def test_random_doubles_come_back():
    random_ = random.Random(20)
    patterns = [random_.getrandbits(64) for _ in range(20_000)]
    numbers = [struct.unpack("<d", struct.pack("<Q", pattern))[0] for pattern in patterns]
    numbers = [number for number in numbers if math.isfinite(number)]
    assert parse(pa.float64(), [repr(number).encode() for number in numbers]) == numbers


def test_random_digits_like_python():
    random_ = random.Random(21)
    texts = []
    for _ in range(20_000):
        power = random_.randrange(-330, 310) if random_.random() < 0.5 else random_.randrange(-25, 25)
        texts.append(f"{random_.getrandbits(random_.randrange(1, 90))}e{power}".encode())
    assert parse(pa.float64(), texts) == [float(text) for text in texts]


def test_random_floats_like_the_plain_parser():
    random_ = random.Random(22)
    texts = [
        f"{random_.random() * 10 ** random_.randrange(-46, 39):.{random_.randrange(1, 20)}g}".encode()
        for _ in range(3000)
    ]
    assert_like_plain(pa.float32(), texts)


def test_eisel_lemire_decides_nearly_all_and_never_wrongly():
    random_ = random.Random(23)
    undecided = 0
    for _ in range(5000):
        mantissa, power = random_.getrandbits(64) | 1, random_.randrange(-300, 280)
        value, known = nearest_double_of(np.uint64(mantissa), power)
        undecided += not known
        assert not known or value == float(f"{mantissa}e{power}")
    assert undecided < 5
    assert nearest_double_of(np.uint64(1), 400) == (0.0, False)


def test_the_exact_fallback_nudges_halves():
    assert nearest_double(b"1.5", True) == 1.5
    half = b"1.00000005960464477539062500001"
    assert np.float32(nearest_double(half, True)) == np.float32(1.0000001)
    assert nearest_double(half, False) == float(half)


def test_decimals_round_half_up():
    texts = [
        b"1.005",
        b"-1.005",
        b"1.0049999",
        b"0.005",
        b"-0.005",
        b"0.0049",
        b"999.994",
        b"1e1",
        b"12e-3",
        b"+.5",
    ]
    expected = ["1.01", "-1.01", "1.00", "0.01", "-0.01", "0.00", "999.99", "10.00", "0.01", "0.50"]
    assert parse(pa.decimal128(5, 2), texts) == [Decimal(text) for text in expected]


def test_decimals_that_do_not_fit():
    bad = [
        b"1000",
        b"999.995",
        b"-999.995",
        b"1e3",
        b"9e99999999999",
        b"NaN",
        b"Infinity",
        b"",
        b".",
        b"1,5",
        b"1e",
        b"0x1",
    ]
    assert parse(pa.decimal128(5, 2), bad) == [MALFORMED] * len(bad)
    assert parse(pa.decimal128(5, 2), [b"0e99999999999", b"1e-99999999999", b"00000000999.99"]) == [
        Decimal("0.00"),
        Decimal("0.00"),
        Decimal("999.99"),
    ]


def test_decimals_of_38_digits():
    most = b"9" * 38
    assert parse(pa.decimal128(38, 0), [most, b"-" + most, most + b".4"]) == [
        Decimal(10**38 - 1),
        Decimal(1 - 10**38),
        Decimal(10**38 - 1),
    ]
    assert parse(pa.decimal128(38, 0), [most + b".5", b"1" + b"0" * 38]) == [MALFORMED] * 2
    assert parse(pa.decimal128(38, 38), [b"0." + most, b"1"]) == [Decimal("0." + "9" * 38), MALFORMED]


shapes = st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p)))


@EXAMPLES
@given(shapes, st.lists(st.one_of(number_like, decimals, digits), min_size=1, max_size=8))
def test_decimals_like_python(shape, texts):
    assert_like_plain(pa.decimal128(*shape), texts)


def test_decimals_carry_between_words():
    texts = [
        b"18446744073709551615.5",
        b"-18446744073709551616",
        b"-36893488147419103231.5",
        b"18446744073709551615.4",
    ]
    expected = [2**64, -(2**64), -(2**65), 2**64 - 1]
    assert parse(pa.decimal128(38, 0), texts) == [Decimal(number) for number in expected]
