"""Columns of many rows, most of them in the shapes that lanes read: each value must equal the plain parser's."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from column_parsing import parse, parse_plainly

from tidemill.formats.values.columns.columns import parser_for
from tidemill.formats.values.field_text import TextRules
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ

_BYTES = b"0123456789.-+eE:T Z/,x\"'\x00\xff"


def _number(r: random.Random) -> bytes:
    whole = str(r.randrange(10 ** r.randrange(1, 18)))
    kind = r.randrange(4)
    text = whole if kind == 0 else f"{whole[: r.randrange(len(whole) + 1)]}.{whole[: r.randrange(len(whole) + 1)]}"
    return ("-" * r.randrange(2) + (text if kind < 3 else text.lstrip("0"))).encode()


def _date(r: random.Random) -> bytes:
    return f"{r.randrange(10000):04}-{r.randrange(14):02}-{r.randrange(33):02}".encode()


def _time(r: random.Random) -> bytes:
    clock = f"{r.randrange(25):02}:{r.randrange(61):02}:{r.randrange(61):02}".encode()
    return _date(r) + r.choice([b" ", b"T", b" ", b"x"]) + clock + r.choice([b"", b"", b"", b".5", b"Z"])


def _text(r: random.Random) -> bytes:
    return bytes(r.choice(b"abc xyz") for _ in range(r.choice([1, 3, 9, 31, 32, 33, 64, 65, 80])))


SHAPES = {
    pa.int8(): _number,
    pa.int16(): _number,
    pa.int32(): _number,
    pa.int64(): _number,
    pa.float32(): _number,
    pa.float64(): _number,
    pa.decimal128(5, 2): _number,
    pa.decimal128(18, 0): _number,
    pa.decimal128(38, 10): _number,
    pa.date32(): _date,
    TIMESTAMP: _time,
    TIMESTAMP_NTZ: _time,
    pa.string(): _text,
    pa.binary(): _text,
}


def _spoilt(text: bytes, r: random.Random) -> bytes:
    """With a byte put in, taken out or changed."""
    at = r.randrange(len(text) + 1)
    other = bytes([r.choice(_BYTES)])
    return r.choice([text[:at] + other + text[at:], text[:at] + text[at + 1 :], text[:at] + other + text[at + 1 :]])


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value


@pytest.mark.parametrize("spoilt", [0.0, 0.01, 0.7])
@pytest.mark.parametrize("type_", SHAPES, ids=str)
def test_like_the_plain_parser(type_: pa.DataType, spoilt: float, seed: int) -> None:
    r = random.Random(seed)
    for rows in (1, 700, 1500):
        texts = [SHAPES[type_](r) for _ in range(rows)]
        if r.random() < 0.5:
            texts = [text[:8] for text in texts]
        texts = [(_spoilt(text, r) if r.random() < spoilt else text) or b"?" for text in texts]
        found = parse(type_, texts, between=b",")
        expected = [parse_plainly(type_, text) for text in texts]
        assert [_comparable(v) for v in found] == [_comparable(v) for v in expected]


@pytest.mark.parametrize("quote", [b'"', b"1", b"-", b".", b":", b"T"])
def test_quotes_that_are_part_of_numbers(quote: bytes) -> None:
    def parsed(type_: pa.DataType, text: bytes, count: int) -> list[Any]:
        buf = np.frombuffer((text + b",") * count, np.uint8)
        ends = np.arange(1, count + 1, dtype=np.int32) * (len(text) + 1) - 1
        parser = parser_for(type_)
        assert parser is not None
        rules = TextRules(quote=quote[0], trim=0, null_text=np.empty(0, np.uint8))
        return parser.parse(buf, ends.astype(np.int32) - np.int32(len(text)), ends, rules).array.to_pylist()

    for type_ in SHAPES:
        for text in (b"11", b"-5", b"--", b".5.", b"121", b"2024-01-01", b"2024-01-01 10:00:00", b'"7"'):
            one, many = parsed(type_, text, 1), parsed(type_, text, 600)
            assert list(map(repr, many)) == 600 * [repr(one[0])], (type_, text)


@pytest.mark.parametrize("marker", [b"7", b"-3", b"0.5", b"2024-01-01", b"NULL"])
def test_markers_of_null_that_look_like_values(marker: bytes) -> None:
    rules = TextRules(quote=-1, trim=0, null_text=np.frombuffer(bytearray(marker), np.uint8))
    ends = np.arange(1, 601, dtype=np.int32) * (len(marker) + 1) - 1
    buf = np.frombuffer((marker + b",") * 600, np.uint8)
    for type_ in SHAPES:
        parser = parser_for(type_)
        assert parser is not None
        assert parser.parse(buf, ends - np.int32(len(marker)), ends, rules).array.null_count == 600
