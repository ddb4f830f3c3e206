"""Every listed SQL expression gives what Spark gives, and fails where Spark fails."""

from __future__ import annotations

import expressions_sql
import pytest
import spark_oracle
from pyspark.sql import SparkSession

from tidemill.errors import EvaluationError
from tidemill.task.expressions import Expression
from tidemill.task.functions.evaluate import can_fail, evaluate


@pytest.mark.parametrize("family", list(expressions_sql.FAMILIES))
def test_same_values_and_types_as_spark(oracle: SparkSession, family: str) -> None:
    sqls = expressions_sql.listed(family)
    # What can fail is compared on rows that do not make it fail; the rest on the extreme rows.
    grouped: dict[str, list[tuple[str, Expression]]] = {"edge": [], "mild": []}
    for sql, expression in zip(sqls, spark_oracle.plan(oracle, sqls), strict=True):
        grouped["mild" if can_fail(expression) else "edge"].append((sql, expression))
    found: list[str] = []
    for kind, pairs in grouped.items():
        if not pairs:
            continue
        batch = spark_oracle.rows(kind)
        expected = spark_oracle.answers(oracle, kind, [sql for sql, _ in pairs])
        for column, (sql, expression) in enumerate(pairs):
            found += spark_oracle.differences(sql, expression, batch, expected.column(column))
    assert not found, "\n".join(found)


def test_at_least_250_expressions_are_compared() -> None:
    assert sum(len(expressions_sql.listed(family)) for family in expressions_sql.FAMILIES) >= 250


@pytest.mark.parametrize(("number", "sql"), expressions_sql.FAILURES)
def test_fails_where_spark_fails(oracle: SparkSession, number: str, sql: str) -> None:
    with pytest.raises(Exception, match=r"SQLSTATE|Illegal sequence|same length|SparkException"):
        spark_oracle.answers(oracle, "edge", [sql])
    [expression] = spark_oracle.plan(oracle, [sql])
    assert can_fail(expression)
    with pytest.raises(EvaluationError) as caught:
        evaluate(expression, spark_oracle.rows("edge"))
    assert caught.value.number == number
    assert caught.value.got
