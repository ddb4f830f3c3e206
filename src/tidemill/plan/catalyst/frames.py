"""DataFrames as queries: marks of their leaves, and their plans in another session.

A DataFrame over a table or view of a mill has a leaf of its own, an RDD whose name is that of the relation.
Spark keeps the RDD through every transformation, self-joins included, so the leaf is recognised in the plan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidemill.errors import TidemillError
from tidemill.plan.catalyst.parsing import parsed_plan
from tidemill.plan.catalyst.sessions import java_class
from tidemill.plan.sql.numbered import deeply_nested
from tidemill.plan.sql.statement_words import no_query
from tidemill.schema import Schema
from tidemill.zones import same_zone

_PYTHON = re.compile(
    r'"class":"[\w.]*\.(PythonUDAF|PythonUDTF|ScalaUDF|ScalaUDAF|PythonMapInArrow|MapInArrow|MapInPandas)"'
)
_NAMED = re.compile(r'"class":"[\w.]*\.(?:PythonUDAF|ScalaUDF)"[^}]*?"name":"([^"]*)"')
_ZONE = re.compile(r'"timeZoneId":"([^"]+)"')


def java_struct(spark: SparkSession, schema: Schema) -> Any:
    """A schema as Spark has it, NOT NULL included, in Java."""
    return java_class(spark, "org.apache.spark.sql.types.StructType").fromDDL(schema.to_ddl())


def struct(spark: SparkSession, schema: Schema) -> StructType:
    """A schema as Spark has it, NOT NULL included."""
    return StructType.fromJson(json.loads(java_struct(spark, schema).json()))


def check_reads(session: SparkSession, text: str) -> None:
    """TM2024 for ``WITH ... INSERT`` and ``FROM ... INSERT``, TM2901 for what overflows Spark's stack.

    The analyser reports what cannot be parsed.
    """
    with suppress(PySparkException), deeply_nested():
        if "plans.logical.Insert" in parsed_plan(session, text).toJSON():
            raise no_query(text)


def unreadable_frame(spark: SparkSession, name: str, columns: StructType, mark: str) -> DataFrame:
    """A DataFrame that queries of a relation are built on; it fails with TM1034 when it is executed."""
    rows = spark.sparkContext.parallelize([0], 1).mapPartitions(partial(_refuse, name))
    frame = spark.createDataFrame(rows, columns, verifySchema=False)
    frame._jdf.queryExecution().analyzed().collectLeaves().apply(0).rdd().setName(mark)
    return frame.alias(name)


def marked_frame(frame: DataFrame, name: str, schema: Schema, mark: str) -> DataFrame:
    """The rows of ``frame``, with a leaf that is recognised in queries."""
    session = frame.sparkSession
    rows = frame._jdf.queryExecution().toRdd()
    rows.setName(mark)
    frame = session._jsparkSession.internalCreateDataFrame(rows, java_struct(session, schema), False)
    return DataFrame(frame, session).alias(name)


def moved(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """The same query in another session, to be optimised by the settings of that one."""
    plan = frame._jdf.queryExecution().analyzed()
    dataset = java_class(spark, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(spark._jsparkSession, plan), spark)


def check_python(text: str) -> None:
    """TM2107 when an analysed plan, as JSON, calls a user's function that is not supported."""
    found = _PYTHON.search(text)
    if found is not None:
        named = _NAMED.search(text)
        raise TidemillError(
            "TM2107",
            "a view cannot call a function written by the user",
            got=named[1] if named else found[1],
            hint="a scalar function in Python is supported: F.udf, F.pandas_udf, F.arrow_udf, Mill.register_function",
        )


def check_settings(text: str, time_zone: str) -> None:
    """TM2017 when a DataFrame was analysed with another time zone than the mill has."""
    for zone in dict.fromkeys(_ZONE.findall(text)):
        if not same_zone(zone, time_zone):
            raise TidemillError(
                "TM2017",
                "a DataFrame for a view must be built with the time zone of the mill",
                got=f"{zone}, and the mill has {time_zone}",
                hint=f"set spark.sql.session.timeZone to {time_zone} before building it",
            )


def description(frame: DataFrame) -> str:
    """The analysed plan as text, without the ids that differ from run to run."""
    tree = frame._jdf.queryExecution().analyzed().treeString()
    return "DataFrame\n" + re.sub(r"#\d+L?", "", str(tree)).rstrip()


def _refuse(name: str, numbers: Iterable[int]) -> Iterator[Any]:
    raise TidemillError(
        "TM1034",
        "this DataFrame has rows that cannot be read directly",
        got=name,
        hint=f"create a view over {name} and read that",
    )
