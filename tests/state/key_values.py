"""Nasty values of every type that can be part of a key; NULL is one of each."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

INF, NAN = math.inf, math.nan
_POINT = pa.struct([("x", pa.float64()), ("s", pa.string())])


def _ints(bits: int) -> list[int]:
    top = 1 << (bits - 1)
    return [-top, -top + 1, *([-256] if bits > 8 else []), -2, -1, 0, 1, 2, *([127, 255] if bits > 8 else []), top - 1]


KEY_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [None, False, True]),
    "int8": (pa.int8(), [None, *_ints(8)]),
    "int16": (pa.int16(), [None, *_ints(16)]),
    "int32": (pa.int32(), [None, *_ints(32), 3874]),
    "int64": (pa.int64(), [None, *_ints(64)]),
    "float": (
        pa.float32(),
        [None, -INF, -3.4028234663852886e38, -1.5, -1e-45, -0.0, 0.0, 1e-45, 23.33, 3.4028234663852886e38, INF, NAN],
    ),
    "double": (
        pa.float64(),
        [None, -INF, -1.7976931348623157e308, -1.5, -5e-324, -0.0, 0.0, 5e-324, 0.1, 1.5, INF, NAN, -NAN],
    ),
    "decimal(4,2)": (pa.decimal128(4, 2), [None, *map(Decimal, ("-99.99", "-0.01", "0.00", "0.10", "1.00", "99.99"))]),
    "decimal(38,0)": (
        pa.decimal128(38, 0),
        [None, *map(Decimal, (-(10**38) + 1, -(2**64), -1, 0, 1, 2**63, 2**64 - 1, 2**64, 10**38 - 1))],
    ),
    "decimal(38,38)": (pa.decimal128(38, 38), [None, *(Decimal(n).scaleb(-38) for n in (-(10**37), -1, 0, 1, 10**37))]),
    "date": (pa.date32(), [None, date(1, 1, 1), date(1582, 10, 15), date(1969, 12, 31), date(1970, 1, 1), date.max]),
    "timestamp": (
        pa.timestamp("us"),
        [
            None,
            datetime(1, 1, 1),
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            datetime(1970, 1, 1),
            datetime(1970, 1, 1, 0, 0, 1),
            datetime(2026, 2, 28, 12, 34, 56, 789012),
            datetime.max,
        ],
    ),
    "string": (
        pa.string(),
        [
            *(None, "", "\0", "\0\0", "\0a", "a", "a\0", "a\0b", "aa", "b"),
            *("1234567", "12345678", "12345678\0", "123456789", "1234567812345678", "1234567812345678\0\0", "é", "z"),
            *("\U0001f600", "\ue000", "\uffff", "é" * 9),
        ],
    ),
    "binary": (
        pa.binary(),
        [
            None,
            b"",
            b"\0",
            b"\0\0",
            b"\x01",
            b"\x7f",
            b"\x80",
            b"\xff",
            b"\xff" * 7,
            b"\xff" * 8,
            b"\xff" * 9,
            b"\0" * 9,
        ],
    ),
    "array<smallint>": (pa.list_(pa.int16()), [None, [], [None], [None, None], [-1], [0], [0, None], [0, 0], [1]]),
    "array<array<string>>": (
        pa.list_(pa.list_(pa.string())),
        [None, [], [None], [[]], [[], []], [[None]], [[""]], [["\0"]], [["a"]], [["a", "b"]], [["a"], ["b"]], [["ab"]]],
    ),
    "array<double>": (pa.list_(pa.float64()), [None, [], [None], [-INF], [-0.0], [0.0], [0.0, 1.0], [INF], [NAN]]),
    "struct<x:double,s:string>": (
        _POINT,
        [
            None,
            *({"x": x, "s": s} for x in (None, -1.0, -0.0, NAN) for s in (None, "", "a\0")),
        ],
    ),
    "array<struct<x:double,s:string>>": (
        pa.list_(_POINT),
        [None, [], [None], [{"x": None, "s": None}], [{"x": 1.0, "s": "a"}, None], [{"x": 1.0, "s": "a"}]],
    ),
    "struct<d:decimal(9,3),b:array<binary>>": (
        pa.struct([("d", pa.decimal128(9, 3)), ("b", pa.list_(pa.binary()))]),
        [
            None,
            {"d": None, "b": None},
            {"d": Decimal("-1.500"), "b": []},
            {"d": Decimal("-1.500"), "b": [b"\0", None]},
            {"d": Decimal("1.500"), "b": [b"\0"]},
        ],
    ),
}

MODES = {
    "asc nulls first": (False, True),
    "asc nulls last": (False, False),
    "desc nulls first": (True, True),
    "desc nulls last": (True, False),
}
"""Whether descending, and whether NULL comes first; what SQL means without saying is the first and the last."""
