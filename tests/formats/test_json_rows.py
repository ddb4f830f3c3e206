"""What each construct of JSON becomes, what is malformed, and what options do."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.json
import pytest
from csv_reading import columns
from json_reading import read

from tidemill.errors import TidemillError
from tidemill.formats.base import WholeByBeginning, WholeFiles
from tidemill.formats.json.format import JsonFormat
from tidemill.formats.json.options import JSON_OPTIONS
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Field, Schema

A = columns(a=pa.int64())
TEXT = columns(a=pa.string())
POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])


def one(text: str, type_: pa.DataType, options: dict[str, str] | None = None) -> object:
    """The value of ``a``, or the reason why it is malformed."""
    table = read(b'{"a":' + text.encode() + b"}", columns(a=type_), options)
    return table.errors[0].reason if table.errors else table.rows[0][0]


def test_missing_null_and_empty_are_three_things():
    table = read(b'{}\n{"a":null}\n{"a":""}\n', TEXT)
    assert table.rows == ((None,), (None,), ("",))
    assert table.errors == ()
    strict = read(b'{}\n{"a":null}\n{"a":""}\n', Schema((Field("a", pa.string(), False),)))
    assert strict.rows == (("",),)
    assert strict.reasons == [("a", "null_in_not_null")] * 2


def test_keys_in_any_order_and_twice():
    two = columns(a=pa.int64(), b=pa.string())
    data = b'{"a":1,"b":"x"}\n{"b":"y","z":[{"a":9}],"a":2}\n{"a":3,"a":4}\n{"a":5,"b":"x","a":null}\n{"A":6}\n'
    assert read(data, two).rows == ((1, "x"), (2, "y"), (4, None), (None, "x"), (None, None))


def test_the_last_of_two_structs_counts_alone():
    table = read(b'{"s":{"x":1,"y":"a"},"s":{"y":"b"}}\n{"s":{"x":1},"s":null}\n', columns(s=POINT))
    assert table.rows == (({"x": None, "y": "b"},), (None,))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"\\u0041\\n\\t\\"\\\\\\/\\b\\f\\r"', 'A\n\t"\\/\b\f\r'),
        ('"\\ud83d\\ude00 and \\u00e9\\u20ac"', "😀 and é€"),
        ('"\\ud83d"', "bad_utf8"),
        ('"\\ude00\\ud83d"', "bad_utf8"),
        ('"\\ud83d\\u0041"', "bad_utf8"),
        ("12.50", "12.50"),
        ("true", "true"),
        ('{"b": [1 ,2]}', '{"b": [1 ,2]}'),
        ("[]", "[]"),
        ('"eight by\\u0074es, and more"', "eight bytes, and more"),
    ],
)
def test_strings(text, value):
    assert one(text, pa.string()) == value


def numbers_and_others() -> list[str]:
    """Digits before and behind a point in any numbers, signs, exponents, and what is no number by its last byte."""
    sizes = (0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 61, 62, 63, 64, 65, 80)
    digits = "1234567890" * 8
    bodies = [digits[:whole] for whole in sizes[1:]] + ["0" + digits[:more] for more in (0, 1, 6, 62, 63)]
    bodies += [f"{whole}.{digits[:behind]}" for whole in ("0", "00", "7", digits[:7], digits[:40]) for behind in sizes]
    ends = ("", "e1", "E-07", "e+", "e", ".", ".5", "-", "0x")
    return [f"{sign}{body}{end}" for sign in ("", "-", "--") for body in bodies for end in ends]


@pytest.mark.parametrize("behind", [0, 1, 70])
def test_numbers_that_nobody_reads_are_checked(behind):
    texts = numbers_and_others()
    lines = [f'{{"n":{text}{" " * behind},"a":{row}}}' for row, text in enumerate(texts)]
    good = []
    for line in lines:
        try:
            json.loads(line)
        except ValueError:
            good.append(False)
        else:
            good.append(True)
    assert 100 < sum(good) < len(good) - 100
    rows = read("\n".join(lines).encode(), columns(a=pa.int64(), n=pa.string())).rows
    assert [row[0] is not None for row in rows] == good
    assert [row[1] for row in rows] == [text if fine else None for text, fine in zip(texts, good, strict=True)]
    assert read("\n".join(lines).encode(), A).rows == tuple((row[0],) for row in rows)
    if behind < 70:  # the file ends soon
        alone = [read(line.encode(), A).rows[0][0] for line in lines[::7]]
        assert alone == [row[0] for row in rows[::7]]


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("9007199254740993", pa.int64(), 9007199254740993),
        ("-9223372036854775808", pa.int64(), -(2**63)),
        ("9223372036854775808", pa.int64(), "bad_int64"),
        ("1.0", pa.int64(), "bad_int64"),
        ("1e2", pa.int32(), "bad_int32"),
        ('"1"', pa.int64(), "bad_int64"),
        ("128", pa.int8(), "bad_int8"),
        ("[1]", pa.int16(), "bad_int16"),
        ("NaN", pa.int16(), "bad_int16"),
        ("1e999", pa.float64(), math.inf),
        ('"-Infinity"', pa.float64(), -math.inf),
        ("Infinity", pa.float32(), math.inf),
        ('"1.5"', pa.float64(), "bad_float64"),
        ("0.1", pa.float32(), 0.10000000149011612),
        ("1.005", pa.decimal128(5, 2), Decimal("1.01")),
        ('"1.005"', pa.decimal128(5, 2), Decimal("1.01")),
        ("12345", pa.decimal128(5, 2), "bad_decimal"),
        ('""', pa.decimal128(5, 2), "bad_decimal"),
        ("true", pa.bool_(), True),
        ('"true"', pa.bool_(), "bad_bool"),
        ("1", pa.bool_(), "bad_bool"),
        ('"2024-02-03"', pa.date32(), dt.date(2024, 2, 3)),
        ("20240203", pa.date32(), "bad_date"),
        ('""', pa.date32(), "bad_date"),
        ('"2024-02-03T04:05:06+01:00"', TIMESTAMP, dt.datetime(2024, 2, 3, 3, 5, 6, tzinfo=dt.UTC)),
        ("86400", TIMESTAMP, dt.datetime(1970, 1, 2, tzinfo=dt.UTC)),
        ("99999999999999", TIMESTAMP, "bad_timestamp"),
        ("86400", TIMESTAMP_NTZ, "bad_timestamp_ntz"),
        ('"aGVsbG8="', pa.binary(), b"hello"),
        ('"aGVsbG8"', pa.binary(), "bad_binary"),
        ("1", pa.binary(), "bad_binary"),
        ("[1, null, 3]", pa.list_(pa.int32()), [1, None, 3]),
        ('[1, "x"]', pa.list_(pa.int32()), "bad_int32"),
        ("{}", pa.list_(pa.int32()), "bad_array"),
        ("[[1],[],null]", pa.list_(pa.list_(pa.int32())), [[1], [], None]),
        ('{"p":1,"q":null,"p":2}', pa.map_(pa.string(), pa.int32()), [("p", 2), ("q", None)]),
        ("[]", pa.map_(pa.string(), pa.int32()), "bad_map"),
        ("5", POINT, "bad_struct"),
    ],
)
def test_values(text, type_, value):
    found = one(text, type_)
    assert found == value
    assert type(found) is type(value)


def test_what_is_malformed_within_a_value():
    """A field of a struct is NULL alone; an element makes the whole array NULL."""
    schema = columns(s=POINT, l=pa.list_(POINT), n=pa.list_(pa.int32()))
    data = b'{"s":{"x":"bad","y":"q"},"l":[{"x":1.5,"y":"p"},null],"n":[1,true,3]}\n{"n":[4]}\n'
    table = read(data, schema)
    assert table.rows == (({"x": None, "y": "q"}, [{"x": None, "y": "p"}, None], None), (None, None, [4]))
    assert table.reasons == [("s", "bad_int32"), ("l", "bad_int32"), ("n", "bad_int32")]


def test_only_the_last_value_of_a_key_is_looked_at():
    """In maps, as in objects: what it overwrites may be of any kind, and within lists and structs too."""
    schema = columns(
        m=pa.map_(pa.string(), pa.int32()), l=pa.map_(pa.string(), pa.list_(pa.int32())), n=A.fields[0].type
    )
    data = b"""{"m":{"a":"bad","b":1,"a":2},"l":{"a":[1],"b":[2,3],"a":[]}}
{"m":{"a":1,"b":1,"a":"bad"},"l":{"a":[],"b":[2,3],"a":[1]}}
{"m":{"a":[],"a":{},"a":null},"l":{"a":["x"],"b":[4],"a":[5,6]}}
{"m":{"a":1,"\\udc00":1,"\\udc00":2},"l":{"a":5,"a":[7]},"n":"bad","n":3}
{"m":{"x":1},"l":{"a":[7],"a":5}}
"""
    table = read(data, schema)
    rows = [tuple(held and dict(held) if i < 2 else held for i, held in enumerate(row)) for row in table.rows]
    assert rows == [
        ({"a": 2, "b": 1}, {"a": [], "b": [2, 3]}, None),
        (None, {"a": [1], "b": [2, 3]}, None),
        ({"a": None}, {"a": [5, 6], "b": [4]}, None),
        (None, {"a": [7]}, 3),
        ({"x": 1}, None, None),
    ]
    starts = [i for i in range(len(data)) if i == 0 or data[i - 1 : i] == b"\n"]
    assert [(starts.index(e.position), e.column, e.reason) for e in table.errors] == [
        (1, "m", "bad_int32"), (3, "m", "bad_utf8"), (4, "l", "bad_array"),
    ]  # fmt: skip


MALFORMED = [
    "", "1", "null", "[]", '[{"a":1}]', "{", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', "{,}", '{"a" 1}',
    "{1:2}", '{"a":1}}', '{"a":1} x', '{"a":1}{"a":2}', '{"a":[1}', '{"a":[1,]}', '{"a":01}', '{"a":+1}',
    '{"a":.5}', '{"a":5.}',
    '{"a":1e}', '{"a":tru}', '{"a":True}', '{"a":"\\q"}', '{"a":"\\u12g4"}', '{"a":"x}', "{'a':1}", '{"a":"\t"}',
    '{"a":\x00 1}', '{"a":"x" "y"}', '{"a":-}', '{"a":nan}', '{"a":1 2}', '{"a":12\\"}', '{"a":\\"}',
]  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED[1:])
def test_a_malformed_line_costs_no_other(text):
    data = b'{"a":1}\n' + text.encode() + b'\n{"a":2}\n'
    for needed in (["a"], []):
        table = read(data, A, {"multiLine": "false"}, needed=needed)
        assert len(table.rows) == 3
        assert table.positions == (0, 8, len(data) - 8)
        assert [(e.position, e.column, e.reason, e.raw) for e in table.errors] == [(8, None, "bad_json", text.encode())]
    assert read(data, A, {"multiLine": "false"}).rows == ((1,), (None,), (2,))
    assert read(data, A, {"multiLine": "false", "mode": "dropMalformed"}).rows == ((1,), (2,))


def test_where_it_is_malformed():
    (error,) = read(b'{"a":1}\n{"a":1,"b":tru}', A).errors
    assert error.at == 8 + 11
    with pytest.raises(TidemillError) as caught:
        read(b'{"a":1}\n{"a":1,"b":tru}', A, {"mode": "FAILFAST"})
    assert caught.value.number == "TM4020"
    assert 'byte 8, at byte 19: bad_json: {"a":1,"b":tru}' in caught.value.got


def test_depth_limit():
    data = b'{"a":1,"b":' + b"[" * 1000 + b"]" * 1000 + b'}\n{"a":2}\n'
    table = read(data, A)
    assert table.rows == ((None,), (2,))
    assert table.reasons == [(None, "too_deep")]
    assert read(data, A, {"maxNestingDepth": "1001"}).rows == ((1,), (2,))
    assert read(b'{"a":' + b"[" * 10**6, A).reasons == [(None, "too_deep")]


def test_blank_lines_and_marks():
    data = b'\xef\xbb\xbf{"a":1}\r\n\n \t\r\n{"a":2}'
    table = read(data, A)
    assert table.rows == ((1,), (2,))
    assert table.positions == (0, 17)
    assert table.errors == ()


def test_paths():
    schema = columns(city=pa.string(), address=pa.struct([("zip", pa.int32())]), raw=pa.string(), odd=pa.int32())
    options = {"field.CITY": "address/city", "field.raw": "/address", "field.odd": "a~1b/c~0d"}
    data = b'{"address":{"city":"Lyon","zip":69000},"a/b":{"c~d":1}}\n{"address":5,"city":"no"}\n'
    table = read(data, schema, options)
    assert table.rows == (("Lyon", {"zip": 69000}, '{"city":"Lyon","zip":69000}', 1), (None, None, "5", None))
    assert table.reasons == [("address", "bad_struct")]


ARRAY = b'[{"a":1}, {"a":2,\n "b":"],[{"},\r\n{"a":3}]\n'


def test_arrays():
    table = read(ARRAY, A)
    assert table.rows == ((1,), (2,), (3,))
    assert table.positions == (1, 10, 33)
    assert table.errors == ()
    assert read(b" \n" + ARRAY, A).rows == table.rows
    assert read(ARRAY, A, cuts=[1, 20]).rows == table.rows
    assert read(b"[]", A).rows == ()
    assert read(b"", A).rows == ()


def test_objects_over_several_lines():
    data = b'{\n "a": 1\n}\n{ "a":\n2}{"a":3}[{"a":4}]'
    assert read(data, A, {"multiLine": "true"}).rows == ((1,), (2,), (3,), (4,))


@pytest.mark.parametrize(
    ("data", "rows", "reasons"),
    [
        (b'[{"a":1},{"a":tru},{"a":3}]', ((1,), (None,), (3,)), ["bad_json"]),
        (b'[{"a":1},,{"a":3},]', ((1,), (None,), (3,), (None,)), ["bad_json"] * 2),
        (b'[{"a":1},7,"x",null,[{"a":2}]]', ((1,), (None,), (None,), (None,), (None,)), ["bad_json"] * 4),
        (b'[{"a":1},{"a":2}', ((1,), (2,)), ["unterminated_array"]),
        (b'[{"a":1},{"a":', ((1,), (None,)), ["bad_json", "unterminated_array"]),
        (b'[{"a":1}] x', ((1,), (None,)), ["bad_json"]),
        (b'[{"a":"x\ny"},{"a":2}]', ((None,), (2,)), ["bad_json"]),
    ],
)
def test_malformed_arrays(data, rows, reasons):
    table = read(data, A)
    assert table.rows == rows
    assert [e.reason for e in table.errors] == reasons


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b" \n\r\n\xef\xbb\xbf"[:4]])
@pytest.mark.parametrize("sizes", [(), (7,), (1 << 16,), (70_000,)])
def test_lines_behind_an_array_on_a_long_first_line(before, sizes):
    """The first 64 KiB of such a file are an array; a malformed line behind it costs no other."""
    many = 9_000
    array = b"[" + b",".join(b'{"a":%d}' % n for n in range(many)) + b"]"
    lines = [b'{"a":-1}', b'{"a":"\\', b'["x', b'{"a":-2}']
    data = before + b"\r\n".join([array, *lines]) + b"\n"
    table = read(data, A, sizes=sizes)
    assert table.rows == (*((n,) for n in range(many)), (-1,), (None,), (None,), (-2,))
    assert table.positions[many:] == tuple(data.rindex(line) for line in lines)
    assert table.reasons == [(None, "bad_json")] * 2
    assert read(data, A, sizes=sizes, cuts=[5, len(data) - 4]).rows == table.rows


def test_a_long_first_line_within_an_array():
    values = [{"a": n} for n in range(9_000)]
    data = json.dumps(values[:-2], separators=(",", ":")).encode()[:-1] + b',\n{"a":8998}\n,{"a":8999}]\n \n'
    for sizes in ((), (1000,), (len(data) - 20, 3)):
        table = read(data, A, sizes=sizes)
        assert (table.rows, table.errors) == (tuple((v["a"],) for v in values), ())


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("options", [{}, {"multiLine": "true"}])
def test_a_mark_of_utf_16_is_told(encoding, options):
    found = read('\ufeff{"a":1}\n{"a":2}\n'.encode(encoding), A, options)
    assert found.reasons[0] == (None, "utf16_mark")
    assert {reason for _, reason in found.reasons[1:]} == {"bad_json"}
    assert set(found.rows) == {(None,)}


FIRST_LINES = [b"[", b"[1,2,3]", b"[]", b'[{"a":0}]', b'[{"a":0}', b'[{"a":"', b"[[[[", b'["a",', b'{"a":0}[', b"[x,"]


@pytest.mark.parametrize("first", FIRST_LINES)
def test_a_bracket_in_the_first_line_costs_no_other(first):
    data = first + b"\r\n" + b"".join(b'{"a":%d}\n' % i for i in range(1, 1001))
    table = read(data, A)
    assert table.rows == ((None,), *((i,) for i in range(1, 1001)))
    assert [(e.position, e.reason, e.raw) for e in table.errors] == [(0, "bad_json", first)]
    assert read(data, A, cuts=[3, 700, 5000]) == table


def test_multi_line_false_means_lines():
    assert read(b'[{"a":1}]\n{"a":2}\n', A, {"multiLine": "false"}).rows == ((None,), (2,))


def test_pyarrow_reads_the_same():
    schema = columns(a=pa.int64(), s=POINT, l=pa.list_(POINT), t=pa.string(), f=pa.float64(), b=pa.bool_())
    data = b"".join(
        b'{"t":"\\u00e9 %d","s":{"x":%d,"y":null},"l":[{"x":1},{"y":"\\\\"},null],"a":%d,"f":%d.25,"b":true}\n'
        b'{"a":null}\n' % (i, i, i * 10**15, i)
        for i in range(50)
    )
    parse = pyarrow.json.ParseOptions(explicit_schema=schema.to_arrow())
    expected = pyarrow.json.read_json(pa.BufferReader(data), parse_options=parse)
    assert list(read(data, schema).rows) == [tuple(row.values()) for row in expected.to_pylist()]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", "LENIENT"), ("multiLine", "yes"), ("allowComments", "true"), ("allowSingleQuotes", "true"),
        ("allowUnquotedFieldNames", "true"), ("allowNumericLeadingZeros", "true"), ("allowNonNumericNumbers", "false"),
        ("allowBackslashEscapingAnyCharacter", "true"), ("allowUnquotedControlChars", "true"), ("encoding", "UTF-16"),
        ("primitivesAsString", "true"), ("prefersDecimal", "true"), ("charset", "latin1"), ("lineSep", ";"),
        ("maxNestingDepth", "0"), ("maxNestingDepth", "1000000"), ("dateFormat", "ww"), ("field.b", "x"),
        ("field.a", "x//y"), ("field.a", ""),
    ],
)  # fmt: skip
def test_refused_values_of_options(name, value):
    with pytest.raises(TidemillError) as caught:
        JsonFormat().validate(A, {name: value})
    assert caught.value.number == "TM4003"


def test_options_that_say_what_is_done_anyway():
    options = {"allowComments": "false", "allowNonNumericNumbers": "TRUE", "encoding": "UTF-8", "lineSep": "\\n"}
    assert read(b'{"a":1}', A, options).rows == ((1,),)
    assert {name.lower() for name in options} <= JSON_OPTIONS.keys


@pytest.mark.parametrize(
    "type_", [pa.null(), pa.map_(pa.int32(), pa.string()), pa.list_(pa.map_(pa.int8(), pa.int8())), pa.struct([])]
)
def test_refused_types(type_):
    with pytest.raises(TidemillError) as caught:
        JsonFormat().validate(columns(a=type_), {})
    assert caught.value.number == "TM4004"


def test_one_object_as_map_and_by_its_fields():
    with pytest.raises(TidemillError) as caught:
        JsonFormat().validate(columns(m=pa.map_(pa.string(), pa.int32()), p=pa.int32()), {"field.p": "m/p"})
    assert caught.value.number == "TM4003"


def test_time_patterns():
    schema = columns(d=pa.date32(), t=TIMESTAMP_NTZ)
    options = {"dateFormat": "dd/MM/yyyy", "timestampFormat": "yyyyMMddHHmmss"}
    table = read(b'{"d":"03\\/02\\/2024","t":"20240203040506"}\n{"t":20240203040506}\n', schema, options)
    assert table.rows == ((dt.date(2024, 2, 3), dt.datetime(2024, 2, 3, 4, 5, 6)), (None, None))
    assert table.reasons == [("t", "bad_timestamp_ntz")]


@pytest.mark.parametrize(
    ("options", "whole"), [({"multiLine": "true"}, True), ({"multiLine": "false"}, False), ({}, False)]
)
def test_files_known_to_be_of_arrays_are_not_cut(options, whole):
    format_ = JsonFormat()
    assert isinstance(format_, WholeFiles)
    assert format_.reads_whole_files(A, options) is whole


def test_keys_that_are_expected_are_not_taken_for_others():
    """The second record of each pair nearly continues as the first one did."""
    schema = columns(a=pa.int64(), b=pa.int64(), s=pa.struct([("a", pa.int64()), ("b", pa.int64())]))
    data = (
        b'{"a":1,"b":2,"s":{"a":3,"b":4}}\n{"b":5,"s":{"b":6},"a":7}\n{"a":1"b":2}\n{,"b":2}\n{"a":1,"b" :8}\n'
        b'{"a":{"a":9,"b":9},"b":{"a":9},"s":{"a":1}}\n{"s":[{"a":5}],"b":3}\n{"x":{"a":9},"s":{"a":2}}\n'
    )
    table = read(data, schema)
    assert table.rows == (
        (1, 2, {"a": 3, "b": 4}), (7, 5, {"a": None, "b": 6}), (None, None, None), (None, None, None), (1, 8, None),
        (None, None, {"a": 1, "b": None}), (None, 3, None), (None, None, {"a": 2, "b": None}),
    )  # fmt: skip
    assert [e.reason for e in table.errors] == ["bad_json", "bad_json", "bad_int64", "bad_int64", "bad_struct"]


def test_more_elements_than_the_buffers_before_had():
    """Room grows within a buffer, at any depth, also in the middle of a record that is then read again."""
    schema = columns(a=pa.list_(pa.list_(pa.int64())), m=pa.map_(pa.string(), pa.float64()))
    records = [
        {"a": [[k] * (k % 5 + (k == 40) * 3000) for k in range(n)], "m": {f"k{i}": i / 8 for i in range(n)}}
        for n in (1, 90, 2, 7)
    ]
    data = b"".join(json.dumps(r).encode() + b"\n" for r in records)
    rows = read(data, schema).rows
    assert [row[0] for row in rows] == [r["a"] for r in records]
    assert [dict(row[1]) for row in rows] == [r["m"] for r in records]


def test_where_a_number_is_that_its_column_does_not_hold():
    (error,) = read(b'{"a":1}\n{"b":"x","a":3000000000}', columns(a=pa.int32())).errors
    assert (error.reason, error.at) == ("bad_int32", 8 + 13)


def test_a_value_within_is_told_beside_rows_that_are_null():
    schema = Schema((Field("b", pa.struct([pa.field("a", pa.bool_())]), False),))
    found = read(b'{"b":{"a":"1"}}\n{"b":null}\n{"b":{"a":true}}\n', schema)
    assert [(e.position, e.reason, e.dropped) for e in found.errors] == [
        (0, "bad_bool", False),
        (16, "null_in_not_null", True),
    ]
    assert len(found.rows) == 2


@pytest.mark.parametrize(
    ("beginning", "options", "whole"),
    [
        (b'[{"a": 1}', {}, True), (b"\xef\xbb\xbf \n [", {}, True), (b'{"a": [1]}', {}, False), (b"", {}, False),
        (b"[", {"multiLine": "false"}, False), (b" " * 100, {}, False),
        (b'[\n  {\n    "a": 1\n  },\n  {\n    "a": 2\n  }\n]', {}, True), (b'[\n{"a":1}\n]\n', {}, True),
        (b'[{"a":1}\n,{"a":2}\n,{"a":3}\n]', {}, True), (b'[{"a":1},\n{"a":2}\n{"a":3},\n{"a":4}]', {}, True),
        (b'[{"a":1}]\n[{"a":2}]\n', {}, True), (b"[" + b'{"a":1},' * 10**4, {}, True),
        (b'[{"a":' + b"1" * 2**17, {}, True), (b'[x {"a":1},{"a":2}]', {}, True),
        (b'[{"a":1}]\n{"a":2}\n', {}, False), (b'[1,2]\n{"a":2}', {}, False), (b'[{"a":1}\n{"a":2}\n', {}, False),
        (b'[oops\n' + b'{"a":1}\n' * 10**4, {}, False), (b'[{"a":1,"b":\n{"a":2},\n{"a":3}\n{"a":4}\n', {}, False),
        (b'[\n{"a":1}\n{"a":2}\n', {}, False), (b"[1,\n", {}, True), (b"[1\n2\n", {}, False),
        (b"[" + b"1," * 2**16 + b'1]\n{"a":1}\n', {}, False), (b'["' + b"x" * 2**16, {}, False),
        (b"[" + b" " * 2**16 + b'{"a":1}]', {}, True),
    ],
)  # fmt: skip
def test_the_beginning_tells_of_arrays(beginning, options, whole):
    format_ = JsonFormat()
    assert isinstance(format_, WholeByBeginning)
    assert format_.begins_whole(A, options, beginning) is whole
