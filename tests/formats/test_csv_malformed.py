"""Every reason, in every mode."""

from __future__ import annotations

import pyarrow as pa
import pytest
from csv_reading import columns, read

from tidemill.errors import FormatError
from tidemill.formats.base import RowError
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Field, Schema

PAIR = columns(a=pa.int32(), b=pa.string())
STRICT = Schema((Field("a", pa.int32(), False), Field("b", pa.string())))
DROP = {"mode": "dropmalformed"}
FAIL = {"mode": "FAILFAST"}


def test_too_few_fields_leave_null():
    table = read(b"1\n2,x\n", PAIR)
    assert table.rows == ((1, None), (2, "x"))
    assert table.errors == (RowError(0, None, "too_few_fields", b"1", False, 1),)


def test_too_many_fields_are_ignored():
    table = read(b'1,x,,\r\n2,"y,"\n', PAIR)
    assert table.rows == ((1, "x"), (2, "y,"))
    assert table.errors == (RowError(0, None, "too_many_fields", b"1,x,,", False, 4),)


@pytest.mark.parametrize(
    ("type_", "text", "reason"),
    [
        (pa.bool_(), b"1", "bad_bool"),
        (pa.int8(), b"128", "bad_int8"),
        (pa.int16(), b"-32769", "bad_int16"),
        (pa.int32(), b"0x1F", "bad_int32"),
        (pa.int64(), b"1.0", "bad_int64"),
        (pa.float32(), b"3_14", "bad_float32"),
        (pa.float64(), b"3.14.5", "bad_float64"),
        (pa.decimal128(3, 1), b"100", "bad_decimal"),
        (pa.date32(), b"2023-02-29", "bad_date"),
        (TIMESTAMP, b"2024-01-01 24:00:00", "bad_timestamp"),
        (TIMESTAMP_NTZ, b"2024-01-01 00:00:00Z", "bad_timestamp_ntz"),
        (pa.string(), b"\xc0\x80", "bad_utf8"),
        (pa.string(), b'"a"b', "bad_quote"),
        (pa.binary(), b'"a"b""', "bad_quote"),
        (pa.int32(), b'" "', "bad_int32"),
        (pa.bool_(), b'"y"', "bad_bool"),
        (pa.float64(), b'"."', "bad_float64"),
        (pa.decimal128(3, 1), b'"-"', "bad_decimal"),
        (pa.date32(), b'"1"', "bad_date"),
        (TIMESTAMP, b'"T"', "bad_timestamp"),
    ],
)
def test_a_bad_value_is_null_with_a_reason(type_, text, reason):
    schema = columns(a=pa.int64(), v=type_)
    table = read(b"1,\n7," + text + b"\n", schema)
    assert table.rows == ((1, None), (7, None))
    assert table.reasons == [("v", reason)]
    assert table.errors[0].position == 3


@pytest.mark.parametrize("text", [b"3_14", b"abc", b"3.14.5", b"null", b"3 14", b"3..14", b"1e", b"e5", b".", b"+"])
def test_floats_that_a_peer_calls_malformed(text):
    assert read(text + b"\n", columns(v=pa.float64())).reasons == [("v", "bad_float64")]


def test_several_errors_of_a_row_come_in_schema_order():
    schema = columns(a=pa.int32(), b=pa.int32(), c=pa.int32())
    table = read(b"x,y\n1,z,3\n", schema, needed=["c", "b", "a"])
    assert table.reasons == [
        (None, "too_few_fields"),
        ("a", "bad_int32"),
        ("b", "bad_int32"),
        ("b", "bad_int32"),
    ]
    assert [e.position for e in table.errors] == [0, 0, 0, 4]
    assert table.errors[3].raw == b"1,z,3"


def test_unterminated_quote_makes_the_rest_one_malformed_row():
    table = read(b'1,x\n2,"y\n3,z\n', PAIR)
    assert table.rows == ((1, "x"), (None, None))
    assert table.errors == (RowError(4, None, "unterminated_quote", b'2,"y\n3,z\n', False, 6),)
    with pytest.raises(FormatError, match=r"unterminated_quote \(9 bytes up to the end of the file\)"):
        read(b'1,x\n2,"y\n3,z\n', PAIR, FAIL)


def test_one_line_a_row_recovers_at_the_next_line():
    data = b'1,x\n2,"y\n3,"z"\r\n4,"a,b\r\n"5,c\n6,"d""\n7,"e" \n"8","f"\n9,"'
    table = read(data, PAIR, {"multiLine": "false"})
    assert table.rows == (
        (1, "x"), (2, None), (3, "z"), (4, None), (None, None), (6, None), (7, None), (8, "f"), (9, None),
    )  # fmt: skip
    assert [(e.column, e.reason, e.raw) for e in table.errors] == [
        ("b", "bad_quote", b'2,"y'), ("b", "bad_quote", b'4,"a,b'), (None, "too_few_fields", b'"5,c'),
        ("a", "bad_int32", b'"5,c'), ("b", "bad_quote", b'6,"d""'), ("b", "bad_quote", b'7,"e" '),
        ("b", "bad_quote", b'9,"'),
    ]  # fmt: skip


def test_carriage_returns_as_line_ends():
    """At the end of the file one ends a row. Elsewhere they are told, in the first row; or in each, of one line."""
    assert read(b"1,x\n2,y\r", PAIR).rows == ((1, "x"), (2, "y"))
    assert read(b"1,x\n2,y\r", PAIR, {"escape": "\\"}).rows == ((1, "x"), (2, "y"))
    assert read(b"1,x\n\r", PAIR).rows == ((1, "x"),)
    found = read(b"x\ry\rz\r", columns(a=pa.string()))
    assert found.rows == (("x\ry\rz",),)
    assert found.errors == (RowError(0, None, "bare_carriage_return", b"x\ry\rz", False, 1),)
    assert read(b'"x\ry"\nz\rz\n', columns(a=pa.string())).errors == ()
    assert read(b"x\ry\r", columns(a=pa.string()), {"lineSep": "\r"}).rows == (("x",), ("y",))
    data = b'#\r#\n1,x\n2,"y\ry"\n#\r#\n3,z\r\n4,u\rv\n'
    lines = read(data, PAIR, {"multiLine": "false", "comment": "#"})
    assert lines.reasons == [(None, "bare_carriage_return")] * 2
    assert [(e.position, e.at) for e in lines.errors] == [(8, 12), (25, 28)]
    with pytest.raises(FormatError, match="TM4010") as caught:
        read(b"a,b\r1,x\r", PAIR, {"header": "true"})
    assert caught.value.hint == r"carriage returns end the lines of the file: lineSep '\r' reads it"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_mark_of_utf_16_is_told(encoding):
    data = "\ufeffa,b\n1,x\n2,y\n".encode(encoding)
    found = read(data, PAIR)
    assert (found.errors[0].position, found.errors[0].reason) == (0, "utf16_mark")
    with pytest.raises(FormatError, match="TM4010") as caught:
        read(data, PAIR, {"header": "true"})
    assert caught.value.hint == "the file begins with the mark of UTF-16: convert it to UTF-8"


def test_unterminated_quote_in_a_comment_leaves_the_row_before_alone():
    table = read(b'1,x\n# "y\n2,y\n#,"y\n3,z\n', PAIR, {"comment": "#"})
    assert table.rows == ((1, "x"), (2, "y"))
    assert table.errors == (RowError(13, None, "quote_in_comment", b'#,"y\n3,z\n', True),)


def test_a_comment_with_closed_quotes_is_silent():
    table = read(b'# it is "fine"\n1,x\n#\n', PAIR, {"comment": "#"})
    assert table.rows == ((1, "x"),)
    assert table.errors == ()


@pytest.mark.parametrize("needed", [["a", "b"], ["b"], []])
def test_null_or_bad_in_not_null_drops_the_row_whatever_is_needed(needed):
    table = read(b"1,x\n,y\nq,z\n2,\n", STRICT, needed=needed)
    assert table.positions == (0, 11)
    assert table.errors == (
        RowError(4, "a", "null_in_not_null", b",y", True, 4),
        RowError(7, "a", "null_in_not_null", b"q,z", True, 7),
    )


def test_missing_not_null_field_drops_the_row_with_all_its_errors():
    schema = Schema((Field("a", pa.int32()), Field("b", pa.string(), False)))
    table = read(b"1\n2,x\n", schema)
    assert table.rows == ((2, "x"),)
    assert [(e.column, e.reason, e.dropped) for e in table.errors] == [
        (None, "too_few_fields", True),
        ("b", "null_in_not_null", True),
    ]


@pytest.mark.parametrize("needed", [["b"], ["a", "b"], []])
def test_dropmalformed_checks_all_columns(needed):
    table = read(b"1,x\nbad,y\n2\n3,z,4\n5,w\n", PAIR, DROP, needed=needed)
    assert table.positions == (0, 18)
    assert [(e.position, e.reason, e.dropped) for e in table.errors] == [
        (4, "bad_int32", True),
        (10, "too_few_fields", True),
        (12, "too_many_fields", True),
    ]


@pytest.mark.parametrize("needed", [["b"], ["a", "b"], []])
def test_failfast_raises_at_the_first_malformed_row(needed):
    with pytest.raises(FormatError) as caught:
        read(b"1,x\nbad,y\n2\n", PAIR, FAIL, needed=needed)
    assert caught.value.number == "TM4020"
    assert caught.value.got == "byte 4, column 'a', at byte 4: bad_int32: bad,y"


def test_failfast_names_no_column_for_the_row_as_a_whole():
    with pytest.raises(FormatError) as caught:
        read(b"1\n", PAIR, FAIL)
    assert caught.value.got == "byte 0, at byte 1: too_few_fields: 1"
    assert read(b"1,x\n", PAIR, FAIL).rows == ((1, "x"),)


def test_permissive_reports_bad_values_of_needed_columns_only():
    assert read(b"bad,x\n", PAIR, needed=["b"]).errors == ()


def test_malformed_rows_leave_their_neighbours_alone():
    data = b"".join(b"%d,ok\n" % i + b"x" * (i % 70) + b'"",\xff\n' for i in range(200))
    table = read(data, PAIR, sizes=[97] * 400)
    assert [row for row in table.rows if row[0] is not None] == [(i, "ok") for i in range(200)]
    assert len(table.rows) == 400


@pytest.mark.parametrize("data", [b"\r\r\n1\n", b"\n\r\r\n1\n"])
@pytest.mark.parametrize("multi_line", ["true", "false"])
def test_a_header_of_a_carriage_return_alone(data, multi_line):
    with pytest.raises(FormatError, match="TM4010"):
        read(data, columns(a=pa.int64()), {"header": "true", "multiLine": multi_line})
