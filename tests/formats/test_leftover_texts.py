"""Texts of rescued JSON and CSV: kernels against their plain twins, byte by byte."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import tidemill.formats
from tidemill.ddl import parse_columns
from tidemill.formats.base import RowError
from tidemill.formats.json import leftover_texts
from tidemill.formats.json.known_keys import known_keys
from tidemill.formats.json.leftovers import leftover
from tidemill.formats.rescue.parting import KEPT

COLUMNS = (
    'a BIGINT, s STRUCT<x: INT, y: STRUCT<z: STRING, `é"`: DOUBLE>>, l ARRAY<STRUCT<k: INT>>, '
    "m MAP<STRING, STRUCT<q: ARRAY<INT>>>, t STRING, whole STRING, part INT, o ARRAY<STRUCT<k: INT>>"
)
PATHS = {4: ("s", "t"), 6: ("whole", "part"), 7: ("l",)}
OPTIONS = {"field.t": "s/t", "field.part": "whole/part", "field.o": "l"}
_KEYS = ["a", "s", "l", "m", "t", "x", "y", "z", "k", "q", "whole", "part", 'é"', "A", "new", "n\u0001\n\t/w", "\ufffd"]
_PLAIN = ["1", "-2.5e3", "null", "true", "NaN", '"x"', '"\\u00e9\\n\\""', '"é' + "long " * 30 + '"', '"\\ud83d\\ude00"']


def _blank(rng: random.Random) -> str:
    return rng.choice(["", "", "", " ", "\t ", "\r"])


def _key(rng: random.Random) -> str:
    key = rng.choice(_KEYS)
    text = json.dumps(key, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.1:
        text = '"' + "".join(f"\\u{ord(c):04x}" for c in key) + '"'
    return rng.choice(['"\\ud800"', '"\\/k"', '"\x7f"']) if rng.random() < 0.03 else text


def _value(rng: random.Random, depth: int) -> str:
    kind = rng.randrange(10)
    if not depth or kind < 4:
        return rng.choice(_PLAIN)
    if kind < 6:
        inside = [_value(rng, depth - 1) for _ in range(rng.randrange(4))]
        return "[" + _blank(rng) + (_blank(rng) + "," + _blank(rng)).join(inside) + "]"
    return _object(rng, depth - 1)


def _object(rng: random.Random, depth: int) -> str:
    members = [
        _key(rng) + _blank(rng) + ":" + _blank(rng) + _value(rng, depth) + _blank(rng) for _ in range(rng.randrange(5))
    ]
    return "{" + _blank(rng) + ("," + _blank(rng)).join(members) + "}"


def _line(rng: random.Random) -> bytes:
    line = _object(rng, 4).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        place = rng.randrange(len(line))
        line = line[:place] + rng.choice([b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"}", b'"']) + line[place:]
    return line + rng.choice([b"", b"", b"\r", b" "])


def _plain_texts(data: bytes, errors: list[RowError]) -> list[str | None]:
    schema = parse_columns(COLUMNS)
    keys = known_keys(schema, PATHS)
    places = {f.name: PATHS.get(i, (f.name,)) for i, f in enumerate(schema)}
    found: list[str | None] = []
    at = 0
    for line in data.split(b"\n"):
        here = [e for e in errors if e.position == at]
        if line.strip(b" \t\r"):
            broken = any(e.reason in ("bad_json", "too_deep") for e in here)
            wrong = [places[str(e.column)] for e in here if e.reason not in KEPT]
            record = line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
            found.append(None if broken else leftover(record, keys, wrong))
        at += len(line) + 1
    return found


def test_json_texts_equal_the_twins(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    options: dict[str, Any] = {**OPTIONS, "multiLine": False}
    for round_ in range(25):
        data = b"\n".join(_line(rng) for _ in range(40))
        if round_ % 5 == 0:
            data = b"\xef\xbb\xbf" + data
        errors: list[RowError] = []
        plain = tidemill.formats.open("json", COLUMNS, **options).read(data, errors=errors)
        opened = tidemill.formats.open("json", COLUMNS, rescuedDataColumn="r", **options)
        expected = _plain_texts(data, errors)
        left: list[RowError] = []
        found = opened.read(data, errors=left)
        assert found.column("r").to_pylist() == expected
        assert left == [e for e in errors if e.reason in KEPT]
        assert found.select(plain.column_names).equals(plain)
        size = rng.randrange(1, 300)
        parts = [t for part in opened.rows(data, ["r"], size) for t in part.batch.column("r").to_pylist()]
        assert parts == expected


def test_most_texts_come_from_the_kernel() -> None:
    """What is sent back to the plain twin: keys given twice, half of a surrogate pair, very many new keys."""
    many = json.dumps({f"k{i}": i for i in range(leftover_texts._SEEN_KEYS)}).encode()
    lines = [b'{"n":1,"n":2}', b'{"\\ud800":1}', many, b'{"\xff":1,"\xfe":2}', b'{"s":{"x":1},"s":{"n":3}}']
    data = b"\n".join(lines)
    found = tidemill.formats.open("json", COLUMNS, rescuedDataColumn="r").read(data).column("r").to_pylist()
    assert found == [
        '{"n":2}',
        '{"\\ud800":1}',
        many.decode().replace(", ", ",").replace(": ", ":"),
        '{"\ufffd":2}',
        '{"s":{"n":3}}',
    ]
