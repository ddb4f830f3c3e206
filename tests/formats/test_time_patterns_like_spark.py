"""Spark's datetime patterns: values against Spark's own CSV reader, and which patterns it refuses."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
from column_parsing import MALFORMED, parse
from pattern_texts import pattern_of, text_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions

from tidemill.formats.values.time_pattern import compile_pattern
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ

_EPOCH = dt.datetime(1970, 1, 1)
_FIRST, _LAST = -719_162 * 86_400_000_000, 2_932_897 * 86_400_000_000 - 1
_NAMES = {"TIMESTAMP": TIMESTAMP, "TIMESTAMP_NTZ": TIMESTAMP_NTZ, "DATE": pa.date32()}
_ONLY_SPARKS = ("is not supported", "are not supported", "full names")


def _micros(value: object) -> int | None:
    if value == MALFORMED:
        return None
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - _EPOCH) // dt.timedelta(microseconds=1)
    assert isinstance(value, dt.date)
    return (dt.datetime.combine(value, dt.time()) - _EPOCH) // dt.timedelta(microseconds=1)


def _compiles(pattern: str) -> bool | None:
    """Whether a pattern is understood; None for one that only Spark understands."""
    try:
        compile_pattern(pattern)
    except ValueError as error:
        return None if any(reason in str(error) for reason in _ONLY_SPARKS) else False
    return True


def test_values_like_spark(spark: SparkSession, seed: int):
    chosen = random.Random(seed)
    patterns: list[str] = []
    while len(patterns) < 30:
        pattern = pattern_of(chosen)
        if pattern not in patterns and _compiles(pattern):
            patterns.append(pattern)
    # Short names of zones are fewer here, and a text that was changed may be one of the others.
    texts = [(number, text_of(chosen, pattern)) for number, pattern in enumerate(patterns) for _ in range(25)]
    rows = [(number, text) for number, text in texts if "z" not in patterns[number] or "GMT" not in text]
    frame = spark.createDataFrame(rows, "number INT, text STRING").coalesce(1)
    columns = []
    for name in _NAMES:
        read = functions.lit(None).cast("BIGINT")
        for number, pattern in enumerate(patterns):
            names = ("timestampFormat", "timestampNTZFormat", "dateFormat")
            options = {**dict.fromkeys(names, pattern), "sep": "\x01", "quote": ""}
            value = functions.from_csv("text", f"v {name}", options)["v"].cast("TIMESTAMP")
            read = functions.when(functions.col("number") == number, functions.unix_micros(value)).otherwise(read)
        columns.append(read.alias(name))
    found = frame.select("number", "text", *columns).collect()
    fitting = 0
    for number, pattern in enumerate(patterns):
        mine = [row for row in found if row["number"] == number]
        for name, type_ in _NAMES.items():
            expected = [row[name] if row[name] is not None and _FIRST <= row[name] <= _LAST else None for row in mine]
            values = parse(type_, [row["text"].encode() for row in mine], pattern)
            assert [_micros(value) for value in values] == expected, (name, pattern, [row["text"] for row in mine])
            fitting += sum(value is not None for value in expected)
    assert fitting > 300


def test_patterns_that_spark_refuses(spark: SparkSession):
    letters = "adDEFgGhHkKLmMnNOpqQsSuvVwWxXyYzZ"
    patterns = [letter * count for letter in letters for count in (1, 2, 3, 4, 5, 6)]
    patterns += ["yyyyyyy", "S" * 10, "yyyy]", "[yyyy", "{", "#", "'open", "yyyy''", "T", "y'T'", "S'x", "[[M]d]"]
    formatter = spark._jvm.org.apache.spark.sql.catalyst.util.TimestampFormatter
    zone = spark._jvm.java.time.ZoneOffset.UTC
    for pattern in patterns:
        try:
            formatter.apply(pattern, zone, True).validatePatternString(False)
            fits = True
        except (PySparkException, Py4JJavaError):
            fits = False
        assert _compiles(pattern) in (None, fits), pattern
