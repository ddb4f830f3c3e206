"""Splits that begin behind an escape, within a delimiter, or anywhere else own each row once."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from csv_reading import as_table, columns, feed_split, read, read_in_splits

import tidemill.formats
from tidemill.errors import TidemillError
from tidemill.formats.csv.format import CsvFormat
from tidemill.formats.text.quote_guess import guess_in_quotes
from tidemill.runtime.files.progress import verify_quotes
from tidemill.sources.split import Split, SplitResult

SCHEMA = columns(a=pa.string(), b=pa.string())
ESCAPED = rb'1,"\\"' + b"\n" + rb'"\"2\\\"' + b'\n,",x\r\n\n3,\\"\n"\\",4\n5","\\\\\\\\"\n6,"\\'
LONG = b'1|||x\n\n"2||\n"||"|"\n|3||||\n||""\n"4"|||'
ENDS = b'1,x##2,"#"##"3##",###4,#\n##5'


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (ESCAPED, {"escape": "\\"}),
        (ESCAPED, {"escape": "\\", "ignoreLeadingWhiteSpace": "true", "lineSep": "\r\n"}),
        (LONG, {"sep": "||"}),
        (ENDS, {"lineSep": "##"}),
    ],
)
def test_every_pair_of_cuts(data, options):
    whole = read(data, SCHEMA, options)
    assert whole.rows
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            assert read_in_splits(data, SCHEMA, options, [first, second], sizes=[3, 1, 4]) == whole


def test_a_boundary_among_bytes_that_all_move_it():
    for count in range(12):
        data = b'1,"a' + b"\\" * (2 * count) + b'"\n2,"b' + b"\\" * (2 * count + 1) + b'"\n",\n3,c\n'
        whole = read(data, SCHEMA, {"escape": "\\"})
        assert len(whole.rows) == 3
        for cut in range(len(data)):
            for size in (1, 2, 50):
                assert read_in_splits(data, SCHEMA, {"escape": "\\"}, [cut], sizes=[size] * len(data)) == whole


@pytest.mark.parametrize("wrong", [False, True])
def test_the_barrier_finds_wrong_guesses(wrong):
    """As an epoch does: guesses first, then all splits again with what is known, until the chain is right."""
    data = b"".join(b'%d||"text\\" %d,\nwith||lines\\\\"\n' % (i, i) for i in range(200))
    reader = CsvFormat().reader(SCHEMA, {"escape": "\\", "sep": "||"}, SCHEMA.names)
    cuts = [Split("t", "f", at, to, len(data), 0) for at, to in pairwise([*range(0, len(data), 97), len(data)])]

    def run(in_quotes):
        results, parts = [], []
        for cut in cuts:
            split = reader.split(
                start=cut.start, end=cut.end, file_size=len(data), in_quotes=in_quotes(cut), header=None
            )
            parts += feed_split(split, data, [50] * 5)
            results.append(SplitResult(cut, split.assumed_in_quotes, split.quote_parity, 0, 0, 0, 0))
        return results, as_table(parts)

    results, table = run(lambda cut: True if wrong else None)
    truth = verify_quotes(results, {("t", None, "f"): False})
    assert (truth is not None) == wrong
    readings = 1
    while truth is not None:
        results, table = run(truth.__getitem__)
        truth = verify_quotes(results, {("t", None, "f"): False})
        readings += 1
    # Each reading settles one more split at least; here all of them were wrong.
    assert readings <= len(cuts) + 1
    assert table.rows == tuple((str(i), f'text" {i},\nwith||lines\\') for i in range(200))


@pytest.mark.parametrize(
    ("behind", "inside"),
    [
        (b'a\\" b"||c\n', True),
        (b'a \\"||c\n', False),
        (b'a||"b\\"||"\n', False),
        (b'"\\\\"||1', False),
    ],
)
def test_guess_with_an_escape(behind, inside):
    assert guess_in_quotes(b"|" + behind, b"||", ord('"'), b"\n", ord("\\")) is inside


@pytest.mark.parametrize(
    ("option", "number", "hint"),
    [
        ("escapes", "TM4005", "did you mean 'escape'?"),
        ("nullMarkers", "TM4005", "null"),
        ("emptyValue", "TM4003", "nullValue"),
        ("ignoreSurroundingSpaces", "TM4003", "ignoreLeadingWhiteSpace"),
    ],
)
def test_options_of_others_get_a_hint(option, number, hint):
    with pytest.raises(TidemillError) as caught:
        tidemill.formats.open("csv", "a BIGINT", **{option: "x"})
    assert caught.value.number == number
    assert hint in caught.value.hint


def test_a_header_comments_and_ragged_rows_in_a_dialect():
    data = b"#c\r\n#\r\nb||a\r\n1||2||3\r\n#x||y\r\n4\r\n\r\n5||6"
    table = read(data, SCHEMA, {"sep": "||", "lineSep": "\r\n", "header": "true", "comment": "#"}, sizes=[5] * 9)
    assert table.rows == (("2", "1"), (None, "4"), ("6", "5"))
    assert table.reasons == [(None, "too_many_fields"), (None, "too_few_fields")]
    assert [e.raw for e in table.errors] == [b"1||2||3", b"4"]
