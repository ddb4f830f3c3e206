"""Debezium envelopes: many at a time against one by one, and what is malformed."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import random
from typing import Any

import pyarrow as pa
import pytest

from tidemill.errors import FormatError, TidemillError
from tidemill.formats.base import RowError
from tidemill.formats.debezium.envelopes import Layout, read_message
from tidemill.formats.debezium.format import OPERATION, DebeziumFormat
from tidemill.formats.messages import Messages
from tidemill.formats.rows.malformed import Mode
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Field, Schema

FIELDS = (
    Field("k", pa.int32(), False),
    Field("g", pa.string(), False),
    Field("l", pa.int64()),
    Field("tiny", pa.int8()),
    Field("d", pa.float64()),
    Field("f", pa.float32()),
    Field("m", pa.decimal128(10, 2)),
    Field("b", pa.bool_()),
    Field("day", pa.date32()),
    Field("at", TIMESTAMP),
    Field("local", TIMESTAMP_NTZ),
)
SCHEMA = Schema((*FIELDS, Field(OPERATION, pa.string(), False)))
KEY = ("k", "g")
LAYOUT = Layout(FIELDS, KEY, Mode.PERMISSIVE, 1)
TEXTS = ("", "x", "é", "日本", 'say "x"', "a}b", "{", "}null", "\\", "tab\t", "😀", "null")

Row = tuple[Any, ...]


def read(text: bytes, cuts: tuple[int, ...] = (), **options: str) -> tuple[list[Row], list[RowError]]:
    """(position, operation, values...) and errors of a file that is read in splits, in small buffers."""
    names = [OPERATION, *(f.name for f in FIELDS)]
    reader = DebeziumFormat().message_reader(SCHEMA, options, names, Messages(tuple(KEY), OPERATION, "D"))
    rows: list[Row] = []
    errors: list[RowError] = []
    for start, end in zip((0, *cuts), (*cuts, len(text)), strict=True):
        split = reader.split(start=start, end=end, file_size=len(text), in_quotes=None, header=None)
        at = split.read_from
        while not split.done:
            found = split.feed(text[at : at + 5000], last=at + 5000 >= len(text))
            at += 5000
            found.batch.validate(full=True)
            rows += zip(found.positions.tolist(), *(c.to_pylist() for c in found.batch.columns), strict=True)
            errors += found.errors
    return rows, errors


def one_by_one(text: bytes) -> tuple[list[Row], list[tuple[int, str | None, str]]]:
    """The same by the plain reader; Arrow makes Python's values what a column of them gives."""
    rows: list[Row] = []
    errors = []
    at = 0
    for line in text.split(b"\n"):
        found, wrong = read_message(line.removesuffix(b"\r"), LAYOUT) if line.strip() != b"null" else ([], [])
        errors += [(at, column, reason) for column, reason in wrong]
        for deleted, values in found:
            typed = [pa.array([v], f.type)[0].as_py() for v, f in zip(values, FIELDS, strict=True)]
            rows.append((at, "D" if deleted else "I", *typed))
        at += len(line) + 1
    return rows, errors


def random_image(rng: random.Random, kinds: dict[str, bool]) -> dict[str, Any]:
    """A row as JSON; ``kinds`` says which columns are written as texts."""
    day = datetime.date(2020, 1, 1) + datetime.timedelta(days=rng.randrange(-20_000, 20_000))
    micros = rng.randrange(-(10**15), 10**15)
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
    cents = decimal.Decimal(rng.randrange(-99999, 99999)) / 100
    image: dict[str, Any] = {
        "k": rng.randrange(6),
        "g": rng.choice(TEXTS),
        "l": rng.choice((rng.randrange(-(2**63), 2**63), 0)),
        "tiny": rng.randrange(-128, 128),
        "d": rng.choice((rng.uniform(-1e3, 1e3), 0.1, -0.0, 1e300, 5e-324, 3)),
        "f": rng.choice((0.5, -2.25, 3)),
        "m": str(cents) if kinds["m"] else float(cents),
        "b": rng.random() < 0.5,
        "day": day.isoformat() if kinds["day"] else (day - datetime.date(1970, 1, 1)).days,
        "at": moment.isoformat() + rng.choice(("Z", "+02:00", "-0330")) if kinds["at"] else micros,
        "local": moment.isoformat(" ") if kinds["local"] else micros,
        "other": {"nested": [1, {"x": None}]},
    }
    for name in list(image):
        if name not in KEY and rng.random() < 0.1:
            image[name] = None
        elif name not in KEY and rng.random() < 0.05:
            del image[name]
    return image


def random_line(rng: random.Random, kinds: dict[str, bool], wrapped: bool) -> str:
    operation = rng.choice("crudd")
    before = random_image(rng, kinds) if operation in "ud" and rng.random() < 0.9 else None
    after = None if operation == "d" else random_image(rng, kinds)
    if operation == "u" and before is not None and after is not None and rng.random() < 0.7:
        before |= {n: after[n] for n in KEY}
    if operation == "d" and before is not None and rng.random() < 0.5:
        before = {n: before[n] for n in KEY}
    message: dict[str, Any] = {"before": before, "after": after, "op": operation, "ts_ms": 1, "source": {"db": "x"}}
    if wrapped:
        message = {"schema": {"type": "struct"}, "payload": message}
    return json.dumps(message, ensure_ascii=rng.random() < 0.5, separators=(",", ":"))


WRONG = (
    '{"op":"c","after":{"k":1,"g":"x","d":1e9999999999999999999,"f":-1e9999999999999999999,"m":1e9999999999999999999}}',
    '{"op":"c","after":{"k":1,"g":"x","d":1e-9999999999999999999,"m":1e-9999999999999999999}}',
    '{"op":"c","after":{"k":1,"g":"x","d":"1e9999999999999999999","m":"1e-9999999999999999999"}}',
    "oops", "5", "[1]", "true", " null", '{"op":"c"}', "{}", '{"op":"t"}', '{"op":"c"} null',
    '{"op":"c"}null{"op":"c"}',
    '{"op":"c","after":{"k":1,"g":"x"}}{"op":"c","after":{"k":2,"g":"y"}}', '{"op":"c"', ',"after":{}}',
    '{"op":"c","after":{"k":null,"g":"x"}}', '{"op":"c","after":{"g":"x"}}', '{"op":"u","before":null,"after":null}',
    '{"op":"d","before":null}', '{"op":"d","before":{"k":1}}', '{"op":"c","after":{"k":1.5,"g":"x"}}',
    '{"op":"c","after":{"k":1,"g":7}}', '{"op":"c","after":{"k":1,"g":"x","tiny":128}}',
    '{"op":"c","after":{"k":1,"g":"x","tiny":"12","l":"-5","d":"NaN","f":"-Infinity","b":1}}',
    '{"op":"c","after":{"k":1,"g":"x","m":"1.235","day":"2020-02-30","at":"yesterday","local":true}}',
    '{"op":"c","after":{"k":1,"g":"x","m":12345678901,"day":"2020-02-28Z","at":"2020-01-01 10:11:12.1234567Z"}}',
    '{"op":"c","after":{"k":1,"g":"x","d":1e400,"b":"true","l":9223372036854775808}}',
    '{"op":"c","after":{"k":1,"g":"\\ud800"}}', '{"op":["c"],"after":{"k":1,"g":"x"}}',
    '{"schema":null,"payload":null}', '{"payload":5}',
    '{"op":"c","op":"d","before":{"k":1,"g":"x"},"after":{"k":2,"g":"y"}}',
    '{"op":"c","after":{"k":1,"g":"x","local":"2020-01-01T00:00:00+01:00","at":"2020-01-01T00:00:00"}}',
    '{"op":"c","after":{"k":1,"g":"x","d":NaN,"f":Infinity}}', "  ", "\t{}", '{"op":"c","after":{"k":1,"g":"x"}} ',
)  # fmt: skip


def random_file(rng: random.Random, wrong: float) -> bytes:
    kinds = {n: rng.random() < 0.5 for n in ("m", "day", "at", "local")}
    wrapped = rng.random() < 0.3
    lines: list[bytes] = []
    for _ in range(rng.randrange(0, 400)):
        draw = rng.random()
        if draw < wrong:
            text = rng.choice(WRONG).encode()
            lines.append(text if rng.random() < 0.9 else b"\xff" + text)
        elif draw < wrong + 0.1:
            lines.append(rng.choice((b"null", b"", b"null\r")))
        elif draw < wrong + 0.12:
            mixed = {n: not kind for n, kind in kinds.items()}
            lines.append(random_line(rng, mixed, not wrapped).encode())
        else:
            lines.append(random_line(rng, kinds, wrapped).encode() + rng.choice((b"", b"", b"", b"\r")))
    return b"\n".join(lines) + rng.choice((b"", b"\n"))


@pytest.mark.parametrize("wrong", [0.0, 0.002, 0.05, 0.5])
def test_many_at_a_time_are_as_one_by_one(wrong: float, seed: int) -> None:
    rng = random.Random(f"{seed} {wrong}")
    for _ in range(12):
        text = random_file(rng, wrong)
        cuts = tuple(sorted(rng.sample(range(1, len(text)), min(4, len(text) - 1)))) if len(text) > 1 else ()
        rows, errors = read(text, cuts)
        expected, wrongs = one_by_one(text)
        assert shown(rows) == shown(expected)
        assert [(e.position, e.column, e.reason) for e in errors] == wrongs
        assert all(e.raw == text[e.position :].split(b"\n")[0].removesuffix(b"\r") for e in errors)


def shown(rows: list[Row]) -> list[str]:
    return [repr(r) for r in rows]


@pytest.mark.parametrize("line", WRONG)
def test_a_strange_line_among_others(line: str) -> None:
    """Arrow's reader ends the process over some of them; they must not reach it."""
    good = [f'{{"op":"c","before":null,"after":{{"k":{i},"g":"x"}}}}' for i in range(40)]
    text = "\n".join([*good, line, *good]).encode()
    rows, errors = read(text)
    expected, wrongs = one_by_one(text)
    assert shown(rows) == shown(expected)
    assert len(rows) >= 80
    assert [(e.position, e.column, e.reason) for e in errors] == wrongs


def test_values() -> None:
    image = {
        "k": 1, "g": "é", "l": "-5", "tiny": 7, "d": "NaN", "f": 0.1, "m": "1.235", "b": 1, "day": 18262,
        "at": "2020-01-01T10:00:00.123456789+02:00", "local": 1577836800000000,
    }  # fmt: skip
    rows, errors = read(json.dumps({"op": "c", "after": image}).encode())
    assert not errors
    _, operation, k, g, big, tiny, d, f, m, b, day, at, local = rows[0]
    assert (operation, k, g, big, tiny, m, b) == ("I", 1, "é", -5, 7, decimal.Decimal("1.24"), True)
    assert math.isnan(d)
    assert f == pytest.approx(0.1)
    assert day == datetime.date(2020, 1, 1)
    assert at == datetime.datetime(2020, 1, 1, 8, 0, 0, 123456, tzinfo=datetime.UTC)
    assert local == datetime.datetime(2020, 1, 1)


def test_milliseconds() -> None:
    lines = [f'{{"op":"r","after":{{"k":{i},"g":"x","at":1577836800000}}}}' for i in range(30)]
    for text in ("\n".join(lines), lines[0]):
        rows, errors = read(text.encode(), timestampunit="millis")
        assert not errors
        assert {r[11] for r in rows} == {datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)}


def test_an_update_of_the_key_deletes_the_old_one_first() -> None:
    old, new = {"k": 2, "g": "x"}, {"k": 1, "g": "x", "l": 3}
    line = json.dumps({"op": "u", "before": old, "after": new}, separators=(",", ":"))
    for text in (line, "\n".join([line] * 30)):
        rows, _ = read(text.encode())
        assert [(r[1], r[2]) for r in rows] == [("D", 2), ("I", 1)] * (text.count("\n") + 1)


def test_modes() -> None:
    text = b'{"op":"c","after":{"k":1,"g":"x","l":true}}\n{"op":"c","after":{"k":2,"g":"x"}}'
    rows, errors = read(text)
    assert [(r[2], r[4]) for r in rows] == [(1, None), (2, None)]
    assert [(e.column, e.reason, e.dropped) for e in errors] == [("l", "bad_int64", False)]
    rows, errors = read(text, mode="DROPMALFORMED")
    assert [r[2] for r in rows] == [2]
    assert [e.dropped for e in errors] == [True]
    with pytest.raises(FormatError, match="TM4020"):
        read(text, mode="FAILFAST")


def test_bad_options_and_types() -> None:
    with pytest.raises(TidemillError, match="TM4003"):
        DebeziumFormat().validate(SCHEMA, {"timestampunit": "days"})
    with pytest.raises(TidemillError, match="TM4004"):
        DebeziumFormat().validate(Schema((Field("x", pa.binary()),)), {})
