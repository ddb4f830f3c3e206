"""Segments of a spool of binary rows: any splits of one give the rows that the bytes behind its head have as a file."""

from __future__ import annotations

import random
import struct
from itertools import accumulate, pairwise

import pytest
from csv_reading import Table, as_table

import tidemill.formats
from tidemill.ddl import parse_columns
from tidemill.errors import FormatError
from tidemill.formats.base import RowReader, Rows
from tidemill.formats.records.spooled_records import RowWidth, records_of, spool_reader
from tidemill.formats.registry import lookup

HEAD = b"#tm\n"
FIXED, SIZED = "k BIGINT, b BOOLEAN", "k BIGINT, s STRING"


def fixed_row(chance: random.Random) -> bytes:
    """Sometimes with a boolean that is none."""
    return struct.pack("<Bqb", chance.choice((0, 0, 1, 2)), chance.randrange(-9, 10**9), chance.choice((0, 1, 1, 7)))


def sized_row(chance: random.Random) -> bytes:
    """Sometimes with a string that is no UTF-8."""
    text = chance.choice(("", "x", "é" * chance.randrange(90))).encode() + chance.choice((b"", b"", b"\xff"))
    body = struct.pack("<BqII", 0, chance.randrange(10**9), 17, len(text)) + text
    return struct.pack("<I", len(body)) + body


def frame(chance: random.Random) -> bytes:
    """None, one or several rows; quotes that stay open."""
    text = chance.choice((b"", b"1,a", b"2,b\n3,c\n", b'4,"x\ny"', b'5,"open', b"six,f\r\n", b"7"))
    return struct.pack(">H", len(text)) + text


CASES = {
    "fixed": ("native", FIXED, {}, fixed_row),
    "sized": ("native", SIZED, {}, sized_row),
    "frames": ("frames", SIZED, {"payload": "csv", "sizebytes": "2", "endianness": "big"}, frame),
}


def read_segment(format_: str, columns: str, options: dict[str, str], data: bytes, cuts: list[int], step: int) -> Table:
    """Rows of all splits of a segment, fed in buffers of ``step`` bytes."""
    schema = parse_columns(columns)
    reader = spool_reader(lookup(format_), schema, options, schema.names, len(HEAD))
    assert isinstance(reader, RowReader) and not reader.header_bytes_needed()
    parts: list[Rows] = []
    for start, end in pairwise([len(HEAD), *cuts, len(data)]):
        split = reader.split(start=start, end=end, file_size=len(data), in_quotes=None, header=None)
        at = split.read_from
        while not split.done:
            stop = min(len(data), at + step)
            parts.append(split.feed(data[at:stop], stop == len(data)))
            for row in range(parts[-1].count):
                assert data[parts[-1].positions[row] :].startswith(parts[-1].raw(row))
            at = stop
        assert (split.quote_parity, split.assumed_in_quotes) == (0, False)
    return as_table(parts)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_splits_of_a_segment_have_the_rows_of_a_file(case: str, mode: str, seed: int) -> None:
    chance = random.Random(seed)
    format_, columns, options, make = CASES[case]
    options = {**options, "mode": mode}
    for _ in range(20):
        rows = [make(chance) for _ in range(chance.randrange(1, 60))]
        data = b"".join(rows)
        whole = as_table(list(tidemill.formats.open(format_, columns, **options).rows(data)))
        ends = [len(HEAD) + end for end in accumulate(map(len, rows))]
        places = range(len(HEAD), ends[-1]) if case == "fixed" else ends[:-1]
        cuts = sorted(chance.sample(places, min(len(places), chance.randrange(5))))
        found = read_segment(format_, columns, options, HEAD + data, cuts, chance.choice((1, 5, 40, 5000)))
        assert found.rows == whole.rows
        assert found.positions == tuple(p + len(HEAD) for p in whole.positions)
        assert sorted(found.errors, key=repr) == sorted((e.moved(len(HEAD)) for e in whole.errors), key=repr)


@pytest.mark.parametrize("case", CASES)
def test_fail_fast_tells_the_place_in_the_segment(case: str) -> None:
    format_, columns, options, _ = CASES[case]
    good, bad = {
        "fixed": (struct.pack("<Bqb", 0, 1, 1), struct.pack("<Bqb", 0, 1, 9)),
        "sized": (struct.pack("<IBqII", 18, 0, 1, 17, 1) + b"a", struct.pack("<IBqII", 17, 0, 1, 99, 1)),
        "frames": (b"\0\0031,a", b"\0\3x,b"),
    }[case]
    begin = len(HEAD) + len(good)
    cuts = [begin + 3] if case == "fixed" else [begin]
    with pytest.raises(FormatError, match="TM4020") as caught:
        read_segment(format_, columns, {**options, "mode": "FAILFAST"}, HEAD + good + bad + good, cuts, 1000)
    assert caught.value.got.startswith(f"byte {begin + 2 if case == 'frames' else begin}, column")


def test_what_a_format_says_of_its_rows() -> None:
    for format_, columns, options, make in CASES.values():
        records = records_of(lookup(format_), parse_columns(columns), options)
        row = make(random.Random(1))
        if isinstance(records, RowWidth):
            assert records.width == len(row)
        else:
            assert records is not None
            size = int.from_bytes(row[: records.width], "big" if records.big else "little")
            assert size == len(row) - records.width and records.least <= size <= records.most
    assert records_of(lookup("csv"), parse_columns(FIXED), {}) is None
