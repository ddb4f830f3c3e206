"""DuckDB and Spark answer queries alike; which one does is decided by sizes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer
from sqlglot import exp

from tidemill.serve.postgres.query.choosing import keeps_no_rows
from tidemill.serve.postgres.query.parsing import parse_query

QUERIES = [
    "SELECT * FROM spending",
    "SELECT customer, amount * 2 AS twice FROM spending WHERE n > 1 OR amount < 1",
    "SELECT name, SUM(amount) AS total FROM customers JOIN spending USING (customer) GROUP BY name ORDER BY total DESC",
    "SELECT COUNT(*), MAX(amount), MIN(customer) FROM spending",
    "SELECT a.customer, b.customer FROM spending a LEFT JOIN spending b ON a.customer = b.customer + 1",
    "SELECT customer FROM spending UNION ALL SELECT n FROM spending",
    "SELECT customer FROM spending EXCEPT SELECT 2",
    "WITH top AS (SELECT * FROM spending ORDER BY amount DESC LIMIT 2) SELECT t.customer FROM top t",
    "SELECT customer, ROW_NUMBER() OVER (ORDER BY amount) AS r FROM spending",
    "SELECT id, flag, tiny, small, big, real, double, price, name, data, day, at, local FROM everything",
    "SELECT id, numbers, words FROM everything",
    "SELECT customer / 2 AS half, -customer / 2 AS minus, customer % 2 AS rest FROM spending",
    "SELECT (SELECT MAX(amount) FROM spending s WHERE s.customer <= c.customer) AS m FROM customers c",
    "SELECT UPPER(name) AS u, LENGTH(name) AS l, name || '!' AS b FROM customers WHERE name LIKE 'c%'",
    "SELECT day, EXTRACT(year FROM at) AS y, CAST(at AS date) AS d FROM everything WHERE id = 1",
    "SELECT customer FROM spending WHERE customer IN (SELECT customer FROM customers WHERE name <> 'c1')",
    "SELECT id FROM everything ORDER BY double DESC, id",
    "SELECT id FROM everything ORDER BY day, id LIMIT 3",
    "SELECT COALESCE(name, 'none') AS n, CASE WHEN flag THEN 1 ELSE 0 END AS c FROM everything",
    "SELECT DISTINCT n FROM spending",
    "SELECT * FROM spending WHERE amount > 2.6 AND customer = ANY(ARRAY[1, 2])",
]


@pytest.fixture(scope="module")
def by_spark(start: Any) -> Iterator[psycopg.Connection[Any]]:
    server = start(pg_duckdb_bytes=0)
    server.fill()
    with server.connect(autocommit=True) as opened:
        yield opened


def answer(connection: psycopg.Connection[Any], query: str, binary: bool) -> tuple[Any, list[str]]:
    cursor = connection.cursor(binary=binary)
    cursor.execute(query)
    rows = [tuple(_comparable(v) for v in row) for row in cursor.fetchall()]
    ordered = "ORDER BY" in query and "OVER" not in query and "top" not in query
    return rows if ordered else Counter(rows), [c.name for c in cursor.description or ()]


def _comparable(value: Any) -> Any:
    if isinstance(value, float | list):
        return repr(value)
    return value.normalize() if isinstance(value, Decimal) else value


@pytest.mark.parametrize("form", ["text", "csv, HEADER", "binary"])
def test_copies_are_alike(connection: psycopg.Connection[Any], by_spark: psycopg.Connection[Any], form: str) -> None:
    statement = f"COPY (SELECT customer, n, amount FROM spending ORDER BY customer) TO STDOUT (FORMAT {form})"
    found = []
    for asked in (connection, by_spark):
        with asked.cursor().copy(statement) as copy:
            found.append([bytes(message) for message in copy])
    assert found[0] == found[1] and len(found[0]) >= 3
    with by_spark.cursor().copy("COPY (SELECT FROM everything) TO STDOUT") as copy:
        assert [bytes(message) for message in copy] == [b"\n"] * 5


@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_alike(connection: psycopg.Connection[Any], by_spark: psycopg.Connection[Any], query: str) -> None:
    if not keeps_no_rows(parse_query(query)):
        assert by_spark.execute(f"EXPLAIN {query}").fetchall()[0][0].startswith("Spark answers")
    assert connection.execute(f"EXPLAIN {query}").fetchall()[0][0].startswith("DuckDB answers")
    expected = answer(connection, query, False)
    assert (
        answer(connection, query, True) == answer(by_spark, query, False) == answer(by_spark, query, True) == expected
    )


def test_spark_describes_and_streams(by_spark: psycopg.Connection[Any]) -> None:
    query = "SELECT a.customer, SUM(b.n) AS n FROM spending a, spending b WHERE a.amount > %s GROUP BY a.customer"
    for _ in range(2):
        found = by_spark.execute(query, (Decimal("2.6"),), prepare=True).fetchall()
        assert sorted(found) == [(1, 4), (2, 4)]
    with by_spark.transaction(), by_spark.cursor("c") as cursor:
        cursor.itersize = 2
        cursor.execute("SELECT customer FROM spending ORDER BY amount")
        assert list(cursor) == [(3,), (2,), (1,)]
    with pytest.raises(psycopg.Error, match="TM2004"):
        by_spark.execute("SELECT nope FROM spending ORDER BY 1")
    with pytest.raises(psycopg.Error, match="TM2016"):
        by_spark.execute("SELECT SUM(1 / (n - n)) FROM spending")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="TM8111"):
        by_spark.execute("SELECT COUNT(*) FROM spending, pg_class")
    assert by_spark.execute("SELECT COUNT(*) FROM pg_class WHERE relname = 'spending'").fetchone() == (1,)


def test_spark_is_cancelled(by_spark: psycopg.Connection[Any]) -> None:
    endless = (
        "SELECT SUM("
        + " * ".join(f"a{i}.n" for i in range(26))
        + ") FROM "
        + ", ".join(f"spending a{i}" for i in range(26))
    )
    timer = threading.Timer(3, by_spark.cancel_safe)
    timer.start()
    with pytest.raises(psycopg.errors.QueryCanceled, match="TM8112"):
        by_spark.execute(endless)
    timer.join()
    assert by_spark.execute("SELECT COUNT(*) FROM spending").fetchone() == (3,)


@pytest.mark.parametrize(
    ("query", "streams"),
    [
        ("SELECT * FROM v", True),
        ("SELECT a + 1 FROM v WHERE b > 2 LIMIT 5 OFFSET 2", True),
        ("SELECT a FROM v ORDER BY a LIMIT 100", True),
        ("SELECT a FROM v ORDER BY a LIMIT 100000", False),
        ("SELECT a FROM v ORDER BY a", False),
        ("SELECT COUNT(*) FROM v", False),
        ("SELECT DISTINCT a FROM v", False),
        ("SELECT a FROM v GROUP BY a", False),
        ("SELECT a FROM v, w", False),
        ("SELECT a FROM v WHERE a IN (SELECT b FROM w)", False),
        ("SELECT RANK() OVER (ORDER BY a) FROM v", False),
        ("SELECT a FROM v UNION ALL SELECT a FROM v", False),
        ("WITH w AS (SELECT * FROM v) SELECT * FROM w", False),
    ],
)
def test_what_keeps_no_rows(query: str, streams: bool) -> None:
    tree = parse_query(query)
    assert isinstance(tree, exp.Query)
    assert keeps_no_rows(tree) is streams


def test_memory_is_limited(start: Any) -> None:
    server: PostgresServer = start(pg_memory_bytes=64 << 20)
    server.fill()
    with server.connect(autocommit=True) as connection:
        with pytest.raises(psycopg.errors.OutOfMemory, match="TM8113"):
            connection.execute("SELECT ARRAY_AGG(x) FROM generate_series(1, 100000000) AS g(x)")
        rows = connection.cursor().stream("SELECT REPEAT('x', 10000) FROM generate_series(1, 20000) AS g(x)")
        assert sum(len(row[0]) for row in rows) == 200_000_000  # more than the limit, but not at once
