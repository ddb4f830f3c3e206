"""COPY TO STDOUT: bytes as PostgreSQL 15 gives them, rows as psycopg and psql take them, and what is refused."""

from __future__ import annotations

import ast
import csv
import datetime as dt
import io
import random
import struct
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from postgres_server import PostgresServer
from psycopg import sql
from test_values import MAKERS

from tidemill.errors import TidemillError
from tidemill.serve.postgres.session.copy_statement import copied
from tidemill.serve.postgres.session.statements import statements_of
from tidemill.serve.postgres.values.copy_rows import CopyFormat, copy_rows
from tidemill.serve.postgres.values.pg_types import of_arrow
from tidemill.serve.postgres.values.text_cells import text_cells

EXPECTED = Path(__file__).with_name("copied_by_postgresql.txt")
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False, None]),
    "small": (pa.int16(), [-32768, 32767, None]),
    "n": (pa.int32(), [0, -1, None]),
    "big": (pa.int64(), [2**63 - 1, -(2**63), None]),
    "r": (pa.float32(), [1.5, float("-inf"), None]),
    "d": (pa.float64(), [1e-300, float("nan"), None]),
    "price": (pa.decimal128(20, 4), [Decimal("12345.6789"), Decimal("-0.0001"), None]),
    "s": (pa.string(), ['Grüße\t"x"\\ ,y\n\r\b\f\v;|\x01', "", None]),
    "t": (pa.string(), ["\\N", "\\.", "NULL"]),
    "b": (pa.binary(), [b"\x00\xff\\", b"", None]),
    "day": (pa.date32(), [dt.date(2024, 2, 29), dt.date(1, 1, 1), None]),
    "at": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2024, 7, 1, 12, 0, 0, 123456, dt.UTC), dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.UTC), None],
    ),
    "local": (
        pa.timestamp("us"),
        [dt.datetime(2024, 7, 1, 12, 0, 0, 500_000), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), None],
    ),
    "numbers": (pa.list_(pa.int32()), [[1, None, -3], [], None]),
    "words": (pa.list_(pa.string()), [["a", "", None, "b c", 'q"\\', "NULL", "{,}\t"], [], None]),
    "span": (
        pa.month_day_nano_interval(),
        [pa.MonthDayNano([14, 3, 4_000_005_000]), pa.MonthDayNano([0, -1, 0]), None],
    ),
}
"""The rows that PostgreSQL was asked to copy: one of values, one of others, and one of NULL."""


def expected() -> Iterator[tuple[list[str], str, list[bytes]]]:
    """The columns and options of a COPY, and the messages that PostgreSQL gave."""
    for section in EXPECTED.read_text().split("\n\n"):
        head, *lines = section.strip().splitlines()
        columns, _, options = head.removeprefix("-- ").partition(" TO STDOUT")
        names = list(COLUMNS) if columns == "*" else columns.split(", ") if columns else []
        yield names, options.strip(), [ast.literal_eval(line) for line in lines]


def form(options: str) -> CopyFormat:
    return copied(statements_of(f"COPY z TO STDOUT {options}")[0]).format


def contents(data: bytes) -> list[bytes]:
    """What is in CopyData messages."""
    found, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("!i", data, at + 1)
        assert data[at : at + 1] == b"d"
        found.append(data[at + 5 : at + 1 + length])
        at += 1 + length
    return found


def given(batches: list[pa.RecordBatch], columns: list[str], format_: CopyFormat) -> list[bytes]:
    schema = batches[0].schema
    types = [(name, of_arrow(schema.field(name).type)) for name in columns]
    parts = copy_rows(iter([b.select(columns or schema.names) for b in batches]), types, format_, "UTC")
    counted = [(rows, b"".join(map(bytes, data))) for rows, data in parts]
    assert sum(rows for rows, _ in counted) == sum(b.num_rows for b in batches)
    return contents(b"".join(data for _, data in counted))


@pytest.mark.parametrize("pieces", [1, 3])
def test_bytes_are_those_of_postgresql(pieces: int) -> None:
    arrays = [pa.array(values, type_) for type_, values in COLUMNS.values()]
    whole = pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))
    batches = [whole] if pieces == 1 else [whole.slice(i, 1) for i in range(pieces)]
    count = 0
    for columns, options, messages in expected():
        assert given(batches, columns, form(options)) == messages, (columns, options)
        count += 1
    assert count >= 20


def escaped(text: str | None, of: CopyFormat) -> str:
    """A value in the format text: the twin of the columns' kernel."""
    if text is None:
        return of.null
    named = {"\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v"}
    return "".join("\\" + named.get(c, c) if c in named or c == of.delimiter else c for c in text)


def quoted(text: str | None, of: CopyFormat, alone: bool) -> str:
    """A value in the format csv: the twin of the columns' kernel."""
    if text is None:
        return of.null
    if (
        text == of.null
        or (alone and text == "\\.")
        or "*" in of.forced
        or set(text) & {of.delimiter, of.quote, *"\r\n"}
    ):
        return of.quote + "".join(of.escape + c if c in (of.quote, of.escape) else c for c in text) + of.quote
    return text


def test_random_rows_against_twins(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(40):
        rows, names = chance.randrange(1, 60), chance.sample(sorted(MAKERS), chance.randrange(1, 6))
        values = [[None if chance.random() < 0.2 else MAKERS[n][1](chance) for _ in range(rows)] for n in names]
        arrays = [pa.array(column, MAKERS[n][0]) for n, column in zip(names, values, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, names=names)
        cut = chance.randrange(rows)
        texts = list(zip(*(text_cells(a, "UTC").to_pylist() for a in arrays), strict=True))
        delimiter = chance.choice("\t,;|~\x01 ")
        plain_text = CopyFormat("text", delimiter, chance.choice(("\\N", "", "NULL")))
        lines = [delimiter.join(escaped(t, plain_text) for t in row) + "\n" for row in texts]
        assert given([batch.slice(0, cut), batch.slice(cut)], names, plain_text) == [x.encode() for x in lines]
        quote, escape = chance.choice("\"'%"), chance.choice("\"\\'")
        forced = chance.choice(((), ("*",)))
        in_csv = CopyFormat("csv", delimiter, chance.choice(("", "NULL", "\\N")), False, quote, escape, forced)
        lines = [delimiter.join(quoted(t, in_csv, len(names) == 1) for t in row) + "\n" for row in texts]
        assert given([batch.slice(0, cut), batch.slice(cut)], names, in_csv) == [x.encode() for x in lines]


@pytest.mark.parametrize("query", ["everything", "(SELECT * FROM everything ORDER BY id DESC)", "spending (n, amount)"])
def test_psycopg_takes_rows(connection: psycopg.Connection[Any], query: str) -> None:
    select = f"SELECT {'n, amount' if query.startswith('spending') else '*'} FROM {query.split('(')[0] or query}"
    if query.startswith("("):
        select = query[1:-1]
    for binary in (False, True):
        cursor = connection.cursor(binary=binary)
        cursor.execute(select)
        assert cursor.description is not None
        rows, types = cursor.fetchall(), [c.type_code for c in cursor.description]
        with cursor.copy(f"COPY {query} TO STDOUT (FORMAT {'binary' if binary else 'text'})") as copy:
            copy.set_types(types)
            found = list(copy.rows())
        key = lambda row: str(row[0])  # noqa: E731
        assert list(map(repr, sorted(found, key=key))) == list(map(repr, sorted(rows, key=key)))
        assert cursor.rowcount == len(rows) and connection.execute("SELECT 1").fetchone() == (1,)


def test_prepared_and_in_transactions(server: PostgresServer, connection: psycopg.Connection[Any]) -> None:
    query = sql.SQL("COPY (SELECT n FROM spending WHERE customer = {}) TO STDOUT").format(1)
    with connection.cursor() as cursor:
        with cursor.copy(query) as copy:
            assert [bytes(m) for m in copy] == [b"2\n"]
        with cursor.copy("COPY (SELECT n FROM spending WHERE customer = %s) TO STDOUT", (2,)) as copy:
            assert [bytes(m) for m in copy] == [b"1\n"]
    with server.connect() as other:
        before = other.execute("SELECT count(*) FROM spending").fetchone()
        assert before is not None
        server.order(f"copy{random.random()}", (77, "1.00"))
        server.mill.advance()
        with other.cursor().copy("COPY spending TO STDOUT") as copy:
            assert before == (sum(1 for _ in copy),), "the transaction reads one epoch"
    with server.connect() as other, other.cursor().copy("COPY spending TO STDOUT") as copy:
        assert sum(1 for _ in copy) == before[0] + 1


def test_psql_copies_into_a_file(server: PostgresServer, tmp_path: Path) -> None:
    file = tmp_path / "spending.csv"
    done = server.psql(f"\\copy customers to '{file}' csv header")
    assert done.returncode == 0 and done.stdout.startswith("COPY "), done.stderr
    rows = {(str(r["customer"]), r["name"]) for r in server.mill.read("customers").to_pylist()}
    head, *lines = list(csv.reader(io.StringIO(file.read_text())))
    assert head == ["customer", "name"] and set(map(tuple, lines)) == rows
    query = "(SELECT id, name FROM everything WHERE id < 3 ORDER BY id)"
    done = server.psql(f"\\copy {query} to stdout with (format text, null 'none', delimiter '|', header)")
    assert done.stdout == 'id|name\n1|Grüße, "x" \\\\ y\\tz\n2|\n', done.stderr
    done = server.psql(f"COPY {query} TO STDOUT CSV DELIMITER ';' QUOTE AS ''''", "SELECT 1 AS after", options=("-At",))
    assert done.stdout == "1;Grüße, \"x\" \\ y\tz\n2;''\n1\n"
    done = server.psql(f"\\copy {query} to '{file}' binary")
    assert done.stdout == "COPY 2\n" and file.read_bytes().startswith(b"PGCOPY\n\xff\r\n\0")


@pytest.mark.parametrize(
    ("statement", "state", "number"),
    [
        ("COPY spending FROM STDIN", "25006", "TM8110"),
        ("COPY spending (n) FROM '/tmp/x'", "25006", "TM8110"),
        ("COPY spending TO '/tmp/x'", "25006", "TM8110"),
        ("COPY spending TO PROGRAM 'id'", "25006", "TM8110"),
        ("COPY (DELETE FROM spending) TO STDOUT", "25006", "TM8110"),
        ("COPY (INSERT INTO spending VALUES (1) RETURNING n) TO STDOUT", "25006", "TM8110"),
        ("COPY nothing TO STDOUT", "42P01", "TM2012"),
        ("COPY spending (nothing) TO STDOUT", "42703", "TM8125"),
        ("COPY (SELECT * FROM read_csv('/etc/passwd')) TO STDOUT", "42501", "TM8121"),
        ("COPY spending TO STDOUT (FORMAT xml)", "22023", "TM8128"),
        ("COPY spending TO STDOUT (FORMAT csv, FORMAT csv)", "42601", "TM8128"),
        ("COPY spending TO STDOUT (formt csv)", "42601", "TM8128"),
        ("COPY spending TO STDOUT (DELIMITER 'ab')", "0A000", "TM8128"),
        ("COPY spending TO STDOUT (DELIMITER 'a')", "22023", "TM8128"),
        ("COPY spending TO STDOUT (QUOTE 'x')", "0A000", "TM8128"),
        ("COPY spending TO STDOUT (FORMAT binary, HEADER)", "0A000", "TM8128"),
        ("COPY spending TO STDOUT (NULL E'a\\n')", "22023", "TM8128"),
        ("COPY spending TO STDOUT (FORMAT csv, NULL '\"')", "0A000", "TM8128"),
        ("COPY spending TO STDOUT (FORMAT csv, DELIMITER '\"')", "22023", "TM8128"),
        ("COPY spending TO STDOUT (FORMAT csv, FORCE_QUOTE (nothing))", "42703", "TM8128"),
        ("COPY spending TO STDOUT (HEADER maybe)", "42601", "TM8128"),
        ("COPY spending TO STDOUT (ENCODING 'latin1')", "22023", "TM8128"),
        ("COPY spending TO STDOUT ()", "42601", "TM8123"),
        ("COPY spending TO STDOUT (", "42601", "TM8123"),
        ("COPY spending TO STDOUT csv header extra", "42601", "TM8123"),
        ("COPY spending WHERE true TO STDOUT", "25006", "TM8110"),
        ("COPY (SELECT 1 TO STDOUT", "42601", "TM8123"),
        ("COPY", "42601", "TM8123"),
    ],
)
def test_what_is_refused(connection: psycopg.Connection[Any], statement: str, state: str, number: str) -> None:
    for prepared in (False, True):
        with pytest.raises(psycopg.Error, match=number) as error:
            connection.execute(statement, prepare=prepared)
        assert error.value.sqlstate == state
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_an_error_among_rows_ends_the_copy(connection: psycopg.Connection[Any]) -> None:
    value = "CASE WHEN g < 90000 THEN g ELSE CAST('x' || g AS int) END"
    late = f"COPY (SELECT {value} FROM generate_series(1, 100000) t(g)) TO STDOUT"
    with pytest.raises(psycopg.Error, match="TM8126"), connection.cursor().copy(late) as copy:
        for _ in copy:
            pass
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_copy_is_cancelled(connection: psycopg.Connection[Any]) -> None:
    endless = "COPY (SELECT a.g FROM generate_series(1, 1000000) a(g), generate_series(1, 1000000) b(g)) TO STDOUT"
    taken = 0
    with pytest.raises(psycopg.errors.QueryCanceled, match="TM8112"), connection.cursor().copy(endless) as copy:
        for _ in copy:
            taken += 1
            if taken == 1000:
                threading.Thread(target=connection.cancel_safe).start()
    assert taken >= 1000 and connection.execute("SELECT 1").fetchone() == (1,)


def test_a_statement_that_is_none() -> None:
    with pytest.raises(TidemillError, match="TM8123"):
        copied(statements_of("COPY v TO STDOUT 'csv'")[0])
    assert copied(statements_of('COPY BINARY public."a b" (x, "y z") TO STDOUT')[0]).query == (
        'SELECT x, "y z" FROM public."a b"'
    )
