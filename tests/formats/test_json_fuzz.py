"""Random files, buffers and splits: the compiled reader must equal the plain one, and that Python's json."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_reading import assert_same, comparable, read
from long_form import examples
from tests.formats.json_reference import MalformedError, PlainJson, parse_record, plain_table

from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Field, Schema

EXAMPLES = examples(100)
LEAVES = [
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
NAMES = ["a", "b", "c", "é", "a long name of a column", ""]

leaf_types = st.sampled_from(LEAVES)
types = st.recursive(
    leaf_types,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda t: pa.map_(pa.string(), t)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: pa.struct([pa.field(NAMES[i], t) for i, t in enumerate(ts)])
        ),
    ),
    max_leaves=4,
)
schemas = st.lists(st.tuples(types, st.integers(0, 9)), min_size=1, max_size=4).map(
    lambda ts: Schema(tuple(Field(NAMES[i], t, nullable > 1) for i, (t, nullable) in enumerate(ts)))
)
WORDS = [
    "1", "-0", "0", "-12.5", "300", "1e3", "1E-2", "1.0", "true", "false", "null", "NaN", "Infinity", "-Infinity",
    "9007199254740993", "9223372036854775807", "9223372036854775808", "0.1234567890123456789012345", "12345678",
    '""', '"x"', '"1"', '"NaN"', '"+Infinity"', '"2024-02-03"', '"2024-02-03 04:05:06.789"', '"2024-2-3T04:05:06Z"',
    '"aGk="', '"aGk"', '"=\\u003d"', '"2024\\u002d02-03"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00 x"', '"12.345"',
    '"a \\"quoted\\" text that is longer than a word"', '"zażółć 🙂"', '"tab\\t, line\\n, \\/ \\\\"', '"Infinity"',
    "-9223372036854775808", "-9223372036854775809", "18446744073709551616", "9007199254740993.0", "-0.0", "0.1", "007",
    "123456789.123456789", "0.3000000000000000444", "2.2250738585072011e-308", "1e400", "12345678.12345678", "-", "1.",
    f'"{"long " * 30}"', f'"{"long " * 30}\\u00e9{" text" * 30}"',
]  # fmt: skip
words = st.sampled_from(WORDS)
numbers = st.one_of(st.integers().map(str), st.floats(allow_nan=False, allow_infinity=False).map(repr))
texts = st.text(max_size=6).map(json.dumps)
written_names = [json.dumps(name, ensure_ascii=False) for name in NAMES]
keys = st.sampled_from([*written_names, '"\\u0061"', '"other"', '"\\u00e9"', '"\\ud800"'])
spaces = st.sampled_from(["", "", "", " ", "\t", " \r "])


def _object(parts: Any, space: str) -> str:
    return "{" + f",{space}".join(f"{k}{space}:{space}{v}" for k, v in parts) + "}"


values = st.recursive(
    st.one_of(words, words, numbers, texts),
    lambda inner: st.one_of(
        st.tuples(st.lists(inner, max_size=4), spaces).map(lambda p: f"[{p[1]}" + f"{p[1]},".join(p[0]) + "]"),
        st.builds(_object, st.lists(st.tuples(keys, inner), max_size=5), spaces),
    ),
    max_leaves=8,
)
records = st.builds(_object, st.lists(st.tuples(keys, values), max_size=6), spaces).map(
    lambda text: text.encode("utf-8", "surrogatepass")
)


@st.composite
def spoilt(draw: Any) -> bytes:
    """A record with a byte taken out, put in or changed."""
    data = draw(records)
    at = draw(st.integers(0, len(data)))
    pieces = [b"", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b"\x00", b"\xff", b"x", b" "]
    some = draw(st.sampled_from(pieces))
    return data[:at] + some + data[at + draw(st.integers(0, 2)) :]


lines = st.one_of(records, records, records, spoilt(), st.just(b""), st.just(b" \t"))
ends = st.sampled_from([b"\n", b"\n", b"\r\n"])
line_files = st.lists(st.tuples(lines, ends), max_size=8).map(lambda ls: b"".join(a + b for a, b in ls))
bits = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"1", b" ", b"\n", b"a", b'"a"', b"null", b"\\u00"]
noise = st.lists(st.sampled_from(bits), max_size=150).map(b"".join)
files = st.one_of(
    line_files,
    line_files,
    line_files.map(lambda data: data[:-1]),
    st.tuples(noise, line_files).map(b"\n".join),
    noise,
    line_files.map(lambda data: b"\xef\xbb\xbf" + data),
)
NAMED = ['"a"', '"b"', '"c"', '"é"', '"a long name of a column"', '""', '"other"', '"\\u0061"', '"else"']


def make_shape(r: Any, depth: int) -> Any:
    """What records look like: a list of names with the shapes of their values, a list of one shape, or None."""
    kind = r.random()
    if depth and (kind < 0.6 or depth > 2):
        return None
    if depth and kind < 0.8:
        return [make_shape(r, depth + 1)]
    names = r.sample(NAMED, r.randint(1, len(NAMED)))
    return {name: make_shape(r, depth + 1) for name in names}


def write_alike(r: Any, shape: Any, space: str, likely: float) -> str:
    """A record of a shape; each name may be left out, come twice or in another place, each value be of another kind."""
    if shape is None or r.random() > likely:
        return r.choice(WORDS)
    if isinstance(shape, list):
        return (
            f"[{space}" + f"{space},".join(write_alike(r, shape[0], space, likely) for _ in range(r.randrange(4))) + "]"
        )
    parts = [(n, write_alike(r, s, space, likely)) for n, s in shape.items() if r.random() < likely]
    if parts and r.random() > likely:
        parts.insert(r.randrange(len(parts)), r.choice(parts))
    if r.random() > likely:
        r.shuffle(parts)
    return _object(parts, space)


@st.composite
def alike_files(draw: Any) -> bytes:
    """Many records of one or two shapes, some of them spoilt: what is expected of a record is often right."""
    r = draw(st.randoms(use_true_random=False))
    shapes = [make_shape(r, 0) for _ in range(r.choice([1, 1, 2]))]
    space, likely = r.choice(["", "", " ", "\t"]), r.choice([1.0, 0.98, 0.9, 0.6])
    lines = []
    for _ in range(r.randint(2, 30)):
        line = write_alike(r, r.choice(shapes), space, likely).encode()
        if r.random() > likely + 0.05:
            at = r.randrange(len(line))
            line = (
                line[:at] + r.choice([b"", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\x00"]) + line[at + 1 :]
            )
        lines.append(line)
    return b"\n".join(lines)


commas = st.sampled_from([b",", b",", b", ", b",\n  ", b"\n,\r\n"])
array_files = st.tuples(
    st.sampled_from([b"", b"\xef\xbb\xbf", b" \n", b'{"a":1}\n']),
    st.lists(st.tuples(lines, commas), max_size=6).map(lambda ls: b"".join(a + b for a, b in ls)),
    lines,
    st.sampled_from([b"]", b"]\n", b"", b"]]", b']{"a": 2}', b'] [{"a": 1}]', b"] x {}"]),
).map(lambda parts: parts[0] + b"[" + b"".join(parts[1:]))
option_sets = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["PERMISSIVE", "DROPMALFORMED"]),
        "maxNestingDepth": st.sampled_from(["1", "2", "3", "100"]),
        "dateFormat": st.sampled_from(["yyyy-MM-dd", "'NaN'"]),
        "field.a": st.sampled_from(["b", "a/b", "/c/a", "é/a/b"]),
    },
)
buffer_sizes = st.one_of(st.just([1] * 4000), st.lists(st.integers(1, 100), max_size=60))


def ambiguous(schema: Schema, options: dict[str, str]) -> bool:
    """Whether a path leads into a map of another column."""
    return "field.a" in options and any(pa.types.is_nested(t) for t in schema.types)


@EXAMPLES
@given(files, schemas, option_sets, buffer_sizes)
def test_any_buffers_give_what_the_plain_reader_gives(data, schema, options, sizes):
    if ambiguous(schema, options):
        options = {n: v for n, v in options.items() if n != "field.a"}
    options["multiLine"] = "false"
    assert_same(read(data, schema, options, sizes=sizes), plain_table(data, schema, options))


@EXAMPLES
@given(files, schemas, st.data(), buffer_sizes)
def test_any_splits_give_each_row_once(data, schema, choice, sizes):
    cuts = sorted(choice.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    options = {"multiLine": "false"}
    assert_same(read(data, schema, options, sizes=sizes, cuts=cuts), plain_table(data, schema, options))


@pytest.mark.slow
@EXAMPLES
@given(alike_files(), schemas, option_sets, buffer_sizes, st.booleans(), st.data())
def test_records_that_look_alike(data, schema, options, sizes, arrays, choice):
    if ambiguous(schema, options):
        options = {n: v for n, v in options.items() if n != "field.a"}
    options["multiLine"] = str(arrays).lower()
    if arrays:
        data = b"[" + data.replace(b"\n", b",\n") + b"]"
    assert_same(read(data, schema, options, sizes=sizes), plain_table(data, schema, options, arrays=arrays))
    needed = choice.draw(st.lists(st.sampled_from(schema.names), unique=True))
    whole, part = read(data, schema, options), read(data, schema, options, needed=needed)
    places = [schema.names.index(name) for name in needed]
    assert comparable(part.rows) == comparable([tuple(row[i] for i in places) for row in whole.rows])
    assert part.positions == whole.positions


@EXAMPLES
@given(st.one_of(array_files, files, noise), schemas, option_sets, buffer_sizes)
def test_arrays_in_any_buffers(data, schema, options, sizes):
    if ambiguous(schema, options):
        options = {n: v for n, v in options.items() if n != "field.a"}
    options["multiLine"] = "true"
    assert_same(read(data, schema, options, sizes=sizes), plain_table(data, schema, options, arrays=True))


@EXAMPLES
@given(st.binary(max_size=300), buffer_sizes, st.sampled_from(["true", "false"]))
def test_any_bytes_at_all(data, sizes, multi_line):
    schema = Schema((Field("a", pa.string()), Field("b", pa.list_(pa.int32()))))
    options = {"multiLine": multi_line}
    expected = plain_table(data, schema, options, arrays=multi_line == "true")
    assert_same(read(data, schema, options, sizes=sizes), expected)


@examples(150)
@given(line_files, schemas, st.data())
def test_needed_columns_do_not_change_rows(data, schema, choice):
    needed = choice.draw(st.lists(st.sampled_from(schema.names), unique=True))
    whole = read(data, schema, {"multiLine": "false"})
    part = read(data, schema, {"multiLine": "false"}, needed=needed)
    places = [schema.names.index(name) for name in needed]
    assert comparable(part.rows) == comparable([tuple(row[i] for i in places) for row in whole.rows])
    assert part.positions == whole.positions
    assert [e for e in part.errors if e.column is None] == [e for e in whole.errors if e.column is None]


def as_python(value: PlainJson) -> Any:
    """What json.loads gives."""
    if value.kind == "object":
        return {name.held: as_python(held) for name, held in value.held}
    if value.kind == "array":
        return [as_python(held) for held in value.held]
    return value.held if value.kind == "text" else json.loads(value.raw)


@EXAMPLES
@given(st.one_of(records, spoilt(), noise))
def test_the_plain_reader_takes_what_python_takes(data):
    expected: Any = None
    with contextlib.suppress(ValueError):
        expected = json.loads(data.decode("utf-8", "surrogateescape"))
    if not isinstance(expected, dict):
        with pytest.raises(MalformedError):
            parse_record(data, 900)
        return
    found = parse_record(data, 900)
    halves = b"\\ud8" in data.lower() or b"\\ude" in data.lower()
    # What is no Unicode is None for the plain reader, and half of a surrogate pair for Python.
    if not halves and data.decode("utf-8", "replace").encode() == data:
        assert comparable(as_python(found)) == comparable(expected)
