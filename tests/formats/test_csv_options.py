"""Every option: what it does and which values it refuses."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from csv_reading import columns, read

from tidemill.errors import FormatError, TidemillError
from tidemill.formats.csv.format import CsvFormat
from tidemill.formats.csv.options import CSV_OPTIONS
from tidemill.schema import TIMESTAMP, Field, Schema

PAIR = columns(a=pa.int32(), b=pa.string())


@pytest.mark.parametrize("name", ["sep", "delimiter", "SEP"])
@pytest.mark.parametrize(("value", "char"), [(";", ";"), ("\\t", "\t"), ("\t", "\t"), ("|", "|")])
def test_separator(name, value, char):
    assert read(f"1{char}x,y\n".encode(), PAIR, {name: value}).rows == ((1, "x,y"),)


def test_quote():
    assert read(b"'1','it''s, \"x\"'\n", PAIR, {"quote": "'"}).rows == ((1, 'it\'s, "x"'),)


def test_an_empty_quote_switches_quoting_off():
    assert read(b'1,"x\n2,y"\n', PAIR, {"quote": ""}).rows == ((1, '"x'), (2, 'y"'))


def test_delimiters_of_several_bytes_from_left_to_right():
    assert read(b"1||x|||y\n", columns(a=pa.int32(), b=pa.string(), c=pa.string()), {"sep": "||"}).rows == (
        (1, "x", "|y"),
    )
    assert read("1żx\n".encode(), PAIR, {"sep": "ż"}).rows == ((1, "x"),)
    assert read(b"1,x\r2,y\n\r", PAIR, {"lineSep": "\r"}).rows == ((1, "x"), (2, "y\n"))
    assert read(b"1;x\n##2;y\r##", PAIR, {"sep": ";", "lineSep": "##"}).rows == ((1, "x\n"), (2, "y\r"))


def test_a_line_end_of_two_bytes_leaves_each_of_them_to_the_text():
    assert read(b"1,x\ny\r\n2,\r\r\n", PAIR, {"lineSep": "\r\n"}).rows == ((1, "x\ny"), (2, "\r"))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, [" a", "b ", "c d", "e,f", 'g"h', " i "]),
        ({"ignoreLeadingWhiteSpace": "true"}, ["a", "b ", "c d", "e,f", 'g"h', " i "]),
        ({"ignoreTrailingWhiteSpace": "true"}, [" a", "b", "c d", "e,f", 'g"h', " i "]),
        ({"nullValue": "c d"}, [" a", "b ", "c d", "e,f", 'g"h', " i "]),
    ],
)
def test_names_of_a_header_are_read_as_values_are(options, names):
    schema = Schema(tuple(Field(name, pa.int32()) for name in reversed(names)))
    data = b'\r\n a,b ,c d,"e,f","g""h"," i "\r\n1,2,3,4,5,6\n'
    assert read(data, schema, {"header": "true", **options}).rows == ((6, 5, 4, 3, 2, 1),)


def test_one_reader_reads_files_with_other_headers():
    reader = CsvFormat().reader(columns(a=pa.int32(), b=pa.int32()), {"header": "true"}, ["a", "b"])

    def rows(data: bytes) -> list[tuple[int, ...]]:
        split = reader.split(start=0, end=len(data), file_size=len(data), in_quotes=False, header=data)
        return [tuple(row.values()) for row in split.feed(data, True).batch.to_pylist()]

    for _ in range(2):
        assert rows(b"a,b\n1,2\n") == rows(b"a,b\n1,2\n3,4\n")[:1] == [(1, 2)]
        assert rows(b"b,a\n1,2\n") == rows(b"\nb,a\n1,2\n") == [(2, 1)]
        assert rows(b"a,b,c\n1,2,3\n") == [(1, 2)]
        assert rows(b"a,b") == rows(b"a,b\n") == []
        with pytest.raises(FormatError, match="TM4010"):
            rows(b"a,bb\n1,2\n")


def test_a_header_may_span_lines_or_not():
    data = b'a,"b\nc"\n1,2\n'
    assert read(data, columns(**{"b\nc": pa.int32()}), {"header": "true"}).rows == ((2,),)
    assert read(data, columns(**{'"b': pa.string()}), {"header": "true", "multiLine": "false"}).rows == (
        (None,), ("2",),
    )  # fmt: skip
    assert read(b'"a\'"b\n5\n', columns(**{'"a\'"b': pa.int32()}), {"header": "true"}).rows == ((5,),)
    assert read(
        b"a\\\"b,'c\\'d'\n5,6\n", columns(**{"c'd": pa.int32()}), {"header": "true", "escape": "\\", "quote": "'"}
    ).rows == ((6,),)


def test_one_line_a_row_needs_lines_that_separators_do_not_reach_into():
    with pytest.raises(TidemillError, match="TM4003") as caught:
        CsvFormat().validate(PAIR, {"multiLine": "false", "sep": "ab", "lineSep": "bc"})
    assert caught.value.hint == "the end of sep must not be the beginning of lineSep: which one counts?"


def test_escape_counts_inside_quotes_only():
    data = rb"""1,"a\"b"
2,"a\\"
3,"a\n"
4,a\"b
5,\
6,"a""b"
"""
    table = read(data, PAIR, {"escape": "\\"})
    assert table.rows == ((1, 'a"b'), (2, "a\\"), (3, "a\\n"), (4, 'a\\"b'), (5, "\\"), (6, None))
    assert table.reasons == [("b", "bad_quote")]
    assert read(data, PAIR, {"escape": "\\", "charToEscapeQuoteEscaping": "\\", "multiLine": "true"}) == table


def test_several_null_markers():
    data = b'1,NA\n-,"\\N"\n3,""\n4,\nNA,x\n'
    table = read(data, PAIR, {"nullValues": '["NA", "\\\\N", "-"]'})
    assert table.rows == ((1, None), (None, None), (3, ""), (4, None), (None, "x"))
    assert table.errors == ()
    assert read(data, PAIR, {"nullValues": '["NA", "\\\\N"]', "nullValue": "-"}) == table


def test_names_of_numbers_that_are_not_finite():
    names = {"nanValue": "nix", "positiveInf": "viel", "negativeInf": "wenig"}
    table = read(b"viel,viel\nwenig,1\nNaN,2\n", columns(a=pa.float32(), b=pa.string()), names)
    assert table.rows[:2] == ((float("inf"), "viel"), (float("-inf"), "1"))
    assert str(read(b"nix\n", columns(a=pa.float64()), names).rows) == "((nan,),)"


def test_escape_equal_to_the_quote():
    assert read(b'1,"a""b"\n', PAIR, {"escape": '"'}).rows == ((1, 'a"b'),)


def test_comment():
    table = read(b"#a,b,c\n1,#x\n#\n2,y", PAIR, {"comment": "#"})
    assert table.rows == ((1, "#x"), (2, "y"))
    assert table.errors == ()


def test_an_empty_comment_switches_comments_off():
    assert read(b"1,#\n", PAIR, {"comment": ""}).rows == ((1, "#"),)


def test_white_space_is_part_of_a_value():
    table = read(b' 1, x \n"2" ,"y" \n', PAIR)
    assert table.rows == ((None, " x "), (None, None))
    assert table.reasons == [("a", "bad_int32"), ("a", "bad_int32"), ("b", "bad_quote")]


def test_ignore_leading_white_space():
    table = read(b' 1,\t x \n "2", " y"\n', PAIR, {"ignoreLeadingWhiteSpace": "true"})
    assert table.rows == ((1, "x "), (2, " y"))


def test_ignore_trailing_white_space():
    table = read(b'1 , x \t\n"2" ,"y " \n', PAIR, {"ignoreTrailingWhiteSpace": "True"})
    assert table.rows == ((1, " x"), (2, "y "))


def test_null_is_compared_after_trimming():
    both = {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}
    assert read(b"1,  \n2, NA \n", PAIR, both).rows == ((1, None), (2, "NA"))
    assert read(b"1,  \n2, NA \n", PAIR, both | {"nullValue": "NA"}).rows == ((1, None), (2, None))


def test_null_value_makes_an_empty_number_malformed():
    table = read(b'NA,x\n"",y\n,z\n', PAIR, {"nullValue": "NA"})
    assert table.rows == ((None, "x"), (None, "y"), (None, "z"))
    assert table.reasons == [("a", "bad_int32")]


def test_date_format():
    table = read(b"31.12.2023\n1.1.2024\n", columns(d=pa.date32()), {"dateFormat": "dd.MM.yyyy"})
    assert table.rows == ((dt.date(2023, 12, 31),), (None,))
    assert table.reasons == [("d", "bad_date")]


def test_timestamp_format():
    table = read(
        b"20240229T235959.5\n20240229T235959.1234\n",
        columns(t=TIMESTAMP),
        {"timestampFormat": "yyyyMMdd'T'HHmmss.SSS"},
    )
    assert table.rows == ((dt.datetime(2024, 2, 29, 23, 59, 59, 500_000, dt.UTC),), (None,))


def test_header_false_and_the_plain_spellings_are_accepted():
    plain = {"header": "FALSE", "encoding": "UTF-8", "lineSep": "\n", "maxColumns": "2", "mode": "permissive"}
    assert read(b"1,x\n", PAIR, plain).rows == ((1, "x"),)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("header", "yes"),
        ("sep", ""),
        ("sep", "\n"),
        ("sep", '"'),
        ("quote", "ab"),
        ("escape", ""),
        ("escape", ","),
        ("escape", "ab"),
        ("sep", 'a"'),
        ("sep", "a\n"),
        ("sep", "\\q"),
        ("sep", "\\x00"),
        ("sep", "x" * 65),
        ("lineSep", ""),
        ("lineSep", ","),
        ("lineSep", 'x"'),
        ("charToEscapeQuoteEscaping", "x"),
        ("nullValues", "NA"),
        ("nullValues", "[]"),
        ("nullValues", "[1]"),
        ("nullValues", '["a\\""]'),
        ("emptyValue", "x"),
        ("multiLine", "no"),
        ("quote", "-"),
        ("quote", "1"),
        ("ignoreSurroundingSpaces", "true"),
        ("unescapedQuoteHandling", "RAISE_ERROR"),
        ("comment", "//"),
        ("comment", '"'),
        ("comment", ","),
        ("mode", "LENIENT"),
        ("dateFormat", "dd EEE yyyy"),
        ("dateFormat", ""),
        ("dateFormat", "yyyy-MM-dd] HH"),
        ("dateFormat", "yyyy-YYYY"),
        ("dateFormat", "yyyy'x"),
        ("timestampFormat", "yyyy-MM-dd hh:mm aa"),
        ("timestampFormat", "SSSSSSSSSS"),
        ("ignoreLeadingWhiteSpace", "1"),
        ("ignoreTrailingWhiteSpace", ""),
        ("encoding", "latin1"),
        ("maxColumns", "0"),
        ("maxColumns", "1"),
        ("maxColumns", "x"),
    ],
)
def test_bad_values_are_refused_when_the_table_is_created(name, value):
    with pytest.raises(TidemillError) as caught:
        CsvFormat().validate(PAIR, {name: value})
    assert caught.value.number == "TM4003"
    assert name.lower() in caught.value.what.lower() or "delimiter" in caught.value.what


def test_separator_under_two_names_must_agree():
    with pytest.raises(TidemillError, match="TM4003"):
        CsvFormat().validate(PAIR, {"sep": ";", "delimiter": "|"})
    CsvFormat().validate(PAIR, {"sep": ";", "delimiter": ";"})


def test_a_bad_value_gets_a_hint():
    with pytest.raises(TidemillError) as caught:
        CsvFormat().validate(PAIR, {"mode": "FAILFATS"})
    assert caught.value.hint == "did you mean 'FAILFAST'?"


@pytest.mark.parametrize("type_", [pa.list_(pa.int32()), pa.struct([("x", pa.int32())]), pa.null()])
def test_types_that_csv_cannot_hold(type_):
    with pytest.raises(TidemillError) as caught:
        CsvFormat().validate(Schema((Field("v", type_),)), {})
    assert caught.value.number == "TM4004"


def test_option_names_are_lower_case():
    assert all(name == name.lower() for name in CSV_OPTIONS.keys)
    assert {"header", "sep", "mode", "linesep", "nullvalue"} <= CsvFormat().option_names
