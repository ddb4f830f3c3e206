"""Every function of Spark: its own examples are planned, computed and compared, and the page says what came of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import spark_oracle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.errors import EvaluationError
from tidemill.plan.documentation.function_examples import (
    PlannedExample,
    SparkFunction,
    functions_of_spark,
    plan_examples,
)
from tidemill.schema import YEAR_MONTH, nullable_type
from tidemill.task.functions.evaluate import evaluate

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[3] / "docs" / "functions.md"
ONE_ROW = pa.RecordBatch.from_arrays([pa.nulls(1)], names=["none"])


@pytest.fixture(scope="module")
def examples(oracle: SparkSession) -> tuple[list[SparkFunction], list[PlannedExample]]:
    return plan_examples(oracle)


def test_every_function_is_on_the_page(examples: tuple[list[SparkFunction], list[PlannedExample]]) -> None:
    known, _ = examples
    assert len(known) > 500
    assert functions_of_spark(known) in PAGE.read_text(encoding="utf-8")


def test_examples_give_what_spark_gives(
    oracle: SparkSession, examples: tuple[list[SparkFunction], list[PlannedExample]]
) -> None:
    _, planned = examples
    # Spark's own answers of intervals of months cannot be had as Arrow
    planned = [example for example in planned if YEAR_MONTH not in [field.type for field in example.value.type]]
    assert len(planned) > 500
    session = oracle.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    wrong = [text for start in range(0, len(planned), 200) for text in compared(session, planned[start : start + 200])]
    assert not wrong, "\n".join(wrong)


def compared(spark: SparkSession, part: list[PlannedExample]) -> list[str]:
    """How examples differ from Spark's values; one that fails there has to fail here."""
    listed = ", ".join(f"struct({example.text}) AS e{n}" for n, example in enumerate(part))
    try:
        columns = spark.sql(f"SELECT {listed}").toArrow().columns
    except PySparkException as error:
        if len(part) > 1:
            half = len(part) // 2
            return compared(spark, part[:half]) + compared(spark, part[half:])
        with pytest.raises(EvaluationError):
            evaluate(part[0].value, ONE_ROW)
        assert error
        return []
    wrong = []
    for example, theirs in zip(part, columns, strict=True):
        mine = evaluate(example.value, ONE_ROW)
        left, right = (spark_oracle.comparable(array)[0] for array in (mine, theirs))
        if not spark_oracle.same(list(left.values()), list(right.values())):
            wrong.append(f"{example.text}: {left}, Spark {right}")
        types = [[nullable_type(field.type) for field in array.type] for array in (mine, theirs)]
        if types[0] != types[1]:
            wrong.append(f"{example.text}: {types[0]}, Spark {types[1]}")
    return wrong
