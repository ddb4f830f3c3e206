"""DataFrames of views, which raise numbered errors when they are evaluated."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from tidemill.errors import TidemillError
from tidemill.runtime.session import java_ended, java_has_ended

_ACTIONS = ("collect", "count", "first", "foreach", "foreachPartition", "head", "isEmpty", "show", "tail", "take")
_CONVERSIONS = ("toArrow", "toPandas")


def query_failed(spark: SparkSession, error: Exception) -> TidemillError:
    """TM2016 for what Spark says of a query that failed while it ran; TM6003 where Java has ended."""
    if java_has_ended(spark.sparkContext):
        return java_ended("while a query ran")
    lines = [line.strip() for line in str(error).splitlines()]
    numbered = next((line for line in lines if "TidemillError" in line), None)
    return TidemillError(
        "TM2016",
        "the query failed while it ran",
        got=numbered or next(iter(lines), repr(error)),
        hint="the views are not affected",
    )


class NumberedFrame(DataFrame):  # type: ignore[misc]  # PySpark does not type this module
    """A DataFrame whose own actions raise TM2016 where the query fails. The cause of that is Spark's error.

    Hazard: DataFrames that are made of it (by ``filter`` and so on) are Spark's, and so are their errors.
    """


def _numbered(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: DataFrame, *given: Any, **named: Any) -> Any:
        try:
            return method(self, *given, **named)
        except (PySparkException, Py4JError) as error:
            raise query_failed(self.sparkSession, error) from error

    return call


for _name in (*_ACTIONS, *_CONVERSIONS):
    setattr(NumberedFrame, _name, _numbered(getattr(DataFrame, _name)))
