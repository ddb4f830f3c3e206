"""Spark's parser."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tidemill.plan.catalyst.planner import planner
from tidemill.plan.sql.nesting import check_nesting


def parsed_plan(spark: SparkSession, text: str) -> Any:
    """The unresolved plan of a statement, an object of Java.

    Raises
    ------
    TidemillError
        TM2901 for a text that is nested too deeply.
    PySparkException
        For one that Spark cannot parse.
    """
    check_nesting(text)
    return planner(spark).parsed(spark._jsparkSession, text)
