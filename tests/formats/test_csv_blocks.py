"""Files of many regular rows, whose columns are parsed block by block: equal to the plain reader, row for row."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest
from csv_reading import Table, columns, read
from tests.formats.csv_plain_table import plain_table

from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ

Cell = Callable[[random.Random], str]


def _text(r: random.Random) -> str:
    word = "".join(r.choice("abc XYZé") for _ in range(r.choice([1, 2, 7, 8, 9, 31, 32, 33, 62, 63, 64, 65, 200])))
    return r.choice([word, word, f'"{word}"', '"' + word[:20] + '""q"""'])


def _moment(r: random.Random) -> str:
    return f"{r.randrange(1, 9999):04}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}"


KINDS: dict[pa.DataType, tuple[Cell, Cell]] = {
    # What a column mostly holds, and what it holds now and then.
    pa.bool_(): (lambda r: r.choice(["true", "FALSE"]), lambda r: "yes"),
    pa.int8(): (lambda r: str(r.randrange(-128, 128)), lambda r: r.choice(["128", "-129", "+5", '"7"'])),
    pa.int16(): (lambda r: str(r.randrange(-32768, 32768)), lambda r: "32768"),
    pa.int32(): (lambda r: str(r.randrange(-(2**31), 2**31)), lambda r: str(r.randrange(2**31, 2**40))),
    pa.int64(): (lambda r: str(r.randrange(10 ** r.randrange(1, 17))), lambda r: str(r.randrange(10**18, 10**20))),
    pa.float32(): (lambda r: f"{r.random() * 100:.3f}", lambda r: repr(r.random() * 10 ** r.randrange(-40, 40))),
    pa.float64(): (lambda r: f"{r.random() * 1e5:.2f}", lambda r: repr(r.random())),
    pa.decimal128(9, 2): (lambda r: f"{r.random() * 1e4:.2f}", lambda r: r.choice(["1e3", "12345678.9", "0.005"])),
    pa.decimal128(38, 10): (lambda r: f"-{r.random() * 1e4:.4f}", lambda r: str(r.randrange(10**27))),
    pa.string(): (_text, lambda r: r.choice(['"open', '"a"b', "\x7f"])),
    pa.binary(): (_text, lambda r: "x" * 300),
    pa.date32(): (_moment, lambda r: r.choice(["2024-2-3", "2023-02-29", "2024-02-29"])),
    TIMESTAMP: (lambda r: _moment(r) + " 01:02:03", lambda r: _moment(r) + "T23:59:59.5+01:00"),
    TIMESTAMP_NTZ: (lambda r: _moment(r) + "T11:12:13", lambda r: _moment(r) + " 25:00:00"),
}


@pytest.mark.parametrize("number", range(24))
def test_like_the_plain_reader(seed: int, number: int) -> None:
    chance = random.Random(seed + number)
    types = [chance.choice(list(KINDS)) for _ in range(chance.randrange(1, 9))]
    schema = columns(**{f"c{i}": type_ for i, type_ in enumerate(types)})
    odd, empty = chance.choice([0.0, 0.003, 0.1, 0.6]), chance.choice([0.0, 0.02, 0.5])
    quoted = chance.random() < 0.7

    def cell(type_: pa.DataType) -> str:
        if chance.random() < empty and len(types) > 1:
            return ""
        text = KINDS[type_][chance.random() < odd](chance)
        return text if quoted else text.replace('"', "")

    ends = chance.choice([["\n"], ["\r\n"], ["\n", "\r\n"]])
    rows = [",".join(cell(t) for t in types) + chance.choice(ends) for _ in range(chance.choice([127, 128, 129, 500]))]
    options = {}
    if chance.random() < 0.3:
        options["header"] = "true"
        rows.insert(0, ",".join(f"c{i}" for i in range(len(types))) + ends[0])
    if chance.random() < 0.2:
        options["nullValue"] = chance.choice(["NA", "1"])
    data = (chance.choice(["", "", "\ufeff"]) + "".join(rows)).encode()
    data = data.rstrip(b"\r\n") if chance.random() < 0.3 else data
    needed = tuple(name for name in schema.names if chance.random() < 0.7)
    expected = plain_table(data, schema, options)
    sizes = [chance.randrange(1, len(data)) for _ in range(chance.randrange(3))]
    assert read(data, schema, options, sizes=sizes) == Table(expected.rows, expected.positions, expected.errors)
    places = [schema.names.index(name) for name in needed]
    some = read(data, schema, options, needed=needed, sizes=sizes)
    assert some.rows == tuple(tuple(row[i] for i in places) for row in expected.rows)


def test_every_row_malformed_takes_no_longer_a_row() -> None:
    """What is wrong is placed without a look at the other rows: a quarter of a million flaws in one buffer."""
    rows = 250_000
    found = read(b"x,1\n" * rows, columns(a=pa.int32(), b=pa.int32()))
    assert [error.at for error in found.errors] == list(range(0, 4 * rows, 4))
    assert found.rows == ((None, 1),) * rows
