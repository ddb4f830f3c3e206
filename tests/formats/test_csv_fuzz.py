"""Random files, buffers and splits: the compiled reader must equal the plain one, byte for byte."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import pyarrow as pa
from csv_reading import Table, columns, read, read_in_splits
from hypothesis import given
from hypothesis import strategies as st
from long_form import examples
from tests.formats.csv_plain_table import plain_table

from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Field, Schema

EXAMPLES = examples(250)

TYPES = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(5, 2),
    pa.decimal128(38, 10),
    pa.string(),
    pa.binary(),
    pa.date32(),
    TIMESTAMP,
    TIMESTAMP_NTZ,
]

cells = st.one_of(
    st.sampled_from(
        [
            b"",
            b"1",
            b"-12.5",
            b"+300",
            b"true",
            b"FALSE",
            b"NA",
            b" 7 ",
            b"1e3",
            b"nan",
            b"NaN",
            b"2024-02-30",
            b"2024-2-3",
            b"2024-02-03 04:05:06.789",
            b"2024-02-03T04:05:06Z",
            b'""',
            b'"x"',
            b'"a,\n""b"""',
            b'"\r\n"',
            b'"1"',
            b'a"b"c',
            b' "padded" ',
            b'"x"y',
            b"\xff",
            "zażółć 🙂".encode(),
            b"0.123456789012345678901234567890",
            b"#c",
            b"99999999999999999999",
        ]
    ),
    st.integers().map(lambda n: str(n).encode()),
    st.floats().map(lambda x: repr(x).encode()),
    st.binary(max_size=4),
)
lines = st.lists(cells, min_size=0, max_size=5).map(b",".join)
line_ends = st.sampled_from([b"\n", b"\r\n"])
structured = st.lists(st.tuples(lines, line_ends), max_size=12).map(lambda ls: b"".join(a + b for a, b in ls))
quotes = st.lists(st.sampled_from([b'"', b'"', b",", b"\n", b"a", b" "]), max_size=300).map(b"".join)
noise = st.lists(st.sampled_from([b'"', b",", b"\n", b"\r", b"a", b"1", b" ", b"#"]), max_size=200).map(b"".join)
files = st.one_of(
    structured, noise, quotes, st.tuples(structured, noise).map(b"".join), structured.map(lambda d: d[:-1])
)
schemas = st.lists(st.tuples(st.sampled_from(TYPES), st.integers(0, 9)), min_size=1, max_size=4).map(
    lambda ts: Schema(tuple(Field(f"c{i}", t, nullable > 1) for i, (t, nullable) in enumerate(ts)))
)
option_sets = st.fixed_dictionaries(
    {},
    optional={
        "nullValue": st.sampled_from(["NA", "1", "-12.5", ""]),
        "comment": st.just("#"),
        "mode": st.sampled_from(["PERMISSIVE", "DROPMALFORMED"]),
        "ignoreLeadingWhiteSpace": st.just("true"),
        "ignoreTrailingWhiteSpace": st.just("TRUE"),
        "quote": st.sampled_from(['"', '"', "", "'", "~", "@"]),
        "sep": st.sampled_from([",", ";", "a"]),
        "multiLine": st.sampled_from(["true", "false", "false"]),
    },
)
buffer_sizes = st.one_of(st.just([1] * 4000), st.lists(st.integers(1, 100), max_size=60))


def comparable(value: Any) -> Any:
    """NaN equal to itself, and -0.0 different from 0.0."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value


def assert_same(found: Table, data: bytes, schema: Schema, options: dict[str, str]) -> None:
    expected = plain_table(data, schema, options)
    assert [tuple(map(comparable, row)) for row in found.rows] == [tuple(map(comparable, row)) for row in expected.rows]
    assert found.positions == expected.positions
    assert found.errors == expected.errors


@EXAMPLES
@given(files, schemas, option_sets, buffer_sizes)
def test_any_buffers_give_what_the_plain_reader_gives(data, schema, options, sizes):
    assert_same(read(data, schema, options, sizes=sizes), data, schema, options)


@EXAMPLES
@given(files, schemas, option_sets, st.data(), buffer_sizes)
def test_any_splits_give_each_row_once(data, schema, options, choice, sizes):
    cuts = sorted(choice.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    assert_same(read_in_splits(data, schema, options, cuts, sizes), data, schema, options)


@EXAMPLES
@given(st.binary(max_size=300), buffer_sizes)
def test_any_bytes_at_all(data, sizes):
    schema = columns(a=pa.string(), b=pa.int32())
    assert_same(read(data, schema, sizes=sizes), data, schema, {})
    assert_same(read(data, schema, {"multiLine": "false"}, sizes=sizes), data, schema, {"multiLine": "false"})


texts = st.text(st.sampled_from("ab ,\"\n\r1é'#"), max_size=6)


@EXAMPLES
@given(st.lists(st.lists(texts, min_size=2, max_size=2), max_size=10), st.booleans(), buffer_sizes)
def test_reads_what_the_csv_module_writes(table, crlf, sizes):
    stream = io.StringIO(newline="")
    csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\r\n" if crlf else "\n").writerows(table)
    data = stream.getvalue().encode()
    found = read(data, columns(a=pa.string(), b=pa.string()), sizes=sizes)
    assert found.rows == tuple(tuple(text or None for text in row) for row in table)
    assert found.errors == ()
    written = list(csv.reader(io.StringIO(data.decode(), newline="")))
    assert [[text or "" for text in row] for row in found.rows] == written
    named = read(data, columns(a=pa.string(), b=pa.string()), {"nullValue": "no text is this"}, sizes=sizes)
    assert list(map(list, named.rows)) == written


@examples(60)
@given(st.lists(st.tuples(lines, line_ends), min_size=1, max_size=10), schemas, st.data())
def test_needed_columns_do_not_change_rows(rows, schema, choice):
    data = b"".join(a + b for a, b in rows)
    needed = choice.draw(st.lists(st.sampled_from(schema.names), unique=True))
    whole = read(data, schema)
    part = read(data, schema, needed=needed)
    places = [schema.names.index(name) for name in needed]
    assert [tuple(map(comparable, row)) for row in part.rows] == [
        tuple(comparable(row[i]) for i in places) for row in whole.rows
    ]
    assert part.positions == whole.positions
