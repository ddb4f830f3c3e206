"""Separators and line ends of any length, escapes, several NULL markers: random files, buffers and splits."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pyarrow as pa
from csv_reading import as_table, columns, read, read_in_splits
from hypothesis import assume, given
from hypothesis import strategies as st
from long_form import examples
from test_csv_fuzz import assert_same

from tidemill.errors import TidemillError
from tidemill.formats.csv.format import CsvFormat
from tidemill.formats.csv.options import parse_options
from tidemill.formats.text.delimiters import Delimiters, delimiter_table, walk_rows
from tidemill.formats.text.line_ends import OPEN, scan_row_ends
from tidemill.formats.unordered.reader import in_order, read_unordered

EXAMPLES = examples(250)
SCHEMA = columns(A=pa.string(), N=pa.int32(), B=pa.string(), X=pa.float64())

PIECES = [
    b'"',
    b'"',
    b"\\",
    b"|",
    b"||",
    b":",
    b"::|",
    b"\n",
    b"\r",
    b"\r\n",
    b"a",
    b"ab",
    b"1",
    b" ",
    b"#",
    b"NA",
    b"-",
]
dialects = st.fixed_dictionaries(
    {"sep": st.sampled_from([",", "|", "||", "|:|", "::", "ab", "\xa6", "a b", r"\t|", "aaab", " |", r"\xff\xfe"])},
    optional={
        "lineSep": st.sampled_from(["\n", "\r", "\r\n", "##", "|:", ";;\n", "\x1e", "ba", "-" * 128, "aab"]),
        "escape": st.sampled_from(["\\", "1", "#", '"']),
        "quote": st.sampled_from(['"', "", "'"]),
        "comment": st.sampled_from(["#", "-"]),
        "nullValues": st.sampled_from([["", "NA"], ["NA", "\\N", "1"], ["a"], ["x" * 70, "ab", ""]]).map(json.dumps),
        "nanValue": st.sampled_from(["a", "NA"]),
        "positiveInf": st.just("1"),
        "header": st.just("true"),
        "mode": st.sampled_from(["PERMISSIVE", "DROPMALFORMED"]),
        "ignoreLeadingWhiteSpace": st.just("true"),
        "ignoreTrailingWhiteSpace": st.just("true"),
        "multiLine": st.sampled_from(["true", "false", "false"]),
    },
)


def is_possible(options: dict[str, str]) -> bool:
    try:
        parse_options(options)
    except TidemillError:
        return False
    return True


@st.composite
def files(draw: st.DrawFn) -> tuple[dict[str, str], bytes]:
    """A dialect, and a file of pieces that mean something in it."""
    options = draw(dialects.filter(is_possible))
    rules = parse_options(options).general
    quote, escape = (b"" if c < 0 else bytes([c]) for c in (rules.quote, rules.escape))
    own = [
        rules.separator,
        rules.separator,
        rules.row_end,
        quote,
        quote,
        escape,
        rules.separator[:1],
        rules.row_end[:-1],
    ]
    data = b"".join(draw(st.lists(st.sampled_from(own + PIECES), max_size=80)))
    if "header" in options:
        data = rules.separator.join([b"A", b"N", b"B", b"X"]) + rules.row_end + data
    return options, draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"])) + data


buffer_sizes = st.one_of(st.just([1] * 4000), st.lists(st.integers(1, 100), max_size=60))


@EXAMPLES
@given(files(), buffer_sizes)
def test_any_buffers_give_what_the_plain_reader_gives(file, sizes):
    options, data = file
    assert_same(read(data, SCHEMA, options, sizes=sizes), data, SCHEMA, options)


@EXAMPLES
@given(files(), st.data(), buffer_sizes)
def test_any_splits_give_each_row_once(file, choice, sizes):
    options, data = file
    cuts = sorted(choice.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    assert_same(read_in_splits(data, SCHEMA, options, cuts, sizes), data, SCHEMA, options)


@examples(60)
@given(files(), st.integers(1, 40), st.sampled_from([1, 3]))
def test_buffers_in_any_order(file, size, threads):
    options, data = file
    reader = CsvFormat().reader(SCHEMA, options, SCHEMA.names)
    parts = read_unordered(reader, lambda at, n: data[at : at + n], len(data), threads=threads, buffer_bytes=size)
    assert_same(as_table(part.rows for part in in_order(parts)), data, SCHEMA, options)


@EXAMPLES
@given(
    st.binary(max_size=300),
    st.binary(min_size=1, max_size=3),
    st.binary(min_size=1, max_size=3),
    st.sampled_from(["", "\\"]),
    buffer_sizes,
)
def test_any_bytes_and_delimiters_at_all(data, separator, row_end, escape, sizes):
    options = {"sep": spelled(separator), "lineSep": spelled(row_end), **({"escape": escape} if escape else {})}
    assume(is_possible(options))
    assert_same(read(data, SCHEMA, options, sizes=sizes), data, SCHEMA, options)
    options["multiLine"] = "false"
    assume(is_possible(options))
    assert_same(read(data, SCHEMA, options, sizes=sizes), data, SCHEMA, options)


def spelled(delimiter: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in delimiter)


@EXAMPLES
@given(
    st.lists(st.sampled_from([b'"', b'"', b",", b"\n", b"a", b" ", b"aaaaaaaa" * 9]), max_size=200).map(b"".join),
    st.sampled_from([0, 1]),
)
def test_the_automaton_of_single_bytes_is_the_one_byte_rule(data, leading):
    table = delimiter_table(Delimiters(b",", b"\n", ord('"'), -1, leading))
    buf = np.frombuffer(data, np.uint8)
    count, first, last, state = walk_rows(buf, table.following, table.actions, table.guide, table.open)
    *expected, _, state_expected = scan_row_ends(buf, 0, ord(","), ord('"'), leading, OPEN)
    assert [count, first, last] == expected
    if data:
        assert ([table.open, table.text, table.quoted][state_expected] == state) or data[-1:] in b'" '


texts = st.text(st.sampled_from("ab ,\"\n\r1é'#\\|"), max_size=6)


@EXAMPLES
@given(st.lists(st.lists(texts, min_size=2, max_size=2), max_size=10), buffer_sizes)
def test_reads_what_the_csv_module_writes_with_an_escape(table, sizes):
    stream = io.StringIO(newline="")
    dialect = {"doublequote": False, "escapechar": "\\", "lineterminator": "\r\n"}
    csv.writer(stream, quoting=csv.QUOTE_ALL, **dialect).writerows(table)
    data = stream.getvalue().encode()
    found = read(data, columns(a=pa.string(), b=pa.string()), {"escape": "\\", "nullValue": "none"}, sizes=sizes)
    assert found.errors == ()
    assert list(map(list, found.rows)) == table
    assert list(csv.reader(io.StringIO(data.decode(), newline=""), **dialect)) == table
