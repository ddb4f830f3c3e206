"""Column lists in Spark's notation; Spark says what they mean."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidemill.ddl import parse_columns, parse_type
from tidemill.errors import TidemillError
from tidemill.schema import type_from_spark

LISTS = (
    "a BIGINT",
    "a BIGINT NOT NULL, b STRING COMMENT 'it''s, or <is> it', `odd ``name` INT",
    "a TINYINT, b BYTE, c SMALLINT, d SHORT, e INT, f INTEGER, g LONG, h FLOAT, i REAL, j DOUBLE",
    "a DECIMAL, b DEC(5), c NUMERIC(38, 38), d decimal(12,2), e CHAR(3), f VARCHAR(12)",
    "a BOOLEAN, b BINARY, c DATE, d TIMESTAMP, e TIMESTAMP_LTZ, f TIMESTAMP_NTZ",
    "a ARRAY<INT>, b MAP<STRING, ARRAY<DECIMAL(3,1)>>",
    "c STRUCT<x: INT, `y z`: STRING NOT NULL COMMENT 'c', w MAP<INT, INT>>",
    "a ARRAY<ARRAY<STRUCT<b: ARRAY<MAP<STRING, STRING>>>>>, date DATE",
)
BAD = (
    "",
    "a",
    "a BIGINT,",
    "a BIGINT b INT",
    "a ARRAY<INT",
    "a DECIMAL(39)",
    "a DECIMAL(2,3)",
    "a INT NOT",
    "a UNKNOWN",
)


@pytest.mark.parametrize("text", LISTS)
def test_as_spark_reads_it(spark: SparkSession, text: str) -> None:
    theirs = json.loads(spark.sparkContext._jvm.org.apache.spark.sql.types.StructType.fromDDL(text).json())
    found = parse_columns(text)
    assert list(found.names) == [f["name"] for f in theirs["fields"]]
    assert list(found.types) == [type_from_spark(f["type"]) for f in theirs["fields"]]
    assert [f.nullable for f in found] == [f["nullable"] for f in theirs["fields"]]


@pytest.mark.parametrize("text", BAD)
def test_what_spark_refuses_is_refused(spark: SparkSession, text: str) -> None:
    if text:
        with pytest.raises(Exception, match=r"PARSE|DATATYPE|PRECISION|SCALE"):
            spark.sparkContext._jvm.org.apache.spark.sql.types.StructType.fromDDL(text)
    with pytest.raises(TidemillError) as raised:
        parse_columns(text)
    assert raised.value.number == "TM2020"
    assert repr(text) in raised.value.got


def test_nested_too_deep() -> None:
    with pytest.raises(TidemillError, match="TM2020"):
        parse_type("array<" * 100 + "int" + ">" * 100)
    assert parse_type("array<array<int>>") == pa.list_(pa.list_(pa.int32()))
