"""Clients reach tables and views, and nothing else of what Spark SQL can reach."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from serving import Served
from test_http import orders, write

from tidemill.plan.catalyst.reach import SUBSTITUTE, reaches_beyond, variables_in

ServeFactory = Callable[..., Served]

REFUSED = [
    "SELECT * FROM text.`/etc/hostname`",
    "SELECT 1 WHERE 'a' IN (SELECT * FROM csv.`/etc/hostname`)",
    "SELECT * FROM IDENTIFIER('text.`/etc/hostname`')",
    "DESCRIBE EXTENDED text.`/etc/hostname`",
    "EXPLAIN SELECT * FROM text.`/etc/hostname`",
    "SELECT TRANSFORM(customer) USING 'id' AS (y) FROM spending",
    "WITH a AS (FROM spending MAP customer USING 'id') SELECT (SELECT MAX(key) FROM a)",
    "SELECT java_method('java.lang.System', 'getenv', 'HOME')",
    "SELECT customer FROM spending ORDER BY system.builtin.Reflect('java.lang.System', 'getenv', 'HOME')",
    "FROM spending |> SELECT try_reflect('java.lang.System', 'exit', '1')",
    "SELECT IDENTIFIER('java_method')('java.lang.System', 'getenv', 'HOME')",
]
TAKEN = [
    "SELECT transform(array(customer), x -> x + 1) AS a FROM spending",
    "WITH a AS (SELECT customer FROM spending) SELECT COUNT(*) AS java_method FROM a JOIN spending USING (customer)",
    "SELECT s.customer, 'java_method(text.`/x`)' AS reflect FROM spending AS s CROSS JOIN range(2)",
]


@pytest.mark.parametrize("statement", REFUSED)
def test_what_reaches_further_is_refused(spark: SparkSession, statement: str) -> None:
    assert reaches_beyond(spark, statement)


def test_over_every_protocol(serve: ServeFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve(pg_port=0, pg_duckdb_bytes=0)
    write(orders(served, tmp_path), "0.csv", (1, 1.0, "I"))
    served.mill.advance()
    for statement in REFUSED:
        assert served.sql(statement, status=400)["number"] == "TM8127", statement
    for statement in TAKEN:
        assert served.sql(statement)["rows"], statement
    variable = "SELECT customer, '${env:HOME}' AS v FROM spending ORDER BY 1"
    assert served.sql(variable)["rows"] == [[1, "${env:HOME}"]]
    served.sql("CREATE MATERIALIZED VIEW home AS SELECT customer, '${env:HOME}' AS v FROM spending")
    assert "${env:HOME}" in served.mill.snapshot().catalog.views["home"].query
    address = served.server.addresses["postgresql"].replace("postgresql://", "postgresql://me@")
    with psycopg.connect(address, autocommit=True) as connection:
        found: Any = connection.execute(variable.encode()).fetchall()
        assert found == [(1, "${env:HOME}")]
        for call in ("java_method", "try_reflect"):
            query = f"SELECT {call}('java.lang.System', 'getenv', 'HOME') AS x FROM spending ORDER BY 1"
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="TM8127"):
                connection.execute(query.encode())


def test_a_session_that_replaces_variables(spark: SparkSession) -> None:
    """A program may give the mill a session of its own."""
    session = spark.newSession()
    session.conf.set(SUBSTITUTE, "true")
    assert variables_in(session, "CREATE MATERIALIZED VIEW v AS SELECT '${env:HOME}' AS x")
    assert not variables_in(session, "SELECT '$' AS x")
