"""What is asked of Spark in Java with one call each: ``planner.java``, compiled by Spark's own compiler of code."""

from __future__ import annotations

import weakref
from importlib.resources import files
from typing import Any

from pyspark.sql import SparkSession

from tidemill.plan.catalyst.sessions import java_class

_CODEGEN = "org.apache.spark.sql.catalyst.expressions.codegen."

_MADE: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""By gateway to Java: it is compiled once for all sessions."""


def planner(spark: SparkSession) -> Any:
    """The object of Java whose methods ``planner.java`` has."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    found = _MADE.get(gateway)
    if found is None:
        body = (files(__package__) / "planner.java").read_text()
        comments = java_class(spark, "scala.collection.immutable.Map$EmptyMap$")
        code = java_class(spark, f"{_CODEGEN}CodeAndComment")(body, getattr(comments, "MODULE$"))
        generated = java_class(spark, f"{_CODEGEN}CodeGenerator").compile(code)._1()
        found = _MADE[gateway] = generated.generate(gateway.new_array(java_class(spark, "java.lang.Object"), 0))
    return found
