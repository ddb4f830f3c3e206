"""The asynchronous mode gives what the synchronous one gives: rows, their order, errors, what is told of quotes."""

from __future__ import annotations

import bz2
import gzip
import random
import struct
import threading

import lz4.frame
import pyarrow as pa
import pytest
from csv_reading import columns
from long_form import times
from ranged_file import RangedFile, Split, outcome, read_cut

from tidemill.errors import FormatError, TidemillError
from tidemill.formats.base import RowReader
from tidemill.formats.reading.read_modes import check_read_mode, parse_read_mode
from tidemill.formats.registry import lookup
from tidemill.schema import Field, Schema

SCHEMA = columns(a=pa.string(), b=pa.int32())
NUMBERS = Schema((Field("x", pa.int64(), False), Field("y", pa.float64())))
PIECES = [b'"', b",", b"\n", b"a", b"1", b" ", b"\r\n", b'"\n"', b'",', b"1,2\n", b'"a\n",1\r\n', b'"x""y",\n', b"#,\n"]


def reader_of(format_: str, schema: Schema, options: dict[str, str], rng: random.Random) -> RowReader:
    needed = rng.choice([schema.names, rng.sample(schema.names, rng.randrange(len(schema) + 1))])
    reader = lookup(format_).reader(schema, options, needed)
    assert isinstance(reader, RowReader)
    return reader


def in_mode(options: dict[str, str], rng: random.Random) -> dict[str, str]:
    size = rng.choice([1, 2, 3, 7, 16, 64, 100, 1000])
    return {**options, "readmode": "async", "maxconcurrentreads": str(rng.randrange(1, 9)), "buffersize": str(size)}


def check_whole_outcome(format_: str, schema: Schema, options: dict[str, str], data: bytes, rng: random.Random) -> None:
    """A split from anywhere to anywhere: the same rows, then the same failure or the same that is told of quotes."""
    start, end = sorted(rng.randrange(len(data) + 2) for _ in range(2))
    if rng.random() < 0.4:
        start, end = 0, len(data)
    in_quotes = rng.choice([None, False, True]) if start else False
    reader = reader_of(format_, schema, options, rng)
    asynchronous = in_mode(options, rng)
    file = RangedFile(data, rng.choice([1, 5, 100, 1000]))
    expected = outcome(Split(reader, file, options, (start, end), in_quotes))
    slow = RangedFile(data, 1, rng.choice([0.0, 0.0, 0.002]), rng)
    found = outcome(Split(reader, slow, asynchronous, (start, end), in_quotes))
    assert found[1:] == expected[1:], (start, end, asynchronous)
    if not expected[1]:
        assert found[0] == expected[0], (start, end, asynchronous)
    assert not slow.is_open
    assert slow.most <= int(asynchronous["maxconcurrentreads"])


def test_csv(seed):
    rng = random.Random(seed)
    for _ in range(times(600)):
        data = b"".join(rng.choices(PIECES, k=rng.randrange(80)))
        data = rng.choice([b"", b"", b"", b"\xef\xbb\xbf"]) + data
        options: dict[str, str] = {}
        if rng.random() < 0.3:
            options["comment"] = "#"
        if rng.random() < 0.2:
            options["ignoreLeadingWhiteSpace".lower()] = "true"
        if rng.random() < 0.2:
            options["quote"] = rng.choice(["", "a"])
        if rng.random() < 0.2:
            options.update(rng.choice([{"sep": ",x"}, {"escape": "b"}, {"linesep": "\r\n"}]))
            options.pop("ignoreleadingwhitespace", None)
        options["mode"] = rng.choice(["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
        if rng.random() < 0.2 and not {"sep", "linesep", "quote"} & options.keys():
            options["header"] = "true"
            data = b"b,a\n" + data
        check_whole_outcome("csv", SCHEMA, options, data, rng)


def test_json_lines_and_arrays(seed):
    rng = random.Random(seed)
    for _ in range(times(300)):
        lines = [
            rng.choice([b'{"a": "x", "b": 1}', b'{"b": "x"}', b"", b"{", b'{"a": "\\n[,"}', b'{"b": 3000000000}', b" "])
            for _ in range(rng.randrange(30))
        ]
        data = rng.choice([b"\n", b"\r\n"]).join(lines)
        if rng.random() < 0.3:
            data = b"[" + b",\n".join(line for line in lines if len(line) > 1) + rng.choice([b"]", b""])
        options = {"mode": rng.choice(["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])}
        check_whole_outcome("json", SCHEMA, options, data, rng)


def native(rng: random.Random, count: int) -> bytes:
    return b"".join(
        struct.pack("<Bqd", rng.choice([0, 0, 1, 2]), rng.randrange(100), rng.random()) for _ in range(count)
    )


def test_native_rows(seed):
    rng = random.Random(seed)
    for _ in range(200):
        data = native(rng, rng.randrange(40)) + bytes(rng.choice([0, 0, 5]))
        options = {"mode": rng.choice(["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])}
        check_whole_outcome("native", NUMBERS, options, data, rng)


@pytest.mark.parametrize("payload", ["csv", "json", "native"])
def test_frames(seed, payload):
    rng = random.Random(seed)
    for _ in range(100):
        frames = []
        for _ in range(rng.randrange(12)):
            text = {
                "csv": rng.choice([b"1,2\n3,4", b"a,b", b"", b'"']),
                "json": rng.choice([b'{"a": "x"}', b"{", b'{"b": 2}\n{"b": 3}']),
                "native": native(rng, rng.randrange(4)),
            }[payload]
            frames.append(struct.pack("<I", len(text)) + text)
        data = b"".join(frames) + rng.choice([b"", b"\1", b"\xff\xff\xff\xff"])
        options = {"payload": payload, "mode": rng.choice(["PERMISSIVE", "FAILFAST"])}
        check_whole_outcome("frames", NUMBERS if payload == "native" else SCHEMA, options, data, rng)


@pytest.mark.parametrize(
    ("codec", "compress"), [("gzip", gzip.compress), ("bzip2", bz2.compress), ("lz4", lz4.frame.compress)]
)
def test_compressed_files_are_read_ahead_and_decoded_in_order(seed, codec, compress):
    rng = random.Random(seed)
    for _ in range(30):
        data = b"".join(rng.choices(PIECES, k=200))
        packed = compress(data)
        packed = packed[: rng.choice([len(packed), len(packed), rng.randrange(len(packed))])]
        options = {"compression": codec, "mode": rng.choice(["PERMISSIVE", "FAILFAST"])}
        reader = reader_of("csv", SCHEMA, options, rng)
        bounds = (0, len(packed))
        expected = outcome(Split(reader, RangedFile(packed, 50), options, bounds, False))
        found = outcome(Split(reader, RangedFile(packed, 1, 0.001, rng), in_mode(options, rng), bounds, False))
        assert found == expected


def test_splits_that_begin_inside_quotes(seed):
    """Guesses, parities, and so what the barrier makes of them."""
    rng = random.Random(seed)
    wrong = 0
    for _ in range(60):
        rows = [b'"%s",%d\n' % (b"x\n,y" * rng.randrange(8), rng.randrange(9)) for _ in range(rng.randrange(1, 60))]
        data = b"".join(rows)
        if rng.random() < 0.3:
            data = b"".join(rng.choices(PIECES, k=150))
        cuts = sorted(rng.sample(range(1, len(data)), min(rng.randrange(1, 8), len(data) - 1)))
        reader = reader_of("csv", SCHEMA, {}, rng)
        expected, told = read_cut(reader, RangedFile(data, 64), {}, cuts, guess=False)
        guessed, _ = read_cut(reader, RangedFile(data, 64), {}, cuts, guess=True)
        slow = RangedFile(data, 1, 0.001, rng)
        found, told_found = read_cut(reader, slow, in_mode({}, rng), cuts, guess=True)
        assert found == guessed == expected
        wrong += sum(one != other for one, other in zip(told, told_found, strict=True))
    assert wrong, "some guesses were wrong"


def test_a_row_over_many_buffers_and_splits(seed):
    rng = random.Random(seed)
    data = b'1,2\n"' + b"x\n" * 3000 + b'",5\n' + b"3,4\n" * 20
    for cuts in ([], [2000], [2000, 4000], [6005, 6010]):
        reader = reader_of("csv", SCHEMA, {}, rng)
        expected, _ = read_cut(reader, RangedFile(data, 1 << 20), {}, cuts, guess=False)
        found, _ = read_cut(reader, RangedFile(data, 1, 0.001, rng), in_mode({}, rng), cuts, guess=True)
        assert found == expected
        assert len(found.rows) == 22


def test_the_first_of_several_errors_is_raised(seed):
    rng = random.Random(seed)
    for _ in range(30):
        lines = [b"1,2\n"] * 200
        bad = sorted(rng.sample(range(200), 3))
        for row in bad:
            lines[row] = b"1,x\n"
        data = b"".join(lines)
        options = {"mode": "FAILFAST", "quote": rng.choice(["", '"'])}
        reader = lookup("csv").reader(SCHEMA, options, SCHEMA.names)
        split = Split(reader, RangedFile(data, 1, 0.001, rng), in_mode(options, rng), (0, len(data)), False)
        with pytest.raises(FormatError, match=f"byte {bad[0] * 4},"):
            list(split.rows())


def test_rows_before_a_read_that_fails_are_given():
    data = b"1,2\n" * 1000
    for options in ({"mode": "FAILFAST"}, {"mode": "FAILFAST", "quote": ""}):
        file = RangedFile(data, 1, 0.001, random.Random(1))
        file.fails_at = {2000: OSError("gone"), 3000: OSError("too late")}
        asynchronous = {**options, "readmode": "async", "buffersize": "100"}
        split = Split(lookup("csv").reader(SCHEMA, options, SCHEMA.names), file, asynchronous, (0, 4000), False)
        table, failure, _ = outcome(split)
        assert failure == "gone"
        assert len(table.rows) == 500
        file.data = data[:1204] + b"1,x\n" + data[1208:]
        split = Split(lookup("csv").reader(SCHEMA, options, SCHEMA.names), file, asynchronous, (0, 4000), False)
        _, failure, _ = outcome(split)
        assert "byte 1204," in failure, "what is wrong in front of it is told"
        assert not file.is_open


@pytest.mark.parametrize("format_", ["csv", "native"])
def test_what_is_under_way_is_bounded(format_):
    """While the first read hangs, no more than two buffers for each concurrent read are asked for."""
    may_go = threading.Event()

    class Hanging(RangedFile):
        def read_at(self, position: int, length: int) -> bytes:
            found = super().read_at(position, length)
            if position == 0:
                may_go.wait(60)
            return found

    data = native(random.Random(0), 5000) if format_ == "native" else b"1,2\n" * 20_000
    schema = NUMBERS if format_ == "native" else SCHEMA
    options = {"readmode": "async", "maxconcurrentreads": "3", "buffersize": "1k"}
    file = Hanging(data, 1)
    split = Split(lookup(format_).reader(schema, {}, schema.names), file, options, (0, len(data)), False)
    seen: list[int] = []
    timer = threading.Timer(0.3, lambda: (seen.append(file.reads), may_go.set()))
    timer.start()
    assert sum(rows.count for rows in split.rows()) > 3000
    assert seen == [6]


def test_little_is_read_behind_the_end_of_a_split():
    data = b"1,2\n" * 20_000
    file = RangedFile(data, 1, 0.001, random.Random(2))
    options = {"readmode": "async", "buffersize": "1k"}
    split = Split(lookup("csv").reader(SCHEMA, {}, SCHEMA.names), file, options, (10_000, 30_000), None)
    assert sum(rows.count for rows in split.rows()) == 5000
    assert file.furthest <= 32 * 1024


def test_a_split_that_is_given_up_leaves_no_thread():
    data = b"1,2\n" * 20_000
    file = RangedFile(data, 1, 0.001, random.Random(2))
    options = {"readmode": "async", "buffersize": "1k"}
    before = threading.active_count()
    rows = Split(lookup("csv").reader(SCHEMA, {}, SCHEMA.names), file, options, (0, len(data)), None).rows()
    next(rows)
    rows.close()
    assert threading.active_count() == before
    assert not file.is_open


def test_reads_overlap():
    data = b'"1",2\n' * 20_000
    reader = lookup("csv").reader(SCHEMA, {}, SCHEMA.names)
    most = []
    for options in ({}, {"readmode": "async", "buffersize": "4k"}):
        file = RangedFile(data, 4096, 0.01)
        assert sum(rows.count for rows in Split(reader, file, options, (0, len(data)), False).rows()) == 20_000
        most.append(file.most)
    assert most[0] == 1 < most[1]


@pytest.mark.parametrize(
    "options",
    [
        {"readMode": "later"},
        {"readMode": "async", "maxConcurrentReads": "0"},
        {"readMode": "async", "maxConcurrentReads": "65"},
        {"maxConcurrentReads": "2"},
        {"readMode": "sync", "maxConcurrentReads": "2"},
        {"bufferSize": "no"},
        {"bufferSize": "0"},
        {"bufferSize": "257m"},
    ],
)
def test_bad_options(options):
    with pytest.raises(TidemillError, match="TM4003"):
        parse_read_mode(options)


def test_options_of_formats_that_choose_what_they_read():
    for name, refused in (("csv", False), ("json", False), ("native", False), ("parquet", True), ("arrow", True)):
        reader = lookup(name).reader(NUMBERS, {}, NUMBERS.names)
        check_read_mode(name, reader, {})
        if refused:
            with pytest.raises(TidemillError, match="TM4065"):
                check_read_mode(name, reader, {"readMode": "async"})
        else:
            check_read_mode(name, reader, {"readMode": "ASYNC", "bufferSize": "64k"})


@pytest.mark.parametrize(
    ("length", "most"), [(10, 1 << 21), (1 << 21, (1 << 21) + 99), ((1 << 22) - 99, 1 << 22), (1 << 22, 1 << 21)]
)
def test_a_split_is_read_at_once_where_that_is_not_much(length: int, most: int) -> None:
    assert parse_read_mode({}).buffer_for(length, 99) == most
    assert parse_read_mode({"bufferSize": "100"}).buffer_for(length, 99) == 100
