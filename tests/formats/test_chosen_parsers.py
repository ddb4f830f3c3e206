"""Parsers chosen for single columns: what each understands, errors while planning, parsers from packages."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from importlib.metadata import EntryPoint

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from csv_reading import columns, read
from hypothesis import given
from hypothesis import strategies as st
from long_form import examples
from test_csv_fuzz import assert_same

import tidemill.formats
from tidemill.errors import TidemillError
from tidemill.formats.csv.format import CsvFormat
from tidemill.formats.values.columns import chosen
from tidemill.formats.values.columns.columns import ColumnParser
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ

MALFORMED = "malformed"


def one(name: str, type_: pa.DataType, text: str):
    """The value of a quoted text."""
    quoted = text.replace('"', '""')
    table = read(f'"{quoted}"\n'.encode(), columns(v=type_), {"parser.v": name})
    assert len(table.rows) == 1
    return MALFORMED if table.errors else table.rows[0][0]


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("name", "type_", "text", "value"),
    [
        ("epoch_seconds", TIMESTAMP, "86400", utc(1970, 1, 2)),
        ("epoch_seconds", TIMESTAMP_NTZ, "-0.5", dt.datetime(1969, 12, 31, 23, 59, 59, 500_000)),
        ("epoch_seconds", TIMESTAMP, "1.0000019", utc(1970, 1, 1, 0, 0, 1, 1)),
        ("epoch_seconds", TIMESTAMP, "253402300800", MALFORMED),
        ("epoch_seconds", TIMESTAMP, "1.", MALFORMED),
        ("epoch_seconds", TIMESTAMP, "1e3", MALFORMED),
        ("epoch_millis", TIMESTAMP, "1700000000123", utc(2023, 11, 14, 22, 13, 20, 123_000)),
        ("epoch_micros", TIMESTAMP, "00000000000000000000000000001.9", utc(1970, 1, 1, 0, 0, 0, 1)),
        ("epoch_micros", TIMESTAMP, "99999999999999999999999999999", MALFORMED),
        ("epoch_days", pa.date32(), "-1", dt.date(1969, 12, 31)),
        ("epoch_days", pa.date32(), "2932897", MALFORMED),
        ("hex", pa.int8(), "-0x80", -128),
        ("hex", pa.int8(), "80", MALFORMED),
        ("hex", pa.int64(), "0007fffffffffffffff", 2**63 - 1),
        ("hex", pa.int64(), "-8000000000000000", -(2**63)),
        ("hex", pa.int64(), "10000000000000000", MALFORMED),
        ("hex", pa.int32(), "0x", MALFORMED),
        ("hex", pa.binary(), "\\xdeadBEEF", b"\xde\xad\xbe\xef"),
        ("hex", pa.binary(), "0x", b""),
        ("hex", pa.binary(), "abc", MALFORMED),
        ("base64", pa.binary(), "aGk=", b"hi"),
        ("base64", pa.binary(), "aGk", MALFORMED),
        ("percent", pa.float64(), "12.5%", 0.125),
        ("percent", pa.decimal128(5, 3), "-7.25%", Decimal("-0.073")),
        ("percent", pa.float64(), "12.5", MALFORMED),
        ("percent", pa.float64(), "%", MALFORMED),
        ("comma_groups", pa.int64(), "-1,234,567", -1234567),
        ("comma_groups", pa.int64(), "1234567", 1234567),
        ("comma_groups", pa.int64(), "12,34", MALFORMED),
        ("comma_groups", pa.int64(), "1234,567", MALFORMED),
        ("comma_groups", pa.float64(), "1,000.25e1", 10002.5),
        ("comma_groups", pa.float64(), "1,000.2,5", MALFORMED),
        ("comma_decimal", pa.decimal128(9, 2), "1.234.567,8", Decimal("1234567.80")),
        ("comma_decimal", pa.float64(), "1,5", 1.5),
        ("comma_decimal", pa.float64(), "1.5", MALFORMED),
        ("zero_one", pa.bool_(), "1", True),
        ("zero_one", pa.bool_(), "true", MALFORMED),
        ("YES_NO", pa.bool_(), "N", False),
        ("yes_no", pa.bool_(), "Yes", True),
        ("true_false", pa.bool_(), "T", True),
    ],
)
def test_values(name, type_, text, value):
    assert one(name, type_, text) == value


CASES = [
    *(
        (name, type_)
        for name in ("epoch_seconds", "epoch_millis", "epoch_micros")
        for type_ in (TIMESTAMP, TIMESTAMP_NTZ)
    ),
    ("epoch_days", pa.date32()),
    *(("hex", type_) for type_ in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.binary())),
    ("base64", pa.binary()),
    *(("percent", type_) for type_ in (pa.float32(), pa.float64(), pa.decimal128(9, 3))),
    *((n, t) for n in ("comma_groups", "comma_decimal") for t in (pa.int16(), pa.float64(), pa.decimal128(12, 2))),
    *((name, pa.bool_()) for name in ("zero_one", "yes_no", "true_false")),
]
pieces = st.sampled_from(
    [
        "0",
        "1",
        "9",
        "12",
        "123",
        "000",
        ".",
        ",",
        "-",
        "+",
        "%",
        "e2",
        "0x",
        "\\x",
        "aF",
        "/+",
        "=",
        "==",
        "QUJD",
        "yes",
        "No",
        "t",
        "false",
        " ",
        '"',
        "2932896",
        "253402300799",
        "é",
        "NaN",
        "Infinity",
        "8000000000000000",
    ]
)
some_texts = st.one_of(
    st.lists(pieces, max_size=6).map("".join),
    st.integers(-(10**20), 10**20).map(str),
    st.floats(allow_nan=False).map(lambda x: f"{x:,.3f}"),
    st.decimals(-(10**6), 10**6, places=2).map(lambda x: f"{x}%"),
    st.text(max_size=4),
)


@examples(400)
@given(
    st.lists(st.sampled_from(CASES), min_size=1, max_size=4),
    st.lists(st.lists(some_texts, min_size=4, max_size=4), max_size=8),
    st.fixed_dictionaries(
        {"mode": st.sampled_from(["PERMISSIVE", "DROPMALFORMED"])},
        optional={
            "escape": st.just("\\"),
            "nullValue": st.sampled_from(["0", "1%"]),
            "ignoreLeadingWhiteSpace": st.just("true"),
        },
    ),
    st.booleans(),
    st.lists(st.integers(1, 60), max_size=20),
)
def test_any_texts_give_what_the_plain_parsers_give(cases, rows, options, quoted, sizes):
    schema = columns(**{f"c{i}": type_ for i, (_, type_) in enumerate(cases)})
    options |= {f"parser.c{i}": name for i, (name, _) in enumerate(cases)}
    lines = []
    for row in rows:
        fields = row[: len(cases)]
        lines.append(";".join('"' + f.replace('"', '""') + '"' if quoted else f for f in fields) + "\n")
    data = "".join(lines).encode("utf-8", "replace")
    options["sep"] = ";"
    assert_same(read(data, schema, options, sizes=sizes), data, schema, options)


@examples(200)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_percentages_are_rounded_correctly(number):
    assert one("percent", pa.float64(), f"{number!r}%" if "e" not in repr(number) else "1%") == (
        float(Decimal(repr(number)) / 100) if "e" not in repr(number) else 0.01
    )


def test_patterns_of_single_columns():
    schema = columns(a=pa.date32(), b=pa.date32(), c=TIMESTAMP)
    options = {"dateFormat": "dd.MM.yyyy", "dateFormat.B": "yyyyMMdd", "timestampFormat.c": "yyyy/MM/dd HH"}
    table = read(b"31.12.2023,20240229,2024/01/02 03\n", schema, options)
    assert table.rows == ((dt.date(2023, 12, 31), dt.date(2024, 2, 29), utc(2024, 1, 2, 3)),)


@pytest.mark.parametrize(
    ("option", "value", "hint"),
    [
        ("parser.tmie", "epoch_millis", "there is no such column; did you mean 'time'?"),
        ("parser.time", "epoch_milis", "did you mean 'epoch_millis'?"),
        ("parser.time", "base64", "epoch_seconds, epoch_millis, epoch_micros"),
        ("parser.s", "hex", "there is none for it"),
        ("dateFormat.time", "yyyy", "the column is not a date"),
        ("timestampFormat.d", "yyyy", "the column is not a timestamp"),
        ("dateFormat.d", "ww", "'w' is a letter of week-based patterns"),
    ],
)
def test_errors_while_planning(option, value, hint):
    schema = columns(time=TIMESTAMP, s=pa.string(), d=pa.date32())
    with pytest.raises(TidemillError) as caught:
        CsvFormat().validate(schema, {option: value})
    assert caught.value.number == "TM4003"
    assert option.lower() in caught.value.what.lower()
    assert hint in caught.value.hint


def test_a_parser_and_a_pattern_for_one_column():
    with pytest.raises(TidemillError, match="TM4003"):
        CsvFormat().validate(columns(d=pa.date32()), {"parser.d": "epoch_days", "dateFormat.d": "yyyyMMdd"})


def test_without_a_mill():
    opened = tidemill.formats.open("csv", "t TIMESTAMP, v DOUBLE", **{"parser.t": "epoch_seconds", "sep": "||"})
    assert opened.read(b"1.5||2\n").to_pydict() == {"t": [utc(1970, 1, 1, 0, 0, 1, 500_000)], "v": [2.0]}


def roman(type_: pa.DataType) -> ColumnParser | None:
    """A parser as a package would offer it: a function on Arrow arrays."""
    if not pa.types.is_int64(type_):
        return None
    numerals = pa.array([b"I", b"II", b"III", b"IV"])
    return chosen.parser_of_texts(lambda texts: pc.add(pc.index_in(texts, numerals).cast(pa.int64()), 1), "bad_roman")


@pytest.fixture
def offer(monkeypatch):
    def install(name: str, value: str) -> None:
        entries = [EntryPoint(name, value, chosen.ENTRY_POINT_GROUP)]
        monkeypatch.setattr(chosen, "entry_points", lambda *, group: entries)

    chosen._factory.cache_clear()
    yield install
    chosen._factory.cache_clear()


def test_a_package_offers_a_parser(offer):
    offer("Roman", "test_chosen_parsers:roman")
    table = read(b'IV,1\n"II",2\n,3\nV,4\n"I"x,5\n', columns(r=pa.int64(), n=pa.int64()), {"parser.r": "roman"})
    assert table.rows == ((4, 1), (2, 2), (None, 3), (None, 4), (None, 5))
    assert table.reasons == [("r", "bad_roman"), ("r", "bad_quote")]


def test_a_broken_package(offer):
    offer("roman", "no.such.module:parser")
    with pytest.raises(TidemillError) as caught:
        CsvFormat().validate(columns(r=pa.int64()), {"parser.r": "roman"})
    assert caught.value.number == "TM4002"
    assert "no.such.module:parser" in caught.value.got


def test_an_overflow_is_infinite_as_for_other_floats():
    assert math.isinf(one("percent", pa.float32(), "9" * 50 + "%"))
