"""What does not fit goes to the rescued data: against Python's json and csv, whatever is read and in what buffers."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from csv_reading import as_table, feed_split

import tidemill.formats
from tidemill.errors import TidemillError
from tidemill.formats.base import RowError
from tidemill.formats.rescue.new_columns import NewColumnsError
from tidemill.formats.rescue.parting import KEPT

COLUMNS = (
    "a BIGINT, s STRUCT<x: INT, y: STRUCT<z: STRING>>, l ARRAY<STRUCT<k: INT>>, m MAP<STRING, STRUCT<q: INT>>, t STRING"
)
KNOWN: Any = {"a": 0, "s": {"x": 0, "y": {"z": 0}}, "l": [{"k": 0}], "m": ("map", {"q": 0}), "t": 0}

# -- JSON ---------------------------------------------------------------------------------------------


def _value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(8 if depth else 6)
    if kind < 6:
        return [1, "x", None, True, 2.5, 'q"\\/é'][kind]
    if kind == 6:
        return [_value(rng, depth - 1) for _ in range(rng.randrange(3))]
    return {rng.choice(["x", "y", "z", "k", "q", "A", "é"]): _value(rng, depth - 1) for _ in range(rng.randrange(3))}


def _fitting(rng: random.Random) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "a": 1,
        "s": {"x": 1, "y": {"z": "v"}},
        "l": [{"k": 1}, {"k": None}],
        "m": {"any": {"q": 1}, "more": {}},
        "t": "text",
    }
    return {k: whole[k] for k in rng.sample(sorted(whole), rng.randrange(6))}


def _line(rng: random.Random) -> str:
    record = _fitting(rng)
    for _ in range(rng.choice([0, 0, 1, 2])):
        record[rng.choice(["a", "s", "l", "m", "t", "A", "new", "q r"])] = _value(rng, 3)
    text = json.dumps(record, ensure_ascii=rng.random() < 0.5, separators=rng.choice([(",", ":"), (" , ", " : ")]))
    return text if rng.random() < 0.95 else text[:-1]


def _unknown(value: Any, known: Any) -> Any:
    """The part of a value that is not known; None when all is."""
    if isinstance(known, dict) and isinstance(value, dict):
        parts = {k: v if k not in known else _unknown(v, known[k]) for k, v in value.items()}
        kept = {k: v for k, v in parts.items() if k not in known or v is not None}
        return kept or None
    if isinstance(known, list) and isinstance(value, list):
        return value if any(_unknown(v, known[0]) is not None for v in value) else None
    if isinstance(known, tuple) and isinstance(value, dict):
        return value if any(_unknown(v, known[1]) is not None for v in value.values()) else None
    return None


def _expected(line: str, wrong: set[str]) -> Any:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    left = _unknown(record, KNOWN) or {}
    return {k: record[k] if k in wrong else left[k] for k in record if k in wrong or k in left} or None


@pytest.mark.parametrize("arrays", [False, True])
def test_json_against_python(seed: int, arrays: bool) -> None:
    rng = random.Random(seed)
    lines = [_line(rng) for _ in range(600)]
    if arrays:
        lines = [line for line in lines if _valid(line)]
        data = ("[" + ",\n".join(lines) + "]").encode()
    else:
        data = "".join(line + "\n" for line in lines).encode()
    plain: list[RowError] = []
    before = tidemill.formats.open("json", COLUMNS).read(data, errors=plain)
    rescuing = tidemill.formats.open("json", COLUMNS, rescuedDataColumn="rest")
    errors: list[RowError] = []
    found = rescuing.read(data, errors=errors)
    assert errors == [e for e in plain if e.reason in KEPT]
    assert found.select(before.column_names).equals(before)
    wrong: dict[bytes, set[str]] = {}
    for error in plain:
        if error.reason not in KEPT:
            wrong.setdefault(error.raw, set()).add(str(error.column))
    texts = found.column("rest").to_pylist()
    assert len(texts) == len(lines)
    for line, text in zip(lines, texts, strict=True):
        expected = _expected(line, wrong.get(line.encode(), set()))
        assert (None if text is None else json.loads(text)) == expected, line
    assert any(texts) and not all(texts)
    _same_in_any_way("json", COLUMNS, data, found, rng, {})


def _valid(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _same_in_any_way(
    format_: str, columns: str, data: bytes, whole: pa.Table, rng: random.Random, options: dict[str, Any]
) -> None:
    """Rows are the same whatever is asked for, in buffers of any size and splits cut anywhere."""
    opened = tidemill.formats.open(format_, columns, rescuedDataColumn="rest", **options)
    for _ in range(6):
        names = rng.sample(whole.column_names, rng.randrange(1, len(whole.column_names) + 1))
        assert opened.read(data, names).equals(whole.select(names))
    names = ["rest", whole.column_names[0]]
    small = data[: data.index(b"\n", 2000) + 1]
    reader = opened.reader(names)
    expected = None
    for size in (1 << 20, 1, 7):
        split = reader.split(start=0, end=len(small), file_size=len(small), in_quotes=False, header=data)
        rows = as_table(feed_split(split, small, [size] * (len(small) // size + 1))).rows
        expected = expected or rows
        assert rows == expected
    whole_rows = list(zip(*(whole.column(n).to_pylist() for n in names), strict=True))
    cut = rng.randrange(1, len(data))
    if not (format_ == "json" and data.startswith(b"[")):
        parts, inside = [], False
        for start, end in ((0, cut), (cut, len(data))):
            split = reader.split(start=start, end=end, file_size=len(data), in_quotes=inside, header=data)
            parts += feed_split(split, data, ())
            inside = bool(split.quote_parity)  # between the two quotes of a doubled one is inside, too
        assert [tuple(r) for r in as_table(parts).rows] == whole_rows


def test_json_paths_and_values_as_written() -> None:
    opened = tidemill.formats.open(
        "json", "city STRING, o STRING, n DECIMAL(3,1)", **{"field.city": "user/city"}, rescuedDataColumn="_r"
    )
    data = (
        b'\xef\xbb\xbf{"user": {"city": "c", "zip": 1.50}, "o": {"x": [1]}}\r\n'
        b'{"user": 7, "n": 1e400, "\\u0041": "\\ud800", "big": 12345678901234567890.10, "n2": NaN}\n'
        b'{"a": 1, "a": {"b" : [ ] }}\n{"n": 12345}\n'
    )
    assert opened.read(data).column("_r").to_pylist() == [
        '{"user":{"zip":1.50}}',
        '{"n":1e400,"A":"\\ud800","big":12345678901234567890.10,"n2":NaN}',
        '{"a":{"b" : [ ] }}',
        '{"n":12345}',
    ]


# -- CSV ----------------------------------------------------------------------------------------------


def _csv_file(rng: random.Random, header: bool) -> tuple[bytes, list[list[str]], list[str]]:
    names = ["a", "b", "c"]
    if header:
        names = rng.sample(["a", "b", "c", "B", "other", 'o"x'], rng.randrange(2, 6))
    rows = []
    for _ in range(300):
        texts = [rng.choice(["1", "x", "", "2020-01-01", 'q"\n,', "é"]) for _ in names]
        texts += [rng.choice(["", "7", "over"]) for _ in range(rng.choice([0, 0, 0, 1, 5]))]
        rows.append(texts)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow(names)
    writer.writerows(rows)
    return out.getvalue().encode(), rows, names


@pytest.mark.parametrize("header", [True, False])
def test_csv_against_python(seed: int, header: bool) -> None:
    rng = random.Random(seed)
    columns = "a BIGINT, b STRING, c DATE"
    for _ in range(4):
        data, rows, names = _csv_file(rng, header)
        opened = tidemill.formats.open("csv", columns, rescuedDataColumn="rest", header=header)
        errors: list[RowError] = []
        found = opened.read(data, errors=errors).to_pylist()
        assert not errors
        expected = [_csv_expected(texts, names) for texts in rows]
        assert [_loaded(row["rest"]) for row in found] == expected
        for texts, row in zip(rows, found, strict=True):
            values = dict(zip(names, texts, strict=False))
            assert row["a"] == (1 if values.get("a") == "1" else None)
            assert row["b"] == (values.get("b") or None)
            assert (row["c"] is None) == (values.get("c") != "2020-01-01")
        _same_in_any_way("csv", columns, data, opened.read(data), rng, {"header": header})


def _loaded(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _csv_expected(texts: Sequence[str], names: Sequence[str]) -> Any:
    fits = {"a": {"1"}, "c": {"2020-01-01"}}
    left = {}
    for i, text in enumerate(texts):
        name = names[i] if i < len(names) else f"_c{i}"
        if text and (i >= len(names) or name not in ("a", "b", "c") or text not in fits.get(name, {text})):
            left[name] = text
    return left or None


@pytest.mark.parametrize("columns", [1, 2, 3, 5])
@pytest.mark.parametrize("texts", [["7", "over", 'q"\n,', "é"], ["7", "", "over"]])
def test_all_rows_have_as_many_further_fields(seed: int, columns: int, texts: list[str]) -> None:
    """Nothing else is rescued, so that all of it comes from one place."""
    rng = random.Random(seed)
    rows = [["1", *(rng.choice(texts) for _ in range(columns))] for _ in range(40)]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    found = tidemill.formats.open("csv", "a BIGINT", rescuedDataColumn="rest").read(out.getvalue().encode())
    found.validate(full=True)
    assert [_loaded(text) for text in found.column("rest").to_pylist()] == [_csv_expected(r, ["a"]) for r in rows]


def test_further_fields_with_wrong_quotes_are_kept_as_written() -> None:
    opened = tidemill.formats.open("csv", "a INT", rescuedDataColumn="rest")
    rows = opened.read(b'1,"u"v,"w""x"\n2,"\n3,y\n').to_pylist()
    assert [json.loads(row["rest"]) for row in rows[:1]] == [{"_c1": '"u"v', "_c2": 'w"x'}]


def test_csv_rows_that_stay_malformed() -> None:
    opened = tidemill.formats.open("csv", "a INT, b STRING, c INT NOT NULL", rescuedDataColumn="r", header=True)
    errors: list[RowError] = []
    data = b'c,a,b\n1,x\n2,"1"2,y\n,y,z\n3,4,\xff\n5,"6\n'
    assert opened.read(data, errors=errors).to_pydict() == {
        "a": [None, None, 4],
        "b": [None, "y", None],
        "c": [1, 2, 3],
        "r": ['{"a":"x"}', '{"a":"2,\\"1\\"2,y"}', None],
    }
    reasons = [(e.reason, e.dropped) for e in errors]
    assert reasons[:3] == [("too_few_fields", False), ("bad_int32", True), ("null_in_not_null", True)]
    assert ("bad_utf8", False) in reasons


# -- modes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [["a"], ["r"], ["b", "r"]])
def test_modes_are_for_what_is_malformed(names: list[str]) -> None:
    data = b'{"a": "x", "b": "1"}\n{"b": "\xff"}\n{"a": 1, "z": 2}\n{"a"\n'
    given: dict[str, Any] = {"rescuedDataColumn": "r"}
    errors: list[RowError] = []
    dropping = tidemill.formats.open("json", "a INT, b STRING", mode="DROPMALFORMED", **given)
    table = dropping.read(data, names, errors=errors)
    whole = {"a": [None, 1], "b": ["1", None], "r": ['{"a":"x"}', '{"z":2}']}
    assert table.to_pydict() == {name: whole[name] for name in names}
    assert [(e.reason, e.dropped) for e in errors] == [("bad_utf8", True), ("bad_json", True)]
    failing = tidemill.formats.open("json", "a INT, b STRING", mode="FAILFAST", **given)
    assert failing.read(data[:21], names).num_rows == 1
    with pytest.raises(TidemillError) as error:
        failing.read(data, names)
    assert error.value.number == "TM4020"


@pytest.mark.parametrize("mode", ["addNewColumns", "failOnNewColumns"])
@pytest.mark.parametrize("names", [["a"], ["a", "_rescued_data"]])
def test_new_columns_alone(mode: str, names: list[str]) -> None:
    given: dict[str, Any] = {"schemaEvolutionMode": mode, "rescuedDataColumn": "_rescued_data"}
    opened = tidemill.formats.open("json", "a INT, s STRUCT<x: INT>", **given)
    assert opened.read(b'{"a": 1, "A": 2, "s": {"y": 1}, "_rescued_data": 1}', names).num_rows == 1
    nested = b'{"a": 1, "s": {"y": 1}}\n{"a": 1, "s": {"x": 1}}\n{"s": {"x": 1, "z": {"x": 2}}}\n'
    within = sum(part.new_within for part in opened.rows(nested, [*names, "s"]))
    assert within == 2 and sum(part.new_within for part in opened.rows(nested, ["a"])) == 0
    plain = tidemill.formats.open("json", "s STRUCT<x: INT>", rescuedDataColumn="_rescued_data")
    assert sum(part.new_within for part in plain.rows(nested)) == 0
    with pytest.raises(NewColumnsError) as error:
        opened.read(b'{"a": 1}\n{"B": 1, "c": [true]}\n{"b": 2.5}', names)
    assert error.value.columns == {"B": pa.float64(), "c": pa.list_(pa.bool_())}
    assert error.value.number == "TM4074"
    with pytest.raises(NewColumnsError):
        tidemill.formats.open("csv", "a INT", header=True, **given).read(b"a,b\n", names)
    with pytest.raises(NewColumnsError) as error:
        tidemill.formats.open("csv", "a INT", **given).read(b"1\n1,,x\n1,\n", names)
    assert list(error.value.columns) == ["_c1", "_c2"]
    assert tidemill.formats.open("csv", "a INT", **given).read(b"1,\n", names).num_rows == 1


@pytest.mark.parametrize("data", [b"1,x\r\r\n2,y\r\n", b"1,x,\r\r\n", b'1,"x"\r\r\n3\n'])
def test_carriage_returns_before_line_ends(data: bytes) -> None:
    opened = tidemill.formats.open("csv", "a STRING", rescuedDataColumn="r")
    found = [
        [t for part in opened.rows(data, None, n) for t in part.batch.column("r").to_pylist()] for n in range(1, 20)
    ]
    assert all(texts == found[0] for texts in found)
    if data.startswith(b"1,x\r"):
        assert found[0][0] == '{"_c1":"x\\r"}'
