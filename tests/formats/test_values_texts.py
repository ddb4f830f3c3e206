"""Strings, binaries, booleans, dates, timestamps, patterns."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from column_parsing import MALFORMED, parse, parse_plainly
from hypothesis import given
from hypothesis import strategies as st
from long_form import examples
from tests.formats.csv_reference import plain_text

from tidemill.formats.values.columns.columns import parser_for
from tidemill.formats.values.field_text import TextRules
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ

EXAMPLES = examples(300)


def test_booleans():
    texts = [
        b"true",
        b"TRUE",
        b"False",
        b"tRuE",
        b"1",
        b"0",
        b"t",
        b"yes",
        b"",
        b"true ",
        b"TRUE\0",
        b"\x54RU\x05",
    ]
    assert parse(pa.bool_(), texts) == [True, True, False, True] + [MALFORMED] * 8


@EXAMPLES
@given(
    st.lists(
        st.one_of(st.binary(min_size=1, max_size=20), st.text(min_size=1, max_size=20).map(str.encode)), min_size=1
    )
)
def test_strings_like_python(texts):
    assert parse(pa.string(), texts) == [parse_plainly(pa.string(), text) for text in texts]
    assert parse(pa.binary(), texts) == texts


_PIECES = st.sampled_from(['""', '""', '"', "a", "some words ", ",", "é", "x" * 15])


def _quoted_text(raw: bytes, utf8: bool) -> str | bytes | None:
    """What a field means that may stand in quotes, in plain Python; None for NULL, wrong quotes and wrong bytes."""
    try:
        text, _ = plain_text(raw, ord('"'))
        return (text.decode() if utf8 else text) if text else None
    except ValueError:
        return None


@EXAMPLES
@given(
    st.lists(st.tuples(st.booleans(), st.lists(_PIECES, min_size=1, max_size=9).map("".join)), min_size=1),
    st.integers(0, 3),
)
def test_quoted_strings_like_the_plain_parser(fields, cut):
    raws = [(f'"{text}"' if enclosed else text).encode() for enclosed, text in fields]
    raws = [raw[: len(raw) - cut] if cut and k % 5 == 0 else raw for k, raw in enumerate(raws)]
    ends = np.cumsum([len(raw) + 1 for raw in raws]).astype(np.int32) - np.int32(1)
    starts = ends - np.array([len(raw) for raw in raws], np.int32)
    buf = np.frombuffer(b"".join(raw + b"," for raw in raws) + b"-" * 70, np.uint8)
    for type_ in (pa.string(), pa.binary()):
        parser = parser_for(type_)
        column = parser.parse(buf, starts, ends, TextRules(ord('"'), 0, np.empty(0, np.uint8)))
        column.array.validate(full=True)
        assert column.array.to_pylist() == [_quoted_text(raw, type_ == pa.string()) for raw in raws]


@pytest.mark.parametrize(
    "text",
    [
        b"\x80",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xc3",
        b"\xe2\x82",
        b"a" * 20 + b"\xff",
    ],
)
def test_strings_that_are_not_utf8(text):
    # The neighbours would complete a cut sequence, if anybody looked past the end of the text.
    assert parse(pa.string(), [text, b"ok"], between=b"\x82") == [MALFORMED, "ok"]


def test_dates():
    texts = [b"1970-01-01", b"2024-2-9", b"2000-02-29", b"0001-01-01", b"9999-12-31", b"1969-12-31"]
    assert parse(pa.date32(), texts) == [
        dt.date(1970, 1, 1),
        dt.date(2024, 2, 9),
        dt.date(2000, 2, 29),
        dt.date(1, 1, 1),
        dt.date(9999, 12, 31),
        dt.date(1969, 12, 31),
    ]
    bad = [
        b"",
        b"1900-02-29",
        b"2023-13-01",
        b"2023-00-01",
        b"2023-01-00",
        b"2023-04-31",
        b"0000-01-01",
        b"20044-08-28",
        b"-2004-08-28",
        b"2024-01-011",
        b"2024-01",
        b"2024/01/01",
        b"24-01-01",
        b"2024-01-01 ",
        b"2024--1-01",
    ]
    assert parse(pa.date32(), bad) == [MALFORMED] * len(bad)


def test_every_day_of_four_centuries():
    days = [dt.date(1900, 1, 1) + dt.timedelta(n) for n in range(0, 146_097, 3)]
    assert parse(pa.date32(), [str(day).encode() for day in days]) == days


def at(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)


def test_timestamps():
    cases = {
        b"2008-07-11 12:32:07.278912": at(2008, 7, 11, 12, 32, 7, 278912),
        b"2008-07-11T12:32:07": at(2008, 7, 11, 12, 32, 7),
        b"2008-07-11T12:32": at(2008, 7, 11, 12, 32),
        b"2008-07-11 12:32Z": at(2008, 7, 11, 12, 32),
        b"2008-07-11 12:32:07+0200": at(2008, 7, 11, 10, 32, 7),
        b"2008-07-11 12:32-0130": at(2008, 7, 11, 14, 2),
        b"2008-07-11": at(2008, 7, 11),
        b"2008-7-1 00:00:00.5": at(2008, 7, 1, 0, 0, 0, 500000),
        b"2008-07-11 12:32:07Z": at(2008, 7, 11, 12, 32, 7),
        b"2008-07-11 12:32:07.1+02:30": at(2008, 7, 11, 10, 2, 7, 100000),
        b"2008-07-11 12:32:07-18:00": at(2008, 7, 12, 6, 32, 7),
        b"1969-12-31 23:59:59.999999999": at(1969, 12, 31, 23, 59, 59, 999999),
    }
    assert parse(TIMESTAMP, list(cases)) == list(cases.values())
    bad = [
        b"",
        b"2008-07-11 ",
        b"2008-07-11 12:3",
        b"2008-07-11 12:32.5",
        b"2008-07-11 24:00:00",
        b"2008-07-11 12:60:00",
        b"2008-07-11 12:00:60",
        b"2008-07-11 12:32:07.",
        b"2008-07-11 12:32:07.1234567890",
        b"2008-07-11 12:32:07+020",
        b"2008-07-11 12:32:07+02000",
        b"2008-07-11 12:32:07+18:01",
        b"2008-07-11 12:32:07+01:60",
        b"2008-07-11 12:32:07 Z",
        b"2008-07-11 12:32:07z",
        b"2008-02-30 00:00:00",
        b"2008-07-11x12:32:07",
        b"12:32:07",
        b"2008-07-11Z",
        b"0001-01-01 00:00:00+01:00",
        b"9999-12-31 23:59:59-01:00",
    ]
    assert parse(TIMESTAMP, bad) == [MALFORMED] * len(bad)


def test_timestamps_without_zone():
    texts = [b"2008-07-11 12:32:07.5", b"2008-07-11", b"2008-07-11 12:32:07Z", b"2008-07-11 12:32:07+00:00"]
    assert parse(TIMESTAMP_NTZ, texts) == [
        dt.datetime(2008, 7, 11, 12, 32, 7, 500000),
        dt.datetime(2008, 7, 11),
        MALFORMED,
        MALFORMED,
    ]


PATTERNS = [
    "yyyy-MM-dd",
    "dd/MM/yyyy",
    "yyyyMMddHHmmss",
    "MM.yyyy",
    "HH:mm",
    "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "'on 'dd MM yyyy",
    "ss.S",
    "dd''MM",
]
time_like = st.text("0123456789-:. TZ/+on'", max_size=26).map(str.encode)
moments = st.datetimes(min_value=dt.datetime(1, 1, 1)).map(lambda m: m.isoformat(" ").encode())
zoned = st.tuples(moments, st.sampled_from([b"Z", b"+01:00", b"-17:59", b"+1:00"])).map(b"".join)
layouts = {
    "yyyy-MM-dd": "%Y-%m-%d",
    "dd/MM/yyyy": "%d/%m/%Y",
    "yyyyMMddHHmmss": "%Y%m%d%H%M%S",
    "MM.yyyy": "%m.%Y",
}


@EXAMPLES
@given(
    st.sampled_from([pa.date32(), TIMESTAMP, TIMESTAMP_NTZ]),
    st.lists(st.one_of(time_like, moments, zoned), min_size=1, max_size=5),
)
def test_times_like_python(type_, texts):
    assert parse(type_, texts) == [parse_plainly(type_, text) for text in texts]


@EXAMPLES
@given(
    st.sampled_from(PATTERNS),
    st.datetimes(min_value=dt.datetime(1000, 1, 1)),
    st.lists(time_like, max_size=4),
)
def test_patterns_like_python(pattern, moment, texts):
    texts = [*texts, *(moment.strftime(layout).encode() for layout in layouts.values())]
    for type_ in (pa.date32(), TIMESTAMP, TIMESTAMP_NTZ):
        assert parse(type_, texts, pattern) == [parse_plainly(type_, text, pattern) for text in texts]


@pytest.mark.parametrize(
    ("pattern", "text", "value"),
    [
        ("dd/MM/yyyy", b"09/02/2024", dt.datetime(2024, 2, 9)),
        ("yyyyMMddHHmmss", b"20240209235958", dt.datetime(2024, 2, 9, 23, 59, 58)),
        ("yyyy", b"2024", dt.datetime(2024, 1, 1)),
        ("HH:mm", b"07:08", dt.datetime(1970, 1, 1, 7, 8)),
        ("yyyy-MM-dd HH:mm:ss.SSS", b"2024-02-09 00:00:00.12", dt.datetime(2024, 2, 9, 0, 0, 0, 120000)),
        ("yyyy 'o''clock'", b"2024 o'clock", dt.datetime(2024, 1, 1)),
        ("yyyy''", b"2024'", dt.datetime(2024, 1, 1)),
        ("yyyy年MM", "2024年05".encode(), dt.datetime(2024, 5, 1)),
        ("dd/MM/yyyy", b"9/2/2024", MALFORMED),
        ("yyyy-MM-dd", b"2024-02-30", MALFORMED),
        ("HH:mm", b"24:00", MALFORMED),
        ("ss", b"60", MALFORMED),
        ("yyyy.S", b"2024.", MALFORMED),
        ("yyyy", b"2024 ", MALFORMED),
    ],
)
def test_patterns(pattern, text, value):
    assert parse(TIMESTAMP_NTZ, [text], pattern) == [value]


def test_types_without_a_parser():
    assert parser_for(pa.list_(pa.int32())) is None
    assert parser_for(pa.uint8()) is None
