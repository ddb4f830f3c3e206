"""psycopg reads views in the text and the binary format; what it gives is what the mill reads."""

from __future__ import annotations

import datetime as dt
import math
import threading
import zoneinfo
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from postgres_server import ZONE, PostgresServer
from psycopg import generators


def ask(connection: psycopg.Connection[Any], kind: str, *arguments: Any) -> Any:
    """The last result of a call of libpq's. Those that wait would keep the server of this process waiting."""
    getattr(connection.pgconn, f"send_{kind}")(*arguments)
    return connection.wait(generators.execute(connection.pgconn))[-1]


BERLIN = zoneinfo.ZoneInfo(ZONE)


def plain(value: Any) -> Any:
    """Values as one can compare them: NaN is one, instants are in UTC, maps are objects."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    if isinstance(value, list):
        if value and all(isinstance(v, tuple) for v in value):
            return {k: plain(v) for k, v in value}
        return [plain(v) for v in value]
    return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def rows_of(server: PostgresServer, view: str) -> list[tuple[Any, ...]]:
    found = server.mill.read(view)
    rows = [tuple(map(plain, row.values())) for row in found.to_pylist()]
    return sorted(rows, key=lambda row: row[0])


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("prepare", [False, True])
def test_all_types(server: PostgresServer, connection: psycopg.Connection[Any], binary: bool, prepare: bool) -> None:
    cursor = connection.cursor(binary=binary)
    cursor.execute("SELECT * FROM everything ORDER BY id", prepare=prepare)
    found = [tuple(map(plain, row)) for row in cursor.fetchall()]
    expected = rows_of(server, "everything")
    assert expected[1][17] == [] and expected[2][1:] == (None,) * 17
    expected[1] = (*expected[1][:17], {})  # an empty map is an empty list in Arrow's Python
    assert found == expected
    assert [c.name for c in cursor.description or ()] == server.mill.read("everything").column_names
    types = [c.type_code for c in cursor.description or ()]
    assert types == [23, 16, 21, 21, 20, 700, 701, 1700, 1700, 25, 17, 1082, 1184, 1114, 1007, 1009, 114, 114]
    price = (cursor.description or ())[7]
    assert (price.precision, price.scale) == (20, 4)


def test_texts_are_as_postgresql_writes_them(connection: psycopg.Connection[Any]) -> None:
    text = ask(connection, "query", b"SELECT * FROM everything WHERE id IN (1, 2, 5) ORDER BY id")
    rows = [[text.get_value(i, j) for j in range(text.nfields)] for i in range(text.ntuples)]
    assert rows[0][1:9] == [b"t", b"127", b"-32768", b"9223372036854775807", b"1.5", b"1e-300", b"12345.6789",
                            b"1.0000000000"]  # fmt: skip
    assert rows[0][10:16] == [b"\\x00ff", b"2024-02-29", b"2024-07-01 12:00:00.123456+02", b"1969-12-31 23:59:59.5",
                              b"{1,NULL,-3}", b'{a,"",NULL,"b c","q\\"\\\\","NULL","{,}"}']  # fmt: skip
    assert rows[0][16:] == [b'{"x":1,"y":null}', b'{"k":1,"l":null}']
    assert rows[1][5:9] == [b"0", b"1.7976931348623157e+308", b"-0.0001", b"-0.0000000001"]
    assert rows[1][11] == b"0001-01-01" and rows[1][14:16] == [b"{}", b"{}"]
    assert rows[1][12] == b"1883-11-18 12:00:00+00:53:28"
    assert rows[2][5:7] == [b"Infinity", b"-Infinity"] and rows[2][12] == b"2024-10-27 02:30:00+02"


def test_a_client_sees_instants_in_its_own_time_zone(connection: psycopg.Connection[Any]) -> None:
    assert connection.info.timezone == BERLIN
    before = connection.execute("SELECT at, at::date FROM everything WHERE id = 1").fetchone()
    connection.execute("SET TimeZone = 'America/New_York'")
    assert str(connection.info.timezone) == "America/New_York"
    text = ask(connection, "query", b"SELECT at FROM everything WHERE id = 1").get_value(0, 0)
    assert text == b"2024-07-01 06:00:00.123456-04"
    after = connection.execute("SELECT at, at::date FROM everything WHERE id = 1").fetchone()
    assert before == after  # the same instant, and the same day: expressions count in the mill's zone
    for wrong in ("Nowhere/City", "+99"):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="TM8119"):
            connection.execute(f"SET TimeZone = '{wrong}'")


VALUES: list[Any] = [
    5, -5, 2**40, "it's \\ \"x\"", "ü", 1.25, float("inf"), None, True, b"\x00\xff'", Decimal("-12345.6789"),
    Decimal("0.00001"), Decimal(10) ** 30, dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30, 0, 5),
    dt.time(1, 2, 3, 4),
    dt.datetime(2024, 2, 29, 12, 30, tzinfo=dt.UTC), dt.timedelta(days=3, seconds=-5), [1, 2, None],
    ["a,b", 'q"', None],
]  # fmt: skip


@pytest.mark.parametrize("form", ["%s", "%b", "%t"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_parameters(connection: psycopg.Connection[Any], form: str, value: Any) -> None:
    cast = {dt.timedelta: "::interval", dt.time: "::time"}.get(type(value), "")
    if type(value) is list and "a,b" in value:
        cast = "::text[]"
    found = connection.execute(f"SELECT {form}{cast} AS v", (value,)).fetchone()
    assert found is not None and found[0] == value


def test_parameters_take_the_type_of_what_they_are_compared_with(connection: psycopg.Connection[Any]) -> None:
    texts = ["everything WHERE id = $1 AND price > $2 AND day = $3 AND at > $4 AND name LIKE $5 AND flag = $6 LIMIT $7",
             "spending WHERE n + $1 > 2 AND customer = ANY($2) AND customer BETWEEN $3 AND $4 AND $5::bigint = 1",
             ]  # fmt: skip
    for text, types in zip(texts, ([23, 1700, 1082, 1184, 25, 16, 20], [20, 1007, 23, 23, 20]), strict=True):
        ask(connection, "prepare", b"p", f"SELECT * FROM {text}".encode())
        described = ask(connection, "describe_prepared", b"p")
        assert [described.param_type(i) for i in range(described.nparams)] == types
        assert described.nfields in (18, 3)
        connection.execute("DEALLOCATE p")


def test_prepared_statements(connection: psycopg.Connection[Any]) -> None:
    for amount in range(5):
        found = connection.execute(
            "SELECT customer FROM spending WHERE amount > %s", (amount,), prepare=True
        ).fetchall()
        assert sorted(found) == [(c,) for c, a in ((1, 6.5), (2, 3.0), (3, 0.25)) if a > amount]
    assert ask(connection, "prepare", b"p", b"SELECT 1").status == psycopg.pq.ExecStatus.COMMAND_OK
    assert b"TM8117" in ask(connection, "prepare", b"p", b"SELECT 2").error_message
    assert b"TM8116" in ask(connection, "query_prepared", b"nope", []).error_message
    assert b"TM8116" in ask(connection, "describe_portal", b"nope").error_message
    assert b"TM8118" in ask(connection, "query_prepared", b"p", [b"1"]).error_message
    assert b"TM8120" in ask(connection, "prepare", b"q", b"SELECT 1; SELECT 2").error_message
    assert b"TM8118" in ask(connection, "query_params", b"SELECT $1::int", [b"x"]).error_message
    assert ask(connection, "query_prepared", b"p", []).get_value(0, 0) == b"1"


def test_rows_come_as_they_are_asked_for(connection: psycopg.Connection[Any]) -> None:
    with connection.transaction(), connection.cursor("c") as cursor:
        cursor.itersize = 7
        cursor.execute("SELECT x FROM generate_series(1, %s) AS g(x)", (100,))
        assert [x for (x,) in cursor] == list(range(1, 101))
    with connection.pipeline():
        first, second = connection.execute("SELECT 1"), connection.execute("SELECT n FROM spending WHERE customer = 1")
        assert (first.fetchone(), second.fetchone()) == ((1,), (2,))
    streamed = connection.cursor().stream("SELECT x, x * 2 FROM generate_series(1, 30000) AS g(x)")
    assert sum(b for _, b in streamed) == 30_000 * 30_001


def test_a_transaction_reads_one_epoch(start: Any) -> None:
    server = start()
    server.fill()
    with server.connect() as connection, server.connect(autocommit=True) as other:
        before = connection.execute("SELECT tidemill_epoch(), SUM(n) FROM spending").fetchone()
        server.order("b", (1, "1.00"), (9, "1.00"))
        server.mill.advance()
        server.mill.sql("CREATE OR REPLACE MATERIALIZED VIEW customers AS SELECT customer * 2 AS twice FROM orders")
        server.mill.advance()
        assert connection.execute("SELECT tidemill_epoch(), SUM(n) FROM spending").fetchone() == before
        assert len(connection.execute("SELECT name FROM customers").fetchall()) == 3
        now = other.execute("SELECT tidemill_epoch(), SUM(n) FROM spending").fetchone()
        assert now is not None and before is not None and now[0] > before[0] and now[1] == before[1] + 2
        assert connection.execute("SHOW tidemill.epoch").fetchone() == (str(before[0]),)
        connection.commit()
        assert connection.execute("SELECT tidemill_epoch(), SUM(n) FROM spending").fetchone() == now
        connection.rollback()
        ask(other, "prepare", b"p", b"SELECT * FROM customers")
        ask(other, "describe_prepared", b"p")
        server.mill.sql(
            "CREATE OR REPLACE MATERIALIZED VIEW customers AS SELECT CAST(customer AS STRING) AS c FROM orders"
        )
        server.mill.advance()
        assert b"TM8122" in ask(other, "query_prepared", b"p", []).error_message


def test_what_changes_something(start: Any) -> None:
    server = start()
    server.fill()
    with server.connect(autocommit=True) as connection:
        created = connection.execute("CREATE MATERIALIZED VIEW big AS SELECT customer FROM orders WHERE amount > 2.6")
        assert created.statusmessage == "CREATE MATERIALIZED VIEW"
        server.mill.advance()
        assert sorted(connection.execute("SELECT * FROM big").fetchall()) == [(1,), (2,)]
        assert connection.execute("DROP VIEW big").statusmessage == "DROP VIEW"
        with pytest.raises(psycopg.errors.UndefinedTable, match="TM2012"):
            connection.execute("SELECT * FROM big")
        assert ("spending", "fresh") in [row[:2] for row in connection.execute("SHOW VIEWS").fetchall()]
        assert connection.execute("DESCRIBE spending").fetchall()[0] == ("customer", "int", True)
        assert "orders" in str(connection.execute("EXPLAIN INCREMENTAL SELECT * FROM orders").fetchall())
        connection.execute("BEGIN")
        with pytest.raises(psycopg.errors.ActiveSqlTransaction, match="TM8115"):
            connection.execute("DROP VIEW spending")


ERRORS = [
    ("SELEC 1", "42601", "TM8123"),
    ("SELECT 1 +", "42601", "TM8123"),
    ("SELECT 'x", "42601", "TM8123"),
    ("SELECT nope FROM spending", "42703", "TM8125"),
    ("SELECT nope(1)", "42883", "TM8125"),
    ("SELECT * FROM nope", "42P01", "TM2012"),
    ("SELECT * FROM other.spending", "42P01", "TM2012"),
    ("SELECT * FROM orders", "42P01", "TM2036"),
    ("SELECT 1 / (n - n) FROM spending", "22012", "TM8126"),
    ("SELECT 'x'::int", "22P02", "TM8126"),
    ("SELECT 'x'::date", "22P02", "TM8126"),
    ("SELECT '2024-02-30'::date", "22008", "TM8126"),
    ("SELECT to_char(1234.5, '9,999.00')", "0A000", "TM8111"),
    ("SELECT to_char(n, 'FM9G999D00') FROM spending", "0A000", "TM8111"),
    ("SELECT '{}'::json #>> ARRAY['a']", "0A000", "TM8111"),
    ("SELECT '[1]'::json #>> '{-1}'", "0A000", "TM8111"),
    ("SELECT '{}'::json #> '{a,\"b}'", "0A000", "TM8111"),
    ("SELECT 9223372036854775807 + n FROM spending", "22003", "TM8126"),
    ("SELECT ARRAY_AGG(x) FROM generate_series(1, 300000000) AS g(x)", "53200", "TM8113"),
    ("INSERT INTO spending VALUES (1)", "25006", "TM8110"),
    ("UPDATE spending SET n = 1", "25006", "TM8110"),
    ("COPY spending TO '/tmp/x'", "25006", "TM8110"),
    ("SELECT * INTO x FROM spending", "25006", "TM8110"),
    ("SELECT * FROM spending FOR UPDATE", "25006", "TM8110"),
    ("WITH x AS (DELETE FROM spending RETURNING n) SELECT * FROM x", "25006", "TM8110"),
    ("PREPARE p AS SELECT 1", "0A000", "TM8111"),
    ("EXPLAIN ANALYZE SELECT 1", "0A000", "TM8111"),
    ("SELECT '101'::bit", "0A000", "TM8111"),
    ("SET client_encoding = 'LATIN1'", "22023", "TM8119"),
    ("SHOW nope", "22023", "TM8119"),
    ("FETCH 1 FROM nope", "34000", "TM8116"),
    ("DEALLOCATE nope", "26000", "TM8116"),
    ("CREATE MATERIALIZED VIEW v AS SELECT nope FROM orders", "42703", "TM2004"),
    ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "54001", "TM8124"),
    ("SELECT " + "1 + " * 1100 + "1", "54001", "TM8124"),
    ("CREATE MATERIALIZED VIEW v AS SELECT " + "(" * 3000 + "1" + ")" * 3000, "54001", "TM2901"),
]


@pytest.mark.parametrize(("statement", "state", "number"), ERRORS, ids=[e[0][:50] for e in ERRORS])
def test_errors(server: PostgresServer, statement: str, state: str, number: str) -> None:
    with server.connect(autocommit=True, options="-c statement_timeout=60s") as connection:
        with pytest.raises(psycopg.Error) as error:
            connection.execute(statement.encode())
        assert (error.value.sqlstate, error.value.diag.message_primary or "") == (
            state,
            error.value.diag.message_primary,
        )
        assert (error.value.diag.message_primary or "").startswith(number), error.value
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_failed_transaction_ends_before_it_goes_on(server: PostgresServer) -> None:
    with server.connect() as connection:
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT * FROM nope")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction, match="TM8114"):
            connection.execute("SELECT 1")
        connection.rollback()
        connection.execute("SET application_name = 'x'")
        connection.rollback()
        assert connection.execute("SHOW application_name").fetchone() == ("",)
        connection.execute("SET LOCAL search_path = 'y'")
        connection.commit()
        assert connection.execute("SHOW search_path").fetchone() == ('"$user", public',)


ENDLESS = "SELECT SUM(a.x * b.x) FROM generate_series(1, 10000000) AS a(x), generate_series(1, 10000000) AS b(x)"


def test_cancellation(server: PostgresServer, connection: psycopg.Connection[Any]) -> None:
    timer = threading.Timer(0.3, connection.cancel_safe)
    timer.start()
    with pytest.raises(psycopg.errors.QueryCanceled, match="TM8112"):
        connection.execute(ENDLESS)
    timer.join()
    connection.cancel_safe()  # nothing runs: nothing happens
    assert connection.execute("SELECT 1").fetchone() == (1,)
    connection.execute("SET statement_timeout = '200ms'")
    with pytest.raises(psycopg.errors.QueryCanceled, match="TM8112"):
        connection.execute(ENDLESS)
    with server.connect(autocommit=True) as other:
        wrong = connection.info.backend_pid
        other.cancel_safe()
        assert wrong and other.execute("SELECT 1").fetchone() == (1,)


def test_a_stream_that_is_given_up_is_cancelled(connection: psycopg.Connection[Any]) -> None:
    rows = connection.cursor().stream("SELECT x, REPEAT('y', 1000) FROM generate_series(1, 100000000) AS g(x)")
    assert next(rows)[0] == 1
    rows.close()  # psycopg cancels it
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_statement_that_is_too_long(connection: psycopg.Connection[Any]) -> None:
    query = f"SELECT {'1 + ' * 30_000} 1"
    for attempt in (lambda: connection.execute(query), lambda: connection.execute(query, prepare=True)):
        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match=r"TM8012[\s\S]*120,009 characters"):
            attempt()


def test_the_number_of_rows_is_a_number(connection: psycopg.Connection[Any]) -> None:
    """Whatever type a client gives it: a text would be part of the query."""
    query = b"SELECT customer FROM spending ORDER BY 1 LIMIT $1"
    assert ask(connection, "query_params", query, [b"2"], [25]).ntuples == 2
    for text in (b"1; SELECT * FROM duckdb_settings()", b"(SELECT 1)", b"-1", b"1.5", "\u0661".encode()):
        assert b"TM8118" in ask(connection, "query_params", query, [text], [25]).error_message


@pytest.mark.parametrize("value", [b"1e999999999", b"1e-999999999", b"sNaN"])
def test_numbers_without_end(connection: psycopg.Connection[Any], value: bytes) -> None:
    assert b"TM8118" in ask(connection, "query_params", b"SELECT $1::numeric", [value], [1700]).error_message


def test_transactions_within_a_transaction(server: PostgresServer, connection: psycopg.Connection[Any]) -> None:
    with server.connect() as other:
        epoch = other.execute("SHOW tidemill.epoch").fetchone()
        with other.transaction():
            other.execute("SET statement_timeout = '7s'")
            with pytest.raises(psycopg.Error, match="TM8125"), other.transaction():
                other.execute("SET statement_timeout = '8s'")
                other.execute("SELECT nothing FROM spending")
            assert other.execute("SHOW statement_timeout").fetchone() == ("7s",), "the inner one is taken back"
            with other.transaction(savepoint_name="inner"):
                other.execute("SET statement_timeout = '9s'")
            assert other.execute("SHOW statement_timeout").fetchone() == ("9s",)
            server.mill.advance()
            assert other.execute("SHOW tidemill.epoch").fetchone() == epoch, "all of them read one epoch"


def test_savepoints(connection: psycopg.Connection[Any]) -> None:
    def refused(statement: str, number: str, state: str) -> None:
        with pytest.raises(psycopg.Error, match=number) as error:
            connection.execute(statement)
        assert error.value.sqlstate == state

    for statement in ("SAVEPOINT a", "RELEASE a", "ROLLBACK TO a"):
        refused(statement, "TM8115", "25P01")
    connection.execute("BEGIN")
    connection.execute("SAVEPOINT a")
    connection.execute("DECLARE first CURSOR FOR SELECT 1")
    connection.execute("SAVEPOINT A")
    connection.execute("DECLARE second CURSOR FOR SELECT 2")
    refused("SELECT nothing", "TM8125", "42703")
    refused("SAVEPOINT b", "TM8114", "25P02")
    refused("RELEASE a", "TM8114", "25P02")
    refused("ROLLBACK TO nothing", "TM8129", "3B001")
    connection.execute("ROLLBACK TRANSACTION TO SAVEPOINT a")
    assert connection.execute("FETCH first").fetchone() == (1,)
    refused("FETCH second", "TM8116", "34000")
    connection.execute("ROLLBACK TO a")
    connection.execute("RELEASE SAVEPOINT a")
    connection.execute("ROLLBACK TO a")  # the earlier one of this name
    refused("FETCH first", "TM8116", "34000")
    connection.execute("ROLLBACK TO a")
    connection.execute("RELEASE a")
    refused("RELEASE a", "TM8129", "3B001")
    connection.execute("ROLLBACK")
    refused("ROLLBACK TO a", "TM8115", "25P01")


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT", 1),
        ("SELECT WHERE false", 0),
        ("SELECT FROM spending WHERE customer < 3", 2),
        ("SELECT FROM spending ORDER BY n DESC LIMIT 1", 1),
        ("SELECT DISTINCT FROM spending", 1),
        ("(SELECT FROM spending WHERE customer = 1)", 1),
        ("SELECT UNION ALL SELECT FROM spending WHERE customer = 1", 2),
    ],
)
def test_rows_without_columns(
    server: PostgresServer, connection: psycopg.Connection[Any], query: str, rows: int
) -> None:
    for binary in (False, True):
        cursor = connection.cursor(binary=binary)
        cursor.execute(query, prepare=binary)
        assert cursor.description == [] and cursor.fetchall() == [()] * rows
    with connection.cursor().copy(f"COPY ({query}) TO STDOUT") as copy:
        assert [bytes(m) for m in copy] == [b"\n"] * rows
    assert f"({rows} row" in server.psql(query).stdout
    counted = connection.execute(f"SELECT count(*), EXISTS (SELECT FROM spending) FROM ({query}) AS q").fetchone()
    assert counted == (rows, True)
