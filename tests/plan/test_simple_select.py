"""Simple statements answered without Spark: the same rows in the same order as Spark gives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidemill.plan.sql.simple_select import apply_select, parse_select

TABLE = pa.table(
    {
        "k": pa.array([3, 1, None, 2, 5, 4], pa.int32()),
        "s": pa.array(["b", "a", "it's", None, "", "é"]),
        "d": pa.array([1.5, -2.0, None, 0.0, 100.25, 3.0]),
        "m": pa.array([Decimal("1.10"), None, Decimal("-3.00"), Decimal("2.20"), Decimal("0.01"), Decimal("9.99")]),
        "n": pa.array([1.0, math.nan, None, -1.0, math.nan, math.inf]),
        "Mixed": pa.array([1, 1, 2, 2, 3, 3], pa.int64()),
    }
)

SAME_AS_SPARK = [
    "SELECT * FROM v",
    "select k, s from v;",
    "SELECT k, k, mixed FROM v",
    "SELECT `k` FROM `v` WHERE k > 2",
    "SELECT k FROM v WHERE k >= 2 AND s = 'b'",
    'SELECT k FROM v WHERE s = "b"',
    "SELECT k FROM v -- comment",
    "select `k`, S from V where (K >= -3) and ((not s is null) AND d < 1e2);",
    "SELECT k FROM v WHERE k <> 2 AND k != 3 ORDER BY s DESC, k NULLS LAST LIMIT 2",
    "SELECT k FROM v WHERE s <> 'a' AND s != 'b'",
    "SELECT k FROM v WHERE k IS NULL",
    "SELECT k FROM v WHERE s IS NOT NULL AND k < 5",
    "SELECT d FROM v WHERE d > -2.0",
    "SELECT d FROM v WHERE d <= 1.5e0",
    "SELECT d FROM v WHERE d = 0",
    *(f"SELECT k FROM v WHERE n {operator} 1" for operator in ("=", "<>", "<", "<=", ">", ">=")),
    "SELECT k FROM v ORDER BY k",
    "SELECT k FROM v ORDER BY k DESC",
    "SELECT k FROM v ORDER BY k NULLS LAST",
    "SELECT k FROM v ORDER BY k DESC NULLS FIRST",
    "SELECT k, s FROM v ORDER BY s ASC, k DESC",
    "SELECT mixed, k FROM v ORDER BY mixed DESC, k LIMIT 4",
    "SELECT k FROM v WHERE k > 1 ORDER BY d DESC LIMIT 2",
    "SELECT m FROM v ORDER BY m",
    "SELECT k FROM v WHERE k = 77",
    "SELECT k FROM v ORDER BY k LIMIT 0",
]


@pytest.mark.parametrize("statement", SAME_AS_SPARK)
def test_same_answer_as_spark(statement: str, spark: SparkSession) -> None:
    select = parse_select(statement)
    assert select is not None and select.view == "v"
    parts = apply_select(select, [TABLE.slice(at, 2) for at in range(0, TABLE.num_rows, 2)])
    assert parts is not None
    found = pa.concat_tables(parts)
    session = spark.newSession()
    session.createDataFrame(TABLE).createOrReplaceTempView("v")
    expected = session.sql(statement.rstrip(";")).toArrow()
    rows, wanted = [list(map(repr, zip(*(c.to_pylist() for c in t.columns), strict=True))) for t in (found, expected)]
    if "ORDER BY" in statement:
        assert rows == wanted
    else:
        assert sorted(rows) == sorted(wanted)
    assert found.schema.types == expected.schema.types


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT k + 1 FROM v",
        "SELECT count(*) FROM v",
        "SELECT DISTINCT k FROM v",
        "SELECT k AS x FROM v",
        "SELECT v.k FROM v",
        "SELECT k FROM v, w",
        "SELECT k FROM v JOIN w",
        "SELECT k FROM v w",
        "SELECT k FROM v WHERE k > 1 OR k < 0",
        "SELECT k FROM v WHERE NOT k",
        "SELECT k FROM v WHERE k IN (1)",
        "SELECT k FROM v WHERE k = d",
        "SELECT k FROM v WHERE k = NULL",
        "SELECT k FROM v WHERE k = TRUE",
        "SELECT k FROM v WHERE 1 = k",
        "SELECT k FROM v GROUP BY k",
        "SELECT k FROM v ORDER BY 1",
        "SELECT k FROM v LIMIT 1 OFFSET 1",
        "SELECT k FROM v LIMIT ALL",
        "SELECT",
        "SELECT k FROM",
        "SELECT , k FROM v",
        "SELECT k, FROM v",
        "SELECT FROM v",
        "SELECT k FROM v WHERE k = 1 AND OR (k = 2)",
        "SELECT k FROM v WHERE",
        "SELECT k FROM v WHERE (k = 1",
        "SELECT k FROM v ORDER BY ALL",
        "SELECT k FROM v WHERE k <=> 1",
        "SELECT k FROM v LIMIT 1.5",
        "SELECT k FROM v WHERE s = 'it''s'",
        "SELECT /*+ COALESCE(1) */ k FROM v",
        "SELECT DISTINCT k FROM v",
        "SELECT k FROM v x",
        "SELECT k FROM a.v",
        "SELECT k AS l FROM v",
        "SELECT v.k FROM v",
        "SELECT *, k FROM v",
        "SELECT * EXCEPT (k) FROM v",
        "SELECT k FROM v WHERE k = 5L",
        "SELECT k FROM v WHERE s LIKE 'a%'",
        "SELECT k FROM v WHERE k = -'1'",
        "SELECT k FROM v LIMIT -1",
        "SELECT k FROM v TABLESAMPLE (5 ROWS)",
        "SELECT k FROM v; SELECT k FROM v",
        "(" * 5000 + "SELECT k FROM v",
        "SELECT k FROM range(5)",
        "SELECT k FROM v WHERE s = 'a\\'b'",
        "DROP VIEW v",
        "",
    ],
)
def test_other_statements_are_left_to_spark(statement: str) -> None:
    assert parse_select(statement) is None


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT nothing FROM v",
        "SELECT k FROM v WHERE nothing = 1",
        "SELECT k FROM v ORDER BY nothing",
        "SELECT k FROM v WHERE k = '1'",
        "SELECT k FROM v WHERE s = 1",
        "SELECT k FROM v WHERE k = 1.5",
        "SELECT k FROM v WHERE m > 1",
        "SELECT k FROM v WHERE k = 99999999999",
    ],
)
def test_what_needs_a_cast_or_does_not_resolve_is_left_to_spark(statement: str) -> None:
    select = parse_select(statement)
    assert select is not None
    assert apply_select(select, [TABLE]) is None


def test_the_order_of_nan_is_left_to_spark() -> None:
    select = parse_select("SELECT d FROM n ORDER BY d")
    assert select is not None
    assert apply_select(select, [pa.table({"d": [1.0]}), pa.table({"d": [math.nan]})]) is None


@pytest.mark.parametrize("statement", ["SELECT * FROM n", "SELECT d FROM n WHERE d > 0", "SELECT d FROM n LIMIT 3"])
def test_rows_are_asked_for_one_part_at_a_time(statement: str) -> None:
    asked = []

    def parts() -> Iterator[pa.Table]:
        for number in range(1, 5):
            asked.append(number)
            yield pa.table({"d": [number, -number, number + 1]})

    select = parse_select(statement)
    assert select is not None
    found = apply_select(select, parts())
    assert found is not None
    assert next(found)["d"][0].as_py() == 1
    assert asked == [1]
    rest = list(found)
    assert asked == ([1] if "LIMIT" in statement else [1, 2, 3, 4])
    assert len(rest) == len(asked) - 1
