"""What is a row, what is a field, and what is NULL."""

from __future__ import annotations

import pyarrow as pa
import pytest
from csv_reading import columns, feed_split, read

from tidemill.errors import FormatError
from tidemill.formats.csv.format import CsvFormat
from tidemill.schema import Field, Schema

TWO = columns(a=pa.string(), b=pa.string())
ID_NAME = columns(id=pa.int64(), name=pa.string())


def values(data: bytes, schema: Schema = TWO, **options: str) -> list[tuple]:
    table = read(data, schema, options)
    assert table.errors == ()
    return list(table.rows)


def test_both_line_ends_end_rows_and_the_last_one_may_lack():
    assert values(b"1,2\r\n3,4\n5,6") == [("1", "2"), ("3", "4"), ("5", "6")]


def test_a_carriage_return_elsewhere_is_data():
    assert values(b'1,2\na\rb,"x\r\ny"\r\n1,2\r') == [("1", "2"), ("a\rb", "x\r\ny"), ("1", "2")]


def test_empty_lines_are_no_rows_even_with_one_column():
    assert read(b"\n\r\nx\n\n", columns(a=pa.string())).positions == (3,)


def test_an_empty_file_has_no_rows():
    reader = CsvFormat().reader(TWO, {}, ["a"])
    split = reader.split(start=0, end=0, file_size=0, in_quotes=None, header=None)
    assert split.done
    assert (split.read_from, split.quote_parity, split.assumed_in_quotes) == (0, 0, False)
    assert split.feed(b"", True).count == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'"a, b"', "a, b"),
        (b'"say ""hi"""', 'say "hi"'),
        (b'""""', '"'),
        (b'"two\nlines"', "two\nlines"),
        (b'5" pipe 6" wide', '5" pipe 6" wide'),
        (b'x"a', 'x"a'),
        (b'x""', 'x""'),
        (b' "a"', ' "a"'),
    ],
)
def test_quotes(text, value):
    assert values(text + b",2\n") == [(value, "2")]


def test_quoted_commas_of_a_peer_but_quotes_are_taken_off():
    # NebulaStream's case CSVWithComma; there quotes only toggle and stay in the value.
    data = b'"a","1,2,3"\n",","4,5,6"\n"b","7,,8"\n"c",""\n"d",","\n'
    assert values(data) == [("a", "1,2,3"), (",", "4,5,6"), ("b", "7,,8"), ("c", None), ("d", ",")]


def test_an_escape_that_first_appears_late():
    data = b"".join(b"%d,plain\n" % i for i in range(2048)) + b'2048,""","\n'
    assert values(data, ID_NAME)[-1] == (2048, '",')


@pytest.mark.parametrize("padding", range(70))
def test_a_line_end_in_quotes_on_a_buffer_boundary_keeps_both_bytes(padding):
    data = b'0,"' + b"z" * padding + b'A\r\nB"\r\n1,plain\n'
    table = read(data, ID_NAME, sizes=[64, 64, 64])
    assert table.rows == ((0, "z" * padding + "A\r\nB"), (1, "plain"))


@pytest.mark.parametrize("size", [4095, 4096, 4097, 4098])
def test_separators_and_line_ends_around_a_boundary(size):
    row = b",".join([b"9223372036854775807"] * 204) + b"\n"
    schema = Schema(tuple(Field(f"c{i}", pa.int64()) for i in range(204)))
    table = read(row * 3, schema, sizes=[size] * 3)
    assert table.rows == ((2**63 - 1,) * 204,) * 3
    assert table.errors == ()


def test_a_row_over_many_small_buffers_is_read_in_linear_time():
    value = "x" * 300_000
    table = read(f'1,"{value}"\n2,y'.encode(), ID_NAME, sizes=[7] * 50_000)
    assert table.rows == ((1, value), (2, "y"))


def test_a_quote_inside_a_field_is_text_and_joins_no_rows():
    table = read(b'5" pipe,1\nx"a,b"\n"y",3\nz",4\n', TWO)
    assert table.rows == (('5" pipe', "1"), ('x"a', 'b"'), ("y", "3"), ('z"', "4"))
    assert table.errors == ()


def test_empty_is_null_as_in_spark():
    assert values(b',""\n"",\n') == [(None, None), (None, None)]


def test_null_value_keeps_quoted_empty_texts_as_in_spark():
    assert values(b'NA,"NA"\n,x\n"",y\n', nullValue="NA") == [(None, None), (None, "x"), ("", "y")]


def test_byte_order_mark_is_skipped():
    table = read(b"\xef\xbb\xbf1,a\n2,b\n", ID_NAME)
    assert table.rows == ((1, "a"), (2, "b"))
    assert table.positions == (0, 7)
    assert values(b'\xef\xbb\xbf"1",a\n', ID_NAME) == [(1, "a")]
    assert values(b"\xef\xbb\xbf\n1,a\n", ID_NAME) == [(1, "a")]


def test_no_needed_columns_leave_the_row_count():
    reader = CsvFormat().reader(TWO, {}, [])
    data = b'1,2\n"\n",4\n\n5,6'
    split = reader.split(start=0, end=len(data), file_size=len(data), in_quotes=False, header=None)
    (rows,) = feed_split(split, data)
    assert rows.batch.num_columns == 0
    assert rows.batch.num_rows == rows.count == 3
    assert rows.positions.tolist() == [0, 4, 11]


def test_batches_have_the_types_of_the_schema_in_the_order_needed():
    schema = Schema((Field("a", pa.int8(), False), Field("b", pa.string())))
    reader = CsvFormat().reader(schema, {}, ["b", "a"])
    split = reader.split(start=0, end=4, file_size=4, in_quotes=False, header=None)
    batch = split.feed(b"1,x\n", True).batch
    assert batch.schema == pa.schema([pa.field("b", pa.string()), pa.field("a", pa.int8(), False)])
    assert batch.to_pylist() == [{"b": "x", "a": 1}]


def test_a_writable_buffer_may_be_used_again_after_the_call():
    reader = CsvFormat().reader(TWO, {}, ["a", "b"])
    split = reader.split(start=0, end=8, file_size=8, in_quotes=False, header=None)
    buffer = bytearray(b"1,2\n3")
    first = split.feed(memoryview(buffer), False)
    buffer[:] = b"99999"
    second = split.feed(b",4\n", True)
    assert first.batch.to_pylist() == [{"a": "1", "b": "2"}]
    assert second.batch.to_pylist() == [{"a": "3", "b": "4"}]


def test_a_buffer_of_2_gib_is_refused(monkeypatch):
    monkeypatch.setattr("tidemill.formats.rows.malformed._MOST_BYTES", 3)
    with pytest.raises(FormatError) as caught:
        read(b"1,2\n", TWO)
    assert caught.value.number == "TM4021"
    with pytest.raises(FormatError, match="TM4021"):  # a row that does not end is not collected any longer
        read(b"1,2345", TWO, sizes=[1] * 6)


HEADED = {"header": "true"}


def test_header_matches_by_name_in_any_case_and_order():
    table = read(b'extra,NAME,"Id"\nx,ann,1\ny,bob,2\n', ID_NAME, HEADED)
    assert table.rows == ((1, "ann"), (2, "bob"))
    assert table.positions == (16, 24)
    assert table.errors == ()


def test_header_behind_mark_empty_lines_and_comments():
    data = b"\xef\xbb\xbf\n# made today\nid,name\n1,ann\n"
    assert read(data, ID_NAME, HEADED | {"comment": "#"}).rows == ((1, "ann"),)
    assert read(b"\xef\xbb\xbfid,name\r\n1,ann\n", ID_NAME, HEADED).rows == ((1, "ann"),)


def test_header_without_rows_and_file_without_header():
    assert read(b"id,name", ID_NAME, HEADED).rows == ()
    assert read(b"", ID_NAME, HEADED).rows == ()
    assert read(b"\n\n", ID_NAME, HEADED).rows == ()


def test_rows_are_counted_against_the_header():
    table = read(b"name,id,more\na,1\nb,2,x,y\n", ID_NAME, HEADED)
    assert table.rows == ((1, "a"), (2, "b"))
    assert table.reasons == [(None, "too_few_fields"), (None, "too_many_fields")]


@pytest.mark.parametrize(
    ("header", "number", "got"),
    [
        (b"id,nome\n1,a\n", "TM4010", "id, nome"),
        (b"id,name,ID\n1,a,2\n", "TM4011", "id, name, ID"),
    ],
)
def test_header_that_does_not_fit(header, number, got):
    with pytest.raises(FormatError) as caught:
        read(header, ID_NAME, HEADED)
    assert caught.value.number == number
    assert caught.value.got == got
    assert ("name" if number == "TM4010" else "id") in caught.value.what


def test_header_not_given():
    reader = CsvFormat().reader(ID_NAME, HEADED, ["id"])
    assert reader.header_bytes_needed()
    with pytest.raises(FormatError) as caught:
        reader.split(start=10, end=20, file_size=20, in_quotes=None, header=None)
    assert caught.value.number == "TM4012"


def test_header_line_alone_is_enough_for_later_splits():
    data = b"name,id\na,1\nb,2\nc,3\n"
    reader = CsvFormat().reader(ID_NAME, HEADED, ["id"])
    for header in (b"name,id", b"name,id\n", data):
        found = []
        for start, end in ((0, 9), (9, 13), (13, 20)):
            split = reader.split(start=start, end=end, file_size=len(data), in_quotes=False, header=header)
            for rows in feed_split(split, data):
                found += rows.batch.column(0).to_pylist()
        assert found == [1, 2, 3]
