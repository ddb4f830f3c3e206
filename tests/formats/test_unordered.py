"""Reading out of order gives what reading in order gives: any bytes, buffers, arrivals and numbers of threads."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from csv_reading import Table, as_table, columns, feed_split
from hypothesis import given
from hypothesis import strategies as st
from long_form import examples

from tidemill.errors import FormatError
from tidemill.formats.base import RowReader, Rows
from tidemill.formats.csv.format import CsvFormat
from tidemill.formats.debezium.format import OPERATION, DebeziumFormat
from tidemill.formats.messages import Messages
from tidemill.formats.text.delimiters import Delimiters, delimiter_table
from tidemill.formats.text.line_ends import NO_BYTE, PLAIN_LINES, LineRules
from tidemill.formats.text.line_split import LineSplitReader
from tidemill.formats.text.summaries import Automaton
from tidemill.formats.unordered.reader import Part, UnorderedReader, in_order, read_unordered
from tidemill.schema import Field, Schema

EXAMPLES = examples(200)

SCHEMA = columns(a=pa.string(), b=pa.int32())
QUOTED = b'1,2\n"a\n,""b",3\r\nx"y,4\n' * 3 + b'"c,\n\n",5\n,\n'

texts = st.one_of(
    st.lists(st.sampled_from([b'"', b",", b"\n", b"a", b"1", b" ", b"\r\n", b'"\n"', b'",']), max_size=150).map(
        b"".join
    ),
    st.lists(st.sampled_from([b"1,2\n", b'"a\n",1\r\n', b'"x""y",\n', b'z"\n', b'"', b"\n", b"#,\n"])).map(b"".join),
    st.binary(max_size=200),
    st.binary(max_size=60).map(lambda rest: b"\xef\xbb\xbf" + rest),
)
option_sets = st.fixed_dictionaries(
    {},
    optional={
        "comment": st.just("#"),
        "mode": st.sampled_from(["PERMISSIVE", "DROPMALFORMED"]),
        "ignoreLeadingWhiteSpace": st.just("true"),
        "quote": st.sampled_from(['"', "", "'"]),
    },
)


def sequential(reader: RowReader, data: bytes) -> Table:
    header = data if reader.header_bytes_needed() else None
    split = reader.split(start=0, end=len(data), file_size=len(data), in_quotes=False, header=header)
    return as_table(feed_split(split, data))


def csv_reader(options: Mapping[str, str] | None = None, schema: Schema = SCHEMA) -> RowReader:
    return CsvFormat().reader(schema, options or {}, schema.names)


def builder_of(reader: RowReader, data: bytes):
    split = reader.split(start=0, end=len(data), file_size=len(data), in_quotes=False, header=data)
    assert isinstance(split, LineSplitReader)
    return split.builder


def check_parts(parts: Sequence[Part], size: int) -> None:
    """They tile the object, and their sequence numbers rise with it."""
    ordered = sorted(parts, key=lambda p: p.begin)
    edges = [0, *(p.end for p in ordered)]
    assert [p.begin for p in ordered] == edges[:-1]
    assert edges[-1] == size
    assert ordered == sorted(parts, key=lambda p: (p.first_sequence, p.last_sequence))
    for one, other in pairwise(ordered):
        assert one.last_sequence <= other.first_sequence or one.end == other.begin
    assert all(p.begin < p.end and p.first_sequence <= p.last_sequence for p in ordered)


def arrive(reader: UnorderedReader, data: bytes, cuts: Sequence[int], order: Sequence[int], threads: int) -> list[Part]:
    """Feed buffers in an order from several threads; the end is told when half have come."""
    edges = [0, *cuts, len(data)]
    queue = list(reversed(order))
    parts: list[Part | None] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while True:
                try:
                    place = queue.pop()
                except IndexError:
                    return
                for settled in reader.look(place + 1, edges[place], data[edges[place] : edges[place + 1]]):
                    parts.append(reader.build(settled))
                if place == order[len(order) // 2]:
                    parts.append(reader.end(len(order), len(data)))
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    reader.validate()
    assert reader.held_bytes == 0
    return [part for part in parts if part is not None]


@EXAMPLES
@given(texts, option_sets, st.data(), st.integers(1, 16), st.booleans())
def test_any_arrival_gives_what_reading_in_order_gives(data, options, choice, threads, tiny):
    reader = csv_reader(options)
    if tiny:
        cuts = list(range(1, len(data)))
    else:
        cuts = sorted(choice.draw(st.lists(st.integers(0, len(data)), max_size=20)))
    order = choice.draw(st.permutations(range(len(cuts) + 1)))
    parts = arrive(UnorderedReader(builder_of(reader, data)), data, cuts, order, threads)
    check_parts(parts, len(data))
    assert as_table(part.rows for part in in_order(parts)) == sequential(reader, data)


@EXAMPLES
@given(texts, option_sets, st.integers(1, 40), st.integers(1, 6))
def test_reading_an_object(data, options, buffer_bytes, threads):
    reader = csv_reader(options)

    def fetch(start: int, length: int) -> bytes:
        return data[start : start + length]

    parts = list(read_unordered(reader, fetch, len(data), threads=threads, buffer_bytes=buffer_bytes))
    check_parts(parts, len(data))
    if threads == 1:
        assert parts == list(in_order(parts))
    assert as_table(part.rows for part in in_order(parts)) == sequential(reader, data)


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_reads_that_take_turns_at_being_slow(threads, seed):
    rng = random.Random(seed)
    data = b"a,b\n" + QUOTED * 300 + b"last,1"
    reader = csv_reader({"header": "true"})
    expected = sequential(reader, data)
    under_way, most = [0], [0]
    guard = threading.Lock()

    def fetch(start: int, length: int) -> bytes:
        with guard:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        time.sleep(rng.random() * 0.005)
        with guard:
            under_way[0] -= 1
        return data[start : start + length]

    parts = list(read_unordered(reader, fetch, len(data), threads=threads, buffer_bytes=997))
    check_parts(parts, len(data))
    assert as_table(part.rows for part in in_order(parts)) == expected
    assert most[0] == 1 if threads == 1 else most[0] > 1


def test_change_events(seed):
    rng = random.Random(seed)
    lines = []
    for _ in range(400):
        row = {"k": rng.randrange(50), "v": "x" * rng.randrange(40)}
        lines.append(json.dumps({"op": rng.choice("cud"), "before": row, "after": row}))
        if rng.random() < 0.1:
            lines.append(rng.choice(["", "null", "{", '{"op": "?"}']))
    data = "\n".join(lines).encode()
    schema = Schema((Field("k", pa.int64(), False), Field("v", pa.string()), Field(OPERATION, pa.string(), False)))
    reader = DebeziumFormat().message_reader(schema, {}, schema.names, Messages(("k",), OPERATION, "D"))
    cuts = sorted(rng.randrange(len(data)) for _ in range(200))
    order = rng.sample(range(201), 201)
    parts = arrive(UnorderedReader(builder_of(reader, data)), data, cuts, order, 8)
    check_parts(parts, len(data))
    expected = sequential(reader, data)
    assert expected.errors and len(expected.rows) > 100
    found = as_table(part.rows for part in in_order(parts))
    assert (found.positions, found.errors) == (expected.positions, expected.errors)
    # Of a deletion only the key counts.
    assert [(k, v, op) if op == "I" else k for k, v, op in found.rows] == [
        (k, v, op) if op == "I" else k for k, v, op in expected.rows
    ]


class _Pieces:
    """Rows that are the texts between delimiters."""

    lines: LineRules = PLAIN_LINES

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter

    def build(self, data, position: int, row_ends: int, quotes: bool, unterminated: bool) -> Rows:
        texts = data.tobytes().split(self._delimiter)
        if not texts[-1]:
            texts.pop()
        assert len(texts) <= row_ends
        starts = np.cumsum([position, *(len(t) + len(self._delimiter) for t in texts[:-1])], dtype=np.int64)
        return Rows(pa.RecordBatch.from_arrays([pa.array(texts, pa.binary())], ["t"]), len(texts), starts, ())


@EXAMPLES
@given(st.sampled_from([b"||", b"aab", b"aa", b"\r\n"]), st.text("ab|\r\n", min_size=1, max_size=60), st.data())
def test_delimiters_that_lie_across_buffers(delimiter, text, choice):
    data = text.encode()
    cuts = sorted(choice.draw(st.lists(st.integers(0, len(data)), max_size=60)))
    order = choice.draw(st.permutations(range(len(cuts) + 1)))
    automaton: Automaton = delimiter_table(Delimiters(b"", delimiter, NO_BYTE, NO_BYTE, 0))
    parts = arrive(UnorderedReader(_Pieces(delimiter), automaton), data, cuts, order, 3)
    check_parts(parts, len(data))
    found = [t for part in in_order(parts) for t in part.rows.batch.column(0).to_pylist()]
    expected = data.split(delimiter)
    assert found == (expected if expected[-1] else expected[:-1])


def test_a_buffer_within_quotes_waits_for_no_parsing():
    """Rows of a later buffer may be built before those of the ones in front."""
    data = b'"a\nb","' + b"\n" * 30 + b'",1\n2,3\n4,5\n'
    reader = UnorderedReader(builder_of(csv_reader(), data))
    assert reader.look(2, 20, data[20:]) == []
    first, second = reader.look(1, 0, data[:20])
    part = reader.build(second)
    assert part is not None
    assert as_table([part.rows]).rows == (("2", 3), ("4", 5))
    part = reader.build(first)
    assert part is not None and (part.first_sequence, part.last_sequence) == (1, 2)
    assert part.rows.errors[0].reason == "too_many_fields"
    assert reader.end(2, len(data)) is None
    reader.validate()


def test_an_object_without_bytes():
    assert list(read_unordered(csv_reader(), lambda start, length: b"", 0)) == []
    assert list(read_unordered(csv_reader({"header": "true"}), lambda start, length: b"", 0, threads=4)) == []


@pytest.mark.parametrize("threads", [1, 4])
def test_what_a_read_raises_is_raised(threads):
    def fetch(start: int, length: int) -> bytes:
        if start > 1000:
            raise OSError("gone")
        return b"1,2\n" * (length // 4)

    with pytest.raises(OSError, match="gone"):
        list(read_unordered(csv_reader(), fetch, 10_000, threads=threads, buffer_bytes=100))


@pytest.mark.parametrize("threads", [1, 4])
def test_short_reads(threads):
    with pytest.raises(FormatError, match="TM4063"):
        list(read_unordered(csv_reader(), lambda start, length: b"1,2\n", 10_000, threads=threads))


@pytest.mark.parametrize("threads", [1, 4])
def test_malformed_rows_in_mode_failfast(threads):
    data = b"1,2\n" * 500 + b"1,x\n"
    with pytest.raises(FormatError, match="TM4020"):
        reader = csv_reader({"mode": "FAILFAST"})
        list(read_unordered(reader, lambda s, n: data[s : s + n], len(data), threads=threads, buffer_bytes=64))


def test_a_reader_that_is_closed_early_stops_reading():
    fetched = []

    def fetch(start: int, length: int) -> bytes:
        fetched.append(start)
        return b"1,2\n" * (length // 4)

    parts = read_unordered(csv_reader(), fetch, 400_000, threads=2, buffer_bytes=400)
    before = threading.active_count()
    next(parts)
    parts.close()
    assert threading.active_count() <= before
    assert len(fetched) <= 40


def test_a_slow_consumer_or_a_slow_read_bounds_what_is_under_way():
    data = b"1,2\n" * 100_000
    first_may_go = threading.Event()
    fetched = []

    def fetch(start: int, length: int) -> bytes:
        fetched.append(start)
        if start == 0:
            first_may_go.wait(60)
        return data[start : start + length]

    parts = read_unordered(csv_reader(), fetch, len(data), threads=2, buffer_bytes=4000)
    timer = threading.Timer(0.5, lambda: (window.append(len(fetched)), first_may_go.set()))
    window: list[int] = []
    timer.start()
    count = sum(part.rows.count for part in parts)
    assert count == 100_000
    assert window[0] <= 8


def test_formats_without_lines(monkeypatch):
    class NoLines:
        def header_bytes_needed(self) -> bool:
            return False

        def split(self, **given):
            return object()

    with pytest.raises(FormatError, match="TM4064"):
        list(read_unordered(NoLines(), lambda s, n: b"", 10))
