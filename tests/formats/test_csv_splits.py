"""Splits own rows by their first byte, and tell what their neighbours must know."""

from __future__ import annotations

import pyarrow as pa
import pytest
from csv_reading import as_table, columns, feed_split, read, read_in_splits
from tests.formats.csv_plain_table import plain_table

from tidemill.formats.csv import marking
from tidemill.formats.csv.format import CsvFormat
from tidemill.formats.csv.rows import RowBuilder
from tidemill.formats.text.quote_guess import WINDOW, guess_in_quotes

SCHEMA = columns(a=pa.string(), b=pa.string())
DATA = b'1,x\r\n"2\n2",""""\n\n3,"a,b\n"\r\n4,'
STRAY = b'5" a,1\nb,6""\n"c\n""",x"""y\n  "d, e",7\n"" ,"f"\n g"h,"i\n"\n"j"k,l\n"m",n"'


@pytest.mark.parametrize("first", range(len(DATA) + 1))
def test_every_pair_of_cuts(first):
    whole = read(DATA, SCHEMA)
    assert whole.positions == (0, 5, 17, 27)
    for second in range(first, len(DATA) + 1):
        assert read_in_splits(DATA, SCHEMA, {}, [first, second], sizes=[3, 1, 4]) == whole


@pytest.mark.parametrize("cut", range(len(DATA) + 1))
def test_splits_with_a_header(cut):
    data = b'b,"a"\n' + DATA
    assert read_in_splits(data, SCHEMA, {"header": "true"}, [cut]) == read(data, SCHEMA, {"header": "true"})


def split_of(data: bytes, start: int, end: int, in_quotes: bool | None):
    reader = CsvFormat().reader(SCHEMA, {}, SCHEMA.names)
    return reader.split(start=start, end=end, file_size=len(data), in_quotes=in_quotes, header=None)


@pytest.mark.parametrize("start", range(0, len(DATA), 3))
@pytest.mark.parametrize("assumed", [True, False, None])
def test_parity_tells_the_state_behind_the_split(start, assumed):
    def moved(cut: int) -> int:
        while 0 < cut < len(DATA) and DATA[cut - 1 : cut + 1] == b'""':
            cut += 1
        return cut

    for end in range(start, len(DATA) + 1):
        split = split_of(DATA, start, end, assumed)
        feed_split(split, DATA, sizes=[5] * 3)
        assert split.done
        right = split.assumed_in_quotes == bool(DATA[: moved(start)].count(b'"') % 2)
        assert not right or split.quote_parity == DATA[moved(start) : moved(end)].count(b'"') % 2


@pytest.mark.parametrize("options", [{}, {"ignoreLeadingWhiteSpace": "true"}])
@pytest.mark.parametrize("first", range(len(STRAY) + 1))
def test_every_pair_of_cuts_among_stray_quotes(first, options):
    whole = read(STRAY, SCHEMA, options)
    assert len(whole.rows) == 8
    for second in range(first, len(STRAY) + 1):
        assert read_in_splits(STRAY, SCHEMA, options, [first, second], sizes=[3, 1, 4]) == whole


def test_a_boundary_among_stray_quotes_in_files_of_any_length():
    for quotes in range(9):
        data = b'a,x"' + b'"' * quotes + b'y\nb,"' + b'""' * quotes + b'"\n"c","\n"\n'
        whole = read(data, SCHEMA)
        assert len(whole.rows) == 3
        for cut in range(len(data)):
            for size in (1, 2, 50):
                assert read_in_splits(data, SCHEMA, {}, [cut], sizes=[size] * len(data)) == whole


@pytest.mark.parametrize(
    "mark", [b"\xef", b"\xef\xbb", b"\xef\xbb\xbf", b",\xbb", b"\xef\xbb\xbf\xef", b",\xbb\xbf", b"\xef,\xbf"]
)
@pytest.mark.parametrize("size", [1, 2, 3, 99])
def test_only_a_whole_mark_at_the_beginning_is_a_mark(mark, size):
    """Behind anything else a quote is text."""
    data = mark + b'"\n",a\n' + b"1,b\n" * 9
    expected = plain_table(data, SCHEMA, {})
    for cut in range(7):
        found = read_in_splits(data, SCHEMA, {}, [cut], sizes=[size] * len(data))
        assert (found.rows, found.positions, found.errors) == (expected.rows, expected.positions, expected.errors)


def test_reading_starts_one_byte_early():
    assert split_of(DATA, 0, 4, None).read_from == 0
    assert split_of(DATA, 5, 9, None).read_from == 4


def test_a_split_stops_behind_its_last_row():
    split = split_of(b"1,a\n2,b\n3,c\n", 0, 5, False)
    rows = split.feed(b"1,a\n2,b\n3", False)
    assert rows.positions.tolist() == [0, 4]
    assert split.done
    assert split.feed(b",c\n", True).count == 0


def test_a_split_inside_a_row_is_done_without_rows():
    split = split_of(b"1,aaaaaaaa\n2,b\n", 3, 6, False)
    assert split.feed(b"aaaaaaaa", False).count == 0
    assert split.done


def test_a_quoted_state_that_is_given_is_believed():
    data = b'x,"a\n1,b\n",c\n2,d\n'
    split = split_of(data, 5, len(data), True)
    table = as_table(feed_split(split, data))
    assert split.assumed_in_quotes
    assert table.rows == (("2", "d"),)
    wrong = as_table(feed_split(split_of(data, 5, len(data), False), data))
    assert wrong.positions[0] == 5


@pytest.mark.parametrize(
    ("behind", "inside"),
    [
        (b"a,b\nc,d\n", False),
        (b'a,"b"\nc', False),
        (b'a b",c\n', True),
        (b'",x\n', False),  # nothing tells whether this quote opens or closes
        (b'z",x\n', True),
        (b'z""y",x\n', True),
        (b'"",1,"p, q",2\n', False),
        (b'text ""quoted"" and\nmore","x"\n', True),
        (b'"""p",1\n', False),
        (b"", False),
    ],
)
def test_guess(behind, inside):
    assert guess_in_quotes(b"," + behind, ord(","), ord('"')) is inside


def test_the_majority_of_quotes_decides():
    data = b'5" pipe, x\n' + b'1,"a b","c d"\n' * 20
    assert guess_in_quotes(b"\n" + data, ord(","), ord('"')) is True
    data = b'"z,5" pipe\n' + b'1,"a b","c d"\n' * 20
    assert guess_in_quotes(b"\n" + data, ord(","), ord('"')) is False


def test_guessing_right_needs_no_second_reading():
    data = b"".join(b'%d,"text %d,\nwith lines"\n' % (i, i) for i in range(400))
    for start in range(1, len(data), 997):
        split = split_of(data, start, len(data), None)
        feed_split(split, data, sizes=[50] * 1000)
        assert split.assumed_in_quotes == bool(data[:start].count(b'"') % 2)


def test_a_guess_without_quotes_waits_for_no_more_than_its_window():
    data = b"1,a\n" * WINDOW
    split = split_of(data, 4, len(data), None)
    assert split.feed(data[3 : 3 + WINDOW - 1], False).count == 0
    assert split.feed(data[3 + WINDOW - 1 : 3 + WINDOW], False).count == (WINDOW - 1) // 4


def test_an_end_beyond_the_file_is_its_end():
    data = b"1,a\n2,b"
    reader = CsvFormat().reader(SCHEMA, {}, ["a"])
    split = reader.split(start=0, end=10**9, file_size=len(data), in_quotes=False, header=None)
    assert as_table(feed_split(split, data)).rows == (("1",), ("2",))


@pytest.mark.parametrize(("start", "end"), [(0, 20_000), (777, 20_000), (777, 9_000), (0, 9_000), (8_900, 9_000)])
def test_rows_and_fields_are_found_in_one_pass(monkeypatch, start, end):
    """Also in the buffers with the beginning and with the end of a split."""
    built: list[str] = []
    for name in ("build", "build_marked"):
        method = getattr(RowBuilder, name)

        def noting(self, data, *others, name=name, method=method):
            if data.size:
                built.append(name)
            return method(self, data, *others)

        monkeypatch.setattr(RowBuilder, name, noting)
    data = b"".join(b'%d,"text, %d"\r\n' % (i, i) for i in range(1000))
    split = split_of(data, start, end, False)
    step = 2_000
    rows = []
    for at in range(split.read_from, len(data), step):
        rows += split.feed(data[at : at + step], at + step >= len(data)).batch.to_pylist()
    first, behind = (data[:at].count(b"\n") + (0 < at < len(data)) for at in (start, end))
    assert [tuple(row.values()) for row in rows] == [(str(i), f"text, {i}") for i in range(first, behind)]
    assert set(built) == {"build_marked"}


def test_a_long_row_of_the_split_before_is_passed(monkeypatch):
    """Its end is first looked for among some bytes alone."""
    monkeypatch.setattr(marking, "_LIKELY_ROW", 30)
    begins = b'"' + b"a,\n" * 100 + b'",x\n'
    rows = [b"%d,y\n" % i for i in range(50)]
    data, starts = begins + b"".join(rows), [len(begins) + sum(map(len, rows[:i])) for i in range(50)]
    for start in range(1, len(data), 7):
        split = split_of(data, start, len(data), data[:start].count(b'"') % 2 == 1)
        found = as_table(feed_split(split, data, sizes=[40] * 100)).rows
        assert found == tuple((str(i), "y") for i in range(50) if starts[i] >= start), start


def test_marks_of_a_row_that_is_none_of_the_table_are_not_kept():
    """A file with other line ends is one row; what follows it is read as ever."""
    long = b"ab,\r" * 5000
    data = b"1,x\n" + long + b"\n" + b"".join(b"%d,y\n" % i for i in range(200))
    split = split_of(data, 0, len(data), None)
    rows, most = [], 0
    for at in range(0, len(data), 200):
        rows += split.feed(data[at : at + 200], at + 200 >= len(data)).batch.to_pylist()
        most = max(most, split._marks.size)
    assert most < 2500
    assert [tuple(row.values()) for row in rows] == [("1", "x"), ("ab", "\rab"), *((str(i), "y") for i in range(200))]


@pytest.mark.parametrize("most", [0, 10, 100, 1000])
def test_marks_are_not_kept_beyond_what_their_offsets_hold(monkeypatch, most):
    monkeypatch.setattr(marking, "_MOST_BYTES", most)
    data = b"".join(b'%d,"%s"\n' % (i, b"a,\n" * (i % 90)) for i in range(300))
    assert read(data, SCHEMA, sizes=[50]) == read(data, SCHEMA)
