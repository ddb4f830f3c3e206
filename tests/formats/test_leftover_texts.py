"""Texts of rescued JSON and CSV: kernels against their plain twins, byte by byte."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from tests.formats.csv_reference import plain_rows, plain_text

import tidemill.formats
from tidemill.ddl import parse_columns
from tidemill.formats.base import RowError
from tidemill.formats.csv.options import parse_options
from tidemill.formats.json import leftover_texts
from tidemill.formats.json.known_keys import known_keys
from tidemill.formats.json.leftovers import leftover
from tidemill.formats.rescue.parting import KEPT
from tidemill.formats.values.field_text import TRIM_LEADING, TRIM_TRAILING

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
        assert left == [e for e in errors if e.reason in KEPT or e.dropped]
        assert found.select(plain.column_names).equals(plain)
        size = rng.randrange(1, 300)
        parts = [t for part in opened.rows(data, ["r"], size) for t in part.batch.column("r").to_pylist()]
        assert parts == expected


def test_what_the_kernel_sends_back() -> None:
    """Keys given twice, half of a surrogate pair, very many new keys; and keys that are the same once decoded."""
    many = json.dumps({f"k{i}": i for i in range(leftover_texts.MOST_NEW_KEYS + 1)}).encode()
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


# -- CSV ----------------------------------------------------------------------------------------------

CSV_COLUMNS = "a BIGINT, b STRING, c DATE"
_DIALECTS: list[dict[str, Any]] = [
    {},
    {"sep": "||"},
    {"escape": "\\"},
    {"lineSep": ";\r", "sep": "|"},
    {"ignoreLeadingWhiteSpace": True, "ignoreTrailingWhiteSpace": True},
    {"quote": ""},
    {"nullValues": '["NULL", "x", ""]', "comment": "#"},
]
_TEXTS = [
    "1",
    "",
    "x",
    "2020-01-01",
    '"q""u"',
    '"a\nb"',
    '" 7"',
    ' "b" ',
    '"bad"x',
    "\xe9",
    "\t\x00\x1f\\",
    "NULL",
    "\r",
]
_BYTES = [b"", b"", b"", b"", b"\xff", b"\xed\xa0\x80", b"#"]


def _csv_row(rng: random.Random, separator: bytes) -> bytes:
    count = rng.choice([3, 3, 3, 4, 5, 2, 9])
    return separator.join(rng.choice(_TEXTS).encode() + rng.choice(_BYTES) for _ in range(count))


def _csv_texts(data: bytes, names: list[str], options: dict[str, Any], errors: list[RowError]) -> list[str | None]:
    rules = parse_options({k.lower(): str(v).lower() if isinstance(v, bool) else v for k, v in options.items()})
    general = rules.general
    leading, trailing = bool(rules.trim & TRIM_LEADING), bool(rules.trim & TRIM_TRAILING)
    known = names or ["a", "b", "c"]
    rows = plain_rows(data, general.separator, general.quote, rules.comment, leading, general.escape, general.row_end)
    found: list[str | None] = []
    for number, row in enumerate(row for row in rows if not row.comment):
        if names and not number:
            continue
        here = [e for e in errors if e.position == row.position and e.reason not in KEPT]
        wrong = {str(e.column) for e in here}
        left = {}
        for i, field in enumerate(row.fields):
            name = known[i] if i < len(known) else f"_c{i}"
            extra = name not in ("a", "b", "c")
            if not row.terminated or not (extra or name in wrong):
                continue
            try:
                text, quoted = plain_text(field, general.quote, leading, trailing, general.escape)
            except ValueError:
                if not extra:
                    left[name] = data[row.position : row.end].decode("utf-8", "replace")
                elif i >= len(known):
                    left[name] = field.decode("utf-8", "replace")
                continue
            if (not text and not quoted) or text in rules.null_texts:
                continue
            if i < len(known) and extra and _not_utf8(text):
                continue
            left[name] = text.decode("utf-8", "replace")
        parts = [f"{json.dumps(k)}:{json.dumps(v, ensure_ascii=False)}" for k, v in left.items()]
        found.append("{" + ",".join(parts) + "}" if parts else None)
    return found


def _not_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return True
    return False


@pytest.mark.parametrize("options", _DIALECTS, ids=str)
@pytest.mark.parametrize("header", [False, True])
def test_csv_texts_equal_the_twins(seed: int, options: dict[str, Any], header: bool) -> None:
    rng = random.Random(seed)
    given = {**options, "header": header}
    separator = str(options.get("sep", ",")).encode()
    row_end = str(options.get("lineSep", "\n")).encode()
    for _ in range(12):
        names = rng.sample(["a", "b", "c", "o1", 'o"2'], 5) if header else []
        rows = [_csv_row(rng, separator) + rng.choice([b"", b"", b"\r"]) for _ in range(30)]
        if header:
            rows.insert(0, separator.join(json.dumps(n).replace('\\"', '""').encode() for n in names))
        if header and options.get("quote") == "":
            rows[0], names = separator.join([b"a", b"o1", b"b", b"o2", b"c"]), ["a", "o1", "b", "o2", "c"]
        if header and "escape" in options:
            rows[0], names = separator.join([b"c", b"o1", b"b", b"o2", b"a"]), ["c", "o1", "b", "o2", "a"]
        data = row_end.join(rows) + rng.choice([b"", row_end])
        if rng.random() < 0.3:
            data = b"\xef\xbb\xbf" + data
        errors: list[RowError] = []
        plain = tidemill.formats.open("csv", CSV_COLUMNS, **given).read(data, errors=errors)
        opened = tidemill.formats.open("csv", CSV_COLUMNS, rescuedDataColumn="r", **given)
        expected = _csv_texts(data, names, given, errors)
        left: list[RowError] = []
        found = opened.read(data, errors=left)
        assert found.column("r").to_pylist() == expected
        assert [e for e in left if "extra" not in str(e.column)] == [e for e in errors if e.reason in KEPT or e.dropped]
        assert found.select(plain.column_names).equals(plain)
        parts = opened.rows(data, ["r"], rng.randrange(1, 200))
        assert [t for part in parts for t in part.batch.column("r").to_pylist()] == expected


def test_rows_of_very_different_width() -> None:
    wide = b"1,x,2020-01-01" + b",7" * 5000
    data = b"\n".join([b"1,x,2020-01-01,a", wide, b"2,y,,,b"] * 3)
    texts = tidemill.formats.open("csv", CSV_COLUMNS, rescuedDataColumn="r").read(data).column("r").to_pylist()
    assert texts[::3] == ['{"_c3":"a"}'] * 3 and texts[2::3] == ['{"_c4":"b"}'] * 3
    assert [json.loads(text) for text in texts[1::3]] == [{f"_c{i}": "7" for i in range(3, 5003)}] * 3
